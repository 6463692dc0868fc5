"""(g) Secrets of each kind through each command, searched in all that is left behind.

A canary is a secret with a mark that occurs nowhere else. While a command runs the mark is searched in the arguments of
every process of this machine; after it in what it printed, logged and wrote, also in compressed files, and in base64.
"""

import base64
import io
import json
import random
import shutil
import signal
import string
import threading
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

from wmtop.engine.system.zstd import Frames, ZstdError

from .processes import Command, home
from .rounds import expect

EDGES = ("", "\n", " ", '"', "\\", "ü", "%", "=", "'", "$(id)", "{x}", "\t")
"""What surrounds a mark: characters that programs escape, each in its own way."""
LOOKS_S = 8.0
"""How long a command may go on that does not end by itself."""
JOB = "0" * 32

KAFKA = {"KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT", "KAFKA_SASL_MECHANISM": "PLAIN", "KAFKA_SASL_USERNAME": "me"}
JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class Given(NamedTuple):
    """How a secret reaches a command: the target that it is for, options, variables, lines of the configuration."""

    target: str
    options: list[str]
    environment: dict[str, str]
    config: str


class Echo:
    """A server that gives back what it is sent, where errors are made of it: bodies, reasons, redirects, types."""

    def __init__(self) -> None:
        self.way, echo = 0, self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                shown = "; ".join(f"{name}: {value}" for name, value in self.headers.items())
                status = (500, 401, 302, 200, 404)[echo.way % 5]
                text = json.dumps({"errors": [shown], "jobs": shown, "message": shown}).encode()
                self.send_response(status, shown[:80] if status == 500 else None)
                if status == 302:
                    self.send_header("Location", f"http://there/?{shown}")
                self.send_header("Content-Type", shown if echo.way % 7 == 6 else "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_PUT = do_HEAD = do_POST = do_GET  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.address = f"127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


CRASHES = {
    "http": "import wmtop.engine.system.rest as m\n"
    "def crash(self, *a, **k): raise ValueError(f'crash {self._headers}')\nm.Rest.get = m.Rest.read = crash\n",
    "kafka": "import wmtop.engine.kafka.client_settings as m\nfor_python = m.KafkaConfig.for_python\n"
    "def crash(self): raise ValueError(f'crash {for_python(self)} {self.login()}')\nm.KafkaConfig.for_python = crash\n",
    "s3": "import os, wmtop.engine.targets.spark.store as m\n"
    "def crash(*a): raise ValueError(f'crash {dict(os.environ)}')\nm.open_remote = crash\n",
}
"""What makes a command fail as a fault of ours would, with the secret in the error's text."""
RUN = "from wmtop.tui.cli.main import main; main()"


class Torture:
    """The server, and the directory of the command that runs."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "round"
        self._echo = Echo()

    def close(self) -> None:
        self._echo.http.shutdown()

    def round(self, chance: random.Random, counts: Counter[str]) -> None:
        """One secret through one command."""
        shutil.rmtree(self._directory, ignore_errors=True)
        self._directory.mkdir()
        mark = "".join(chance.choices(string.ascii_letters + string.digits, k=20))
        secret = f"{chance.choice(EDGES)}{mark}{chance.choice(EDGES)}"
        self._echo.way = chance.randrange(35)
        kind = chance.choice(sorted(KINDS))
        given = KINDS[kind](self._echo.address, secret, self._directory)
        name = chance.choice(sorted(name for name in COMMANDS if takes(name, given)))
        crash = chance.random() < 0.25 and name not in FROM_CONFIG and CRASHES[_service(given.target)]
        arguments = self._arguments(name, given, chance)
        environment = home(self._directory) | given.environment
        if chance.random() < 0.5:
            environment["WMTOP_TRACE"] = "1"
        what = f"{kind} through {name}{' that crashes' if crash else ''} (secret {secret!r}, answer {self._echo.way})"
        command = Command(self._directory, arguments, environment, crash + RUN if crash else None)
        try:
            ended = command.wait(LOOKS_S, lambda: self._search_arguments(mark, what))
            if not ended:
                command.process.send_signal(signal.SIGTERM)
                expect(command.wait(20), f"{what}: it does not end 20 s after SIGTERM")
        finally:
            command.end()
        self._search_files(mark, what, given)
        counts[kind] += 1
        counts[f"through {name}"] += 1
        counts["crashes"] += bool(crash)
        counts["ended by SIGTERM" if not ended else f"exit code {command.code}"] += 1
        said = command.said()
        expect("Traceback" not in said or "WMTOP_TRACE" in environment, f"{what}: a stack trace\n{said[-1_500:]}")

    def _arguments(self, name: str, given: Given, chance: random.Random) -> list[str]:
        """The command line; the configuration has the same target as `canary`."""
        config = self._directory / "config.toml"
        config.write_text(f'[targets.canary]\nattach = "{given.target}"\n{given.config}\n')
        log = ["--log-file", str(self._directory / "log"), "--log-level", "debug"] if chance.random() < 0.7 else []
        filled = {"OUT": str(self._directory / f"out{chance.randrange(9)}.zip"), "REC": str(self._directory / "a.rec")}
        words = [filled.get(word, word) for word in COMMANDS[name].split()]
        if name in FROM_CONFIG:
            return ["--config", str(config), *log, *words]
        at = words.index("TARGET")
        return [*log, *words[:at], given.target, *given.options, *words[at + 1 :]]

    def _search_arguments(self, mark: str, what: str) -> None:
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                expect(mark.encode() not in file.read_bytes(), f"{what}: in the arguments of a process")

    def _search_files(self, mark: str, what: str, given: Given) -> None:
        theirs = {Path(option) for option in given.options if option.startswith("/")}
        for path in self._directory.rglob("*"):
            if path.is_file() and path not in theirs:
                for content in contents(path.read_bytes()):
                    found = next((form for form in forms(mark) if form in content), None)
                    expect(found is None, f"{what}: in {path.relative_to(self._directory)}:\n{around(content, found)}")
            expect(mark not in path.name, f"{what}: in the name {path.name}")


def takes(command: str, given: Given) -> bool:
    """Whether the command has the option through which the secret is given; of the configuration all have it."""
    attaches = command in FROM_CONFIG or command.startswith("attach")
    return attaches or not given.options or (given.options[0] == "--kafka-config" and command in TAKE_KAFKA_CONFIG)


def forms(mark: str) -> list[bytes]:
    """A mark as it is, and as it is in base64 or hex wherever it begins."""
    data = mark.encode()
    shifted = [base64.b64encode(b"x" * shift + data)[4 * bool(shift) : -4] for shift in range(3)]
    return [data, data.hex().encode(), *shifted]


def around(content: bytes, found: bytes | None) -> str:
    at = content.find(found or b"")
    return repr(content[max(at - 300, 0) : at + 100])


def contents(data: bytes) -> Iterator[bytes]:
    """A file's bytes, and what is in it where it is a zip or has zstd frames."""
    yield data
    if data[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for name in archive.namelist():
                yield from contents(archive.read(name))
    at = 0
    while (at := data.find(b"\x28\xb5\x2f\xfd", at)) >= 0:
        with suppress(ZstdError):
            yield b"".join(Frames(only_first=True).feed(data[at:]))
        at += 4


def _service(target: str) -> str:
    return target.partition("://")[0].replace("spark+http", "http").replace("flink", "http")


def _written(directory: Path, name: str, text: str) -> str:
    (directory / name).write_text(text)
    return str(directory / name)


def _in_environment(variable: str, target: str, prefix: str = "") -> Callable[[str, str, Path], Given]:
    return lambda address, secret, directory: Given(
        target.replace("ADDRESS", address), [], {variable: prefix + secret}, ""
    )


def _auth_file(prefix: str) -> Callable[[str, str, Path], Given]:
    def given(address: str, secret: str, directory: Path) -> Given:
        file = _written(directory, "auth", prefix + secret)
        return Given(f"flink://{address}/{JOB}", ["--auth-file", file], {}, f'auth-file = "{file}"')

    return given


def _kafka(environment: dict[str, str]) -> Callable[[str, str, Path], Given]:
    def given(address: str, secret: str, directory: Path) -> Given:
        filled = {name: value.replace("SECRET", secret) for name, value in environment.items()}
        return Given(f"kafka://{address}/orders", [], KAFKA | filled, "")

    return given


def _kafka_file(lines: str) -> Callable[[str, str, Path], Given]:
    def given(address: str, secret: str, directory: Path) -> Given:
        escaped = secret.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
        file = _written(directory, "client.properties", lines.replace("SECRET", escaped))
        return Given(f"kafka://{address}/orders", ["--kafka-config", file], {}, f'kafka-config = "{file}"')

    return given


def _s3(variable: str) -> Callable[[str, str, Path], Given]:
    def given(address: str, secret: str, directory: Path) -> Given:
        keys = {"AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": "other", "AWS_ENDPOINT_URL": f"http://{address}"}
        return Given("s3://bucket/checkpoint", [], keys | {"AWS_REGION": "here", variable: secret.strip()}, "")

    return given


_SASL = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
KINDS: dict[str, Callable[[str, str, Path], Given]] = {
    "Flink token": _in_environment("WMTOP_FLINK_TOKEN", f"flink://ADDRESS/{JOB}"),
    "Flink login": _in_environment("WMTOP_FLINK_LOGIN", f"flink://ADDRESS/{JOB}", "me:"),
    "Spark token": _in_environment("WMTOP_SPARK_TOKEN", "spark+http://ADDRESS/app-1"),
    "Spark login": _in_environment("WMTOP_SPARK_LOGIN", "spark+http://ADDRESS/app-1", "me:"),
    "auth file, token": _auth_file(""),
    "auth file, login": _auth_file("me:"),
    "Kafka password": _kafka({"KAFKA_SASL_PASSWORD": "SECRET"}),
    "Kafka JAAS": _kafka({"KAFKA_SASL_JAAS_CONFIG": f'{JAAS} username="me" password="SECRET";'}),
    "Kafka key": _kafka({"KAFKA_SECURITY_PROTOCOL": "SSL", "KAFKA_SSL_KEY_PEM": "SECRET"}),
    "Kafka store password": _kafka(
        {
            "KAFKA_SECURITY_PROTOCOL": "SSL",
            "KAFKA_SSL_KEYSTORE_LOCATION": "/etc/hostname",
            "KAFKA_SSL_KEYSTORE_PASSWORD": "SECRET",
        }
    ),
    "Kafka file, password": _kafka_file(f"{_SASL}sasl.username=me\nsasl.password=SECRET\n"),
    "Kafka file, JAAS": _kafka_file(f'{_SASL}sasl.jaas.config={JAAS} username="me" password="SECRET";\n'),
    "Kafka file, unknown name": _kafka_file(f"{_SASL}sasl.username=me\nsasl.password=x\nmy.private=SECRET\n"),
    "Kafka file, key password": _kafka_file(
        "security.protocol=SSL\nssl.key.password=SECRET\nssl.keystore.key=SECRET\n"
    ),
    "Kafka file, broken": _kafka_file(f"{_SASL}sasl.username=me\nsasl password=SECRET\n"),
    "S3 secret": _s3("AWS_SECRET_ACCESS_KEY"),
    "S3 session": _s3("AWS_SESSION_TOKEN"),
}
FROM_CONFIG = {"serve", "fleet", "check --all", "config", "chain", "export --all", "watch by name", "report by name"}
TAKE_KAFKA_CONFIG = {"check", "check --json", "report"}
COMMANDS = {
    "check": "check TARGET --for 3s",
    "check --json": "check TARGET --json --for 3s",
    "attach": "attach TARGET --headless --record REC",
    "attach with alerts": "attach TARGET --headless --on-alert cat",
    "attach --json": "attach TARGET --json",
    "watch": "watch TARGET",
    "advise": "advise TARGET",
    "preview": "preview TARGET",
    "report": "report TARGET --out OUT",
    "export": "export TARGET --json --once",
    "fleet": "--json --once",
    "check --all": "check --all --json --for 3s",
    "config": "config",
    "chain": "chain --json",
    "export --all": "export --all --json --once",
    "watch by name": "watch canary",
    "serve": "serve canary --port 0",
    "report by name": "report canary --out OUT",
}
