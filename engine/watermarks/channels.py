"""The channels of a run by number, their idleness timers, those beyond the limit folded into one, and unread records
(semantics 6).
"""

from collections.abc import Iterable, Mapping, Set
from hashlib import blake2b
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from .generators import BoundedWatermarks, Generator, SilentWatermarks, absorb
from .observation import BatchObservation, Group, Sequence
from .times import MIN

Departure = Literal["finished", "removed"]


class Channel(Struct, gc=False, omit_defaults=True):
    """A channel: its generator, and when it last had a record (processing time, ms)."""

    name: str
    generator: Generator
    max_event_ms: int | None = None
    last_record_ms: int | None = None
    added_ms: int = 0
    longest_quiet_ms: int | None = None
    left: Departure | None = None
    """Why the channel sends nothing more; a removed channel only keeps its number."""


def absorb_all(
    channels: list[Channel],
    numbers: Mapping[str, int],
    events: Mapping[str, int],
    emitted_at_once: Mapping[str, int],
    sequences: Mapping[str, Sequence],
    now: int,
) -> dict[int, int]:
    """Pass a batch's records to the channels at processing time `now` (ms); `numbers` has the numbers of their names,
    `events` and `emitted_at_once` are its `greatest_times`.

    Returns by number what each channel emitted at once (ms, `MIN`: nothing).
    """
    sent: dict[int, int] = {}
    for name, event_ms in events.items():  # for each channel of each batch: nothing is called for speed
        number = numbers[name]
        channel = channels[number]
        generator = channel.generator
        if type(generator) is BoundedWatermarks:
            if event_ms > generator.max_ms:
                generator.max_ms = event_ms
            sent[number] = MIN
        else:
            emitted = absorb(generator, event_ms, emitted_at_once.get(name), sequences.get(name))
            sent[number] = MIN if emitted is None else emitted
        last = channel.last_record_ms
        if last is not None:
            quiet, longest = now - last, channel.longest_quiet_ms
            if longest is None or quiet > longest:
                channel.longest_quiet_ms = quiet if quiet > 0 else 0
        channel.last_record_ms = now
        known_ms = channel.max_event_ms
        if known_ms is None or event_ms > known_ms:
            channel.max_event_ms = event_ms
    return sent


def emit_all(channels: list[Channel], sent: Mapping[int, int], *, periodic: bool) -> dict[int, int]:
    """The watermarks (ms) that the channels in `sent` emit, in order: what they sent at once (`MIN`: nothing) or,
    with `periodic`, what their generators emit now if that is greater.
    """
    watermarks: dict[int, int] = {}
    for number in sorted(sent):
        watermark = sent[number]
        if periodic:
            generator = channels[number].generator
            if type(generator) is BoundedWatermarks:  # inlined, as above
                emitted = generator.max_ms
                if not generator.legacy and emitted != MIN:
                    emitted -= 1
            else:
                emitted = generator.on_periodic_emit()
            if emitted is not None and emitted > watermark:
                watermark = emitted
        if watermark != MIN:
            watermarks[number] = watermark
    return watermarks


class Registry:
    """Names and numbers of the channels; the channels themselves are in the monitor's list, which is saved."""

    def __init__(self, channels: list[Channel]) -> None:
        self._channels = channels
        self._numbers = {c.name: number for number, c in enumerate(channels) if c.left != "removed"}
        self._unfinished = {name: number for name, number in self._numbers.items() if channels[number].left is None}

    def __contains__(self, name: str) -> bool:
        return name in self._numbers

    def number(self, name: str) -> int:
        """The number of a known channel that is not removed."""
        return self._numbers[name]

    def known(self, names: Iterable[str]) -> set[int]:
        """The numbers of the known channels that are not removed."""
        return {self._numbers[name] for name in names if name in self._numbers}

    @property
    def unfinished(self) -> Mapping[str, int]:
        """The channels that may still send records: their numbers by name, in order. It changes with the channels."""
        return self._unfinished

    def add(self, channel: Channel) -> int:
        """Append a channel, which now owns its name; returns its number."""
        number = self._numbers[channel.name] = self._unfinished[channel.name] = len(self._channels)
        self._channels.append(channel)
        return number

    def leave(self, number: int, left: Departure) -> None:
        """Mark a channel that sends nothing more; a removed channel gives up its name."""
        channel = self._channels[number]
        if channel.left is None:
            del self._unfinished[channel.name]
        channel.left = left
        if left == "removed":
            del self._numbers[channel.name]
            channel.generator = SilentWatermarks()


class IdlenessTimers(Struct):
    """Flink's two-stage timers (`IdlenessTimer`), channels by number; times are processing time (ms)."""

    active: set[int] = set()
    """Channels that had a record since the last emit."""
    noted: set[int] = set()
    """Channels whose activity is noted, or that never had any: the next emit starts their inactivity clock."""
    since: dict[int, int] = {}
    """When each channel's inactivity clock started."""
    held: dict[int, int] = {}
    """For channels whose inactivity clock has not started: time up to this moment does not count."""

    def add(self, channel: int) -> None:
        """Register a channel that has had no record yet."""
        self.noted.add(channel)

    def activity(self, channels: Iterable[int]) -> None:
        """Note that records of these channels have come."""
        self.active.update(channels)

    def forget(self, channel: int) -> None:
        """Forget a channel that has finished or was removed: it never becomes idle."""
        self.active.discard(channel)
        self.noted.discard(channel)
        self.since.pop(channel, None)
        self.held.pop(channel, None)

    def emit(self, now: int) -> list[int]:
        """Take one emit tick; returns the channels whose inactivity clock starts at `now`."""
        started = list(self.noted - self.active) if self.noted else []
        for channel in started:
            self.since[channel] = max(now, self.held.pop(channel, now)) if self.held else now
        for channel in self.active:
            self.since.pop(channel, None)
        self.noted = self.active
        self.active = set()
        return started

    def exclude(self, duration: int, until: int, channels: Iterable[int] | None = None) -> None:
        """Exclude the `duration` (ms) that ended at `until` from all timeouts (paused, stopped, held back, backlog).

        Owed emits follow: a clock that starts in one of them starts at the end of that time.
        """
        for channel in self.since.keys() | self.noted | self.active if channels is None else channels:
            if channel in self.since:
                self.since[channel] += duration
            elif channel in self.noted or channel in self.active:
                self.held[channel] = until

    @property
    def pending(self) -> bool:
        """Whether the next emit changes something, whatever its time."""
        return bool(self.active or self.noted)


class IdleCycle(Struct):
    """When a channel last turned idle, and a running mean of its cycles (ms) in which the last one counts half."""

    began_ms: int
    length_ms: int | None = None


class IdleCycles(Struct):
    """The cycles of all channels that have ever been idle, by channel number."""

    of: dict[int, IdleCycle] = {}

    def turned_idle(self, channels: set[int], now: int) -> None:
        """These channels turn idle at processing time `now` (ms)."""
        for channel in channels:
            last = self.of.get(channel)
            if last is None:
                self.of[channel] = IdleCycle(now)
            else:
                took = now - last.began_ms
                mean = took if last.length_ms is None else (last.length_ms + took) // 2
                self.of[channel] = IdleCycle(now, mean)

    def length_ms(self, channel: int, now: int) -> int | None:
        """The mean cycle (ms), or the current one if that is longer already; None before the second cycle."""
        last = self.of.get(channel)
        if last is None or last.length_ms is None:
            return None
        return max(last.length_ms, now - last.began_ms)

    def forget(self, channel: int) -> None:
        """The channel was removed."""
        self.of.pop(channel, None)


OTHER = "other"
MAX_COUNTED = 100_000
"""Folded channels that are counted exactly, at most; beyond it the count is a lower bound."""


class Folded(Struct, frozen=True):
    """The channels beyond `--max-channels`, which share the channel `into`, and their records."""

    into: str
    channels: int
    at_least: bool
    """There are more: `channels` is a lower bound."""
    records: int


class TooManyChannelsError(Exception):
    """A strategy that needs the order of records cannot fold channels."""


class FoldedChannels(Struct, dict=True):
    """The channels folded into `other`, as 8-byte digests of their names."""

    digests: set[int] = set()
    at_least: bool = False
    records: int = 0

    def __post_init__(self) -> None:
        self._seen: set[str] = set()

    def fold(self, observation: BatchObservation, names: set[str]) -> BatchObservation:
        """The observation with the groups of these channels moved to `other`; counts the channels.

        TooManyChannelsError if the generator needs the records in order.
        """
        if not names:
            return observation
        if observation.sequences:
            raise TooManyChannelsError(
                "there are more channels than --max-channels, and strategies that go by the order of records "
                "(smoothed, custom) cannot fold channels; give a higher --max-channels or a coarser --channel"
            )
        self._count(names)
        self.records += sum(g.records for g in observation.groups if g.channel in names)
        sample = observation.sample
        return replace(
            observation,
            groups=_renamed(observation.groups, names),
            sample=None if sample is None else _renamed(sample, names),
            behind=_merged(observation.behind, names),
        )

    def view(self) -> Folded | None:
        """The folded channels as a snapshot shows them; None: no channel is folded."""
        return Folded(OTHER, len(self.digests), self.at_least, self.records) if self.digests else None

    def _count(self, names: set[str]) -> None:
        for name in sorted(names - self._seen):
            if len(self.digests) >= MAX_COUNTED:
                self.at_least = self.at_least or _digest(name) not in self.digests
                if self.at_least:
                    return
                continue
            self.digests.add(_digest(name))
            self._seen.add(name)


def beyond_limit(names: set[str], known: Set[str], limit: int) -> set[str]:
    """The channels that exceed the limit beside the known ones: new channels, in the order of their names."""
    new = names - known - {OTHER}
    room = max(0, limit - len(known) + (OTHER in known))
    return set() if len(new) <= room else set(sorted(new)[room:])


def _renamed(groups: list[Group], names: set[str]) -> list[Group]:
    return [replace(group, channel=OTHER) if group.channel in names else group for group in groups]


def _merged(behind: dict[str, dict[int, int]], names: set[str]) -> dict[str, dict[int, int]]:
    merged: dict[str, dict[int, int]] = {}
    for channel, buckets in behind.items():
        counts = merged.setdefault(OTHER if channel in names else channel, {})
        for bucket, records in buckets.items():
            counts[bucket] = counts.get(bucket, 0) + records
    return merged


def _digest(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(errors="surrogatepass"), digest_size=8).digest())


class Unread(Struct, frozen=True):
    """Unread records, as far as the source reports them."""

    records: int | None
    """Unread records in total; None: not known now (the broker does not answer), so no channel may be called quiet."""
    by_channel: dict[str, int] | None = None
    """Those of channels with their own part of the source (a partition); None: each may be any channel's."""
    held_back: frozenset[str] = frozenset()
    """Channels that balanced reading keeps waiting."""
    passing: int = 0
    """Records of the last batch: up to twice as many unread ones are on their way and not a backlog."""
    passing_by_channel: dict[str, int] = {}

    def of(self, channel: str) -> int | None:
        """The channel's unread records; None: not known."""
        return None if self.records is None or self.by_channel is None else self.by_channel.get(channel, 0)

    def may_be_of(self, channel: str) -> int | None:
        """How many unread records may be the channel's: its own, or all if the source does not separate channels."""
        return self.records if self.by_channel is None else self.of(channel)

    def backlog(self, channel: str) -> int | None:
        """Those that delay the channel: its own, or all if the source does not separate channels; 0 if they are few."""
        passing = self.passing if self.by_channel is None else self.passing_by_channel.get(channel, 0)
        unread = self.may_be_of(channel)
        return unread if unread is None or unread > 2 * passing else 0

    def not_quiet(self) -> list[str] | None:
        """The channels whose idle timers are stopped; None: all."""
        if self.records is None:
            return None
        if self.by_channel is None:
            return None if self.records else []
        return [channel for channel, records in self.by_channel.items() if records]
