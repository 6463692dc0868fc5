"""How late the rows were that Spark dropped, from what it reports of its batches."""

import pytest
from wmtop.engine.targets.spark.facts import BatchProgress, QueryProgress, SourceProgress, StateFacts
from wmtop.engine.targets.spark.plan import PlanFacts, PlannedWatermark
from wmtop.engine.targets.spark.queries import Queries

ONE, TWO = (PlannedWatermark("ts", 5_000),), (PlannedWatermark("ts", 5_000), PlannedWatermark("at", 0))
STAMP = "2024-03-01T10:{:02d}:{:02d}.000Z"


def batch(number: int, first_s: int, last_s: int, dropped: int) -> QueryProgress:
    """A batch with event times from `first_s` to `last_s` after ten."""
    times = {"min": STAMP.format(*divmod(first_s, 60)), "max": STAMP.format(*divmod(last_s, 60))}
    state = StateFacts("stateStoreSave", dropped_at_least=dropped)
    return QueryProgress(
        BatchProgress(
            "q", "run", number, event_time=times, states=(state,), sources=(SourceProgress(num_input_rows=9),)
        )
    )


@pytest.mark.parametrize(("nodes", "behind_ms"), [(ONE, 400_000), (TWO, None)])
def test_the_earliest_row_of_a_batch_that_dropped_some(
    nodes: tuple[PlannedWatermark, ...], behind_ms: int | None
) -> None:
    queries = Queries()
    for event in (
        batch(0, 0, 500, 3),  # nothing came before it
        batch(1, 100, 600, 1),  # 400 s behind the newest before
        batch(2, 0, 700, 0),  # drops nothing: its windows are open
        batch(3, 690, 710, 2),
    ):
        queries.apply(event)
    queries.set_plan("run", PlanFacts(nodes), "min")
    [run] = queries.facts()
    assert (run.dropped_at_least, run.dropped_behind_ms) == (6, behind_ms)
