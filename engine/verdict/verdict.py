"""The verdict (semantics 11.1): whether event time moves, over a horizon of processing time, without flapping.

The facts for it come from a monitor, or from the snapshots of an attached query (ms).
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from ..snapshot import Blocker, Reason, Snapshot, Verdict, VerdictName, WatermarkNode
from ..snapshot.flink_job import FlinkJob
from ..watermarks.operator_clock import staircase
from ..watermarks.settings import Session, Settings
from ..watermarks.watermark_history import WatermarkHistory

if TYPE_CHECKING:
    from ..watermarks.monitor import Monitor

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


INCONCLUSIVE_NOTES = (
    "pause_unknown",
    "waits_for_trigger",
    "no_batch_ended",
    "continuous",
    "windows_untimed",
    "ended_early",
)
"""Notes about a query or job that may be healthy or not."""


def lost_state(snapshot: Snapshot) -> Lost | None:
    """Why a snapshot's own state allows no verdict; None: it allows one."""
    if any(note.code in INCONCLUSIVE_NOTES for note in snapshot.notes):
        return "not_known"  # unread records may only wait for the next trigger
    states: dict[str, Lost] = {"starting": "starting", "stale": "source_silent", "failed": "failed"}
    return states.get(snapshot.state)


MAX_NAMED = 3


def judge_monitor(
    judge: Judge,
    monitor: "Monitor",
    now: int,
    *,
    unread: int | None,
    lost: Lost | None = None,
    bounded_backlog: bool = False,
) -> Verdict:
    """The verdict on an own run at processing time `now` (ms); `unread` records, None: not known."""
    stairs = None if monitor.ended else staircase(monitor.clock)
    steps = [] if stairs is None else stairs.steps()
    return judge.verdict(
        monitor.history,
        VerdictInput(
            now_ms=now,
            advanced_ms=monitor.advanced_ms,
            record_ms=monitor.record_ms,
            unread=unread,
            window_ms=window_of(monitor.settings),
            bounded_backlog=bounded_backlog,
            held_by=[monitor.channels[number].name for number in steps[0].channels[:MAX_NAMED]] if steps else [],
            all_idle=bool(monitor.clock.idle) and len(monitor.clock.idle) == len(monitor.unfinished),
            lost=lost,
            ended=monitor.ended,
        ),
    )


class RecordedPast(Struct, frozen=True):
    """The recorded past of a query before its first snapshot, without a gap, the oldest first (ms)."""

    levels: tuple[tuple[int, int | None], ...] = ()
    """Times, and the watermark from that time on (None: none yet)."""
    batches: tuple[tuple[int, int], ...] = ()
    """The batches' numbers, and when each one began."""


class SnapshotJudge:
    """Judges an attached query by its snapshots, in the order in which they are taken."""

    def __init__(self, horizon_ms: int | None = None) -> None:
        self._judge, self._history = Judge(), WatermarkHistory(horizon_ms)
        self._id: str | None = None
        """The id of the query or the job; None: not known."""
        self._batch: int | None = None
        self._events: dict[str, int] = {}
        self._tasks: dict[str, int] = {}
        """The watermark that each task of a Flink job above the operator sends."""
        self._nodes: dict[int, int] = {}
        """The watermark of each of several inputs of a query, as far as it is known."""
        self._level: int | None = None
        self._records: int | None = None
        self._advanced_ms: int | None = None
        self._record_ms: int | None = None
        self._events_known_ms: int | None = None
        """Since when event times of channels are known, and records are counted."""
        self._records_known_ms: int | None = None

    def remember(self, past: RecordedPast) -> None:
        """Add the recorded past before the first snapshot to what was observed."""
        for number, begun in past.batches:
            self._history.see_batch(begun)
            self._batch = number
        for time, level in past.levels:
            self._history.see_level(time, level)
            self._level = level

    def verdict(self, snapshot: Snapshot) -> Verdict:
        """The verdict at a snapshot; what its tap does not report stays unknown."""
        now = snapshot.now_ms
        if now is None:
            return Verdict("unknown", reason=snapshot.verdict.reason)
        self._identify(snapshot)
        self._see(snapshot, now)
        forgotten = snapshot.level.watermark_ms is None and self._level is not None
        return self._judge.verdict(
            self._history,
            VerdictInput(
                now_ms=now,
                advanced_ms=self._advanced(now),
                record_ms=self._last_record(snapshot, now),
                unread=unread_of(snapshot),
                window_ms=window_of(snapshot.settings),
                held_by=held_by(snapshot.blockers),
                all_idle=bool(snapshot.channels) and all(view.state == "idle" for view in snapshot.channels),
                lost=lost_state(snapshot) or ("not_known" if forgotten else None),
                ended=snapshot.ended or snapshot.state == "ended",
            ),
        )

    def _identify(self, snapshot: Snapshot) -> None:
        """Begin again with another query of the same name: nothing was observed of it yet."""
        now_id = snapshot.job.id or snapshot.spark.query_id
        if None not in (now_id, self._id) and now_id != self._id:
            self._restart()
            self._batch = self._level = self._records = None
            self._advanced_ms = self._record_ms = self._records_known_ms = None
        self._id = now_id or self._id

    def _restart(self) -> None:
        self._judge.restart()
        self._history.restart()
        self._events, self._tasks, self._nodes = {}, {}, {}
        self._events_known_ms = None

    def _see(self, snapshot: Snapshot, now: int) -> None:
        if snapshot.batch is not None:
            if self._batch is not None and snapshot.batch > self._batch:
                self._history.see_batch(now, snapshot.batch - self._batch)
            self._batch = snapshot.batch
        level, before = snapshot.level.watermark_ms, self._level
        if level is not None and before is not None and level < before:  # recreated: this is another one
            self._restart()
        self._level = before if level is None else level
        self._history.see_level(now, level)
        began = not self._events
        for view in snapshot.channels:
            # An advancing watermark shows that event time advanced (Flink reports no event times).
            event_ms = view.watermark_ms if view.max_event_ms is None else view.max_event_ms
            if event_ms is not None and event_ms > self._events.get(view.channel, event_ms - 1):
                self._events[view.channel] = event_ms
                self._advanced_ms = self._advanced_ms if began else now
        self._see_tasks(snapshot.job, now)
        self._see_nodes(snapshot.spark.nodes or [], now)
        if self._events and self._events_known_ms is None:
            self._events_known_ms = now
        records = snapshot.totals.records
        if records is not None:
            if self._records is not None and records > self._records:
                self._record_ms = now
            self._records = records
            if self._records_known_ms is None:
                self._records_known_ms = now

    def _see_tasks(self, job: FlinkJob, now: int) -> None:
        for id, sent_ms in job.sent_upstream().items():
            if sent_ms > self._tasks.get(id, sent_ms):
                self._advanced_ms = now  # also where a task on the way keeps it back
            self._tasks[id] = sent_ms

    def _see_nodes(self, nodes: Sequence[WatermarkNode], now: int) -> None:
        for place, node in enumerate(nodes if len(nodes) > 1 else ()):
            if (reached := node.reached_ms) is None:
                continue
            if reached > self._nodes.get(place, reached):
                self._advanced_ms = now  # rows of this input are newer than those before
            self._nodes[place] = reached

    def _advanced(self, now: int) -> int | UnsetType | None:
        """When any channel's event time last advanced; `UNSET`: not known, since it was not observed long enough."""
        return UNSET if self._advanced_ms is None and self._unseen(self._events_known_ms, now) else self._advanced_ms

    def _unseen(self, known_ms: int | None, now: int) -> bool:
        """Whether observation since `known_ms` is shorter than a whole horizon."""
        return known_ms is None or now - known_ms < (self._history.horizon() or 0)

    def _last_record(self, snapshot: Snapshot, now: int) -> int | UnsetType | None:
        """When a record last came: by the channels, else by the count of all records; `UNSET`: not known."""
        quiet = [view.quiet_ms for view in snapshot.channels if view.quiet_ms is not None]
        heard = [now - min(quiet)] if quiet else []
        if self._record_ms is not None:
            heard.append(self._record_ms)
        if heard and self._advanced_ms is not None:
            heard.append(self._advanced_ms)  # the channel that advanced may have no `quiet_ms`
        if heard:
            return max(heard)
        if is_idle(snapshot):
            return snapshot.spark.batch_timestamp_ms  # no record since that batch
        return UNSET if self._unseen(self._records_known_ms, now) else None


def held_by(blockers: list[Blocker] | None) -> list[str]:
    """Some channels of the first step."""
    return blockers[0].channels[:MAX_NAMED] if blockers else []


def unread_of(snapshot: Snapshot) -> int | None:
    """Unread records of channels or sources; None if any of them is not known."""
    if is_idle(snapshot) or _is_seen_to_its_end(snapshot):
        return 0
    parts = [view.backlog for view in snapshot.channels]
    if not parts or None in parts:
        parts = [source.backlog for source in snapshot.sources or ()]
    known = [part for part in parts if part is not None]
    return sum(known) if known and len(known) == len(parts) else None


def is_idle(snapshot: Snapshot) -> bool:
    """Whether an attached query has just reported that its sources have nothing to read."""
    return any(note.code == "query_idle" for note in snapshot.notes)


def _is_seen_to_its_end(snapshot: Snapshot) -> bool:
    """Whether it is a topic without a reader: the newest record of each partition is what is shown of it."""
    return snapshot.state == "live" and snapshot.source is not None and snapshot.source.kind == "topic"


def window_of(settings: Settings) -> int | None:
    """The size of the windows (ms), or the gap of sessions; None: not known."""
    spec = settings.window
    if spec is None:
        return None
    return spec.gap_ms if isinstance(spec, Session) else spec.size_ms
