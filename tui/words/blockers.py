"""The channels that block the watermark, step by step, what frees each, and the windows that wait for the same
channels. Pure.
"""

from collections.abc import Sequence
from itertools import groupby

from msgspec import Struct

from ...engine.snapshot import Blocker, ChannelView, OpenWindow, Snapshot
from ...engine.text import formatting as f
from ...engine.text.formatting import name
from .kinds import kind_words
from .spans import Part, part
from .verdict import count_of, does, named
from .wording import is_close, words_of

SHORT_STEPS = 3
"""Steps that the main screen names, at most."""


class StepFacts(Struct, frozen=True):
    """A step of the staircase, in words."""

    step: Blocker
    who: str
    why: str
    frees: str
    """What ends the blocking."""


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


def window_groups(opened: Sequence[OpenWindow]) -> list[WindowGroup]:
    """The open windows, grouped by the channels they wait for; separate if those are not known."""
    return [WindowGroup(list(group)) for _, group in groupby(opened, key=_waits_key)]


def taking_part(snapshot: Snapshot) -> int:
    """How many inputs of the valve take part in the minimum: source instances if there are any."""
    inputs = snapshot.channels if snapshot.instances is None else snapshot.instances
    return [view.state for view in inputs].count("active")


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


def steps(snapshot: Snapshot) -> list[StepFacts]:
    """The staircase in words, the holder first; empty if no channel blocks or it is not known."""
    views = {view.channel: view for view in snapshot.channels}
    close = is_close(snapshot)
    return [
        StepFacts(
            step,
            named(step.channels, step.channel_count),
            _why(step, [views[channel] for channel in step.channels if channel in views], close=close),
            _frees(step, views.get(step.channels[0]) if step.channels else None, snapshot),
        )
        for step in snapshot.blockers or ()
    ]


def short_staircase(snapshot: Snapshot) -> list[Part]:
    """The gain of the watermark when the first blockers are freed one after the other, for one line."""
    known = [step for step in (snapshot.blockers or ())[:SHORT_STEPS] if step.gain_ms]
    if not known:
        return []
    parts = [part(("if freed: ", "dim"), *_gain_runs(known[0]), rank=2)]
    for place, step in enumerate(known[1:]):
        parts.append(part((", and ", "dim"), *_gain_runs(step), rank=3 + place, gap=""))
    return parts


def _gain_runs(step: Blocker) -> list[tuple[str, str]]:
    return [(named(step.channels, step.channel_count, 1), "text"), (f" {f.signed(step.gain_ms or 0)}", "strong")]


def _waits_key(window: OpenWindow) -> object:
    if window.blockers is None:
        return (window.start_ms, window.end_ms, window.operator)
    return (tuple(window.blockers), window.blocker_count, window.operator)


def _why(step: Blocker, views: Sequence[ChannelView], *, close: bool) -> str:
    """The cause with its number: `no data for 1d04h`, `backlog of 1,204 records`."""
    quiet = [view.quiet_ms for view in views if view.quiet_ms is not None]
    backlog = [view.backlog for view in views if view.backlog is not None]
    if step.cause == "quiet" and quiet:
        times = {f.duration(min(quiet)), f.duration(max(quiet))}
        return "no data for " + "–".join(sorted(times, key=lambda text: text != f.duration(min(quiet))))
    if step.cause == "backlog" and backlog:
        return f"backlog of {f.counted(sum(backlog), 'record')}"
    if step.cause == "behind" and close:
        return "no further behind than lateness allows"
    return does([step]) if count_of([step]) else ""


def _frees(step: Blocker, view: ChannelView | None, snapshot: Snapshot) -> str:
    """What ends a step's blocking."""
    if step.cause in ("quiet", "never_seen", "stuck"):
        return _frees_quiet(view, snapshot)
    return words_of(step.cause, snapshot).ends_with


def _frees_quiet(view: ChannelView | None, snapshot: Snapshot) -> str:
    timeout = snapshot.settings.idle_after_ms
    if timeout is None:
        return kind_words(snapshot).without_timeout
    if view is None or view.timer_ms is None:
        return f"a record; its idle timer ({f.setting(timeout)}) does not run"
    left = timeout - view.timer_ms
    when = f"in {f.duration(left)}" if left > 0 else "at one of the next ticks"
    return f"a record; without one it becomes idle {when}"
