"""The kind of a snapshot's target: a run of this wmtop, or an attached one; decided here, and only here. Pure.

The words that differ are those of the presenters (`presenter.py`).
"""

from typing import Literal

from msgspec import Struct

from ...engine.snapshot import Other, Snapshot

TargetKind = Literal["run", "spark", "broker", "flink", "other"]
ChannelFacts = Literal["counted", "queued", "unread", "one clock"]
"""What is known about the channels. `counted`: their records; `queued`: also their backlog; `unread`: only their
backlog; the last one: only their event times, which Spark's one clock may have passed.
"""


class Target(Struct, frozen=True):
    """The target's kind, and its properties."""

    kind: TargetKind
    """`run`: an engine of wmtop; `spark`: an attached Spark query; `broker`: a topic or a consumer group; `flink`: an
    attached Flink job; `other`: a plug-in's target."""
    one_clock: bool
    """Spark's rule: the fastest channel sets the watermark, so no channel holds it back."""
    channel_facts: ChannelFacts
    channels_known: bool
    """Whether channels are known, or will be with the first record; else only the query's watermark is."""

    @property
    def is_attached(self) -> bool:
        """Whether another program runs it: its settings cannot be changed from here, and much is not known."""
        return self.kind != "run"

    @property
    def counts_late(self) -> bool:
        """Whether each record is known to be late or on time."""
        return not self.is_attached


def several_inputs(snapshot: Snapshot) -> bool:
    """Whether an attached Spark query has several watermarks: then not its fastest channel sets the query's own, but
    the lowest or the highest of them.
    """
    return len(snapshot.spark.nodes or ()) > 1


def target_of(snapshot: Snapshot) -> Target:
    """What the snapshot is of."""
    if isinstance(snapshot.other, Other):
        return Target("other", one_clock=False, channel_facts="unread", channels_known=bool(snapshot.channels))
    one_clock = snapshot.settings.strategy == "spark"
    if snapshot.origin is None:
        queued = snapshot.source is not None and snapshot.source.kind == "kafka"
        return Target("run", one_clock, "queued" if queued else "counted", channels_known=True)
    if snapshot.origin.get("level") == "flink":
        return Target("flink", one_clock=False, channel_facts="unread", channels_known=True)
    facts: ChannelFacts = "one clock" if snapshot.barrel is not None else "unread"
    return Target("spark" if one_clock else "broker", one_clock, facts, channels_known=bool(snapshot.channels))
