"""The `--firings` file: every firing and every late drop, one JSON object a line, durable before its batch is."""

import os
from pathlib import Path

import msgspec

from ..core.firing import Firing
from ..errors import UsageError

_encoder = msgspec.json.Encoder()


class FiringsFile:
    """Append-only; on resume it is cut to the length that the saved state knows."""

    def __init__(self, path: Path, known_bytes: int | None) -> None:
        """Open `path`, cut to `known_bytes` (None: a fresh run, it starts empty); UsageError where it cannot be."""
        try:
            self._file = open(path, "r+b" if known_bytes is not None and path.exists() else "wb")  # noqa: SIM115
        except OSError as error:
            raise UsageError(f"cannot write --firings {path}: {error.strerror}") from None
        size = self._file.seek(0, os.SEEK_END)
        if known_bytes is not None and size < known_bytes:
            raise UsageError(
                f"--firings {path} is shorter ({size} bytes) than this run had written ({known_bytes}); "
                "give the file that it wrote, or another --state-dir"
            )
        self._file.truncate(known_bytes or 0)
        self._file.seek(0, os.SEEK_END)

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._file.tell()

    def append(self, firings: list[Firing]) -> None:
        """Write lines and sync them to the disk."""
        if not firings:
            return
        self._file.write(b"".join(_encoder.encode(firing) + b"\n" for firing in firings))
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()
