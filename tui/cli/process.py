"""This process: its log (`--log-file`, `--log-level`), its imports, and the versions of what it runs on."""

import gc
import json
import logging
import os
import platform
import sys
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from ...engine.system.errors import UsageError

FILE_VARIABLE, LEVEL_VARIABLE = "WMTOP_LOG_FILE", "WMTOP_LOG_LEVEL"
LEVELS = ("debug", "info", "warning", "error")
log = logging.getLogger("wmtop.command")
log.addHandler(logging.NullHandler())  # without --log-file its lines go nowhere: errors are printed anyway


def set_log(file: Path | None, level: str | None) -> None:
    """Log as the options say, or the environment; engines that this process starts inherit it. UsageError."""
    if file is not None:
        os.environ[FILE_VARIABLE] = str(file.absolute())
    if level is not None:
        os.environ[LEVEL_VARIABLE] = level
    name = os.environ.get(LEVEL_VARIABLE, "info").lower()
    if name not in LEVELS:
        raise UsageError(f"--log-level: {name!r} is not a log level; use {', '.join(LEVELS)}")
    path = os.environ.get(FILE_VARIABLE)
    if not path:
        if level is not None:
            raise UsageError("--log-level has no effect without --log-file FILE; give both")
        return
    try:
        handler = logging.FileHandler(path, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--log-file: cannot write {path}: {error.strerror}") from None
    handler.setFormatter(_JsonLines())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)  # of the libraries
    logging.getLogger("wmtop").setLevel(name.upper())
    if name == "debug":
        root.setLevel(logging.INFO)


class _JsonLines(logging.Formatter):
    """`{"time", "level", "logger", "pid", "message"}`, with `error` (a stack trace) where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": record.process,
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = "".join(traceback.format_exception(record.exc_info[1]))
        return json.dumps(line, ensure_ascii=False)


@contextmanager
def loading() -> Generator[None]:
    """For imports: collect no garbage in this block, and leave what it makes, of which none is garbage, out of later
    collections.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()


def versions() -> str:
    """The versions of wmtop and its dependencies, a line each, without starting Spark."""
    from importlib.metadata import PackageNotFoundError, version

    from ...engine.system.java import find_java

    try:
        spark = version("pyspark")
    except PackageNotFoundError:
        spark = "not installed"
    try:
        found = find_java()
        java = f"{found.major} in {found.home}"
    except UsageError:
        java = "not found"
    return "\n".join(
        (
            f"wmtop {version('wmtop')}",
            f"Spark {spark} (PySpark)",
            f"Java {java}",
            f"Textual {version('textual')}",
            f"Python {platform.python_version()} ({sys.executable})",
            f"platform {platform.platform()}",
        )
    )
