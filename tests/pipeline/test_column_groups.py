"""The groups that numpy makes of columns are those that Spark makes of rows, to the record."""

import random
from typing import Any
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from wmtop.engine.core.monitor_state import new_monitor
from wmtop.engine.core.settings import Session, Settings, Sliding, Tumbling, WindowSpec
from wmtop.engine.core.times import MAX, MIN
from wmtop.engine.pipeline.aggregate import Aggregation
from wmtop.engine.pipeline.column_groups import column_groups
from wmtop.engine.pipeline.groups import LONGEST_NAME, Levels, keys_of

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
    assert {len(name) for name in names} == {LONGEST_NAME + 1 + 8}


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


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_columns_and_rows_give_the_same_groups(spark: SparkSession, window: WindowSpec, strategy: str) -> None:
    fields = {name: getattr(STRATEGIES[strategy], name) for name in Settings.__struct_fields__}
    settings = Settings(**fields | {"window": window})
    edges = new_monitor(settings).edges
    for number, (name, levels) in enumerate(LEVELS.items()):
        replay, offsets = bool(number % 2), number != 2
        seed = crc32(f"{window} {strategy} {name}".encode())
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
        assert by_key(ours, keys) == by_key(theirs, keys), name


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
