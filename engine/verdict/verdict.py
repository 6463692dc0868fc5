"""The verdict (semantics 11.1): whether the watermark moves, by its age and its usual pace. Times are ms.

One function judges own runs, attached targets, topics and recordings, from a snapshot and the history of its watermark.
"""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from ..snapshot import (
    Blocker,
    Chain,
    ChannelView,
    Clock,
    ConsumerGroup,
    KafkaStreams,
    Level,
    Reason,
    Snapshot,
    SourcePosition,
    Verdict,
    VerdictName,
)
from ..snapshot.kinds.kafka_streams import badness
from ..watermarks.watermark_history import Beat, WatermarkHistory

Lost = Literal["starting", "source_silent", "failed", "engine_lost", "not_known"]
MAX_NAMED = 3
"""Channels that a reason names, at most."""
_INCONCLUSIVE = ("pause_unknown", "waits_for_trigger", "no_batch_ended", "continuous")
"""Notes about a query that may be healthy or not: unread records may only wait for the next trigger."""

Offsets = dict[str, int] | int | str | None

_NO_GUIDE = ("windows_untimed", "ended_early", "clock_ahead")
"""Notes about a watermark that says nothing about the results of the job, and on times that prove no progress."""
_RECORDS_WAIT = ("in_flight", "back_pressured", "slow_reader")
"""Causes that are known by records that wait to be processed: they have come, also where no other is read."""


class Evidence(Struct, frozen=True, kw_only=True):
    """What a verdict needs beside the snapshot and the history of its watermark."""

    unread: int | None
    """Unread records; None: not known."""
    record_ms: int | UnsetType | None
    """When a record with a usable time last came; None: none ever; `UNSET`: not known."""
    bounded_backlog: bool = False
    """The source is read up to a fixed end: its remaining event time never grows."""
    lost: Lost | None = None
    """Why no newer state is known."""


def judged(snapshot: Snapshot, history: WatermarkHistory, evidence: Evidence) -> Snapshot:
    """The snapshot with its verdict, the age of its watermark, and the causes that follow from the verdict."""
    found = verdict(history, snapshot, evidence)
    level, blockers = snapshot.level, snapshot.blockers
    holder = level.holder
    if holder is not None and found.reason.code == "lateness_raised":
        holder = replace(holder, cause="lateness_raised")
    elif found.verdict in ("moving", "slow"):  # two samples call a channel stuck, which takes the same patience
        holder = replace(holder, cause="behind") if holder is not None and holder.cause == "stuck" else holder
        # The first step is at the watermark that moves; one that was not seen to move is as old as the watching.
        stuck = {step.channels[0] for step in (blockers or ())[1:] if step.cause == "stuck"}
        began, since = history.began_ms or 0, (snapshot.now_ms or 0) - (found.patience_ms or 0)
        views = snapshot.channels if stuck else ()
        stuck &= {view.channel for view in views if (view.since_ms or began) < since}
        blockers = blockers and [
            step if step.cause != "stuck" or step.channels[0] in stuck else replace(step, cause="behind")
            for step in blockers
        ]
    moved_ms = None if level.watermark_ms is None else history.moved_ms
    return replace(snapshot, verdict=found, level=replace(level, moved_ms=moved_ms, holder=holder), blockers=blockers)


def verdict(history: WatermarkHistory, snapshot: Snapshot, evidence: Evidence) -> Verdict:
    """The verdict at the snapshot's processing time; notes in the history since when it holds."""
    now = snapshot.now_ms
    if now is None:
        return Verdict("unknown", reason=Reason(evidence.lost or "starting"))
    patience = history.patience(snapshot.settings)
    name, reason, began_ms = _condition(history, snapshot, evidence, now, patience)
    if history.verdict != name:
        history.verdict, history.verdict_since_ms = name, now
    gained = history.gained(now - patience) if name not in ("unknown", "ended") else None
    frozen_since = history.frozen_since(now)
    return Verdict(
        verdict=name,
        since_ms=history.verdict_since_ms if began_ms is None else began_ms,
        age_ms=now - frozen_since,
        age_at_least=history.moved_ms is None and snapshot.is_attached,
        pace_ms=history.pace(),
        patience_ms=patience,
        speed=None if gained is None else gained / patience,
        reason=reason,
    )


def _condition(
    history: WatermarkHistory, snapshot: Snapshot, evidence: Evidence, now: int, patience: int
) -> tuple[VerdictName, Reason, int | None]:
    """The verdict, its reason, and since when it holds (None: since it was first so)."""
    if snapshot.ended or snapshot.state == "ended":
        return "ended", Reason("ended"), None
    if evidence.lost is not None:
        return "unknown", Reason(evidence.lost), None
    observed = history.observed_ms(now)
    if not history.has_advanced() and observed <= patience:
        return "unknown", Reason("too_short", ms=observed), None
    frozen_since = history.frozen_since(now)
    if now - frozen_since > patience:
        name, reason = _not_advancing(snapshot, evidence, now, patience)
        return name, reason, None if name == "unknown" else frozen_since
    behind = None if evidence.bounded_backlog else history.falling_behind(now, patience)
    if behind is not None:
        reason = Reason("losing_ground", ms=behind.ms, over_ms=behind.over_ms, channels=held_by(snapshot.blockers))
        return "slow", reason, behind.since_ms
    return "moving", Reason("advancing", ms=history.gained(now - patience)), None


def _not_advancing(snapshot: Snapshot, evidence: Evidence, now: int, patience: int) -> tuple[VerdictName, Reason]:
    """The verdict and reason for a watermark that is frozen for longer than `patience`."""
    if snapshot.state == "paused":
        return "waiting", Reason("paused")
    holders, last, unread = held_by(snapshot.blockers), evidence.record_ms, evidence.unread
    if isinstance(last, int) and now - last <= patience:
        raised = _frozen_by_lateness_ms(snapshot, patience)
        if raised is not None:
            return "waiting", Reason("lateness_raised", ms=raised)
        return "stalled", Reason("records_come", channels=holders)
    if is_inconclusive(snapshot):
        return "unknown", Reason("not_known")
    if unread:
        return "stalled", Reason("unread_records", records=unread, channels=holders)
    if unread is None or isinstance(last, UnsetType):
        return "unknown", Reason("not_known")
    code = "all_idle" if snapshot.channels and all(view.idle for view in snapshot.channels) else "no_records"
    return "waiting", Reason(code, ms=None if last is None else now - last)


def _frozen_by_lateness_ms(snapshot: Snapshot, patience: int) -> int | None:
    """How far (event time) a raised lateness alone holds the watermark back; None: something else does."""
    if snapshot.spark.frozen_ms:
        return snapshot.spark.frozen_ms
    level, lateness = snapshot.level.watermark_ms, snapshot.settings.lateness_ms
    parts = [
        (view.at_zero_lateness_ms, view.quiet_ms)
        for view in snapshot.channels
        if view.at_zero_lateness_ms is not None and (snapshot.one_clock or (view.aligned and not view.idle))
    ]
    if level is None or lateness is None or not parts:
        return None
    reached, quiet_ms = max(parts) if snapshot.one_clock else min(parts)
    short = level - (reached - lateness)
    return short if short > 0 and quiet_ms is not None and quiet_ms <= patience else None


def verdict_of(snapshot: Snapshot, *, lost: Lost | None = None) -> Verdict:
    """The verdict for a reader to show: the snapshot's own, unless its source or its engine is lost.

    `lost`: why there is nothing newer than this snapshot. An ended run stays ended.
    """
    own = snapshot.verdict
    if snapshot.ended:
        return own if own.verdict == "ended" else replace(own, verdict="ended", reason=Reason("ended"))
    found = lost or lost_state(snapshot)
    if found is None or (lost is None and own.verdict == "unknown" and own.reason.code == found):
        return own
    return replace(own, verdict="unknown", since_ms=None, speed=None, reason=Reason(found))


def lost_state(snapshot: Snapshot) -> Lost | None:
    """Why a snapshot's own state allows no verdict; None: it allows one."""
    states: dict[str, Lost] = {"starting": "starting", "stale": "source_silent", "failed": "failed"}
    if any(note.code in _NO_GUIDE for note in snapshot.notes):
        return "not_known"
    return states.get(snapshot.state)


def is_inconclusive(snapshot: Snapshot) -> bool:
    """Whether unread records say nothing: they may only wait for the query's next trigger."""
    return any(note.code in _INCONCLUSIVE for note in snapshot.notes)


class RecordedPast(Struct, frozen=True):
    """The recorded past of a query before its first snapshot, without a gap, the oldest first (ms)."""

    levels: tuple[tuple[int, int | None], ...] = ()
    """Times, and the watermark from that time on (None: none yet)."""
    batches: tuple[tuple[int, int], ...] = ()
    """The batches' numbers, and when each one began."""


class SnapshotJudge:
    """Makes the history of an attached target from its snapshots, in the order in which they are taken."""

    def __init__(self, verdict_after_ms: int | None = None) -> None:
        self._history = WatermarkHistory(verdict_after_ms=verdict_after_ms)
        self._id: str | None = None
        """The id of the query or the job; None: not known."""
        self._batch: int | None = None
        self._reached: dict[str, int] = {}
        """How far each channel, each task of a Flink job and each input of a query has come."""
        self._committed: list[Offsets] | None = None
        """The positions of a consumer group."""
        self._clocks: dict[str, SnapshotJudge] = {}
        """Those of a Kafka Streams application's tasks, by each of their channels."""
        self._records: int | None = None
        self._records_known_ms: int | None = None
        """Since when event times of channels or records are counted."""
        self._watched_ms: int | None = None
        """When the target was last seen, and whether it could not be seen since then."""
        self._interrupted = False

    def remember(self, past: RecordedPast, snapshot: Snapshot) -> None:
        """Add the recorded past before the first snapshot to what was observed."""
        for number, begun in past.batches:
            self._history.see_beat(begun)
            self._batch = number
        for place, (time, level) in enumerate(past.levels):
            if place == 0:
                self._history.begin(time, level)
            self._history.see_level(time, level, snapshot.settings)

    def judge(self, snapshot: Snapshot, *, after_gap: bool = False) -> Snapshot:
        """The snapshot with its verdict; what its tap does not report stays unknown.

        `after_gap`: before this snapshot there was no look for much longer than usual.
        """
        self._interrupted = self._interrupted or after_gap
        now, level = snapshot.now_ms, snapshot.level.watermark_ms
        if now is None:
            return replace(snapshot, verdict=Verdict("unknown", reason=snapshot.verdict.reason))
        if isinstance(snapshot.target, Chain):
            return snapshot  # each of its hops is judged by itself
        if isinstance(snapshot.target, KafkaStreams):
            return self._judge_clocks(snapshot, snapshot.target, now)
        self._identify(snapshot)
        job, has_lost_it = snapshot.job, level is None and self._history.level is not None
        if has_lost_it and snapshot.state == "live" and job.clock_ms is not None and job.running_ms is not None:
            self._see_restart(now - (job.clock_ms - job.running_ms), None)  # a restart restores no watermark
        lost = lost_state(snapshot) or ("not_known" if level is None and self._history.level is not None else None)
        if lost is None or snapshot.state == "failed":
            self._watch(now)
            self._see(snapshot, now)
        else:
            self._interrupted = True
        unread = unread_of(snapshot)
        if unread and is_idle(snapshot):
            unread = None  # `minOffsetsPerTrigger` delays them, or they have just come: neither is known
        evidence = Evidence(unread=unread, record_ms=self._last_record(snapshot, now), lost=lost)
        return judged(snapshot, self._history, evidence)

    def _judge_clocks(self, snapshot: Snapshot, target: KafkaStreams, now: int) -> Snapshot:
        """The same for each task on its own clock; the target has the verdict of the worst one."""
        self._history.beat_of = "group"
        after_gap = self._interrupted
        if lost_state(snapshot) is None:
            self._watch(now)
        else:
            self._interrupted = True
        self._see_beat(snapshot, now)
        judges, self._clocks = self._clocks, {}
        unused = set(judges.values())
        views = {view.channel: view for view in snapshot.channels}
        offsets = {  # `orders-3`, in a source `orders/3`
            place.replace("/", "-"): offset
            for source in target.sources or ()
            if isinstance(source.offsets, dict)
            for place, offset in source.offsets.items()
        }
        found: list[Verdict] = []
        for clock in target.clocks:
            judge = self._judge_of(clock, judges, unused)
            judge._history.other_beats = self._history.beats
            part = _task_alone(snapshot, clock, views, offsets)
            found.append(_with_channels(judge.judge(part, after_gap=after_gap).verdict, part))
        clocks = [
            replace(clock, verdict=own.verdict, age_ms=own.age_ms, age_at_least=own.age_at_least, reason=own.reason)
            for clock, own in zip(target.clocks, found, strict=True)
        ]
        nothing = Verdict("unknown", reason=Reason(lost_state(snapshot) or "not_known"))
        worst = min(zip(clocks, found, strict=True), key=lambda pair: badness(pair[0]), default=(None, nothing))[1]
        return replace(snapshot, verdict=worst, target=replace(target, clocks=clocks))

    def _watch(self, now: int) -> None:
        """Note that the target is seen; the time since it was last seen counts for nothing if it could not be seen."""
        if self._interrupted and self._watched_ms is not None:
            self._history.leave_out(max(0, now - self._watched_ms))
        self._watched_ms = now
        self._interrupted = False

    def _judge_of(
        self, clock: Clock, judges: "dict[str, SnapshotJudge]", unused: "set[SnapshotJudge]"
    ) -> "SnapshotJudge":
        """The one of the task's furthest partition: each is a clock of its own until its task is known.

        `judges`: those of the last look, by channel; `unused`: those of them that no other task has.
        """
        known = [judge for channel in clock.channels if (judge := judges.get(channel)) in unused]
        found = max(known, key=lambda judge: judge._history.level or 0, default=None)
        found = found or SnapshotJudge(self._history.verdict_after_ms)
        unused.discard(found)
        self._clocks |= dict.fromkeys(clock.channels, found)
        return found

    def _identify(self, snapshot: Snapshot) -> None:
        """Begin again with another query of the same name, or one whose watermark was lost: it is not this one."""
        now_id, level, before = snapshot.job.id or snapshot.spark.query_id, snapshot.level.watermark_ms, self._history
        is_other = None not in (now_id, self._id) and now_id != self._id
        self._id = now_id or self._id
        if is_other or (level is not None and before.level is not None and level < before.level):
            self._history = WatermarkHistory(verdict_after_ms=before.verdict_after_ms)
            self._batch = self._records = self._records_known_ms = self._committed = None
            self._reached = {}

    def _see_restart(self, started_ms: int | None, level_ms: int | None) -> None:
        """Begin again where the query was restarted while it was observed: until then it could not advance."""
        history = self._history
        if started_ms is not None and history.began_ms is not None and started_ms > history.began_ms:
            history.restart()
            history.begin(started_ms, level_ms)
            history.moved_ms = None

    def _see(self, snapshot: Snapshot, now: int) -> None:
        history, level = self._history, snapshot.level
        history.beat_of = _beat_of(snapshot)
        self._see_restart(snapshot.spark.run_started_ms, level.watermark_ms)
        if history.began_ms is None:
            history.begin(now if level.moved_ms is None else level.moved_ms, level.watermark_ms)
        history.see_level(now, level.watermark_ms, snapshot.settings)
        history.moved_ms = history.moved_ms if level.moved_ms is None else level.moved_ms
        self._see_beat(snapshot, now)
        waits = level.holder is not None and level.holder.cause in _RECORDS_WAIT
        if any([self._see_reached(snapshot), self._see_records(snapshot), waits]):
            history.record_ms = now

    def _see_beat(self, snapshot: Snapshot, now: int) -> None:
        history, batch = self._history, snapshot.batch
        if history.beat_of == "group":
            committed, self._committed = self._committed, [source.offsets for source in snapshot.sources or ()]
            count = int(committed not in (None, self._committed))
        elif history.beat_of == "sample":
            count = 1
        else:
            count = 0 if batch is None else 1 if self._batch is None else batch - self._batch
            self._batch = batch if count > 0 else self._batch
        if count > 0:
            history.see_beat(now, count)

    def _see_reached(self, snapshot: Snapshot) -> bool:
        """Whether a channel, a task or an input has advanced: then records came."""
        reached = {
            # An advancing watermark shows that event time advanced (Flink reports no event times).
            f"channel {view.channel}": view.watermark_ms if view.max_event_ms is None else view.max_event_ms
            for view in snapshot.channels
        }
        reached |= {f"task {id}": far for id, far in snapshot.job.reached_upstream().items()}
        if snapshot.has_several_inputs:
            reached |= {f"input {place}": node.reached_ms for place, node in enumerate(snapshot.spark.nodes or ())}
        known = {name: at_ms for name, at_ms in reached.items() if at_ms is not None}
        if known and self._records_known_ms is None:
            self._records_known_ms = snapshot.now_ms
        came = any(at_ms > self._reached.get(name, at_ms) for name, at_ms in known.items())
        self._reached |= known
        return came

    def _see_records(self, snapshot: Snapshot) -> bool:
        records, before = snapshot.totals.records, self._records
        if records is None:
            return False
        if self._records_known_ms is None:
            self._records_known_ms = snapshot.now_ms
        self._records = records
        return before is not None and records > before

    def _last_record(self, snapshot: Snapshot, now: int) -> int | UnsetType | None:
        """When a record last came: by the channels, else by the count of all records; `UNSET`: not known."""
        heard = [now - view.quiet_ms for view in snapshot.channels if view.quiet_ms is not None]
        if self._history.record_ms is not None:
            heard.append(self._history.record_ms)
        if heard:
            return max(heard)
        if is_idle(snapshot):
            # None since the batch that moved the watermark, or else the last one; in real-time mode some follow it.
            spark, moved_ms = snapshot.spark, snapshot.level.moved_ms
            last_ms = moved_ms if spark.batches_unmoved == 0 else spark.batch_timestamp_ms
            return last_ms if spark.real_time_ms is None else None
        known_ms, patience = self._records_known_ms, self._history.patience(snapshot.settings)
        return UNSET if known_ms is None or now - known_ms < patience else None


def _task_alone(snapshot: Snapshot, clock: Clock, views: dict[str, ChannelView], offsets: dict[str, int]) -> Snapshot:
    """The snapshot of an application that has only this task: its clock as the watermark."""
    own = {channel: offsets[channel] for channel in clock.channels if channel in offsets}
    return replace(
        snapshot,
        level=Level(clock.time_ms),
        channels=[views[channel] for channel in clock.channels if channel in views],
        target=ConsumerGroup([SourcePosition("", own)]),
    )


def _with_channels(found: Verdict, part: Snapshot) -> Verdict:
    """The verdict on a task with the channels that it is about: what is unread stalls it, any record would free it."""
    if found.verdict not in ("stalled", "slow", "waiting"):
        return found
    unread = [view.channel for view in part.channels if view.backlog]
    named = (unread or [view.channel for view in part.channels])[:MAX_NAMED]
    return replace(found, reason=replace(found.reason, channels=named))


def _beat_of(snapshot: Snapshot) -> Beat:
    return snapshot.target.beat(snapshot.source)


def held_by(blockers: list[Blocker] | None) -> list[str]:
    """Some channels of the first step."""
    return blockers[0].channels[:MAX_NAMED] if blockers else []


def unread_of(snapshot: Snapshot) -> int | None:
    """Unread records of channels or sources; None if any of them is not known."""
    if not snapshot.target.has_reader and snapshot.state == "live":
        return 0
    parts = [view.backlog for view in snapshot.channels]
    if not parts or None in parts:
        parts = [source.backlog for source in snapshot.sources or ()]
    known = [part for part in parts if part is not None]
    if is_idle(snapshot) and not any(known):
        return 0
    return sum(known) if known and len(known) == len(parts) else None


def is_idle(snapshot: Snapshot) -> bool:
    """Whether an attached query has just reported that its sources have nothing to read."""
    return any(note.code == "query_idle" for note in snapshot.notes)
