"""Building blocks for the words of all findings. Pure."""

from collections.abc import Callable, Sequence
from datetime import tzinfo
from typing import Any

from msgspec import Struct

from ....engine.doctor import Finding
from ....engine.snapshot import Snapshot
from ....engine.text import formatting as f
from ..wording import name

NAMED = 3
"""Channels that a sentence names, at most."""


class Explanation(Struct, frozen=True):
    """The words for a finding; see `Diagnosis`."""

    title: str
    impact: str
    cause: str
    evidence: Sequence[str]
    screens: Sequence[str] = ()
    """The further screens that show it, the best first."""
    channel: str | None = None
    """The channel whose page shows it best."""


class Context(Struct, frozen=True):
    """What the words depend on besides the finding."""

    snapshot: Snapshot
    zone: tzinfo | None


Explainers = dict[type[Finding], Callable[[Any, Context], Explanation]]


n = f.counted


def span(ms: float | None) -> str:
    """A duration, `–` where it is not known."""
    return f.UNKNOWN if ms is None else f.duration(round(ms))


def names(channels: Sequence[str]) -> str:
    """`F9`, `F9 and YV`, `F9, YV, VX and 12 more channels`."""
    shown = [name(channel) for channel in channels[:NAMED]]
    rest = len(channels) - len(shown)
    if rest:
        return f"{', '.join(shown)} and {n(rest, 'more channel')}"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)


def verb(channels: Sequence[str], singular: str, plural: str) -> str:
    """The form of the verb for these channels."""
    return singular if len(channels) == 1 else plural


def only(channels: Sequence[str]) -> str | None:
    """The channel, if there is exactly one."""
    return channels[0] if len(channels) == 1 else None


def column(text: str | None) -> str:
    """The time column by its name."""
    return "the time column" if text is None else f"column {name(text)}"


def place(channel: str, offset: int | None, part: str | None) -> str:
    """The place of a record: its channel, its offset, the part of the source."""
    where = "" if offset is None else f", offset {offset:,}{' of ' + name(part) if part else ''}"
    return name(channel) + where
