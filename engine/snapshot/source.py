"""Where the records of a target come from, and how far its sources are read."""

from msgspec import UNSET, Struct, UnsetType


class SourceView(Struct, frozen=True):
    """Where the records come from: `kind` is replay, files, rate or kafka; attached: checkpoint, topic or group."""

    kind: str
    description: str
    speed: float | None = None
    """Replay: seconds of arrival time per second; `None`: a live source, or as fast as possible."""
    reader: str | None = None
    rows: int | None = None
    """The total number of rows, if the source has an end."""
    rows_read: int | None = None
    time_column: str | None = None
    time_unit: str | None = None
    """The format of event times: `epoch ms`, `ISO 8601`; `(recognised)` if no option sets it."""
    max_drift_ms: int | None = None
    """Kafka: how far a partition may run ahead of the slowest (balanced reading)."""
    backlog: int | None = None
    """Unread records of all channels."""
    drift_ms: int | None = None
    """How far the fastest partition that is not idle is ahead of the slowest, by event time read."""
    drift_unbalanced_ms: int | None = None
    """The same if all available records had been read."""
    bootstrap: str | None = None
    """Kafka: the addresses of the cluster, as given."""
    cluster: str | UnsetType = UNSET
    """Kafka: the id that the cluster gives itself."""

    @property
    def is_replay(self) -> bool:
        """Whether recorded records come at the times at which they once came: the clock is that of the records."""
        return self.kind == "replay"

    @property
    def has_end(self) -> bool:
        """Whether its end is known."""
        return self.is_replay or self.rows is not None

    @property
    def could_balance(self) -> bool:
        """Whether its partitions could be read in balance (`--max-drift`), and are not."""
        return self.kind == "kafka" and self.max_drift_ms is None

    @property
    def topics(self) -> set[str]:
        """The topics that an own run reads."""
        return (
            set(self.description.removesuffix(f" at {self.bootstrap}").split(", ")) if self.kind == "kafka" else set()
        )


class SourcePosition(Struct, frozen=True):
    """A source of an attached query: its position, and its unread records."""

    description: str
    offsets: dict[str, int] | int | str | None
    backlog: int | None = None
    batches_unmoved: int | None = None
    """Batches of `SparkProgress.batches_unmoved` with new input from this source; None: not known."""
