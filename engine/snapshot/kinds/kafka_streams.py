"""The part of a snapshot that only a Kafka Streams application has: a clock for each task, and no minimum over them.

Times are epoch ms of event time, durations ms. The rule of emission: a window is emitted when its task's time reaches
its end plus grace.
"""

from collections.abc import Collection, Sequence
from typing import ClassVar, Literal, Self

from msgspec import Struct
from msgspec.structs import replace

from ..source import SourcePosition, SourceView
from ..watermark import WORST_FIRST, ChannelView, Level, Reason, Verdict, VerdictName
from .any_target import AnyTarget, JobLanguage


class WaitingWindow(Struct, frozen=True):
    """The first window of a task that waits, and the record that frees it: one in any of `channels` with that time."""

    end_ms: int
    frees_ms: int
    """The least event time that frees it: end plus grace."""
    channels: list[str]


class Reprocessed(Struct, frozen=True):
    """Records that a task processed after a restart before one was newer than its stream time before it. Its operators
    forget the stream time at a restart, so they accept records of windows that they have emitted.
    """

    since_ms: int
    """When the restart was seen (wall clock, epoch ms)."""
    time_ms: int
    """The stream time before the restart."""
    records: int
    """How many, at most."""
    channels: list[str]
    earliest_ms: int | None = None
    """The least of their event times; None: not known."""
    is_over: bool = False
    """The stream time has advanced since: what was accepted again has come out."""


class Clock(Struct, frozen=True):
    """The clock of a task: the greatest event time processed from any of its input partitions."""

    task: str | None
    """`0_1`: sub-topology and partition number; None: not known, so each partition has a clock of its own."""
    channels: list[str]
    """Its input partitions, by topic and number."""
    time_ms: int | None = None
    verdict: VerdictName = "unknown"
    age_ms: int | None = None
    """How long it has not advanced, in processing time."""
    age_at_least: bool = False
    reason: Reason = Reason("not_judged")
    downstream: bool = False
    """It reads a repartition topic: a partition without records in a source holds nothing back here."""
    has_windows: bool | None = None
    """True: the options, a store in a commit or a changelog prove that windows wait for it; False: its
    partitions never had a record; None: not known."""
    emitted_to_ms: int | None = None
    """Windows that end up to here have been emitted; None: not known without grace."""
    waiting: WaitingWindow | None = None
    """None: none waits, or not known without `--window` and `--grace`."""
    waiting_count: int | None = None
    """How many windows may have records and wait."""
    reprocessed: Reprocessed | None = None
    """None: nothing of the kind was seen; a restart before the first look is not."""


class StreamsApplication(Struct, frozen=True):
    """The application as its group and its commits show it."""

    id: str
    protocol: Literal["classic", "streams"] | None
    """The group protocol; None: not known."""
    state: str | None
    """The group's state, as the broker spells it."""
    members: int | None = None
    stores: list[str] = []
    """The window stores whose close times are in commits, and those that a changelog names."""
    suppress: bool | None = None
    """A changelog shows that results are suppressed until windows close."""
    window_ms: int | None = None
    grace_ms: int | None = None


class KafkaStreams(AnyTarget, frozen=True):
    """A Kafka Streams application, watched by its commits."""

    charts_batches: ClassVar[bool] = False
    expects_channels: ClassVar[bool] = True
    has_watermark: ClassVar[bool] = False
    news_from: ClassVar[Literal["query", "job", "source"]] = "source"
    reports_settings: ClassVar[bool] = False
    time_name: ClassVar[str] = "stream time"

    clocks: list[Clock]
    streams: StreamsApplication
    sources: list[SourcePosition] | None = None
    """The committed offsets, by topic."""

    @property
    def worst(self) -> Clock | None:
        """The clock that the verdict is about, by `badness`."""
        return min(self.clocks, key=badness, default=None)

    def with_task_verdicts(self, verdicts: Sequence[Verdict]) -> tuple[Self, Verdict | None]:
        clocks = [
            replace(clock, verdict=own.verdict, age_ms=own.age_ms, age_at_least=own.age_at_least, reason=own.reason)
            for clock, own in zip(self.clocks, verdicts, strict=True)
        ]
        pairs = zip(clocks, verdicts, strict=True)
        worst = min(pairs, key=lambda pair: badness(pair[0]), default=(None, None))[1]
        return replace(self, clocks=clocks), worst

    @property
    def target_kind(self) -> str:
        return "kafka_streams"

    @property
    def written_in(self) -> JobLanguage:
        """It is a consumer group, and has that one's lines."""
        return "flink_java"

    def own_time_ms(self, level: Level) -> int | None:
        return level.watermark_ms if self.worst is None else self.worst.time_ms

    def topics_read(
        self, source: SourceView | None, channels: Sequence[ChannelView], known: Collection[str]
    ) -> set[str]:
        """Those of its partitions; its own internal topics are within it."""
        found = {view.channel.rpartition("-")[0] for view in channels}
        own = {name for name in found if name.startswith(f"{self.streams.id}-")}
        return found - {name for name in own if name.endswith(("-repartition", "-changelog"))}


def badness(clock: Clock) -> tuple[int, bool, int]:
    """The worst clock has the least: by verdict, then one for which windows are known to wait, then the one that has
    not advanced for longest; of those that advance the one most behind.
    """
    within = (clock.time_ms or 0) if clock.verdict in ("moving", "slow") else -(clock.age_ms or 0)
    return WORST_FIRST.index(clock.verdict), not clock.has_windows, within
