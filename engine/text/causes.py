"""The words for what holds back the watermark and for the states of channels: one table each, used by every surface."""

from msgspec import Struct
from msgspec.structs import replace

from ..snapshot import Cause, ChannelState


class CauseWords(Struct, frozen=True):
    """The words for a cause; names in braces stand for the numbers of a case."""

    short: str
    """What it is, for lists and events."""
    one: str
    """What a channel does, for the verdict."""
    several: str
    """What several channels do."""
    sentence: str
    """The cause with its numbers, after "held back by F9:"."""
    ends_with: str = "newer records from it"
    """What ends it."""


class StateWords(Struct, frozen=True):
    """The words for the state of a channel."""

    short: str
    sentence: str
    """After the channel's name; names in braces stand for numbers."""


CAUSES: dict[Cause, CauseWords] = {
    "quiet": CauseWords("no data", "has no data", "have no data", "no data{quiet}{all_read}"),
    "never_seen": CauseWords("never seen", "has never had data", "have never had data", "no record since the start"),
    "backlog": CauseWords("backlog", "has a backlog", "have a backlog", "backlog{backlog}{lag}", "reading its backlog"),
    "behind": CauseWords("lagging", "is lagging", "are lagging", "lagging: {behind} behind in event time"),
    "future_elsewhere": CauseWords(
        "future timestamp elsewhere",
        "waits: a future timestamp elsewhere",
        "wait: a future timestamp elsewhere",
        "future timestamps: {fastest} is {behind} ahead of the others",
        "nothing here: look at the channel with the future timestamp (--future-guard)",
    ),
    "slow_clock": CauseWords(
        "slow clock",
        "is ahead of the clock",
        "are ahead of the clock",
        "slow clock: all timestamps are ahead of the clock here",
        "a correct clock: all timestamps are ahead of the one here",
    ),
    "held_back": CauseWords(
        "paused by --max-drift",
        "is paused by --max-drift",
        "are paused by --max-drift",
        "paused by --max-drift until slower partitions catch up",
        "the slower partitions catching up (--max-drift)",
    ),
    "paused": CauseWords("source paused", "is paused", "are paused", "the source is paused", "resuming the source"),
    "in_flight": CauseWords(
        "records in a busy operator",
        "waits in a busy operator",
        "wait in a busy operator",
        "its records are still in a busy operator",
        "the busy operator finishing its records",
    ),
    "back_pressured": CauseWords(
        "source back-pressured",
        "is back-pressured",
        "are back-pressured",
        "its source is back-pressured{busy_after}",
        "the busy operator behind it: more parallelism, or less work for each record",
    ),
    "slow_reader": CauseWords(
        "source reads at full speed",
        "is read too slowly",
        "are read too slowly",
        "its source is busy all the time: it reads as fast as it can",
        "reading faster: more source subtasks, or less work in them",
    ),
    "stuck": CauseWords("watermark does not move", "does not advance", "do not advance", "its watermark {stuck}"),
    "kept_back": CauseWords(
        "a task keeps its watermark back",
        "keeps its watermark back",
        "keep their watermarks back",
        "{kept_back}",
        "the task: what its operators wait for (async I/O, a watermark of their own)",
    ),
    "no_watermark": CauseWords(
        "source sends no watermark",
        "sends no watermark",
        "send no watermark",
        "records come, but its source sends no watermark: is a watermark strategy set?",
        "a watermark strategy for the source, or after it, in the job",
    ),
    "no_split": CauseWords(
        "no split to read",
        "has no split to read",
        "have no split to read",
        "it has no split to read: its source has more subtasks than splits",
        "as many source subtasks as splits at most, or an idle timeout in the job",
    ),
}
FLINK_CAUSES: dict[Cause, CauseWords] = {
    **CAUSES,
    "paused": replace(
        CAUSES["paused"],
        sentence="paused by watermark alignment",
        ends_with="the slower sources catching up (watermark alignment)",
    ),
    "in_flight": replace(CAUSES["in_flight"], sentence="no channel holds it back: records wait before a busy operator"),
}
"""The same for a Flink job."""

CHANNEL_STATES: dict[ChannelState, StateWords] = {
    "active": StateWords("active", "is active"),
    "idle": StateWords("idle", "is idle{quiet}: it is left out of the minimum until its next record"),
    "catching_up": StateWords(
        "realigning", "was idle and is realigning{behind}: it counts again once it reaches the watermark"
    ),
    "never_seen": StateWords("never seen", "was never seen: no record since the start"),
    "finished": StateWords("finished", "is finished: no more records will come"),
}
