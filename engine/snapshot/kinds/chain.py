"""The chain of a pipeline: topics and jobs, and where event time is lost between them; times epoch ms, losses ms."""

from typing import ClassVar, Literal

from msgspec import Struct

from ..watermark import Cause, Level, Verdict, VerdictName
from .any_target import AnyTarget

HopKind = Literal["topic", "job"]
Edge = Literal["reported", "configured", "guessed"]


class Hop(Struct, frozen=True, kw_only=True):
    """A topic or job in the chain: `inputs` are numbers of hops, `edge` how the way to them is known."""

    kind: HopKind
    name: str
    """A topic that several clusters have is called `orders at broker:9092`."""
    target: str | None
    """The target that reports it; None: a topic that no target watches."""
    partition: str | None = None
    """The partition of a topic's newest record."""
    event_ms: int | None = None
    """A topic's newest event time, in `partition`."""
    watermark_ms: int | None = None
    loss_ms: int | None = None
    """None: not known, or it has no input."""
    includes: list[int] = []
    """The hops before it whose own loss is not known and in this one."""
    cause: Cause | None = None
    channel: str | None = None
    """The channel that holds back a job's watermark, for this cause."""
    lateness_ms: int | None = None
    """A job's max out-of-orderness or watermark delay, of which its loss consists at least; None: not known."""
    inputs: list[int] = []
    edge: Edge | None = None
    trouble: str | None = None
    """Why its event time is not known, as far as that is known."""
    looping: bool = False
    """It reads, through further hops, what it writes: its loss has no meaning."""
    may_write: bool = False
    """Nothing says which topics the job writes, or that it writes none: perhaps a way continues."""
    verdict: VerdictName | None = None
    """The verdict on its target; None: no target watches it."""
    critical: list[str] = []
    """The codes of its target's critical findings."""

    @property
    def own_ms(self) -> int | None:
        """Its event time, whichever kind it is."""
        return self.event_ms if self.kind == "topic" else self.watermark_ms

    @property
    def proven(self) -> list[int]:
        """Its inputs, unless they are guessed: no loss and no blame follows from a guess."""
        return [] if self.edge == "guessed" else self.inputs


class Chain(AnyTarget, frozen=True):
    """All hops, inputs first; `way` is the way that loses most, from its first hop to its last."""

    charts_batches: ClassVar[bool] = False
    has_hops: ClassVar[bool] = True
    reports_settings: ClassVar[bool] = False
    time_name: ClassVar[str] = "event time"

    hops: list[Hop]
    way: list[int]
    behind_ms: int | None = None
    """What is lost on the way; None: not known."""
    behind_at_least: bool = False
    """The event time at an end of a way, or all of a way, is not known, or perhaps the way continues."""
    worst: int | None = None
    """The hop of the way that loses most; None: none loses anything, or it is not known."""
    verdict: Verdict = Verdict()
    """The worst verdict of the targets that are part of a way."""

    @property
    def joined(self) -> set[int]:
        """The hops that are known to have an input or an output."""
        return {n for number, hop in enumerate(self.hops) if hop.proven for n in (number, *hop.proven)}

    def holder_in(self, hop: Hop) -> str | None:
        """The channel that holds back a job; a partition's number with its topic, if the job reads only one."""
        topics = [self.hops[number].name.partition(" at ")[0] for number in hop.inputs]
        is_number = hop.channel is not None and hop.channel.isdecimal() and len(topics) == 1
        return f"{topics[0]}-{hop.channel}" if is_number else hop.channel

    @property
    def target_kind(self) -> str:
        return "chain"

    @property
    def names_of_others(self) -> list[str]:
        return [hop.name for hop in self.hops]

    def lost_ms(self, level: Level) -> int | None:
        return level.behind_fastest_ms if self.behind_ms is None else max(self.behind_ms, 0)
