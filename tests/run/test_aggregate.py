"""The one pass over a batch, against the same counted in Python."""

import random
from collections import defaultdict
from hashlib import sha256

import pytest
from pyspark.sql import SparkSession
from wmtop.engine.run.groups import Levels
from wmtop.engine.run.row_groups import Aggregation
from wmtop.engine.watermarks.lateness import bucket_of
from wmtop.engine.watermarks.monitor import new_monitor
from wmtop.engine.watermarks.settings import Session, Settings, Sliding, Tumbling, WindowSpec
from wmtop.engine.watermarks.times import MIN
from wmtop.engine.watermarks.windows import window_count

from ..watermarks.panes import pane_of

WINDOWS = [Tumbling(1000), Tumbling(700, 13), Sliding(1000, 300), Sliding(300, 1000, 7), Session(50)]
ROWS = [
    (channel, None if malformed else ts, number, number)
    for number, (channel, malformed, ts) in enumerate(
        (r.choice("abc"), r.random() < 0.05, r.randrange(-3000, 9000)) for r in [random.Random(7)] for _ in range(3000)
    )
]


def counted(settings: Settings, levels: Levels, edges: list[int]) -> dict[tuple[object, ...], list[int]]:
    """Group key -> records, behind, future."""
    groups: dict[tuple[object, ...], list[int]] = defaultdict(lambda: [0, 0, 0])
    for channel, ts, arrival, _ in ROWS:
        if ts is None:
            groups[channel, None, False, None, None][0] += 1
            continue
        start, head = pane_of(settings.window, ts)
        known = levels.w0 != MIN
        late_bucket = None
        if isinstance(settings.window, Session):
            end = ts + settings.window.gap_ms
            late_bucket = bucket_of(edges, levels.w0 - (end - 1) - settings.allowed_lateness_ms) if known else None
        elif not window_count(settings.window, head):
            late_bucket = bucket_of(edges, levels.w0 - ts - settings.allowed_lateness_ms) if known else None
        group = groups[channel, start, head, bucket_of(edges, levels.w0 - ts) if known else None, late_bucket]
        group[0] += 1
        group[1] += ts <= levels.level
        group[2] += settings.future_guard_ms is not None and ts - arrival > settings.future_guard_ms
    return groups


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("guard", [None, 2000])
@pytest.mark.parametrize("levels", [Levels(2500, 3000, None), Levels(MIN, MIN, None)], ids=["levels", "no-level"])
def test_groups_are_what_python_counts(
    spark: SparkSession, window: WindowSpec, guard: int | None, levels: Levels
) -> None:
    settings = Settings(window=window, lateness_ms=500, allowed_lateness_ms=100, future_guard_ms=guard)
    monitor = new_monitor(settings)
    batch = spark.createDataFrame(ROWS, "channel string, ts bigint, arrival bigint, offset bigint")
    observed = Aggregation(settings, monitor.edges, batch.columns).observe(batch, 0, levels, monitor)
    expected = counted(settings, levels, monitor.edges)
    groups: dict[tuple[object, ...], list[int]] = {}
    behind: dict[object, dict[object, int]] = defaultdict(dict)
    for (channel, start, head, behind_bucket, late_bucket), counts in expected.items():
        known = groups.get((channel, start, head, late_bucket), [0, 0, 0])
        groups[channel, start, head, late_bucket] = [a + b for a, b in zip(known, counts, strict=True)]
        if behind_bucket is not None:
            behind[channel][behind_bucket] = behind[channel].get(behind_bucket, 0) + counts[0]
    got = {(g.channel, g.start_ms, g.head, g.late_bucket): [g.records, g.behind, g.future] for g in observed.groups}
    assert len(got) == len(observed.groups)
    assert (got, observed.behind) == (groups, behind)
    assert observed.sample is not None
    assert {(g.channel, g.start_ms) for g in observed.sample} <= {(g.channel, g.start_ms) for g in observed.groups}
    assert observed.now_ms == ROWS[-1][2]


def test_every_bucket_edge_is_exact(spark: SparkSession) -> None:
    settings = Settings(future_guard_ms=None)
    monitor = new_monitor(settings)
    w0 = 1_700_000_000_000
    distances = sorted({edge + step for edge in monitor.edges for step in (-1, 0, 1)})
    rows = [("a", w0 - distance, 0, number) for number, distance in enumerate(distances)]
    batch = spark.createDataFrame(rows, "channel string, ts bigint, arrival bigint, offset bigint")
    observed = Aggregation(settings, monitor.edges, batch.columns).observe(batch, 0, Levels(w0, w0, None), monitor)
    got: dict[int | None, int] = {**observed.behind["a"]}
    got[None] = len(rows) - sum(got.values())
    expected: dict[int | None, int] = defaultdict(int)
    for distance in distances:
        expected[bucket_of(monitor.edges, distance)] += 1
    assert got == expected


def test_the_last_offenders_are_named(spark: SparkSession) -> None:
    rows = [("a", 10, 5, 0), ("b", 99, 6, 1), ("a", None, 7, 2), ("c", 98, 8, 3), ("b", None, 9, 4)]
    settings = Settings(future_guard_ms=50)
    monitor = new_monitor(settings)
    batch = spark.createDataFrame(rows, "channel string, ts bigint, arrival bigint, offset bigint")
    observed = Aggregation(settings, monitor.edges, batch.columns).observe(batch, 0, Levels(MIN, MIN, None), monitor)
    assert observed.last_future is not None
    assert (observed.last_future.channel, observed.last_future.offset, observed.last_future.timestamp_ms) == (
        "c",
        3,
        98,
    )
    assert observed.last_malformed is not None
    assert (observed.last_malformed.channel, observed.last_malformed.offset) == ("b", 4)


def test_long_channel_names_are_cut_and_stay_different(spark: SparkSession) -> None:
    names = ["é" * 256, "é" * 257, "é" * 256 + "x" * 5_000]
    rows = [(name, 10, 5, number) for number, name in enumerate(names)]
    batch = spark.createDataFrame(rows, "channel string, ts bigint, arrival bigint, offset bigint")
    settings = Settings()
    monitor = new_monitor(settings)
    observed = Aggregation(settings, monitor.edges, batch.columns).observe(batch, 0, Levels(MIN, MIN, None), monitor)
    expected = {names[0]} | {f"{name[:256]}~{sha256(name.encode()).hexdigest()[:8]}" for name in names[1:]}
    assert {group.channel for group in observed.groups} == expected
