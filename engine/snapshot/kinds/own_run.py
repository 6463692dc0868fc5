"""The part of a snapshot that only an own run has: an engine of wmtop."""

from collections.abc import Collection, Sequence
from typing import ClassVar, Literal

from msgspec import Struct, field

from ...watermarks.explain import ExplainedColumn
from ...watermarks.settings import SettingsChange
from ..source import SourceView
from ..spark_progress import SparkProgress
from ..watermark import ChannelView
from .any_target import AnyTarget, Load


class LateRecord(Struct, frozen=True):
    """A dropped record as in the late output: its batch, and the columns `wmtop_*` (ms).

    `watermark_ms` and `late_by_ms` are None after the end of the stream, `window_end_ms` between windows. `topic`,
    `partition` and `offset` are known only for a record from Kafka.
    """

    batch: int
    channel: str
    time_ms: int
    watermark_ms: int | None = None
    window_end_ms: int | None = None
    late_by_ms: int | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None


class OwnRun(AnyTarget, frozen=True):
    """An engine of wmtop: its records are counted, and its settings can be changed."""

    can_apply: ClassVar[bool] = True
    counts_late: ClassVar[bool] = True
    expects_channels: ClassVar[bool] = True
    fires_windows: ClassVar[bool] = True
    is_own: ClassVar[bool] = True
    logs_changes: ClassVar[bool] = True
    news_from: ClassVar[Literal["query", "job", "source"]] = "source"
    notes_by_time: ClassVar[bool] = True
    samples_records: ClassVar[bool] = True

    spark: SparkProgress = SparkProgress()
    changes: list[SettingsChange] = field(default_factory=list[SettingsChange])
    """The latest changes of settings while running, oldest first."""
    explain: list[ExplainedColumn] | None = None
    """Late records by the values of the `--explain` columns; None: not asked for, or not known."""
    late_output: str | None = None
    """The directory or URI of `--late-output`; None: late records are not kept, or not known."""
    late_sample: list[LateRecord] | None = None
    """At most 20 of the records in it, the newest batch first, in a batch the most late first; None: not known."""

    @property
    def target_kind(self) -> str:
        return "own"

    def load(self, *, is_stale: bool) -> Load:
        """That of its last batch, which stays what it was."""
        return Load(read_per_second=self.spark.input_rows_per_second)

    def topics_read(
        self, source: SourceView | None, channels: Sequence[ChannelView], known: Collection[str]
    ) -> set[str]:
        return set() if source is None else source.topics
