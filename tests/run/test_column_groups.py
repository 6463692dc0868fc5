"""The groups that numpy makes of columns are those that Spark makes of rows, to the record."""

import random
from bisect import bisect_right
from collections.abc import Iterator
from itertools import product
from typing import Any
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from wmtop.engine.run.column_groups import column_groups
from wmtop.engine.run.groups import MAX_NAME, Levels, keys_of
from wmtop.engine.run.row_groups import Aggregation
from wmtop.engine.watermarks.monitor import new_monitor
from wmtop.engine.watermarks.settings import Session, Settings, Sliding, Tumbling, WindowSpec
from wmtop.engine.watermarks.times import FIRST_USABLE_MS, LAST_USABLE_MS, MAX, MIN

WINDOWS = [
    Tumbling(1000),
    Tumbling(700, 13),
    Sliding(1000, 300),
    Sliding(1000, 250, 9),
    Sliding(300, 1000, 7),
    Sliding(3000, 10_000, 7),
    Session(50),
    Session(5000),
]
LEVELS = {"levels": Levels(2500, 3000, 4000), "no-level": Levels(MIN, MIN, 4000), "ended": Levels(MAX, MAX, 4000)}
STRATEGIES: dict[str, Settings] = {
    "bounded": Settings(lateness_ms=500),
    "guarded": Settings(lateness_ms=73, future_guard_ms=2000, allowed_lateness_ms=100),
    "spark": Settings(strategy="spark", lateness_ms=0, future_guard_ms=None),
    "source": Settings(strategy="source", lateness_ms=None, watermark_column="w", future_guard_ms=900),
    "none": Settings(strategy="none", lateness_ms=None),
}


@pytest.mark.parametrize("allowed", [0, 50, MAX])
@pytest.mark.parametrize(("level", "late"), [(MIN, False), (MAX, True)])
def test_at_the_end_of_time_every_record_between_windows_is_late(allowed: int, level: int, late: bool) -> None:
    """`ts + allowed_lateness` saturates at the greatest time, which the watermark has reached."""
    settings = Settings(window=Sliding(300, 1000), allowed_lateness_ms=allowed)
    rows = pa.table({"channel": pa.array(["a"]).dictionary_encode(), "ts": pa.array([500], pa.int64())})
    assert column_groups(rows, settings, [], Levels(level, level, 0))["late_in_gap"].to_pylist() == [late]


def test_a_name_of_megabytes_is_cut_and_differs_from_others() -> None:
    long = "x" * 5_000_000
    rows = pa.table(
        {"channel": pa.array([long, long + "y"]).dictionary_encode(), "ts": pa.array([500, 600], pa.int64())}
    )
    names = column_groups(rows, Settings(), [], Levels(MIN, MIN, 0))["channel"].to_pylist()
    assert len(set(names)) == 2
    assert {len(name) for name in names} == {MAX_NAME + 1 + 8}


def draw(seed: int, *, replay: bool, offsets: bool, watermarks: bool) -> pa.Table:
    """Records with null times, arrivals and watermarks; names that are too long, and times before 1970."""
    r = random.Random(seed)
    names = ["a", "b", "", "é" * 256, "é" * 257, "(none)"]
    span = r.choice([50, 9_000, 10**12])

    def long(chance: float) -> int | None:
        return None if r.random() < chance else r.randrange(-3_000, span)

    count = 400
    columns: dict[str, Any] = {
        "channel": [r.choice(names) for _ in range(count)],
        "ts": [long(0.1) for _ in range(count)],
    }
    if offsets:
        columns["offset"] = list(range(5, 5 + count))
    if replay:
        columns["arrival"] = [long(0.05) for _ in range(count)]
    if watermarks:
        columns["source_watermark"] = [long(0.3) for _ in range(count)]
    text = {"channel": pa.string()}
    return pa.table({name: pa.array(values, text.get(name, pa.int64())) for name, values in columns.items()})


def by_key(table: pa.Table, keys: list[str]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Rows by key, which must be unique; a count that is not asked for is 0."""
    rows = table.to_pylist()
    found = {tuple(row.pop(key) for key in keys): row for row in rows}
    assert len(found) == len(rows)
    return found


def cases() -> Iterator[Any]:
    """Every window with every strategy and level; the third outside the matrix has each pair of them."""
    for (w, window), (s, strategy), (number, level) in product(*map(enumerate, (WINDOWS, STRATEGIES, LEVELS))):
        marks = [] if (w + s) % len(LEVELS) == number else [pytest.mark.matrix]
        yield pytest.param(window, strategy, level, number, marks=marks, id=f"{strategy}-{window}-{level}")


@pytest.mark.parametrize(("window", "strategy", "level", "number"), cases())
def test_columns_and_rows_give_the_same_groups(
    spark: SparkSession, window: WindowSpec, strategy: str, level: str, number: int
) -> None:
    fields = {name: getattr(STRATEGIES[strategy], name) for name in Settings.__struct_fields__}
    settings = Settings(**fields | {"window": window})
    edges = new_monitor(settings).edges
    levels = LEVELS[level]
    replay, offsets = bool(number % 2), number != 2
    seed = crc32(f"{window} {strategy} {level}".encode())
    rows = draw(seed, replay=replay, offsets=offsets, watermarks=strategy == "source")
    frame = spark.createDataFrame(rows)
    if not offsets:
        frame = frame.selectExpr("*", "cast(null as bigint) as offset")
    theirs = Aggregation(settings, edges, frame.columns).table(frame, levels)
    encoded = rows.set_column(0, "channel", rows["channel"].dictionary_encode())
    ours = column_groups(encoded, settings, edges, levels)
    assert set(ours.column_names) == set(theirs.column_names)
    if replay:  # of arrivals only the greatest counts
        assert pc.max(ours["arrival"]) == pc.max(theirs["arrival"])
        ours, theirs = ours.drop_columns("arrival"), theirs.drop_columns("arrival")
    keys = ["channel", "start", *keys_of(settings, edges).sizes]
    if not offsets and "future_ms" in ours.column_names:  # any of a group's future records
        ours, theirs = ours.drop_columns("future_ms"), theirs.drop_columns("future_ms")
    assert by_key(ours, keys) == by_key(theirs, keys)


@pytest.mark.parametrize("window", [Tumbling(1000), Session(50)], ids=str)
def test_numbered_channels_give_the_groups_of_named_ones(spark: SparkSession, window: WindowSpec) -> None:
    """Both with the other keys packed into the start and without."""
    settings, levels = Settings(window=window, lateness_ms=500), LEVELS["levels"]
    edges = new_monitor(settings).edges
    rows = draw(1, replay=False, offsets=True, watermarks=False)
    numbers = rows["channel"].combine_chunks().dictionary_encode()
    names = numbers.dictionary.to_pylist()
    frame = spark.createDataFrame(rows.append_column("part", numbers.indices.cast(pa.int64())))
    named = Aggregation(settings, edges, rows.column_names).table(frame, levels)
    numbered = Aggregation(settings, edges, frame.columns, names.__getitem__).table(frame, levels)
    keys = ["channel", "start", *keys_of(settings, edges).sizes]
    assert by_key(numbered, keys) == by_key(named, keys)


def expected(rows: pa.Table, settings: Settings, edges: list[int], levels: Levels) -> dict[tuple[Any, ...], Any]:
    """Records and greatest time by key, record by record; `level` and `w0` are watermarks."""
    window, allowed = settings.window, settings.allowed_lateness_ms
    every, offset = (window.gap_ms, 0) if isinstance(window, Session) else (window.slide_ms, window.offset_ms)
    size = every if isinstance(window, Session) else window.size_ms
    found: dict[tuple[Any, ...], Any] = {}
    columns = [rows[name].to_pylist() for name in ("channel", "ts")]
    arrivals = rows["arrival"].to_pylist() if "arrival" in rows.column_names else [levels.now_ms] * rows.num_rows
    for channel, ts, arrival in zip(*columns, arrivals, strict=True):
        key: dict[str, Any] = {"head": False, "behind_bucket": -1, "late_bucket": -1, "is_behind": False}
        start, key["is_future"] = None, False
        if ts is not None:
            start = ts - (ts - offset) % every
            key["head"] = size % every > 0 and not isinstance(window, Session) and ts - start < size % every
            key["behind_bucket"] = bisect_right(edges, levels.w0 - ts) - 1
            if not key["head"]:
                own_end = ts + window.gap_ms if isinstance(window, Session) else ts + 1
                key["late_bucket"] = bisect_right(edges, levels.w0 - (own_end - 1) - allowed) - 1
            key["is_behind"] = ts <= levels.level
            guard = settings.future_guard_ms
            key["is_future"] = guard is not None and arrival is not None and ts - arrival > guard
        full = (channel, start, *(key[name] for name in keys_of(settings, edges).sizes))
        before = found.get(full, (0, None))
        found[full] = (before[0] + 1, ts if before[1] is None or ts is None else max(before[1], ts))
    return found


@pytest.mark.parametrize("window", [*WINDOWS, Tumbling(86_400_000_000)], ids=str)
@pytest.mark.parametrize("span", [60_000, 40_000_000, 10**12])
def test_many_records_give_the_groups_of_each_record_alone(window: WindowSpec, span: int) -> None:
    """So many that their times are looked up in a table; times lie on the edges of buckets, too, and at the ends of
    the usable range; channels are few or so many that most keys do not occur.
    """
    r = random.Random(crc32(f"{window} {span}".encode()))
    w0 = r.choice([FIRST_USABLE_MS + span, LAST_USABLE_MS, r.randrange(-span, span)])
    levels = Levels(w0 - r.choice([0, 500]), w0, w0 - span // 2)
    guard = r.choice([None, 1_000])
    settings = Settings(window=window, lateness_ms=500, allowed_lateness_ms=r.choice([0, 70]), future_guard_ms=guard)
    edges = new_monitor(settings).edges if r.random() < 0.7 else []
    count, some = 17_000, [0, *edges[:30]]
    first, last = max(w0 - span, FIRST_USABLE_MS), min(w0 + span, LAST_USABLE_MS)
    times = [
        min(last, max(first, w0 - r.choice(some) + r.randrange(-1, 2))) if r.random() < 0.3 else r.randint(first, last)
        for _ in range(count)
    ]
    nulls = r.choice([0, 0.1])
    names = [f"c{number}" for number in range(r.choice([1, 7, 3_000]))]
    columns: dict[str, Any] = {
        "channel": pa.array(r.choices(names, k=count)),
        "ts": pa.array([None if r.random() < nulls else time for time in times], pa.int64()),
    }
    if r.random() < 0.5:
        arrivals = [None if r.random() < nulls else time + r.randrange(-2_000, 2_000) for time in times]
        columns["arrival"] = pa.array(arrivals, pa.int64())
    rows = pa.table(columns)
    cut = r.randrange(count)
    encoded = pa.concat_tables(
        part.set_column(0, "channel", part["channel"].dictionary_encode()) for part in (rows[:cut], rows[cut:])
    )
    table = column_groups(encoded, settings, edges, levels)
    keys = ["channel", "start", *keys_of(settings, edges).sizes]
    groups = by_key(table.select([*keys, "records", "max_event_ms"]), keys)
    ours = {key: (group["records"], group["max_event_ms"]) for key, group in groups.items()}
    assert ours == expected(rows, settings, edges, levels)
