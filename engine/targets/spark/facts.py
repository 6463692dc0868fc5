"""The facts of all taps on one attached Spark query at one moment, and its recorded batches. Pure."""

from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from ...verdict.verdict import RecordedPast
from ...watermarks.settings import WindowSpec
from ..topic import TopicFacts
from .checkpoint import CheckpointFacts
from .open_windows import OpenWindows
from .query_runs import BatchProgress, PlanFacts, ProgressPoint, QueryRun
from .reports import Report

MAX_CLOCK_SKEW_MS = 1_000
"""How far (ms) a file's time may be outside the batch that wrote it: clocks differ, and file systems round."""


class RecordedBatch(Struct, frozen=True):
    """A batch and the watermark in force in it; `end_ms` None: it runs, or its end is not recorded (ms)."""

    number: int
    begin_ms: int
    watermark_ms: int | None
    end_ms: int | None = None


class QueryFacts(Struct, frozen=True, kw_only=True):
    """The facts of all taps on one query at one moment; None: no such tap."""

    checkpoint: CheckpointFacts | None = None
    report: Report | None = None
    windows: tuple[OpenWindows, ...] | None = None
    window: WindowSpec | None = None
    """How windows are made, as far as the windows seen so far show it."""
    topics: TopicFacts | None = None
    """The broker's facts about the query's topics."""

    @property
    def run(self) -> QueryRun | None:
        """The query's last run, as it reports it."""
        return self.report.run if self.report is not None else None

    @property
    def plan(self) -> PlanFacts | None:
        """The plan of the last run."""
        return self.run.plan if self.run is not None else None

    @property
    def progress(self) -> BatchProgress | None:
        """The last batch that the query reported."""
        return self.run.progress if self.run is not None else None

    @property
    def begun(self) -> CheckpointFacts | None:
        """The checkpoint, if a batch has begun in it."""
        return self.checkpoint if self.checkpoint is not None and self.checkpoint.batch is not None else None

    @property
    def batch(self) -> int | None:
        """The last batch that has begun."""
        known = (self.checkpoint.batch if self.checkpoint is not None else None, last_reported(self.run))
        return max((batch for batch in known if batch is not None), default=None)

    @property
    def history(self) -> Sequence[RecordedBatch]:
        """The recorded batches, the newest last; of reports, a point for several batches of a long run."""
        if self.checkpoint is not None and self.checkpoint.history:
            return _batches_of_checkpoint(self.checkpoint)
        return _batches_of_points(self.run.history) if self.run is not None else []


def last_reported(run: QueryRun | None) -> int | None:
    """The last batch that a run has reported, or reports to be running."""
    if run is None:
        return None
    batches = [run.progress.batch if run.progress else None, run.running.batch if run.running else None]
    return max((batch for batch in batches if batch is not None), default=None)


def current(facts: QueryFacts) -> QueryFacts:
    """The facts without an earlier run's report: the query was restarted by a job that reports nothing."""
    checkpoint, report = facts.begun, facts.report
    if checkpoint is None or report is None or report.run is None:
        return facts
    is_over = report.run.ended or report.alive is False
    return replace(facts, report=None) if is_over and _moved_past(checkpoint, report, report.run) else facts


def _moved_past(checkpoint: CheckpointFacts, report: Report, run: QueryRun) -> bool:
    """Whether the checkpoint has batches that cannot belong to an ended run.

    A run that has failed leaves a batch behind that has begun and is not committed; in its first one it reports none.
    """
    last = last_reported(run)
    if last is None:
        begun_ms = checkpoint.batch_timestamp_ms
        return report.heard_ms is None or begun_ms is None or begun_ms > report.heard_ms
    committed = checkpoint.committed if run.ended else None
    newest = checkpoint.batch
    return (newest is not None and newest > last + 1) or (committed is not None and committed > last)


def past_of(facts: QueryFacts, level_ms: int | None, now_ms: int) -> RecordedPast:
    """The recorded past of a query with the watermark `level_ms` at `now_ms`, by its checkpoint, else by its reports.

    It ends at a time that is not recorded: it is never guessed.
    """
    checkpoint = facts.checkpoint
    if checkpoint is not None and checkpoint.history:
        is_done = checkpoint.committed == checkpoint.batch
        return _past(_batches_of_checkpoint(checkpoint), level_ms if is_done else None, now_ms, is_done=is_done)
    if facts.run is None:
        return RecordedPast()
    return _past(_batches_of_points(_without_gap(facts.run.recent)), level_ms, now_ms, is_done=True)


def _batches_of_checkpoint(checkpoint: CheckpointFacts) -> Sequence[RecordedBatch]:
    return [
        RecordedBatch(mark.batch, mark.timestamp_ms, mark.watermark_ms, mark.committed_ms)
        for mark in checkpoint.history
    ]


def _batches_of_points(points: Sequence[ProgressPoint]) -> Sequence[RecordedBatch]:
    return [
        RecordedBatch(
            point.batch,
            point.timestamp_ms,
            point.watermark_ms,
            point.timestamp_ms + point.duration_ms if point.duration_ms else None,
        )
        for point in points
    ]


def _without_gap(points: Sequence[ProgressPoint]) -> Sequence[ProgressPoint]:
    """The last batches, without a gap."""
    kept: list[ProgressPoint] = []
    for point in reversed(points):
        if kept and kept[-1].batch != point.batch + 1:
            break
        kept.append(point)
    return kept[::-1]


def _past(batches: Sequence[RecordedBatch], level_ms: int | None, now_ms: int, *, is_done: bool) -> RecordedPast:
    """The past of these batches: the watermark changes when a batch ends; `level_ms` is that after the last one, once
    it is done.
    """
    if not batches:
        return RecordedPast()
    levels: list[tuple[int, int | None]] = [(batches[0].begin_ms, batches[0].watermark_ms)]
    begun = [(batches[0].number, batches[0].begin_ms)]
    for before, after in pairwise(batches):
        if after.begin_ms < before.begin_ms:  # the clock was set
            levels, begun = [], []
            continue
        end_ms = _end_ms(before, after.begin_ms)
        if end_ms is None and after.watermark_ms != before.watermark_ms:
            levels, begun = [], []
        elif end_ms is not None and after.watermark_ms != before.watermark_ms:
            levels.append((end_ms, after.watermark_ms))
        levels.append((after.begin_ms, after.watermark_ms))
        begun.append((after.number, after.begin_ms))
    last = batches[-1]
    if is_done and level_ms != last.watermark_ms:
        end_ms = _end_ms(last, now_ms)
        if end_ms is None:
            return RecordedPast()
        levels.append((end_ms, level_ms))
    return RecordedPast(tuple(levels), tuple(begun))


def _end_ms(batch: RecordedBatch, next_ms: int) -> int | None:
    """When the batch ended, between its own beginning and `next_ms`; None: not recorded, or contradictory."""
    end_ms = batch.end_ms
    if end_ms is None or not batch.begin_ms - MAX_CLOCK_SKEW_MS <= end_ms <= next_ms + MAX_CLOCK_SKEW_MS:
        return None
    return max(batch.begin_ms, min(end_ms, next_ms))
