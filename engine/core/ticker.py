"""Ticks between batches: the emits that processing time owes, skipping those that can change nothing."""

from .firing import Firing
from .monitor import Monitor
from .times import MIN


def tick_until(monitor: Monitor, limit_ms: int) -> list[Firing]:
    """All ticks since the monitor's last emit, one an emit interval, up to `limit_ms` (processing time, inclusive)."""
    firings: list[Firing] = []
    every = monitor.settings.emit_every_ms
    while monitor.now_ms is not None and (due := monitor.next_tick_ms()) is not None:
        steps = 1 if due == MIN else max(1, -(-(due - monitor.now_ms) // every))
        tick = monitor.now_ms + steps * every
        if tick > limit_ms:
            break
        firings += monitor.tick(tick)
    return firings
