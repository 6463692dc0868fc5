"""Alerts (semantics 11.7): a change of verdict, a burst of late records, a lost engine; quiet while they flap. Pure.

An engine and a screen feed the same rule with the same points of history. Times are wall clock (epoch ms): an alert is
for people, also in a replay that is faster than they are.
"""

from collections import deque
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from .history import HistoryPoint, is_overtaken
from .snapshot import Cause, ReasonCode, VerdictName

QUIET_MS = 120_000
"""Alerts of one kind are at least so far apart: twice the shortest horizon of a verdict, so that no two alerts rest on
the same records. What changed meanwhile is alerted afterwards, if it is still so."""
UNKNOWN_MS = 10_000
"""`unknown` is an alert once it has lasted: it is the only verdict that comes without having held for a while."""
LOST_AFTER_MS = 15_000
"""An engine is lost when no snapshot has come for so long; they come once a second."""
RECENT_MS = 60_000
"""A burst is judged over the records of so long."""
BURST_SHARE, BURST_TIMES, BURST_LEAST = 0.01, 3, 10
"""A burst: so many late records, this share of the recent ones, and so many times the share of all before them."""
_T = TypeVar("_T")
_BAD: tuple[VerdictName, ...] = ("slow", "stalled")


class Event(Struct, frozen=True, kw_only=True, tag_field="code"):
    """Something that happened at `wall_ms`, processing time `now_ms` (None: not known); `alert`: notify people."""

    wall_ms: int
    now_ms: int | None = None
    alert: bool = False
    delayed: bool = False
    """The alert of something that happened before, when it had to be quiet."""

    @property
    def code(self) -> str:
        """The event's name in JSON."""
        return str(type(self).__struct_config__.tag)


class VerdictChanged(Event, frozen=True, kw_only=True, tag="verdict_changed"):
    """Another verdict; `channel` holds back the watermark. `before`, of a delayed alert, is the last alerted one."""

    verdict: VerdictName
    before: VerdictName | None
    channel: str | None = None
    cause: Cause | None = None
    reason: ReasonCode | None = None


class LateBurst(Event, frozen=True, kw_only=True, tag="late_burst"):
    """Of the last minute's `records` many more than the `usual` share were late."""

    late: int
    records: int
    share: float
    usual: float


class LateBurstEnded(Event, frozen=True, kw_only=True, tag="late_burst_ended"):
    """The burst is over; `share` None: no record came in the last minute."""

    late: int
    records: int
    share: float | None


class EngineLost(Event, frozen=True, kw_only=True, tag="engine_lost"):
    """Nothing newer will come, or has come for `silent_ms`; `why` is a line, None where it is not known."""

    why: str | None = None
    silent_ms: int | None = None


class EngineBack(Event, frozen=True, kw_only=True, tag="engine_back"):
    """Snapshots come again."""


def as_json(event: Event, target: str, verdict: VerdictName | None) -> bytes:
    """An alert as a command gets it: `{"wall_ms", "target", "code", "verdict", "args"}`; the verdict is today's."""
    args: dict[str, Any] = msgspec.to_builtins(event)
    code, wall_ms = args.pop("code"), args.pop("wall_ms")
    del args["alert"]
    return msgspec.json.encode({"wall_ms": wall_ms, "target": target, "code": code, "verdict": verdict, "args": args})


class AlertRule:
    """Makes events of the points of one run, in their order; another run begins again."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._last: HistoryPoint | None = None
        self._verdict: VerdictName | None = None
        self._unknown_ms: int | None = None
        self._verdicts: _Quiet[VerdictName] = _Quiet()
        self._recent: deque[HistoryPoint] = deque()
        self._threshold: float | None = None
        self._bursts: _Quiet[bool] = _Quiet(False)
        self._lost: EngineLost | None = None
        self._losses: _Quiet[bool] = _Quiet(False)

    @property
    def verdict(self) -> VerdictName | None:
        """The verdict of the last point; unknown once the engine is lost."""
        return "unknown" if self._lost is not None else self._verdict

    def see(self, point: HistoryPoint) -> list[Event]:
        """What the next point shows."""
        last = self._last
        if is_overtaken(point, last):
            return []
        if last is not None and (point.wall_ms < last.wall_ms or point.records < last.records):
            self._forget()
        self._last = point
        return [*self._back(point), *self._see_verdict(point), *self._see_late(point)]

    def lose(self, wall_ms: int, why: str | None = None, *, silent_ms: int | None = None) -> list[Event]:
        """The engine is lost; to be said again while it is, since an alert may have to wait."""
        lost, first = self._lost, self._lost is None
        if lost is None:
            lost = self._lost = EngineLost(wall_ms=wall_ms, why=why, silent_ms=silent_ms)
            # The loss is the news: its verdict is not, and neither is the next good one.
            self._verdicts.alerted, self._unknown_ms = None, None
        alert = self._losses.alerts(True, wall_ms)
        return [replace(lost, wall_ms=wall_ms, alert=alert, delayed=not first)] if first or alert else []

    def _back(self, point: HistoryPoint) -> list[Event]:
        was_lost, self._lost = self._lost is not None, None
        alert = self._losses.alerts(False, point.wall_ms)
        return (
            [EngineBack(wall_ms=point.wall_ms, now_ms=point.now_ms, alert=alert, delayed=not was_lost)]
            if was_lost or alert
            else []
        )

    def _see_verdict(self, point: HistoryPoint) -> list[Event]:
        verdict, before, wall = point.verdict, self._verdict, point.wall_ms
        if verdict is None:
            return []
        self._verdict = verdict
        changed = before is not None and verdict != before
        settled = self._settled(verdict, wall)
        alerted = self._verdicts.alerted
        alert = settled and self._alerts_verdict(verdict, wall)
        if not changed and not alert:
            return []
        return [
            VerdictChanged(
                wall_ms=wall,
                now_ms=point.now_ms,
                alert=alert,
                delayed=not changed,
                verdict=verdict,
                before=before if changed else alerted,
                channel=point.holder,
                cause=point.cause,
                reason=point.reason,
            )
        ]

    def _settled(self, verdict: VerdictName, wall: int) -> bool:
        if verdict != "unknown":
            self._unknown_ms = None
            return True
        self._unknown_ms = wall if self._unknown_ms is None else self._unknown_ms
        return wall - self._unknown_ms >= UNKNOWN_MS

    def _alerts_verdict(self, verdict: VerdictName, wall: int) -> bool:
        """No alert for a run that starts well, or is not judged yet."""
        if self._verdicts.alerted is None and verdict not in _BAD:
            self._verdicts.alerted = None if verdict == "unknown" else verdict
            return False
        return self._verdicts.alerts(verdict, wall)

    def _see_late(self, point: HistoryPoint) -> list[Event]:
        recent = self._recent
        recent.append(point)
        while len(recent) > 1 and recent[1].wall_ms <= point.wall_ms - RECENT_MS:
            recent.popleft()
        base = recent[0]
        if base.wall_ms > point.wall_ms - RECENT_MS:
            return []
        late, records = point.late - base.late, point.records - base.records
        share = late / records if records > 0 else None
        was = self._threshold is not None
        self._threshold = self._burst(base, late, records, share)
        now = self._threshold is not None
        alert = self._bursts.alerts(now, point.wall_ms)
        if now == was and not alert:
            return []
        if now:
            usual = _usual(base)
            return [
                LateBurst(
                    wall_ms=point.wall_ms, now_ms=point.now_ms, alert=alert, delayed=now == was,
                    late=late, records=records, share=share or 0.0, usual=usual,
                )
            ]  # fmt: skip
        return [
            LateBurstEnded(
                wall_ms=point.wall_ms,
                now_ms=point.now_ms,
                alert=alert,
                delayed=now == was,
                late=late,
                records=records,
                share=share,
            )
        ]

    def _burst(self, base: HistoryPoint, late: int, records: int, share: float | None) -> float | None:
        """The share that makes a burst, while there is one; it ends below half of the share that began it."""
        if self._threshold is not None:
            return self._threshold if share is not None and 2 * share >= self._threshold else None
        # Fewer records before than in the last minute say nothing about what is usual.
        if base.records < records or not is_burst(late, records, _usual(base)):
            return None
        return _least_share(_usual(base))


class _Quiet(Struct, Generic[_T]):
    """The state that people know, and when (ms) they were last notified."""

    alerted: _T | None = None
    at_ms: int | None = None

    def alerts(self, state: _T, wall_ms: int) -> bool:
        """Whether to notify people of `state` now: they do not know it, and the last alert is a while ago."""
        if state == self.alerted or (self.at_ms is not None and wall_ms - self.at_ms < QUIET_MS):
            return False
        self.alerted, self.at_ms = state, wall_ms
        return True


def is_burst(late: int, records: int, usual: float) -> bool:
    """Whether so many late of these records are a burst, where usually the share `usual` is late."""
    return records > 0 and late >= BURST_LEAST and late >= _least_share(usual) * records


def _least_share(usual: float) -> float:
    return max(BURST_SHARE, BURST_TIMES * usual)


def _usual(base: HistoryPoint) -> float:
    return base.late / base.records if base.records else 0.0
