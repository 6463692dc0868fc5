"""Records the answers of a real Flink to `inputs/flink.tar.xz`: `python -m tests.golden.harvest_flink`.

The jobs and what is written to them are those of `tests/targets/flink`; each job is watched for `POLLS` polls
through a proxy of its own, which keeps what is asked and answered.
"""

import io
import json
import re
import tarfile
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ..targets.flink.conftest import JOBS, free_port
from ..targets.flink.flinks import Flink, Watching, compiled
from .golden import INPUTS

POLLS, FEW_POLLS = 64, 20
"""Long enough for a verdict, which takes a minute."""
STARTS = {"in": 2, "al": 2, "fin": 2, "ord": 2, "lag": 3, "left": 2, "right": 2, "slow": 2, "bare": 1, "keep": 2}
"""The splits' files by prefix."""
CONFIGURED = ("metrics.fetcher.update-interval",)
"""The options of the JobManager that are kept: the rest is about the machine."""
MACHINE = re.compile(r"/tmp/[^\s\"\\/]*")


class Recorder:
    """A proxy that keeps every answer, dated by the beginning of its poll; `url` is its address."""

    def __init__(self, target: str) -> None:
        self.lines: list[dict[str, Any]] = []
        self.at_ms = time.time_ns() // 1_000_000
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = _ask(target + self.path)
                recorder.keep(self.path, status, body)
                if status is None:
                    self.close_connection = True
                    return
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{server.server_port}"

    def keep(self, path: str, status: int | None, body: Any) -> None:
        if path == "/jobmanager/config":
            body = [one for one in body or () if one["key"] in CONFIGURED]
        line = {"at_ms": self.at_ms, "path": path, "status": status, "body": body}
        self.lines.append(json.loads(MACHINE.sub("/flink", json.dumps(line))))


def _ask(url: str) -> tuple[int | None, Any]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
    except OSError:
        return None, None


def watch(flink: Flink, job: str, act: Callable[[int], None], polls: int = POLLS) -> Recorder:
    """Watch a job while `act` (it gets the number of the poll) lets something happen to it."""
    recorder = Recorder(flink.url)
    watching = Watching(recorder.url, job)
    for number in range(polls):
        act(number)
        recorder.at_ms = time.time_ns() // 1_000_000
        watching.watch.poll()
        time.sleep(1)
    return recorder


def acts(flink: Flink) -> dict[str, Callable[[int], None]]:
    """What happens to each job, poll by poll."""

    def write(prefix: str, seconds: dict[int, Callable[[int], float]]) -> Callable[[int], None]:
        return lambda number: [
            flink.write(f"{prefix}-{split}", second(number)) for split, second in seconds.items()
        ] and None  # fmt: skip

    def finite(number: int) -> None:
        if number == 8:
            for split in (0, 1):
                flink.append(f"fin-{split}", "END")

    def cancelled(number: int) -> None:
        flink.write("bare-0", 10 + number)
        if number == 12:
            flink.cancel("bare")

    def lagging(number: int) -> None:
        flink.write("lag-0", 600 + number)
        flink.write("lag-1", 500 + number)
        if number < 20:
            flink.write("lag-2", 60 + number / 1_000)

    return {
        "stuck": write("in", {0: lambda n: 10 + n}),
        "aligned": write("al", {0: lambda n: 10 + 20 * n, 1: lambda n: 3 + 20 * n / 1_000}),
        "finite": finite,
        "orders": write("ord", {0: lambda n: 10 + n, 1: lambda n: 9 + n}),
        "lagging": lagging,
        "twins": lambda n: [flink.write(f"left-{s}", 10 + n) for s in (0, 1)] and flink.write("right-0", 5 + n / 10),
        "busy": lambda n: [flink.write(f"slow-{s}", *(n + k / 100 for k in range(100))) for s in (0, 1)] and None,
        "bare": cancelled,
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        class_path = compiled(Path(directory) / "classes")
        options = {f"{key}-{name}": value for name, own in JOBS.items() for key, value in own.items()}
        options |= {"names": ",".join(JOBS), "splits": 2, "parallelism": 1, "slots": 16}
        with Flink(class_path, Path(directory) / "flink", free_port(), **options) as flink:
            for name in JOBS:
                flink.wait_for("RUNNING", name)
            for prefix, splits in STARTS.items():
                for split in range(splits):
                    flink.write(f"{prefix}-{split}", 1, 2, 3)
            time.sleep(3)
            recorded: dict[str, Recorder] = {}

            def one(job: str, act: Callable[[int], None]) -> None:
                recorded[job] = watch(flink, job, act)

            threads = [threading.Thread(target=one, args=item) for item in acts(flink).items()]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

            def killed(number: int) -> None:
                if number == 8:
                    flink.process.kill()
                    flink.process.wait()

            recorded["keeper"] = watch(flink, "keeper", killed, FEW_POLLS)
    with tarfile.open(INPUTS / "flink.tar.xz", "w:xz", format=tarfile.PAX_FORMAT, preset=9) as tar:
        for job, recorder in sorted(recorded.items()):
            _add(tar, f"flink/{job}.jsonl", recorder.lines)


def _add(tar: tarfile.TarFile, name: str, lines: list[dict[str, Any]]) -> None:
    data = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode()
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


if __name__ == "__main__":
    main()
