"""What the query needs of a source: canonical columns, a clock, and an end where there is one."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ...core.settings import Settings
from ...core.snapshot import SourceView

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHANNEL, TIME, ARRIVAL, OFFSET, MARKER, WATERMARK = ("channel", "ts", "arrival", "offset", "marker", "source_watermark")
"""The canonical columns: `channel` string, never null; `ts` bigint ms, null = malformed; `arrival` bigint ms, only of a
replay, null = malformed; `offset` bigint, the row's position in its source, null where it has none; `marker` boolean,
only with `punctuated`; `source_watermark` bigint ms, only with `source`."""

NO_CHANNEL = "(none)"
"""The channel of a record whose channel column is null."""
ONE_CHANNEL = "all"
"""The only channel where no channel column is given."""


def canonical_columns(settings: Settings, *, replay: bool) -> dict[str, str]:
    """The columns that a run's source has, with their Spark types."""
    columns = {CHANNEL: "string", TIME: "bigint", OFFSET: "bigint"}
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
