"""Turns a micro-batch into an observation: the passes over its records, and the channels that its source knows."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ..system.errors import UsageError
from ..watermarks.channels import Unread
from ..watermarks.explain import Explain, Values
from ..watermarks.monitor import Monitor
from ..watermarks.observation import BatchObservation
from ..watermarks.settings import Settings
from ..watermarks.window_operator import Firing, LateRecords, late_records
from .column_groups import Work, groups_of_shares
from .explain import Explaining, values_in_rows, values_in_shares
from .groups import Levels, observation_of
from .late_output import LateOutput
from .row_groups import ORDERED, Aggregation
from .sources.base import Source, canonical_columns
from .sources.capabilities import Batch


class SourceChannels:
    """Channels that appear and leave, that are quiet or only unread, and the reading position of each."""

    def __init__(self, source: Source, monitor: Monitor) -> None:
        self._source = source
        self._monitor = monitor
        self._timers_ms: int | None = None
        """Until when (processing time) channels were checked for being quiet or only unread."""

    def begin(self, now: int) -> None:
        """Begin at processing time `now` (ms), when the query starts."""
        self._timers_ms = now
        self.register(now)

    def register(self, now: int) -> None:
        """Register channels that the source knows before their first record."""
        known = self._source.known_channels
        if known is not None:
            self._monitor.add_channels(known.channels(), now)

    def keep_timers(self, now: int, unread: Unread | None) -> None:
        """Stop the idle timers of channels with unread records: such a channel is slow, not quiet."""
        since, self._timers_ms = self._timers_ms, now
        if unread is not None and since is not None and now > since:
            self._monitor.exclude(now - since, now, unread.not_quiet())

    def let_go(self, now: int | None, progress: dict[str, Any] | None) -> list[Firing]:
        """Remove or finish channels that are gone or read to their end; returns what the watermark made windows do.

        `progress` is Spark's last report, as its JSON.
        """
        leaving = self._source.leaving_channels
        if leaving is None:
            return []
        firings = self._monitor.remove_channels(leaving.gone_channels(), now)
        if not self._monitor.ended:
            firings += self._monitor.finish_channels(leaving.finished_channels(_latest_offsets(progress)), now)
        return firings

    def balance(self) -> None:
        """Pass a balancing source the event time of each channel that is not idle."""
        balancer = self._source.balancer
        if balancer is not None:
            balancer.balance(self._monitor.progress_of_active())


def _latest_offsets(progress: dict[str, Any] | None) -> list[str]:
    """The ends of the query's sources by Spark's report, as JSON."""
    sources: list[dict[str, Any]] = progress["sources"] if progress else []
    return [json.dumps(source["latestOffset"]) for source in sources]


if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Observer:
    """The query's frame, and the observation of each of its batches.

    Tasks read columns if the source supports it and the strategy does not depend on the order of records; a batch that
    only Spark's own reader can read is processed as rows.
    """

    def __init__(self, spark: "SparkSession", source: Source, settings: Settings, edges: list[int]) -> None:
        """Load the source. Meanwhile, and until `warmed_up`, Spark prepares for the first batch."""
        self._settings = settings
        self._edges = edges
        self._planner = source.planner
        parts = source.part_name is not None or source.channel_of_part is not None
        columns = canonical_columns(settings, replay=source.clock is not None, parts=parts)
        self._aggregation = Aggregation(settings, edges, list(columns), source.channel_of_part)
        self._reader = None if settings.strategy in ORDERED else source.columns_of(spark)
        self._warming: threading.Thread | None = None
        if self._reader is not None:
            self.frame = self._reader.frame
            return
        rows = spark.range(2).selectExpr(*[f"cast(id as {kind}) as {name}" for name, kind in columns.items()])
        self._warming = threading.Thread(target=self._aggregation.warm_up, args=(rows,), name="wmtop-warm-up")
        self._warming.start()
        self.frame = source.load(spark)

    def batch(self, planned: Batch) -> Batch:
        """The batch as the source has it: with the rows of a `BatchPlanner`."""
        if self._planner is None or self._reader is not None:
            return planned
        spark = planned.frame.sparkSession
        return planned._replace(frame=self._planner.rows(spark, planned.first_row, int(planned.ends[0])))

    def observe(self, batch: Batch, number: int, levels: Levels, monitor: Monitor) -> BatchObservation:
        """The observation of the batch after those that `monitor` has applied."""
        self.warmed_up()
        reader = self._reader
        if reader is None:
            return self._aggregation.observe(batch.frame, number, levels, monitor)
        shares = reader.shares(batch)
        work = Work(reader.read, self._settings, self._edges, levels)
        groups = groups_of_shares(batch.frame.sparkSession, shares, work) if shares else None
        if groups is None:
            return self._aggregation.observe(reader.rows(batch), number, levels, monitor)
        return observation_of(groups, number, levels, [])

    @property
    def rereads(self) -> bool:
        """Whether tasks read the records, which they can do again, and not Spark as rows."""
        return self._reader is not None

    def explained(self, batch: Batch, late: LateRecords, columns: int) -> list[Values]:
        """The values of so many `--explain` columns in the batch that `observe` saw."""
        work, reader = Explaining(self._settings, late, columns), self._reader
        if reader is not None and reader.explained is not None:
            found = values_in_shares(batch.frame.sparkSession, reader.shares(batch), reader.explained, work)
            if found is not None:
                return found
        return values_in_rows(self.rows(batch), work)

    def rows(self, batch: Batch) -> "DataFrame":
        """The records of a batch as rows with the columns of `Source.load`."""
        return batch.frame if self._reader is None else self._reader.rows(batch)

    def warmed_up(self) -> None:
        """Wait for the warm-up, which does the same work as the first batch."""
        warming, self._warming = self._warming, None
        if warming is not None:
            warming.join()


class RecordPasses:
    """The additional passes of one run."""

    def __init__(self, monitor: Monitor, output: LateOutput | None, observer: Observer) -> None:
        self._monitor = monitor
        self._output = output
        self._observer = observer

    @contextmanager
    def read_once(self, batch: Batch) -> Generator[Batch]:
        """The batch, cached by Spark while it is read several times."""
        if self._monitor.explain is None or self._observer.rereads:
            yield batch
            return
        kept = batch.frame.persist()
        try:
            yield batch._replace(frame=kept)
        finally:
            kept.unpersist()

    def run(self, batch: Batch, observation: BatchObservation, levels: Levels) -> BatchObservation:
        """Write the batch's late records, and add the values that explain them, before anything is applied."""
        if self._output is None and self._monitor.explain is None:
            return observation
        late = late_records(self._monitor.operator.windows, observation.groups, levels.level)
        if self._output is not None:
            rows = self._observer.rows(batch) if late.records else batch.frame
            self._output.write(rows, observation.batch, late)
        if self._monitor.explain is None:
            return observation
        values = self._observer.explained(batch, late, len(self._monitor.explain.columns))
        return replace(observation, values=values, late=late.records)


def explained_from(monitor: Monitor, columns: tuple[str, ...], *, resumed: bool) -> Explain | None:
    """The counts of a run's `--explain`; UsageError if a resumed run was started with other columns."""
    before = () if monitor.explain is None else tuple(monitor.explain.columns)
    if resumed and before != columns:
        raise UsageError(
            f"--explain: this run was started with {','.join(before) or 'none'}, not {','.join(columns) or 'none'}; "
            "give the same columns, or another --state-dir"
        )
    return monitor.explain if resumed else Explain.of(columns) if columns else None
