"""The channels that hold the watermark back, step by step (semantics 11.2): aligned channels below the fastest."""

from bisect import bisect_left
from collections.abc import Iterable
from itertools import groupby, islice
from operator import itemgetter

from msgspec import Struct

from ..operator_clock import Clock, OperatorClock
from ..times import MIN

MAX_STEPS = 10


class BlockerStep(Struct, frozen=True):
    """Channels (by number) with the same watermark (ms, `MIN`: none), and the gain (ms) from idling all channels up to
    here.
    """

    channels: list[int]
    watermark: int
    gain_ms: int | None
    """The gain; None: there is no watermark to gain on."""


class Staircase:
    """The aligned channels of a clock in the holder's order: watermark, longest unchanged, semantics section 6.

    A channel in a source instance (`--subtasks`) counts with the instance's watermark where its own is lower: the
    combined watermark never goes back.
    """

    def __init__(self, clock: OperatorClock) -> None:
        self._level = clock.level
        self._ordered = sorted(clock.aligned_channels())
        self._watermarks = [key[0] for key in self._ordered]
        self._flushed = clock.all_idle_watermark()

    def steps(self) -> list[BlockerStep]:
        """At most `MAX_STEPS` steps, the first of which holds the watermark back; empty if no channel is below the
        fastest.
        """
        by_watermark = groupby(self._ordered, key=itemgetter(0))
        groups = [(watermark, [key[-1] for key in keys]) for watermark, keys in islice(by_watermark, MAX_STEPS + 1)]
        found: list[BlockerStep] = []
        for place, (watermark, channels) in enumerate(groups[:MAX_STEPS]):
            freed = groups[place + 1][0] if place + 1 < len(groups) else self._flushed
            if freed is None or freed <= watermark:
                break
            gain = None if self._level == MIN else max(0, freed - self._level)
            found.append(BlockerStep(channels, watermark, gain))
        return found

    def below(self, needed: int) -> int:
        """How many aligned channels have a watermark below `needed` (ms)."""
        return bisect_left(self._watermarks, needed)

    def first(self, count: int) -> Iterable[int]:
        """The first `count` channels in the holder's order, by number."""
        return (key[-1] for key in self._ordered[:count])


def staircase(clock: Clock) -> Staircase | None:
    """The staircase of a clock; None for Spark's rule, which has no valve."""
    return Staircase(clock) if isinstance(clock, OperatorClock) else None
