"""What a source of records is: its columns, its limits, its progress, the notes it reports."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from ...snapshot import Note, NoteCode, SourceView
from ...system.errors import UsageError, first_line
from ...watermarks.settings import Settings
from ..cluster import TaskNeeds
from .capabilities import (
    Backlog,
    Balancer,
    BatchPlanner,
    ColumnReader,
    KnownChannels,
    LeavingChannels,
    NoteLog,
    ProcessingClock,
    Retries,
)

T = TypeVar("T")


def divided(parts: list[T], tasks: int, size: Callable[[T], int]) -> list[list[T]]:
    """The parts for each of at most `tasks` tasks, of about the same size."""
    shares: list[list[T]] = [[] for _ in range(min(tasks, len(parts)))]
    sizes = [0] * len(shares)
    for part in sorted(parts, key=size, reverse=True):
        least = sizes.index(min(sizes))
        shares[least].append(part)
        sizes[least] += size(part)
    return shares


_KEPT = 20


class SourceNotes:
    """A `NoteLog`; notes may come from any thread."""

    def __init__(self) -> None:
        self._notes: list[Note] = []
        self._on_note: Callable[[Note], None] = lambda note: None

    def add(self, code: NoteCode, **args: str | int | None) -> None:
        """Add a note with the present time, and pass it on."""
        note = Note(time.time_ns() // 1_000_000, code, args)
        self._notes = [*self._notes, note][-_KEPT:]
        self._on_note(note)

    def tell(self, on_note: Callable[[Note], None]) -> None:
        """Pass each note to `on_note` from now on."""
        self._on_note = on_note

    def notes(self) -> list[Note]:
        """The last notes, the oldest first."""
        return list(self._notes)


RECORD, EXPLAINED = "record", "explained"
"""`record` struct: all columns of the source, if each row has them (a replay looks them up); `explained` array<string>:
the values of the columns of `--explain`, in their order, null if missing.
"""

EXPLAIN = "explain"
"""Prefix of the number of a column of `--explain`, if each value is a separate column."""


class RecordColumns(Struct, frozen=True):
    """Whether late records are kept as a whole (`--late-output`), and the columns of `--explain`."""

    whole: bool = False
    explain: tuple[str, ...] = ()


NOTHING_MORE = RecordColumns()


if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def marked(rows: "DataFrame", condition: str, canonical: list[str], name: str) -> "DataFrame":
    """`canonical` (SQL) and, as `name`, whether `condition` is true; `UsageError` if it does not fit `rows`."""
    from pyspark.errors import AnalysisException, ParseException

    try:
        kind = rows.selectExpr(f"({condition}) as {name}").schema[name].dataType.typeName()
    except (AnalysisException, ParseException) as error:
        reason = first_line(error.getMessage() or error)
        raise UsageError(f"--marker: {condition!r} is not a condition on the columns: {reason}") from None
    if kind not in ("boolean", "void"):
        raise UsageError(f"--marker: {condition!r} is of type {kind}, not boolean; write it as in: kind = 'marker'")
    return rows.selectExpr(*canonical, f"coalesce(({condition}), false) as {name}")


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

NO_CHANNEL = "(none)"
"""The channel of a record whose channel column is null."""
ONE_CHANNEL = "all"
"""The only channel if no channel column is given."""


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

    clock: ProcessingClock | None = None
    """Processing time; None: it is the wall clock."""
    known_channels: KnownChannels | None = None
    leaving_channels: LeavingChannels | None = None
    planner: BatchPlanner | None = None
    """Plans the batches; None: Spark does, and the frame's rows are the records."""
    part_name: Callable[[int], str] | None = None
    """The name of a part (column `part`); None: a record's channel shows where it is."""
    channel_of_part: Callable[[int], str] | None = None
    """The name of a part's channel, if the channels are the parts; None otherwise."""
    backlog: Backlog | None = None
    """The unread records; None: there never are any (a replay), or they are not known (files)."""
    balancer: Balancer | None = None
    journal: NoteLog | None = None
    retries: Retries | None = None
    more: RecordColumns = NOTHING_MORE
    """The columns that `load` adds to the canonical ones."""

    @abstractmethod
    def check(self) -> None:
        """Check the input without Spark; `UsageError` with one line that says what to do."""

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """What identifies this source (JSON): a state directory belongs to one identity."""

    @abstractmethod
    def describe(self) -> SourceView:
        """The source as a screen shows it."""

    def pace(self) -> float | None:
        """Processing time over wall time; None: only records move it. What the source is fed at does not count."""
        if self.clock is None:
            return 1
        return self.describe().speed or 1 if self.ticks else None

    def prepare(self, report: Callable[[str], None]) -> None:  # noqa: B027 (most sources have nothing to prepare)
        """Do the slow work that needs no Spark (staging); `report` gets a short text as it proceeds."""

    @abstractmethod
    def load(self, spark: "SparkSession") -> "DataFrame":
        """The streaming DataFrame, in the canonical columns unless a `planner` makes them."""

    def columns_of(self, spark: "SparkSession") -> ColumnReader | None:
        """The columnar way to the same records, used instead of `load`; None if there is none."""
        return None

    def whole(self, rows: "DataFrame", added: list[str]) -> "DataFrame":
        """Some rows of a batch with all columns of the source, and those `added` to the canonical ones (`more.whole`).

        A column of the source with such a name gives way to the added one.
        """
        return rows.selectExpr(*[f"{RECORD}.{name}" for name in record_fields(rows, added)], *added)

    def in_tasks(self, spark: "SparkSession") -> TaskNeeds:
        """What the tasks of `load` and `columns_of` need on their machines; called before either."""
        return TaskNeeds()

    @abstractmethod
    def trigger(self) -> dict[str, Any]:
        """The arguments of `DataStreamWriter.trigger`."""

    def starting(self) -> None:  # noqa: B027 (nothing for most)
        """Called when the query is about to start."""

    def close(self) -> None:  # noqa: B027 (nothing for most)
        """Release and remove what `prepare` created."""


def record_fields(rows: "DataFrame", added: list[str]) -> list[str]:
    """The fields of the column `record`, quoted, without those in `added`."""
    kind: Any = rows.schema[RECORD].dataType
    names: list[str] = kind.fieldNames()
    return ["`" + name.replace("`", "``") + "`" for name in names if name.lower() not in added]
