"""What a source of records is: its columns, its limits, and what only some can do; and its columns as SQL."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from msgspec import Struct

from ...snapshot import Note, NoteCode, SourceView
from ...system import clock
from ...system.errors import UsageError, first_line
from ...watermarks.observation import MalformedRecord, Offender
from ...watermarks.settings import Settings
from ..tasks import TaskNeeds

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from .kafka_progress import KafkaProgress
    from .replay_time import ReplayTime

T = TypeVar("T")

CHANNEL, TIME, ARRIVAL, OFFSET, PART, MARKER, WATERMARK = (
    "channel",
    "ts",
    "arrival",
    "offset",
    "part",
    "marker",
    "source_watermark",
)
"""The canonical columns: `channel` string, never null; `ts` bigint ms, null = malformed; `arrival` bigint ms, only of a
replay, null = malformed; `offset` bigint, the row's position in its source, null where it has none; `part` bigint, the
number of the part (partition) of the source that offsets belong to, only where it has several; `marker` boolean, only
with `punctuated`; `source_watermark` bigint ms, only with `source`."""

RECORD, EXPLAINED = "record", "explained"
"""`record` struct: all columns of the source, if each row has them (a replay looks them up); `explained` array<string>:
the values of the columns of `--explain`, in their order, null if missing.
"""
EXPLAIN = "explain"
"""Prefix of the number of a column of `--explain`, if each value is a separate column."""

NO_CHANNEL = "(none)"
"""The channel of a record whose channel column is null."""
ONE_CHANNEL = "all"
"""The only channel if no channel column is given."""

_MAX_NOTES = 20


class RecordColumns(Struct, frozen=True):
    """Whether late records are kept as a whole (`--late-output`), and the columns of `--explain`."""

    whole: bool = False
    explain: tuple[str, ...] = ()


NOTHING_MORE = RecordColumns()


class Batch(NamedTuple):
    """A batch whose records are about to be read."""

    frame: "DataFrame"
    """Its part of the query's frame; where it is read as rows, these."""
    first_row: int
    """How many rows were read before."""
    ends: list[str]
    """Where it ends: offsets, a JSON text for each source of the query; with a `BatchPlanner` the number it planned."""
    begins: list[str] | None = None
    """Where it begins, as `ends`; empty: where the run starts; None: not known."""


class BatchReader(Struct, frozen=True):
    """How the records of a batch are read: as rows, or by tasks as Arrow columns."""

    frame: Any
    """The query's streaming DataFrame: the records as rows, or only their descriptions (paths, offsets) or numbers."""
    rows: "Callable[[Batch], DataFrame]" = lambda batch: batch.frame
    """The records of a batch as rows in the canonical columns."""
    shares: Callable[[Batch], list[list[Any]]] = lambda batch: []
    """The share of a batch that each task reads; empty if it has no records, or only Spark knows them."""
    read: "Callable[[Any], Iterator[pa.Table]] | None" = None
    """Run in a task (pickled): the rows of a part of a share, in the canonical columns with encoded channels; None:
    the records are read as rows.
    """


class BatchPlanner(ABC):
    """Plans batches in this process: the rows of the query's own frame are never read, they only number the batches."""

    ended: bool = False
    """Whether it plans no further batch; of a source with a known number of rows that number decides."""

    @property
    def all_read(self) -> bool:
        """Whether nothing is left to read while it plans no batch."""
        return True

    def resume(self, batch: int | None) -> None:  # noqa: B027 (rows need no more than their number)
        """Continue after that batch, the last one that was applied; None: begin. UsageError if it cannot."""

    @abstractmethod
    def plan(self, batch: int, first_row: int) -> int | None:
        """Where the batch of that number, which begins at `first_row`, ends: a number for the source's own reader.

        None: nothing to read so far.
        """


class RowPlanner(BatchPlanner):
    """Plans batches of a source whose rows have numbers."""

    @abstractmethod
    def next_end(self, first_row: int) -> int:
        """The row before which the batch that begins at `first_row` ends; `first_row`: none of its rows has come."""

    def plan(self, batch: int, first_row: int) -> int | None:
        end = self.next_end(first_row)
        return None if end == first_row else end


class SourceNotes:
    """Events that the user should know; they may come from any thread."""

    def __init__(self) -> None:
        self._notes: list[Note] = []
        self._on_note: Callable[[Note], None] = lambda note: None

    def add(self, code: NoteCode, **args: str | int | None) -> None:
        """Add a note with the present time, and pass it on."""
        note = Note(clock.now_ms(), code, args)
        self._notes = [*self._notes, note][-_MAX_NOTES:]
        self._on_note(note)

    def subscribe(self, on_note: Callable[[Note], None]) -> None:
        """Pass each note to `on_note` from now on."""
        self._on_note = on_note

    def notes(self) -> list[Note]:
        """The last notes, the oldest first."""
        return list(self._notes)


class Source(ABC):
    """A stream of records in the canonical columns; optional capabilities are None if the source lacks them."""

    ticks: bool
    """Whether the ticker emits between batches (not with `--batch-rows`, `--speed max` or `--once`)."""
    bounded: bool
    """Whether it has an end."""
    rows_in_all: int | None = None
    """The total number of rows, malformed ones included; None: not known, or not before `prepare`."""
    counted_by_spark: bool = True
    """Whether the rows that Spark counts are records."""

    clock: "ReplayTime | None" = None
    """Processing time of a source whose records carry it; None: it is the wall clock."""
    planner: BatchPlanner | None = None
    """Plans the batches; None: Spark does, and the frame's rows are the records."""
    part_name: Callable[[int], str] | None = None
    """The name of a part (column `part`); None: a record's channel shows where it is."""
    channel_of_part: Callable[[int], str] | None = None
    """The name of a part's channel, if the channels are the parts; None otherwise."""
    progress: "KafkaProgress | None" = None
    """How far it is read, and which channels it knows; None: nothing is ever unread (a replay), or it is not known."""
    balance: Callable[[Mapping[str, int | None]], None] | None = None
    """Pauses partitions that run ahead of the slowest one, given the greatest event time (ms) of each channel that is
    not idle (None: no record yet).
    """
    retry_after_s: Callable[[int, str], float | None] | None = None
    """Seconds until the query starts again after its n-th failure since its last batch, given the reason; None: it
    stays failed.
    """
    more: RecordColumns = NOTHING_MORE
    """The columns that rows have besides the canonical ones."""

    def __init__(self) -> None:
        self.notes = SourceNotes()

    @property
    def is_lost(self) -> bool:
        """Whether the source cannot be read now: what has come to it is not known."""
        return False

    @abstractmethod
    def check(self) -> None:
        """Check the input without Spark; `UsageError` with one line that says what to do."""

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """What identifies this source (JSON): a state directory belongs to one identity."""

    @abstractmethod
    def describe(self) -> SourceView:
        """The source as a screen shows it."""

    def prepare(self, report: Callable[[str], None]) -> None:  # noqa: B027 (most sources have nothing to prepare)
        """Do the slow work that needs no Spark (staging); `report` gets a short text as it proceeds."""

    def has_columns(self, spark: "SparkSession") -> bool:
        """Whether tasks can read its records as Arrow columns."""
        return False

    @abstractmethod
    def load(self, spark: "SparkSession", *, as_columns: bool) -> BatchReader:
        """How its batches are read; `as_columns`: by tasks, if it `has_columns`.

        UsageError for a `--marker` that is not a condition.
        """

    def whole(self, rows: "DataFrame", added: list[str]) -> "DataFrame":
        """Some rows of a batch with all columns of the source, and those `added` to the canonical ones (`more.whole`).

        A column of the source with such a name gives way to the added one.
        """
        kind: Any = rows.schema[RECORD].dataType
        names = [quoted(name) for name in kind.fieldNames() if name.lower() not in added]
        return rows.selectExpr(*[f"{RECORD}.{name}" for name in names], *added)

    def malformed_of(self, batch: Batch, last: Offender) -> MalformedRecord | None:
        """A record of a batch without a usable event time, given its last one; None: it cannot be looked up."""
        return None

    def in_tasks(self, spark: "SparkSession") -> TaskNeeds:
        """What the tasks of `load` need on their machines; called before it."""
        return TaskNeeds()

    @abstractmethod
    def trigger(self) -> dict[str, Any]:
        """The arguments of `DataStreamWriter.trigger`."""

    def starting(self) -> None:  # noqa: B027 (nothing for most)
        """Called when the query is about to start."""

    def close(self) -> None:  # noqa: B027 (nothing for most)
        """Release and remove what `prepare` created."""


def numbered_batches(spark: "SparkSession") -> "DataFrame":
    """The frame of a `BatchPlanner`: Spark's own source that has a new row for ever."""
    return spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()


def canonical_columns(settings: Settings, *, replay: bool, parts: bool) -> dict[str, str]:
    """The columns that a run's source has, with their Spark types."""
    columns = {CHANNEL: "string", TIME: "bigint", OFFSET: "bigint"}
    if parts:
        columns[PART] = "bigint"
    if replay:
        columns[ARRIVAL] = "bigint"
    if settings.strategy == "punctuated":
        columns[MARKER] = "boolean"
    if settings.strategy == "source":
        columns[WATERMARK] = "bigint"
    return columns


def canonical_rows(rows: "DataFrame", canonical: list[str], marker: str | None) -> "DataFrame":
    """The columns `canonical` (SQL) and whether the `marker` (if any) is true; `UsageError` if it does not fit."""
    if marker is None:
        return rows.selectExpr(*canonical)
    from pyspark.errors import AnalysisException, ParseException

    try:
        kind = rows.selectExpr(f"({marker}) as {MARKER}").schema[MARKER].dataType.typeName()
    except (AnalysisException, ParseException) as error:
        reason = first_line(error.getMessage() or error)
        raise UsageError(f"--marker: {marker!r} is not a condition on the columns: {reason}") from None
    if kind not in ("boolean", "void"):
        raise UsageError(f"--marker: {marker!r} is of type {kind}, not boolean; write it as in: kind = 'marker'")
    return rows.selectExpr(*canonical, f"coalesce(({marker}), false) as {MARKER}")


def record_sql(explained: Sequence[str], fields: Sequence[str]) -> list[str]:
    """The columns `explained` and `record` made of these values and fields (SQL); one without any is left out."""
    columns = [f"array({', '.join(explained)}) as {EXPLAINED}"] if explained else []
    return columns + ([f"struct({', '.join(fields)}) as {RECORD}"] if fields else [])


def quoted(name: str) -> str:
    """A column's name in SQL."""
    return "`" + name.replace("`", "``") + "`"


def parts_of(first: int, last: int, count: int) -> list[tuple[int, int]]:
    """The numbers `first <= n < last` in `count` parts of about the same size."""
    edges = [first + (last - first) * part // max(count, 1) for part in range(count + 1)]
    return list(pairwise(edges))


def divided(parts: list[T], tasks: int, size: Callable[[T], int]) -> list[list[T]]:
    """The parts for each of at most `tasks` tasks, of about the same size."""
    shares: list[list[T]] = [[] for _ in range(min(tasks, len(parts)))]
    sizes = [0] * len(shares)
    for part in sorted(parts, key=size, reverse=True):
        smallest = sizes.index(min(sizes))
        shares[smallest].append(part)
        sizes[smallest] += size(part)
    return shares


def text_literal(text: str) -> str:
    """`text` as an SQL string."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
