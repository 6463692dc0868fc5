"""The steps of a staircase as blockers: with the names of their channels, and why the first of them is so low."""

from collections.abc import Callable, Iterable

from ..watermarks.operator_clock import BlockerStep
from ..watermarks.times import MIN
from .watermark import Blocker, Cause

MAX_NAMED = 100
"""How many channels of a step are named."""


def blockers_of(
    steps: Iterable[BlockerStep], name_of: Callable[[int], str], cause_of: Callable[[int], Cause]
) -> list[Blocker]:
    """The steps, in their order; `name_of` and `cause_of` take the number of a channel."""
    return [
        Blocker(
            channels=[name_of(number) for number in step.channels[:MAX_NAMED]],
            gain_ms=step.gain_ms,
            watermark_ms=None if step.watermark == MIN else step.watermark,
            cause=cause_of(step.channels[0]),
            channel_count=len(step.channels),
        )
        for step in steps
    ]
