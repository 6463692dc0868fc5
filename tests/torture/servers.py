"""(d) A JobManager, a History Server, a store and a broker that are killed, hung, slow or lie, before each command."""

import gzip
import io
import json
import random
import re
import shutil
import signal
import socket
import struct
import tarfile
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ..golden.answers import Answers
from .parsers import CORPUS
from .processes import ENDS_WITHIN_S, Command, home
from .real_servers import REAL, real_server
from .rounds import expect

FLINK = Path(__file__).parent.parent / "golden" / "inputs" / "flink.tar.xz"
JOB = "orders"
INTRUDER, INTRUDER_ID = "intruder", "d" * 32
MAX_MEMORY_MB = 500
"""The most that a command may need (resident): it needs about 80 with an honest server."""
LOOKS_S = 6.0
"""How long a command may look that does not end by itself."""
CHANGES_WITHIN_S = 240.0
"""How long the fleet may take to notice that a server fails, or answers again: at most 60 s, on an idle machine."""
MAX_LINES, MAX_LINE = 6, 1_200
ENDLESS = 300 << 20
"""What is sent at most of an answer without an end: more than any bound of wmtop, less than this machine has."""


class Answer(NamedTuple):
    """An honest answer."""

    status: int
    type: str
    body: bytes


class Flink:
    """The recorded answers of a real JobManager, as if its job had begun now."""

    address = "flink://{}/" + JOB

    def __init__(self) -> None:
        with tarfile.open(FLINK) as tar:
            file = tar.extractfile(f"flink/{JOB}.jsonl")
            assert file is not None
            lines = [json.loads(line) for line in file]
        self._answers, self._first_ms = Answers(lines), lines[0]["at_ms"]
        self.restart()

    def restart(self) -> None:
        self._began_ms = _now_ms()

    def answer(self, path: str) -> Answer:
        ahead_ms = self._began_ms - self._first_ms
        status, body = self._answers.at(path, _now_ms() - ahead_ms)
        text = re.sub(rf"\b{str(self._first_ms)[:4]}\d{{9}}\b", lambda ms: str(int(ms[0]) + ahead_ms), json.dumps(body))
        return Answer(status or 503, "application/json", text.encode())


class History:
    """A Spark History Server with a real event log."""

    address = "spark+http://{}/app-1"

    def __init__(self) -> None:
        app = {"id": "app-1", "name": "shop", "attempts": [{"completed": False, "logSourceName": "file:/logs"}]}
        log = io.BytesIO()
        with zipfile.ZipFile(log, "w") as archive:
            archive.writestr("app-1.inprogress", (CORPUS / "spark event log" / "0").read_bytes())
        self._answers = {
            "/api/v1/applications": Answer(200, "application/json", json.dumps([app]).encode()),
            "/api/v1/applications/app-1": Answer(200, "application/json", json.dumps(app).encode()),
            "/api/v1/applications/app-1/logs": Answer(200, "application/octet-stream", log.getvalue()),
        }

    def restart(self) -> None:
        pass

    def answer(self, path: str) -> Answer:
        return self._answers.get(path.partition("?")[0], Answer(404, "text/plain", b"no such app"))


class Nothing:
    """No honest answer: every one of them is no Kafka, no store."""

    def __init__(self, address: str) -> None:
        self.address = address

    def restart(self) -> None:
        pass

    def answer(self, path: str) -> Answer:
        return Answer(404, "text/plain", b"there is nothing here")


class Server:
    """A TCP server whose answers are as `mode` makes them; `path` picks what it answers badly."""

    def __init__(self) -> None:
        self.service: Any = Nothing("")
        self.mode: Callable[[socket.socket, Answer, random.Random], None] = honest
        self.chance = random.Random(0)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError, ValueError), connection:
            connection.settimeout(60)
            asked = b""
            while b"\r\n\r\n" not in asked and (data := connection.recv(65_536)):
                asked += data
                if not re.match(rb"[A-Z]+ ", asked):
                    break  # no HTTP
            found = re.match(rb"[A-Z]+ (\S+)", asked)
            path = found[1].decode() if found else ""
            self.mode(connection, self.service.answer(path), self.chance)


def honest(connection: socket.socket, answer: Answer, chance: random.Random) -> None:
    head = f"HTTP/1.1 {answer.status} X\r\nContent-Type: {answer.type}\r\nContent-Length: {len(answer.body)}\r\n"
    connection.sendall(head.encode() + b"Connection: close\r\n\r\n" + answer.body)


def refuses(connection: socket.socket, answer: Answer, chance: random.Random) -> None:
    pass


def resets(connection: socket.socket, answer: Answer, chance: random.Random) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def hangs(connection: socket.socket, answer: Answer, chance: random.Random) -> None:
    while connection.recv(65_536):  # until the client or its timeout ends it
        pass


def drips(connection: socket.socket, answer: Answer, chance: random.Random) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {answer.type}\r\nContent-Length: 1000000\r\n\r\n".encode()
    for byte in head + b" " * 1_000_000:
        connection.sendall(bytes([byte]))
        time.sleep(0.1)


def cut(connection: socket.socket, answer: Answer, chance: random.Random) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {answer.type}\r\nContent-Length: {len(answer.body)}\r\n\r\n"
    connection.sendall(head.encode() + answer.body[: len(answer.body) // 2])


def too_short(connection: socket.socket, answer: Answer, chance: random.Random) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {answer.type}\r\nContent-Length: {len(answer.body) // 2}\r\n\r\n"
    connection.sendall(head.encode() + answer.body)


def bad_length(connection: socket.socket, answer: Answer, chance: random.Random) -> None:
    length = chance.choice(("-1", "99999999999999999999", "x", "", "1, 2"))
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {answer.type}\r\nContent-Length: {length}\r\n\r\n"
    connection.sendall(head.encode() + b"<html>")


def html(connection: socket.socket, answer: Answer, chance: random.Random) -> None:
    honest(connection, Answer(200, "text/html", b"<html><body>please log in</body></html>"), chance)


def html_as_it_should_be(connection: socket.socket, answer: Answer, chance: random.Random) -> None:
    honest(connection, Answer(200, answer.type, b"<html><body>please log in</body></html>"), chance)


def wrong_shape(connection: socket.socket, answer: Answer, chance: random.Random) -> None:
    bodies = (b"", b"null", b"[]", b"{}", b'"x"', b"7", b"[" * 100_000, b'{"jobs":{}}', b"\xff\xfe", b"[{}]", b"NaN")
    honest(connection, Answer(200, answer.type, chance.choice(bodies)), chance)


def errors(connection: socket.socket, answer: Answer, chance: random.Random) -> None:
    status = chance.choice((400, 401, 403, 404, 418, 429, 500, 502, 503, 599, 999, 100, 204, 304))
    honest(connection, Answer(status, answer.type, chance.choice((b"", b"{}", b"\0\x1b[31m" * 99))), chance)


def redirects(connection: socket.socket, answer: Answer, chance: random.Random) -> None:
    where = chance.choice(("/", "//[::1", "file:///etc/passwd", "http://127.0.0.1:1/", "x" * 9_000))
    connection.sendall(f"HTTP/1.1 302 Found\r\nLocation: {where}\r\nContent-Length: 0\r\n\r\n".encode())


def endless_body(connection: socket.socket, answer: Answer, chance: random.Random) -> None:
    connection.sendall(f"HTTP/1.1 200 OK\r\nContent-Type: {answer.type}\r\n\r\n[".encode())
    _pour(connection, b'{"id": "a", "value": "1"},' * 4_000)


def endless_header(connection: socket.socket, answer: Answer, chance: random.Random) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    _pour(connection, chance.choice((b"X: " + b"x" * 50 + b"\r\n", b"x")) * 4_000)


def bomb(connection: socket.socket, answer: Answer, chance: random.Random) -> None:
    packed = gzip.compress(b"[" + b" " * (200 << 20))
    head = f"Content-Type: {answer.type}\r\nContent-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n"
    connection.sendall(b"HTTP/1.1 200 OK\r\n" + head.encode() + packed)


def garbage(connection: socket.socket, answer: Answer, chance: random.Random) -> None:
    first = chance.choice((b"", b"\x7f\xff\xff\xff", b"\0\0\0\0", b"\xff\xff\xff\xff", b"\0\0\0\x08"))
    connection.sendall(first + chance.randbytes(chance.choice((3, 40, 4_000))))


def other_job(connection: socket.socket, answer: Answer, chance: random.Random) -> None:
    """Answers about another job: an address that was given to another cluster."""
    body = re.sub(rb'"(jid|id)": "[0-9a-f]{32}"', b'"\\1": "' + INTRUDER_ID.encode() + b'"', answer.body)
    body = body.replace(JOB.encode(), INTRUDER.encode()).replace(b'"app-1"', b'"intruder"')
    honest(connection, answer._replace(body=body), chance)


def odd_numbers(connection: socket.socket, answer: Answer, chance: random.Random) -> None:
    """Numbers that go back, are negative, huge or none at all."""

    def other(number: "re.Match[bytes]") -> bytes:
        if chance.random() < 0.7:
            return number[0]
        back = b"%d" % (int(number[0]) - chance.randrange(10**6))
        return chance.choice((back, b"-1", b"9" * 400, b"1e400", b"-9223372036854775809", b"null", b"0.5", b'"NaN"'))

    honest(connection, answer._replace(body=re.sub(rb"\b\d{1,18}\b", other, answer.body)), chance)


def _pour(connection: socket.socket, piece: bytes) -> None:
    sent = 0
    while sent < ENDLESS:
        connection.sendall(piece)
        sent += len(piece)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


NO_ANSWERS = (
    refuses, resets, hangs, drips, cut, too_short, bad_length, html, html_as_it_should_be, wrong_shape, errors,
    redirects, endless_body, endless_header, bomb, garbage,
)  # fmt: skip
"""Nothing is known of what answers like this."""
LIES = (other_job, odd_numbers)
SERVICES: dict[str, Callable[[], Any]] = {
    "JobManager": Flink,
    "History Server": History,
    "S3": lambda: Nothing("s3://bucket/checkpoint"),
    "broker": lambda: Nothing("kafka://{}/orders"),
}
COMMANDS = {
    "check": ("check TARGET --json --for 5s", {2, 3}),
    "check in words": ("check TARGET --for 5s", {2, 3}),
    "attach --once": ("attach TARGET --once --json", {0, 1, 2}),
    "attach": ("attach TARGET --headless", {0, 1, 2, 143}),
    "watch": ("watch TARGET", {0, 1, 2, -signal.SIGTERM}),
    "export": ("export TARGET --json --once", {0, 2}),
    "fleet": ("--json --once", {0}),
    "report": ("report TARGET --out report.zip", {0, 1, 2}),
}
"""Each command, and its exit codes for what does not answer (cli.md)."""
SWITCHES = 0.2
"""The share of rounds in which the fleet watches a JobManager that fails and comes back."""
REALS = 0.04
"""The share of rounds with a real server, which takes a minute to start."""


class Torture:
    """The server, and the directory of the command that runs."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "round"
        self._server = Server()

    def close(self) -> None:
        self._server.close()

    def round(self, chance: random.Random, counts: Counter[str]) -> None:
        """One command before one bad server, or the fleet before one that fails and comes back."""
        shutil.rmtree(self._directory, ignore_errors=True)
        self._directory.mkdir()
        self._server.chance = random.Random(chance.random())
        drawn = chance.random()
        if drawn < SWITCHES:
            self._fails_and_returns(chance, counts)
        elif drawn > 1 - REALS:
            self.real(chance, counts)
        else:
            self._command(chance, counts)

    def _command(self, chance: random.Random, counts: Counter[str]) -> None:
        service, name = chance.choice(sorted(SERVICES)), chance.choice(sorted(COMMANDS))
        mode = chance.choice(NO_ANSWERS if service in ("S3", "broker") else (*NO_ANSWERS, *LIES))
        self._server.service, self._server.mode = SERVICES[service](), mode
        text, codes = COMMANDS[name]
        what = f"{service} that does this: {mode.__name__}; {name}"
        command = self._start(text)
        memory = [0.0]
        try:
            if name in ("attach", "watch"):
                ended = command.wait(LOOKS_S, lambda: _note_memory(command, memory))
                if not ended:
                    command.process.send_signal(signal.SIGTERM)
            expect(
                command.wait(ENDS_WITHIN_S, lambda: _note_memory(command, memory)),
                f"{what}: it does not end within {ENDS_WITHIN_S:g} s\n{command.said()[-1_500:]}",
            )
        finally:
            command.end()
        _check_words(what, command)
        expect(memory[0] < MAX_MEMORY_MB, f"{what}: {memory[0]:.0f} MB")
        printed = command.out.read_text(errors="replace")
        expect(INTRUDER not in printed, f"{what}: another job\n{command.said()[-1_500:]}")
        if mode in NO_ANSWERS:
            expect(command.code in codes, f"{what}: exit code {command.code}\n{command.said()[-1_500:]}")
            moving = re.search(r'"verdict": ?"moving"|● MOVING', command.said())
            expect(moving is None, f"{what}: shown as moving\n{command.said()[-1_500:]}")
        counts["commands"] += 1
        counts[f"before a {service}"] += 1
        counts[f"exit code {command.code}"] += 1
        counts["most memory of a command (MB)"] = max(counts["most memory of a command (MB)"], int(memory[0]))

    def _fails_and_returns(self, chance: random.Random, counts: Counter[str]) -> None:
        mode = chance.choice(NO_ANSWERS)
        self._server.service, self._server.mode = Flink(), honest

        def fail() -> None:
            self._server.mode = mode

        def go_on() -> None:
            self._server.service.restart()
            self._server.mode = honest

        what = f"a JobManager that does this for a while: {mode.__name__}"
        self._notices(self._start("export TARGET --json"), what, fail, go_on, counts)

    def real(self, chance: random.Random, counts: Counter[str]) -> None:
        """The fleet before a real broker, JobManager or History Server that is suspended, and one that is killed."""
        kind = chance.choice(sorted(REAL))
        with real_server(self._directory / "real", REAL[kind]) as server:
            blows = {
                "suspended": (lambda: server.signal(signal.SIGSTOP), lambda: server.signal(signal.SIGCONT)),
                "killed": (server.kill, server.restart),
            }
            for blow in chance.sample(sorted(blows), 2):
                command = self._start("export bad --json", server.address, server.query)
                self._notices(command, f"a real {kind} that is {blow}", *blows[blow], counts)

    def _notices(
        self, command: Command, what: str, fail: Callable[[], object], go_on: Callable[[], object], counts: Counter[str]
    ) -> None:
        """That a server fails, and that it answers again."""
        try:
            self._until(command, f"{what}: it never answered", _is_known)
            began = time.monotonic()
            fail()
            self._until(command, f"{what}: not noticed", lambda row: not _is_known(row))
            failed_s = time.monotonic() - began
            go_on()
            began = time.monotonic()
            self._until(command, f"{what}: it answers again, not noticed", _is_known)
            returned_s = time.monotonic() - began
        finally:
            command.end()
        _check_words(what, command)
        kind = what.partition(":")[0]
        counts[f"{kind}: fails and returns"] += 1
        counts[f"{kind}: fails, noticed after (s, the sum)"] += round(failed_s)
        counts[f"{kind}: returns, noticed after (s, the sum)"] += round(returned_s)

    def _start(self, text: str, target: str = "", query: str = "") -> Command:
        """The command, in a home whose configuration and environment know the server, or another target, as `bad`."""
        target = target or self._server.service.address.format(self._server.address)
        of_query = f'query = "{query}"\n' if query else ""
        (self._directory / "config.toml").write_text(f'[targets.bad]\nattach = "{target}"\n{of_query}')
        store = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "here"}
        store["AWS_ENDPOINT_URL"] = f"http://{self._server.address}"
        environment = home(self._directory) | store | {"WMTOP_CONFIG": str(self._directory / "config.toml")}
        words = [target if word == "TARGET" else word for word in text.split()]
        return Command(self._directory, words, environment)

    def _until(self, command: Command, what: str, wanted: Callable[[dict[str, Any]], bool]) -> None:
        """Wait for a row from now on that is as wanted."""
        seen, until = command.out.stat().st_size, time.monotonic() + CHANGES_WITHIN_S
        row: dict[str, Any] = {}
        while time.monotonic() < until:
            expect(command.code is None, f"{what}: it ended with {command.code}\n{command.said()[-1_500:]}")
            *lines, _ = command.out.read_bytes()[seen:].split(b"\n")
            for line in lines[1:]:  # the first may be cut
                row = json.loads(line)["targets"][0]
                if wanted(row):
                    return
            time.sleep(0.2)
        expect(False, f"{what}: {row}\n{command.err.read_text()[-1_000:]}")


def _is_known(row: dict[str, Any]) -> bool:
    """Whether a row shows a target that answers."""
    return row["lost"] is None and row["watermark_ms"] is not None and row["verdict"] != "unknown"


def _check_words(what: str, command: Command) -> None:
    """No stack trace, no torrent."""
    said = command.err.read_text(errors="replace")
    expect("Traceback" not in command.said(), f"{what}: a stack trace\n{said[-2_000:]}")
    foreign = re.search(r"\b[a-z_]+\.[A-Za-z]*(Error|Exception)\b|Error\(", said)
    expect(foreign is None, f"{what}: a foreign exception\n{said}")
    lines = said.splitlines()
    expect(len(lines) <= MAX_LINES, f"{what}: {len(lines)} lines\n{said[-2_000:]}")
    expect(all(len(line) <= MAX_LINE for line in lines), f"{what}: a long line\n{said[:2_000]}")
    expect(said.replace("\n", "").isprintable(), f"{what}: {said[-1_500:]!r}")


def _note_memory(command: Command, greatest: list[float]) -> None:
    with suppress(OSError):
        found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{command.process.pid}/status").read_text())
        if found is not None:  # else it has just ended
            greatest[0] = max(greatest[0], int(found[1]) / 1_024)
