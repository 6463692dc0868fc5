"""`--log-file` and `--log-level`: what happens in this process and in the engines it starts, a JSON object a line."""

import json
import logging
import os
import traceback
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
