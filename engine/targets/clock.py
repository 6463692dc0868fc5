"""Two clocks: how far a target's clock is ahead of ours, by what is seen to appear, and the notes on clocks. Pure."""

from collections import deque
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from msgspec import Struct

from ..snapshot import Note

MIN_SKEW_MS = 10_000
"""Two clocks that differ by no more (ms) count as one."""
DELAY_MS = 5_000
"""Longest time (ms) from a stamp until what carries it can be seen."""
SETTLED_MS = 2_000
"""A measured offset stays until another one differs from it by more (ms)."""
_APPEARED = 16
_Args = dict[str, str | int | None]


class Offset(Struct, frozen=True):
    """How far (ms) a target's clock is ahead of ours; behind: negative."""

    ms: int = 0
    is_measured: bool = True
    """False: a stamp in our future shows that it is at least so far ahead, and no more is known."""


class _Bounds(NamedTuple):
    """What one stamp says of the offset: at least and at most so many ms."""

    least: int
    most: int


class TargetClock:
    """Measures the offset of one target's clock from the stamps that appear between two looks."""

    def __init__(self) -> None:
        self.offset = Offset()
        self.set_ms: int | None = None
        """The first stamp (target's clock) since it, or ours, was seen to be set."""
        self.corrections = 0
        """How often the offset was found to have been another one all the time."""
        self._is_known = False
        """Whether stamps that appeared, or files, have shown the offset."""
        self._newest_ms: int | None = None
        """The newest stamp, and what it alone says: its moment has passed when it is seen."""
        self._at_least_ms = 0
        self._looked_ms: int | None = None
        self._appeared: deque[_Bounds] = deque(maxlen=_APPEARED)

    def see(self, stamp_ms: int | None, now_ms: int, by_files_ms: int | None = None) -> None:
        """Note the target's last stamp at a look at `now_ms` (epoch ms, ours).

        `by_files_ms`: the offset as `offset_by_files` finds it.
        """
        if stamp_ms is not None and stamp_ms != self._newest_ms:
            if self._newest_ms is not None and self._looked_ms is not None:
                if stamp_ms < self._newest_ms:  # its clock was set back
                    self._appeared.clear()
                self._appeared.append(_Bounds(stamp_ms - now_ms, stamp_ms - self._looked_ms + DELAY_MS))
            self._newest_ms = stamp_ms
            self._at_least_ms = stamp_ms - now_ms
        self._looked_ms = now_ms
        self._settle(by_files_ms)

    def see_clock(self, target_ms: int, asked_ms: int, answered_ms: int, resolution_ms: int = 1) -> None:
        """Note what the target's clock showed between our question and its answer (epoch ms, ours)."""
        bounds = _Bounds(target_ms - answered_ms, target_ms + resolution_ms - asked_ms)
        self._appeared.extend((bounds, bounds))  # it needs no second one that agrees
        self._settle()

    def _settle(self, by_files_ms: int | None = None) -> None:
        found = self._measured(by_files_ms)
        known = self.offset
        if found.is_measured != known.is_measured or abs(found.ms - known.ms) > SETTLED_MS:
            self.offset = found
            if self._is_known:
                self.set_ms = self._newest_ms
            else:
                self.corrections += 1
        self._is_known = self._is_known or self._shown(by_files_ms)

    def _shown(self, by_files_ms: int | None) -> bool:
        return self.offset.is_measured and (by_files_ms is not None or len(self._appeared) > 1)

    def _measured(self, by_files_ms: int | None) -> Offset:
        by_stamps = _offset_by_stamps(self._appeared)
        if by_stamps is not None:
            return by_stamps
        at_least_ms = MIN_SKEW_MS if self._newest_ms is None else self._at_least_ms
        if by_files_ms is not None and by_files_ms >= at_least_ms - SETTLED_MS:
            return Offset(by_files_ms if abs(by_files_ms) > MIN_SKEW_MS else 0)
        if self._newest_ms is not None and at_least_ms > MIN_SKEW_MS:
            return Offset(at_least_ms, is_measured=False)
        return self.offset if self.offset.is_measured else Offset()


def _offset_by_stamps(appeared: Iterable[_Bounds]) -> Offset | None:
    """The offset by stamps that appeared; None: they leave it open."""
    bounds, number = _agreed(appeared)
    if bounds is None:
        return None
    if bounds.least > MIN_SKEW_MS or (bounds.most < -MIN_SKEW_MS and number > 1):
        return Offset(bounds.least)
    is_narrow = bounds.most - bounds.least <= 2 * MIN_SKEW_MS
    return Offset() if is_narrow and bounds.most >= -MIN_SKEW_MS else None


def _agreed(appeared: Iterable[_Bounds]) -> tuple[_Bounds | None, int]:
    """The narrowest bounds that the last stamps agree on, and how many do; None: nothing appeared."""
    agreed: _Bounds | None = None
    number = 0
    for bounds in reversed(list(appeared)):
        both = bounds if agreed is None else _Bounds(max(agreed.least, bounds.least), min(agreed.most, bounds.most))
        if both.least > both.most:
            break  # before that the clock was another one
        agreed = both
        number += 1
    return agreed, number


def offset_by_files(written: Iterable[tuple[int, int]], now_ms: int | None = None) -> int | None:
    """How far (ms) the clock that made stamps is ahead of that of the files, by (stamp, file's time) of files in the
    order in which they were written; None: the files are a copy, too few, or from the future (`now_ms`, if given).
    """
    pairs = list(written)
    offsets = [stamp_ms - file_ms for stamp_ms, file_ms in pairs]
    if len(pairs) < 2 or pairs[-1][0] - pairs[0][0] < MIN_SKEW_MS:
        return None
    if now_ms is not None and pairs[-1][1] > now_ms + SETTLED_MS:
        return None
    return max(offsets) if max(offsets) - min(offsets) <= DELAY_MS else None


def offset_note(offset: Offset, now_ms: int, whose: str) -> list[Note]:
    """The note that names our clock, at `now_ms` (epoch ms), and that of `whose`; none where they agree."""
    if abs(offset.ms) <= MIN_SKEW_MS:
        return []
    args: _Args = {"whose": whose, "there": _clock(now_ms + offset.ms), "here": _clock(now_ms), "offset_ms": offset.ms}
    return [Note(now_ms, "clock_offset" if offset.is_measured else "clock_ahead", args)]


def proves_nothing(offset: Offset) -> bool:
    """Whether the other clock is ahead of ours, and by how much is not known."""
    return abs(offset.ms) > MIN_SKEW_MS and not offset.is_measured


def set_note(set_by_ms: int, now_ms: int) -> list[Note]:
    """The note on this machine's clock, where it was set by `set_by_ms` since the start; `now_ms` as without that."""
    if abs(set_by_ms) <= MIN_SKEW_MS:
        return []
    args: _Args = {"offset_ms": set_by_ms, "here": _clock(now_ms + set_by_ms), "counted": _clock(now_ms)}
    return [Note(now_ms, "clock_set", args)]


def _clock(ms: int) -> str:
    try:
        return datetime.fromtimestamp(ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"
