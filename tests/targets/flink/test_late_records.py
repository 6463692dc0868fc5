"""What a Flink job's picture counts, what it does not know, and what is exact, by hand."""

from typing import Any

import pytest
from wmtop.engine.doctor import diagnose, explain
from wmtop.engine.feed.redaction import Redaction
from wmtop.engine.snapshot import Level, Snapshot
from wmtop.engine.targets.flink.facts import FlinkFacts, Late, late_of, with_sample
from wmtop.engine.targets.flink.samples import Edge, Graph, JobSample, ListedJob, Subtask, Vertex, VertexSample
from wmtop.tui.words.watermark import held_for

from tests.snapshots import replace

from .attributed import snapshot

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
    seen = picture(name)
    assert seen.totals.late == 4
    assert [one.late_at_least for one in seen.job.vertices] == [False, at_least]
    restarted = picture(name, restarts=1)
    assert [one.late_at_least for one in restarted.job.vertices] == [False, True]
    assert (seen.job.late_at_least, restarted.job.late_at_least) == (at_least, True)
    assert picture(name, restarts=1, late={"w": 0}).job.late_at_least, "0 is a lower bound, too"


@pytest.mark.parametrize(
    ("name", "counts", "late", "at_least"),
    [
        ("Per minute", {"w": 3}, 3, False),
        ("WindowJoin[3] -> Sink: out[4]", {"left": 3, "right": 2}, 3, True),
        ("WindowJoin[3] -> Sink: out[4]", {"left": 3, "right": 0}, 3, False),
        ("(OverAggregate[3], Deduplicate[4])", {"a": 3, "b": 3}, 3, True),
        ("IntervalJoin[3]", {}, None, True),
        ("TemporalSort[3]", {}, None, True),
        ("ProcessTableFunction[3]", {}, None, True),
        ("Per minute -> (Sink: Writer, Late: Writer)", {"w": 0}, None, True),
        ("Per minute -> (Sink: Writer, Late: Writer)", {"w": 2}, 2, False),  # those with a side output count none
        ("GroupWindowAggregate[3] -> (Sink: a[4], Sink: b[5])", {"w": 0}, 0, False),
        ("Map", {}, None, False),
    ],
)
def test_a_late_record_is_counted_once_and_what_is_not_counted_is_not_known(
    name: str, counts: dict[str, int], late: int | None, at_least: bool
) -> None:
    seen = picture(name, late=counts)
    assert (seen.totals.late, seen.job.late_at_least) == (late, at_least)
    [_, task] = seen.job.vertices
    assert (task.late, task.late_at_least) == (late, at_least)


@pytest.mark.parametrize(
    ("name", "readers", "late"),
    [
        ("Per minute", ("Sink: Writer",), 0),
        ("Per minute -> out: Writer", (), 0),
        ("Per minute -> out: Writer", ("out: Committer",), 0),
        ("Per minute -> out: Writer", ("Late",), None),
        ("Per minute", ("Sink: Writer", "Late: Writer"), None),
    ],
)
def test_windows_with_a_second_output_may_send_late_records_there(
    name: str, readers: tuple[str, ...], late: int | None
) -> None:
    seen = picture(name, late={"w": 0}, readers=readers)
    assert (seen.totals.late, seen.job.late_at_least) == (late, late is None)


def test_rows_of_several_windows_are_records_at_least_once() -> None:
    seen = picture("WindowRank[3]", late={"w": 11}, windows=5)
    assert (seen.totals.late, seen.job.late_at_least) == (3, True)


def test_only_tasks_that_restart_count_from_the_start_again() -> None:
    """One that shares nothing with the task that failed goes on, and so do its counters."""

    def sample(at_ms: int, *attempts: tuple[str, int, int]) -> JobSample:
        tasks = [(Vertex(id, id, 1, "RUNNING", started_ms=start), count) for id, start, count in attempts]
        vertices = (VertexSample(vertex, (Subtask(0, late={"w": count}),)) for vertex, count in tasks)
        return JobSample(at_ms, tuple(vertices))

    def late(facts: FlinkFacts) -> list[int | None]:
        return [one.records for one in late_of(facts).values()]

    graph = Graph(ListedJob("1", "orders", "RUNNING", 0), 0, tuple(Vertex(id, id, 1, "RUNNING") for id in "ab"))
    facts = with_sample(FlinkFacts(graph=graph, answered_ms=0, restarts=1), sample(0, ("a", 1, 3), ("b", 1, 4)))
    facts = with_sample(facts, sample(10_000, ("a", 1, 5), ("b", 1, 4)))
    assert late(facts) == [5, 4]
    facts = replace(facts, samples=())
    assert late(facts) == [5, 4]
    facts = with_sample(facts, sample(20_000, ("a", 1, 5), ("b", 15_000, 1)))
    assert late(facts) == [5, 5]
    facts = with_sample(facts, sample(30_000, ("a", 1, 5), ("b", 15_000, 2)))
    assert late(facts) == [5, 6]


@pytest.mark.parametrize("state", ["RUNNING", "RESTARTING", "CANCELED"])
def test_a_job_that_does_not_run_blames_no_task(state: str) -> None:
    """Neither its last dump's holder, nor the task that this one is in."""
    seen = picture("per hour", state=state)
    named = (seen.level.holder is not None, seen.job.held_in is not None)
    assert named == (state == "RUNNING",) * 2


def test_counts_that_rest_does_not_have_are_not_zero() -> None:
    """A split may have been idle between two samples."""
    [view] = picture("TumblingEventTimeWindows").channels
    counts = (view.records, view.behind_watermark, view.late, view.malformed, view.future, view.backlog, view.flaps)
    assert counts == (None,) * 7


def test_what_held_the_watermark_back_before_the_first_look_has_done_so_for_longer() -> None:
    first = picture("per hour")
    later = picture("per hour", before=first)
    assert first.level.holder is not None
    assert later.level.holder is not None
    assert (later.level.holder.since_ms, later.level.holder.at_least) == (1_000, True)
    assert held_for(later) == " for ≥ 0s"
    other = replace(first.level.holder, channel="another", at_least=True)
    taken = picture("per hour", before=replace(first, level=replace(first.level, holder=other)))
    assert taken.level.holder is not None
    assert not taken.level.holder.at_least
    assert held_for(taken) == " for 0s"
    none = picture("per hour", before=replace(first, level=replace(first.level, holder=None)))
    assert none.level.holder is not None
    assert not none.level.holder.at_least, "the start was seen"
    unknown = picture("per hour", before=replace(first, level=Level()))
    assert unknown.level.holder is not None
    assert unknown.level.holder.at_least


@pytest.mark.parametrize("failure", [None, "java.io.IOException: No space left on device"])
@pytest.mark.parametrize(
    ("known", "fix"),
    [({"trouble": "no answer from http://jobmanager:8081"}, "check-jobmanager"), ({"interval_ms": 0}, "fetch-metrics")],
)
def test_a_redacted_copy_says_the_same_of_a_jobmanager(known: dict[str, Any], fix: str, failure: str | None) -> None:
    shown = picture("per hour", failure=failure, **known)
    for copy in (shown, Redaction().snapshot(shown)):
        assert [one.fixes[0].code for one in diagnose(copy, []) if one.code == "job-not-running"] == [fix]


def test_an_operator_that_is_gone_is_not_replaced_by_another_one() -> None:
    """The job may have come back with another plan."""
    assert picture("per hour", operator="hour").level.watermark_ms == 10
    gone = picture("per hour", operator="day")
    assert (gone.level.watermark_ms, gone.channels, gone.blockers) == (None, [], None)
    assert gone.error == "--operator day: the job has no such operator any more"
    for copy in (gone, Redaction().snapshot(gone)):
        [finding, *_] = diagnose(copy, [])
        assert finding.code == "job-not-running"
        said = explain(finding, copy, None)
        assert (said.title, finding.fixes) == ("The job no longer has the chosen operator", ())
        assert "another --operator" in said.cause
    silent = picture("per hour", operator="day", trouble="no answer from http://jobmanager:8081")
    assert silent.error == "no answer from http://jobmanager:8081"


def test_an_interval_join_by_the_clock_drops_no_late_record() -> None:
    for by_clock in (False, True):
        join = Vertex("j", "IntervalJoin[39] -> Calc[40]", 1, "RUNNING", untimed=by_clock)
        facts = FlinkFacts(graph=Graph(ListedJob("1", "orders", "RUNNING", 0), 0, (join,)), answered_ms=0)
        assert late_of(facts) == {"j": Late(None, at_least=not by_clock)}


def picture(
    name: str, restarts: int | None = None, operator: str | None = None, before: Snapshot | None = None,
    late: dict[str, int] | None = None, windows: int = 1, readers: tuple[str, ...] = (), state: str = "RUNNING",
    **known: Any,
) -> Snapshot:  # fmt: skip
    """A job with a window operator of that name, which dropped 4 records, or `late` by counter."""
    below = tuple(Vertex(reader, reader, 1, "RUNNING", (Edge("w", forward=True),)) for reader in readers)
    window = Vertex("w", name, 1, "RUNNING", (Edge("s", forward=False),), windows_per_record=windows)
    vertices = (
        VertexSample(SOURCE, (Subtask(0, output=10),)),
        VertexSample(window, (Subtask(0, input=10, late={"w": 4} if late is None else late),), windowed=True),
    )
    facts = FlinkFacts(
        graph=Graph(ListedJob("1", "orders", state, 0), 1_000, (SOURCE, window, *below)),
        answered_ms=1_000,
        operator=operator,
        restarts=restarts,
        **known,
    )
    return snapshot(with_sample(facts, JobSample(1_000, vertices)), 1_000, before=before)
