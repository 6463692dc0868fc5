"""Reads files that another process writes, moves and deletes at the same time, and decodes JSON in them."""

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from ...system.errors import one_line

T = TypeVar("T")

_NUMBER = re.compile(r"[0-9]{1,18}")  # no sign, no other scripts' digits, and it fits 64 bits
NOT_THERE = "is not there"


class UnreadableError(Exception):
    """A file cannot be read or has the wrong content; one line says why."""


class VanishedError(UnreadableError):
    """The file does not exist, or no longer."""


def read_bytes(path: Path, limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes; VanishedError or UnreadableError otherwise."""
    content = read_head(path, limit + 1)
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


def numbers(directory: Path) -> list[int]:
    """The names in `directory` that are plain numbers, in no order; unfinished files have other names."""
    return [int(name) for name in names(directory) if _NUMBER.fullmatch(name)]


def names(directory: Path) -> list[str]:
    """The names in `directory`; VanishedError or UnreadableError if it cannot be listed."""
    try:
        return os.listdir(directory)
    except OSError as error:
        raise _trouble(directory, error) from None


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
        self._known: dict[Path, tuple[tuple[int, int, int], T | UnreadableError]] = {}

    def get(self, path: Path) -> T:
        """The decoded file; VanishedError or UnreadableError, which are cached as well."""
        try:
            status = os.stat(path)
        except OSError as error:
            raise _trouble(path, error) from None
        version = (status.st_ino, status.st_mtime_ns, status.st_size)
        known = self._known.get(path)
        if known is None or known[0] != version:
            known = version, self._read(path)
            self._known.pop(path, None)
            self._known[path] = known
            while len(self._known) > self._keep:
                del self._known[next(iter(self._known))]
        if isinstance(known[1], UnreadableError):
            raise known[1]
        return known[1]

    def _read(self, path: Path) -> T | UnreadableError:
        try:
            content = read_bytes(path, self._limit)
        except UnreadableError as error:
            return error
        try:
            return self._decode(content)
        except UnreadableError as error:
            return UnreadableError(f"{_place(path)}: {error}")


def _place(path: Path) -> str:
    """A file by its last two names: the checkpoint is known."""
    return one_line("/".join(path.parts[-2:]))


def _trouble(path: Path, error: OSError | ValueError, place: str | None = None) -> UnreadableError:
    """Why a file cannot be read, in one line; a VanishedError if it does not exist."""
    if isinstance(error, FileNotFoundError):
        return VanishedError(f"{place or _place(path)} {NOT_THERE}")
    reason = error.strerror if isinstance(error, OSError) else error
    return UnreadableError(f"cannot read {one_line(str(path.absolute()))}: {reason}")
