"""Reads files that another process writes, moves and deletes at the same time, and decodes JSON in them.

They are local or in a store: `names`, `numbers`, `read_bytes`, `written_ms` and `Cached` take a path of either.
"""

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Generic, Protocol, Self, TypeVar

import msgspec

from ...system.errors import one_line

T = TypeVar("T")

_NUMBER = re.compile(r"[0-9]{1,18}")  # no sign, no other scripts' digits, and it fits 64 bits
NOT_THERE = "is not there"
AT_ONCE = 8
"""Files of a store that are read at the same time, at most."""


class UnreadableError(Exception):
    """A file cannot be read or has the wrong content; one line says why."""


class VanishedError(UnreadableError):
    """The file does not exist, or no longer."""


class RemoteError(Exception):
    """A store does not answer, or refuses: nothing about its files is known; one line has the reason."""


class StorePath(Protocol):
    """The path of a file or directory in a store; its methods raise VanishedError and RemoteError."""

    @property
    def parts(self) -> tuple[str, ...]:
        """Its names from the top; others once the query there was replaced by another one."""
        ...

    def __truediv__(self, name: str) -> Self: ...

    def sizes(self) -> dict[str, int]:
        """The files and directories in it, with their sizes (bytes)."""
        ...

    def read(self) -> bytes:
        """Its content, which never changes."""
        ...

    def written_ms(self) -> int | None:
        """When it was written (epoch ms); None: not known."""
        ...


AnyPath = Path | StorePath


def read_bytes(path: AnyPath, limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes; VanishedError or UnreadableError otherwise."""
    content = read_head(path, limit + 1) if isinstance(path, Path) else path.read()
    if len(content) > limit:
        raise UnreadableError(f"{_place(path)} is larger than {limit:,} bytes")
    return content


def read_head(path: Path, size: int) -> bytes:
    """At most the first `size` bytes of a regular file; VanishedError or UnreadableError for anything else."""
    try:
        with open(open_regular(path), "rb") as file:
            return file.read(size)
    except OSError as error:
        raise _trouble(path, error) from None


def open_regular(path: Path, place: str | None = None) -> int:
    """The descriptor of a regular file, which errors call `place`; VanishedError or UnreadableError otherwise."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO must not make us wait
    except (OSError, ValueError) as error:  # a name with a NUL
        raise _trouble(path, error, place) from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise UnreadableError(f"{place or _place(path)} is not a regular file")
    return fd


def numbers(directory: AnyPath) -> list[int]:
    """The names in `directory` that are plain numbers, in no order; unfinished files have other names."""
    return [int(name) for name in names(directory) if _NUMBER.fullmatch(name)]


def names(directory: AnyPath) -> list[str]:
    """The names in `directory`; VanishedError or UnreadableError if it cannot be listed."""
    if not isinstance(directory, Path):
        return list(directory.sizes())
    try:
        return os.listdir(directory)
    except OSError as error:
        raise _trouble(directory, error) from None


def written_ms(path: AnyPath) -> int | None:
    """When a file was last written (epoch ms); None: not known."""
    if not isinstance(path, Path):
        return path.written_ms()
    try:
        return os.stat(path).st_mtime_ns // 1_000_000
    except OSError:
        return None


def decode_json(content: bytes | str, kind: type[T]) -> T:
    """JSON as a record; UnreadableError if it is another record, too deeply nested, or not JSON."""
    try:
        return msgspec.json.decode(content, type=kind)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(one_line(str(error))) from None


class Cached(Generic[T]):
    """The last few files of one kind, decoded; a file is read again only if it was replaced or changed."""

    def __init__(self, decode: Callable[[bytes], T], limit: int, keep: int = 4) -> None:
        self._decode = decode
        self._limit = limit
        self._keep = keep
        self._known: dict[tuple[str, ...], tuple[object, T | UnreadableError]] = {}

    def get(self, path: AnyPath) -> T:
        """The decoded file; VanishedError or UnreadableError, which are cached as well."""
        version, known = _version(path), self._known.get(path.parts)
        if known is None or known[0] != version:
            known = version, self._read(path)
            self._known.pop(path.parts, None)
            self._known[path.parts] = known
            while len(self._known) > self._keep:
                del self._known[next(iter(self._known))]
        if isinstance(known[1], UnreadableError):
            raise known[1]
        return known[1]

    def _read(self, path: AnyPath) -> T | UnreadableError:
        try:
            content = read_bytes(path, self._limit)
        except UnreadableError as error:
            return error
        try:
            return self._decode(content)
        except UnreadableError as error:
            return UnreadableError(f"{_place(path)}: {error}")


def _version(path: AnyPath) -> object:
    if not isinstance(path, Path):
        return None
    try:
        status = os.stat(path)
    except OSError as error:
        raise _trouble(path, error) from None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _place(path: AnyPath) -> str:
    """A file by its last two names: the checkpoint is known."""
    return one_line("/".join(path.parts[-2:]))


def _trouble(path: Path, error: OSError | ValueError, place: str | None = None) -> UnreadableError:
    """Why a file cannot be read, in one line; a VanishedError if it does not exist."""
    if isinstance(error, FileNotFoundError):
        return VanishedError(f"{place or _place(path)} {NOT_THERE}")
    reason = error.strerror if isinstance(error, OSError) else error
    return UnreadableError(f"cannot read {one_line(str(path.absolute()))}: {reason}")
