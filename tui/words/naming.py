"""Several channels in a line: their names, how many they are, and what they do. Pure."""

from collections.abc import Sequence

from ...engine.snapshot import Blocker, Cause
from ...engine.text.codes import CAUSES
from ...engine.text.formatting import name

NAMED = 3
"""Blockers that the line names, at most."""


def named(channels: Sequence[str], count: int, most: int = NAMED) -> str:
    """`F9, YV, VX and 12 more`."""
    shown = [name(channel) for channel in channels[:most]]
    rest = max(count, len(channels)) - len(shown)
    return ", ".join(shown) + (f" and {rest:,} more" if rest > 0 else "")


def count_of(steps: Sequence[Blocker]) -> int:
    """The total number of channels in the steps."""
    return sum(max(step.channel_count, len(step.channels)) for step in steps)


def does(cause: Cause, count: int) -> str:
    """What channels with a cause do: `has no data`, `have no data`."""
    return CAUSES[cause].several if count > 1 else CAUSES[cause].one
