"""Makes observations of a run's batches: from rows by Spark's expressions, or from columns that tasks read
themselves.
"""

import threading
from typing import TYPE_CHECKING

from ..core.explain import Values
from ..core.late_records import LateRecords
from ..core.monitor import Monitor
from ..core.observation import BatchObservation
from ..core.settings import Settings
from .aggregate import ORDERED, Aggregation
from .batch_groups import observation_of
from .columnar import Work, groups_of_shares
from .explain import Explaining, values_in_rows, values_in_shares
from .groups import Levels
from .sources.base import Source, canonical_columns
from .sources.capabilities import Batch

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
