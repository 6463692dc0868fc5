"""The channels that hold the watermark back, step by step (semantics 11.2): aligned channels below the fastest."""

from bisect import bisect_left
from collections.abc import Iterable
from itertools import groupby, islice
from operator import itemgetter

from msgspec import Struct

from ..watermarks.operator_clock import Clock, OperatorClock
from ..watermarks.times import MIN

MAX_STEPS = 10


class BlockerStep(Struct, frozen=True):
    """Channels (by number) with the same watermark (ms, `MIN`: none), and the gain (ms) from idling all channels up to
    here.
    """

    channels: list[int]
    watermark: int
    gain_ms: int | None
    """The gain; None: there is no watermark to gain on."""


def steps_below(lowest_first: Iterable[tuple[int, int]], level: int, flushed: int | None) -> list[BlockerStep]:
    """At most `MAX_STEPS` steps, the first of which holds the watermark back; empty: no channel is below the fastest.

    `lowest_first` has the watermark and the number of each channel in the minimum, `level` is the combined watermark
    (`MIN`: none) and `flushed` the one after all channels have turned idle (None: not known).
    """
    by_watermark = groupby(lowest_first, key=itemgetter(0))
    groups = [(watermark, [pair[1] for pair in pairs]) for watermark, pairs in islice(by_watermark, MAX_STEPS + 1)]
    steps: list[BlockerStep] = []
    for place, (watermark, channels) in enumerate(groups[:MAX_STEPS]):
        freed = groups[place + 1][0] if place + 1 < len(groups) else flushed
        if freed is None or freed <= watermark:
            break
        steps.append(BlockerStep(channels, watermark, None if level == MIN else max(0, freed - level)))
    return steps


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
        """The steps, as `steps_below` has them."""
        return steps_below(((key[0], key[-1]) for key in self._ordered), self._level, self._flushed)

    def below(self, needed: int) -> int:
        """How many aligned channels have a watermark below `needed` (ms)."""
        return bisect_left(self._watermarks, needed)

    def first(self, count: int) -> Iterable[int]:
        """The first `count` channels in the holder's order, by number."""
        return (key[-1] for key in self._ordered[:count])


def staircase(clock: Clock) -> Staircase | None:
    """The staircase of a clock; None for Spark's rule, which has no valve."""
    return Staircase(clock) if isinstance(clock, OperatorClock) else None
