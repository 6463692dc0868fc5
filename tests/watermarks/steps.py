"""Runs in a few words, for tests that tell one."""

from collections.abc import Sequence

import msgspec
from wmtop.engine.watermarks.monitor import Monitor, to_save
from wmtop.engine.watermarks.settings import Session, Settings, Sliding, Tumbling

from ..reference.ops import Batch, Row
from ..reference.result import Firing
from .lockstep import Lockstep


def start(
    window: Tumbling | Sliding | Session = Tumbling(10),  # noqa: B008 - frozen
    *,
    lateness: int = 0,
    idle_after: int | None = None,
    strategy: str = "bounded",
    allowed: int = 0,
    guard: int | None = None,
    subtasks: int | None = None,
) -> Lockstep:
    """A run with few settings of its own."""
    tunable = strategy in ("bounded", "bounded-legacy", "smoothed", "spark")
    return Lockstep(
        Settings(
            strategy=strategy,  # type: ignore[arg-type]
            lateness_ms=lateness if tunable else None,
            idle_after_ms=idle_after,
            allowed_lateness_ms=allowed,
            future_guard_ms=guard,
            subtasks=subtasks,
            window=window,
            smooth=3,
        )
    )


def batch(now: int, *records: tuple[str, int] | tuple[str, int, int | bool]) -> Batch:
    """A micro-batch of (channel, event time[, marker or source watermark]), all arrived at `now`."""
    rows = [Row(now, r[0], r[1], r[2] if len(r) == 3 else None) for r in records]
    return Batch(tuple(rows), now)


def brief(firings: Sequence[Firing]) -> list[tuple[str, int | None, int | None, int]]:
    """Kind, start, end, records."""
    return [(f["kind"], f["start_ms"], f["end_ms"], f["records"]) for f in firings]


def channel_states(run: Lockstep) -> dict[str, str]:
    return {channel.channel: channel.state for channel in run.driver.snapshot().channels}


def saved_and_read(monitor: Monitor) -> Monitor:
    """The monitor, written as JSON and read again."""
    return msgspec.json.decode(msgspec.json.encode(to_save(monitor)), type=Monitor)
