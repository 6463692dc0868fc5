"""Which files each batch of a run reads, on disk before it reads them, so that a resumed run reads each file once."""

import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from ...system.errors import RunError, UsageError
from .directory_watch import FileState

_HEX = 8


class PlannedBatch(Struct, frozen=True):
    """The files of a batch: their paths below the directory, and their states when it was planned."""

    batch: int
    files: list[tuple[str, FileState]]


class FilePlan:
    """The planned batches of a run, the oldest first; `path` None: they are kept in memory alone.

    The file has a line for each batch, with a checksum in front.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.batches: dict[int, PlannedBatch] = {}

    def resume(self, last: int | None) -> None:
        """Read the batches up to the last one that was applied (None: none was), and drop those after it.

        UsageError if they are not all there.
        """
        self.batches = {}
        if self._path is None:
            return
        end = 0
        try:
            content = self._path.read_bytes() if self._path.exists() else b""
            for planned, after in _lines_of(content):
                if last is None or planned.batch > last:
                    break
                self.batches[planned.batch] = planned
                end = after
            if last is not None and (not self.batches or max(self.batches) != last):
                raise UsageError(
                    f"--state-dir: {self._path} does not have the files of batch {last}, which was applied; "
                    "use another directory, or remove this one to start over"
                )
            if content[end:]:
                os.truncate(self._path, end)
        except OSError as error:
            raise UsageError(f"--state-dir: cannot read {self._path}: {error.strerror}") from None

    def add(self, planned: PlannedBatch) -> None:
        """Add a batch and sync it to the disk; RunError if it cannot be written."""
        if self._path is not None:
            text = msgspec.json.encode(planned)
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with open(self._path, "ab") as file:
                    file.write(_checksum(text) + b" " + text + b"\n")
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                raise RunError(
                    f"cannot write {self._path}: {error.strerror}; free some space and run the same command again",
                    code="unwritable",
                ) from None
        self.batches[planned.batch] = planned

    def files(self) -> Iterator[tuple[str, FileState]]:
        """The files of all batches."""
        for planned in self.batches.values():
            yield from planned.files


def _checksum(text: bytes) -> bytes:
    return f"{zlib.crc32(text):0{_HEX}x}".encode()


def _lines_of(content: bytes) -> Iterator[tuple[PlannedBatch, int]]:
    """The batches, each with the number of bytes up to its end; up to the first line that is cut or changed."""
    at = 0
    for line in content.splitlines(keepends=True):
        at += len(line)
        text = line[_HEX + 1 : -1]
        if not line.endswith(b"\n") or line[: _HEX + 1] != _checksum(text) + b" ":
            return
        try:
            yield msgspec.json.decode(text, type=PlannedBatch), at
        except msgspec.DecodeError:
            return
