"""The watermark nodes of others' queries, and what the slowest channel would give: by hand, without Spark."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from wmtop.engine.snapshot import ChannelView, SourceView, StatefulOperator, WatermarkNode
from wmtop.engine.targets.spark.checkpoint import CheckpointFacts, WatermarkDelay
from wmtop.engine.targets.spark.facts import (
    Application,
    BatchProgress,
    EventMax,
    ExecutionStart,
    QueryFacts,
    QueryRun,
    Report,
    SourceProgress,
)
from wmtop.engine.targets.spark.inputs import Channels, channels_of, channels_of_taps, channels_of_topics
from wmtop.engine.targets.spark.nodes import Node, Nodes, Policy, nodes_of
from wmtop.engine.targets.spark.plan import ADVANCEMENT, PlanFacts, PlannedWatermark
from wmtop.engine.targets.spark.queries import Queries
from wmtop.engine.targets.spark.query_snapshot import snapshot_of_query
from wmtop.engine.targets.spark.reports import report_of
from wmtop.engine.targets.spark.tapped import ChannelFacts, InputBatch, InputFacts, LatenessCounts, Sampled
from wmtop.engine.targets.spark.watermark import barrel_rule, barrel_watermark, frozen_ms, views_of
from wmtop.engine.targets.topic import PartitionFacts, TopicFacts


def tap(name: str, channels: dict[str, int], **more: Any) -> InputFacts:
    known: dict[str, Any] = {
        "name": name,
        "rows": 10 * len(channels),
        "nulls": 0,
        "max_ms": max(channels.values(), default=None),
        "barrel_ms": min(channels.values(), default=None),
        "channels": {channel: ChannelFacts(ms, 10) for channel, ms in channels.items()},
        "sampled": None,
        "lateness": None,
        "recent": (),
    }
    return InputFacts(**known | more)


def run(*inputs: InputFacts, plan: PlanFacts | None = None) -> QueryRun:
    return QueryRun(
        id="i", run_id="r", name="q", last_event_ms=0, idle_ms=None, ended=False, error=None,
        running=None, progress=None, plan=plan, watermark_policy="min", max_event_ms=None, dropped_at_least=0,
        history=(), inputs=inputs,
    )  # fmt: skip


def reported(last: QueryRun) -> QueryFacts:
    """The facts of a query that only its job reports."""
    return QueryFacts(report=Report(tap="publish", run=last, alive=True, trouble=None))


def planned(*inputs: InputFacts, policy: Policy | None = "min", plan: PlanFacts | None = None) -> Nodes:
    last = replace(run(*inputs, plan=PLAN if plan is None else plan), watermark_policy=policy)
    return nodes_of(reported(last))


ORDERS, RETURNS = tap("orders", {"a": 90_000, "b": 40_000}), tap("returns", {"x": 70_000})
PLAN = PlanFacts((PlannedWatermark("ts", 30_000, ("orders",)), PlannedWatermark("at", 5_000, ("returns",))))


def test_the_plan_knows_the_nodes_better_than_the_state() -> None:
    old = WatermarkDelay(10_000, "ts", windowed=False, operator=0)
    again = WatermarkDelay(10_000, "window", windowed=True, operator=1)
    checkpoint = CheckpointFacts(delays=(old, again))
    stored = (Node(column="ts", delay_ms=10_000),)
    assert nodes_of(QueryFacts(checkpoint=checkpoint)) == Nodes(stored)
    assert nodes_of(replace(reported(run()), checkpoint=checkpoint)) == Nodes(stored, "min")
    assert nodes_of(replace(reported(run(ORDERS, plan=PLAN)), checkpoint=checkpoint)).nodes == (
        Node(column="ts", delay_ms=30_000, taps=(ORDERS,), first_delay_ms=10_000),
        Node(column="at", delay_ms=5_000),
    )
    assert nodes_of(QueryFacts()) == Nodes()
    assert Nodes(stored).delay_ms == 10_000
    assert planned().delay_ms is None


@pytest.mark.parametrize(
    ("inputs", "level", "policy", "is_at", "holds"),
    [
        ((ORDERS, RETURNS), 60_000, "min", (60_000, 65_000), 0),
        ((ORDERS, RETURNS), 65_000, "max", (60_000, 65_000), 1),
        ((ORDERS,), 60_000, "min", (60_000, None), 0),
        ((ORDERS,), 50_000, "min", (60_000, 50_000), 1),  # below all that are known: the other one holds it, there
        ((RETURNS,), 50_000, "min", (50_000, 65_000), 0),
        ((ORDERS,), 80_000, "max", (60_000, 80_000), 1),
        ((ORDERS,), 70_000, "min", (60_000, None), None),  # it stood higher before a restart
        ((ORDERS,), None, "min", (60_000, None), None),
        ((ORDERS,), 60_000, None, (60_000, None), None),
        ((), 50_000, "min", (None, None), None),
    ],
)
def test_which_of_two_nodes_holds(
    inputs: tuple[InputFacts, ...], level: int | None, policy: Any, is_at: tuple[int | None, ...], holds: int | None
) -> None:
    assert views_of(planned(*inputs, policy=policy), level, is_next=True, is_own=True) == [
        WatermarkNode("ts", 30_000, is_at[0], holds=holds == 0),
        WatermarkNode("at", 5_000, is_at[1], holds=holds == 1),
    ]


@pytest.mark.parametrize(
    ("level", "policy", "is_next", "is_own", "is_at", "holds"),
    [
        (50_000, "min", False, True, (60_000, None), None),  # it was so in the last batch: now it may be higher
        (50_000, "min", True, False, (60_000, None), 1),  # the run before left it there: at most
        (80_000, "max", True, False, (60_000, None), None),
    ],
)
def test_a_watermark_that_is_not_the_present_run_s_own_is_no_node_s(
    level: int, policy: Any, is_next: bool, is_own: bool, is_at: tuple[int | None, ...], holds: int | None
) -> None:
    shown = views_of(planned(ORDERS, policy=policy), level, is_next=is_next, is_own=is_own)
    assert [(node.watermark_ms, node.holds) for node in shown] == [
        (is_at[0], holds == 0), (is_at[1], holds == 1),
    ]  # fmt: skip


@pytest.mark.parametrize(("rows", "unmoved", "is_known"), [((5, 0), 3, True), ((5, 2), 3, False), ((5, 0), 1, False)])
def test_an_input_that_spark_hides_holds_an_unmoved_watermark(
    rows: tuple[int, int], unmoved: int, is_known: bool
) -> None:
    """Without a checkpoint: the next watermark is that of the last batch where no row may have moved it."""
    sources = tuple(SourceProgress("s", num_input_rows=number) for number in rows)
    in_force = {"watermark": "1970-01-01T00:00:20.000Z"}
    progress = BatchProgress("i", "r", 9, timestamp="1970-01-01T00:02:00.000Z", event_time=in_force, sources=sources)
    nodes = tuple(PlannedWatermark("ts", 5_000, sources=(place,)) for place in (0, 1))
    last = replace(
        run(plan=PlanFacts(nodes, leaves=2)), progress=progress, silent=(), unmoved=unmoved, first_watermark_ms=1,
        event_max=(EventMax((0, 1), 60_000), EventMax((0,), 90_000)),
    )  # fmt: skip
    shown = snapshot_of_query(reported(last), name="q", source=SourceView("event log", "l"), now_ms=130_000).spark
    assert [node.holds for node in shown.nodes or ()] == [False, is_known]
    assert shown.watermark_ms == (20_000 if is_known else None)


def test_the_barrels_level_needs_every_channel() -> None:
    both = (ORDERS, RETURNS)
    assert barrel_watermark(planned(*both)) == 10_000
    assert barrel_watermark(planned(*both, policy="max")) == 65_000
    assert barrel_watermark(planned(*both, policy=None)) is None
    assert barrel_watermark(planned(ORDERS)) is None
    sampled = tap("returns", {"x": 70_000}, barrel_ms=None, sampled=Sampled(1, 900))
    assert barrel_watermark(planned(ORDERS, sampled)) is None


@pytest.mark.parametrize(
    ("earlier", "first", "missing_ms"),
    [
        ((), None, None),  # nothing shows a delay from before the restart
        ((30_000,), None, None),  # the same: the first rows are older than those before
        ((60_000,), None, None),
        ((10_000,), None, 10_000),
        ((30_000, 10_000), None, 10_000),  # it was restarted again while it waits
        ((), 30_000, None),
        ((), 10_000, 10_000),  # in another application: the state has the delay of the first start
        ((), 20_000, 10_000),
        ((), 20_001, None),  # it would be below with that delay, too: the rows are older than those before
    ],
)
def test_only_a_longer_delay_freezes_the_watermark(
    earlier: tuple[int, ...], first: int | None, missing_ms: int | None
) -> None:
    """The watermark was at 70 s before the restart, and the rows since then give 60 s."""
    plan = PlanFacts((PlannedWatermark("ts", 30_000, ("orders",)),))
    before = tuple(PlanFacts((PlannedWatermark("ts", delay_ms),)) for delay_ms in earlier)
    stored = () if first is None else (WatermarkDelay(first, "window", windowed=True, operator=0),)
    report = Report(tap="publish", run=run(ORDERS, plan=plan), alive=True, trouble=None, plans=(plan, *before))
    nodes = nodes_of(QueryFacts(checkpoint=CheckpointFacts(delays=stored), report=report))
    assert frozen_ms(nodes, 70_000) == missing_ms


@pytest.mark.parametrize(
    ("left_at", "is_raised"),
    [
        (((10, 40, 50), (30, 50, 50)), True),
        (((10, 40, 50), (30, 50, 55)), False),
        (((10, 40, 50), (30, 50, 55), (30, 55, 55)), False),  # restarted again, with older rows
        (((10, 40, 50), (30, 50, 50), (30, 55, 55)), False),  # the last batch of the run before moved it
        (((10, 40, 50), (30, 50, 50), (30, 50, 50)), True),
        (((40, 10, 20), (10, 20, 50), (30, 50, 50)), True),
    ],
)
def test_a_longer_delay_that_has_moved_the_watermark_freezes_it_no_more(
    left_at: tuple[tuple[int, int, int], ...], is_raised: bool
) -> None:
    """Each run's delay, and the watermark in force in its first and its last batch (s)."""
    runs = [
        replace(
            run(ORDERS, plan=PlanFacts((PlannedWatermark("ts", 1_000 * delay, ("orders",)),))),
            run_id=f"r{number}",
            first_watermark_ms=1_000 * first,
            progress=BatchProgress("i", f"r{number}", 1, event_time={"watermark": f"1970-01-01T00:00:{last:02}Z"}),
        )
        for number, (delay, first, last) in enumerate(left_at)
    ]
    report = report_of("publish", Application(app="a", alive=True, queries=tuple(runs)), runs[-1])
    stored = (WatermarkDelay(10_000, "window", windowed=True, operator=0),)
    [node] = nodes_of(QueryFacts(checkpoint=CheckpointFacts(delays=stored), report=report)).nodes
    assert node.raised == is_raised


def test_channels_bear_their_inputs_name_where_there_are_several() -> None:
    rows = {"a": 30, "b": 0}
    batches = tuple(
        InputBatch(1_000 * n, {name: ChannelFacts(0, n_rows) for name, n_rows in rows.items() if n_rows})
        for n in range(3)
    )  # fmt: skip
    orders = tap("orders", {"a": 90_000, "b": 40_000}, recent=batches)
    one = channels_of_taps((orders,), planned(orders), 5_000)
    assert [(view.channel, view.watermark_ms, view.records) for view in one] == [("a", 60_000, 10), ("b", 10_000, 10)]
    assert [(view.rate, view.quiet_ms) for view in one] == [(30.0, 3_000), (0.0, None)]
    assert {(view.late, view.flaps) for view in one} == {(None, None)}, "Spark has no idleness to count changes of"
    both = (orders, RETURNS)
    names = [view.channel for view in channels_of_taps(both, planned(*both), 5_000)]
    assert names == ["orders/a", "orders/b", "returns/x"]


def views(**reached: int | None) -> list[ChannelView]:
    return [
        ChannelView(name, None if ms is None else ms - 30_000, ms, "never_seen" if ms is None else "active")
        for name, ms in reached.items()
    ]


def test_who_lies_at_or_below_sparks_level_loses_rows() -> None:
    nodes = Nodes((Node(column="ts", delay_ms=30_000, taps=(ORDERS,)),), "min")
    rule = barrel_rule(nodes, Channels(views=views(a=90_000, b=40_000, c=60_000, d=60_001)), 60_000)
    assert rule is not None
    assert (rule.watermark_ms, rule.holder, rule.below) == (10_000, "b", ["b", "c"])
    assert barrel_rule(nodes, Channels(), 60_000) is None


def test_a_partition_without_a_record_keeps_the_barrel_empty() -> None:
    read = tuple(PartitionFacts("t", n, 10, ms, ms, 10, ms) for n, ms in enumerate((50_000, 90_000)))
    partitions = (*read, PartitionFacts("t", 2, 0, None, None, 0, None))
    channels = channels_of_topics(TopicFacts(partitions=partitions), 30_000)
    assert {view.flaps for view in channels} == {None}
    nodes = Nodes((Node(column="ts", delay_ms=30_000),), "min")
    rule = barrel_rule(nodes, Channels(views=channels), 60_000)
    assert rule is not None
    assert (rule.watermark_ms, rule.holder, rule.below) == (None, "2", ["0"])
    rule = barrel_rule(nodes, Channels(views=channels[:2]), 60_000)
    assert rule is not None
    assert (rule.watermark_ms, rule.holder) == (20_000, "0")


def test_what_another_delay_would_cost_is_known_of_one_tap_on_one_clock() -> None:
    counts = LatenessCounts(bucket_ms=1_000, delays_ms=(1_000, 2_000), spark=(7, 3), barrel=(2, 0))
    counted = tap("orders", {"a": 90_000, "b": 40_000}, lateness=counts, rows=22, nulls=2)
    alone = replace(PLAN, nodes=PLAN.nodes[:1])
    channels = channels_of(reported(run(counted)), planned(counted, plan=alone), 0)
    rows = channels.whatif
    assert rows is not None
    assert [(row.lateness_ms, row.late, row.late_share, row.delay_ms) for row in rows] == [
        (1_000, 7, 0.35, None),
        (2_000, 3, 0.15, None),
    ]
    rule = barrel_rule(planned(counted, plan=alone), channels, 60_000)
    assert rule is not None
    assert rule.whatif is not None
    assert [row.late for row in rule.whatif] == [2, 0]
    complete = StatefulOperator(operator=0, kind="aggregation", output_mode="complete")
    for operators, late in (((complete,), [0, 0]), ((complete, StatefulOperator(operator=1, kind="dedup")), [7, 3])):
        kept = run(counted, plan=replace(alone, operators=operators))
        rows = channels_of(reported(kept), planned(counted, plan=alone), 0).whatif or ()
        assert ([row.late for row in rows], [row.behind_watermark for row in rows]) == (late, [7, 3])
    two_taps = Nodes((Node(column="ts", delay_ms=30_000, taps=(counted, RETURNS)),))
    assert channels_of(reported(run(counted, RETURNS)), two_taps, 0).whatif is None
    assert channels_of(reported(run(counted)), planned(counted), 0).whatif is None


def test_with_the_slowest_partitions_clock_nothing_is_said_by_the_fastest() -> None:
    """The setting is of Databricks: what the fastest partition reached says nothing of that clock."""
    plan = PlanFacts((PlannedWatermark("ts", 30_000, ("orders",)),))
    shown = replace(run(ORDERS, plan=plan), max_event_ms=90_000)
    fastest, slowest = (
        snapshot_of_query(reported(replace(shown, plan=each)), name="q", source=SourceView("q", "q"), now_ms=0)
        for each in (plan, replace(plan, slowest_clock=True))
    )
    assert (fastest.level.watermark_ms, fastest.barrel is None, fastest.one_clock) == (60_000, False, True)
    assert (slowest.level.watermark_ms, slowest.barrel, slowest.whatif, slowest.one_clock) == (None, None, None, False)
    assert "slowest_clock" in [note.code for note in slowest.notes]


@pytest.mark.parametrize(
    ("application", "batch", "slowest"),
    [(None, None, False), ("min", None, True), ("MIN", None, True), ("min", "max", False), (None, "min", True)],
)
def test_the_advancement_strategy_of_an_event_log(application: str | None, batch: str | None, slowest: bool) -> None:
    plan = msgspec.Raw(b'{"simpleString": "EventTimeWatermark ts#1: timestamp, 10 seconds", "children": []}')
    queries = Queries()
    queries.advancement = application
    configs = {} if batch is None else {ADVANCEMENT: batch}
    queries.apply(ExecutionStart(1, 5, plan, description="q\nid = i\nrunId = r\nbatch = 0", modified_configs=configs))
    [shown] = queries.facts()
    assert shown.plan is not None
    assert (shown.plan.slowest_clock, len(shown.plan.nodes)) == (slowest, 1)
