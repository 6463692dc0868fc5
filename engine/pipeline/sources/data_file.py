"""A file that a replay reads: a local one, or one in an object store or another file system."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# (pyarrow is only partly typed.)

import difflib
import io
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any, ClassVar, Literal, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct
from pyarrow import fs

from ...errors import UsageError, one_line
from ...remote_files import is_missing, is_of_store, words_of

Format = Literal["parquet", "csv", "json"]
SUFFIXES: dict[str, Format] = {
    **dict.fromkeys((".parquet", ".parq", ".pq"), "parquet"),
    **dict.fromkeys((".csv", ".tsv"), "csv"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "json"),
}
AHEAD = 1 << 16
"""Bytes for which a glance at a file asks a store."""

Below = list[tuple[tuple[str, ...], "DataFile"]]
"""Files below a directory, each with the names on the way to it."""


class DataFile(Protocol):
    """A file or directory that exists, or not."""

    errors: ClassVar[tuple[type[Exception], ...]]
    """What reading raises."""
    is_remote: ClassVar[bool]
    """Whether each read waits for a network."""

    @property
    def key(self) -> object:
        """Equal for the same file."""
        ...

    @property
    def name(self) -> str:
        """The last part of its path."""
        ...

    @property
    def size(self) -> int:
        """Bytes."""
        ...

    @property
    def exists(self) -> bool: ...

    @property
    def is_dir(self) -> bool: ...

    def open(self, ahead: int = AHEAD) -> IO[bytes]:
        """The content; where each read is a request, it is for `ahead` bytes."""
        ...

    def open_parquet(self, **options: Any) -> Any:
        """A `pyarrow.parquet.ParquetFile`."""
        ...

    def parent(self) -> "DataFile":
        """Its directory."""
        ...

    def children(self) -> Sequence["DataFile"]:
        """What the directory has; nothing if it does not exist."""
        ...

    def below(self) -> Below:
        """All files below the directory that Spark does not ignore, in no order."""
        ...

    def reason(self, error: Exception) -> str:
        """What an error says, without its final dot."""
        ...


class LocalFile(Struct, frozen=True):
    """A `DataFile` of this machine."""

    path: Path
    errors: ClassVar[tuple[type[Exception], ...]] = (pa.ArrowException, OSError, EOFError, zlib.error)
    is_remote: ClassVar[bool] = False

    def __str__(self) -> str:
        return str(self.path)

    @property
    def key(self) -> object:
        return self.path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def size(self) -> int:
        return self.path.stat().st_size

    @property
    def exists(self) -> bool:
        return self.path.exists()

    @property
    def is_dir(self) -> bool:
        return self.path.is_dir()

    def open(self, ahead: int = AHEAD) -> IO[bytes]:
        return self.path.open("rb")

    def open_parquet(self, **options: Any) -> Any:
        return pq.ParquetFile(self.path, memory_map=True, **options)

    def parent(self) -> "LocalFile":
        return LocalFile(self.path.parent)

    def children(self) -> "Sequence[LocalFile]":
        try:
            return [LocalFile(path) for path in self.path.iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise unreadable(self, error) from None

    def below(self) -> Below:
        inside = [(each.relative_to(self.path).parts, each) for each in self.path.rglob("*") if each.is_file()]
        return [(names, LocalFile(path)) for names, path in inside if not is_hidden(names)]

    def reason(self, error: Exception) -> str:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return said.strip().partition("\n")[0].rstrip(".")


class RemoteFile(Struct, frozen=True):
    """A `DataFile` of a store, with kind and size as listed."""

    fs: Any
    store: str
    """Equal for the same store."""
    path: str
    uri: str
    """As shown: without options and password."""
    kind: Any
    size: int = 0
    errors: ClassVar[tuple[type[Exception], ...]] = (Exception,)  # each store raises what its library does
    is_remote: ClassVar[bool] = True

    def __str__(self) -> str:
        return one_line(self.uri)

    @property
    def key(self) -> object:
        return self.store, self.path

    @property
    def name(self) -> str:
        return self.uri.rpartition("/")[2]

    @property
    def exists(self) -> bool:
        return self.kind != fs.FileType.NotFound

    @property
    def is_dir(self) -> bool:
        return self.kind == fs.FileType.Directory

    def open(self, ahead: int = AHEAD) -> IO[bytes]:
        return io.BufferedReader(self.fs.open_input_file(self.path), ahead)

    def open_parquet(self, **options: Any) -> Any:
        return pq.ParquetFile(self.path, filesystem=self.fs, pre_buffer=True, **options)

    def parent(self) -> "RemoteFile":
        if "/" not in self.path:
            return self
        path, uri = self.path.rpartition("/")[0], self.uri.rpartition("/")[0]
        return RemoteFile(self.fs, self.store, path, uri, fs.FileType.Directory)

    def children(self) -> "Sequence[RemoteFile]":
        return self._listed(recursive=False)

    def below(self) -> Below:
        files = [each for each in self._listed(recursive=True) if not each.is_dir]
        named = [(tuple(each.path[len(self.path) :].strip("/").split("/")), each) for each in files]
        return [(names, file) for names, file in named if not is_hidden(names)]

    def found(self) -> "RemoteFile":
        """The same with its kind and size. UsageError if the store does not answer, or refuses."""
        try:
            info = self.fs.get_file_info(self.path)
            return RemoteFile(self.fs, self.store, self.path, self.uri, info.type, info.size or 0)
        except Exception as error:  # noqa: BLE001 - each store raises what its library does
            raise unreadable(self, error) from None

    def reason(self, error: Exception) -> str:
        return words_of(error)

    def _listed(self, *, recursive: bool) -> "list[RemoteFile]":
        try:
            return [self._of(info) for info in self.fs.get_file_info(fs.FileSelector(self.path, recursive=recursive))]
        except Exception as error:  # noqa: BLE001 - each store raises what its library does
            if is_missing(error) or isinstance(error, NotADirectoryError):
                return []
            raise unreadable(self, error) from None

    def _of(self, info: Any) -> "RemoteFile":
        path = info.path.rstrip("/")
        return RemoteFile(self.fs, self.store, path, self.uri + path[len(self.path) :], info.type, info.size or 0)


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
    found = [other for other in names if other.lower() in like]
    return f"; did you mean {' or '.join(map(repr, found))}?" if found else ""
