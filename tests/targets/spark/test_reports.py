"""Which of an application's queries is meant, and what becomes of a report once its query runs elsewhere."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from wmtop.engine.doctor import diagnose
from wmtop.engine.snapshot import Note, Snapshot, SourceView
from wmtop.engine.system.errors import UsageError
from wmtop.engine.targets.spark.checkpoint import CheckpointFacts, RecordedBatch
from wmtop.engine.targets.spark.facts import (
    Application,
    BatchProgress,
    QueryFacts,
    QueryProgress,
    QueryRun,
    Report,
    RunningBatch,
    SourceProgress,
    StateFacts,
)
from wmtop.engine.targets.spark.queries import Queries
from wmtop.engine.targets.spark.query_snapshot import snapshot_of_query
from wmtop.engine.targets.spark.reports import Reports, choose, followed, report_of, sure_of
from wmtop.engine.targets.spark.watch import QueryWatch, past_of
from wmtop.engine.verdict.verdict import verdict_of
from wmtop.tui.words.notes import note_text

from tests.judging import Judge
from tests.snapshots import replace

from ...refusals import refused
from ...tui.cli.checkpoints import checkpoint
from .test_watermark import ORDERS, PLAN, run

NOW = 1_700_000_000_000


def named(name: str, id: str, *, ended: bool = False) -> QueryRun:
    return replace(run(), name=name, id=id, run_id=f"{id}-{ended}", ended=ended)


ORDER_RUNS = (named("orders", "1", ended=True), named("orders", "1"), named("returns", "2", ended=True))


def test_the_running_one_is_meant_else_the_last() -> None:
    assert choose(ORDER_RUNS, None, None) == ORDER_RUNS[1]
    assert choose(ORDER_RUNS, "returns", None) == ORDER_RUNS[2]
    assert choose(ORDER_RUNS, None, "2") == ORDER_RUNS[2]
    assert choose(ORDER_RUNS, "1-True", None) == ORDER_RUNS[0]
    assert choose(ORDER_RUNS, "orders", "2") is None
    assert choose((), None, None) is None


def test_a_query_that_was_given_another_checkpoint_is_followed() -> None:
    first, again, other = named("orders", "1"), named("orders", "3"), named("returns", "2")
    stopped = replace(first, ended=True)
    assert followed((first, other), None, "1") == first
    assert followed((stopped, other), None, "1") == stopped
    assert followed((first, other, again), "orders", "1") == first
    assert followed((stopped, other, again), None, "1") == again
    assert followed((stopped, other, replace(again, ended=True)), "orders", "1") == replace(again, ended=True)
    assert followed((stopped, again), "1", "1") == stopped
    nameless = [replace(one, name=None) for one in (stopped, again)]
    assert followed(nameless, None, "1") == nameless[0]


def test_a_query_that_was_given_another_name_is_followed() -> None:
    """And where another query has its old name since, who asks for the name means that one."""
    first, renamed, other = named("old", "1"), replace(named("new", "1"), run_id="later"), named("old", "2")
    stopped = replace(first, ended=True)
    for id in (None, "1"):
        assert followed((stopped, renamed), "old", id) == renamed
        assert followed((stopped, renamed, other), "old", id) == other
        assert followed((stopped, renamed, other), "1", id) == renamed
    assert followed((stopped, renamed), None, "1") == renamed
    assert followed((first, other), "old", "1") == first


class Said(Reports):
    """Reports of a log on this machine."""

    def __init__(self, *reports: Report) -> None:
        self.reports = list(reports)

    def open(self) -> None: ...

    def close(self) -> None: ...

    def poll(self, query_id: str | None) -> Report | None:
        return self.reports.pop(0)


def test_the_checkpoint_of_a_query_that_was_given_another_one_is_left(tmp_path: Path) -> None:
    place = checkpoint(tmp_path / "q", 3)
    first = replace(run(), id="5d0b3a8e-7b5e-4f6e-9a57-0d3b0f6f2a11")
    at = Report(tap="event log", run=first, alive=True, trouble=None, checkpoint=str(place))
    watch = QueryWatch(SourceView("event log", "a"), reports=Said(at, at, replace(at, run=run(), checkpoint=None)))
    assert [watch.poll().checkpoint is not None for _ in range(3)] == [True, True, False]


def test_a_checkpoint_in_a_store_that_a_log_or_a_job_names_is_not_read() -> None:
    """An address of its own is: `test_store.py`."""
    at = Report(tap="publish", run=run(), alive=True, trouble=None, checkpoint="s3a://bucket/checkpoints/orders")
    watch = QueryWatch(SourceView("published query", "a"), reports=Said(at))
    polled = watch.poll()
    assert (polled.checkpoint, watch.picture("a", polled, NOW).snapshot.windows.open_count) == (None, None)


def test_several_that_run_are_listed() -> None:
    sure_of(ORDER_RUNS, None)
    sure_of((), "not yet")
    with refused(UsageError, "which_query", "orders, returns"):
        sure_of((*ORDER_RUNS, named("returns", "2")), None)
    with refused(UsageError, "no_query", "refunds", "orders, returns"):
        sure_of(ORDER_RUNS, "refunds")


def iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1_000, UTC).isoformat()


PROGRESS = BatchProgress(
    "i", "r", 7, timestamp=iso(NOW - 5_000), durations_ms={"triggerExecution": 900, "addBatch": 700},
    event_time={"watermark": iso(40_000)},
    sources=(SourceProgress(input_rows_per_second=4.0, processed_rows_per_second=22.0),),
)  # fmt: skip
LAST = replace(
    run(ORDERS, plan=replace(PLAN, nodes=PLAN.nodes[:1])),
    progress=PROGRESS,
    last_event_ms=NOW - 4_100,
    max_event_ms=90_000,
    history=tuple(
        RecordedBatch(5 + n, began := NOW - 15_000 + 5_000 * n, 30_000 + 5_000 * n, began + 900) for n in range(3)
    ),
)


def picture(
    last: QueryRun, *, alive: bool | None = True, checkpoint: CheckpointFacts | None = None, heard_ms: int | None = None
) -> Snapshot:
    report = Report(tap="publish", run=last, alive=alive, trouble=None, heard_ms=heard_ms)
    source = SourceView("published query", "a")
    return snapshot_of_query(QueryFacts(report=report, checkpoint=checkpoint), name="q", source=source, now_ms=NOW)


def test_without_a_checkpoint_one_node_s_clock_is_the_level() -> None:
    shown = picture(LAST)
    assert (shown.state, shown.batch, shown.level.watermark_ms) == ("live", 7, 60_000)
    assert (shown.spark.batch_watermark_ms, shown.spark.batch_ms, shown.settings.lateness_ms) == (40_000, 900, 30_000)
    assert shown.level.moved_ms == NOW - 5_000
    assert shown.windows.unknown is not None
    assert (shown.origin or {})["level"] == "publish"


def test_the_status_of_a_query() -> None:
    assert picture(replace(LAST, ended=True)).state == "ended"
    failed = picture(replace(LAST, ended=True, error="no such thing"))
    assert (failed.state, failed.error) == ("failed", "no such thing")
    gone = picture(LAST, alive=False)
    assert (gone.state, gone.spark.input_rows_per_second) == ("stale", None)
    assert gone.notes[0].code == "application_gone"
    assert picture(replace(LAST, idle_ms=NOW - 1_000)).notes[0].code == "query_idle"
    silent = picture(replace(LAST, last_event_ms=NOW - 60_000, pause_ms=10_000))
    assert silent.state == "stale"
    stuck = picture(replace(LAST, running=RunningBatch(8, NOW - 40_000)))
    assert (stuck.state, stuck.batch, stuck.spark.in_flight) == ("stale", 8, True)
    began = replace(LAST, idle_ms=NOW - 1_000, running=RunningBatch(8, NOW - 400))
    assert (picture(began).state, "query_idle" in [note.code for note in picture(began).notes]) == ("live", False)
    reads = CheckpointFacts(batch=8, committed=7, in_flight=True, batch_timestamp_ms=NOW - 400)
    shown = picture(replace(LAST, idle_ms=NOW - 1_000), checkpoint=reads)
    assert (shown.state, shown.spark.in_flight, "query_idle" in [note.code for note in shown.notes]) == (
        "live", True, False
    )  # fmt: skip
    always = replace(began, plan=replace(PLAN, nodes=PLAN.nodes[:1], real_time_ms=5_000))
    assert picture(always).notes[0].code == "query_idle"


def test_an_idle_query_that_has_left_records_unread_is_not_said_to_have_nothing_to_read() -> None:
    assert LAST.progress is not None
    for latest, words in (
        (10, ": it has nothing to read"),
        (11, ", with 1 unread record (new, or minOffsetsPerTrigger)"),
        (16, ", with 6 unread records (new, or minOffsetsPerTrigger)"),
    ):
        source = SourceProgress("KafkaV2", end='{"orders":{"0":10}}', latest=f'{{"orders":{{"0":{latest}}}}}')
        progress = replace(LAST.progress, sources=(source,))
        shown = picture(replace(LAST, progress=progress, idle_ms=NOW - 1_000))
        assert note_text(shown.notes[0]) == f"The query is idle{words}"


def test_a_long_pause_after_the_first_batch_may_be_the_trigger_s() -> None:
    """Triggers fire at multiples of their interval: the first batch says nothing of it, and no plan does."""
    quiet = replace(LAST, last_event_ms=NOW - 250_000)
    unknown = picture(quiet)
    paused = Note(NOW, "pause_unknown", {"silent_ms": 250_000, "alive": None})
    assert (unknown.state, unknown.notes[0]) == ("partial", paused)
    assert [finding.code for finding in diagnose(unknown, []) if finding.severity == "critical"] == []
    assert unknown.spark.input_rows_per_second is None
    known = picture(replace(quiet, plan=replace(PLAN, trigger_ms=300_000)))
    said = Note(NOW, "waits_for_trigger", {"trigger_ms": 300_000, "silent_ms": 250_000})
    assert (known.state, known.notes[0]) == ("live", said)
    assert {verdict_of(one).verdict for one in (unknown, known)} == {"unknown"}
    assert picture(replace(quiet, plan=replace(PLAN, trigger_ms=0))).state == "stale"
    assert picture(replace(quiet, last_event_ms=NOW - 400_000, plan=replace(PLAN, trigger_ms=300_000))).state == "stale"
    assert picture(replace(quiet, pause_ms=200_000)).state == "partial"
    assert picture(replace(quiet, pause_ms=10_000)).state == "stale"  # it has reported to be idle before
    assert picture(replace(quiet, last_event_ms=NOW - 25 * 3_600_000)).state == "stale"


def test_a_query_that_its_driver_lists_as_running_is_never_stale() -> None:
    """A driver does not say that a query is idle: a source without new data is no reason to call it stuck."""
    quiet = replace(LAST, last_event_ms=NOW - 60_000, pause_ms=10_000)
    report = report_of("driver", Application(app="a", alive=True, queries=(quiet,)), quiet)
    source = SourceView(kind="driver", description="a")

    def seen(alive: bool | None) -> Snapshot:
        facts = QueryFacts(report=replace(report, alive=alive))
        return snapshot_of_query(facts, name="q", source=source, now_ms=NOW)

    shown = seen(True)
    assert (shown.state, shown.notes[0]) == ("partial", Note(NOW, "pause_unknown", {"silent_ms": 60_000, "alive": 1}))
    assert [finding.code for finding in diagnose(shown, []) if finding.severity == "critical"] == []
    assert note_text(shown.notes[0]).endswith("is idle, or is stuck in its source")
    assert seen(None).state == "stale"


@pytest.mark.parametrize(("first_ms", "verdict"), [(50_000, "moving"), (60_000, "unknown")])
def test_a_watermark_that_no_batch_of_its_run_has_moved_is_not_called_moving(first_ms: int, verdict: str) -> None:
    """By a driver or a server, after a restart: the watermark may be as the run before left it."""
    history = tuple(RecordedBatch(n, NOW - 20_000 + 10_000 * n, (first_ms, 60_000)[n], NOW - 15_000) for n in (0, 1))
    progress = BatchProgress("i", "r", 1, event_time={"watermark": "1970-01-01T00:01:00.000Z"})
    restarted = replace(LAST, history=history, progress=progress, moved_ms=history[0].begin_ms)
    facts = QueryFacts(report=report_of("driver", Application(app="a", queries=(restarted,)), restarted))
    shown = snapshot_of_query(facts, name="q", source=SourceView("driver", "a"), now_ms=NOW)
    judge = Judge()
    judge.recall(past_of(facts, shown.level.watermark_ms, NOW), shown)
    assert (shown.level.watermark_ms, judge.see(shown).verdict.verdict) == (60_000, verdict)


def test_the_time_without_a_run_is_neither_age_nor_a_beat() -> None:
    """Ten hours down, then restarted with the same watermark: by checkpoint and reports, from the start or live."""
    down = 10 * 3_600_000
    before = tuple(RecordedBatch(n, NOW - down + 2_000 * n, 50_000 + n, NOW - down + 2_000 * n + 900) for n in range(4))
    after = tuple(RecordedBatch(n, NOW - 60_000 + 2_000 * n, 50_003, NOW - 59_000 + 2_000 * n) for n in range(4, 8))
    progress = BatchProgress("i", "r", 7, timestamp=iso(NOW - 46_000), event_time={"watermark": iso(50_003)})
    restarted = replace(LAST, progress=progress, started_ms=NOW - 60_000, history=after, max_event_ms=None)

    def seen(run: QueryRun, batches: tuple[RecordedBatch, ...], now_ms: int, was: Snapshot | None = None) -> Snapshot:
        last = batches[-1]
        checkpoint = CheckpointFacts(
            batch=last.batch, committed=last.batch, in_flight=False, history=batches, next_watermark_ms=50_003
        )
        facts = QueryFacts(report=Report(tap="publish", run=run, alive=True, trouble=None), checkpoint=checkpoint)
        source = SourceView("published query", "a")
        shown = snapshot_of_query(facts, name="q", source=source, now_ms=now_ms, before=was)
        if was is None:
            judge.recall(past_of(facts, shown.level.watermark_ms, now_ms), shown)
        return judge.see(shown)

    judge = Judge()
    late = seen(restarted, (*before, *after), NOW)
    judge = Judge()
    first = replace(LAST, run_id="1", started_ms=NOW - down, history=before, progress=None)
    was = seen(first, before, NOW - down + 9_000)
    live = seen(restarted, (*before, *after), NOW, was)
    for verdict in (late.verdict, live.verdict):
        assert (verdict.verdict, verdict.reason.code, verdict.age_at_least) == ("unknown", "too_short", True)
        assert (verdict.age_ms or 0) <= 60_000
        assert verdict.patience_ms is not None
        assert verdict.patience_ms <= 3_600_000, "ten hours are not the pace of its batches"


@pytest.mark.parametrize(
    ("begun_min", "patience_min"), [((0, 600), 60), ((0, 1, 601, 602), 60), ((0, 60, 120), 180), (tuple(range(12)), 3)]
)
def test_by_a_checkpoint_alone_one_long_gap_is_not_the_pace_of_a_query(
    begun_min: tuple[int, ...], patience_min: int
) -> None:
    """It does not show whether the query ran in between."""
    begun = [NOW + 60_000 * (minute - begun_min[-1]) for minute in begun_min]
    batches = tuple(RecordedBatch(n, at, 40_000 + n, at + 900) for n, at in enumerate(begun))
    checkpoint = CheckpointFacts(
        batch=len(begun) - 1, committed=len(begun) - 1, history=batches, next_watermark_ms=50_000
    )
    facts = QueryFacts(checkpoint=checkpoint)
    shown = snapshot_of_query(facts, name="q", source=SourceView("checkpoint", "/q"), now_ms=NOW + 1_000)
    judge = Judge(None)
    judge.recall(past_of(facts, shown.level.watermark_ms, NOW + 1_000), shown)
    assert (judge.see(shown).verdict.patience_ms or 0) <= patience_min * 60_000


def test_a_query_without_a_batch_may_run_its_first_one_or_none_at_all() -> None:
    fresh = replace(LAST, progress=None, history=(), last_event_ms=NOW - 90_000)
    first = picture(fresh)
    assert (first.state, first.notes[0]) == ("live", Note(NOW, "no_batch_ended", {"silent_ms": 90_000, "alive": 1}))
    codes = {finding.code: finding for finding in diagnose(first, [])}
    assert "query-not-started" not in codes
    assert codes["pause-unknown"].title == "No batch has ended yet; whether it is stuck is not known"
    by_driver = picture(replace(fresh, last_event_ms=None))
    assert (by_driver.state, by_driver.notes[0].args) == ("live", {"silent_ms": None, "alive": 1})
    assert note_text(by_driver.notes[0]) == "The query runs, and no batch has ended yet"
    epochs = picture(replace(fresh, continuous=True), alive=None)
    assert (epochs.state, epochs.notes[0].code, verdict_of(epochs).verdict) == ("partial", "continuous", "unknown")


def test_a_report_of_an_earlier_run_is_left_out() -> None:
    moved_on = CheckpointFacts(
        batch=31, committed=31, in_flight=False, batch_timestamp_ms=NOW, next_watermark_ms=99_000
    )
    shown = picture(LAST, alive=False, checkpoint=moved_on)
    assert (shown.state, shown.batch, shown.level.watermark_ms) == ("live", 31, 99_000)
    assert (shown.channels, shown.spark.batch_ms) == ([], None)
    there = replace(moved_on, batch=8, committed=7, in_flight=True)
    assert picture(LAST, alive=False, checkpoint=there).channels != []


def test_a_query_that_fails_in_its_first_batch_says_why_though_it_has_reported_none() -> None:
    failed = replace(run(ORDERS), ended=True, error="no such module")
    begun = CheckpointFacts(batch=0, in_flight=True, batch_timestamp_ms=NOW - 2_000)
    shown = picture(failed, checkpoint=begun, heard_ms=NOW - 1_000)
    assert (shown.state, shown.error) == ("failed", "no such module")
    later = picture(failed, checkpoint=begun, heard_ms=NOW - 3_000)  # somebody has started it again
    assert (later.state, later.error) == ("live", None)


def test_a_batch_committed_after_a_run_has_ended_is_another_run_s() -> None:
    ended = replace(LAST, ended=True, error="no such thing")
    there = CheckpointFacts(batch=8, committed=7, in_flight=True, batch_timestamp_ms=NOW)
    assert picture(ended, checkpoint=there).state == "failed"
    again = replace(there, committed=8, in_flight=False)
    assert picture(ended, checkpoint=again).state == "live"


def test_the_first_pause_says_nothing_of_the_trigger() -> None:
    """A trigger of five minutes: the first batch at once, the second at the next multiple, here 20 s later."""
    queries = Queries()
    at = datetime(2026, 1, 1, 11, 59, 40, tzinfo=UTC)
    for batch, begun in enumerate((at, at + timedelta(seconds=20), at + timedelta(seconds=320))):
        stamp = begun.isoformat().replace("+00:00", "Z")
        queries.apply(
            QueryProgress(
                BatchProgress("i", "r", batch, timestamp=stamp, durations_ms={"triggerExecution": 500, "addBatch": 400})
            )
        )
        [seen] = queries.facts()
        assert seen.pause_ms == (299_500 if batch == 2 else None)


def test_a_restarted_query_keeps_the_topics_it_writes_until_its_own_plan_is_known() -> None:
    """A chain would end at the query, and show less loss than there is."""
    before = replace(LAST, ended=True, plan=replace(PLAN, writes=("delays",)))
    started = replace(run(), id=before.id, run_id="next", plan=None)

    def written(*runs: QueryRun, last: Snapshot | None = None) -> list[str] | None:
        report = report_of("publish", Application(app="a", alive=True, queries=runs), runs[-1])
        source = SourceView(kind="publish", description="a")
        shown = snapshot_of_query(QueryFacts(report=report), name="q", source=source, now_ms=NOW, before=last)
        return shown.spark.writes

    assert written(before) == written(before, started) == ["delays"]
    assert written(before, replace(started, id="another")) is None
    assert written(before, replace(started, plan=PLAN)) is None  # it writes elsewhere now
    # The job itself was restarted: its report knows nothing of the run before.
    source = SourceView(kind="publish", description="a")
    report = report_of("publish", Application(app="a", alive=True, queries=(before,)), before)
    seen = snapshot_of_query(QueryFacts(report=report), name="q", source=source, now_ms=NOW)
    assert written(started, last=seen) == ["delays"]
    assert written(replace(started, id="another"), last=seen) is None
    assert written(replace(started, plan=PLAN), last=seen) is None


def test_a_run_of_a_finished_log_knows_the_runs_before_it_alone() -> None:
    """A finished log becomes a recording, run by run, when all runs are known."""
    runs = [replace(LAST, run_id=f"{n}", plan=replace(PLAN, writes=(f"topic-{n}",))) for n in range(3)]
    log = Application(app="a", alive=False, queries=(*runs, replace(LAST, id="another", run_id="4")))
    for place, one in enumerate(runs):
        report = report_of("event log", log, one)
        assert report.writes == (f"topic-{place}",)
        assert [plan.writes for plan in report.plans] == [(f"topic-{n}",) for n in reversed(range(place + 1))]


def test_a_plan_without_arguments_does_not_show_that_there_is_no_state() -> None:
    """A driver prints none in real-time mode."""
    states = (StateFacts("StatefulStreamlineAggregate", 3),)
    real_time = replace(LAST, plan=replace(PLAN, operators=()), progress=replace(PROGRESS, states=states))
    report = replace(report_of("driver", Application(app="a", queries=(real_time,)), real_time), is_elsewhere=True)
    facts = QueryFacts(report=report)
    shown = snapshot_of_query(facts, name="q", source=SourceView("driver", "a"), now_ms=NOW)
    assert (shown.windows.unknown, [one.kind for one in shown.spark.operators or ()]) == (
        "state_elsewhere", ["aggregation"]
    )  # fmt: skip
