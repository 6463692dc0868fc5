"""The channels that block the watermark, step by step, and what frees each. Pure."""

from msgspec import Struct

from ...engine.snapshot import Blocker, ChannelView, Snapshot
from ...engine.text import formatting as f
from ...engine.verdict.blame import is_close
from .barrel import valve_inputs
from .kinds import presenter_of
from .naming import count_of, does, named


class StepFacts(Struct, frozen=True):
    """A step of the staircase, in words."""

    step: Blocker
    who: str
    why: str
    frees: str
    """What ends the blocking."""


def steps(snapshot: Snapshot) -> list[StepFacts]:
    """The staircase in words, the holder first; empty if no channel blocks or it is not known."""
    views = {view.channel: view for view in snapshot.channels}
    close = is_close(snapshot)
    out: list[StepFacts] = []
    for step in snapshot.blockers or ():
        known = [views[channel] for channel in step.channels if channel in views]
        if step.cause in ("quiet", "never_seen", "stuck"):
            frees = _frees_quiet(views.get(step.channels[0]) if step.channels else None, snapshot)
        else:
            frees = presenter_of(snapshot).causes[step.cause].ends_with
        quiet = [view.quiet_ms for view in known if view.quiet_ms is not None]
        backlog = [view.backlog for view in known if view.backlog is not None]
        if step.cause == "quiet" and quiet:
            why = f"no data for {f.span(f.duration(min(quiet)), f.duration(max(quiet)))}"
        elif step.cause == "backlog" and backlog:
            why = f"backlog of {f.counted(sum(backlog), 'record')}"
        elif step.cause == "behind" and close:
            why = "no further behind than lateness allows"
        else:
            why = does(step.cause, count) if (count := count_of([step])) else ""
        out.append(StepFacts(step, named(step.channels, step.channel_count), why, frees))
    return out


def further_steps(snapshot: Snapshot) -> int:
    """How many steps follow the listed ones below the fastest channel."""
    listed = [step.watermark_ms for step in snapshot.blockers or () if step.watermark_ms is not None]
    fastest_ms = snapshot.level.fastest_ms
    if not listed or fastest_ms is None:
        return 0
    inputs = valve_inputs(snapshot)
    times = {view.watermark_ms for view in inputs if view.state == "active" and view.watermark_ms is not None}
    return sum(max(listed) < time < fastest_ms for time in times)


def _frees_quiet(view: ChannelView | None, snapshot: Snapshot) -> str:
    timeout = snapshot.settings.idle_after_ms
    if timeout is None:
        return presenter_of(snapshot).without_timeout
    if view is None or view.timer_ms is None:
        return f"a record; its idle timer ({f.setting(timeout)}) does not run"
    return f"a record; without one it becomes idle {idle_when(timeout - view.timer_ms)}"


def idle_when(left_ms: int) -> str:
    """When an idle timer ends of which `left_ms` are left."""
    return f"in {f.duration(left_ms)}" if left_ms > 0 else "at one of the next ticks"
