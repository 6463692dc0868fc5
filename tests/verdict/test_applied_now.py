"""What a change does now, by the snapshot, against the real change on a copy of the monitor and its next emit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from wmtop.engine.snapshot import Snapshot
from wmtop.engine.verdict.preview import applied_now
from wmtop.engine.watermarks.monitor import Monitor
from wmtop.engine.watermarks.settings import Settings, Tumbling
from wmtop.engine.watermarks.times import MIN

from ..reference.ops import Gone, Op, Tick
from ..watermarks import scripts
from ..watermarks.examples import examples
from ..watermarks.lockstep import Driver
from ..watermarks.steps import batch, saved_and_read

Run = tuple[Settings, list[Op]]
IDLE = [UNSET, *scripts.IDLE_AFTER]


def changed(monitor: Monitor, now: int, **change: object) -> tuple[Monitor, int]:
    """A copy that really has the setting, after its next emit; and how many windows that closed."""
    copy = saved_and_read(monitor)
    copy.change(**change, who="test", wall_ms=0)  # type: ignore[arg-type]
    lines = copy.tick(now) + (copy.tick(now) if copy.settings.strategy == "spark" else [])  # emitted one batch later
    fired = [line for line in lines if line.kind == "fire"]
    return copy, len(fired)


def frozen(copy: Monitor, before: int) -> int | None:
    """From the text: how much the minimum of `max - L' - 1` of the aligned active channels lies below the watermark."""
    lateness = copy.settings.lateness_ms or 0
    wanted: list[int | None] = []
    for number, channel in enumerate(copy.channels):
        if channel.left is not None or number in copy.clock.idle or copy.clock.takes_part(number) is False:
            continue
        strategy = copy.settings.strategy
        if channel.max_event_ms is None or strategy in ("punctuated", "source", "none"):
            own = copy.clock.watermark(number)
            wanted.append(None if own == MIN else own)
        elif strategy == "smoothed":
            recent = channel.generator.recent  # type: ignore[union-attr]
            wanted.append(sum(recent) // len(recent) - 1 - lateness)
        else:
            wanted.append(channel.max_event_ms - lateness - (strategy != "bounded-legacy"))
    if before == MIN or not wanted:
        return 0
    known = [watermark for watermark in wanted if watermark is not None]
    return None if len(known) < len(wanted) else max(0, before - min(known))


def compare(monitor: Monitor, snapshot: Snapshot, **change: object) -> None:
    reported = applied_now(snapshot, **change)  # type: ignore[arg-type]
    assert reported is not None
    copy, fired = changed(monitor, snapshot.now_ms or 0, **change)
    holder = copy.clock.holder()
    real = (copy.shown(copy.level), None if holder is None else copy.channels[holder].name, fired)
    assert (reported.watermark_ms, reported.holder, reported.fires) == real
    assert reported.frozen_ms == frozen(copy, monitor.level)


@examples(400)
@given(scripts.runs(["bounded", "bounded", "bounded-legacy", "smoothed"]), scripts.lateness, st.sampled_from(IDLE))
def test_a_lateness_and_an_idle_timeout(run: Run, lateness: int, idle: object) -> None:
    settings, ops = run
    driver = Driver(settings)
    for op in ops[:-1]:
        driver.apply(op)
        snapshot = driver.snapshot()
        if driver.monitor.ended or snapshot.now_ms is None:
            continue
        compare(driver.monitor, snapshot, lateness_ms=lateness)
        if idle is not UNSET:
            compare(driver.monitor, snapshot, idle_after_ms=idle)
            compare(driver.monitor, snapshot, lateness_ms=lateness, idle_after_ms=idle)


@examples(120)
@given(scripts.runs(["monotonous", "punctuated", "source", "none"]), st.sampled_from(scripts.IDLE_AFTER))
def test_an_idle_timeout_of_other_strategies(run: Run, idle: int | None) -> None:
    settings, ops = run
    driver = Driver(settings)
    for op in ops[:-1]:
        driver.apply(op)
        if not driver.monitor.ended and driver.snapshot().now_ms is not None:
            compare(driver.monitor, driver.snapshot(), idle_after_ms=idle)


@examples(100)
@given(scripts.runs(["spark"]), scripts.lateness)
def test_a_delay_of_sparks_clock(run: Run, delay: int) -> None:
    settings, ops = run
    driver = Driver(settings)
    for op in ops[:-1]:
        driver.apply(op)
        snapshot = driver.snapshot()
        reported = applied_now(snapshot, lateness_ms=delay)
        if driver.monitor.ended or snapshot.now_ms is None:
            continue
        assert reported is not None
        copy, fired = changed(driver.monitor, snapshot.now_ms or 0, lateness_ms=delay)
        assert (reported.watermark_ms, reported.holder, reported.fires) == (copy.shown(copy.level), None, fired)
        reached = [c.max_event_ms for c in copy.channels if c.left is None and c.max_event_ms is not None]
        frozen_ms = max(0, driver.monitor.level - (max(reached) - delay - 1)) if reached else 0
        assert reported.frozen_ms == frozen_ms


def test_a_lower_lateness_closes_what_it_reaches_and_a_higher_one_freezes() -> None:
    """
    a  100   b  80     lateness 50: watermark 29; 10: 69; 70: 9, so 20 ms must come first
    """
    driver = Driver(Settings(lateness_ms=50, idle_after_ms=10))
    for op in (batch(1, ("a", 100), ("b", 80)), batch(20, ("a", 101)), Tick(21), Tick(22)):
        driver.apply(op)
    lower, higher = (applied_now(driver.snapshot(), lateness_ms=lateness) for lateness in (10, 70))
    assert lower is not None
    assert higher is not None
    assert (lower.watermark_ms, lower.holder, lower.frozen_ms) == (69, "b", 0)
    assert (higher.watermark_ms, higher.holder, higher.frozen_ms) == (29, "b", 20)


def test_what_sparks_clock_has_closed_fires_also_after_its_channels_have_left() -> None:
    driver = Driver(Settings(strategy="spark", lateness_ms=0, window=Tumbling(1)))
    for op in (batch(1, ("a", 10)), batch(2, ("a", 11)), Gone(("a",), 3)):
        driver.apply(op)
    reported = applied_now(driver.snapshot(), lateness_ms=0)
    assert reported is not None
    copy, fired = changed(driver.monitor, 3, lateness_ms=0)
    assert (reported.watermark_ms, reported.fires) == (copy.shown(copy.level), fired) == (11, 1)


def test_a_setting_that_the_strategy_lacks_is_refused() -> None:
    driver = Driver(Settings(strategy="punctuated", lateness_ms=None))
    driver.apply(batch(1, ("a", 5)))
    with pytest.raises(ValueError, match="punctuated"):
        applied_now(driver.snapshot(), lateness_ms=1)


def test_without_an_emit_interval_a_change_does_nothing() -> None:
    driver = Driver(Settings(strategy="spark", lateness_ms=0, emit_every_ms=0))
    driver.apply(batch(1, ("a", 5)))
    reported = applied_now(driver.snapshot(), lateness_ms=3)
    assert reported is not None
    assert (reported.watermark_ms, reported.fires, reported.frozen_ms) == (None, 0, 0)
