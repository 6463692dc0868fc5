"""The `--firings` file: every firing and every late drop, one JSON object per line, durable before its batch is."""

import os
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec

from ..core.firing import Firing
from ..errors import UsageError
from ..outputs import Existing, check_new, create
from .durable import unwritable

OPTION = "--firings"
_encoder = msgspec.json.Encoder()


class FiringsFile:
    """Append-only; a resumed run first truncates it to the length in the saved state."""

    def __init__(self, path: Path, known_bytes: int, existing: Existing = "refuse") -> None:
        """Open `path`, which has `known_bytes` bytes by the saved state (0: start with an empty file).

        UsageError if it exists and `existing` refuses that, or if it does not hold what this run had written.
        """
        self._path = path
        if known_bytes or (existing == "continue" and path.exists()):
            self._file = _reopen(path, known_bytes, existing)
        else:
            self._file = create(path, OPTION, force=existing != "refuse")

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._file.tell()

    def append(self, firings: list[Firing]) -> None:
        """Write lines and sync them to the disk; RunError that names the file on failure."""
        if not firings:
            return
        try:
            self._file.write(b"".join(_encoder.encode(firing) + b"\n" for firing in firings))
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise unwritable(self._path, error) from error

    def close(self) -> None:
        """Close the file; lines that were not written are not in the saved state either."""
        with suppress(OSError):
            self._file.close()


def _reopen(path: Path, known_bytes: int, existing: Existing) -> IO[bytes]:
    check_new(path, OPTION, force=existing != "refuse")
    try:
        file = open(path, "r+b")  # noqa: SIM115
    except OSError as error:
        raise UsageError(
            f"{OPTION} {path}: {error.strerror}, but this run had written {known_bytes} bytes of firings; "
            "give the file that it wrote, or another --state-dir",
            code="not_its_file",
        ) from None
    size = file.seek(0, os.SEEK_END)
    file.seek(max(known_bytes - 1, 0))
    if size < known_bytes or (known_bytes and file.read(1) != b"\n"):
        file.close()
        raise UsageError(
            f"{OPTION} {path} ({size} bytes) does not have the {known_bytes} bytes that this run had written; "
            "give the file that it wrote, or another --state-dir",
            code="not_its_file",
        )
    file.truncate(known_bytes)
    file.seek(0, os.SEEK_END)
    return file
