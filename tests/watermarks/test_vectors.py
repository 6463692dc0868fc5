"""The core against the recorded answers of the real Flink 2.3.0: one case a vector."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from wmtop.engine.watermarks.channels import IdlenessTimers
from wmtop.engine.watermarks.generators import absorb, new_generator
from wmtop.engine.watermarks.multiplexer import Combined, Emission, Multiplexer, WatermarkOutput
from wmtop.engine.watermarks.observation import Group
from wmtop.engine.watermarks.settings import Session, Settings, StrategyName, WindowSpec
from wmtop.engine.watermarks.times import MAX, MIN, saturate, shift
from wmtop.engine.watermarks.valve import Valve, ValveOutput
from wmtop.engine.watermarks.windows import Added, SessionWindows, TimeWindows, Window, window_count

from ..reference.vectors import load
from .panes import pane_of

Vector = dict[str, Any]
Answer = list[list[Any]]


def each(kind: str) -> pytest.MarkDecorator:
    vectors = load(kind)
    return pytest.mark.parametrize("vector", vectors, ids=[v["id"] for v in vectors])


@each("valve")
def test_valve(vector: Vector) -> None:
    valve = Valve()
    for _ in range(vector["params"]["channels"]):
        valve.add_channel(0)
    do = {"w": valve.input_watermark, "idle": valve.mark_idle, "active": valve.mark_active}
    got = [valve_answer(do[name](*args)) for name, *args in vector["ops"]]
    assert got == vector.get("expect_fixed", vector["expect"])


def valve_answer(output: ValveOutput | None) -> Answer:
    """A wake is reported before the watermark, falling idle after it."""
    if output is None:
        return []
    watermark = [] if output.watermark is None else [["w", output.watermark]]
    if output.idle is None:
        return watermark
    return [*watermark, ["idle"]] if output.idle else [["active"], *watermark]


STRATEGIES: dict[str, StrategyName] = {
    "bounded": "bounded",
    "ascending": "monotonous",
    "legacy_bounded": "bounded-legacy",
    "punctuated": "source",  # the vectors' records carry the watermark to emit
    "none": "none",
}


class OneChannel:
    """A generator with its idleness timer and output filter, put together as an operator clock does it."""

    def __init__(self, strategy: StrategyName, delay_ms: int, idle_timeout_ms: int | None, clock_ns: int) -> None:
        self.generator = new_generator(Settings(strategy=strategy))
        self.delay_ms, self.now = delay_ms, clock_ns
        self.timeout = None if idle_timeout_ms is None else idle_timeout_ms * 1_000_000
        self.timers = IdlenessTimers()
        self.timers.add(0)
        self.output = WatermarkOutput(wakes_on_growth=True)
        self.idle = False

    def event(self, ts: int, carried: int | None) -> Answer:
        """One record; the idle flag goes, but the output wakes only with growth."""
        self.timers.activity([0])
        self.idle = False
        emitted = absorb(self.generator, ts, carried, None)
        return [] if emitted is None else reported(self.output.watermark(emitted))

    def periodic(self) -> Answer:
        """One emit tick."""
        self.timers.emit(self.now)
        if self.timers.since.get(0) == 0:  # a Flink clock reading of 0 ns counts as not started
            del self.timers.since[0]
            self.timers.add(0)
        if self.timeout is not None:
            since = self.timers.since.get(0)
            self.idle = self.idle or (since is not None and self.now - since > self.timeout)
        if self.idle:
            return reported(self.output.mark_idle())
        emitted = self.generator.on_periodic_emit()
        return [] if emitted is None else reported(self.output.watermark(shift(emitted, -self.delay_ms)))

    def advance(self, ms: int) -> Answer:
        """Processing time goes on."""
        self.now += ms * 1_000_000
        return []


def reported(emissions: tuple[Emission, ...]) -> Answer:
    return [["w", e.watermark] if e.watermark is not None else ["idle"] if e.idle else ["active"] for e in emissions]


@each("generator")
def test_generator(vector: Vector) -> None:
    params = vector["params"]
    channel = OneChannel(
        STRATEGIES[params["generator"]], params["delay_ms"], params["idle_timeout_ms"], params["clock_start_ns"]
    )
    got = [getattr(channel, name)(*args) for name, *args in vector["ops"]]
    assert got == vector["expect_downstream"]


class Splits:
    """A multiplexer and the filter behind it, under the vectors' names."""

    def __init__(self) -> None:
        self.multiplexer = Multiplexer()
        self.output = WatermarkOutput(wakes_on_growth=True)
        self.numbers: dict[str, int] = {}

    def apply(self, op: str, name: str | None = None, ts: int = 0) -> Answer:
        """One op of a vector; what comes out of the filter."""
        multiplexer = self.multiplexer
        if op == "periodic" or name is None:
            return self._through(multiplexer.update())
        split = self.numbers.setdefault(name, len(self.numbers))
        if op == "register":
            known = split in multiplexer.splits
            if known:
                with pytest.raises(ValueError, match="registered"):
                    multiplexer.register(split)
            else:
                multiplexer.register(split)
        elif op == "unregister":
            multiplexer.unregister(split)
        elif split not in multiplexer.splits:
            return []
        elif op == "iw":
            return self._through(multiplexer.watermark(split, ts))
        elif op in ("ii", "ia"):
            return self._through(multiplexer.status(split, idle=op == "ii"))
        elif op == "dw":
            multiplexer.defer_watermark(split, ts)
        else:
            multiplexer.defer_status(split, idle=op == "di")
        return []

    def _through(self, combined: Combined) -> Answer:
        watermark = () if combined.watermark is None else self.output.watermark(combined.watermark)
        return reported((*watermark, *(self.output.mark_idle() if combined.idle else ())))


@each("multiplexer")
def test_multiplexer(vector: Vector) -> None:
    splits = Splits()
    assert [splits.apply(*op) for op in vector["ops"]] == vector["expect_downstream"]


class Keyed:
    """One key's windows twice over: one counts the records, one adds their values up."""

    def __init__(self, spec: WindowSpec, allowed_lateness_ms: int) -> None:
        def make() -> SessionWindows | TimeWindows:
            if isinstance(spec, Session):
                return SessionWindows(spec, allowed_lateness_ms)
            return TimeWindows(spec, allowed_lateness_ms)

        self.spec, self.allowed = spec, allowed_lateness_ms
        self.counts, self.sums = make(), make()

    def record(self, key: int, ts: int, value: int, level: int) -> Answer:
        """One record at a watermark: its late firings, or that it is late."""
        start, head = pane_of(self.spec, ts)
        if not isinstance(self.spec, Session) and not window_count(self.spec, head):
            return [["late", key, ts, value]] if saturate(ts + self.allowed) <= level else []
        added = _add(self.counts, start, head, ts, 1, level)
        sums = _add(self.sums, start, head, ts, value, level)
        if added.late:
            return [["late", key, ts, value]]
        return fired(key, added.late_fired, sums.late_fired)

    def advance(self, key: int, level: int) -> Answer:
        """The watermark has grown."""
        return fired(key, self.counts.advance(level), self.sums.advance(level))

    def finish(self, key: int) -> Answer:
        """End of stream."""
        return fired(key, self.counts.finish(), self.sums.finish())


def _add(windows: SessionWindows | TimeWindows, start: int, head: bool, ts: int, records: int, level: int) -> Added:
    if isinstance(windows, TimeWindows):
        return windows.add(start, head, {"all": records}, level)
    ((added, _),) = windows.add([Group("all", ts, False, records, min_ms=ts, max_ms=ts)], level)
    return added


def fired(key: int, counts: Sequence[Window], sums: Sequence[Window]) -> Answer:
    """Firings as the vectors write them."""
    return [
        ["fire", key, count.start, count.end, count.records, total.records, count.end - 1]
        for count, total in zip(counts, sums, strict=True)
    ]


@each("window")
def test_window(vector: Vector) -> None:
    params = vector["params"]
    spec: WindowSpec = msgspec.convert(params["window"], WindowSpec)
    keys: dict[int, Keyed] = {}
    level = MIN
    for number, ((name, *args), expect) in enumerate(zip(vector["ops"], vector["expect"], strict=True)):
        if name == "r":
            key, ts, value = args
            windows = keys.setdefault(key, Keyed(spec, params["allowed_lateness_ms"]))
            got = windows.record(key, ts, value, level)
        elif name == "w" and args[0] <= level:
            got = []
        else:
            level = MAX if name == "end" else args[0]
            answers = [w.finish(key) if name == "end" else w.advance(key, level) for key, w in keys.items()]
            got = [*sorted((e for answer in answers for e in answer), key=by_time), ["w", level]]
        assert got == [e for e in expect if not wraps_in_flink(spec, params["allowed_lateness_ms"], level, e)], number


def by_time(emission: list[int]) -> tuple[int, int, int, int]:
    _, key, start, end, _, _, at = emission
    return at, key, start, end


def wraps_in_flink(spec: WindowSpec, allowed: int, level: int, emission: list[Any]) -> bool:
    """A record in a gap whose `ts + allowed_lateness` overflows: Flink calls it late too early, wmtop saturates."""
    if emission[0] != "late" or isinstance(spec, Session) or window_count(spec, pane_of(spec, emission[2])[1]):
        return False
    return emission[2] + allowed > MAX > level
