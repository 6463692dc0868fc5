"""A directory in an object store or another file system: few requests, errors of one line."""

import os
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from pyarrow import fs

from ...system.errors import one_line
from ...system.remote_files import file_system, is_missing, without_secrets, words_of
from .files import UnreadableError

_AT_ONCE = 8
"""Files read at the same time, at most."""


class RemoteError(UnreadableError):
    """The store does not answer, or refuses; one line has the reason."""


class Entry(NamedTuple):
    """An entry of a directory, and when it was written (epoch ms; None: the store does not report it)."""

    name: str
    is_dir: bool
    size: int
    written_ms: int | None


class Content(NamedTuple):
    """A file and when it was written (epoch ms; None: the store does not report it)."""

    data: bytes
    written_ms: int | None


class Store:
    """Everything below one URI; `requests` and `bytes_read` count the traffic."""

    def __init__(self, uri: str) -> None:
        self.uri = without_secrets(uri)
        self._fs, self._root = file_system(uri)
        self.requests = 0
        self.bytes_read = 0

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self._root.rstrip("/").rpartition("/")[2]

    def entries(self, below: str = "") -> list[Entry] | None:
        """The entries of a directory; None: there is no such directory. RemoteError."""
        with self._asking():
            try:
                infos = self._fs.get_file_info(fs.FileSelector(self._path(below)))
            except Exception as error:
                if isinstance(error, NotADirectoryError) or is_missing(error):
                    return None
                raise
        return [
            Entry(info.base_name, info.type == fs.FileType.Directory, info.size or 0, _ms(info.mtime)) for info in infos
        ]

    def is_file(self) -> bool:
        """Whether the URI itself is a file. RemoteError."""
        with self._asking():
            return self._fs.get_file_info(self._root).type == fs.FileType.File

    def read(self, below: str, start: int = 0) -> Content | None:
        """A file from an offset (bytes) on; None: it does not exist. RemoteError."""
        with self._asking():
            try:
                with self._open(below, start) as file:
                    self.requests += 1
                    data: bytes = file.read()
                    written = _written_ms(file.metadata())
            except FileNotFoundError:
                return None
        self.bytes_read += len(data)
        return Content(data, written)

    def read_all(self, names: Sequence[str]) -> list[Content | None]:
        """Several whole files, in the order of their names. RemoteError."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(self.read, names))

    def written_ms(self, below: str) -> int | None:
        """When a file was written (epoch ms); None: not known."""
        with self._asking():
            return _ms(self._fs.get_file_info(self._path(below)).mtime)

    @contextmanager
    def _asking(self) -> Generator[None]:
        """Count a request; every error in it becomes a RemoteError."""
        self.requests += 1
        try:
            yield
        except Exception as error:  # noqa: BLE001 - each store raises what its library does
            raise RemoteError(f"{one_line(self.uri)}: {words_of(error)}") from None

    def _open(self, below: str, start: int) -> Any:
        if not start:
            return self._fs.open_input_stream(self._path(below), compression=None)
        file = self._fs.open_input_file(self._path(below))
        file.seek(start)
        return file

    def _path(self, below: str) -> str:
        return f"{self._root}/{below}" if below else self._root


def _ms(when: datetime | None) -> int | None:
    return None if when is None else int(when.timestamp() * 1_000)


def _written_ms(metadata: Any) -> int | None:
    """By the headers of a stream, where the file system has them."""
    header: Any = metadata.get("Last-Modified") if metadata else None
    if not header:
        return None
    try:
        text: str = header.decode()
        return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1_000)
    except ValueError:
        return None


def write_copy(path: Path, data: bytes, written_ms: int | None) -> None:
    """Write a file of a local copy, with the time of its original (epoch ms; None: not known)."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        if written_ms is not None:
            os.utime(path, ns=(written_ms * 1_000_000, written_ms * 1_000_000))
    except OSError as error:
        raise UnreadableError(f"cannot write the local copy {path}: {error.strerror}") from None
