"""Monitor and reference fed the same ops, compared after each of them."""

from collections.abc import Sequence
from typing import Any

import msgspec
from wmtop.engine.snapshot import Snapshot
from wmtop.engine.verdict.monitor_snapshot import snapshot_of
from wmtop.engine.watermarks.monitor import Monitor, new_monitor
from wmtop.engine.watermarks.settings import Settings
from wmtop.engine.watermarks.times import MIN

from ..reference.ops import Batch, End, Finished, Gone, Known, Op, Paused, SetIdle, SetLateness, Tick
from ..reference.result import Firing, order_is_defined, same_lines
from ..reference.run import Reference
from .aggregate import observe


class Driver:
    """A monitor that takes the reference's ops."""

    def __init__(self, settings: Settings) -> None:
        self.monitor: Monitor = new_monitor(settings)
        self.batch = -1
        self.now: int | None = None

    def apply(self, op: Op) -> list[Firing]:
        """What one op made windows do, as `--firings` lines."""
        monitor = self.monitor
        if monitor.ended:
            return []  # the last channel has finished: nothing happens any more
        self.now = getattr(op, "now", self.now)
        if isinstance(op, Batch):
            self.batch += 1
            firings = monitor.apply(observe(monitor, op, self.batch))
        elif isinstance(op, Tick):
            firings = monitor.tick(op.now)
        elif isinstance(op, End):
            firings = monitor.end(op.now)
        elif isinstance(op, Finished):
            firings = monitor.finish_channels(op.names, op.now)
        elif isinstance(op, Gone):
            firings = monitor.remove_channels(op.names, op.now)
        else:
            firings = []
            self._control(op)
        return [msgspec.to_builtins(firing) for firing in firings]

    def _control(self, op: SetLateness | SetIdle | Known | Paused) -> None:
        match op:
            case SetLateness():
                self.monitor.change(lateness_ms=op.lateness, who="test", wall_ms=0)
            case SetIdle():
                self.monitor.change(idle_after_ms=op.idle_after, who="test", wall_ms=0)
            case Known():
                self.monitor.add_channels(list(op.names), op.now)
            case Paused():
                self.monitor.exclude(op.duration, self.now or 0, None if op.names is None else list(op.names))

    def snapshot(self) -> Snapshot:
        """The picture now."""
        state = "ended" if self.monitor.ended else "live"
        return snapshot_of(self.monitor, name="test", state=state, wall_ms=0, now_ms=self.now)


class Lockstep:
    """Monitor and reference side by side: each op goes to both, and they must say the same after it."""

    def __init__(self, settings: Settings) -> None:
        self.driver, self.reference = Driver(settings), Reference(settings)
        self.rows = 0
        """Of all batches until the last channel has finished."""

    def apply(self, op: Op) -> list[Firing]:
        """What the op made windows do; fails where the two differ."""
        if isinstance(op, Batch) and self.reference.ended is None:
            self.rows += len(op.rows)
        ours = self.driver.apply(op)
        self.reference.apply(op)
        theirs = [_shown(line, self.reference.settings) for line in self.reference.firings[-1]]
        assert order_is_defined(ours), op
        assert same_lines(ours, theirs), f"{op}\n monitor   {ours}\n reference {theirs}"
        snapshot = self.driver.snapshot()
        assert picture(self.driver, snapshot) == expected(self.reference), op
        assert progress(self.driver, snapshot) == expected_progress(self.reference), op
        return ours

    @property
    def level(self) -> int:
        """The watermark (ms), of which both are sure."""
        return self.driver.monitor.level


def compare(settings: Settings, ops: Sequence[Op]) -> Lockstep:
    """Run both in lockstep; fails at the first op after which they differ."""
    both = Lockstep(settings)
    for op in ops:
        both.apply(op)
    return both


def drive(ops: Sequence[Op], settings: Settings) -> tuple[Driver, list[list[Firing]]]:
    """A whole run of the monitor alone, with what each op fired."""
    driver = Driver(settings)
    return driver, [driver.apply(op) for op in ops]


def _shown(line: Firing, settings: Settings) -> Firing:
    """Spark's watermark is written down plus 1."""
    if settings.strategy != "spark" or line["watermark_ms"] is None:
        return line
    return {**line, "watermark_ms": line["watermark_ms"] + 1}


def _watermark_shown(watermark: int, settings: Settings) -> int | None:
    if watermark == MIN:
        return None
    return watermark + 1 if settings.strategy == "spark" else watermark


def picture(driver: Driver, snapshot: Snapshot) -> dict[str, Any]:
    """Counts and windows of a monitor, in the terms of `expected`."""
    return {
        "totals": msgspec.structs.asdict(snapshot.totals),
        "by_channel": {
            name: msgspec.structs.asdict(counts) for name, counts in driver.monitor.counts.items()
        },
        "fired": (snapshot.windows.fired, snapshot.windows.late_firings),
        "open": [(w.start_ms, w.end_ms, w.records) for w in snapshot.windows.open],
        "open_count": snapshot.windows.open_count,
    }  # fmt: skip


def seen(driver: Driver) -> dict[str, Any]:
    """All of it."""
    snapshot = driver.snapshot()
    return {**picture(driver, snapshot), **progress(driver, snapshot)}


def expected(reference: Reference) -> dict[str, Any]:
    """The same of the reference."""
    result = reference.result()
    opened = [] if reference.ended else [(w.start, w.end, w.count) for w in reference.windows.open()]
    return {
        "totals": vars(result.totals),
        "by_channel": {name: vars(counts) for name, counts in result.by_channel.items()},
        "fired": (len(reference.fired), reference.late_firings),
        "open": opened,
        "open_count": len(opened),
    }


def progress(driver: Driver, snapshot: Snapshot) -> dict[str, Any]:
    """Level, holder and channels of a monitor."""
    monitor = driver.monitor
    holder = snapshot.level.holder
    by_instance = snapshot.settings.subtasks is not None
    return {
        "level": monitor.level,
        "w0": monitor.w0 if monitor.shadow else None,
        "idle": snapshot.level.idle if monitor.level != MIN else None,
        "holder": holder and (holder.instance if by_instance else holder.channel),
        "channels": [
            (
                channel.channel,
                channel.watermark_ms,
                channel.max_event_ms,
                None if monitor.ended else channel.state,
                channel.flaps,
            )
            for channel in snapshot.channels
        ],
    }


def expected_progress(reference: Reference) -> dict[str, Any]:
    """The same of the reference."""
    clock = reference.clock
    return {
        "level": clock.level,
        "w0": reference.shadow.level if reference.settings.tunable else None,
        "idle": clock.valve.idle if clock.level != MIN and clock.strategy != "spark" else (
            None if clock.level == MIN else False
        ),
        "holder": None if reference.ended else clock.holder(),
        "channels": [
            (
                channel.name,
                _watermark_shown(channel.watermark, reference.settings),
                channel.generator.greatest,
                None if reference.ended else clock.state(channel.name),
                channel.flaps,
            )
            for channel in clock.in_order()
        ],
    }  # fmt: skip
