"""The recent what-if against runs that really had each lateness from the start, counted batch by batch."""

from collections.abc import Iterator
from random import Random

import pytest
from msgspec.structs import replace
from wmtop.engine.watermarks.lateness import DAY, HOUR, MINUTE, SECOND, bucket_edges, wilson_interval
from wmtop.engine.watermarks.settings import Settings, Sliding, StrategyName, Tumbling

from ..reference.ops import Batch, Op, Row, Tick
from ..reference.run import Reference
from ..watermarks.lockstep import Driver
from ..watermarks.steps import saved_and_read

HORIZONS = [15 * MINUTE, HOUR, DAY, None]


def random_run(dice: Random) -> Iterator[Op]:
    """Batches and ticks at steps from seconds to hours; now and then a record without a usable time."""
    now = dice.choice([1_360_000_000_000, 17, -5 * HOUR])
    for _ in range(dice.randrange(20, 60)):
        now += dice.choice(
            [0, SECOND, 15 * SECOND, 15 * SECOND, MINUTE, 3 * MINUTE, 24 * MINUTE, 24 * MINUTE, 7 * HOUR]
        )
        if dice.random() < 0.2:
            yield Tick(now)
            continue
        rows = [
            Row(now, dice.choice("abc"), now - int(dice.expovariate(1 / dice.choice([MINUTE, HOUR]))))
            for _ in range(dice.randrange(12))
        ]
        if dice.random() < 0.1:
            rows.append(Row(now, "a", None))
        yield Batch(tuple(rows), now)


def late_by_batch(settings: Settings, lateness: int, ops: list[Op]) -> list[tuple[int, tuple[int, int, int]]]:
    """Time of each batch of a run with that lateness; its usable records, those late, those behind the watermark."""
    reference, batches = Reference(replace(settings, lateness_ms=lateness)), list[tuple[int, tuple[int, int, int]]]()
    for op in ops:
        before = reference.totals.behind_watermark
        reference.apply(op)
        if isinstance(op, Batch):
            late = sum(line["records"] for line in reference.firings[-1] if line["kind"] == "late")
            behind = reference.totals.behind_watermark - before
            batches.append((op.now, (sum(row.ts is not None for row in op.rows), late, behind)))
    return batches


def within(batches: list[tuple[int, tuple[int, int, int]]], horizon: int | None, now: int) -> tuple[int, ...]:
    """The counts of the batches in the slices (a 60th each) that began within the horizon."""
    kept = [
        counts
        for time, counts in batches
        if horizon is None or time // (horizon // 60) * (horizon // 60) > now - horizon
    ]
    return tuple(map(sum, zip(*kept, strict=True))) if kept else (0, 0, 0)


@pytest.mark.parametrize("seed", range(12))
def test_every_horizon_is_what_a_run_with_that_lateness_had(seed: int) -> None:
    dice = Random(seed)
    strategies: list[StrategyName] = ["bounded", "bounded", "bounded-legacy", "smoothed", "spark"]
    settings = Settings(
        strategy=dice.choice(strategies),
        lateness_ms=dice.choice([0, MINUTE, 11 * MINUTE]),
        idle_after_ms=dice.choice([None, 2 * MINUTE, 2 * HOUR]),
        allowed_lateness_ms=dice.choice([0, 0, MINUTE]),
        future_guard_ms=None,
        window=dice.choice([Tumbling(10 * MINUTE), Sliding(HOUR, 10 * MINUTE), Sliding(MINUTE, 3 * MINUTE)]),
    )
    ops = list(random_run(dice))
    driver, now = Driver(settings), 0
    for op in ops:
        if dice.random() < 0.1:  # resumed
            driver.monitor = saved_and_read(driver.monitor)
        driver.apply(op)
        assert isinstance(op, Batch | Tick)
        now = op.now
    edges = bucket_edges(settings.lateness_ms or 0)
    recent = driver.snapshot().whatif_recent
    assert recent is not None
    assert [horizon.horizon_ms for horizon in recent] == HORIZONS
    assert [[row.lateness_ms for row in horizon.rows] for horizon in recent] == [edges] * 4
    for place in sorted({0, edges.index(settings.lateness_ms or 0), *dice.sample(range(len(edges)), 8)}):
        batches = late_by_batch(settings, edges[place], ops)
        for horizon in recent:
            row = horizon.rows[place]
            records, late, behind = within(batches, horizon.horizon_ms, now)
            found = (horizon.records, row.late, row.behind_watermark)
            assert found == (records, late, behind), (horizon.horizon_ms, edges[place])
            assert row.late_share == (late / records if records else None)


def test_memory_is_bounded() -> None:
    driver = Driver(Settings(idle_after_ms=None, lateness_ms=MINUTE))
    for number in range(3_000):
        now = 40 * SECOND * number
        driver.apply(Batch((Row(now, "a", now), Row(now, "a", now - 5 * HOUR)), now))
    assert driver.monitor.whatif is not None
    assert max(len(horizon.slices) for horizon in driver.monitor.whatif.recent.horizons) <= 60
    recent = driver.snapshot().whatif_recent or []
    assert [horizon.records for horizon in recent][-1] == 6_000


@pytest.mark.parametrize("strategy", ["monotonous", "none"])
def test_without_a_lateness_there_is_none(strategy: StrategyName) -> None:
    assert Driver(Settings(strategy=strategy, lateness_ms=None)).snapshot().whatif_recent is None


@pytest.mark.parametrize(
    ("late", "records", "low", "high"),
    [
        (0, 10, 0.0, 0.2775),
        (1, 10, 0.0179, 0.4042),
        (5, 10, 0.2366, 0.7634),
        (10, 10, 0.7225, 1.0),
        (20, 1000, 0.0130, 0.0307),
    ],
)
def test_the_interval_is_wilsons(late: int, records: int, low: float, high: float) -> None:
    assert wilson_interval(late, records) == pytest.approx((low, high), abs=6e-5)


def test_no_records_have_no_interval() -> None:
    assert wilson_interval(0, 0) == (None, None)
