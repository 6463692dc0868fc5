"""New monitors, and the copy of a monitor that is saved as JSON."""

from copy import copy

import msgspec

from .monitor import Monitor
from .operator_clock import OperatorClock, new_clock
from .settings import Settings
from .whatif import new_idle_rungs, new_lateness_whatif
from .window_operator import new_window_operator


def new_monitor(settings: Settings) -> Monitor:
    """A monitor without records."""
    lateness = settings.lateness_ms if settings.tunable and settings.lateness_ms is not None else 0
    return Monitor(
        settings=settings,
        clock=new_clock(settings.strategy, lateness, settings.idle_after_ms, settings.subtasks),
        shadow=new_clock(settings.strategy, 0, settings.idle_after_ms, settings.subtasks) if settings.tunable else None,
        rungs=new_idle_rungs(settings),
        operator=new_window_operator(settings),
        whatif=new_lateness_whatif(settings),
    )


def to_save(monitor: Monitor) -> Monitor:
    """A copy to be encoded, nothing else: the clocks of the what-if that are like the run's own are only marked."""
    own = monitor.clock
    if not isinstance(own, OperatorClock):
        return monitor
    saved = copy(monitor)
    if isinstance(monitor.shadow, OperatorClock):
        saved.shadow = monitor.shadow.marked_as_own(own)
    saved.rungs = []
    for rung in monitor.rungs:
        marked = copy(rung)
        if isinstance(rung.clock, OperatorClock):
            marked.clock = rung.clock.marked_as_own(own)
        saved.rungs.append(marked)
    return saved


def encode_monitor(monitor: Monitor) -> bytes:
    """The monitor as JSON."""
    return msgspec.json.encode(to_save(monitor))


def decode_monitor(data: bytes) -> Monitor:
    """The monitor that `encode_monitor` wrote; `msgspec.DecodeError` for anything else."""
    return msgspec.json.decode(data, type=Monitor)
