"""The files of a checkpoint: how they are read while a query writes, moves and deletes them, and what is in them.

They are local or in a store: `names`, `numbers`, `read_bytes`, `written_ms`, `Cached` take a path of either. Known are
`offsets/N` and `commits/N` (formats v1 and v2), `metadata`, and the files about the state.
"""

import os
import re
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, Protocol, TypeVar, cast

import msgspec
from msgspec import Meta, Struct

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


class StoredFiles(Protocol):
    """The files and directories below a URI in a store, each by its path there; VanishedError and RemoteError."""

    @property
    def root(self) -> tuple[str, ...]:
        """The URI, and what changes once the query there was replaced by another one."""
        ...

    def sizes(self, below: str) -> dict[str, int]:
        """The files and directories in a directory, with their sizes (bytes)."""
        ...

    def read(self, below: str) -> bytes:
        """The content of a file, which never changes."""
        ...

    def written_ms(self, below: str) -> int | None:
        """When a file was written (epoch ms); None: not known."""
        ...


class StorePath(Struct, frozen=True):
    """The path of a file or directory in a store."""

    files: StoredFiles
    below: str = ""

    @property
    def parts(self) -> tuple[str, ...]:
        return *self.files.root, *self.below.split("/")

    def __truediv__(self, name: str) -> "StorePath":
        return StorePath(self.files, f"{self.below}/{name}".lstrip("/"))

    def __str__(self) -> str:
        return f"{self.files.root[0]}/{self.below}".rstrip("/")


AnyPath = Path | StorePath


def read_bytes(path: AnyPath, limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes; VanishedError or UnreadableError otherwise."""
    content = read_head(path, limit + 1) if isinstance(path, Path) else path.files.read(path.below)
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
        return list(directory.files.sizes(directory.below))
    try:
        return os.listdir(directory)
    except OSError as error:
        raise _trouble(directory, error) from None


def written_ms(path: AnyPath) -> int | None:
    """When a file was last written (epoch ms); None: not known."""
    if not isinstance(path, Path):
        return path.files.written_ms(path.below)
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


def decode_file(path: AnyPath, decode: Callable[[bytes], T], limit: int) -> T:
    """The decoded content of a file; VanishedError or UnreadableError otherwise."""
    content = read_bytes(path, limit)
    try:
        return decode(content)
    except UnreadableError as error:
        raise UnreadableError(f"{_place(path)}: {error}") from None


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
            try:
                content: T | UnreadableError = decode_file(path, self._decode, self._limit)
            except UnreadableError as error:
                content = error
            known = version, content
            self._known.pop(path.parts, None)
            self._known[path.parts] = known
            while len(self._known) > self._keep:
                del self._known[next(iter(self._known))]
        if isinstance(known[1], UnreadableError):
            raise known[1]
        return known[1]


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


Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Kind = Literal["kafka", "files", "number", "json", "nothing", "unreadable"]

VERSIONS = ("v1", "v2")
_NEWER = re.compile(r"v[0-9]{1,4}")
_SOURCE_ID = re.compile(rb"[\w-]+")
_VOID = b"-"


class SourceOffsets(Struct, frozen=True):
    """The position of one source at the end of a batch.

    `kafka`: `offsets` by `topic/partition`; `files`: entries of the file source's own log; `number`: one counter;
    `json`: a source's own form, of which only the text is known; `nothing`: it has not delivered yet.
    """

    source: str
    """The source's position in the query; with format v2 its id."""
    kind: Kind
    text: str
    """The text in the file, on one line, truncated."""
    offsets: dict[str, int] | None = None


class BatchOffsets(Struct, frozen=True):
    """`offsets/N`: the input of batch N, and the watermark in force in it."""

    timestamp_ms: int | None
    """When its input was fixed; a batch that is run again keeps the old time; None: continuous processing."""
    watermark_ms: int | None
    """The watermark; None: the query has none, or it has not moved yet (the file says 0 for both)."""
    conf: dict[str, str]
    sources: tuple[SourceOffsets, ...]
    newer_format: str | None = None
    """A version of the file newer than the known ones: the facts may be incomplete."""
    inputs: tuple[int, ...] = ()
    """A hash of each source's line, to compare with another batch's."""


class _Metadata(Struct, rename="camel"):
    batch_timestamp_ms: Int64
    batch_watermark_ms: Int64 = 0
    conf: dict[str, str] = {}


class _Commit(Struct, rename="camel"):
    next_batch_watermark_ms: Int64 = 0


class _QueryId(Struct):
    id: str


def decode_offsets(content: bytes) -> BatchOffsets:
    """`offsets/N`; UnreadableError if its version or metadata is unreadable, while a source's line is unreadable by
    itself.
    """
    version, (first, *lines) = _lines(content)
    is_epoch = not first.strip() and lines  # continuous processing writes an empty line
    metadata = None if is_epoch else decode_json(first, _Metadata)
    return BatchOffsets(
        timestamp_ms=None if metadata is None else metadata.batch_timestamp_ms,
        watermark_ms=None if metadata is None else _watermark(metadata.batch_watermark_ms),
        conf={} if metadata is None else metadata.conf,
        sources=tuple(_source_of(version, position, line) for position, line in enumerate(lines)),
        newer_format=None if version in VERSIONS else version,
        inputs=tuple(map(hash, lines)),
    )


def decode_commit(content: bytes) -> int | None:
    """`commits/N`: the watermark (ms) that the batch after N will use, or None as in `BatchOffsets`."""
    _, lines = _lines(content)
    return _watermark(decode_json(lines[0], _Commit).next_batch_watermark_ms)


def decode_query_id(content: bytes) -> str:
    """The id in a checkpoint's `metadata`."""
    return one_line(decode_json(content, _QueryId).id)


def decode_source(source: str, text: str) -> SourceOffsets:
    """The offsets of one source from a progress report."""
    return _source(source, text.encode())


def _lines(content: bytes) -> tuple[str, list[bytes]]:
    """The version, which may be a newer one, and at least one line after it; a newline may end the last one."""
    first, *rest = content.removesuffix(b"\n").split(b"\n")
    version = one_line(first.decode(errors="replace"), 20)
    if not _NEWER.fullmatch(version):
        raise UnreadableError(f"unknown format {version!r}: {' and '.join(VERSIONS)} are known")
    if not rest:
        raise UnreadableError("it ends after its first line")
    return version, rest


def _watermark(value: int) -> int | None:
    return value if value > 0 else None


def _source_of(version: str, position: int, line: bytes) -> SourceOffsets:
    """A source by its position in v1, by its id in v2, and in newer versions if the line begins with one."""
    source, colon, offset = line.partition(b":")
    if version == "v1" or (version != "v2" and (line == _VOID or not _SOURCE_ID.fullmatch(source))):
        return _source(str(position), line)
    if not colon:
        return SourceOffsets(str(position), "unreadable", one_line(line.decode(errors="replace")))
    return _source(one_line(source.decode(errors="replace"), 80), offset)


def _source(source: str, line: bytes) -> SourceOffsets:
    text = one_line(line[:4096].decode(errors="replace"))
    if line == _VOID:
        return SourceOffsets(source, "nothing", text)
    try:
        value = decode_json(line, cast(type[Any], Any))
    except UnreadableError:
        return SourceOffsets(source, "unreadable", text)
    if _is_int64(value):
        return SourceOffsets(source, "number", text, {"": value})
    if not isinstance(value, dict):
        return SourceOffsets(source, "json", text)
    fields = cast(dict[str, Any], value)
    if list(fields) == ["logOffset"] and _is_int64(fields["logOffset"]):
        return SourceOffsets(source, "files", text, {"logOffset": fields["logOffset"]})
    partitions = _kafka(fields)
    return SourceOffsets(source, "kafka" if partitions else "json", text, partitions)


def _kafka(topics: dict[str, Any]) -> dict[str, int] | None:
    """The offsets of `{"topic": {"0": 17}}` by topic and partition; None for JSON of any other shape."""
    offsets: dict[str, int] = {}
    for topic, partitions in topics.items():
        if not isinstance(partitions, dict):
            return None
        for partition, offset in cast(dict[str, Any], partitions).items():
            if not (partition.isdecimal() and _is_int64(offset)):
                return None
            offsets[f"{topic}/{partition}"] = offset
    return offsets or None


def _is_int64(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


DELAY = "spark.watermarkDelayMs"
TIME_WINDOW = "spark.timeWindow"
SESSION_WINDOW = "spark.sessionWindow"

_OPERATOR_VERSION = b"v1"
_CHUNKS = 1000
_U16, _I32 = struct.Struct(">H"), struct.Struct(">i")


class Field(Struct, frozen=True):
    """A column: its type is a name, or an object for a nested one."""

    name: str
    type: Any
    metadata: dict[str, Any] = {}


class RowType(Struct, frozen=True):
    """The columns of a row, in order."""

    fields: tuple[Field, ...]


class StateSchema(Struct, frozen=True):
    """The types of a store's keys and values."""

    key: RowType
    value: RowType


class _OperatorInfo(Struct, rename="camel"):
    operator_name: str


class _Operator(Struct, rename="camel"):
    operator_info: _OperatorInfo


def decode_operator(content: bytes) -> str:
    """Spark's name for the operator in `state/<operator>/_metadata/metadata`; UnreadableError for any format but v1."""
    version, _, line = content.partition(b"\n")
    if version != _OPERATOR_VERSION:
        raise UnreadableError(f"unknown format {one_line(version.decode(errors='replace'), 20)!r}: v1 is known")
    return decode_json(line, _Operator).operator_info.operator_name


def decode_schema(content: bytes) -> StateSchema:
    """`_metadata/schema` of format v1 or v2; UnreadableError for any other, as transformWithState has."""
    try:
        version, at = _utf(content, 0)
        read = {"v1": _utf, "v2": _long_utf}.get(version)
        if read is None:
            raise UnreadableError(f"unknown format {one_line(version, 20)!r}: v1 and v2 are known")
        key, at = read(content, at)
        value, _ = read(content, at)
    except (struct.error, ValueError):
        raise UnreadableError("it is cut short or damaged") from None
    return StateSchema(decode_json(key.encode(), RowType), decode_json(value.encode(), RowType))


def nested(field: Field) -> RowType | None:
    """The columns of a struct; None for every other type."""
    try:
        return msgspec.convert(field.type, RowType)
    except (msgspec.ValidationError, RecursionError):
        return None


def delay_of(field: Field) -> int | None:
    """The delay (ms) of the watermark on this column, if it has one."""
    delay = field.metadata.get(DELAY, -1)
    return delay if _is_int64(delay) and delay >= 0 else None


def _long_utf(content: bytes, at: int) -> tuple[str, int]:
    """A text in chunks, and its end."""
    (count,) = _I32.unpack_from(content, at)
    if not 0 < count <= _CHUNKS:
        raise ValueError
    at += _I32.size
    chunks: list[str] = []
    for _ in range(count):
        chunk, at = _utf(content, at)
        chunks.append(chunk)
    return "".join(chunks).encode("utf-16", "surrogatepass").decode("utf-16"), at


def _utf(content: bytes, at: int) -> tuple[str, int]:
    """A text written by Java's `writeUTF`, in which characters beyond 16 bits are two, and its end."""
    (size,) = _U16.unpack_from(content, at)
    at += _U16.size
    chunk = content[at : at + size]
    if len(chunk) < size:
        raise ValueError
    return chunk.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass"), at + size
