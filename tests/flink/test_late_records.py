"""How many late records a Flink job has dropped, and whether that is exact, by hand."""

import pytest
from msgspec.structs import replace
from wmtop.engine.core.settings import Settings
from wmtop.engine.core.snapshot import SourceView
from wmtop.engine.taps.flink.facts import FlinkFacts
from wmtop.engine.taps.flink.picture import picture_of
from wmtop.engine.taps.flink.samples import Graph, Input, Job, Sample, Subtask, Vertex, VertexSample

SOURCE = Vertex("s", "Source: orders[1] -> WatermarkAssigner[2]", 1, "RUNNING")


@pytest.mark.parametrize(
    ("name", "at_least"),
    [
        ("TumblingEventTimeWindows -> Sink: out", False),
        ("WindowAggregate[5] -> Calc[6] -> Sink: out[7]", False),
        ("GlobalWindowAggregate[6] -> Calc[7] -> Sink: out[8]", True),
    ],
)
def test_a_two_phase_sql_aggregate_drops_partial_rows(name: str, at_least: bool) -> None:
    window = Vertex("w", name, 1, "RUNNING", (Input("s", forward=False),))
    vertices = (
        VertexSample(SOURCE, (Subtask(0, output=10),)),
        VertexSample(window, (Subtask(0, input=10, late=4),), windowed=True),
    )
    facts = FlinkFacts(
        graph=Graph(Job("1", "orders", "RUNNING", 0), 1_000, (SOURCE, window)),
        answered_ms=1_000,
        samples=(Sample(1_000, vertices),),
    )
    seen = picture_of(
        facts, name="orders", source=SourceView("flink", "orders"), settings=Settings(strategy="source"),
        operator=None, now_ms=1_000, before=None,
    )  # fmt: skip
    assert seen.totals.late == 4
    assert seen.flink is not None
    assert [one.late_at_least for one in seen.flink.vertices] == [False, at_least]
    restarted = picture_of(
        replace(facts, restarts=1), name="orders", source=SourceView("flink", "orders"),
        settings=Settings(strategy="source"), operator=None, now_ms=1_000, before=None,
    )  # fmt: skip
    assert restarted.flink is not None
    assert [one.late_at_least for one in restarted.flink.vertices] == [False, True]
