"""Section 11 once more, from its text: lists of everything that was seen, searched again for each answer."""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any


@dataclass
class Moment:
    """What a run shows at one processing time (ms); None: no watermark, nothing known."""

    now: int
    level: int | None
    batches: int
    """Batches so far."""
    event_times: dict[str, int]
    """Greatest event time by channel."""
    records: int
    """Records with a usable time so far."""
    unread: int | None = 0
    ended: bool = False
    lost: bool = False


@dataclass
class VerdictReference:
    """11.1 over a list of all moments."""

    window: int
    fixed: int | None = None
    """`--verdict-after`."""
    least: int | None = None
    """A minute of wall time in processing time; None: batches alone."""
    moments: list[Moment] = field(default_factory=list[Moment])
    shown: str | None = None
    since: int = 0
    pending: tuple[str, int] | None = None
    had_one: bool = False

    def see(self, moment: Moment) -> tuple[str, int]:
        """The verdict after this moment, and since when."""
        self.moments.append(moment)
        raw = self.raw(moment)
        if self.shown is None:
            self.shown, self.since = raw, moment.now
        elif raw == self.shown:
            self.pending = None
        else:
            if self.pending is None or self.pending[0] != raw:
                self.pending = (raw, moment.now)
            at_once = raw in ("unknown", "ended") or not self.had_one
            if at_once or moment.now - self.pending[1] >= (self.horizon() or 0) / 4:
                self.shown, self.since = self.pending
                self.pending = None
        self.had_one = self.had_one or raw not in ("unknown", "ended")
        return self.shown, self.since

    def horizon(self) -> int | None:
        if self.fixed is not None:
            return self.fixed
        times: list[int] = []
        for before, after in zip([None, *self.moments], self.moments, strict=False):
            times += [after.now] * (after.batches - (before.batches if before else 0))
        times = times[-11:]
        if self.least is None:
            return max(1, times[-1] - times[0]) if len(times) == 11 else None
        per_batch = 0 if len(times) < 2 else (times[-1] - times[0]) * 10 // (len(times) - 1)
        return max(self.least, per_batch)

    def at(self, time: float) -> Moment | None:
        found = None
        for moment in self.moments:
            if moment.now <= time:
                found = moment
        return found

    def raw(self, moment: Moment) -> str:
        if moment.ended:
            return "ended"
        horizon = self.horizon()
        if moment.lost or horizon is None or moment.now - self.moments[0].now < horizon:
            return "unknown"
        then = self.at(moment.now - horizon)
        assert then is not None
        if moment.records == then.records:
            if moment.unread == 0:
                return "waiting"
            if moment.unread is None:
                return "unknown"
        if moment.level == then.level:
            since = [then, *(one for one in self.moments if one.now > moment.now - horizon)]
            newer = any(  # also of a channel that has left since
                time > before.event_times.get(name, time - 1)
                for before, after in pairwise(since)
                for name, time in after.event_times.items()
            )
            if newer or moment.unread:
                return "stalled"
            return "moving" if moment.unread == 0 else "unknown"
        ends = [
            self.at(moment.now - horizon + third) for third in (0, horizon - 2 * horizon // 3, horizon - horizon // 3)
        ]
        levels = [end.level if end else None for end in [*ends, moment]]
        times = [moment.now - horizon, moment.now - 2 * horizon // 3, moment.now - horizon // 3, moment.now]
        if None not in levels:
            behind = [time - level for time, level in zip(times, levels, strict=True)]  # type: ignore[operator]
            grew = behind[0] < behind[1] < behind[2] < behind[3]
            if grew and behind[3] - behind[0] > max(self.window, horizon / 10):
                return "slow"
        return "moving"


def expected_blockers(clock: Any, level: int, no_level: int) -> list[tuple[list[str], int | None, int]]:
    """11.2 by trying it out: idle the channels step by step in copies of a reference clock (no source instances)."""
    order = [c.name for c in clock.in_order()]
    valve = clock.valve
    aligned = sorted(
        (name for name in order if valve.aligned.get(name)),
        key=lambda name: (valve.watermark[name], clock.since[name], order.index(name)),
    )
    steps: list[list[str]] = []
    for name in aligned:
        if steps and valve.watermark[steps[-1][0]] == valve.watermark[name]:
            steps[-1].append(name)
        else:
            steps.append([name])
    unfinished = [name for name in order if valve.status.get(name) in ("active", "idle")]
    fastest = max((valve.watermark[name] for name in unfinished), default=no_level)
    found: list[tuple[list[str], int | None, int]] = []
    idled: list[str] = []
    for step in steps[:10]:
        own = valve.watermark[step[0]]
        idled += step
        if own >= fastest:
            break
        left = [valve.watermark[name] for name in aligned if name not in idled]
        active = [name for name in unfinished if valve.status[name] == "active" and name not in idled]
        if not left and active:
            break  # one that is not aligned keeps the valve from flushing
        after = min(left) if left else fastest
        found.append((step, None if level == no_level else max(0, after - level), own))
    return found
