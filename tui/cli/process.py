"""This process: how it was started, its log (`--log-file`, `--log-level`), its output, its imports, its versions."""

import codecs
import functools
import gc
import io
import json
import logging
import os
import platform
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ...engine.system.errors import UsageError, printable, without_secrets
from ...engine.system.places import variable_path

FILE_VARIABLE, LEVEL_VARIABLE = "WMTOP_LOG_FILE", "WMTOP_LOG_LEVEL"
LAUNCHED_VARIABLE = "WMTOP_LAUNCHED_ENGINE"
SERVED_VARIABLE = "WMTOP_SERVED"
"""Set where standard input comes from a server, with which this process ends."""
_SERVER_GONE_S = 3.0
"""How long (s) a served screen may take to quit by itself once its server has closed its standard input."""
LONGEST_LINE = 2_000
"""The longest error (characters): it may repeat what a user or another program gave."""
LEVELS = ("debug", "info", "warning", "error")
log = logging.getLogger("wmtop.command")
log.addHandler(logging.NullHandler())  # without --log-file its lines go nowhere: errors are printed anyway


def end_with_server() -> None:
    """If a server shows this process's screen, end with it, however it ends and whatever this process does by then."""
    if os.environ.pop(SERVED_VARIABLE, None) is not None:
        threading.Thread(target=_end_with_input, name="wmtop-served", daemon=True).start()


def _end_with_input() -> None:
    closed = select.poll()
    closed.register(0, 0)  # nothing is read here: only that the other end has gone is reported
    closed.poll()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_SERVER_GONE_S)
    os._exit(1)


class Launch(Struct, frozen=True, kw_only=True):
    """What an engine gets from the terminal that started it: its claimed name and id, and when to stop."""

    lock: int
    """The descriptor that holds the name."""
    name: str
    id: str
    stop_on_eof: bool


@functools.cache
def launched() -> Launch | None:
    """The launch of this process by a terminal; None: started by a user. Child processes do not inherit it."""
    passed = os.environ.pop(LAUNCHED_VARIABLE, None)
    return None if passed is None else msgspec.json.decode(passed, type=Launch)


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
        handler = logging.FileHandler(variable_path(FILE_VARIABLE, path), encoding="utf-8")
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
            "message": without_secrets(record.getMessage()),
        }
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = without_secrets("".join(traceback.format_exception(record.exc_info[1])))
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
            raw = _StandardOutput(descriptor, "w", closefd=False)
            setattr(sys, name, _text(raw, "utf-8", by_lines=name == "stderr"))
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


def end_output(code: int, failed: int) -> int:
    """Write what waits to be written; returns the exit code: `code`, or `failed` if it cannot be written."""
    error = unwritten()
    if error is None:
        return code
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # drop what still waits
    if isinstance(error, BrokenPipeError):
        return failed
    return say(f"cannot write standard output: {error.strerror}; free some space, or print elsewhere", failed)


def say(line: str, code: int) -> int:
    """Print the line of an error, without secrets; returns its exit code."""
    log.error("exit %d: %s", code, inform(line))
    return code


def inform(line: str) -> str:
    """Print a line for the user on standard error; returns it as printed, without secrets and control characters."""
    line = printable(without_secrets(line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 1] + "…"))
    print(f"wmtop: {line}", file=sys.stderr, flush=True)
    return line


@contextmanager
def loading() -> Generator[None]:
    """For imports: collect no garbage in this block, and leave what it makes, which stays, out of later collections."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()


def print_versions() -> None:
    """`wmtop --version`, which scripts ask often: nothing else is loaded. Exit code 1 if they cannot be written."""
    prepare_output()
    print(versions())
    sys.exit(end_output(0, failed=1))


def versions() -> str:
    """The versions of wmtop and its dependencies, a line each, without starting Spark."""
    from importlib.metadata import PackageNotFoundError, version  # it takes long to load

    try:
        spark = (f"Spark {version('pyspark')} (PySpark)", f"Java {_java()}")
    except PackageNotFoundError:
        spark = ("Spark not installed ('wmtop[run]' has it)",)
    return "\n".join(
        (
            f"wmtop {version('wmtop')}",
            *spark,
            f"Textual {version('textual')}",
            f"Python {platform.python_version()} ({sys.executable})",
            f"platform {platform.platform()}",
        )
    )


def _java() -> str:
    from ...engine.system.java import find_java

    try:
        found = find_java()
    except UsageError:
        return "not found"
    return f"{found.major} in {found.home}"
