"""The bounds of a recording, and which part is dropped beyond them. Pure."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

_KEEP = 7 / 8
"""The part that is kept when the oldest is dropped: dropping a little at a time would copy the rest each time."""


class Bounds(Struct, frozen=True):
    """The greatest size (bytes) and time (wall clock, ms) of a recording; None: no bound."""

    size: int | None = 2 * 1024**3
    span_ms: int | None = 24 * 3_600_000


UNBOUNDED = Bounds(None, None)


class Place(Protocol):
    """The position of a group of snapshots (bytes), and when (wall clock, epoch ms) its last snapshot was taken."""

    @property
    def offset(self) -> int: ...
    @property
    def last_wall_ms(self) -> int | None: ...


def first_kept(groups: Sequence[Place], end: int, bounds: Bounds) -> int:
    """The first group that stays in a recording of `end` bytes; 0: the recording is within its bounds."""
    return max(_by_size(groups, end, bounds.size), _by_time(groups, bounds.span_ms))


def _by_size(groups: Sequence[Place], end: int, size: int | None) -> int:
    if size is None or end <= size:
        return 0
    return next((i for i, group in enumerate(groups) if end - group.offset <= size * _KEEP), len(groups) - 1)


def _by_time(groups: Sequence[Place], span_ms: int | None) -> int:
    if span_ms is None or len(groups) < 2:
        return 0
    oldest, newest = groups[0].last_wall_ms, groups[-1].last_wall_ms
    if oldest is None or newest is None or newest - oldest <= span_ms:
        return 0
    after = newest - span_ms * _KEEP
    return next(i for i, group in enumerate(groups) if group.last_wall_ms is None or group.last_wall_ms >= after)
