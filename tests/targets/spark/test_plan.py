"""Plans of one source read twice, and of inputs that a filter may empty: as Spark 4.3 prints them, cut."""

from msgspec.structs import replace
from wmtop.engine.snapshot import WatermarkNode
from wmtop.engine.targets.spark.checkpoint import CheckpointFacts
from wmtop.engine.targets.spark.facts import BatchProgress, EventMax, SourceProgress
from wmtop.engine.targets.spark.files import SourceOffsets
from wmtop.engine.targets.spark.nodes import nodes_of
from wmtop.engine.targets.spark.plan import PlanFacts, lines_of_tree, read_plan
from wmtop.engine.targets.spark.watermark import views_of
from wmtop.engine.targets.topic import PartitionFacts, TopicFacts

from .test_watermark import reported, run

SCAN = "FileScan json [ts#{0},kind#{1}] Format: JSON, Location: InMemoryFileIndex(1 paths)[file:/in/part-00000.json]"
REUSED = f"""\
StreamingSymmetricHashJoin [lu#170], [ru#172], Inner, state info [ checkpoint = file:/cp/state, runId = r, opId = 0, v]
+- Exchange hashpartitioning(lu#170, 2), REQUIRED_BY_STATEFUL_OPERATOR, [plan_id=1611]
   +- EventTimeWatermark c44ad42b-99ff-4a65-bfad-7dc33c05bb2a, ts#178: timestamp, 10 seconds
      +- *(1) Filter isnotnull(user#179)
         +- {SCAN.format(178, 179)}
+- ReusedExchange [ru#172, rt#173-T10000ms], Exchange hashpartitioning(lu#170, 2), REQUIRED, [plan_id=1611]
   +- EventTimeWatermark c44ad42b-99ff-4a65-bfad-7dc33c05bb2a, ts#178: timestamp, 10 seconds
      +- {SCAN.format(178, 179)}
"""
"""An event log repeats below a reused exchange what it reuses; the job's own plan does not."""


def union(first: str, second: str) -> str:
    return f"""\
Union
:- EventTimeWatermark 1d5251f1-7ce3-425b-b636-94d70527e709, ts#387: timestamp, 10 seconds
:  +- *(1) Filter ({first})
:     +- {SCAN.format(387, 389)}
+- EventTimeWatermark 145c86a8-3d9f-46d1-954c-569dc67b695b, ts#401: timestamp, 30 seconds
   +- *(2) Filter ({second})
      +- {SCAN.format(401, 402)}
"""


def facts(tree: str) -> PlanFacts:
    return read_plan(lines_of_tree(tree))


def holding(plan: PlanFacts, seen: dict[tuple[int, ...], int], level_ms: int) -> list[tuple[int | None, bool]]:
    """Each node's watermark and whether it holds the query's at `level_ms`, by what was reported (`seen`)."""
    return [(node.watermark_ms, node.holds) for node in nodes_shown(plan, seen, level_ms)]


def nodes_shown(plan: PlanFacts, seen: dict[tuple[int, ...], int], level_ms: int) -> list[WatermarkNode]:
    sources = 1 + max(max(places) for places in seen)
    progress = BatchProgress("i", "r", 1, sources=(SourceProgress("s"),) * sources)
    maxima = tuple(EventMax(places, ms) for places, ms in seen.items())
    last = replace(run(plan=plan), progress=progress, event_max=maxima, silent=())
    return views_of(nodes_of(reported(last)), level_ms, is_next=True, is_own=True)


def test_a_reused_part_of_the_plan_is_one_watermark() -> None:
    plan = facts(REUSED)
    assert [(node.column, node.sources, node.filtered) for node in plan.nodes] == [("ts", (0,), False)]
    assert (plan.leaves, plan.reads, plan.operators[0].watermarks) == (1, 2, [0])
    assert facts(union("true", "true")).reads == 2


def test_two_watermarks_of_the_same_rows_are_both_known() -> None:
    plan = facts(union("isnotnull(ts#387)", "isnotnull(ts#401)"))
    assert [(node.filtered, node.twin) for node in plan.nodes] == [(False, None), (False, 0)]
    assert holding(plan, {(0,): 64_000}, 34_000) == [(54_000, False), (34_000, True)]


def test_an_input_whose_watermark_is_hidden_has_reached_at_least_what_it_reported_alone() -> None:
    """The first input stopped: earlier reports were the first one's, later ones are the second one's."""
    plan = facts(union("isnotnull(ts#387)", "isnotnull(ts#401)"))
    two = replace(plan, nodes=(plan.nodes[0], replace(plan.nodes[1], sources=(1,), twin=None)), leaves=2)
    shown_as = nodes_shown(two, {(0, 1): 60_000, (1,): 500_000}, 50_000)
    assert [(node.watermark_ms, node.at_least_ms, node.holds) for node in shown_as] == [
        (50_000, None, True), (None, 470_000, False),
    ]  # fmt: skip


def test_of_inputs_that_spark_hides_the_broker_says_which_holds() -> None:
    """Spark reports the first input that had rows: in the demo it was not known for half a minute which airport of two
    had none."""
    plan = facts(union("isnotnull(ts#387)", "isnotnull(ts#401)"))
    nodes = (plan.nodes[0], *(replace(plan.nodes[1], sources=(place,), twin=None) for place in (1, 2)))
    progress = BatchProgress("i", "r", 1, sources=(SourceProgress("s"),) * 3)
    last = replace(
        run(plan=replace(plan, nodes=nodes, leaves=3)), progress=progress, event_max=(EventMax((0, 1, 2), 500_000),),
        silent=(),
    )  # fmt: skip
    offsets = tuple(SourceOffsets(str(place), "kafka", "{}", {f"t/{place}": 9}) for place in range(3))
    seen = replace(reported(last), checkpoint=CheckpointFacts(sources=offsets))

    def holders(*newest_ms: int, assumed: bool = False) -> list[bool]:
        partitions = (PartitionFacts("t", place, 9, ms, ms, 9, ms) for place, ms in enumerate(newest_ms))
        topics = TopicFacts(partitions=tuple(partitions), assumed=assumed)
        return [
            node.holds for node in views_of(nodes_of(replace(seen, topics=topics)), 30_000, is_next=True, is_own=True)
        ]

    assert [node.holds for node in views_of(nodes_of(seen), 30_000, is_next=True, is_own=True)] == [False] * 3
    assert holders(500_000, 60_000, 400_000) == [False, True, False]
    assert holders(500_000, 400_000, 60_000) == [False, False, True]
    assert holders(500_000, 61_000, 400_000) == [False] * 3, "a batch may be reading more"
    assert holders(500_000, 60_000, 400_000, assumed=True) == [False] * 3, "times of writing"


def test_a_filter_may_leave_nothing_for_the_first_watermark() -> None:
    """What is reported may then be the second one's: only what the level proves is said."""
    plan = facts(union("(kind#389 = view)", "(kind#402 = click)"))
    assert [(node.filtered, node.twin) for node in plan.nodes] == [(True, None), (True, None)]
    assert holding(plan, {(0,): 40_000}, 30_000) == [(30_000, True), (None, False)]
    assert holding(plan, {(0,): 200_000}, 10_000) == [(None, False), (None, False)]
    two = replace(plan, nodes=(plan.nodes[0], replace(plan.nodes[1], sources=(1,))))
    assert holding(two, {(0, 1): 200_000}, 10_000) == [(None, False), (None, False)]  # once: (190_000), (10_000, True)
    assert holding(two, {(0, 1): 200_000, (0,): 60_000}, 10_000) == [(None, False), (10_000, True)]


def join(left: str, right: str) -> bool | None:
    """Whether a join with these rules for removing the rows of its inputs removes them all."""
    state = "state info [ checkpoint = file:/cp/state, runId = r, opId = 0, v], 0, "
    tree = f"StreamingSymmetricHashJoin [lk#1], [rk#2], Inner, {state}state cleanup [ left {left}, right {right} ], 2"
    return facts(tree).operators[0].evicts


def test_a_join_that_removes_the_rows_of_one_input_only_keeps_those_of_the_other() -> None:
    rule = "value predicate: ((t#3-T60000ms <= 1750002840000000))"
    assert join(rule, rule) is True
    assert join("= null", rule) is False
    assert join(rule, "= null") is False
    assert join("= null", "= null") is False


def test_a_row_in_several_windows_counts_in_each() -> None:
    """A tumbling window is a projection; of more than 25 windows Spark prints the first ones and how many more."""
    under = f"+- EventTimeWatermark 1d5251f1-7ce3-425b-b636-94d70527e709, ts#387: timestamp, 10 seconds\n   +- {SCAN}"
    four = ", ".join(["[named_struct(start, f(ts#387), end, g(ts#387)), key#9]"] * 4)
    assert facts(f"Expand [{four}], [window#394, key#9]\n{under}").copies == 4
    assert facts(f"Expand [{four}, ... 6 more fields], [window#394, key#9]\n{under}").copies >= 10
    assert facts(f"Project [named_struct(start, f(ts#387)) AS window#394]\n{under}").copies == 1
