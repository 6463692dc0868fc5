"""`run rate`: synthetic records for load tests, with Zipf rates, disorder and stalling channels."""

import time
from typing import TYPE_CHECKING, Any

from ...snapshot import SourceView
from ...system.errors import UsageError
from .base import CHANNEL, OFFSET, TIME, Batch, BatchReader, RowPlanner, Source, numbered_batches, record_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS = (CHANNEL, TIME, OFFSET)
_POLL_MS = 200
_BLOCKS_PER_TASK = 8
"""Parts of a task's rows: each is an array for a moment."""
_SECONDS_PER_BATCH = 5
"""Longest time (s) whose rows a batch holds, so that an engine that falls behind still shows progress."""
_STALL_EVERY_MS, _STALL_FOR_MS, _STALLING = 120_000, 45_000, 5
_MAX_DELAY_MS = 3_600_000


class Rate(Source, RowPlanner):
    """A `Source` of `rows_per_second` synthetic records a second, `rows` of them, or without end.

    `start_ms` (epoch ms) is the arrival of row 0, for a run that must be repeatable; without it rows arrive when they
    are made.
    """

    ticks = True
    counted_by_spark = False  # it counts batches

    def __init__(
        self,
        *,
        channels: int = 16,
        rows_per_second: float = 10_000,
        rows: int | None = None,
        seed: int = 1,
        start_ms: int | None = None,
    ) -> None:
        super().__init__()
        self._channels = channels
        self._rate = rows_per_second
        self._rows = rows
        self._seed = seed
        self._start_ms = start_ms
        self.bounded = rows is not None
        self.rows_in_all = rows
        self.planner = self
        self._began: tuple[int, float] | None = None
        """The first row of this process, and when (monotonic, s) it was due."""

    def check(self) -> None:
        if self._channels < 1:
            raise UsageError(f"--channels: {self._channels} is not above 0; give a number, as in 16")
        if not 0 < self._rate < float("inf"):
            raise UsageError(f"--rows-per-second: {self._rate:g} is not above 0; give a number, as in 10000")
        for name in self.more.explain:
            if name not in _COLUMNS:
                raise UsageError(f"--explain: rate has no column {name!r}; it has {', '.join(_COLUMNS)}")
        if self._rows is not None and self._rows < 1:
            raise UsageError(f"--rows: {self._rows} is not above 0; give a number, as in 1000000, or a longer --for")

    def identity(self) -> dict[str, Any]:
        return {
            "kind": "rate",
            "channels": self._channels,
            "rows_per_second": self._rate,
            "rows": self._rows,
            "seed": self._seed,
            "start_ms": self._start_ms,
        }

    def describe(self) -> SourceView:
        description = f"{self._channels} synthetic channel{'s' * (self._channels != 1)}, {self._rate:g} rows/s"
        return SourceView(kind="rate", description=description, rows=self._rows, time_column=TIME)

    def load(self, spark: "SparkSession", *, as_columns: bool) -> BatchReader:
        return BatchReader(numbered_batches(spark), self.rows)

    def next_end(self, first_row: int) -> int:
        """The rows due by now; a stop does not count: rows are due from the first call after it."""
        now_s = time.monotonic()
        if self._began is None:
            self._began = (first_row, now_s)
            if self._start_ms is None:
                self._start_ms = time.time_ns() // 1_000_000 - int(first_row * 1_000 / self._rate)
        row, began_s = self._began
        due = row + 1 + int((now_s - began_s) * self._rate)  # one at once: the screen waits for the first batch
        end = min(due, first_row + max(1, int(self._rate * _SECONDS_PER_BATCH)))
        return max(first_row, end if self._rows is None else min(end, self._rows))

    def rows(self, batch: Batch) -> "DataFrame":
        """The records of a batch, which the JVM makes."""
        spark, first_row, last_row = batch.frame.sparkSession, batch.first_row, int(batch.ends[0])
        tasks = spark.sparkContext.defaultParallelism
        blocks = _BLOCKS_PER_TASK * tasks
        # The numbers are data: as constants they would be compiled into the code of every batch.
        numbers = f"array({first_row}L, {last_row - first_row}L, {self._start_ms or 0}L)"
        first, count, start = (f"element_at({numbers}, cast(id & 0L as int) + {place})" for place in (1, 2, 3))
        rows = (
            spark.range(0, blocks, 1, tasks)
            .selectExpr(
                f"{start} as start_ms",
                f"{first} + {count} * id div {blocks} as low",
                f"{first} + {count} * (id + 1) div {blocks} - 1 as high",
            )
            .where("low <= high")
            .selectExpr("start_ms", "explode(sequence(low, high)) as row")
        )
        for step in synthetic_sql(self._channels, self._rate, self._seed):
            rows = rows.selectExpr("*", *step)
        explained = [f"cast({name} as string)" for name in self.more.explain]
        return rows.selectExpr(*_COLUMNS, *record_sql(explained, _COLUMNS if self.more.whole else ()))

    def trigger(self) -> dict[str, Any]:
        return {"processingTime": f"{_POLL_MS} milliseconds"}


def synthetic_sql(channels: int, rows_per_second: float, seed: int) -> list[list[str]]:
    """The steps that make a record from `row` and `start_ms`, each a list of SQL columns over the earlier ones."""

    def uniform(salt: int) -> str:
        """A number in [0, 1) with 53 random bits."""
        return f"(shiftrightunsigned(xxhash64(row, {seed}L, {salt}), 11) * {2.0**-53!r}D)"

    stalls = f"drawn % {_STALLING} = {min(_STALLING, channels) - 1}"
    phase = f"pmod(xxhash64(drawn, {seed}L, 3), {_STALL_EVERY_MS})"
    quiet = f"pmod(since_ms + {phase}, {_STALL_EVERY_MS}) < {_STALL_FOR_MS}"
    width = len(str(channels - 1))
    return [
        [
            f"cast(floor(row * {1_000 / rows_per_second!r}D) as bigint) as since_ms",
            # Zipf with exponent 1, by the inverse of its continuous distribution function.
            f"least(cast(floor(pow({channels + 1}D, {uniform(1)})) as int), {channels}) - 1 as drawn",
            # A Lomax delay: half below 0.1 s, one in a hundred above 3 s, one in ten thousand above a minute.
            f"least(cast(150 * (pow(1 - {uniform(2)}, -0.66D) - 1) as bigint), {_MAX_DELAY_MS}L) as delay_ms",
        ],
        [f"if(drawn > 0 and {stalls} and {quiet}, 0, drawn) as number"],
        [
            f"concat('c', lpad(cast(number as string), {width}, '0')) as {CHANNEL}",
            f"start_ms + since_ms - delay_ms as {TIME}",
            f"row as {OFFSET}",
        ],
    ]
