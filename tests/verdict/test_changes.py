"""A change of settings says when the first emit applied it, and how far the watermark advanced at it."""

from wmtop.engine.watermarks.settings import Settings

from ..reference.ops import Batch, Row, Tick
from ..watermarks.lockstep import Driver

MINUTE = 60_000
START = 1_360_000_000_000


def test_the_emit_that_applies_it() -> None:
    driver = Driver(Settings(lateness_ms=30 * MINUTE, idle_after_ms=None))
    driver.apply(Batch((Row(START, "a", START), Row(START, "b", START)), START))
    driver.monitor.change(lateness_ms=10 * MINUTE, who="someone", wall_ms=1)
    [waiting] = driver.snapshot().own.changes
    assert (waiting.now_ms, waiting.emitted_ms, waiting.moved_ms) == (START, None, None)
    driver.apply(Tick(START + 200))
    driver.apply(Tick(START + 400))
    driver.monitor.change(lateness_ms=20 * MINUTE, who="someone", wall_ms=1)
    driver.apply(Tick(START + 600))
    first, second = driver.snapshot().own.changes
    assert (first.emitted_ms, first.moved_ms) == (START + 200, 20 * MINUTE)
    assert (second.emitted_ms, second.moved_ms) == (START + 600, 0)


def test_before_the_first_watermark_nothing_is_said_of_the_way() -> None:
    driver = Driver(Settings(lateness_ms=30 * MINUTE))
    driver.monitor.change(lateness_ms=10 * MINUTE, who="someone", wall_ms=1)
    driver.apply(Batch((Row(START, "a", START),), START))
    [change] = driver.snapshot().own.changes
    assert (change.emitted_ms, change.moved_ms) == (START, None)
