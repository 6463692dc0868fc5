"""What Spark's `tuple_sketch_agg_double` returns: a number for each key, the keys as hashes (DataSketches: tuple).

Compact form, little-endian: longs of preamble (u8), version 3, family 9, type 1, unused (u8), flags (u8), hash of the
seed (u16); from two longs on the number of entries (i32, 4 bytes unused), at three theta (i64); then the entries.
"""

import struct
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from .files import UnreadableError

if TYPE_CHECKING:  # slow to load
    import numpy as np
    from numpy.typing import NDArray

SEED = 9001
_SEED_HASH = 37836
_HEAD = struct.Struct("<BBBBxBH")
_COUNT = struct.Struct("<i4x")
_THETA = struct.Struct("<q")
_VERSION, _FAMILY, _COMPACT = 3, 9, 1
_EMPTY = 0x04
_ENTRY = struct.Struct("<QdB")  # key, value, mode
_ALL_BITS = 2**64 - 1
C1, C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
MIX1, MIX2 = 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53
"""Constants of the hash: MurmurHash3 x64 128."""


ALL_KEYS = 2**63
"""Greater than every key."""


class Sketch(Struct, frozen=True):
    """The values by key: of all keys, or of those below `theta`, which are a fair sample because hashes are random."""

    values: dict[int, float]
    theta: int = ALL_KEYS

    @property
    def exact(self) -> bool:
        """Whether it has every key."""
        return self.theta == ALL_KEYS

    @property
    def share(self) -> float:
        """The share of the keys whose values it has."""
        return self.theta / ALL_KEYS


def decode_sketch(content: bytes) -> Sketch:
    """The sketch in compact form; UnreadableError if it is truncated, damaged, or of another kind."""
    try:
        longs, version, family, kind, flags, seed = _HEAD.unpack_from(content)
        if (version, family, kind) != (_VERSION, _FAMILY, _COMPACT) or not 1 <= longs <= 3:
            raise UnreadableError("it is not a compact tuple sketch")
        if seed != _SEED_HASH:
            raise UnreadableError(f"it is a sketch whose keys are hashed with a seed other than {SEED}")
        if flags & _EMPTY:
            return Sketch({})
        count = _COUNT.unpack_from(content, 8)[0] if longs > 1 else 1
        theta = _THETA.unpack_from(content, 16)[0] if longs > 2 else ALL_KEYS
    except struct.error:
        raise UnreadableError("it is cut short: a sketch without its preamble") from None
    if count < 0 or len(content) != 8 * longs + count * _ENTRY.size or theta <= 0:
        raise UnreadableError("it is cut short or damaged: a sketch of another length than it says")
    entries = _ENTRY.iter_unpack(memoryview(content)[8 * longs :])
    return Sketch({key: value for key, value, _ in entries}, theta)


def key_of(text: str) -> int:
    """The key of a string in a sketch."""
    data = text.encode()
    h1 = h2 = SEED
    for at in range(0, len(data) - 15, 16):
        k1, k2 = struct.unpack_from("<QQ", data, at)
        h1 = (_rotated(h1 ^ _first(k1), 27) + h2) * 5 + 0x52DCE729 & _ALL_BITS
        h2 = (_rotated(h2 ^ _second(k2), 31) + h1) * 5 + 0x38495AB5 & _ALL_BITS
    rest = data[len(data) // 16 * 16 :]
    h1 ^= _first(int.from_bytes(rest[:8], "little")) ^ len(data)
    h2 ^= _second(int.from_bytes(rest[8:], "little")) ^ len(data)
    h1 = h1 + h2 & _ALL_BITS
    h2 = h2 + h1 & _ALL_BITS
    return (_finished(h1) + _finished(h2) & _ALL_BITS) >> 1


def _first(k1: int) -> int:
    return _rotated(k1 * C1 & _ALL_BITS, 31) * C2 & _ALL_BITS


def _second(k2: int) -> int:
    return _rotated(k2 * C2 & _ALL_BITS, 33) * C1 & _ALL_BITS


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> 64 - by) & _ALL_BITS


def _finished(word: int) -> int:
    word = (word ^ word >> 33) * MIX1 & _ALL_BITS
    word = (word ^ word >> 33) * MIX2 & _ALL_BITS
    return word ^ word >> 33


def keys_of_longs(longs: "NDArray[np.int64]") -> "NDArray[np.uint64]":
    """The keys under which a sketch has longs: `key_of` for exactly 8 bytes, for many at once."""
    import numpy as np

    def finished(words: "NDArray[np.uint64]") -> "NDArray[np.uint64]":
        shift: Any = np.uint64(33)
        words = (words ^ words >> shift) * np.uint64(MIX1)
        words = (words ^ words >> shift) * np.uint64(MIX2)
        return words ^ words >> shift

    h1 = longs.astype(np.uint64) * np.uint64(C1)
    h1 = (h1 << np.uint64(31) | h1 >> np.uint64(33)) * np.uint64(C2)
    h1 ^= np.uint64(SEED ^ 8)
    h2 = np.uint64(SEED ^ 8)
    h1 = h1 + h2
    return (finished(h1) + finished(h1 + h2)) >> np.uint64(1)
