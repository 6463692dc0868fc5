"""The history of a target that another program runs, made from one look after the other (semantics 11.1).

It asks nothing about kinds: what a look shows is its evidence. All times are epoch ms.
"""

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from ..snapshot import Reason, Snapshot, Verdict
from ..watermarks.settings import Settings
from ..watermarks.watermark_history import WatermarkHistory
from .evidence import Evidence, Offsets, Picture, Task
from .verdict import MAX_NAMED, judged


class RecordedPast(Struct, frozen=True):
    """The recorded past of a query before its first snapshot, without a gap, the oldest first (ms)."""

    levels: tuple[tuple[int, int | None], ...] = ()
    """Times, and the watermark from that time on (None: none yet)."""
    batches: tuple[tuple[int, int], ...] = ()
    """The batches' numbers, and when each one began."""


class TargetHistory:
    """Folds what each look shows into a history, in the order of the looks, and judges by it."""

    def __init__(self, verdict_after_ms: int | None = None) -> None:
        self._history = WatermarkHistory(verdict_after_ms=verdict_after_ms)
        self._identity: str | None = None
        self._batch: int | None = None
        self._offsets: list[Offsets] | None = None
        self._reached: dict[str, int] = {}
        self._counted: int | None = None
        self._counted_since_ms: int | None = None
        """Since when it is seen how far something has come, or records are counted."""
        self._tasks: dict[str, TargetHistory] = {}
        """Those of the target's tasks, by each of their channels."""
        self._watched_ms: int | None = None
        """When the target was last seen."""
        self._interrupted = False
        """Whether it could not be seen since then."""

    def remember(self, past: RecordedPast, settings: Settings) -> None:
        """Add the recorded past before the first look to what was observed."""
        for number, begun in past.batches:
            self._history.see_beat(begun)
            self._batch = number
        for place, (time, level) in enumerate(past.levels):
            if place == 0:
                self._history.begin(time, level)
            self._history.see_level(time, level, settings)

    def judge(self, picture: Picture, *, after_gap: bool = False) -> Snapshot:
        """The snapshot with its verdict.

        `after_gap`: before this look there was none for much longer than usual.
        """
        self._interrupted = self._interrupted or after_gap
        snapshot = picture.snapshot
        evidence = picture.evidence
        if snapshot.now_ms is None:
            return replace(snapshot, verdict=Verdict("unknown", reason=snapshot.verdict.reason))
        if evidence is None:
            return snapshot
        if picture.tasks is not None:
            return self._judge_tasks(snapshot, evidence, picture.tasks, snapshot.now_ms)
        return self._judge_whole(snapshot, evidence, snapshot.now_ms)

    def _judge_whole(self, snapshot: Snapshot, evidence: Evidence, now: int) -> Snapshot:
        self._identify(evidence, snapshot.level.watermark_ms)
        if self._has_lost_watermark(snapshot) and not evidence.keeps_watermark:
            self._see_restart(evidence.restarted_ms, None)
        lost = evidence.lost
        if lost is None and self._has_lost_watermark(snapshot):
            lost = "not_known"
        if lost is None or snapshot.state == "failed":
            self._watch(now)
            self._see(snapshot, evidence, now)
        else:
            self._interrupted = True
        record_ms = self._last_record(evidence, snapshot.settings, now)
        return judged(snapshot, self._history, replace(evidence, lost=lost, record_ms=record_ms))

    def _judge_tasks(self, snapshot: Snapshot, evidence: Evidence, tasks: tuple[Task, ...], now: int) -> Snapshot:
        """Each task by its own time; the target has the verdict of the worst one."""
        self._history.beat_of = evidence.beat or self._history.beat_of
        after_gap = self._interrupted
        if evidence.lost is None:
            self._watch(now)
        else:
            self._interrupted = True
        self._see_beat(evidence, now)
        before = self._tasks
        self._tasks = {}
        unused = set(before.values())
        verdicts: list[Verdict] = []
        for task in tasks:
            history = self._history_of(task, before, unused)
            history._history.other_beats = self._history.beats
            found = history.judge(Picture(task.snapshot, task.evidence), after_gap=after_gap)
            verdicts.append(_with_channels(found))
        target, worst = snapshot.target.with_task_verdicts(verdicts)
        nothing = Verdict("unknown", reason=Reason(evidence.lost or "not_known"))
        return replace(snapshot, verdict=worst or nothing, target=target)

    def _history_of(
        self, task: Task, before: "dict[str, TargetHistory]", unused: "set[TargetHistory]"
    ) -> "TargetHistory":
        """The one of the task's furthest channel: each has a time of its own until its task is known.

        `before`: those of the last look, by channel; `unused`: those of them that no other task has.
        """
        known = [history for channel in task.channels if (history := before.get(channel)) in unused]
        found = max(known, key=lambda history: history._history.level or 0, default=None)
        found = found or TargetHistory(self._history.verdict_after_ms)
        unused.discard(found)
        self._tasks |= dict.fromkeys(task.channels, found)
        return found

    def _identify(self, evidence: Evidence, level_ms: int | None) -> None:
        """Begin again with another target of the same name, or one whose watermark was lost: it is not this one."""
        before = self._history
        is_other = None not in (evidence.identity, self._identity) and evidence.identity != self._identity
        self._identity = evidence.identity or self._identity
        if is_other or (level_ms is not None and before.level is not None and level_ms < before.level):
            self._history = WatermarkHistory(verdict_after_ms=before.verdict_after_ms)
            self._batch = None
            self._offsets = None
            self._reached = {}
            self._counted = None
            self._counted_since_ms = None

    def _has_lost_watermark(self, snapshot: Snapshot) -> bool:
        return snapshot.level.watermark_ms is None and self._history.level is not None

    def _watch(self, now: int) -> None:
        """Note that the target is seen; the time since it was last seen counts for nothing if it could not be seen."""
        if self._interrupted and self._watched_ms is not None:
            self._history.leave_out(max(0, now - self._watched_ms))
        self._watched_ms = now
        self._interrupted = False

    def _see_restart(self, started_ms: int | None, level_ms: int | None) -> None:
        """Begin again where it was restarted while it was observed: until then it could not advance."""
        history = self._history
        if started_ms is not None and history.began_ms is not None and started_ms > history.began_ms:
            history.restart()
            history.begin(started_ms, level_ms)
            history.moved_ms = None

    def _see(self, snapshot: Snapshot, evidence: Evidence, now: int) -> None:
        history = self._history
        level = snapshot.level
        history.beat_of = evidence.beat or history.beat_of
        if evidence.keeps_watermark:
            self._see_restart(evidence.restarted_ms, level.watermark_ms)
        if history.began_ms is None:
            history.begin(now if level.moved_ms is None else level.moved_ms, level.watermark_ms)
        history.see_level(now, level.watermark_ms, snapshot.settings)
        history.moved_ms = history.moved_ms if level.moved_ms is None else level.moved_ms
        self._see_beat(evidence, now)
        if any([self._see_reached(evidence, now), self._see_counted(evidence, now), evidence.records_wait]):
            history.record_ms = now

    def _see_beat(self, evidence: Evidence, now: int) -> None:
        count = self._beats(evidence)
        if count > 0:
            self._history.see_beat(now, count)

    def _beats(self, evidence: Evidence) -> int:
        """How many beats there were since the last look, as far as it shows them."""
        if evidence.offsets is not None:
            offsets = self._offsets
            self._offsets = evidence.offsets
            return int(offsets not in (None, evidence.offsets))
        if evidence.beat == "sample":
            return 1
        before = self._batch
        if evidence.batch is None or (before is not None and evidence.batch <= before):
            return 0
        self._batch = evidence.batch
        return 1 if before is None else evidence.batch - before

    def _see_reached(self, evidence: Evidence, now: int) -> bool:
        """Whether a channel, a task or an input has advanced: then records came."""
        if evidence.reached and self._counted_since_ms is None:
            self._counted_since_ms = now
        came = any(at > self._reached.get(name, at) for name, at in evidence.reached.items())
        self._reached |= evidence.reached
        return came

    def _see_counted(self, evidence: Evidence, now: int) -> bool:
        if evidence.counted is None:
            return False
        if self._counted_since_ms is None:
            self._counted_since_ms = now
        before = self._counted
        self._counted = evidence.counted
        return before is not None and evidence.counted > before

    def _last_record(self, evidence: Evidence, settings: Settings, now: int) -> int | UnsetType | None:
        """When a record last came: as the target shows it, else as it was seen; None: none ever; `UNSET`: not known."""
        heard = [ms for ms in (evidence.record_ms, self._history.record_ms) if isinstance(ms, int)]
        if heard:
            return max(heard)
        if not isinstance(evidence.record_ms, UnsetType):
            return evidence.record_ms
        if not isinstance(evidence.last_read_ms, UnsetType):
            return evidence.last_read_ms
        since_ms = self._counted_since_ms
        return UNSET if since_ms is None or now - since_ms < self._history.patience(settings) else None


def _with_channels(judged_task: Snapshot) -> Verdict:
    """The verdict on a task with the channels that it is about: what is unread stalls it, any record would free it."""
    found = judged_task.verdict
    if found.verdict not in ("stalled", "slow", "waiting"):
        return found
    unread = [view.channel for view in judged_task.channels if view.backlog]
    named = (unread or [view.channel for view in judged_task.channels])[:MAX_NAMED]
    return replace(found, reason=replace(found.reason, channels=named))
