"""What is on record of a query: exact times or none, never a guess."""

import os
from pathlib import Path

import pytest
from wmtop.engine.snapshot import SourceView, Verdict
from wmtop.engine.targets.spark.checkpoint import CheckpointFacts, CheckpointTap, RecordedBatch
from wmtop.engine.targets.spark.facts import BatchProgress, QueryFacts, Report, RunningBatch, StateFacts
from wmtop.engine.targets.spark.query_snapshot import LOG_DELAY_MS, snapshot_of_query
from wmtop.engine.targets.spark.watch import QueryWatch, past_of
from wmtop.engine.verdict.target_history import RecordedPast

from tests.judging import Judge
from tests.snapshots import replace

from ...tui.cli.checkpoints import history
from .test_watermark import reported, run

NOW = 1_700_000_000_000
SECOND = 1_000


def marks(count: int, every_ms: int = 10 * SECOND, took_ms: int = 2 * SECOND) -> tuple[RecordedBatch, ...]:
    """Batches that each move the watermark by their distance; the last began `every_ms` ago and has ended."""
    began = [NOW - every_ms * back for back in range(count, 0, -1)]
    return tuple(RecordedBatch(n, at, at - 60 * SECOND, at + took_ms) for n, at in enumerate(began))


def recorded(history: tuple[RecordedBatch, ...], *, in_flight: bool = False) -> QueryFacts:
    last = history[-1]
    committed = last.batch - in_flight
    return QueryFacts(
        checkpoint=CheckpointFacts(batch=last.batch, committed=committed, in_flight=in_flight, history=history)
    )


def test_the_watermark_changes_when_a_batch_is_committed() -> None:
    history = marks(3)
    level = NOW - 60 * SECOND
    past = past_of(recorded(history), level, NOW)
    ends = [mark.end_ms for mark in history]
    assert [(time, at) for time, at in past.levels if time in ends] == [
        (ends[0], history[1].watermark_ms),
        (ends[1], history[2].watermark_ms),
        (ends[2], level),
    ]
    assert past.batches == tuple((mark.batch, mark.begin_ms) for mark in history)
    assert list(past.levels) == sorted(past.levels)


def test_a_batch_in_flight_has_not_moved_it() -> None:
    history = (*marks(2), RecordedBatch(2, NOW - SECOND, NOW - 60 * SECOND))
    past = past_of(recorded(history, in_flight=True), NOW - 60 * SECOND, NOW)
    assert past.levels[-1] == (NOW - SECOND, NOW - 60 * SECOND)


def test_times_that_contradict_each_other_end_the_past() -> None:
    """A copy of a checkpoint has the time of the copy: when its batches were committed is not on record."""
    copied = tuple(replace(mark, end_ms=NOW + 3_600 * SECOND) for mark in marks(5))
    assert past_of(recorded(copied), NOW - 60 * SECOND, NOW + 3_601 * SECOND).levels[0][0] >= copied[-1].begin_ms
    unknown = (*marks(5)[:2], replace(marks(5)[2], end_ms=None), *marks(5)[3:])
    assert past_of(recorded(unknown), NOW - 60 * SECOND, NOW).batches[0][0] == 3
    last = (*marks(5)[:4], replace(marks(5)[4], end_ms=None))
    assert past_of(recorded(last), NOW - 60 * SECOND, NOW) == RecordedPast()
    back = (marks(5)[0], replace(marks(5)[1], begin_ms=NOW - 3_600 * SECOND), *marks(5)[2:])
    assert past_of(recorded(back), NOW - 60 * SECOND, NOW).batches[0][0] == 2
    assert past_of(QueryFacts(), None, NOW) == RecordedPast()


def test_with_a_frozen_watermark_the_end_of_the_batch_does_not_matter() -> None:
    still = tuple(replace(mark, end_ms=None, watermark_ms=NOW) for mark in marks(4))
    assert len(past_of(recorded(still), NOW, NOW).batches) == 4


def test_a_report_is_as_good() -> None:
    points = tuple(RecordedBatch(mark.batch, mark.begin_ms, mark.watermark_ms, mark.end_ms) for mark in marks(4))
    level = NOW - 60 * SECOND
    assert past_of(reported(replace(run(), history=points)), level, NOW) == past_of(recorded(marks(4)), level, NOW)
    gap = (*points[:2], *points[3:])
    assert past_of(reported(replace(run(), history=gap)), level, NOW).batches[0][0] == 3


def test_a_checkpoint_of_two_minutes_has_a_verdict_at_once(tmp_path: Path) -> None:
    path = history(tmp_path / "q", now_ms=NOW, batches=14, every_ms=10 * SECOND)
    assert judged(path).verdict == "moving"
    young = judged(history(tmp_path / "young", now_ms=NOW, batches=4, every_ms=10 * SECOND))
    assert (young.verdict, young.age_at_least) == ("moving", False), "the checkpoint holds an advance"
    assert (
        judged(history(tmp_path / "still", now_ms=NOW, batches=14, every_ms=10 * SECOND, moves=0)).verdict == "unknown"
    )
    for name in os.listdir(path / "commits"):  # copied without its times: the offset log has those of the batches
        os.utime(path / "commits" / name, ns=(NOW * 10**6, NOW * 10**6))
    copied = judged(path)
    assert (copied.verdict, copied.age_ms) == ("moving", 10 * SECOND)


def test_short_batches_are_looked_back_for_as_long_as_a_verdict_needs(tmp_path: Path) -> None:
    path = history(tmp_path / "q", now_ms=NOW, batches=110, every_ms=SECOND)
    assert len(CheckpointTap(path).poll().history) >= 90
    assert judged(path).verdict == "moving"


def judged(path: Path) -> Verdict:
    watch, judge = QueryWatch(SourceView("checkpoint", str(path)), checkpoint=path), Judge()
    watch.open()
    polled = watch.poll()
    seen = watch.picture("q", polled, NOW).snapshot
    judge.recall(watch.past(polled, NOW), seen)
    return judge.see(seen).verdict


def test_the_batch_that_a_run_replays_is_its_own_though_the_checkpoint_has_an_older_time() -> None:
    """It moved the watermark: the verdict is not that nothing has moved since the run began."""
    began = NOW - 9 * SECOND
    stored = (RecordedBatch(2, NOW - 3_600 * SECOND, 23_000), RecordedBatch(3, began + SECOND, 54_000))
    reports = (RecordedBatch(2, began, 23_000, began + 500), RecordedBatch(3, began + SECOND, 54_000, began + 1_500))
    last = replace(run(), history=reports, started_ms=began - 40, moved_ms=began, last_event_ms=began + 1_500)
    own = CheckpointFacts(batch=3, committed=3, watermark_ms=54_000, next_watermark_ms=54_000, history=stored)
    facts = replace(reported(last), checkpoint=own)
    assert [batch.begin_ms for batch in facts.history] == [began, began + SECOND]
    shown = snapshot_of_query(facts, name="q", source=SourceView("event log", "q"), now_ms=NOW)
    judge = Judge()
    judge.recall(past_of(facts, shown.level.watermark_ms, NOW), shown)
    assert judge.see(shown).verdict.verdict == "moving"
    live = Judge().see(replace(shown, level=replace(shown.level, moved_ms=began)))
    assert live.verdict.verdict == "moving"


def test_drops_are_exact_where_nothing_is_aggregated_before() -> None:
    names = ("stateStoreSave", "sessionWindowStateStoreSaveExec", "", "dedupe", "symmetricHashJoin")
    assert [StateFacts(name).counts_rows for name in names] == [False, False, False, True, True]
    own = ("applyInPandasWithState", "FlatMapGroupsInPandasWithState", "transformWithStateInPandasExec")
    assert all(StateFacts(name).counts_rows for name in own)


@pytest.mark.parametrize(
    ("counted", "one_use"),
    [
        (StateFacts("stateStoreSave", 6, 96, 10, 3, 3), (6, 96)),
        (StateFacts("stateStoreSave", 6, 96, 10, 3, 6), (3, 48)),
        (StateFacts("dedupe", 11, 96, 14, 3, 5), (None, None)),  # `isEmpty` read two of three partitions to their end
        (StateFacts("symmetricHashJoin", 6, 96, 10, 3, 12), (6, 96)),
        (StateFacts("symmetricHashJoin", 6, 96, 10, 3, 24), (3, 48)),
        (StateFacts("symmetricHashJoin", 6, 96, 10, 3, 3), (6, 96)),  # in one store of RocksDB
        (StateFacts("symmetricHashJoin", 6, 96, 10, 3, 6), (3, 48)),
        (StateFacts("stateStoreSave", 6, 96, 10), (6, 96)),  # Spark 3.5 reports no stores
        (StateFacts("stateStoreSave", -1, None, 10, 3, 6), (None, None)),
    ],
)
def test_spark_adds_up_all_uses_of_a_batch(counted: StateFacts, one_use: tuple[int | None, int | None]) -> None:
    """The numbers are those that Spark 4.3 reported; of rows dropped it is only certain that there were some."""
    assert counted.of_one_use(by_function=False).dropped_at_least == counted.dropped_at_least
    own = counted.of_one_use(by_function=True)
    assert (own.rows, own.memory_bytes, own.dropped_at_least) == (*one_use, 1)


@pytest.mark.parametrize("reported", [4, None])
def test_the_log_of_a_killed_run_says_nothing_of_the_next_one(reported: int | None) -> None:
    """It ends in a batch, which the next application runs again with the same number and time."""
    began = NOW - 60 * SECOND
    last = None if reported is None else BatchProgress("i", "r", reported)
    killed = replace(run(), running=RunningBatch(5, began), progress=last, started_ms=began, dropped_at_least=7)
    log = Report(tap="event log", run=killed, alive=None, trouble=None, heard_ms=began)
    seen: list[tuple[int | None, bool]] = []
    for committed, end_ms in ((4, began - SECOND), (5, began + SECOND), (5, began + LOG_DELAY_MS + SECOND)):
        stored = (RecordedBatch(4, began - 9 * SECOND, 1_000, began - SECOND), RecordedBatch(5, began, 2_000, end_ms))
        own = CheckpointFacts(
            batch=5, committed=committed, in_flight=committed < 5, batch_timestamp_ms=began, history=stored
        )
        facts = QueryFacts(checkpoint=own, report=log)
        shown = snapshot_of_query(facts, name="q", source=SourceView("event log", "q"), now_ms=NOW)
        codes = [note.code for note in shown.notes]
        seen.append((shown.spark.dropped_at_least, "batch_unfinished" in codes))
    assert seen == [(7, True), (7, True), (None, False)]
