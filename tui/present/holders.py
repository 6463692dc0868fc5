"""Which channel held back the watermark, from when to when, and the cause: from the points of history. Pure."""

from collections.abc import Iterable, Sequence
from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from ...engine.core.history import HistoryPoint
from ...engine.core.snapshot import Cause

MAX_HOLDS = 500
_MAX_CAUSES = 4
CAUSES: dict[str, str] = {
    "quiet": "no data", "backlog": "backlog", "never_seen": "never seen", "behind": "lagging",
    "future_elsewhere": "future timestamp elsewhere", "slow_clock": "slow clock", "held_back": "paused by --max-drift",
    "paused": "source paused", "in_flight": "records in a busy operator", "back_pressured": "source back-pressured",
    "slow_reader": "source reads at full speed", "stuck": "watermark does not move",
    "kept_back": "a task keeps its watermark back", "no_watermark": "source sends no watermark",
    "no_split": "no split to read",
}  # fmt: skip
"""The words for each `Cause`."""


class Hold(Struct, frozen=True):
    """A channel (None: none) held back the watermark from `since_ms` to `until_ms` (processing time, epoch ms)."""

    channel: str | None
    since_ms: int
    until_ms: int
    wall_ms: int
    """When it was first seen (wall clock, epoch ms)."""
    causes: tuple[Cause, ...] = ()
    """The causes in order, at most a few."""
    level_from_ms: int | None = None
    level_to_ms: int | None = None
    lag_ms: int | None = None
    """The greatest distance of the watermark behind the fastest channel."""

    @property
    def length_ms(self) -> int:
        """How long it held (processing time)."""
        return self.until_ms - self.since_ms

    @property
    def key(self) -> str:
        """The key of the hold."""
        return f"{self.since_ms} {self.channel or ''}"


class Total(Struct, frozen=True):
    """The total time (ms) for which a channel held back the watermark, and how often."""

    channel: str
    held_ms: int
    times: int
    longest_ms: int


class Holders:
    """The holds of a session, the oldest first, at most `MAX_HOLDS`; another engine begins another session."""

    def __init__(self) -> None:
        self._holds: list[Hold] = []
        self._last: HistoryPoint | None = None

    def add(self, point: HistoryPoint) -> None:
        """The next point of history."""
        last, self._last = self._last, point
        if last is not None and (point.now_ms < last.now_ms or point.wall_ms < last.wall_ms):
            self._holds.clear()
        if self._holds and _continues(self._holds[-1], point):
            self._holds[-1] = _longer(self._holds[-1], point)
            return
        since = point.now_ms if point.held_since_ms is None else min(point.held_since_ms, point.now_ms)
        if self._holds:
            before = self._holds[-1]
            since = max(since, before.until_ms)
            self._holds[-1] = _released(before, point, since)
        new = Hold(point.holder, since, point.now_ms, point.wall_ms, level_from_ms=point.watermark_ms)
        self._holds = [*self._holds[-MAX_HOLDS + 1 :], _longer(new, point)]

    def until(self, wall_ms: int | None) -> Sequence[Hold]:
        """The holds up to a moment of the wall clock (epoch ms), for a frozen picture."""
        return [hold for hold in self._holds if wall_ms is None or hold.wall_ms <= wall_ms]


def _continues(hold: Hold, point: HistoryPoint) -> bool:
    """Whether the same channel still holds, with no other seen in between."""
    return hold.channel == point.holder and (point.held_since_ms is None or point.held_since_ms <= hold.until_ms)


def _released(hold: Hold, point: HistoryPoint, until_ms: int) -> Hold:
    """At a takeover the watermark jumps because the old holder let go: the jump ends the old holder's hold."""
    level = hold.level_to_ms if point.watermark_ms is None else point.watermark_ms
    return replace(hold, until_ms=until_ms if point.holder != hold.channel else hold.until_ms, level_to_ms=level)


def _longer(hold: Hold, point: HistoryPoint) -> Hold:
    causes = hold.causes
    if point.cause is not None and causes[-1:] != (point.cause,):
        causes = (*causes, point.cause)[-_MAX_CAUSES:]
    lags = [lag for lag in (hold.lag_ms, point.behind_fastest_ms) if lag is not None]
    return replace(
        hold,
        until_ms=max(point.now_ms, hold.until_ms),
        causes=causes,
        level_from_ms=point.watermark_ms if hold.level_from_ms is None else hold.level_from_ms,
        level_to_ms=hold.level_to_ms if point.watermark_ms is None else point.watermark_ms,
        lag_ms=max(lags, default=None),
    )


def totals(holds: Iterable[Hold]) -> list[Total]:
    """How long each channel held, the longest first."""
    found: dict[str, Total] = {}
    for hold in holds:
        if hold.channel is not None:
            before = found.get(hold.channel, Total(hold.channel, 0, 0, 0))
            held, longest = before.held_ms + hold.length_ms, max(before.longest_ms, hold.length_ms)
            found[hold.channel] = Total(hold.channel, held, before.times + 1, longest)
    return sorted(found.values(), key=lambda total: (-total.held_ms, total.channel))


def shares(holds: Sequence[Hold], first_ms: int, last_ms: int, cells: int) -> list[dict[str, float]]:
    """For each of `cells` stretches between two times (processing time, epoch ms), the share that each channel held."""
    out: list[dict[str, float]] = [{} for _ in range(cells)]
    width = max(last_ms - first_ms, 1) / max(cells, 1)
    for hold in holds:
        low, high = max(hold.since_ms, first_ms), min(hold.until_ms, last_ms)
        if hold.channel is None or low > high or not cells:
            continue
        start = min(int((low - first_ms) / width), cells - 1)
        end = min(max(ceil((high - first_ms) / width) - 1, start), cells - 1)
        for cell in range(start, end + 1):
            left = first_ms + cell * width
            part = (min(high, left + width) - max(low, left)) / width
            out[cell][hold.channel] = out[cell].get(hold.channel, 0.0) + max(part, 0.001)
    return out
