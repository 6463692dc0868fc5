"""Optional capabilities of a source: it has each one, or None in its place, and the engine checks for it."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ...snapshot import Note
from ...watermarks.channels import Unread

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


class Batch(NamedTuple):
    """A batch whose records are about to be read."""

    frame: "DataFrame"
    """Its part of the query's frame, or its rows, where a `BatchPlanner` made them."""
    first_row: int
    """How many rows were read before."""
    ends: list[str]
    """Where it ends (`Backlog.applied`); with a `BatchPlanner` the row before which it ends."""
    begins: list[str] | None = None
    """Where it begins, as `ends`; empty: where the run starts; None: not known."""
    log: Path | None = None
    """The directory of Spark's log of the query's one source, if it keeps one."""


class ColumnReader(Protocol):
    """A columnar way to the records: the query's frame only describes them, and tasks read them as Arrow columns."""

    @property
    def frame(self) -> "DataFrame":
        """The streaming DataFrame of descriptions."""
        ...

    def shares(self, batch: Batch) -> list[list[Any]]:
        """The share of a batch that each task reads."""
        ...

    @property
    def read(self) -> "Callable[[Any], Iterator[pa.Table]]":
        """Run in a task (pickled): the rows of a part of a share, in the canonical columns with encoded channels.

        NotReadableError if only Spark's reader can read them.
        """
        ...

    @property
    def explained(self) -> "Callable[[Any], Iterator[pa.Table]] | None":
        """As `read`, with the values of `--explain` (`record_columns.EXPLAIN`); None if only rows have them."""
        ...

    def rows(self, batch: Batch) -> "DataFrame":
        """The same records as rows with the columns of `Source.load`."""
        ...


class BatchPlanner(Protocol):
    """Plans batches in this process: the rows of the query's own frame are never read, they only number the batches."""

    def next_end(self, first_row: int) -> int:
        """The row before which the batch that begins at `first_row` ends; `first_row`: none of its rows has come."""
        ...

    def rows(self, spark: "SparkSession", first_row: int, last_row: int) -> "DataFrame":
        """The rows `first_row <= row < last_row` in the canonical columns."""
        ...


class ProcessingClock(Protocol):
    """Processing time of a source whose records carry it (a replay); without this capability it is the wall clock."""

    def resume(self, rows_read: int, now_ms: int | None = None) -> None:
        """Continue after `rows_read` rows, at `now_ms` (epoch ms) if known: downtime is paused time."""
        ...

    def now_ms(self) -> int:
        """Processing time now (epoch ms)."""
        ...

    def tick_limit_ms(self, rows_read: int) -> int | None:
        """Ticks must stay below this time (epoch ms): the arrival of the next unread row; None: no limit."""
        ...


class KnownChannels(Protocol):
    """Channels that a source knows before their first record, because they are its partitions."""

    def channels(self) -> list[str]:
        """The present channels; called again while the query runs."""
        ...


class LeavingChannels(Protocol):
    """Channels that send nothing more while the stream continues; checked around each batch and between batches."""

    def gone_channels(self) -> list[str]:
        """Channels whose partition no longer exists (named again each time), or was recreated (named once).

        `KnownChannels` omits the former; it includes the latter, which come back as new channels.
        """
        ...

    def finished_channels(self, latest: list[str]) -> list[str]:
        """Channels of a bounded source that are read to their end; never all of them, since that is the end of the
        stream.

        `latest` is Spark's last report of the offsets at which the query ends, one JSON text for each source; empty
        before its first report.
        """
        ...


class Backlog(Protocol):
    """Records that are not read yet."""

    def resumed(self, ends: list[str]) -> None:
        """Note that the query continues after these offsets, one JSON text for each source of the query."""
        ...

    def applied(self, ends: list[str]) -> None:
        """Note that a batch that ends at these offsets was applied."""
        ...

    def unread_after(self, ends: list[str], time_ms: int) -> Unread | None:
        """The records that existed at `time_ms` (epoch ms) and that a batch ending at these offsets left unread."""
        ...

    def unread(self) -> Unread:
        """The unread records now."""
        ...


class Balancer(Protocol):
    """Pauses partitions that run ahead of the slowest one."""

    def balance(self, max_event_ms: Mapping[str, int | None]) -> None:
        """Take the greatest event time (ms) of each channel that is not idle; None: no record yet."""
        ...


class NoteLog(Protocol):
    """Events of a source that its user should know."""

    def tell(self, on_note: Callable[[Note], None]) -> None:
        """Pass each note to `on_note` from now on."""
        ...

    def notes(self) -> list[Note]:
        """The last notes, the oldest first."""
        ...


class Retries(Protocol):
    """Whether a failed query is worth another start."""

    def retry_after_s(self, failures: int, why: str) -> float | None:
        """Seconds until the query starts again after its n-th failure since its last batch; None: it stays failed."""
        ...
