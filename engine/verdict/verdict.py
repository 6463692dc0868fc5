"""The verdict (semantics 11.1): whether event time moves, over a horizon of processing time, without flapping."""

from itertools import pairwise
from typing import Literal

from msgspec import Struct, UnsetType
from msgspec.structs import replace

from ..snapshot import Reason, Snapshot, Verdict, VerdictName
from ..watermarks.watermark_history import WatermarkHistory

Lost = Literal["starting", "source_silent", "failed", "engine_lost", "not_known"]


class VerdictInput(Struct, frozen=True, kw_only=True):
    """What is known at processing time `now_ms`; `UNSET`: not known, None: none."""

    now_ms: int
    advanced_ms: int | UnsetType | None
    """When any channel's greatest event time last advanced."""
    record_ms: int | UnsetType | None
    """When a record with a usable time last came."""
    unread: int | None
    """Unread records; None: not known."""
    window_ms: int | None = None
    """The size of the windows, or the gap of sessions; None: not known, or no windows."""
    bounded_backlog: bool = False
    """The source is read up to a fixed end: its remaining event time never grows."""
    held_by: list[str] = []
    """The channels that hold the watermark back."""
    all_idle: bool = False
    lost: Lost | None = None
    """Why no newer state is known."""
    ended: bool = False


class Judge(Struct):
    """The verdict in force, and the one that may replace it."""

    current: Verdict | None = None
    judged: bool = False
    """There was a verdict other than unknown."""
    candidate: VerdictName | None = None
    candidate_since_ms: int = 0

    def restart(self) -> None:
        """Start over after a time without observation."""
        self.current, self.candidate, self.judged = None, None, False

    def verdict(self, history: WatermarkHistory, facts: VerdictInput) -> Verdict:
        """The verdict at this moment; a new one only once its condition has held for a quarter of the horizon."""
        now, horizon = facts.now_ms, history.horizon()
        name, reason = _condition(history, facts, horizon)
        known = name not in ("unknown", "ended")
        speed = _speed(history, now, horizon) if known and horizon is not None else None
        current = self.current
        if current is None or self._changes(current, name, now, horizon or 0):
            began = self.candidate_since_ms if self.candidate == name else now
            self.candidate = None
            current = Verdict(name, now if current is None else began, horizon, speed, reason)
        elif current.verdict == name:
            self.candidate = None
            current = replace(current, horizon_ms=horizon, speed=speed, reason=reason)
        else:
            current = replace(current, horizon_ms=horizon, speed=speed)
        self.judged = self.judged or known
        self.current = current
        return current

    def _changes(self, current: Verdict, name: VerdictName, now: int, horizon: int) -> bool:
        """Whether `name` replaces the verdict in force now; a lost or ended run changes it at once."""
        if name == current.verdict:
            return False
        if self.candidate != name:
            self.candidate, self.candidate_since_ms = name, now
        if name in ("unknown", "ended") or not self.judged:
            return True
        return 4 * (now - self.candidate_since_ms) >= horizon


def _condition(history: WatermarkHistory, facts: VerdictInput, horizon: int | None) -> tuple[VerdictName, Reason]:
    """The verdict whose condition holds now, and the reason."""
    now = facts.now_ms
    if facts.ended:
        return "ended", Reason("ended")
    if facts.lost is not None:
        return "unknown", Reason(facts.lost)
    observed = 0 if history.levels.began_ms is None else now - history.levels.began_ms
    if horizon is None or observed < horizon:
        return "unknown", Reason("too_short", ms=observed)
    since = now - horizon
    came, advanced = _within(facts.record_ms, since), _within(facts.advanced_ms, since)
    if came is False and facts.unread == 0:
        last = facts.record_ms if isinstance(facts.record_ms, int) else None
        code = "all_idle" if facts.all_idle else "no_records"
        return "waiting", Reason(code, ms=None if last is None else now - last)
    if came is False and facts.unread is None:
        return "unknown", Reason("not_known")
    gained = history.levels.gained(since, now)
    if gained == 0:
        return _not_advanced(facts, advanced)
    lost = None if facts.bounded_backlog else _lost_ground(history, now, horizon, facts.window_ms or 0)
    if lost is not None:
        return "slow", Reason("losing_ground", ms=lost, channels=facts.held_by)
    return "moving", Reason("advancing", ms=gained)


def _not_advanced(facts: VerdictInput, advanced: bool | None) -> tuple[VerdictName, Reason]:
    """The verdict and reason for a watermark that has not advanced within the horizon."""
    if advanced:
        return "stalled", Reason("event_time_ahead", channels=facts.held_by)
    if facts.unread:
        return "stalled", Reason("unread_records", records=facts.unread, channels=facts.held_by)
    if advanced is None or facts.unread is None:
        return "unknown", Reason("not_known")
    # Records come, and none is newer than those before: nothing is behind.
    return "moving", Reason("advancing", ms=0)


def _speed(history: WatermarkHistory, now: int, horizon: int) -> float | None:
    gained = history.levels.gained(now - horizon, now)
    return None if gained is None else gained / horizon


def _lost_ground(history: WatermarkHistory, now: int, horizon: int, window_ms: int) -> int | None:
    """The event time (ms) lost, if every third of the horizon lost some and the total is enough; else None."""
    times = [now - horizon, now - 2 * horizon // 3, now - horizon // 3, now]
    levels = [history.levels.at(time) for time in times]
    behind = [time - level for time, level in zip(times, levels, strict=True) if level is not None]
    if len(behind) < len(times) or any(after <= before for before, after in pairwise(behind)):
        return None
    lost = behind[-1] - behind[0]
    return lost if lost > window_ms and 10 * lost > horizon else None


def _within(time: int | UnsetType | None, since: int) -> bool | None:
    """Whether `time` is after `since`; None: not known."""
    return None if isinstance(time, UnsetType) else time is not None and time > since


def verdict_of(snapshot: Snapshot, *, lost: Lost | None = None, lost_since_ms: int | None = None) -> Verdict:
    """The verdict for a reader to show: the snapshot's own, unless its source or its engine is lost.

    `lost`: why there is nothing newer than this snapshot, since `lost_since_ms`. An ended run stays ended.
    """
    if snapshot.ended:
        return snapshot.verdict if snapshot.verdict.verdict == "ended" else Verdict("ended", reason=Reason("ended"))
    found = lost or lost_state(snapshot)
    if found is None:
        return snapshot.verdict
    own = snapshot.verdict
    if lost is None and own.verdict == "unknown" and own.reason.code == found:
        return own
    return Verdict("unknown", lost_since_ms, own.horizon_ms, None, Reason(found))


def reports_again(snapshot: Snapshot) -> bool:
    """Whether a source answers again and the verdict has not changed yet: that takes a quarter of its horizon."""
    verdict = snapshot.verdict
    return verdict.verdict == "unknown" and verdict.reason.code == "source_silent" and lost_state(snapshot) is None


def moves_again(snapshot: Snapshot) -> bool:
    """A stalled watermark has advanced within the horizon: the verdict changes once that has lasted."""
    verdict, moved, now = snapshot.verdict, snapshot.level.moved_ms, snapshot.now_ms
    if verdict.verdict != "stalled" or moved is None or now is None:
        return False
    return now - moved < (verdict.horizon_ms or 0)


INCONCLUSIVE_NOTES = ("pause_unknown", "waits_for_trigger", "no_batch_ended", "continuous")
"""Notes about a query that may be healthy or not."""


def lost_state(snapshot: Snapshot) -> Lost | None:
    """Why a snapshot's own state allows no verdict; None: it allows one."""
    if any(note.code in INCONCLUSIVE_NOTES for note in snapshot.notes):
        return "not_known"  # unread records may only wait for the next trigger
    states: dict[str, Lost] = {"starting": "starting", "stale": "source_silent", "failed": "failed"}
    return states.get(snapshot.state)
