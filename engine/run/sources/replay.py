"""`run replay`: a file of events in the order of arrival, at the replay's own clock."""

import hashlib
import time
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ...snapshot import SourceView
from ...system.errors import UsageError
from ...watermarks.observation import MalformedRecord, Offender
from ..tasks import TaskNeeds, map_in_arrow, start_workers
from . import staging
from .base import (
    ARRIVAL,
    NOTHING_MORE,
    OFFSET,
    TIME,
    Batch,
    BatchReader,
    RowPlanner,
    Source,
    canonical_rows,
    numbered_batches,
    parts_of,
)
from .columns import Columns, canonical_sql, check_files
from .data_files import DataFile, in_parallel
from .replay_time import ReplayTime
from .shared_files import SharedFiles
from .staging import LAYOUT, StagedRows, arrivals_of
from .table_files import TableFile, look_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BOUND = 1_000_000
"""Rows per batch at full speed: large enough that a batch's fixed cost (0.2 s) is a few percent, small enough that the
screen moves and that the watermark, fixed at a batch's start, follows.
"""
_ROWS_PER_TASK = 50_000

BATCH_EVERY_S = 0.2
"""Least time (s) between two batches of a paced replay without batches of exact size."""


def next_end(
    arrivals: NDArray[np.int64], start: int, clock_ms: int | None, batch_rows: int | None, most: int | None
) -> int:
    """The row before which a batch that begins at `start` ends; `start`: no batch yet.

    `clock_ms` None: everything has arrived. With `batch_rows` a batch waits until all its rows have arrived.
    """
    rows = len(arrivals)
    arrived = rows if clock_ms is None else int(np.searchsorted(arrivals, clock_ms, side="right"))
    if batch_rows is not None:
        end = min(start + batch_rows, rows)
        return end if end <= arrived else start
    end = max(start, arrived)
    return end if most is None else min(end, start + most)


def ranges(first: int, last: int, tasks: int) -> list[tuple[int, int]]:
    """The rows `first <= row < last` in at most `tasks` parts, each large enough for a task."""
    return parts_of(first, last, min(tasks, -(-(last - first) // _ROWS_PER_TASK)))


class Replay(Source, RowPlanner):
    """A `Source` of staged files. `speed` is replay time over real time, None as fast as possible.

    Rows are staged in `directory`, which `close` deletes unless `keep`: a state directory resumes from it. None: in a
    private temporary one.
    """

    bounded = True
    counted_by_spark = False

    def __init__(
        self,
        files: Sequence[DataFile | Path],
        columns: Columns,
        directory: Path | None,
        *,
        speed: float | None = None,
        batch_rows: int | None = None,
        keep: bool = False,
    ) -> None:
        super().__init__()
        self._paths = list(files)
        self._columns = columns
        self._shared = SharedFiles(directory, keep=keep)
        self._speed = speed
        self._batch_rows = batch_rows
        self.ticks = speed is not None and batch_rows is None  # only a paced replay has time between batches
        self.clock = self._time = ReplayTime(speed=speed, batch_rows=batch_rows)
        self.planner = self
        self._looked_s = 0.0
        self._read_as: str | None = None
        """As what event times are read."""

    def check(self) -> None:
        """Recognise the files and read their first rows; `UsageError` for files that cannot be replayed."""
        if self._speed is not None and not 0 < self._speed < float("inf"):
            raise UsageError(f"--speed: {self._speed:g} is not above 0; give a number, as in 600, or max")
        if self._batch_rows is not None and self._batch_rows < 1:
            raise UsageError(f"--batch-rows: {self._batch_rows} is not above 0; give a number of rows, as in 10000")
        self._read_as = check_files(self._files, self._columns, self.more)

    def identity(self) -> dict[str, Any]:
        """The files' names, sizes and digests, the columns, and the batch size, on which the result depends."""
        return {
            "kind": "replay",
            "files": self._fingerprints,
            "batch_rows": self._batch_rows,
            **msgspec.to_builtins(self._columns),
        }

    def describe(self) -> SourceView:
        more = f" and {len(self._paths) - 1} more" if len(self._paths) > 1 else ""
        return SourceView(
            kind="replay",
            description=self._paths[0].name + more,
            speed=self._speed,
            rows=self.rows_in_all,
            time_column=self._columns.time,
            time_unit=self._read_as,
        )

    def prepare(self, report: Callable[[str], None]) -> None:
        made_of = {key: value for key, value in self.identity().items() if key != "batch_rows"}
        made_of["layout"] = LAYOUT
        if self.more != NOTHING_MORE:
            made_of |= msgspec.to_builtins(self.more)
        origin = hashlib.sha256(msgspec.json.encode(made_of, order="sorted")).hexdigest()
        staging.stage(self._files, self._columns, origin, self._shared.path, report, self.more)
        arrivals = arrivals_of(self._shared.path)
        self.rows_in_all = len(arrivals)
        self._time.begin(arrivals)

    def has_columns(self, spark: "SparkSession") -> bool:
        """Not with a `--marker`, which Spark evaluates."""
        return self._columns.marker is None

    def load(self, spark: "SparkSession", *, as_columns: bool) -> BatchReader:
        """The staged rows of each batch, a range for each task; as columns without conversion."""
        start_workers(spark, self.in_tasks(spark))
        tasks = spark.sparkContext.defaultParallelism

        def shares(batch: Batch) -> list[list[tuple[int, int]]]:
            return [[part] for part in ranges(batch.first_row, int(batch.ends[0]), tasks)]

        frame = numbered_batches(spark)
        self.rows(Batch(frame, 0, ["0"]))  # checks the marker
        return BatchReader(frame, self.rows, shares, self._staged()) if as_columns else BatchReader(frame, self.rows)

    def next_end(self, first_row: int) -> int:
        """As many rows as have arrived; with `batch_rows` that many, at full speed at most `BOUND`."""
        arrivals = self._time.arrivals
        assert arrivals is not None
        clock_ms = self._time.start()
        if clock_ms is None or self._batch_rows is not None:
            return next_end(arrivals, first_row, clock_ms, self._batch_rows, BOUND)
        if time.monotonic() - self._looked_s < BATCH_EVERY_S:
            return first_row
        end = next_end(arrivals, first_row, clock_ms, None, None)
        self._looked_s = time.monotonic() if end > first_row else self._looked_s
        return end

    def rows(self, batch: Batch) -> "DataFrame":
        """The staged rows of a batch, a range for each task."""
        from pyspark.sql.pandas.types import from_arrow_schema

        spark = batch.frame.sparkSession
        parts = ranges(batch.first_row, int(batch.ends[0]), spark.sparkContext.defaultParallelism)
        read = self._staged()
        numbers = spark.range(0, len(parts), 1, max(1, len(parts)))
        rows = map_in_arrow(numbers, partial(read.in_rows, parts), from_arrow_schema(read.schema()))
        canonical = canonical_sql(self._columns, (TIME, ARRIVAL, OFFSET), self.more.explain)
        return canonical_rows(rows, canonical, self._columns.marker)

    def whole(self, rows: "DataFrame", added: list[str]) -> "DataFrame":
        """Some rows with all columns of the files, looked up by row number, and those `added`."""
        return self._staged().with_records(rows, added)

    def malformed_of(self, batch: Batch, last: Offender) -> MalformedRecord | None:
        return staging.malformed_of(self._shared.path)

    def in_tasks(self, spark: "SparkSession") -> TaskNeeds:
        """Its data source, the grouping of columns, and the staged rows."""
        modules = (f"{__package__}.staging", "wmtop.engine.run.column_groups")
        return TaskNeeds(modules, (self._shared.path,))

    def trigger(self) -> dict[str, Any]:
        return {"processingTime": "0 seconds"}

    def close(self) -> None:
        self._time.arrivals = None  # a map of a file that is about to be deleted
        self._shared.remove()

    def _staged(self) -> StagedRows:
        return StagedRows(str(self._shared.path.absolute()))

    @cached_property
    def _files(self) -> list[TableFile]:
        return in_parallel(look_at, self._paths)

    @cached_property
    def _fingerprints(self) -> list[dict[str, Any]]:
        return in_parallel(staging.fingerprint, self._files)
