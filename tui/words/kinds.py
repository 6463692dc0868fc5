"""The short words in which kinds of target differ, one table; `presenter.py` has the texts of whole parts. Pure."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from ...engine.snapshot import (
    Cause,
    ConsumerGroup,
    FlinkJob,
    KafkaTopic,
    Other,
    OwnRun,
    Snapshot,
    SparkQuery,
    TargetPart,
)
from ...engine.text import formatting as f
from ...engine.text.causes import CAUSES, FLINK_CAUSES, CauseWords

ChannelFacts = Literal["counted", "queued", "unread", "one clock"]
"""What is known about the channels. `counted`: their records; `queued`: also their backlog; `unread`: only their
backlog; the last one: only their event times, which Spark's one clock may have passed.
"""


class KindWords(Struct, frozen=True, kw_only=True):
    """The words and abilities of one kind of target; the defaults are those of an attached one."""

    counts_late: bool = False
    """Whether each record is known to be late or on time."""
    reports_drops: bool = False
    """Whether it always reports what it dropped as late."""
    late_name: str = "dropped as late"
    shows_settings: bool = True
    previews_any_value: bool = False
    """Whether keys choose values without a what-if, since a line for the job can be given."""
    expects_channels: bool = False
    """Whether channels come with the first record; else perhaps only the query's watermark is known."""
    causes: Mapping[Cause, CauseWords] = field(default_factory=lambda: CAUSES)
    """The words for what holds back the watermark."""
    paused_by: str = "--max-drift"
    without_timeout: str = "a record, or an idle timeout (none is set)"
    charts_batches: bool = True
    """Whether its progress is that of batches."""
    not_explained: str = (
        "Which values late records have is known of runs with --explain COL,… only; replay the data in one"
    )


_KINDS: dict[type[TargetPart], KindWords] = {
    OwnRun: KindWords(
        counts_late=True,
        late_name="late records",
        expects_channels=True,
        not_explained="Start the engine with --explain COL,… (up to ten columns) to see which values late records have",
    ),
    SparkQuery: KindWords(),
    FlinkJob: KindWords(
        shows_settings=False,
        reports_drops=True,
        previews_any_value=True,
        expects_channels=True,
        causes=FLINK_CAUSES,
        paused_by="watermark alignment",
        without_timeout="a record, or an idle timeout in the job",
        charts_batches=False,
    ),
    KafkaTopic: KindWords(),
    ConsumerGroup: KindWords(),
    Other: KindWords(),
}


def kind_words(snapshot: Snapshot) -> KindWords:
    """The words of the snapshot's kind of target."""
    return _KINDS[type(snapshot.target)]


def channels_known(snapshot: Snapshot) -> bool:
    """Whether channels are known, or will be with the first record; else only the query's watermark is."""
    return bool(snapshot.channels) or kind_words(snapshot).expects_channels


def channel_facts(snapshot: Snapshot) -> ChannelFacts:
    """What is known about the channels."""
    match snapshot.target:
        case OwnRun():
            return "queued" if snapshot.source is not None and snapshot.source.kind == "kafka" else "counted"
        case SparkQuery(barrel=barrel) if barrel is not None:
            return "one clock"
        case _:
            return "unread"


def end_words(snapshot: Snapshot) -> str:
    """What the end means: a run of our own fires all that is open; an attached query that was stopped keeps it."""
    match snapshot.target:
        case OwnRun():
            return "the stream has ended, all windows closed"
        case FlinkJob(state=state):
            return f"the job is {state}"
        case _:
            still = snapshot.windows.open_count
            return "the query was stopped" + (f", open windows: {f.count(still)}" if still else "")
