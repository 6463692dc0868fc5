"""`run replay`: files with an end, in order of arrival, at a speed of the user's choice or in batches of exact size."""

import hashlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ...core.snapshot import SourceView
from ...core.times import MIN
from ...errors import UsageError
from . import staging
from .base import ARRIVAL, CHANNEL, MARKER, OFFSET, ONE_CHANNEL, TIME, WATERMARK, PlainSource
from .clock import CLOCK, ReplayClock, change_clock, read_clock, write_clock
from .columns import Columns, check_alike, check_columns
from .event_time_sql import text_literal
from .marker import marked
from .staged import PREFIX, arrivals_of
from .table_files import TableFile, look_at
from .workers import start_workers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession


class Replay(PlainSource):
    """A `Source` of staged files. `speed` is replay time over real time, None as fast as it goes.

    Rows are staged in `directory`, which `close` deletes unless `keep`: a state directory goes on from it.
    """

    live = False
    bounded = True

    def __init__(
        self,
        files: Sequence[Path],
        columns: Columns,
        directory: Path,
        *,
        speed: float | None = None,
        batch_rows: int | None = None,
        keep: bool = False,
    ) -> None:
        self._paths = list(files)
        self._columns = columns
        self._directory = directory
        self._speed = speed
        self._batch_rows = batch_rows
        self._keep = keep
        self._files: list[TableFile] | None = None
        self._identity: dict[str, Any] | None = None
        self._arrivals: NDArray[np.int64] | None = None
        self._start_ms = 0

    @property
    def ticks(self) -> bool:
        """Only a paced replay has time between its batches."""
        return self._speed is not None and self._batch_rows is None

    @property
    def rows_in_all(self) -> int | None:
        """The staged rows; None before `prepare`."""
        return None if self._arrivals is None else len(self._arrivals)

    def check(self) -> None:
        """Recognise the files and look at their first rows; `UsageError` for what cannot be replayed."""
        if self._speed is not None and not 0 < self._speed < float("inf"):
            raise UsageError(f"--speed: {self._speed:g} is not above 0; give a number, as in 600, or max")
        if self._batch_rows is not None and self._batch_rows < 1:
            raise UsageError(f"--batch-rows: {self._batch_rows} is not above 0; give a number of rows, as in 10000")
        for file in self._looked_at():
            check_columns(file, self._columns)
        check_alike(self._looked_at(), self._columns)

    def identity(self) -> dict[str, Any]:
        """The files' names, sizes and digests, the columns, and the batch size, on which the result depends."""
        if self._identity is None:
            self._identity = {
                "kind": "replay",
                "files": [staging.fingerprint(file) for file in self._looked_at()],
                "batch_rows": self._batch_rows,
                **msgspec.to_builtins(self._columns),
            }
        return self._identity

    def describe(self) -> SourceView:
        """The files, the speed and how many rows there are."""
        more = f" and {len(self._paths) - 1} more" if len(self._paths) > 1 else ""
        return SourceView(
            kind="replay",
            description=self._paths[0].name + more,
            speed=self._speed,
            rows=self.rows_in_all,
            time_column=self._columns.time,
        )

    def prepare(self, report: Callable[[str], None]) -> None:
        """Stage the rows, unless they are staged already."""
        made_of = {key: value for key, value in self.identity().items() if key != "batch_rows"}
        origin = hashlib.sha256(msgspec.json.encode(made_of, order="sorted")).hexdigest()
        staging.stage(self._looked_at(), self._columns, origin, self._directory, report)
        self._arrivals = arrivals_of(self._directory)
        self._start_ms = self._arrived_by(0)
        self._clock_file.unlink(missing_ok=True)  # that of a run before this one

    def load(self, spark: "SparkSession") -> "DataFrame":
        """The stream of staged rows; `UsageError` for a `--marker` that is no condition."""
        from .replay_stream import FORMAT, ReplayDataSource

        start_workers(spark)
        spark.dataSource.register(ReplayDataSource)
        rows = (
            spark.readStream.format(FORMAT)
            .option("directory", str(self._directory.absolute()))
            .option("paced", self._speed is not None)
            .option("batch_rows", self._batch_rows or 0)
            .option("tasks", spark.sparkContext.defaultParallelism)
            .load()
        )
        columns = self._columns
        staged = [TIME, ARRIVAL, OFFSET, *([WATERMARK] if columns.watermark is not None else [])]
        channel = f"{PREFIX}{CHANNEL}" if columns.channel is not None else text_literal(ONE_CHANNEL)
        canonical = [f"{channel} as {CHANNEL}", *[f"{PREFIX}{name} as {name}" for name in staged]]
        if columns.marker is not None:
            return marked(rows, columns.marker, canonical, MARKER)
        return rows.selectExpr(*canonical)

    def trigger(self) -> dict[str, Any]:
        """As fast as it goes: batch after batch, and the query ends with the rows. Paced: a look now and then."""
        from .replay_stream import POLL_S

        if self._speed is None:
            return {"availableNow": True}
        # With exact batches the source itself waits: as many as have arrived must follow each other at once.
        return {"processingTime": f"{0 if self._batch_rows else int(POLL_S * 1_000)} milliseconds"}

    def resume(self, rows_read: int, now_ms: int | None = None) -> None:
        """Go on after `rows_read` rows, at `now_ms` if it is known how far the clock had come, else at the last row.

        The clock starts when the query first looks at the source, so that neither downtime nor Spark's start counts.
        """
        # Spark runs batch 0 at once, so it must have arrived, or it would be empty.
        self._start_ms = self._arrived_by(rows_read or self._batch_rows or 0)
        if now_ms is not None:
            limit = self.tick_limit_ms(rows_read)
            self._start_ms = max(self._start_ms, now_ms if limit is None else min(now_ms, limit))
        if self._speed is not None:
            write_clock(self._clock_file, ReplayClock(self._start_ms, self._speed))

    def now_ms(self) -> int:
        """The replay clock (epoch ms); as fast as it goes there is none between batches: where `resume` left it."""
        if self._speed is None or not self._clock_file.exists():
            return self._start_ms
        return read_clock(self._clock_file).at(time.monotonic())

    def pause(self, paused: bool) -> None:
        """Stop the replay clock, or let it go on; no effect on a replay that goes as fast as it can."""
        if self._speed is not None:
            change_clock(self._clock_file, lambda clock, now_s: clock.pausing(paused, now_s))

    def tick_limit_ms(self, rows_read: int) -> int | None:
        """The arrival of the first row not read; `MIN` where it has none, None after the last."""
        assert self._arrivals is not None
        return int(self._arrivals[rows_read]) if rows_read < len(self._arrivals) else None

    def close(self) -> None:
        """Delete the staged rows, unless they belong to a state directory."""
        self._arrivals = None
        if not self._keep:
            staging.remove(self._directory)

    @property
    def _clock_file(self) -> Path:
        return self._directory / CLOCK

    def _looked_at(self) -> list[TableFile]:
        if self._files is None:
            self._files = [look_at(path) for path in self._paths]
        return self._files

    def _arrived_by(self, rows_read: int) -> int:
        """The arrival (ms) of the last row read, or of the first one that has any."""
        assert self._arrivals is not None
        usable = int(self._arrivals.searchsorted(MIN, side="right"))
        if usable == len(self._arrivals):
            return 0
        return int(self._arrivals[max(usable, min(rows_read, len(self._arrivals)) - 1)])
