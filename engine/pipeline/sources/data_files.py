"""The files that paths, URIs, directories and patterns name, and work on many files at once."""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from fnmatch import fnmatchcase
from glob import has_magic
from pathlib import Path
from typing import NamedTuple, TypeVar

from pyarrow import fs

from ...errors import UsageError
from ...remote_files import remote_path
from .data_file import DataFile, LocalFile, RemoteFile, format_of, is_hidden, missing

_AT_ONCE = 16

T = TypeVar("T")
R = TypeVar("R")


class _Place(NamedTuple):
    """What an argument names: a file or directory, or what matches `pattern` below `base`."""

    literal: DataFile
    base: DataFile
    pattern: list[str]


def data_files(arguments: Iterable[Path | str]) -> list[DataFile]:
    """The files that paths and URIs (`str`) name: directories and patterns (`day=*/*.parquet`) are replaced by the data
    files in them; numbers in names sort by value (`batch=9` before `batch=10`). Each file once.

    UsageError for a file that does not exist, and for a directory or a pattern without data files.
    """
    found: dict[object, DataFile] = {}
    for argument in arguments:
        place = _local(argument) if isinstance(argument, Path) else _remote(argument)
        found |= {file.key: file for file in _files_of(place)}
    return list(found.values())


def in_parallel(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """The results, in order: a store needs tens of milliseconds for each request."""
    if len(items) < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(function, items))


def in_advance(function: Callable[[T], R], items: Iterable[T], most: int) -> Iterator[R]:
    """The results, in order, of which the next `most` are computed meanwhile."""
    pool = ThreadPoolExecutor(most)
    waiting = deque[Future[R]]()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > most:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _local(path: Path) -> _Place:
    fixed, pattern = _divided(path.parts)
    return _Place(LocalFile(path), LocalFile(Path(*fixed)), pattern)


def _remote(uri: str) -> _Place:
    place = remote_path(uri)

    def at(names: list[str], query: str = "") -> RemoteFile:
        path, shown = "/".join([place.top, *names]) + query, "/".join([place.shown, *names])
        return RemoteFile(place.fs, place.store, path, shown, fs.FileType.Directory)

    fixed, pattern = _divided(place.names)
    return _Place(at(place.names, place.query).found(), at(fixed), pattern)


def _divided(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The names before the first one that is a pattern, and the rest."""
    first = next((number for number, name in enumerate(names) if has_magic(name)), len(names))
    return list(names[:first]), list(names[first:])


def _files_of(place: _Place) -> list[DataFile]:
    file = place.literal
    if not file.exists and not place.pattern:
        raise missing(file)
    if file.exists and not file.is_dir:
        return [file]
    found = _data_in(file) if file.exists else _matching(place.base, place.pattern)
    if found:
        return sorted(found, key=lambda each: _natural(str(each)))
    if not file.exists:
        raise UsageError(f"no Parquet, CSV or JSON file matches {file}; check the pattern", code="no_files")
    if any(child.name == "_wmtop.json" for child in file.children()):
        raise UsageError(f"{file} is a late output without records: its run has dropped none so far")
    raise UsageError(
        f"{file} has no Parquet, CSV or JSON file; name files or a directory with records", code="no_files"
    )


def _data_in(file: DataFile) -> list[DataFile]:
    """The data files below a directory; of a file, itself if it is one."""
    inside = [each for _, each in file.below()] if file.is_dir else [file]
    return [each for each in inside if format_of(each.name)]


def _matching(base: DataFile, pattern: list[str]) -> list[DataFile]:
    """The data files that match, and those in directories that match; of hidden names only those named as such."""
    matching = [base]
    for number, wanted in enumerate(pattern):
        if wanted == "**":
            below = in_parallel(lambda one: one.below() if one.is_dir else [], matching)
            inside = [pair for pairs in below for pair in pairs]
            return [file for names, file in inside if format_of(file.name) and _matches(names, pattern[number:])]
        listed = in_parallel(lambda one: one.children() if one.is_dir else [], matching)
        matching = [one for children in listed for one in children if _matches((one.name,), [wanted])]
    return [file for files in in_parallel(_data_in, matching) for file in files]


def _matches(names: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether these names, or a directory on their way, match."""
    if not pattern:
        return True
    if pattern[0] == "**":
        return _matches(names, pattern[1:]) or (bool(names) and _matches(names[1:], pattern))
    if not names or (is_hidden(names[:1]) and pattern[0][0] != names[0][0]):
        return False
    return fnmatchcase(names[0], pattern[0]) and _matches(names[1:], pattern[1:])


def _natural(text: str) -> list[tuple[int, str]]:
    return [(int(part) if part.isdigit() else -1, part) for part in re.split(r"(\d{1,18})", text)]
