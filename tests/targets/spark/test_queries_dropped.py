"""How late the rows were that Spark dropped, from what it reports of its batches."""

import pytest
from wmtop.engine.targets.spark.facts import BatchProgress, QueryProgress, SourceProgress, StateFacts
from wmtop.engine.targets.spark.plan import PlanFacts, PlannedWatermark
from wmtop.engine.targets.spark.queries import Queries

ONE, TWO = (PlannedWatermark("ts", 5_000),), (PlannedWatermark("ts", 5_000), PlannedWatermark("at", 0))
STAMP = "2024-03-01T10:{:02d}:{:02d}.000Z"


def batch(number: int, first_s: int, last_s: int, dropped: int) -> QueryProgress:
    """A batch with event times from `first_s` to `last_s` after ten; a number not next to the last one: the batch
    between them is not recorded.
    """
    times = {"min": STAMP.format(*divmod(first_s, 60)), "max": STAMP.format(*divmod(last_s, 60))}
    state = StateFacts("stateStoreSave", dropped_at_least=dropped)
    return QueryProgress(
        BatchProgress(
            "q", "run", number, event_time=times, states=(state,), sources=(SourceProgress(num_input_rows=9),)
        )
    )


@pytest.mark.parametrize(("nodes", "behind_ms"), [(ONE, 410_000), (TWO, None)])
def test_the_earliest_row_of_a_batch_that_dropped_some(
    nodes: tuple[PlannedWatermark, ...], behind_ms: int | None
) -> None:
    queries = Queries()
    for event in (
        batch(0, 0, 450, 3),  # nothing came before it
        batch(1, 100, 500, 0),
        batch(2, 50, 600, 1),  # 400 s behind the newest before batch 1
        batch(3, 0, 700, 0),  # drops nothing: its windows are open
        batch(4, 590, 710, 2),
        batch(6, 300, 720, 1),  # batch 5 is not known: at most 410 s behind
    ):
        queries.apply(event)
    queries.set_plan("run", PlanFacts(nodes), "min")
    [run] = queries.facts()
    assert (run.dropped_at_least, run.dropped_behind_ms) == (7, behind_ms)


def test_a_trigger_that_found_nothing_is_not_the_batch_whose_number_it_has() -> None:
    """Spark 4.3 numbers it as the next batch, once nothing has come for ten seconds."""
    queries = Queries()
    queries.apply(batch(0, 0, 450, 0))
    idle = BatchProgress("q", "run", 1, timestamp=STAMP.format(1, 0), durations_ms={"latestOffset": 3})
    queries.apply(QueryProgress(idle))
    [run] = queries.facts()
    assert (run.idle_ms, run.progress and run.progress.batch) == (idle.timestamp_ms, 0)
    queries.apply(batch(1, 0, 500, 15))
    [run] = queries.facts()
    assert (run.idle_ms, run.progress and run.progress.batch, run.dropped_at_least) == (None, 1, 15)
