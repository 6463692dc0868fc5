"""Files of events: their format, columns and types, one file or many as one input."""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# (pyarrow is only partly typed.)

import difflib
import io
import os
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from fnmatch import fnmatchcase
from glob import has_magic
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct, structs
from pyarrow import fs

from ...system.errors import UsageError, one_line
from ...system.remote_files import is_missing, is_of_store, remote_path, words_of

Format = Literal["parquet", "csv", "json"]
SUFFIXES: dict[str, Format] = {
    **dict.fromkeys((".parquet", ".parq", ".pq"), "parquet"),
    **dict.fromkeys((".csv", ".tsv"), "csv"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "json"),
}
AHEAD = 1 << 16
"""Bytes for which a glance at a file asks a store."""

_AT_ONCE = 16
_DIRECTORY = fs.FileType.Directory
T = TypeVar("T")
R = TypeVar("R")


class DataFile(Struct, frozen=True):
    """A file or directory of this machine or of a store, that exists or not."""

    fs: Any
    path: str
    uri: str
    """As shown: of a store without options and password."""
    store: str = ""
    """Equal for the same store; empty: this machine."""
    kind: Any = _DIRECTORY
    size: int = 0
    """Bytes, as listed."""

    def __str__(self) -> str:
        return one_line(self.uri) if self.is_remote else self.uri

    @property
    def is_remote(self) -> bool:
        """Whether each read waits for a network."""
        return bool(self.store)

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What reading raises; each store raises what its library does."""
        return (Exception,) if self.is_remote else (pa.ArrowException, OSError, EOFError, zlib.error)

    @property
    def key(self) -> object:
        """Equal for the same file."""
        return self.store, self.path

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.uri.rpartition("/")[2]

    @property
    def exists(self) -> bool:
        return self.kind != fs.FileType.NotFound

    @property
    def is_dir(self) -> bool:
        return self.kind == _DIRECTORY

    def open(self, ahead: int = AHEAD) -> IO[bytes]:
        """The content; where each read is a request, it is for `ahead` bytes."""
        if not self.is_remote:
            return open(self.path, "rb")
        return io.BufferedReader(self.fs.open_input_file(self.path), ahead)

    def open_parquet(self, **options: Any) -> Any:
        """A `pyarrow.parquet.ParquetFile`."""
        if not self.is_remote:
            return pq.ParquetFile(self.path, memory_map=True, **options)
        return pq.ParquetFile(self.path, filesystem=self.fs, pre_buffer=True, **options)

    def parent(self) -> "DataFile":
        if "/" not in self.path:
            return self
        return DataFile(self.fs, self.path.rpartition("/")[0], self.uri.rpartition("/")[0], self.store)

    def children(self) -> "list[DataFile]":
        """What the directory has; nothing if it does not exist."""
        return self._listed(recursive=False)

    def below(self) -> "list[tuple[tuple[str, ...], DataFile]]":
        """All files below the directory that Spark does not ignore, in no order, each with the names on the way."""
        files = [each for each in self._listed(recursive=True) if not each.is_dir]
        named = [(tuple(each.path[len(self.path) :].strip("/").split("/")), each) for each in files]
        return [(names, file) for names, file in named if not is_hidden(names)]

    def looked_up(self) -> "DataFile":
        """The same with its kind and size. UsageError if it cannot be looked up."""
        try:
            info = self.fs.get_file_info(self.path)
            return structs.replace(self, kind=info.type, size=info.size or 0)
        except Exception as error:  # noqa: BLE001 - each store raises what its library does
            raise unreadable(self, error) from None

    def is_damaged(self, error: Exception) -> bool:
        """Whether an error of reading is about the content; False: the system or a store failed."""
        if is_of_store(error) or isinstance(error, io.UnsupportedOperation):
            return False
        return isinstance(error, pa.ArrowException | EOFError | zlib.error) or (
            isinstance(error, OSError) and not error.errno
        )

    def reason(self, error: Exception) -> str:
        """What an error says, without its final dot."""
        if self.is_remote:
            return words_of(error)
        text = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        return text.strip().partition("\n")[0].rstrip(".")

    def _listed(self, *, recursive: bool) -> "list[DataFile]":
        try:
            infos = self.fs.get_file_info(fs.FileSelector(self.path, recursive=recursive))
        except Exception as error:  # noqa: BLE001 - each store raises what its library does
            if is_missing(error) or isinstance(error, FileNotFoundError | NotADirectoryError):
                return []
            raise unreadable(self, error) from None
        paths = [(info.path.rstrip("/"), info) for info in infos]
        return [
            structs.replace(self, path=path, uri=self.uri + path[len(self.path) :], kind=info.type, size=info.size or 0)
            for path, info in paths
        ]


def local_file(path: Path) -> DataFile:
    """A file or directory of this machine."""
    return DataFile(fs.LocalFileSystem(), str(path.absolute()), str(path)).looked_up()


def missing(file: DataFile) -> UsageError:
    """The error for a file that does not exist, with similar names; raises one if its directory cannot be read."""
    beside = [each.name for each in file.parent().children()]
    return UsageError(f"no file {file}{near(file.name, beside)}", code="missing")


def unreadable(file: DataFile, error: Exception) -> UsageError:
    """The error for a file that cannot be read."""
    return UsageError(f"cannot read {file}: {file.reason(error)}", code="unreadable")


def damaged(file: DataFile, error: Exception) -> UsageError:
    """The error for a file whose content cannot be read, or whose store failed meanwhile."""
    if is_of_store(error):
        return unreadable(file, error)
    return UsageError(f"cannot read {file}: {file.reason(error)}; is it damaged?", code="damaged")


def is_hidden(names: Iterable[str]) -> bool:
    """Whether Spark ignores a file below these names."""
    return any(name.startswith(("_", ".")) for name in names)


def format_of(name: str) -> Format | None:
    """The format that a file's name indicates."""
    path = Path(name.removesuffix(".gz"))  # Spark decompresses no .GZ
    return SUFFIXES.get(path.suffix.lower())


def near(name: str, names: Sequence[str]) -> str:
    """`; did you mean 'X'?` if one of `names` is similar to `name`."""
    like = difflib.get_close_matches(name.lower(), [other.lower() for other in names], n=2, cutoff=0.6)
    similar = [other for other in names if other.lower() in like]
    return f"; did you mean {' or '.join(map(repr, similar))}?" if similar else ""


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
    files: dict[object, DataFile] = {}
    for argument in arguments:
        place = _local(argument) if isinstance(argument, Path) else _remote(argument)
        files |= {file.key: file for file in _files_of(place)}
    return list(files.values())


def in_parallel(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """The results, in order: a store needs tens of milliseconds for each request."""
    return list(in_advance(function, items, _AT_ONCE)) if len(items) > 1 else [function(item) for item in items]


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
    return _Place(local_file(path), local_file(Path(*fixed)), pattern)


def _remote(uri: str) -> _Place:
    place = remote_path(uri)

    def at(names: list[str], query: str = "") -> DataFile:
        path, shown = "/".join([place.top, *names]) + query, "/".join([place.shown, *names])
        return DataFile(place.fs, path, shown, place.store)

    fixed, pattern = _divided(place.names)
    return _Place(at(place.names, place.query).looked_up(), at(fixed), pattern)


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
    files = _data_in(file) if file.exists else _matching(place.base, place.pattern)
    if files:
        return sorted(files, key=lambda each: _natural(str(each)))
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
            below = in_parallel(lambda place: place.below() if place.is_dir else [], matching)
            inside = [pair for pairs in below for pair in pairs]
            return [file for names, file in inside if format_of(file.name) and _matches(names, pattern[number:])]
        listed = in_parallel(lambda place: place.children() if place.is_dir else [], matching)
        matching = [child for children in listed for child in children if _matches((child.name,), [wanted])]
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
    return [(int(part) if part.isdecimal() else -1, part) for part in re.split(r"(\d{1,18})", text)]
