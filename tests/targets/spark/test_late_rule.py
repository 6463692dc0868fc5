"""Which rows real Spark drops as late, row by row, against our strategy and a tap: under load, in pauses, restarted."""

import json
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from msgspec.structs import replace
from wmtop.engine import tap
from wmtop.engine.snapshot import Snapshot, SourceView
from wmtop.engine.targets.spark.facts import (
    BatchProgress,
    QueryFacts,
    QueryProgress,
    QueryStarted,
    Report,
    decode_progress,
)
from wmtop.engine.targets.spark.plan import PlanFacts, PlannedWatermark, lines_of_tree, read_plan
from wmtop.engine.targets.spark.queries import Queries
from wmtop.engine.targets.spark.query_snapshot import snapshot_of_query
from wmtop.engine.watermarks.settings import Session, Settings, Sliding, Tumbling, WindowSpec

from ...reference.ops import Batch, Op, Tick
from ...reference.ops import Row as Record
from ...watermarks.lockstep import Driver
from ...watermarks.steps import saved_and_read

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

DELAY_MS = 5_000
START_S = 1_700_000_000
WINDOWS: dict[str, WindowSpec] = {
    "tumbling": Tumbling(10_000), "sliding": Sliding(10_000, 5_000), "sessions": Session(4_000),
}  # fmt: skip
NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"

Burst = list[list[int]]
"""Files that are there at once, each a list of event times (s)."""


class Leg(NamedTuple):
    """What one start of the queries reads: bursts with pauses between them, or with `once` everything in one batch."""

    bursts: list[Burst]
    once: bool = False


def legs() -> list[Leg]:
    """Random times out of order by up to a minute; the last ones close all windows."""
    r, now = random.Random(30), START_S
    found: list[Leg] = []
    for sizes, once in (([4, 1], False), ([2], True), ([3], False)):
        bursts: list[Burst] = []
        for files in sizes:
            burst: Burst = []
            for _ in range(files):
                now += r.choice([1, 7, 20])
                burst.append([now - int(r.expovariate(1 / 20)) for _ in range(r.choice([4, 9, 15]))])
            bursts.append(burst)
        found.append(Leg(bursts, once))
    found[-1].bursts.append([[now + 1_000], [now + 2_000]])
    return found


class Reported(NamedTuple):
    """The reports of both queries, start by start, and the rows that came out of each aggregation."""

    aggregations: list[list[dict[str, Any]]]
    dedup: list[list[str]]
    emitted: dict[str, set[int]]


def queries_of(spark: "SparkSession", directory: Path) -> "tuple[DataFrame, DataFrame]":
    """One query with three aggregations of the same rows, and one with a tap that drops duplicates of the row's id."""
    from pyspark.sql import functions as F

    rows = spark.readStream.schema("id long, t long").option("maxFilesPerTrigger", 1).json(f"{directory}/in/*")
    timed = rows.select("id", F.timestamp_seconds("t").alias("ts"))
    marked = timed.withWatermark("ts", f"{DELAY_MS} milliseconds")

    def counted(kind: str, by: Any, key: "Column") -> "DataFrame":
        return (
            marked.groupBy(by.alias("w"), key.alias("key"))
            .agg(F.collect_list("id").alias("ids"))
            .select(F.lit(kind), "ids")
        )

    tumbling = counted("tumbling", F.window("ts", "10 seconds"), F.col("id"))
    sliding = counted("sliding", F.window("ts", "10 seconds", "5 seconds"), F.col("id"))
    sessions = counted("sessions", F.session_window("ts", "4 seconds"), F.col("id") >= 0)  # of one key: they merge
    tapped = tap(timed, "ts", name="rows", bucket_ms=1_000).withWatermark("ts", f"{DELAY_MS} milliseconds")
    return tumbling.union(sliding).union(sessions), tapped.dropDuplicates(["id", "ts"])


class Input:
    """The files of the queries; all of a burst are there at once."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.files, self.rows = directory, 0, 0
        (directory / "in").mkdir()

    def put(self, burst: Burst) -> None:
        written = self.directory / f"{self.files}"
        written.mkdir()
        for times in burst:
            path = written / f"{self.files:04}.json"
            path.write_text("\n".join(json.dumps({"id": self.rows + n, "t": t}) for n, t in enumerate(times)))
            os.utime(path, (START_S + self.files, START_S + self.files))  # Spark reads them in this order
            self.files, self.rows = self.files + 1, self.rows + len(times)
        written.rename(self.directory / "in" / written.name)


def run(spark: "SparkSession", directory: Path) -> dict[bool, Reported]:
    """The queries with and without batches without data, beside each other."""
    both = {no_data: Reported([], [], {name: set() for name in WINDOWS}) for no_data in (True, False)}
    found, frames = Input(directory), queries_of(spark, directory)

    def start(place: int, no_data: bool, once: bool) -> "StreamingQuery":
        def take(frame: "DataFrame", batch: int) -> None:
            for row in frame.collect():
                both[no_data].emitted[row[0]].update(row[1])

        spark.conf.set(NO_DATA, str(no_data).lower())  # a query has the settings of its start
        writer = frames[place].writeStream.option("checkpointLocation", str(directory / f"{place} {no_data}"))
        writer = writer.format("noop") if place else writer.foreachBatch(take)
        return (writer.trigger(once=True) if once else writer).outputMode("append").start()

    for leg in legs():
        if leg.once:
            found.put(leg.bursts[0])
        queries = {(place, no_data): start(place, no_data, leg.once) for no_data in both for place in (0, 1)}
        for burst in leg.bursts:
            if not leg.once:
                found.put(burst)
            for query in queries.values():
                assert query.awaitTermination(60) if leg.once else query.processAllAvailable() is None
        for (place, no_data), query in queries.items():
            # A trigger that found nothing to do is among the reports, too, with the number of the next batch.
            texts = [p.json for p in query.recentProgress]
            query.stop()
            if place:
                both[no_data].dedup.append(texts)
            else:
                executed = [p for p in map(json.loads, texts) if "addBatch" in p["durationMs"]]
                both[no_data].aggregations.append(executed)
    return both


def ops_of(leg: Leg, *, no_data: bool) -> list[Op]:
    """What the strategy is told: a batch for each file (with `once`: for all), and of a pause a tick."""
    ops: list[Op] = []
    for burst in leg.bursts:
        files = [[t for times in burst for t in times]] if leg.once else burst
        ops += [Batch(tuple(Record(0, "a", t * 1_000) for t in times), 0) for times in files]
        ops += [Tick(0)] if no_data and not leg.once else []
    return ops


def late_by_strategy(window: WindowSpec, *, no_data: bool) -> list[list[int]]:
    """The late records of each batch with data, start by start."""
    driver = Driver(Settings(strategy="spark", lateness_ms=DELAY_MS, future_guard_ms=None, window=window))
    found: list[list[int]] = []
    for leg in legs():
        driver.monitor = saved_and_read(driver.monitor)
        driver.monitor.resume()
        found.append([])
        for op in ops_of(leg, no_data=no_data):
            lines = driver.apply(op)
            if isinstance(op, Batch):
                found[-1].append(sum(line["records"] for line in lines if line["kind"] == "late"))
    return found


FILES = [[op.rows for op in ops_of(leg, no_data=False) if isinstance(op, Batch)] for leg in legs()]
SIZES = [[len(rows) for rows in leg] for leg in FILES]


@pytest.fixture(scope="module")
def reported(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Reported]:
    before = spark.conf.get(NO_DATA)
    try:
        return run(spark, tmp_path_factory.mktemp("late"))
    finally:
        spark.conf.set(NO_DATA, str(before))


@pytest.mark.parametrize("no_data", [True, False])
def test_the_strategy_drops_what_spark_drops(reported: dict[bool, Reported], no_data: bool) -> None:
    spark = reported[no_data]
    assert [[n for p in leg if (n := p["numInputRows"] // 3)] for leg in spark.aggregations] == SIZES
    assert any(p["numInputRows"] == 0 for leg in spark.aggregations for p in leg[:-2]) is no_data
    ids = iter(range(sum(map(sum, SIZES))))
    rows_of = [[{next(ids) for _ in rows} for rows in leg] for leg in FILES]
    for kind, window in WINDOWS.items():
        dropped = [[len(rows - spark.emitted[kind]) for rows in leg] for leg in rows_of]
        dropped[-1][-2:] = [0, 0]  # still open
        ours = late_by_strategy(window, no_data=no_data)
        assert ours == dropped, kind
        assert ours != late_by_strategy(window, no_data=not no_data)


def test_four_rows_in_batches_of_one(spark: "SparkSession", tmp_path: Path) -> None:
    """The third row is behind the watermark of its own batch only and is kept; the same row once more is dropped."""
    from pyspark.sql import functions as F

    times = [START_S + second for second in (20, 50, 25, 25)]
    Input(tmp_path).put([[t] for t in times])
    rows = spark.readStream.schema("id long, t long").option("maxFilesPerTrigger", 1).json(f"{tmp_path}/in/*")
    tapped = tap(rows.select("id", F.timestamp_seconds("t").alias("ts")), "ts", channel="id", bucket_ms=1_000)
    counts = tapped.withWatermark("ts", f"{DELAY_MS} milliseconds").groupBy(F.window("ts", "10 seconds"), "id").count()
    query = counts.writeStream.format("noop").option("checkpointLocation", f"{tmp_path}/cp").start()
    query.processAllAvailable()
    progress = [decode_progress(p.json) for p in query.recentProgress]
    query.stop()
    assert [one.rows for one in progress if one.rows] == [1, 1, 1, 1]
    assert sum(one.dropped for one in progress) == 1

    shown = shown_of(progress, PlanFacts((PlannedWatermark("ts", DELAY_MS, ("ts",)),)))
    [late] = [row.late for row in shown.whatif or () if row.lateness_ms == DELAY_MS]
    assert (late, len(shown.barrel.below if shown.barrel else ())) == (1, 3)  # all but the newest are behind it by now

    driver = Driver(Settings(strategy="spark", lateness_ms=DELAY_MS, future_guard_ms=None, window=Tumbling(10_000)))
    lines = [line for t in times for line in driver.apply(Batch((Record(0, "a", t * 1_000),), 0))]
    assert sum(line["records"] for line in lines if line["kind"] == "late") == 1


def shown_of(progress: Sequence[BatchProgress], plan: PlanFacts) -> Snapshot:
    """The snapshot of a query with these reports and this plan."""
    queries = Queries()
    queries.apply(QueryStarted(progress[0].id, progress[0].run_id))
    queries.set_plan(progress[0].run_id, plan, "min")
    for one in progress:
        queries.apply(QueryProgress(one))
    [found] = queries.facts()
    report = Report(tap="publish", run=found, alive=True, trouble=None)
    return snapshot_of_query(QueryFacts(report=report), name="q", source=SourceView("q", "q"), now_ms=0)


def test_a_join_counts_each_late_row(spark: "SparkSession", tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    def side(name: str) -> "tuple[Input, DataFrame]":
        (tmp_path / name).mkdir()
        put = Input(tmp_path / name)
        rows = spark.readStream.schema("id long, t long").json(f"{tmp_path}/{name}/in/*")
        timed = rows.select(F.col("id").alias(f"{name}_id"), F.timestamp_seconds("t").alias(name))
        return put, timed.withWatermark(name, f"{DELAY_MS} milliseconds")

    (orders, left), (payments, right) = side("orders"), side("payments")
    within = "orders_id = payments_id and payments between orders and orders + interval 5 seconds"
    joined = left.join(right, F.expr(within)).writeStream.format("noop")
    again = left.select(F.col("orders_id").alias("again_id"), F.col("orders").alias("again"))
    within = "orders_id = again_id and again between orders and orders + interval 5 seconds"
    with_itself = left.join(again, F.expr(within)).writeStream.format("noop")
    again = left.alias("a").join(left.alias("b"), F.expr("a.orders_id = b.orders_id and a.orders = b.orders"))
    two_sources = again.select("a.orders").writeStream.format("noop")  # as Spark reports it, the second without rows
    each_once = (joined, with_itself, two_sources)
    queries = [each.option("checkpointLocation", f"{tmp_path}/cp{id(each)}").start() for each in each_once]
    for seconds in ([50, 60], [61], [20, 20, 58]):
        orders.put([[START_S + second for second in seconds]])
        payments.put([[START_S + second for second in seconds[1:]]])
        for query in queries:
            query.processAllAvailable()
    seen: list[tuple[int, int | None, bool]] = []
    by_driver: list[int | None] = []
    for query in queries:
        progress = [decode_progress(one.json) for one in query.recentProgress]
        query.stop()
        plan = PlanFacts((PlannedWatermark("ts", DELAY_MS),), leaves=len(progress[-1].sources), reads=2)
        shown = shown_of(progress, plan).spark
        seen.append((sum(one.dropped for one in progress), shown.dropped_at_least, shown.dropped_exact))
        by_driver.append(shown_of([replace(one, sources=()) for one in progress], plan).spark.dropped_at_least)
    # Of the orders two, of the payments one; with themselves, the orders are counted on both sides.
    assert seen == [(3, 3, True), (4, 2, False), (4, 2, False)]
    assert by_driver == [2, 2, 2]  # it does not show the sources: at least half of the 3 and of the 4


@pytest.mark.parametrize(("late", "counted"), [([20, 21], 4), ([75], 2)])
def test_a_late_row_of_sliding_windows_counts_once(
    spark: "SparkSession", tmp_path: Path, late: list[int], counted: int
) -> None:
    """Spark counts it in each of its four windows, which it shares with the row beside it; or in the two that have
    ended, while the other two take it.
    """
    from pyspark.sql import functions as F

    put = Input(tmp_path)
    rows = spark.readStream.schema("id long, t long").json(f"{tmp_path}/in/*")
    timed = rows.withColumn("ts", F.timestamp_seconds("t")).withWatermark("ts", f"{DELAY_MS} milliseconds")
    counts = timed.groupBy(F.window("ts", "20 seconds", "5 seconds")).count().writeStream.format("noop")
    query = counts.outputMode("append").option("checkpointLocation", f"{tmp_path}/cp").start()
    for seconds in ([50, 90], [91], late):
        put.put([[START_S + second for second in seconds]])
        query.processAllAvailable()
    progress = [decode_progress(one.json) for one in query.recentProgress]
    tree = str(query._jsq.explainInternal(False))  # pyright: ignore[reportPrivateUsage]
    query.stop()
    shown = shown_of(progress, read_plan(lines_of_tree(tree))).spark
    in_all = sum(one.dropped for one in progress)
    assert (in_all, shown.dropped_at_least, shown.dropped_exact) == (counted, 1, False)


def use_twice(frame: "DataFrame", batch: int) -> None:
    for _ in range(2):
        frame.write.format("noop").mode("append").save()


def use_kept_rows_twice(frame: "DataFrame", batch: int) -> None:
    use_twice(frame.persist(), batch)
    frame.unpersist()


def look_then_use(frame: "DataFrame", batch: int) -> None:
    if not frame.isEmpty():
        frame.write.format("noop").mode("append").save()


def test_of_what_a_function_drops_only_that_some_are_is_known(spark: "SparkSession", tmp_path: Path) -> None:
    """Spark adds up all uses of a batch's rows in `foreachBatch`; of one that stops early nothing else shows."""
    from pyspark.sql import functions as F

    put = Input(tmp_path)
    rows = spark.readStream.schema("id long, t long").option("maxFilesPerTrigger", 1).json(f"{tmp_path}/in/*")
    marked = rows.withColumn("ts", F.timestamp_seconds("t")).withWatermark("ts", f"{DELAY_MS} milliseconds")
    windows = marked.groupBy(F.window("ts", "10 seconds"), "id").count()
    unique = marked.dropDuplicates(["id", "ts"])
    orders = marked.select(F.col("id").alias("order"), F.col("ts").alias("ordered"))
    joined = marked.join(orders, F.expr("id = order and ts = ordered"))
    put.put([[START_S + second for second in times] for times in ([0, 50], [100], [1, 2, 3, 4, 101])])
    seen: dict[str, tuple[int, int | None, int | None, bool]] = {}
    frames = {"stateStoreSave": windows, "dedupe": unique, "symmetricHashJoin": joined}
    cases = [(name, use) for name in frames for use in (use_twice, use_kept_rows_twice, look_then_use)]
    for place, (name, use) in enumerate(cases):
        writer = frames[name].writeStream.foreachBatch(use).option("checkpointLocation", f"{tmp_path}/{place}")
        query = writer.outputMode("append").trigger(availableNow=True).start()
        assert query.awaitTermination(60)
        progress = [decode_progress(one.json) for one in query.recentProgress]
        data = [one for one in progress if one.rows]
        plan = PlanFacts((PlannedWatermark("ts", DELAY_MS),), leaves=1, reads=1)
        shown = shown_of(data, plan).spark
        counted = sum(one.dropped for one in data)
        seen[f"{name} {use.__name__}"] = (
            counted, shown.dropped_at_least, shown.state_rows, shown.dropped_exact
        )  # fmt: skip
    # Four rows are late, and a join drops them on both sides. Counted by Spark, shown, rows in state:
    assert seen == {
        "stateStoreSave use_twice": (8, 1, 2, False),
        "stateStoreSave use_kept_rows_twice": (4, 1, 2, False),
        "stateStoreSave look_then_use": (8, 1, 2, False),
        "dedupe use_twice": (8, 1, 2, False),
        "dedupe use_kept_rows_twice": (4, 1, 2, False),
        "dedupe look_then_use": (8, 1, 2, False),
        "symmetricHashJoin use_twice": (16, 1, 4, False),
        "symmetricHashJoin use_kept_rows_twice": (8, 1, 4, False),
        "symmetricHashJoin look_then_use": (16, 1, 4, False),
    }


@pytest.mark.parametrize("no_data", [True, False])
def test_a_tap_counts_what_spark_drops(reported: dict[bool, Reported], no_data: bool) -> None:
    in_all = 0
    for texts in reported[no_data].dedup:
        queries = Queries()
        progress = [decode_progress(text) for text in texts]
        queries.apply(QueryStarted(progress[0].id, progress[0].run_id))
        queries.set_plan(progress[0].run_id, PlanFacts((PlannedWatermark("ts", DELAY_MS),)), "min")
        for one in progress:
            queries.apply(QueryProgress(one))
        [tapped] = [tapped for run in queries.facts() for tapped in run.inputs]
        assert (tapped.trouble, tapped.rows) == (None, sum(one.rows for one in progress))
        counts = tapped.lateness
        assert counts is not None
        late = counts.spark[counts.delays_ms.index(DELAY_MS)]
        dropped = sum(one.dropped for one in progress)
        first = next(one for one in progress if "addBatch" in one.durations_ms)
        # The watermark of the batch before a start is not reported: for the first batch the count is an upper bound.
        assert dropped <= late <= dropped + (first.rows if first.batch else 0)
        in_all += dropped
    assert in_all > 10
