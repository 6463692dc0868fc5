"""What the taps on one Spark query report, at one moment, and its recorded past (times ms). Pure."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ...snapshot import SiblingQuery
from ...verdict.verdict import RecordedPast
from ...watermarks.settings import WindowSpec
from ..topic.topic_facts import TopicFacts
from .checkpoint import CheckpointFacts, RecordedBatch
from .events import BatchProgress
from .open_windows import OpenWindows
from .plan import PlanFacts

VERSION = 2
"""Of the file that a job publishes."""
MAX_CLOCK_SKEW_MS = 1_000
"""How far (ms) a file's time may be outside the batch that wrote it: clocks differ, and file systems round."""


class EventMax(Struct, frozen=True):
    """The greatest event time (ms) reported by batches in which exactly these `sources` delivered rows."""

    sources: tuple[int, ...]
    max_ms: int


class ChannelFacts(Struct, frozen=True, array_like=True):
    """A channel of a tapped input, since the query started."""

    max_ms: int
    rows: int


class Sampled(Struct, frozen=True):
    """There were too many channels to keep: `kept` of about `of`, with exact counts."""

    kept: int
    of: int


class LatenessCounts(Struct, frozen=True, kw_only=True):
    """The rows that would have been late at each constant delay: at or before their batch's watermark.

    A count is at least the true one at its delay, and at most the true one at a delay shorter by a bucket.
    """

    bucket_ms: int
    """The width of the counted buckets of event time."""
    delays_ms: tuple[int, ...]
    spark: tuple[int, ...]
    """By Spark's rule: one clock, driven by the greatest event time of all channels."""
    barrel: tuple[int, ...] | None
    """With a clock driven by the slowest channel, none idle; None: not all channels are known."""


class InputBatch(Struct, frozen=True):
    """One batch's rows of one input, by channel."""

    timestamp_ms: int | None
    channels: dict[str, ChannelFacts]


class InputFacts(Struct, frozen=True, kw_only=True):
    """An input with a tap before its watermark, since the query started."""

    name: str
    rows: int
    nulls: int
    """Rows without an event time."""
    max_ms: int | None
    """The greatest event time, which drives Spark's clock."""
    barrel_ms: int | None
    """The event time of the slowest channel, none idle; None: no channels, or not all known."""
    channels: dict[str, ChannelFacts]
    """Channels by name; a channel with an unknown name by `#` and its hash."""
    sampled: Sampled | None
    lateness: LatenessCounts | None
    recent: tuple[InputBatch, ...]
    """The last batches, oldest first."""
    trouble: str | None = None
    """One line on what could not be read."""


class RunningBatch(Struct, frozen=True):
    """A batch that has begun and is not reported yet."""

    batch: int
    since_ms: int


class QueryRun(Struct, frozen=True, kw_only=True):
    """One run of a query: `id` survives restarts, `run_id` does not."""

    id: str
    run_id: str
    name: str | None
    last_event_ms: int | None
    """The last time in its events, by the query's clock."""
    idle_ms: int | None
    """When it last reported that it had nothing to do; None: not since its last batch."""
    ended: bool
    error: str | None
    """Why it ended, unless it was stopped: the exception's first line."""
    running: RunningBatch | None
    progress: BatchProgress | None
    plan: PlanFacts | None
    """None: not seen (yet)."""
    watermark_policy: str | None
    """How the watermarks of several nodes are combined: min or max; None: not known."""
    max_event_ms: int | None
    """The greatest event time of all batches, from any node."""
    event_max: tuple[EventMax, ...] = ()
    """The same by the sources with rows: Spark reports the plan's first watermark that had rows."""
    silent: tuple[int, ...] | None = None
    """The sources without a row in this run; None before its first report."""
    dropped_at_least: int
    """Late rows dropped since this run started."""
    dropped_behind_ms: int | None = None
    """How far the earliest event time of a batch that dropped rows lay behind the greatest of the batches before it."""
    history: tuple[RecordedBatch, ...]
    """Its last batches."""
    inputs: tuple[InputFacts, ...]
    continuous: bool = False
    """Continuous processing: it reports no batches, and has no watermark."""
    pause_ms: int | None = None
    """Its longest pause between two batches, or between a batch and an idle report, except the first pause.

    None: there was none yet.
    """


class Application(Struct, frozen=True, kw_only=True):
    """An application's report on its streaming queries; a job that publishes writes it as JSON (times ms)."""

    app: str | None
    """The application's name."""
    app_id: str | None = None
    pid: int = 0
    version: int = VERSION
    started_ms: int | None = None
    written_ms: int | None = None
    """When it last wrote."""
    queries: tuple[QueryRun, ...] = ()
    """The runs of its streaming queries, the last started last."""
    alive: bool | None = None
    """Whether it still runs; None: it does, or it died without a trace in its log."""
    unread: int = 0
    """Bytes of the log that are left for the next time."""
    trouble: str | None = None
    """One line on what could not be read, by the job or of it."""


class Report(Struct, frozen=True, kw_only=True):
    """What an application reports of one query."""

    tap: Literal["event log", "publish"]
    run: QueryRun | None
    """The last run of the query; None: it has not started yet."""
    alive: bool | None
    """As `Application.alive`."""
    trouble: str | None
    siblings: list[SiblingQuery] | None = None
    """The last run of each other query of the application."""
    heard_ms: int | None = None
    """When the last line or file was written."""
    checkpoint: str | None = None
    """The query's checkpoint directory by this run or an earlier one of the same query."""


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
        """The recorded batches, the newest last."""
        if self.checkpoint is not None and self.checkpoint.history:
            return self.checkpoint.history
        return self.run.history if self.run is not None else ()


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
        return _past(checkpoint.history, level_ms if is_done else None, now_ms, is_done=is_done)
    if facts.run is None:
        return RecordedPast()
    return _past(_without_gap(facts.run.history), level_ms, now_ms, is_done=True)


def _without_gap(batches: Sequence[RecordedBatch]) -> Sequence[RecordedBatch]:
    """The last batches, without a gap."""
    gaps = [place for place, (before, after) in enumerate(pairwise(batches), 1) if after.batch != before.batch + 1]
    return batches[gaps[-1] :] if gaps else batches


def _past(batches: Sequence[RecordedBatch], level_ms: int | None, now_ms: int, *, is_done: bool) -> RecordedPast:
    """The past of these batches: the watermark changes when a batch ends; `level_ms` is that after the last one, once
    it is done.
    """
    if not batches:
        return RecordedPast()
    levels: list[tuple[int, int | None]] = [(batches[0].begin_ms, batches[0].watermark_ms)]
    begun = [(batches[0].batch, batches[0].begin_ms)]
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
        begun.append((after.batch, after.begin_ms))
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
