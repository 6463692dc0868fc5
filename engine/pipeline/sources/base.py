"""What the query needs of a source: canonical columns, a clock, and an end where there is one."""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ...core.settings import Settings
from ...core.snapshot import SourceView
from ...core.unread import Unread

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
"""The only channel where no channel column is given."""


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


class Source(Protocol):
    """A stream of records in the canonical columns."""

    @property
    def ticks(self) -> bool:
        """Whether the ticker emits between batches (not with `--batch-rows` or `--speed max`)."""
        ...

    @property
    def live(self) -> bool:
        """Whether processing time is the wall clock (else it is what the records say: a replay)."""
        ...

    counted_by_spark: bool
    """Whether the rows that Spark counts are records."""

    @property
    def bounded(self) -> bool:
        """Whether it has an end: `rows_in_all` is known."""
        ...

    @property
    def rows_in_all(self) -> int | None:
        """How many rows there will be, malformed ones included; None without an end. Known after `prepare`."""
        ...

    def check(self) -> None:
        """Look at the input without Spark; raises `UsageError` with one line that says what to do."""
        ...

    def identity(self) -> dict[str, Any]:
        """What makes it this source and no other (JSON): a state directory belongs to one identity."""
        ...

    def describe(self) -> SourceView:
        """What a screen says of it."""
        ...

    def prepare(self, report: Callable[[str], None]) -> None:
        """Do the slow work that needs no Spark (staging); `report` gets a short text as it goes."""
        ...

    def load(self, spark: "SparkSession") -> "DataFrame":
        """The streaming DataFrame in the canonical columns."""
        ...

    def trigger(self) -> dict[str, Any]:
        """The arguments of `DataStreamWriter.trigger`."""
        ...

    def resume(self, rows_read: int, now_ms: int | None = None) -> None:
        """Go on after `rows_read` rows: a replay clock continues there (downtime is paused time), or at `now_ms`."""
        ...

    def now_ms(self) -> int:
        """Processing time now (epoch ms): the wall clock, or the replay clock."""
        ...

    def tick_limit_ms(self, rows_read: int) -> int | None:
        """Ticks must stay below this time: the arrival of the next row not yet read (replay); None: no limit."""
        ...

    def close(self) -> None:
        """Remove what `prepare` made."""
        ...

    def tell(self, say: Callable[[str], None]) -> None:
        """From now on `say` gets each of the `notes` as it comes."""
        ...

    def channels(self) -> list[str]:
        """The channels that are known before their first record; asked again while the query runs."""
        ...

    def part_name(self, part: int) -> str | None:
        """What a part (column `part`) is called; None for a source without parts."""
        ...

    def resumed(self, ends: list[str]) -> None:
        """The query goes on after these offsets, a JSON text a source of the query."""
        ...

    def applied(self, ends: list[str]) -> None:
        """A batch was applied, up to these offsets."""
        ...

    def left_by(self, ends: list[str], time_ms: int) -> Unread | None:
        """What a batch that ends at these offsets left unread of what was there at its time (epoch ms)."""
        ...

    def balance(self, max_event_ms: Mapping[str, int | None]) -> None:
        """After a batch and between batches: how far (ms) each channel that is not idle has come; None: no record."""
        ...

    def unread(self) -> Unread | None:
        """What is not read yet; None: nothing ever is (a replay), or it is not known (files)."""
        ...

    def notes(self) -> list[str]:
        """What happened to the source that its user should know, a line each, the oldest first."""
        ...

    def retry_after_s(self, failures: int, why: str) -> float | None:
        """In how many seconds to start the query again that failed, the n-th time since its last batch; None: not."""
        ...


class PlainSource:
    """What a source says of parts, unread records and trouble where it knows nothing of them."""

    counted_by_spark = True

    def channels(self) -> list[str]:
        """None known before their first record."""
        return []

    def part_name(self, part: int) -> str | None:
        """There are no parts."""
        return None

    def tell(self, say: Callable[[str], None]) -> None:
        """There are no notes."""

    def resumed(self, ends: list[str]) -> None:
        """Nothing to note."""

    def applied(self, ends: list[str]) -> None:
        """Nothing to note."""

    def left_by(self, ends: list[str], time_ms: int) -> Unread | None:
        """Nothing, or not known."""
        return None

    def balance(self, max_event_ms: Mapping[str, int | None]) -> None:
        """Nobody is held back."""

    def unread(self) -> Unread | None:
        """Nothing, or not known."""
        return None

    def notes(self) -> list[str]:
        """None."""
        return []

    def retry_after_s(self, failures: int, why: str) -> float | None:
        """A query that failed stays failed."""
        return None


class LiveSource(PlainSource):
    """A source whose processing time is the wall clock, and whose place Spark's checkpoint knows."""

    live = True

    def prepare(self, report: Callable[[str], None]) -> None:
        """Nothing to stage."""

    def resume(self, rows_read: int, now_ms: int | None = None) -> None:
        """Spark's checkpoint knows where to go on."""

    def now_ms(self) -> int:
        """The wall clock (epoch ms)."""
        return time.time_ns() // 1_000_000

    def tick_limit_ms(self, rows_read: int) -> int | None:
        """No limit."""
        return None

    def close(self) -> None:
        """Nothing was made."""
