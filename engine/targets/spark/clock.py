"""The clock of an attached query's driver: its offset from ours, and snapshots in either time."""

from collections.abc import Sequence

from msgspec.structs import replace

from ...snapshot import Snapshot, SparkQuery
from ...verdict.target_history import RecordedPast
from ..clock import Offset, TargetClock, offset_by_files
from .facts import QueryFacts


class DriverClock(TargetClock):
    """Measures a driver's clock by its checkpoint's files and by its reports."""

    def __init__(self) -> None:
        super().__init__()
        self._files_ms: int | None = None
        """How far the driver's clock is ahead of that of its files; None: not known."""
        self._dated: dict[str, tuple[tuple[int | None, int], int]] = {}
        """Times of the last snapshot in ours: of what value, after how many corrections."""

    def see_facts(self, facts: QueryFacts, file_times: Sequence[tuple[int, int]], now_ms: int, set_by_ms: int) -> None:
        """Note the facts of a look at `now_ms` (epoch ms, ours), and a checkpoint's `file_times`; this machine's clock
        was set by `set_by_ms`, which the times of its files follow.
        """
        report = facts.report
        if report is not None and report.unread:
            return  # the log is still read: what it shows next did not appear just now
        is_by_files = facts.stored.continuous or facts.stored.out_of_reach  # then its times are not the driver's
        self._files_ms = None if is_by_files else offset_by_files(file_times, now_ms + set_by_ms)
        by_files_ms = None if self._files_ms is None else self._files_ms + set_by_ms
        self.see(_last_stamp(facts), now_ms, by_files_ms)

    def in_its_time(self, facts: QueryFacts, set_by_ms: int) -> QueryFacts:
        """The facts with the times of files as the driver's clock was then."""
        files_ms = self.offset.ms - set_by_ms if self._files_ms is None else self._files_ms
        if not self.offset.ms or not files_ms:
            return facts
        checkpoint = facts.checkpoint
        report = facts.report
        if report is not None and report.heard_ms is not None:
            report = replace(report, heard_ms=report.heard_ms + files_ms)
        if checkpoint is not None:
            history = tuple(
                batch if batch.end_ms is None else replace(batch, end_ms=batch.end_ms + files_ms)
                for batch in checkpoint.history
            )
            checkpoint = replace(checkpoint, history=history)
        return replace(facts, checkpoint=checkpoint, report=report)

    def since_set(self, facts: QueryFacts) -> QueryFacts:
        """The facts without batches from before a clock was set: their times do not go with those after it."""
        set_ms = self.set_ms
        if set_ms is None:
            return facts
        checkpoint = facts.checkpoint
        report = facts.report
        if checkpoint is not None:
            later = tuple(batch for batch in checkpoint.history if batch.begin_ms >= set_ms)
            checkpoint = replace(checkpoint, history=later)
        if report is not None and report.run is not None:
            later = tuple(batch for batch in report.run.history if batch.begin_ms >= set_ms)
            report = replace(report, run=replace(report.run, history=later))
        return replace(facts, checkpoint=checkpoint, report=report)

    def in_our_time(self, shown: Snapshot, wall_ms: int) -> Snapshot:
        """A snapshot in the driver's time as one in ours; `wall_ms` is when it is shown.

        What was dated before a clock was set keeps its time.
        """
        level = shown.level
        target = shown.target
        if shown.now_ms is None or not isinstance(target, SparkQuery):
            return replace(shown, wall_ms=wall_ms)
        by_ms = self.offset.ms
        now_ms = shown.now_ms - by_ms
        watermark_ms = level.watermark_ms
        moved_ms = self._ours("moved", level.moved_ms, watermark_ms, now_ms)
        behind_ms = None if watermark_ms is None else now_ms - watermark_ms
        spark = shown.spark
        spark = replace(
            spark,
            batch_timestamp_ms=self._ours("batch", spark.batch_timestamp_ms, shown.batch, now_ms),
            run_started_ms=self._ours("run", spark.run_started_ms, spark.run_started_ms, now_ms),
        )
        return replace(
            shown,
            now_ms=now_ms,
            wall_ms=wall_ms,
            level=replace(level, moved_ms=moved_ms, behind_clock_ms=behind_ms),
            target=replace(target, spark=spark),
            notes=[replace(note, wall_ms=note.wall_ms - by_ms) for note in shown.notes],
        )

    def _ours(self, what: str, stamp_ms: int | None, value: int | None, now_ms: int) -> int | None:
        """A stamp of the driver in our time: of the same `value` as it was the last time, unless that was corrected."""
        if stamp_ms is None:
            return None
        known = self._dated.get(what)
        key = (value, self.corrections)
        if self.set_ms is None or known is None or known[0] != key:
            ours_ms = stamp_ms - self.offset.ms
            known = self._dated[what] = key, (min(ours_ms, now_ms) if self.offset.ms else ours_ms)
        return known[1]


def _last_stamp(facts: QueryFacts) -> int | None:
    """The last time that the driver's clock gave."""
    if facts.run.last_event_ms is not None:
        return facts.run.last_event_ms
    return None if facts.stored.continuous else facts.stored.batch_timestamp_ms


def past_in_our_time(past: RecordedPast, offset: Offset) -> RecordedPast:
    """A recorded past in the driver's time as one in ours."""
    levels = tuple((at_ms - offset.ms, level_ms) for at_ms, level_ms in past.levels)
    return RecordedPast(levels, tuple((number, at_ms - offset.ms) for number, at_ms in past.batches))
