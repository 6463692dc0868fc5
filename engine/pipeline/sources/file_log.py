"""Spark's own log of a file source, which says the files of each batch before Spark runs it."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from .capabilities import Batch


def files_of(batch: Batch) -> list[tuple[str, int]] | None:
    """The files (path, bytes) of a batch of local files; None if the log does not say.

    Empty files are left out, as Spark leaves them out; None also if one is gone, which Spark reports. Spark's
    `FileStreamSourceLog` writes the log.
    """
    if batch.begins is None or batch.log is None:
        return None
    try:
        numbers = range(max(map(_number, batch.begins), default=-1) + 1, max(map(_number, batch.ends)) + 1)
        paths = [path for number in numbers for path in _entries(batch.log, number)]
        return [(path, size) for path in paths if (size := os.stat(path).st_size)]
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return None


def _number(offset: str) -> int:
    return json.loads(offset)["logOffset"]


def _entries(log: Path, number: int) -> Iterator[str]:
    """The paths of one entry; every tenth has those of all before it, too."""
    file = log / str(number)
    lines = (file if file.exists() else log / f"{number}.compact").read_text().splitlines()
    if lines[0] != "v1":
        raise ValueError(lines[0])
    for line in lines[1:]:
        entry = json.loads(line)
        address = urlsplit(str(entry["path"]))
        if address.scheme != "file":
            raise ValueError(address.scheme)
        if entry["batchId"] == number:
            yield unquote(address.path)
