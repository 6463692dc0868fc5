"""Alerts (semantics 11.7): verdict changes, bursts of late records, a lost engine; limited in rate. Pure.

An engine and a screen feed the same rule with the same points. Times of alerts are wall clock (epoch ms), also in a
replay that runs faster: people read them.
"""

from collections import deque
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..snapshot import Cause, ReasonCode, VerdictName
from .history import HistoryPoint, is_overtaken

QUIET_MS = 120_000
"""Shortest time (ms) between alerts of one kind, for verdicts also twice their patience; a change waits for it."""
UNKNOWN_MS = 10_000
"""How long (ms) the verdict must be `unknown` before an alert."""
LOST_AFTER_MS = 15_000
"""Time (ms) without a snapshot after which an engine is lost; snapshots come once a second."""
RECENT_MS = 60_000
"""Length (ms) of the period over which a burst is judged."""
BURST_SHARE, BURST_TIMES, BURST_LEAST = 0.01, 3, 10
"""A burst of late records: their least share of the recent ones, times the usual share, and their least number."""
_T = TypeVar("_T")
_BAD: tuple[VerdictName, ...] = ("slow", "stalled")


class Event(Struct, frozen=True, kw_only=True, tag_field="code"):
    """Something that happened at `wall_ms`, processing time `now_ms` (None: not known); `alert`: notify people."""

    wall_ms: int
    now_ms: int | None = None
    alert: bool = False
    delayed: bool = False
    """An earlier change, alerted now because alerts of its kind were held off by `QUIET_MS`."""

    @property
    def code(self) -> str:
        """The event's name in JSON."""
        return str(type(self).__struct_config__.tag)


class VerdictChanged(Event, frozen=True, kw_only=True, tag="verdict_changed"):
    """The verdict changed; `channel` holds back the watermark. If delayed, `before` is the last alerted verdict."""

    verdict: VerdictName
    before: VerdictName | None
    channel: str | None = None
    cause: Cause | None = None
    reason: ReasonCode | None = None


class LateBurst(Event, frozen=True, kw_only=True, tag="late_burst"):
    """`late` of the last minute's `records` were late: far more than the `usual` share."""

    late: int
    records: int
    share: float
    usual: float


class LateBurstEnded(Event, frozen=True, kw_only=True, tag="late_burst_ended"):
    """The burst is over; `share` is the late share now, None: no record came in the last minute."""

    late: int
    records: int
    share: float | None


class EngineLost(Event, frozen=True, kw_only=True, tag="engine_lost"):
    """No newer snapshot will come, or none has come for `silent_ms`; `why` is one line, None: not known."""

    why: str | None = None
    silent_ms: int | None = None


class EngineBack(Event, frozen=True, kw_only=True, tag="engine_back"):
    """Snapshots come again."""


def as_json(event: Event, target: str, verdict: VerdictName | None) -> bytes:
    """An alert as JSON for a command: code, args and `target`, with the present verdict."""
    args: dict[str, Any] = msgspec.to_builtins(event)
    code, wall_ms = args.pop("code"), args.pop("wall_ms")
    del args["alert"]
    return msgspec.json.encode({"wall_ms": wall_ms, "target": target, "code": code, "verdict": verdict, "args": args})


class AlertRule:
    """Makes events from the points of one run, in their order; a point of another run starts over."""

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
        """The events that the next point causes."""
        last = self._last
        if is_overtaken(point, last):
            return []
        if last is not None and (point.wall_ms < last.wall_ms or point.records < last.records):
            self._forget()
        self._last = point
        return [*self._back(point), *self._see_verdict(point), *self._see_late(point)]

    def lose(self, wall_ms: int, why: str | None = None, *, silent_ms: int | None = None) -> list[Event]:
        """The events when the engine is lost. Call it again while it is lost: an alert may have to wait."""
        lost, first = self._lost, self._lost is None
        if lost is None:
            lost = self._lost = EngineLost(wall_ms=wall_ms, why=why, silent_ms=silent_ms)
            # The alert is the loss: not the `unknown` verdict that comes with it, nor the first good verdict after it.
            self._verdicts.alerted, self._unknown_ms = None, None
        alert = self._losses.alerts(True, wall_ms)
        return [replace(lost, wall_ms=wall_ms, alert=alert, delayed=not first)] if first or alert else []

    def _back(self, point: HistoryPoint) -> list[Event]:
        lost, self._lost = self._lost, None
        # A snapshot that waited on its way is older than the loss that it ends.
        wall_ms = point.wall_ms if lost is None else max(point.wall_ms, lost.wall_ms)
        now_ms = point.now_ms if wall_ms == point.wall_ms else None
        alert = self._losses.alerts(False, wall_ms)
        back = EngineBack(wall_ms=wall_ms, now_ms=now_ms, alert=alert, delayed=lost is None)
        return [back] if lost is not None or alert else []

    def _see_verdict(self, point: HistoryPoint) -> list[Event]:
        verdict, before, wall = point.verdict, self._verdict, point.wall_ms
        if verdict is None:
            return []
        self._verdict = verdict
        changed = before is not None and verdict != before
        settled = self._settled(verdict, wall)
        alerted = self._verdicts.alerted
        alert = settled and self._alerts_verdict(verdict, point)
        if not changed and not alert:
            return []
        is_blamed = point.cause != "lateness_raised" and point.behind_fastest_ms != 0
        return [
            VerdictChanged(
                wall_ms=wall,
                now_ms=point.now_ms,
                alert=alert,
                delayed=not changed,
                verdict=verdict,
                before=before if changed else alerted,
                channel=point.holder if is_blamed else None,
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

    def _alerts_verdict(self, verdict: VerdictName, point: HistoryPoint) -> bool:
        """Whether to alert the new verdict: not for a run that starts well or is not judged yet."""
        if self._verdicts.alerted is None and verdict not in _BAD:
            self._verdicts.alerted = None if verdict == "unknown" else verdict
            return False
        return self._verdicts.alerts(verdict, point.wall_ms, point.now_ms, 2 * (point.patience_ms or 0))

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
        args: dict[str, Any] = {"wall_ms": point.wall_ms, "now_ms": point.now_ms, "alert": alert, "delayed": now == was}
        args |= {"late": late, "records": records}
        return [
            LateBurst(**args, share=share or 0.0, usual=_usual(base)) if now else LateBurstEnded(**args, share=share)
        ]

    def _burst(self, base: HistoryPoint, late: int, records: int, share: float | None) -> float | None:
        """The share of late records during a burst, else None; the burst ends below half of the share that began it."""
        if self._threshold is not None:
            return self._threshold if share is not None and 2 * share >= self._threshold else None
        # With fewer records before than in the last minute, the usual share is not known.
        if base.records < records or not is_burst(late, records, _usual(base)):
            return None
        return _least_share(_usual(base))


class _Quiet(Struct, Generic[_T]):
    """The state last alerted, and when (ms)."""

    alerted: _T | None = None
    at_ms: int | None = None
    processing_ms: int = 0

    def alerts(self, state: _T, wall_ms: int, now_ms: int = 0, apart_ms: int = 0) -> bool:
        """Whether to alert `state`: it is new, and the last alert is `QUIET_MS` of wall clock and `apart_ms` old."""
        quiet = self.at_ms is None or (wall_ms - self.at_ms >= QUIET_MS and now_ms - self.processing_ms >= apart_ms)
        if state == self.alerted or not quiet:
            return False
        self.alerted, self.at_ms, self.processing_ms = state, wall_ms, now_ms
        return True


def is_burst(late: int, records: int, usual: float) -> bool:
    """Whether `late` of `records` are a burst where `usual` is the usual share."""
    return records > 0 and late >= BURST_LEAST and late >= _least_share(usual) * records


def _least_share(usual: float) -> float:
    return max(BURST_SHARE, BURST_TIMES * usual)


def _usual(base: HistoryPoint) -> float:
    return base.late / base.records if base.records else 0.0
