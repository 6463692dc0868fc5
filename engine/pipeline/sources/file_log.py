"""Spark's own log of a file source, which says the files of each batch before Spark runs it."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit


def files_of(checkpoint: Path, batch: int) -> list[tuple[str, int]] | None:
    """The files (path, bytes) of a batch of a query with one source of local files; None if its log does not say.

    Empty files are left out, as Spark leaves them out; None also if one is gone, which Spark reports. Spark's
    `FileStreamSourceLog` writes the log.
    """
    try:
        last = _log_offset(checkpoint, batch)
        first = _log_offset(checkpoint, batch - 1) + 1 if batch else 0
        paths = [path for number in range(first, last + 1) for path in _entries(checkpoint / "sources" / "0", number)]
        return [(path, size) for path in paths if (size := os.stat(path).st_size)]
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return None


def _log_offset(checkpoint: Path, batch: int) -> int:
    [offset] = (checkpoint / "offsets" / str(batch)).read_text().splitlines()[2:]
    return json.loads(offset)["logOffset"]


def _entries(log: Path, number: int) -> Iterator[str]:
    """The paths of one entry; every tenth has those of all before it, too."""
    file = log / str(number)
    lines = (file if file.exists() else log / f"{number}.compact").read_text().splitlines()
    if lines[0] != "v1":
        raise ValueError(lines[0])
    for line in lines[1:]:
        entry = json.loads(line)
        address = urlsplit(entry["path"])
        if address.scheme != "file":
            raise ValueError(address.scheme)
        if entry["batchId"] == number:
            yield unquote(address.path)
