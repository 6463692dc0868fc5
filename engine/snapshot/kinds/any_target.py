"""What every kind of target can be asked: the base of the parts of a snapshot that only one kind has."""

from collections.abc import Collection, Sequence
from typing import ClassVar, Literal, Self

from msgspec import Struct

from ..source import SourcePosition, SourceView
from ..watermark import ChannelView, Level, Verdict

JobLanguage = Literal["spark", "flink_java", "flink_sql"]
"""What a job is written in, as far as the lines that set its watermark differ."""


class Load(Struct, frozen=True):
    """How much a target reads and does now; None: not reported."""

    read_per_second: float | None = None
    """Records per second (wall clock) that arrive."""
    sent_per_second: float | None = None
    """Records per second that the operator sends whose watermark is shown."""
    busy: float | None = None
    """Share of time that its busiest subtask is busy."""
    back_pressured: float | None = None
    """Share of time that its most back-pressured subtask waits for others to take its records."""


class AnyTarget(Struct, frozen=True):
    """What only one kind of target has, and its abilities: shared code asks what a target can, never which kind it is.

    The answers here are those of a target that another program runs and of which little is known; a kind overrides what
    it knows better.
    """

    can_apply: ClassVar[bool] = False
    """Whether its settings can be changed from here while it runs; else a line for the job is given."""
    charts_batches: ClassVar[bool] = True
    """Whether its progress is that of batches."""
    counts_late: ClassVar[bool] = False
    """Whether each record is known to be late or on time."""
    expects_channels: ClassVar[bool] = False
    """Whether channels come with the first record; else perhaps only the watermark of the whole is known."""
    fires_windows: ClassVar[bool] = False
    """Whether a window that closes is emitted then; else that depends on the output mode."""
    has_hops: ClassVar[bool] = False
    """Whether it consists of hops, each with an event time of its own, instead of channels."""
    has_reader: ClassVar[bool] = True
    """Whether something reads it, which may be behind; else nothing of it is unread."""
    has_tasks: ClassVar[bool] = False
    """Whether its tasks are known, each with its watermark and its load: they show where event time is lost."""
    has_watermark: ClassVar[bool] = True
    """Whether there is a watermark of the whole, with which channels are compared; else each has a time of its own."""
    hides_writes: ClassVar[bool] = False
    """Whether it may write topics that it does not report."""
    is_own: ClassVar[bool] = False
    """Whether it is an engine of wmtop, which runs with what is installed here."""
    logs_changes: ClassVar[bool] = False
    """Whether it reports each change of its settings; else a change shows only in the settings themselves."""
    news_from: ClassVar[Literal["query", "job", "source"]] = "query"
    """What does not answer if nothing newer comes: a query, the manager of its job, or the source that is read here."""
    notes_by_time: ClassVar[bool] = False
    """Whether its notes are in the order in which they happened; else the first matters most."""
    previews_any_value: ClassVar[bool] = False
    """Whether any value of a setting can be previewed without a what-if, since a line for the job can be given."""
    reports_drops: ClassVar[bool] = False
    """Whether it always reports what it dropped as late."""
    reports_settings: ClassVar[bool] = True
    """Whether its settings are known as far as they are set."""
    samples_records: ClassVar[bool] = False
    """Whether its snapshots have a sample of its records."""
    shows_event_times: ClassVar[bool] = True
    """Whether the event times of its records may be known; else a channel's watermark, which is behind them, is all."""
    time_name: ClassVar[str] = "watermark"
    """What a channel's time is called."""

    @property
    def target_kind(self) -> str:
        """The name of the kind in JSON: one of `TargetKind`, or a plug-in's own."""
        raise NotImplementedError

    @property
    def written_in(self) -> JobLanguage | None:
        """What its job is, or may be, written in; None: there is no job, or not known."""
        return None

    @property
    def reported_now_ms(self) -> int | None:
        """The clock of the machine that runs it (epoch ms) at the snapshot's time; None: it reports none."""
        return None

    @property
    def topics_written(self) -> list[str]:
        """The topics that it shows that it writes, as names or as `kafka://broker:9092/orders`."""
        return []

    @property
    def names_of_others(self) -> list[str]:
        """The names of topics and targets in it, which are to a reader what the names of channels are."""
        return []

    def with_task_verdicts(self, verdicts: Sequence[Verdict]) -> tuple[Self, Verdict | None]:
        """With a verdict on each of its tasks, in their order, and the worst of them; None: there is none."""
        return self, None

    def own_time_ms(self, level: Level) -> int | None:
        """The time (epoch ms) that its windows wait for; `level`: the snapshot's watermark."""
        return level.watermark_ms

    def lost_ms(self, level: Level) -> int | None:
        """How much event time (ms) is lost in it: between its fastest channel and its watermark."""
        return level.behind_fastest_ms

    def load(self, *, is_stale: bool) -> Load:
        """How much it reads and does; `is_stale`: nothing newer comes, so rates of the last moment are not known."""
        return Load()

    def topics_read(
        self, source: SourceView | None, channels: Sequence[ChannelView], known: Collection[str]
    ) -> set[str]:
        """The topics that it shows itself that it reads; `known` are those of its cluster that are known by name."""
        return set()


def topics_of(sources: Sequence[SourcePosition] | None) -> set[str]:
    """The topics of positions like `orders/3`."""
    offsets = [source.offsets for source in sources or () if isinstance(source.offsets, dict)]
    return {place.rpartition("/")[0] for places in offsets for place in places}
