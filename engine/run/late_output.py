"""The dropped records themselves (`--late-output`): which rows, how they are written, and a sample of the last."""

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from ..snapshot import LateRecord
from ..system.errors import RunError, UsageError
from ..system.files import replace_file
from ..watermarks.settings import Session, Settings
from ..watermarks.times import MAX
from ..watermarks.window_operator import LateRecords
from .durable_state import SavedState, unwritable
from .late_directory import OPTION, OWNER, LateDirectory, LocalDirectory, SparkDirectory, is_uri, local_path
from .row_groups import SHORT_NAME_SQL, start_sql
from .sources.base import CHANNEL, TIME, Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LATE_CHANNEL, LATE_TIME, LATE_WATERMARK, LATE_WINDOW_END, LATE_BY = ADDED = (
    "wmtop_channel",
    "wmtop_time_ms",
    "wmtop_watermark_ms",
    "wmtop_window_end_ms",
    "wmtop_late_by_ms",
)
"""Columns added to a late record's own (all bigint ms except the channel): the watermark that dropped it (as shown:
plus 1 under Spark's rule; null after the end of stream), the end of its last window (null in a gap between windows),
and the watermark minus that window's greatest timestamp (in a gap: minus the record's own).
"""

MAX_IN_SAMPLE = 20
MAX_READ = 4_096
"""Rows of a batch that are read, at most, an equal share from each of its files."""
_POSITION = ("topic", "partition", "offset")
_FILE = "late-output.json"


class LateRows:
    """The expressions of one run."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def of(self, batch: "DataFrame", late: LateRecords) -> "DataFrame":
        """The late records of a batch, with `ADDED` besides the columns of `batch`."""
        level = shown = _constant(late.level)
        if self._settings.strategy == "spark":
            shown = f"{level} + 1L"
        if late.level == MAX:  # never shown as a number
            level = shown = "cast(null as bigint)"
        return (
            self._placed(batch, late)
            .where("is_late")
            .selectExpr(
                *batch.columns,
                f"{CHANNEL} as {LATE_CHANNEL}",
                f"{TIME} as {LATE_TIME}",
                f"{shown} as {LATE_WATERMARK}",
                f"_end as {LATE_WINDOW_END}",
                f"try_subtract({level}, coalesce(_end - 1L, {TIME})) as {LATE_BY}",
            )
        )

    def _placed(self, batch: "DataFrame", late: LateRecords) -> "DataFrame":
        """The batch with the end of each record's last window (`_end`), and whether that window is gone (`is_late`)."""
        from pyspark.sql import functions as F

        window = self._settings.spec
        rows = batch.withColumn(CHANNEL, F.expr(SHORT_NAME_SQL)).selectExpr("*", f"{start_sql(window)} as _start")
        if isinstance(window, Session):
            return self._in_sessions(rows, late)
        return self._in_windows(rows, late)

    def _in_windows(self, rows: "DataFrame", late: LateRecords) -> "DataFrame":
        window = self._settings.spec
        assert not isinstance(window, Session)
        end = f"_start + {window.size_ms}L"
        if window.slide_ms > window.size_ms:
            end = f"if({TIME} < {end}, {end}, null)"
        # Saturates like the windows: at the end of stream everything is late.
        limit = late.level if late.level == MAX else late.level - self._settings.allowed_lateness_ms
        rows = rows.selectExpr("*", f"{end} as _end")
        return rows.selectExpr("*", f"coalesce(_end - 1L, {TIME}) <= {_constant(limit)} as is_late")

    def _in_sessions(self, rows: "DataFrame", late: LateRecords) -> "DataFrame":
        import pyarrow as pa

        sessions = late.sessions or {}
        cells = pa.table(
            {"_start": pa.array(list(sessions), pa.int64()), "_end": pa.array(list(sessions.values()), pa.int64())}
        )
        created = rows.sparkSession.createDataFrame(cells)  # pyright: ignore[reportArgumentType, reportCallIssue]
        dropped = created.selectExpr("*", "true as is_late").hint("broadcast")  # pyright: ignore[reportUnknownMemberType]
        return rows.join(dropped, "_start")


def _constant(value: int) -> str:
    """A number that Spark reads from data at run time instead of compiling it into the code."""
    return f"element_at(array({value}L), cast({TIME} & 0L as int) + 1)"


class LateSample:
    """The sample of a run whose late output is the directory `path`; `from_kafka`: with topic, partition, offset."""

    def __init__(self, path: Path, *, from_kafka: bool) -> None:
        self._path = path
        self._columns = [*ADDED, *(_POSITION if from_kafka else ())]
        self._records: list[LateRecord] | None = []

    @property
    def records(self) -> list[LateRecord] | None:
        """At most `MAX_IN_SAMPLE`, the newest batch first, in a batch the most late first; None: not readable."""
        return self._records

    def resume(self, batches: Sequence[int]) -> None:
        """Read the sample of a resumed run from its last batches; `batches` are their numbers."""
        self._records = []
        for batch in sorted(batches)[-MAX_IN_SAMPLE:]:  # a written batch has at least one record
            self.add(batch)

    def add(self, batch: int) -> None:
        """Add the records of a batch that was just written."""
        import pyarrow as pa

        self.drop(batch)
        try:
            new = self._read(batch)
        except (OSError, pa.ArrowException, KeyError):
            self._records = None
        else:
            self._records = [*new, *(self._records or [])][:MAX_IN_SAMPLE]

    def drop(self, batch: int) -> None:
        """Forget a batch's records: it runs again."""
        if self._records is not None:
            self._records = [record for record in self._records if record.batch != batch]

    def _read(self, batch: int) -> list[LateRecord]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        files = sorted((self._path / f"batch={batch}").glob("*.parquet"))
        parts: list[pa.RecordBatch] = []
        for file in files:
            left = -(-MAX_READ // len(files))
            with pq.ParquetFile(file) as parquet:
                opened: Any = parquet  # pyarrow.parquet is mostly untyped
                for part in opened.iter_batches(batch_size=left, columns=self._columns):
                    parts.append(part.slice(0, left))
                    left -= parts[-1].num_rows
                    if not left:
                        break
        if not parts:
            return []
        table: Any = pa.Table.from_batches(parts)
        order = [(LATE_BY, "descending"), (LATE_TIME, "ascending")]
        rows: list[dict[str, Any]] = table.sort_by(order).slice(0, MAX_IN_SAMPLE).to_pylist()
        return [
            LateRecord(
                batch=batch,
                channel=row[LATE_CHANNEL],
                time_ms=row[LATE_TIME],
                watermark_ms=row[LATE_WATERMARK],
                window_end_ms=row[LATE_WINDOW_END],
                late_by_ms=row[LATE_BY],
                **{name: row.get(name) for name in _POSITION},
            )
            for row in rows
        ]


class Claimed(Struct, frozen=True):
    """The state directory's entry about the run's late output."""

    directory: str
    id: str


class LateOutput:
    """The late output of one run; call `open` before anything is written."""

    def __init__(
        self, asked: str, state: Path, *, resumed: bool, last_batch: int | None, force: bool, from_kafka: bool
    ) -> None:
        """`state` is the state directory, `last_batch` its last batch.

        UsageError if the directory cannot be this run's; one at a URI is checked only by `open`.
        """
        self.where = asked if is_uri(asked) else str(local_path(asked))
        """The absolute path, or the URI."""
        self._last_batch = last_batch
        self._force = force
        self._own = resumed
        claimed = claimed_by(state)
        if resumed and claimed is None:
            raise UsageError(
                f"{OPTION}: this run was started without it, and has not kept its late records so far; give it from "
                "the start, with another --state-dir"
            )
        if resumed and claimed is not None and claimed.directory != self.where:
            raise UsageError(f"{OPTION} {asked}: this run writes its late records to {claimed.directory}; give that")
        if claimed is None or claimed.directory != self.where:
            claimed = Claimed(self.where, secrets.token_hex(16))
            try:
                replace_file(state / _FILE, msgspec.json.encode(claimed), sync=True)
            except OSError as error:
                raise unwritable(state / _FILE, error) from error
        self._id = claimed.id
        self._directory: LateDirectory | None = None
        self._written: int | None = None
        self._sample: LateSample | None = None
        if not is_uri(asked):
            directory = LocalDirectory(Path(self.where))
            self._claim(directory)
            self._sample = LateSample(Path(self.where), from_kafka=from_kafka)
            self._sample.resume(directory.batches())

    @property
    def marker(self) -> Path | None:
        """The local file that names the directory's run, which Spark's executors must see; None: it is at a URI."""
        return None if is_uri(self.where) else Path(self.where, OWNER)

    @property
    def sample(self) -> list[LateRecord] | None:
        """A sample of the last late records; None: not known (at a URI they are not read back)."""
        return None if self._sample is None else self._sample.records

    def open(self, spark: "SparkSession", source: Source, settings: Settings) -> None:
        """Do the remaining checks, once Spark runs (UsageError), and prepare `write`."""
        self._source = source
        self._rows = LateRows(settings)
        if self._directory is None:
            self._claim(SparkDirectory(self.where, spark))

    def write(self, rows: "DataFrame", number: int, late: LateRecords) -> None:
        """Keep the `late` records of batch `number`, whose records are `rows`; costs nothing without late records.

        RunError if they cannot be written, or if the source has changed and they could not be read again.
        """
        assert self._directory is not None
        if not late.records:
            if number == self._written:  # the batch runs again, and its input has changed
                self._directory.remove(number)
                if self._sample is not None:
                    self._sample.drop(number)
            return
        from pyspark.sql import Observation
        from pyspark.sql import functions as F

        self._written = number
        observed = Observation()
        kept = self._rows.of(rows, late).observe(observed, F.count(F.lit(1)).alias("rows"))
        self._directory.write(self._source.whole(kept, list(ADDED)), number)
        written = int(observed.get["rows"])
        if written != late.records:
            raise RunError(
                f"batch {number} has {late.records} late records, but only {written} of them could be read again for "
                f"{OPTION}: the source has changed meanwhile; run the same command again"
            )
        if self._sample is not None:
            self._sample.add(number)

    def _claim(self, directory: LateDirectory) -> None:
        directory.claim(self._id, own=self._own, force=self._force, keep_until=self._last_batch)
        self._directory = directory


def claimed_by(state: Path) -> Claimed | None:
    """The late output of the run with that state directory; None: it has none."""
    try:
        return msgspec.json.decode((state / _FILE).read_bytes(), type=Claimed)
    except (OSError, msgspec.DecodeError):
        return None


def late_output_of(
    asked: str | None, state: Path, saved: SavedState | None, *, force: bool, from_kafka: bool
) -> LateOutput | None:
    """The late output of a run that resumes from `saved`, or begins; UsageError if it does not fit that run."""
    if asked is not None:
        last = None if saved is None else saved.monitor.batch
        return LateOutput(asked, state, resumed=saved is not None, last_batch=last, force=force, from_kafka=from_kafka)
    claimed = claimed_by(state)
    if saved is not None and claimed is not None:
        raise UsageError(
            f"this run writes its late records to {claimed.directory}; give {OPTION} {claimed.directory} again"
        )
    return None
