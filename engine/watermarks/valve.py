"""The valve: combines many channels' watermarks into one (Flink's `StatusWatermarkValve`, with FLINK-40475 fixed).

The minimum is kept in a heap whose outdated entries are dropped when they reach the top: an update costs O(log n).
"""

from collections.abc import Mapping
from enum import IntEnum
from heapq import heapify, heappop, heappush
from itertools import compress

from msgspec import Struct

from .times import MAX, MIN


class Status(IntEnum):
    """A channel's status; a removed channel keeps its number but takes no part."""

    ACTIVE = 0
    IDLE = 1
    FINISHED = 2
    REMOVED = 3


class ValveOutput(Struct, frozen=True):
    """The valve's output: a status change comes first (`idle`), but the watermark first if the valve turned idle."""

    watermark: int | None = None
    idle: bool | None = None


class Valve(Struct, dict=True):
    """Channels by number (the order of semantics section 6); times in ms, `since` in processing time."""

    watermarks: list[int] = []
    statuses: list[Status] = []
    aligned: list[bool] = []
    since: list[int] = []
    """When each channel's watermark last changed."""
    last_output: int = MIN
    idle: bool = False

    def __post_init__(self) -> None:
        self._active = self.statuses.count(Status.ACTIVE)
        self._heap: list[tuple[int, int, int]] = []
        self._outdated = bool(self.watermarks)
        self._scanned = False
        """Whether `_held` is the holder: a tick asks for it again, and nothing has changed."""
        self._held: int | None = None

    def _rebuild(self) -> None:
        self._outdated = False
        self._heap = [
            (watermark, self.since[channel], channel)
            for channel, watermark in enumerate(self.watermarks)
            if self.aligned[channel]
        ]
        heapify(self._heap)

    def add_channel(self, now: int) -> ValveOutput | None:
        """Add a channel, ACTIVE at MIN and aligned: it does not lower the watermark, but stops it."""
        channel = len(self.watermarks)
        self.watermarks.append(MIN)
        self.statuses.append(Status.ACTIVE)
        self.aligned.append(True)
        self.since.append(now)
        self._active += 1
        heappush(self._heap, (MIN, now, channel))
        self._scanned = False
        if not self.idle:
            return None
        self.idle = False
        return ValveOutput(idle=False)

    def add_again(self, channel: int, now: int) -> ValveOutput | None:
        """Add a channel that finished or was removed again, by its number, ACTIVE at MIN and aligned like a new one."""
        assert self.statuses[channel] >= Status.FINISHED
        self.watermarks[channel] = MIN
        self.statuses[channel] = Status.ACTIVE
        self.aligned[channel] = True
        self.since[channel] = now
        self._active += 1
        heappush(self._heap, (MIN, now, channel))
        self._scanned = False
        woke, self.idle = self.idle, False
        return ValveOutput(idle=False) if woke else None

    def input_watermark(self, channel: int, watermark: int, now: int = 0) -> ValveOutput | None:
        """Take a channel's watermark; ignored while the channel or the valve is idle, or if it does not grow."""
        if self.idle or watermark <= self.watermarks[channel] or self.statuses[channel] != Status.ACTIVE:
            return None
        self.watermarks[channel] = watermark
        self.since[channel] = now
        if not self.aligned[channel]:
            if watermark < self.last_output:
                return None
            self.aligned[channel] = True
        heappush(self._heap, (watermark, now, channel))
        return self._rederive()

    def input_watermarks(self, watermarks: Mapping[int, int], now: int = 0) -> None:
        """Take many channels' watermarks, in order: the same as one by one, faster where the order cannot matter."""
        if not watermarks or self.idle or 4 * len(watermarks) < len(self.watermarks) or not self.all_active_aligned():
            for channel, watermark in watermarks.items():
                self.input_watermark(channel, watermark, now)
            return
        # No minimum on the way lies above the last one: only the last one counts.
        known, statuses, since = self.watermarks, self.statuses, self.since
        everyone = self._active == len(known)
        for channel, watermark in watermarks.items():
            if watermark > known[channel] and (everyone or statuses[channel] == Status.ACTIVE):
                known[channel] = watermark
                since[channel] = now
        self._outdated, self._scanned = True, False
        if self._active == len(known):
            self._advance(min(known))
        else:
            self._rederive()

    def is_like(self, other: "Valve") -> bool:
        """Whether both valves will respond alike to the same input."""
        return (
            (self.last_output, self.idle) == (other.last_output, other.idle)
            and self.watermarks == other.watermarks
            and self.since == other.since
            and self.aligned == other.aligned
            and self.statuses == other.statuses
        )

    def become(self, other: "Valve") -> None:
        """Copy the state of another valve."""
        self.watermarks, self.statuses = other.watermarks.copy(), other.statuses.copy()
        self.aligned, self.since = other.aligned.copy(), other.since.copy()
        self.last_output, self.idle, self._active = other.last_output, other.idle, other._active
        self._outdated, self._scanned = True, False

    def mark_idle(self, channel: int) -> ValveOutput | None:
        """ACTIVE -> IDLE; the last active channel's flushes the maximum and makes the valve idle."""
        if self.statuses[channel] != Status.ACTIVE:
            return None
        self._leave(channel, Status.IDLE)
        return self._settle()

    def mark_active(self, channel: int) -> ValveOutput | None:
        """IDLE -> ACTIVE; aligned if its watermark has kept up with the output."""
        if self.statuses[channel] != Status.IDLE:
            return None
        self.statuses[channel] = Status.ACTIVE
        self._active += 1
        if self.watermarks[channel] >= self.last_output:
            self.aligned[channel] = True
            heappush(self._heap, (self.watermarks[channel], self.since[channel], channel))
        woke = self.idle
        self.idle = False
        output = self._rederive()
        if not woke:
            return output
        return ValveOutput(watermark=output.watermark if output else None, idle=False)

    def finish(self, channel: int) -> ValveOutput | None:
        """Finish a channel: neither active nor idle; once all channels have finished the output is MAX."""
        if self.statuses[channel] >= Status.FINISHED:
            return None
        self._leave(channel, Status.FINISHED)
        return self._settle()

    def remove(self, channel: int) -> ValveOutput | None:
        """Remove a channel from the minimum for good."""
        if self.statuses[channel] == Status.REMOVED:
            return None
        self._leave(channel, Status.REMOVED)
        return self._settle()

    def holder(self) -> int | None:
        """The aligned channel with the smallest watermark; ties: unchanged longest, then order; None: no aligned
        channel.
        """
        if self._outdated:  # a scan costs less than a new heap, which the next round may outdate
            if self._scanned:
                return self._held
            least = min(compress(self.watermarks, self.aligned), default=None)
            aligned, since = self.aligned, self.since
            lowest = [n for n, watermark in enumerate(self.watermarks) if watermark == least and aligned[n]]
            self._scanned, self._held = True, min(lowest, key=since.__getitem__, default=None)
            return self._held
        return None if self._top() is None else self._heap[0][2]

    @property
    def unfinished(self) -> list[int]:
        """The channels that are active or idle."""
        return [channel for channel, status in enumerate(self.statuses) if status < Status.FINISHED]

    def all_active_aligned(self) -> bool:
        """Whether every active channel is aligned."""
        return sum(self.aligned) == self._active

    def _leave(self, channel: int, status: Status) -> None:
        self._active -= self.statuses[channel] == Status.ACTIVE
        self.statuses[channel] = status
        self.aligned[channel] = False
        self._scanned = False

    def _settle(self) -> ValveOutput | None:
        """Compute the minimum again, or flush the maximum if no channel is active any more."""
        if self._active:
            return self._rederive()
        unfinished = [w for w, s in zip(self.watermarks, self.statuses, strict=True) if s == Status.IDLE]
        if not unfinished:
            return self._advance(MAX) if Status.FINISHED in self.statuses else None
        if self.idle:
            return None
        output = self._advance(max(unfinished))
        self.idle = True
        return ValveOutput(watermark=output.watermark if output else None, idle=True)

    def _rederive(self) -> ValveOutput | None:
        top = self._top()
        return None if top is None else self._advance(top)

    def _advance(self, level: int) -> ValveOutput | None:
        if level <= self.last_output:
            return None
        self.last_output = level
        return ValveOutput(watermark=level)

    def _top(self) -> int | None:
        """The minimum over aligned channels."""
        heap = self._heap
        if self._outdated or len(heap) > 2 * len(self.watermarks) + 64:
            self._rebuild()
            heap = self._heap
        while heap:
            watermark, since, channel = heap[0]
            if self.aligned[channel] and self.watermarks[channel] == watermark and self.since[channel] == since:
                return watermark
            heappop(heap)
        return None


class Round:
    """One round of many channels' watermarks (ms, by channel) into several valves, at processing time `now` (ms).

    The clocks of the what-if seldom differ from the run's own: valves that are alike before a round are alike after it.
    """

    def __init__(self, watermarks: Mapping[int, int], now: int) -> None:
        self.watermarks = watermarks
        self._now = now
        self._before: Valve | None = None
        self._after: Valve | None = None

    def send(self, valve: Valve) -> None:
        """Pass the watermarks to a valve, in order."""
        if 4 * len(self.watermarks) < len(valve.watermarks):  # few: comparing would cost more
            valve.input_watermarks(self.watermarks, self._now)
        elif self._before is None or self._after is None:
            self._before = Valve()
            self._before.become(valve)
            valve.input_watermarks(self.watermarks, self._now)
            self._after = valve
        elif valve.is_like(self._before):
            valve.become(self._after)
        else:
            valve.input_watermarks(self.watermarks, self._now)
