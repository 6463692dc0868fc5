"""Section 11 once more, from its text: lists of everything that was seen, searched again for each answer."""

import itertools
import math
from dataclasses import dataclass, field
from typing import Any

MINUTE, HOUR = 60_000, 3_600_000


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
    window: int = 0
    idle_after: int | None = None
    raised: bool = False
    """A raised lateness alone holds the watermark back."""

    @property
    def cap(self) -> int:
        return max(HOUR, self.window, self.idle_after or 0)


@dataclass
class VerdictReference:
    """11.1 over a list of all moments."""

    fixed: int | None = None
    """`--verdict-after`."""
    kind: str = "run"
    moments: list[Moment] = field(default_factory=list[Moment])
    attached: bool = False
    shown: str | None = None
    since: int = 0

    def see(self, moment: Moment) -> tuple[str, int, int]:
        """The verdict after this moment, since when, and the age."""
        self.moments.append(moment)
        name, since = self.raw(moment)
        if name != self.shown:
            self.shown, self.since = name, moment.now
        return name, self.since if since is None else since, self.age(moment)

    def advances(self) -> list[Moment]:
        found, highest = [], None
        for place, moment in enumerate(self.moments):
            if moment.level is None or (highest is not None and moment.level <= highest):
                continue
            if place or not self.attached:  # an attached target's first watermark was there before
                found.append(moment)
            highest = moment.level
        return found

    def age(self, moment: Moment) -> int:
        last = self.advances()
        return moment.now - (last[-1].now if last else self.moments[0].now)

    def gaps(self, *, all_of_them: bool = False) -> list[int]:
        """Between counted advances: those that were at most cap long, or all."""
        gaps, counted = [], None
        for moment in self.advances():
            if counted is None or moment.now - counted >= 10_000:
                if counted is not None and (all_of_them or moment.now - counted <= moment.cap):
                    gaps.append(moment.now - counted)
                counted = moment.now
        return gaps

    def pace(self) -> int | None:
        gaps = self.gaps()[-50:]
        return percentile(gaps) if len(gaps) >= 5 else None

    def beats(self) -> list[int]:
        if self.kind == "sample":
            times = [moment.now for moment in self.moments]
        else:
            times, before = [], 0
            for moment in self.moments:
                times += [moment.now] * (moment.batches - before)
                before = moment.batches
        return [later - sooner for sooner, later in itertools.pairwise(times)][-50:]

    def patience(self) -> int:
        if self.fixed is not None:
            return self.fixed
        cap, pace, beats = self.moments[-1].cap, self.pace(), self.beats()
        least = max(MINUTE, 3 * percentile(beats) if beats else 0)
        if pace is not None:
            return max(least, min(3 * pace, cap))
        if not beats and self.kind in ("spark", "group"):
            return cap if self.kind == "spark" else 10 * MINUTE
        if self.kind == "replay":
            return max(least, cap)
        if self.attached:
            return max(least, min(3 * max(self.gaps(all_of_them=True), default=0), cap))
        return least

    def level_at(self, time: float) -> int | None:
        found = None
        for moment in self.moments:
            if moment.now <= time and moment.level is not None:
                found = moment.level if found is None else max(found, moment.level)
        return found

    def raw(self, moment: Moment) -> tuple[str, int | None]:
        if moment.ended:
            return "ended", None
        patience, age = self.patience(), self.age(moment)
        if moment.lost or (not self.advances() and moment.now - self.moments[0].now <= patience):
            return "unknown", None
        if age > patience:
            frozen_since = moment.now - age
            first = self.moments[0].records if self.attached else 0
            before = [first, *(one.records for one in self.moments)]
            came = [one.now for one, had in zip(self.moments, before, strict=False) if one.records > had]
            heard = came[-1] if came else None
            if heard is not None and moment.now - heard <= patience:
                return ("waiting" if moment.raised else "stalled"), frozen_since
            if moment.unread:
                return "stalled", frozen_since
            return ("unknown", None) if moment.unread is None else ("waiting", frozen_since)
        slow_since = self.falls_behind(moment.now, patience)
        return ("moving", None) if slow_since is None else ("slow", slow_since)

    def falls_behind(self, now: int, patience: int) -> int | None:
        known = [moment.now for moment in self.moments if moment.level is not None]
        if not known:
            return None
        first = max(now - 10 * patience, known[0])
        part = now - first
        if part < 5 * patience:
            return None
        edges = [first + part * number // 5 for number in range(6)]
        times = sorted({*edges[:-1], *(one.now for one in self.moments)})
        least = []
        for start, end in itertools.pairwise(edges):
            behind = [
                time - level for time in times if start <= time < end and (level := self.level_at(time)) is not None
            ]
            least.append(min(behind))
        grows = all(later > sooner for sooner, later in itertools.pairwise(least))
        return edges[1] if grows and least[-1] - least[0] > part / 5 else None


def percentile(values: list[int]) -> int:
    """The 90th, nearest rank."""
    return sorted(values)[math.ceil(0.9 * len(values)) - 1]


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
