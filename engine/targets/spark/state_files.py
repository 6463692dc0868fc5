"""One partition of the HDFS-backed state store: a snapshot of all keys, then a delta per batch.

A file is compressed: LZ4Block frames (Spark's default) or one zstd stream, recognised by their heads. Inside:
`[int key size][key][int value size, or -1: removed][value]` repeated, then -1; sizes are big-endian.
"""

import re
import struct
from collections.abc import Iterator
from pathlib import Path

import cramjam
from msgspec import Struct

from ...system import zstd
from .files import AnyPath, UnreadableError, VanishedError, names, read_bytes

Window = tuple[int, int]
"""A window's start and end in the state (us)."""

FILE_LIMIT = 256 * 1024 * 1024
"""Largest state file (bytes), on disk and decompressed."""

_I32 = struct.Struct(">i")
_END = -1
_CHECKSUM_BYTES = 4
_SNAPSHOT = re.compile(r"([0-9]{1,18})\.snapshot")
_ATTEMPTS = 4  # after a purge between listing and reading, list again


_WORD = 8
_U64 = struct.Struct("<Q")
_I64 = struct.Struct("<q")
_WINDOW = struct.Struct("<Qqq")  # null bits, start, end
_OUTSIDE = "it is cut short or damaged: a value lies outside its row"


def word_at(fields: int, index: int) -> int:
    """The place of the word of field `index` in a row of `fields` fields (bytes from the row's start)."""
    return ((fields + 63) // 64 + index) * _WORD


def long_at(row: bytes, at: int) -> int:
    """The long in the word at `at`; UnreadableError if the row has none."""
    try:
        return _I64.unpack_from(row, at)[0]
    except struct.error:
        raise UnreadableError(_OUTSIDE) from None


def window_at(row: bytes, at: int) -> tuple[int, int]:
    """Start and end (us) of the window whose word is at `at`; UnreadableError if it is null or outside the row."""
    try:
        (word,) = _U64.unpack_from(row, at)
        nulls, start, end = _WINDOW.unpack_from(row, word >> 32)
    except struct.error:
        raise UnreadableError(_OUTSIDE) from None
    if nulls or word & 0xFFFFFFFF != _WINDOW.size:
        raise UnreadableError("a key has no window")
    return start, end


class TooManyKeysError(UnreadableError):
    """The state is larger than the limit."""


class Layout(Struct, frozen=True):
    """The places of window and counts in a windowed aggregation's rows (bytes from the row's start)."""

    window_at: int
    """In the key; for session windows in the value, because a session grows while its key stays."""
    counts_at: tuple[int, ...]
    """The `count`s among the aggregates."""
    checksummed: bool
    """Each value, and the key of each removal, has a checksum before it."""
    session: bool = False


class PartitionWindows:
    """The keys of one partition by window, each with its count, at one version; updated by deltas."""

    def __init__(self, directory: AnyPath, layout: Layout, max_keys: int) -> None:
        self.windows: dict[Window, dict[bytes, int]] = {}
        self.keys = 0
        self._sessions: dict[bytes, Window] = {}
        self._directory = directory
        self._layout = layout
        self._max_keys = max_keys
        self._version: int | None = None

    def load(self, version: int) -> int:
        """Bring the state to `version`; it is empty after an UnreadableError (VanishedError: its files are gone).

        Returns the number of its keys.
        """
        for left in reversed(range(_ATTEMPTS)):
            try:
                self._bring_to(version)
            except UnreadableError as error:
                self._clear()
                if not left or not isinstance(error, VanishedError):
                    raise
            else:
                break
        return self.keys

    def bytes_to_load(self, version: int) -> int:
        """The size of the files in a store that `load` fetches first."""
        if self._version is not None or isinstance(self._directory, Path):
            return 0
        snapshot, sizes = self._snapshot_for(version), self._directory.files.sizes(self._directory.below)
        needed = [f"{snapshot}.snapshot", *(f"{number}.delta" for number in range(snapshot + 1, version + 1))]
        return sum(sizes.get(name, 0) for name in needed)

    def _bring_to(self, version: int) -> None:
        if self._version is None or self._version > version:
            self._clear()
            snapshot = self._snapshot_for(version)
            if snapshot:
                self._apply(f"{snapshot}.snapshot")
            self._version = snapshot
        for number in range(self._version + 1, version + 1):
            self._apply(f"{number}.delta")
            self._version = number

    def _snapshot_for(self, version: int) -> int:
        """The number of the last snapshot that does not go beyond a version; 0: there is none."""
        matches = (_SNAPSHOT.fullmatch(name) for name in names(self._directory))
        return max((number for match in matches if match and (number := int(match[1])) <= version), default=0)

    def _apply(self, name: str) -> None:
        path = self._directory / name
        content = read_bytes(path, FILE_LIMIT)
        try:
            for key, value in changes(decompress(content, FILE_LIMIT), self._layout.checksummed):
                self._change(key, value)
        except TooManyKeysError:
            raise
        except UnreadableError as error:
            raise UnreadableError(f"state {'/'.join(path.parts[-3:])}: {error}") from None

    def _change(self, key: bytes, value: bytes | None) -> None:
        if not self._layout.session:
            self._set(window_at(key, self._layout.window_at), key, value)
        else:
            if (before := self._sessions.pop(key, None)) is not None:
                self._set(before, key, None)
            if value is not None:
                self._sessions[key] = window_at(value, self._layout.window_at)
                self._set(self._sessions[key], key, value)
        if self.keys > self._max_keys:
            raise TooManyKeysError

    def _set(self, window: Window, key: bytes, value: bytes | None) -> None:
        counts = self.windows.setdefault(window, {})
        self.keys -= len(counts)
        if value is None:
            counts.pop(key, None)
        else:
            counts[key] = max((long_at(value, at) for at in self._layout.counts_at), default=0)
        self.keys += len(counts)
        if not counts:
            del self.windows[window]

    def _clear(self) -> None:
        self.windows, self.keys, self._sessions, self._version = {}, 0, {}, None


def changes(data: bytes, checksummed: bool) -> Iterator[tuple[bytes, bytes | None]]:
    """The keys of a decompressed state file with their new values, None for a removed one."""
    at = 0
    try:
        while (size := _I32.unpack_from(data, at)[0]) != _END:
            key, at = _piece(data, at + _I32.size, size)
            size = _I32.unpack_from(data, at)[0]
            at += _I32.size
            if size == _END:
                yield key[_CHECKSUM_BYTES:] if checksummed else key, None
            else:
                value, at = _piece(data, at, size)
                yield key, value[_CHECKSUM_BYTES:] if checksummed else value
    except struct.error:
        raise UnreadableError("it is cut short or damaged: it ends without its end mark") from None


def _piece(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    end = at + size
    if size < 0 or end > len(data):
        raise UnreadableError("it is cut short or damaged: a row of an impossible length")
    return data[at:end], end


_LZ4_MAGIC = b"LZ4Block"
_LZ4_HEADER = struct.Struct("<BiiI")  # token, compressed and raw length, checksum
_LZ4_STORED, _LZ4_COMPRESSED = 0x10, 0x20
_LZ4_LEVEL_BASE = 10
_OTHERS = {b"\x82SNAPPY\0": "snappy", b"ZV": "lzf"}


def decompress(content: bytes, limit: int) -> bytes:
    """The content of a state file, at most `limit` bytes; UnreadableError if it is damaged or compressed otherwise."""
    if content.startswith(_LZ4_MAGIC):
        return _lz4_blocks(content, limit)
    if content.startswith(zstd.MAGIC):
        return _zstd(content, limit)
    for magic, codec in _OTHERS.items():
        if content.startswith(magic):
            raise UnreadableError(f"it is compressed with {codec}: only lz4 and zstd are read")
    raise UnreadableError("it is neither lz4 nor zstd")


def _lz4_blocks(content: bytes, limit: int) -> bytes:
    """The frames of lz4-java's LZ4BlockOutputStream; the last one is empty."""
    blocks: list[bytes] = []
    at, size = 0, 0
    while True:
        body = at + len(_LZ4_MAGIC) + _LZ4_HEADER.size
        if content[at : at + len(_LZ4_MAGIC)] != _LZ4_MAGIC or body > len(content):
            raise UnreadableError("it is cut short or damaged: no LZ4 frame where one should be")
        token, packed, raw, _ = _LZ4_HEADER.unpack_from(content, at + len(_LZ4_MAGIC))
        at = body + packed
        size += raw
        if packed < 0 or raw < 0 or at > len(content) or raw > 1 << (token & 0x0F) + _LZ4_LEVEL_BASE:
            raise UnreadableError("it is cut short or damaged: an LZ4 frame of an impossible length")
        if size > limit:
            raise UnreadableError(f"it holds more than {limit:,} bytes")
        if raw == 0:
            return b"".join(blocks)
        blocks.append(_lz4_block(token & 0xF0, content[body:at], raw))


def _lz4_block(method: int, block: bytes, size: int) -> bytes:
    if method == _LZ4_STORED and len(block) == size:
        return block
    if method != _LZ4_COMPRESSED:
        raise UnreadableError("it is damaged: an LZ4 frame of an unknown method")
    content = bytearray(size)
    try:
        length = cramjam.lz4.decompress_block_into(block, content)
    except cramjam.DecompressionError:
        length = -1
    if length != size:
        raise UnreadableError("it is damaged: an LZ4 frame does not decompress to its length")
    return bytes(content)


def _zstd(content: bytes, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    try:
        for part in zstd.Frames().feed(content):
            parts.append(part)
            size += len(part)
            if size > limit:
                raise UnreadableError(f"it holds more than {limit:,} bytes")
    except (zstd.ZstdError, MemoryError):
        raise UnreadableError("it is damaged: not the zstd stream that its head promises") from None
    return b"".join(parts)
