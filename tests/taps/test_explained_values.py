"""What a tap's explained columns become in the picture of a query."""

from wmtop.engine.taps.spark.channels import explain_of
from wmtop.engine.taps.spark.nodes import Node, Nodes
from wmtop.engine.taps.spark.query_runs import ExplainedInput, ExplainedRows, InputFacts, LatenessCounts

DELAYS_MS, SPARK = (0, 5_000, 10_000, 20_000), (90, 60, 30, 10)


def test_values_without_any_late_row_are_values_too() -> None:
    """Their counts come without trailing zeros, which leaves none."""
    values = {"old": ExplainedRows(40, (40, 40, 30, 10)), "new": ExplainedRows(60, ()), "some": ExplainedRows(9, (5,))}
    tap = InputFacts(
        name="orders", rows=109, nulls=0, min_ms=0, max_ms=60_000, barrel_ms=None, channels={}, sampled=None,
        lateness=LatenessCounts(bucket_ms=1_000, delays_ms=DELAYS_MS, spark=SPARK, barrel=None), recent=(),
        explained=(ExplainedInput(column="firmware", rows=109, values=values, approximate=False),),
    )  # fmt: skip
    columns = explain_of(Nodes((Node(column="ts", delay_ms=10_000, taps=(tap,)),)))
    assert columns is not None
    [firmware] = columns
    assert {value.value: (value.records, value.late) for value in firmware.values} == {
        "old": (40, 30), "new": (60, 0), "some": (9, 0),
    }  # fmt: skip
