"""Runs `wmtop` commands for the golden tests, each in a forked child with a clock of its own.

`python -m tests.golden.driver` reads a request a line from stdin (`arguments`, `now_ms`, `directory`, optionally
`answers`: a directory of recorded REST answers to serve) and prints `{"code", "out"}` for it. Time passes in a child
only while it sleeps, so what it prints depends on nothing but its input. Forking spares each command the imports.
"""

import importlib
import json
import os
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from wmtop.tui import cli

from .answers import serve

STARTED_S = 1_000.0
"""What the monotonic clock of a child says first."""


class Clock:
    """The wall clock and the monotonic clock of one command."""

    def __init__(self, now_ms: int) -> None:
        self.first_ns = now_ms * 1_000_000
        self.passed_s = 0.0

    def time_ns(self) -> int:
        return self.first_ns + round(self.passed_s * 1e9)

    def monotonic(self) -> float:
        return STARTED_S + self.passed_s

    def sleep(self, seconds: float) -> None:
        self.passed_s += seconds

    def install(self) -> None:
        """Replace the functions of the module `time`, which all of wmtop calls."""
        time.time_ns = self.time_ns
        time.time = lambda: self.time_ns() / 1e9
        time.monotonic = self.monotonic
        time.sleep = self.sleep


def run(request: dict[str, Any], out: Path) -> None:
    """In a child: run the command, its stdout and stderr in files; never returns."""
    code: object = 1
    try:
        os.chdir(request["directory"])
        for number, path in ((1, out / "out"), (2, out / "err")):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        clock = Clock(request["now_ms"])
        arguments = request["arguments"]
        if "answers" in request:
            url = serve(Path(request["answers"]), lambda: clock.time_ns() // 1_000_000)
            arguments = [argument.replace("flink://jobmanager", url) for argument in arguments]
        clock.install()
        sys.argv = ["wmtop", *arguments]
        try:
            cli.main()
        except SystemExit as over:
            code = over.code
        sys.stdout.flush()
        sys.stderr.flush()
        modules = [name for name in sys.modules if name.startswith("wmtop.")]
        (out / "modules").write_text(json.dumps(modules))
    finally:
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def answer(request: dict[str, Any], out: Path) -> dict[str, Any]:
    """Run a command in a child, and import what it had to import, for the children to come."""
    for name in ("out", "err", "modules"):
        (out / name).unlink(missing_ok=True)
    child = os.fork()
    if not child:
        run(request, out)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with suppress(FileNotFoundError):
        for name in json.loads((out / "modules").read_text()):
            importlib.import_module(name)
    return {"code": code, "out": (out / "out").read_text(), "err": (out / "err").read_text()}


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="wm", dir="/tmp") as directory:
        os.environ |= {"WMTOP_RUN_DIR": f"{directory}/run", "HOME": directory, "TZ": "UTC", "COLUMNS": "120"}
        for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "WMTOP_CONFIG"):
            os.environ.pop(name, None)
        time.tzset()
        for line in sys.stdin:
            print(json.dumps(answer(json.loads(line), Path(directory))), flush=True)


if __name__ == "__main__":
    main()
