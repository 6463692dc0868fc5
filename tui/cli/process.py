"""This process: its log (`--log-file`, `--log-level`), its output, its imports, and the versions of what it runs on."""

import codecs
import gc
import io
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
from typing import Any

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


class _StandardOutput(io.FileIO):
    """Standard output, which remembers that it could not be written."""

    error: OSError | None = None

    def write(self, data: Any) -> int | None:
        try:
            return super().write(data)
        except OSError as error:
            self.error = error
            raise


def prepare_output() -> None:
    """Make standard output and standard error usable.

    One that the parent process has closed takes no file of this process: what is printed there fails. A character that
    cannot be encoded is shown as in JSON (`\\u00d7`); an encoding other than UTF-8 gets ASCII only.
    """
    codecs.register_error("wmtop", _escaped)
    for descriptor, name, mode in ((1, "stdout", os.O_RDONLY), (2, "stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, mode), descriptor)
            os.set_inheritable(descriptor, True)  # also where the file got that number at once
            setattr(sys, name, _text(io.FileIO(descriptor, "w", closefd=False), "utf-8"))
    if sys.stdout is sys.__stdout__:  # not a test's
        raw = _StandardOutput(sys.stdout.fileno(), "w", closefd=False)
        sys.stdout = _text(raw, sys.stdout.encoding, by_lines=bool(sys.stdout.line_buffering))


def _text(raw: io.FileIO, encoding: str, *, by_lines: bool = True) -> io.TextIOWrapper:
    is_utf8 = codecs.lookup(encoding).name == "utf-8"
    return io.TextIOWrapper(
        io.BufferedWriter(raw), "utf-8" if is_utf8 else "ascii", errors="wmtop", line_buffering=by_lines
    )


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """What is written instead of characters that cannot be encoded, for `codecs`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def unwritten() -> OSError | None:
    """Why standard output cannot be written; None: all that was printed is written."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return error
    raw = getattr(sys.stdout.buffer, "raw", None)
    return raw.error if isinstance(raw, _StandardOutput) else None


def discard_output() -> None:
    """Drop what is printed from now on, and what waits to be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


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
