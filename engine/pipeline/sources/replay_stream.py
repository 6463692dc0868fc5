"""The staged rows as a Spark streaming source: plans batches and reads them; runs in Spark's workers."""

import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from .clock import CLOCK, ReplayClock, change_clock
from .staged import arrivals_of, read_rows, schema_of

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql.types import StructType

FORMAT = "wmtop-replay"
BOUND = 1_000_000
"""Rows per batch at full speed: large enough that a batch's fixed cost (0.2 s) is a few percent, small enough that the
screen moves and that the watermark, fixed at a batch's start, follows.
"""
POLL_S = 0.2
"""Seconds between two polls of a paced replay: Spark by itself would poll 93 times a second."""
_ROWS_PER_TASK = 50_000


def next_end(
    arrivals: "NDArray[np.int64]", start: int, clock_ms: int | None, batch_rows: int | None, most: int | None
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
    count = min(tasks, -(-(last - first) // _ROWS_PER_TASK))
    edges = [first + (last - first) * i // max(count, 1) for i in range(count + 1)]
    return list(pairwise(edges))


class RowRange(InputPartition):
    """Rows that one task reads."""

    def __init__(self, start: int, stop: int) -> None:
        self.start = start
        self.stop = stop


class ReplayDataSource(DataSource):
    """Options: `directory` (staged rows, and the clock if `paced`), `batch_rows`, `tasks`."""

    @classmethod
    def name(cls) -> str:
        """The name to give to `readStream.format`."""
        return FORMAT

    def schema(self) -> "StructType":
        """The staged columns."""
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(schema_of(Path(self.options["directory"])))

    def streamReader(self, schema: "StructType") -> "ReplayStreamReader":  # noqa: N802 (Spark's name)
        """The reader; Spark makes one to plan, and one in every task."""
        options = self.options
        return ReplayStreamReader(
            Path(options["directory"]),
            paced=options["paced"] == "true",
            batch_rows=int(options["batch_rows"]) or None,
            tasks=int(options["tasks"]),
        )


class ReplayStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """An offset is `{"row": n}`: rows before n are read. A batch is a row range, so reading it again gives the same
    rows.
    """

    def __init__(self, directory: Path, *, paced: bool, batch_rows: int | None, tasks: int) -> None:
        self._directory = directory
        self._paced = paced
        self._batch_rows = batch_rows
        self._tasks = tasks
        self._arrivals: NDArray[np.int64] | None = None
        self._clock: ReplayClock | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """The first row."""
        return {"row": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """What Spark passes to `latestOffset`."""
        return ReadMaxRows(self._batch_rows) if self._batch_rows else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Nothing to do: all rows exist."""

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """The end of the next batch."""
        if self._arrivals is None:
            self._arrivals = arrivals_of(self._directory)
        clock_ms, most = None, BOUND
        if self._paced:
            # The clock starts here, at the first poll: before, Spark was only starting.
            clock = change_clock(self._directory / CLOCK, ReplayClock.started)
            clock_ms, most = clock.at(time.monotonic()), None
        end = next_end(self._arrivals, start["row"], clock_ms, self._batch_rows, most)
        if self._paced and self._batch_rows and end == start["row"]:
            time.sleep(POLL_S)  # full batches follow each other at once, so the pause must be here
        return {"row": end}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[RowRange]:
        """Row ranges in order, as many as there are cores, fewer for a small batch."""
        return [RowRange(low, high) for low, high in ranges(start["row"], end["row"], self._tasks)]

    def read(self, partition: InputPartition) -> "Iterator[Any]":
        """The rows of a task as Arrow record batches."""
        assert isinstance(partition, RowRange)
        return read_rows(self._directory, partition.start, partition.stop)
