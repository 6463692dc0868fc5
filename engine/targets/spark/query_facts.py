"""The facts of all taps on one Spark query at one moment. Pure."""

from collections.abc import Sequence

from msgspec import Struct

from ...watermarks.settings import WindowSpec
from ..topic.topic_facts import TopicFacts
from .checkpoint.checkpoint import CheckpointFacts
from .checkpoint.open_windows import OpenWindows
from .events.query_runs import QueryRun
from .reports import Report


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


class Mark(Struct):
    """A recorded batch: when it began, and the watermark in force in it (ms)."""

    timestamp_ms: int
    watermark_ms: int | None


def batch_of(checkpoint: CheckpointFacts | None, run: QueryRun | None) -> int | None:
    """The last batch that has begun."""
    said = [checkpoint.batch if checkpoint is not None else None]
    if run is not None:
        said += [run.progress.batch if run.progress else None, run.running.batch if run.running else None]
    return max((batch for batch in said if batch is not None), default=None)


def history_of(facts: QueryFacts) -> Sequence[Mark]:
    """The recorded batches, the newest last."""
    if facts.checkpoint is not None and facts.checkpoint.history:
        return [Mark(mark.timestamp_ms, mark.watermark_ms) for mark in facts.checkpoint.history]
    return [Mark(point.timestamp_ms, point.watermark_ms) for point in facts.run.history] if facts.run else []


def begun_ms(checkpoint: CheckpointFacts | None, run: QueryRun | None) -> int | None:
    """When the last batch began."""
    if checkpoint is not None:
        return checkpoint.batch_timestamp_ms
    if run is None:
        return None
    return run.running.since_ms if run.running else run.progress.timestamp_ms if run.progress else None
