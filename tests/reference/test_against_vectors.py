"""The reference against the real Flink: an oracle that is wrong finds no bugs."""

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from wmtop.engine.watermarks.settings import WindowSpec
from wmtop.engine.watermarks.times import MAX

from .generators import Generator, IdlenessTimer, clamp
from .valve import Emission, GrowthFilter, Multiplexer, Valve
from .vectors import load
from .windows import Window, WindowOperator, assign

Vector = dict[str, Any]


def each(kind: str) -> pytest.MarkDecorator:
    vectors = load(kind)
    return pytest.mark.parametrize("vector", vectors, ids=[v["id"] for v in vectors])


def as_tuples(expect: list[list[list[Any]]]) -> list[list[Emission]]:
    return [[tuple(e) for e in op] for op in expect]


@each("valve")
def test_valve(vector: Vector) -> None:
    valve = Valve()
    for channel in range(vector["params"]["channels"]):
        valve.add(channel)
    do = {"w": valve.input, "idle": valve.mark_idle, "active": valve.mark_active}
    got = [do[name](*args) for name, *args in vector["ops"]]
    assert got == as_tuples(vector.get("expect_fixed", vector["expect"]))


@each("generator")
def test_generator(vector: Vector) -> None:
    params = vector["params"]
    names = {"ascending": "monotonous", "legacy_bounded": "bounded-legacy", "punctuated": "source"}
    strategy: str = params["generator"]
    generator = Generator(names.get(strategy, strategy), params["delay_ms"])
    timer, timeout = IdlenessTimer(), params["idle_timeout_ms"]
    now, output = params["clock_start_ns"], GrowthFilter()
    got: list[list[Emission]] = []
    for name, *args in vector["ops"]:
        calls: list[Emission] = []
        if name == "advance":
            now += args[0] * 1_000_000
        elif name == "event":
            sent = generator.on_event(*args)
            timer.activity()
            calls = [] if sent is None else [("w", sent)]
        elif timeout is not None and timer.tick(now, timeout * 1_000_000):
            calls = [("idle",)]
        else:
            if timer.quiet_from == 0:  # the Flink timer takes a reading of 0 for "not started"
                timer.quiet_from = None
            sent = generator.on_periodic_emit()
            calls = [] if sent is None else [("w", sent)]
        got.append(output.through(calls))
    assert got == as_tuples(vector["expect_downstream"])


@each("multiplexer")
def test_multiplexer(vector: Vector) -> None:
    multiplexer, output = Multiplexer(), GrowthFilter()
    got = [output.through(multiplexer_op(multiplexer, *op)) for op in vector["ops"]]
    assert got == as_tuples(vector["expect_downstream"])


def multiplexer_op(multiplexer: Multiplexer, name: str, split: Any = None, ts: int = 0) -> list[Emission]:
    if name == "register":
        with suppress(ValueError):
            multiplexer.register(split)
    elif name == "unregister":
        multiplexer.splits.pop(split, None)
    elif name == "periodic":
        return multiplexer.update()
    elif split not in multiplexer.splits:
        return []
    elif name == "iw":
        return multiplexer.send_now(split, ts)
    elif name in ("ii", "ia"):
        return multiplexer.status_now(split, name == "ii")
    elif name == "dw":
        multiplexer.splits[split].send(ts)
    else:
        multiplexer.splits[split].idle = name == "di"
    return []


@each("window")
def test_window(vector: Vector) -> None:
    params = vector["params"]
    operator = WindowOperator(msgspec.convert(params["window"], WindowSpec), params["allowed_lateness_ms"])
    for number, (op, expect) in enumerate(zip(vector["ops"], as_tuples(vector["expect"]), strict=True)):
        got = window_op(operator, *op)
        assert got == [e for e in expect if not wrapped_in_flink(operator, e)], number


def wrapped_in_flink(operator: WindowOperator, emission: Emission) -> bool:
    """A record in a gap whose `ts + allowed_lateness` overflows: Flink calls it late too early, wmtop saturates."""
    if emission[0] != "late" or assign(operator.spec, emission[2]):
        return False
    return emission[2] + operator.allowed > MAX > operator.watermark


def window_op(operator: WindowOperator, name: str, *args: int) -> list[Emission]:
    if name == "r":
        key, ts, value = args
        placed = operator.record(ts, key=key, value=value)
        return [fire(w) for w in placed.fired] + ([("late", key, ts, value)] if placed.late else [])
    watermark = MAX if name == "end" else args[0]
    grows = name == "end" or watermark > operator.watermark
    return [fire(w) for w in operator.advance(watermark)] + ([("w", watermark)] if grows else [])


def fire(window: Window) -> Emission:
    return ("fire", window.key, window.start, window.end, window.count, window.total, clamp(window.end - 1))
