"""The open windows in groups, and the channels that they wait for. Pure."""

from collections.abc import Sequence
from itertools import groupby

from msgspec import Struct

from ...engine.snapshot import FiredWindow, OpenWindow, Snapshot
from ...engine.text import formatting as f
from ...engine.text.formatting import name
from .barrel import valve_inputs
from .naming import named


class WindowGroup(Struct, frozen=True):
    """Open windows, by end, that wait for the same channels."""

    windows: Sequence[OpenWindow]

    @property
    def first(self) -> OpenWindow:
        """The window that closes first."""
        return self.windows[0]

    @property
    def end_ms(self) -> int:
        """The end of the last one (epoch ms)."""
        return self.windows[-1].end_ms

    @property
    def records(self) -> int | None:
        """Their total number of records; None if that of any window is not known."""
        known = [window.records for window in self.windows if window.records is not None]
        return sum(known) if len(known) == len(self.windows) else None


def key_of(window: OpenWindow | FiredWindow) -> str:
    """The key of a window, open or fired."""
    operator = f" {window.operator}" if isinstance(window, OpenWindow) and window.operator is not None else ""
    return f"{window.start_ms} {window.end_ms}{operator}"


def window_counts(snapshot: Snapshot) -> list[tuple[int, str]]:
    """How many windows are open, have fired and fired late, as far as known."""
    windows = snapshot.windows
    counts = ((windows.open_count, "open"), (windows.fired, "fired"), (windows.late_firings, "late firings"))
    return [(number, word) for number, word in counts if number is not None]


def window_groups(opened: Sequence[OpenWindow]) -> list[WindowGroup]:
    """The open windows, grouped by the channels they wait for; separate if those are not known."""

    def waits(window: OpenWindow) -> object:
        if window.blockers is None:
            return (window.start_ms, window.end_ms, window.operator)
        return (tuple(window.blockers), window.blocker_count, window.operator)

    return [WindowGroup(list(group)) for _, group in groupby(opened, key=waits)]


def taking_part(snapshot: Snapshot) -> int:
    """How many inputs of the valve take part in the minimum: source instances if there are any."""
    return [view.state for view in valve_inputs(snapshot)].count("active")


def waits_for(window: OpenWindow, cells_each: int = 3, of: int | None = None) -> str | None:
    """The channels that a window waits for: `F9, YV`, `F9, YV, VX and 12 more`; None: not known, or none.

    `of` is the number of channels that take part: if all of them are still behind the window's end, `all 15`.
    """
    if window.blockers is None:
        return None if window.waits_for is None else name(window.waits_for)
    if not window.blockers:
        return None
    count = max(window.blocker_count or 0, len(window.blockers))
    if of is not None and count == of > cells_each:
        return f"all {count:,}"
    return named(window.blockers, window.blocker_count or 0, cells_each)


def waits_within(window: OpenWindow, room: int, of: int | None = None) -> str | None:
    """`waits_for` with as many names as fit whole in `room` cells, else their number."""
    texts = [waits_for(window, each, of) for each in (3, 2, 1)]
    if texts[0] is None:
        return None
    count = max(window.blocker_count or 0, len(window.blockers or ()), 1)
    return next((text for text in texts if text is not None and len(text) <= room), f.counted(count, "channel"))
