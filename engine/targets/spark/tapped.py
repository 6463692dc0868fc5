"""An input with a tap: the reports of the tap's `observe`, summed over batches; and the sketches in them.

A sketch is what Spark's `tuple_sketch_agg_double` returns: a number for each key, the keys as hashes (DataSketches:
tuple). Compact form, little-endian: longs of preamble (u8), version 3, family 9, type 1, unused (u8), flags (u8),
hash of the seed (u16); from two longs on the number of entries (i32, 4 bytes unused), at three theta (i64); then the
entries.
"""

import struct
from bisect import bisect_right
from collections import deque
from typing import Annotated, Any, cast

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from ...system.errors import one_line
from ...watermarks.lateness import LADDER_MS, Histogram
from . import known
from .files import UnreadableError

MAX_CHANNELS = 8192
MAX_RECENT = 64
MAX_RECENT_ENTRIES = 20_000
"""Channels in the recent batches, at most; the last batch is always kept."""
MAX_BUCKETS = 1 << 16
"""Buckets that are looked up, at most: at 10 s each, 7 days."""

Count = Annotated[int, Meta(ge=-(2**44), le=2**44)]
"""Bounded so that sums fit 64 bits; negative counts mean "not counted"."""
EventMs = Annotated[int, Meta(ge=-(2**54), le=2**54)]
"""An event time (ms) in the range of a timestamp."""

_NAME_LIMIT = 200

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
    return _key(h1, h2)


def key_of_long(number: int) -> int:
    """The key of a long in a sketch: `key_of` for exactly 8 bytes."""
    return _key(_first(number & _ALL_BITS) ^ SEED ^ 8, SEED ^ 8)


def _first(k1: int) -> int:
    return _rotated(k1 * C1 & _ALL_BITS, 31) * C2 & _ALL_BITS


def _second(k2: int) -> int:
    return _rotated(k2 * C2 & _ALL_BITS, 33) * C1 & _ALL_BITS


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> 64 - by) & _ALL_BITS


def _key(h1: int, h2: int) -> int:
    """The key that the two halves of a hash give."""
    h1 = h1 + h2 & _ALL_BITS
    h2 = h2 + h1 & _ALL_BITS
    return (_finished(h1) + _finished(h2) & _ALL_BITS) >> 1


def _finished(word: int) -> int:
    word = (word ^ word >> 33) * MIX1 & _ALL_BITS
    word = (word ^ word >> 33) * MIX2 & _ALL_BITS
    return word ^ word >> 33


class ChannelFacts(Struct, frozen=True, array_like=True):
    """A channel of a tapped input, since the query started."""

    max_ms: int
    rows: int


class Sampled(Struct, frozen=True):
    """There were too many channels to keep: `kept` of about `of`, with exact counts."""

    kept: int
    of: int


class LatenessCounts(Struct, frozen=True, kw_only=True):
    """The rows that would have been late at each constant delay: at or before the watermark of the batch before theirs.

    A count is at least the true one at its delay, and at most the true one at a delay shorter by a bucket.
    """

    bucket_ms: int
    """The width of the counted buckets of event time."""
    delays_ms: tuple[int, ...]
    spark: tuple[int, ...]
    """By Spark's rule: one clock, driven by the greatest event time of all channels."""
    barrel: tuple[int, ...] | None
    """With a clock driven by the slowest channel, none idle; None: not all channels are known."""


class InputBatch(Struct, frozen=True):
    """One batch's rows of one input, by channel."""

    timestamp_ms: int | None
    channels: dict[str, ChannelFacts]


class InputFacts(Struct, frozen=True, kw_only=True):
    """An input with a tap before its watermark, since the query started."""

    name: str
    rows: int
    nulls: int
    """Rows without an event time."""
    max_ms: int | None
    """The greatest event time, which drives Spark's clock."""
    barrel_ms: int | None
    """The event time of the slowest channel, none idle; None: no channels, or not all known."""
    channels: dict[str, ChannelFacts]
    """Channels by name; a channel with an unknown name by `#` and its hash."""
    sampled: Sampled | None
    lateness: LatenessCounts | None
    recent: tuple[InputBatch, ...]
    """The last batches, oldest first."""
    trouble: str | None = None
    """One line on what could not be read."""


class Tapped(Struct, frozen=True):
    """The columns of a tap's `observe`; binary ones hold sketches, and all but the first few may be missing."""

    rows: Count
    min_ms: EventMs | None = None
    max_ms: EventMs | None = None
    nulls: Count = 0
    max_by_channel: bytes | None = None
    rows_by_channel: bytes | None = None
    channel_names: str | None = None
    """A JSON list; incomplete if there are many channels, with a null if rows had none."""
    rows_by_bucket: bytes | None = None
    """Rows by the start (ms) of their bucket of event time."""
    bucket_ms: Annotated[int, Meta(gt=0, le=2**40)] | None = None


def columns_of(observed: Any) -> dict[str, Any]:
    """One `observe`, by column, from an event log's JSON or a listener's; UnreadableError for anything else."""
    if not isinstance(observed, dict):
        raise UnreadableError("it is not what an observe says")
    columns = cast(dict[str, Any], observed)
    if columns.keys() != {"values", "schema"}:
        return columns
    try:
        names = [field["name"] for field in columns["schema"]["fields"]]
        return dict(zip(names, columns["values"], strict=True))
    except (TypeError, KeyError, ValueError):
        raise UnreadableError("it is not what an observe says") from None


class TappedInput:
    """The sums over all batches of one input."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._rows = 0
        self._nulls = 0
        self._max_ms: int | None = None
        self._channels: dict[int, ChannelFacts] = {}
        self._names: dict[int, str] = {}
        self._shown: set[str] = set()
        self._theta = ALL_KEYS
        self._of = 0
        self._barrel_ms: int | None = None
        self._in_force = self._before = (None, None)
        """The greatest event time and the slowest channel's (ms) behind the watermarks of this batch and the last."""
        self._lateness: _Lateness | None = None
        self._keys_of_starts: dict[int, int] = {}
        """The keys of buckets that were looked up: the next batch mostly has the same."""
        self._recent: deque[tuple[int | None, dict[int, ChannelFacts]]] = deque()
        """The time of each recent batch, and its channels by key."""
        self._entries = 0
        self._trouble: str | None = None

    def begin(self) -> None:
        """Note that a batch begins, also one without data: late rows are behind the watermarks of the one before."""
        self._before, self._in_force = self._in_force, (self._max_ms, self._barrel_ms)

    def apply(
        self, batch: int, timestamp_ms: int | None, observed: Any, clock_ms: int | UnsetType | None = UNSET
    ) -> None:
        """Add what was observed in the batch that has begun; unreadable parts become a trouble.

        `clock_ms`: the greatest event time behind the watermark that its late rows were compared with; UNSET if Spark's
        reports may belong to another input: then the tap's own counts are used.
        """
        try:
            tapped = msgspec.convert(columns_of(observed), Tapped)
            maxima, rows = _sketch(tapped.max_by_channel), _sketch(tapped.rows_by_channel)
            self._learn(tapped.channel_names)
            channels = {
                key: ChannelFacts(_whole(maximum, -(2**54), 2**54), _whole(rows.values.get(key, 0.0)))
                for key, maximum in maxima.values.items()
            }
            buckets, missing = self._buckets(tapped)
        except (UnreadableError, ValueError, RecursionError) as error:  # msgspec's are ValueErrors
            self._trouble = one_line(f"tap {self.name}, batch {batch}: {error}")
            return
        if not tapped.rows:
            return
        if tapped.bucket_ms is not None:
            clock_ms = self._before[0] if isinstance(clock_ms, UnsetType) else clock_ms
            if self._lateness is None or self._lateness.width != tapped.bucket_ms:
                self._lateness = _Lateness(tapped.bucket_ms)
            self._lateness.count(buckets, clock_ms, self._before[1], missing)
        self._add_channels(channels, min(maxima.theta, rows.theta))
        self._rows += tapped.rows
        self._nulls += tapped.nulls
        self._max_ms = max(known(self._max_ms, tapped.max_ms), default=None)
        slowest_ms = min((channel.max_ms for channel in self._channels.values()), default=None)
        self._barrel_ms = max(known(self._barrel_ms, slowest_ms), default=None)
        self._remember(timestamp_ms, channels)

    def facts(self) -> InputFacts:
        """The sums so far."""
        sampled = self._theta < ALL_KEYS
        return InputFacts(
            name=self.name,
            rows=self._rows,
            nulls=self._nulls,
            max_ms=self._max_ms,
            barrel_ms=None if sampled else self._barrel_ms,
            channels=self._named(self._channels),
            sampled=Sampled(len(self._channels), self._of) if sampled else None,
            lateness=self._lateness.facts(barrel=bool(self._channels) and not sampled) if self._lateness else None,
            recent=tuple(InputBatch(at_ms, self._named(channels)) for at_ms, channels in self._recent),
            trouble=self._trouble,
        )

    def _learn(self, names: str | None) -> None:
        for name in msgspec.json.decode(names, type=list[str | None]) if names else ():
            if name and (key := key_of(name)) not in self._names and len(self._names) < 2 * MAX_CHANNELS:
                shown = one_line(name, _NAME_LIMIT)
                self._names[key] = f"{shown} #{key:016x}" if shown in self._shown else shown
                self._shown.add(shown)

    def _add_channels(self, channels: dict[int, ChannelFacts], theta: int) -> None:
        """Keep, of too many channels, those with the lowest keys: every batch reported them, so they are exact."""
        for key, channel in channels.items():
            before = self._channels.get(key)
            if before is not None:
                channel = ChannelFacts(max(before.max_ms, channel.max_ms), before.rows + channel.rows)
            self._channels[key] = channel
        self._theta = min(self._theta, theta)
        if len(self._channels) > MAX_CHANNELS:
            self._theta = min(self._theta, sorted(self._channels)[MAX_CHANNELS])
        if self._theta < ALL_KEYS:
            self._channels = {key: channel for key, channel in self._channels.items() if key < self._theta}
            self._of = max(self._of, round(len(self._channels) * ALL_KEYS / self._theta))

    def _buckets(self, tapped: Tapped) -> tuple[dict[int, int], int]:
        """The rows by the start (ms) of their bucket, and how many rows with a time the sketch has not counted.

        The sketch has hashes, so all candidates are hashed, too; if the times are too far apart for that, only buckets
        close to the watermark are looked up.
        """
        width, low, high = tapped.bucket_ms, tapped.min_ms, tapped.max_ms
        if tapped.rows_by_bucket is None or width is None or low is None or high is None:
            return {}, tapped.rows - tapped.nulls
        sketch = decode_sketch(tapped.rows_by_bucket)
        newest = high if self._max_ms is None else min(high, max(low, self._max_ms))
        first = max(low // width, newest // width - MAX_BUCKETS)
        last = min(high // width, first + 2 * MAX_BUCKETS)
        rows: dict[int, int] = {}
        for start in range(first * width, (last + 1) * width, width):
            key = self._keys_of_starts.get(start)
            if key is None:
                key = self._keys_of_starts[start] = key_of_long(start)
            if key in sketch.values:
                rows[start] = _whole(sketch.values[key] / sketch.share)
        if len(self._keys_of_starts) > 4 * MAX_BUCKETS:
            self._keys_of_starts.clear()
        counted = _whole(sum(sketch.values.values())) if sketch.share == 1 else tapped.rows - tapped.nulls
        return rows, tapped.rows - tapped.nulls - counted

    def _remember(self, timestamp_ms: int | None, channels: dict[int, ChannelFacts]) -> None:
        self._recent.append((timestamp_ms, channels))
        self._entries += len(channels)
        while len(self._recent) > 1 and (len(self._recent) > MAX_RECENT or self._entries > MAX_RECENT_ENTRIES):
            self._entries -= len(self._recent.popleft()[1])

    def _named(self, channels: dict[int, ChannelFacts]) -> dict[str, ChannelFacts]:
        return {self._names.get(key) or f"#{key:016x}": channel for key, channel in channels.items()}


class _Lateness:
    """Rows by their distance behind the watermarks of the batch before theirs."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._delays = [delay for delay in LADDER_MS if delay >= width]
        self._spark = Histogram([0] * len(self._delays))
        self._barrel = Histogram([0] * len(self._delays))

    def count(self, buckets: dict[int, int], fastest_ms: int | None, slowest_ms: int | None, missing: int) -> None:
        """Count a batch, given the watermarks (ms, lateness 0) of the batch before.

        `missing`: rows that no bucket has. They count as late, so that a count stays at least the true one.
        """
        if missing > 0 and self._delays:
            for histogram, level in (self._spark, fastest_ms), (self._barrel, slowest_ms):
                histogram.counts[-1] += missing if level is not None else 0
        for start, rows in buckets.items():
            for histogram, level in (self._spark, fastest_ms), (self._barrel, slowest_ms):
                if level is not None and level - start >= self.width:
                    histogram.counts[bisect_right(self._delays, level - start) - 1] += rows

    def facts(self, *, barrel: bool) -> LatenessCounts:
        """The counts so far."""
        return LatenessCounts(
            bucket_ms=self.width,
            delays_ms=tuple(self._delays),
            spark=tuple(self._spark.at_least()),
            barrel=tuple(self._barrel.at_least()) if barrel else None,
        )


def _sketch(content: bytes | None) -> Sketch:
    return Sketch({}) if content is None else decode_sketch(content)


def _whole(number: float, lowest: int = 0, highest: int = 2**44) -> int:
    """A time (ms) or a number of rows; UnreadableError where it is neither."""
    if not lowest <= number <= highest:
        raise UnreadableError("a sketch holds an invalid number")
    return round(number)
