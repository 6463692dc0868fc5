"""The autopilot against section 11.5, once more from its text: lists of everything that was seen."""

from bisect import bisect_left
from collections.abc import Iterator
from fractions import Fraction
from random import Random

import pytest
from msgspec.structs import replace
from wmtop.engine.core.lateness import HOUR, MINUTE, SECOND, bucket_edges
from wmtop.engine.core.monitor_state import decode_monitor, encode_monitor
from wmtop.engine.core.settings import AutoLateness, Settings, Tumbling
from wmtop.engine.core.snapshot import SettingsChange

from tests.core.lockstep import Driver
from tests.reference.ops import Batch, Finished, Op, Row, SetLateness, Tick
from tests.reference.run import Reference

SIZE = 10 * MINUTE


class AutopilotReference:
    """What 11.5 sets, and when; tumbling windows of `SIZE`, no allowed lateness."""

    def __init__(self, settings: Settings) -> None:
        assert settings.auto is not None
        assert settings.auto.target is not None
        self.auto, self.target = settings.auto, Fraction(str(settings.auto.target))
        self.reference = Reference(settings)
        self.lateness = settings.lateness_ms or 0
        self.edges = [e for e in bucket_edges(self.lateness) if self.auto.min_ms <= e <= self.auto.max_ms]
        self.started: int | None = None
        self.checked = 0
        self.suspended_until: int | None = None
        self.records: list[tuple[int, int]] = []
        """When it came, and how far the watermark at lateness 0 was past its window's end then."""
        self.evaluated: list[tuple[int, int]] = []
        self.set: list[tuple[int, int, float]] = []

    def apply(self, op: Op) -> None:
        w0 = self.reference.shadow.level
        self.reference.apply(op)
        if isinstance(op, SetLateness):
            now = self.records[-1][0] if self.checked == 0 else self.checked
            self.lateness, self.evaluated, self.suspended_until = op.lateness, [], now + self.auto.horizon_ms
        if isinstance(op, Batch):
            for row in op.rows:
                if row.ts is not None:
                    self.records.append((op.now, w0 - (row.ts // SIZE * SIZE + SIZE - 1)))
        if isinstance(op, Batch | Tick):
            self.pass_time(op.now)

    def pass_time(self, now: int) -> None:
        if self.started is None:
            self.started = self.checked = now
        every = self.auto.every_ms
        due = (now - self.started) // every > (self.checked - self.started) // every
        self.checked = now
        if due and (self.suspended_until is None or now >= self.suspended_until):
            self.evaluate(now)

    def evaluate(self, now: int) -> None:
        horizon = self.auto.horizon_ms
        part = horizon // 60
        came = sorted(distance for time, distance in self.records if time // part * part > now - horizon)
        if len(came) < 1_000:
            self.evaluated = []
            return

        def late_share(edge: int) -> Fraction:
            return Fraction(len(came) - bisect_left(came, edge), len(came))

        wanted = next((edge for edge in self.edges if late_share(edge) <= 1 - self.target), self.edges[-1])
        self.evaluated.append((now, wanted))
        last_horizon = [edge for time, edge in self.evaluated if time > now - horizon]
        full = self.evaluated[0][0] <= now - horizon
        new = wanted if wanted > self.lateness else None
        if wanted < self.lateness and full and all(edge < self.lateness for edge in last_horizon):
            new = max(last_horizon)
        if new is not None:
            self.lateness = new
            self.set.append((now, new, float(late_share(new))))


def random_run(dice: Random) -> Iterator[Op]:
    """Batches and ticks; how late records are changes now and then, a manual change comes in between, and a lull."""
    now, late_ms = 1_360_000_000_000, MINUTE
    for number in range(260):
        now += dice.choice([5 * SECOND, 20 * SECOND, MINUTE, MINUTE, MINUTE, 2 * MINUTE])
        if number % 40 == 0:
            late_ms = dice.choice([SECOND, MINUTE, 10 * MINUTE, 40 * MINUTE])
        if number == 150 and dice.random() < 0.6:
            now += 2 * HOUR
        if dice.random() < 0.15:
            yield Tick(now)
            continue
        if number > 30 and dice.random() < 0.01:
            yield SetLateness(dice.choice([0, MINUTE, 3 * HOUR, 12_345]))
        times = [now - int(dice.expovariate(1 / late_ms)) for _ in range(dice.randrange(30, 80))]
        yield Batch(tuple(Row(now, dice.choice("ab"), ts) for ts in times), now)


@pytest.mark.parametrize("seed", [0, 1, 2, 4, 5, 6, 7, 8])
def test_it_sets_what_the_text_says(seed: int) -> None:
    dice = Random(seed)
    auto = AutoLateness(
        target=dice.choice([0.99, 0.95, 0.9]),
        min_ms=dice.choice([0, 0, MINUTE, 90 * SECOND]),
        max_ms=dice.choice([30 * 24 * HOUR, 2 * HOUR, 4_000_000]),
        horizon_ms=dice.choice([30 * MINUTE, 45 * MINUTE, HOUR]),
        every_ms=dice.choice([MINUTE, 90 * SECOND, 7 * MINUTE]),
    )
    settings = Settings(
        lateness_ms=dice.choice([0, 30 * MINUTE, 10 * HOUR]),
        idle_after_ms=None,
        future_guard_ms=None,
        window=Tumbling(SIZE),
        auto=auto,
    )
    driver, expected = Driver(settings), AutopilotReference(settings)
    made: dict[int, SettingsChange] = {}
    for op in random_run(dice):
        if dice.random() < 0.02:  # resumed
            driver.monitor = decode_monitor(encode_monitor(driver.monitor))
        driver.apply(op)
        expected.apply(op)
        made |= {change.version: change for change in driver.snapshot().changes if change.who == "auto"}
        assert [(c.now_ms, c.lateness_ms, c.share) for c in made.values()] == expected.set, op
        assert driver.monitor.settings.lateness_ms == expected.lateness
        shown = driver.snapshot().auto
        assert shown is not None
        assert (shown.next_ms is not None) == (expected.started is not None)
        if shown.next_ms is not None:
            assert shown.next_ms > expected.checked
    assert len(expected.set) > 1


def steady(auto: AutoLateness, lateness: int) -> Driver:
    return Driver(Settings(lateness_ms=lateness, idle_after_ms=None, window=Tumbling(1), auto=auto))


def send(driver: Driver, now: int, late: int, age_ms: int) -> None:
    """100 records that come at `now`, `late` of them that old."""
    rows = [Row(now, "a", now)] * (100 - late) + [Row(now, "a", now - age_ms)] * late
    driver.apply(Batch(tuple(rows), now))


def suspended_until(driver: Driver) -> int | None:
    shown = driver.snapshot().auto
    assert shown is not None
    return shown.suspended_until_ms


LATE = MINUTE + 4 * SECOND
"""4 s older than the newest record of the batch a minute before."""


def test_worked_example() -> None:
    """
    A batch of 100 a minute, 2 of them 4 s late: from minute 9 on there are 1,000 in the horizon of 10 min. Keeping
    99 % needs 5 s: at 3 s 1.8 % would be late. From minute 20 on none is late: in minute 24 the horizon has 10 late
    ones, which 0 s may have, and in minute 33 the last evaluation that recommended 5 s is 10 min old.
    """
    driver = steady(AutoLateness(target=0.99, horizon_ms=10 * MINUTE), 0)
    seen: list[tuple[int, object, float | None]] = []
    for minute in range(60):
        send(driver, minute * MINUTE, 2 if minute < 20 else 0, LATE)
        seen = [(int((c.now_ms or 0) / MINUTE), c.lateness_ms, c.share) for c in driver.snapshot().changes]
    assert seen == [(9, 5 * SECOND, 0.0), (33, 0, 0.0)]
    assert {change.who for change in driver.snapshot().changes} == {"auto"}


def test_a_manual_lateness_suspends_it_for_one_horizon_and_an_idle_timeout_does_not() -> None:
    driver = steady(AutoLateness(target=0.99, horizon_ms=10 * MINUTE), 0)
    for minute in range(12):
        send(driver, minute * MINUTE, 5, LATE)
    driver.monitor.change(idle_after_ms=HOUR, who="test", wall_ms=0)
    assert suspended_until(driver) is None
    driver.monitor.change(lateness_ms=0, who="test", wall_ms=0)
    assert suspended_until(driver) == 21 * MINUTE
    for minute in range(12, 21):
        send(driver, minute * MINUTE, 5, LATE)
        assert driver.monitor.settings.lateness_ms == 0
    send(driver, 21 * MINUTE, 5, LATE)
    assert driver.monitor.settings.lateness_ms == 5 * SECOND
    assert suspended_until(driver) is None


def test_it_is_switched_on_and_off_while_it_runs() -> None:
    driver = Driver(Settings(lateness_ms=0, idle_after_ms=None, window=Tumbling(1)))
    assert driver.snapshot().auto is None
    for minute in range(12):
        send(driver, minute * MINUTE, 5, LATE)
    driver.monitor.change(auto_lateness=0.99, who="test", wall_ms=0)
    for minute in range(12, 14):
        send(driver, minute * MINUTE, 5, LATE)
    assert driver.monitor.settings.lateness_ms == 5 * SECOND
    driver.monitor.change(auto_lateness=None, who="test", wall_ms=0)
    driver.monitor.change(lateness_ms=0, who="test", wall_ms=0)
    for minute in range(14, 100):
        send(driver, minute * MINUTE, 5, LATE)
    assert driver.monitor.settings.lateness_ms == 0
    assert driver.snapshot().auto is None
    assert [change.auto_lateness for change in driver.snapshot().changes if change.who == "test"][:2] == [0.99, None]


def test_an_evaluation_is_due_between_batches_too() -> None:
    """200 ms after its last emit the monitor owes no tick but the autopilot's."""
    driver = steady(AutoLateness(target=0.99, every_ms=MINUTE), 0)
    for second in range(12):
        send(driver, second * SECOND, 5, 5 * SECOND)
    driver.monitor.tick_until(59 * SECOND)
    assert driver.monitor.settings.lateness_ms == 0
    before = driver.monitor.durable_fingerprint()
    driver.monitor.tick_until(61 * SECOND)
    assert driver.monitor.settings.lateness_ms == 5 * SECOND
    assert driver.monitor.durable_fingerprint() != before


def test_a_strategy_without_a_lateness_refuses_it() -> None:
    driver = Driver(Settings(strategy="monotonous", lateness_ms=None))
    with pytest.raises(ValueError, match="monotonous"):
        driver.monitor.change(auto_lateness=0.99, who="test", wall_ms=0)


def test_a_finished_channel_of_an_instance_is_not_aligned() -> None:
    driver = Driver(Settings(lateness_ms=0, subtasks=1, idle_after_ms=None))
    driver.apply(Batch((Row(1, "a", 1), Row(1, "b", 1)), 1))
    driver.apply(Finished(("a",), 2))
    assert {view.channel: view.aligned for view in driver.snapshot().channels} == {"a": False, "b": True}


def test_the_first_evaluations_after_a_restart_lower_nothing() -> None:
    """A gap of downtime leaves no evidence of a full horizon."""
    driver = steady(AutoLateness(target=0.99, horizon_ms=10 * MINUTE), HOUR)
    for minute in range(15):
        send(driver, minute * MINUTE, 0, 0)
    driver.monitor.autopilot.forget()
    for minute in range(15, 25):
        send(driver, minute * MINUTE, 0, 0)
        assert driver.monitor.settings.lateness_ms == HOUR
    send(driver, 25 * MINUTE, 0, 0)
    assert replace(driver.monitor.settings, version=1).lateness_ms == 0
