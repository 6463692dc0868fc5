"""Runs `wmtop` commands for the golden tests, each in a forked child with a clock of its own.

`python -m tests.golden.driver` reads a request a line from stdin (`arguments`, `now_ms`, `directory`, optionally
`answers`: a file of recorded REST answers to serve) and prints `{"code", "out", "err"}` for it. Time passes in a child
only while it sleeps, so what it prints depends on nothing but its input. Forking spares each command the imports.
Watching must work without the extras, so none can be imported.
"""

import importlib
import json
import os
import re
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.without_extras import hide_extras

JOBMANAGER = "flink://jobmanager:8081"
"""The address in the arguments of what is served from a recording."""
STARTED_S = 1_000.0
"""What the monotonic clock of a child says first."""


class Clock:
    """The wall clock and the monotonic clock of one command; it stands in for the module `time`."""

    def __init__(self) -> None:
        self.first_ms = 0
        self.passed_s = 0.0
        time.time_ns, time.time, time.monotonic, time.sleep = self.time_ns, self.time, self.monotonic, self.sleep

    def time_ns(self) -> int:
        return self.first_ms * 1_000_000 + round(self.passed_s * 1e9)

    def time(self) -> float:
        return self.time_ns() / 1e9

    def monotonic(self) -> float:
        return STARTED_S + self.passed_s

    def sleep(self, seconds: float) -> None:
        self.passed_s += seconds


CLOCK = Clock()
"""Here before wmtop is imported (by functions only): it may keep a function of `time` as a default argument."""


def run(request: dict[str, Any], out: Path) -> None:
    """In a child: run the command, its stdout and stderr in files; never returns."""
    code: object = 1
    try:  # whatever happens, the child must not go on as the driver
        from wmtop.tui import cli

        os.chdir(request["directory"])
        for number, path in ((1, out / "out"), (2, out / "err")):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        CLOCK.first_ms = request["now_ms"]
        arguments = request["arguments"]
        if "answers" in request:
            from .answers import serve

            url = serve(Path(request["answers"]), lambda: CLOCK.time_ns() // 1_000_000)
            arguments = [argument.replace(JOBMANAGER, url) for argument in arguments]
        sys.argv = ["wmtop", *arguments]
        try:
            code = follow(*arguments[1:]) if arguments[0] == "follow" else cli.main()
        except SystemExit as over:
            code = over.code
        sys.stdout.flush()
        sys.stderr.flush()
        modules = [name for name in sys.modules if name.startswith("wmtop.")]
        (out / "modules").write_text(json.dumps(modules))
    finally:
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def follow(target: str, *shown: str) -> int:
    """Print the snapshots of the polls `shown` (from 0) of one watch on a target.

    No command does this without threads; it is what is between a target and a screen.
    """
    from wmtop.engine.feed.messages import encode
    from wmtop.engine.targets.open import open_target
    from wmtop.engine.targets.target import Pace

    polls = list(map(int, shown))
    for number, snapshot in enumerate(open_target(target).follow("check", Pace(for_s=float("inf")))):
        if number in polls:
            print(encode(snapshot).decode(), flush=True)
        if number >= max(polls):
            return 0
    return 1


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
    return {"code": code, "out": _output(out / "out"), "err": _output(out / "err")}


def _output(path: Path) -> str:
    """What a child wrote, with one address for every port."""
    return re.sub(r"127\.0\.0\.1:\d+", JOBMANAGER.removeprefix("flink://"), path.read_text())


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="wm", dir="/tmp") as directory:
        os.environ |= {"WMTOP_RUN_DIR": f"{directory}/run", "HOME": directory, "TZ": "UTC", "COLUMNS": "120"}
        for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "WMTOP_CONFIG"):
            os.environ.pop(name, None)
        time.tzset()
        hide_extras()
        for line in sys.stdin:
            print(json.dumps(answer(json.loads(line), Path(directory))), flush=True)


if __name__ == "__main__":
    main()
