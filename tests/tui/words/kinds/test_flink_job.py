"""What the screens say of a Flink job: nothing that REST cannot know."""

from datetime import UTC

import pytest
from wmtop.engine.doctor import diagnose, explain
from wmtop.engine.doctor.finding import change_idle_timeout
from wmtop.engine.snapshot import (
    Blocker,
    Cause,
    ChannelView,
    Holder,
    InstanceView,
    Level,
    Reason,
    Snapshot,
    SourceView,
    Totals,
    Verdict,
)
from wmtop.engine.snapshot.kinds.flink_job import NO_METRICS, FlinkJob, FlinkVertex
from wmtop.engine.text.codes import JOB_GONE, unknown_text
from wmtop.engine.text.formatting import ELSEWHERE
from wmtop.engine.verdict.history import history_point
from wmtop.engine.watermarks.settings import Settings
from wmtop.tui.words.channel_facts import facts
from wmtop.tui.words.kinds import presenter_of
from wmtop.tui.words.kinds.flink_job import NO_BACKLOG, NO_WHAT_IF, NO_WHAT_IF_HERE, delay_words
from wmtop.tui.words.preview import lateness
from wmtop.tui.words.progress import cells_of
from wmtop.tui.words.spans import Part, lay, text_of
from wmtop.tui.words.staircase import steps
from wmtop.tui.words.state import condition
from wmtop.tui.words.summary import Case, Clip, markdown, summary
from wmtop.tui.words.verdict import offer_of, verdict_line

from tests.snapshots import replace, snapshot_for

NOW_MS = 1_700_000_100_000
LEVEL_MS = NOW_MS - 60_000
DISK_FULL = "java.io.IOException: disk full"


def job(
    cause: Cause = "quiet",
    holder: str = "in-1",
    state: str = "RUNNING",
    failure: str | None = None,
    unanswered: bool = False,
) -> Snapshot:
    source = FlinkVertex(
        id="s", name="Source: orders", parallelism=2, status="RUNNING", inputs=[], output_ms=LEVEL_MS, spread_ms=40_000,
        slowest=1,
    )  # fmt: skip
    window = FlinkVertex(
        id="w", name="Window", parallelism=2, status="RUNNING", inputs=["s"], input_ms=LEVEL_MS, output_ms=LEVEL_MS,
        spread_ms=0, late=3, busy=0.9, windowed=True,
    )  # fmt: skip
    sink = FlinkVertex(id="k", name="Sink", parallelism=1, status="RUNNING", inputs=["w"], input_ms=LEVEL_MS)
    return snapshot_for(
        name="orders",
        state="live",
        now_ms=NOW_MS,
        settings=Settings(strategy="source", lateness_ms=None, idle_after_ms=None),
        source=SourceView("flink", "http://jobmanager:8081, orders"),
        level=Level(LEVEL_MS, 40_000, 60_000, Holder(holder, NOW_MS - 5_000, cause)),
        channels=[
            ChannelView("in-0", LEVEL_MS + 40_000, None, "active", flaps=None),
            ChannelView("in-1", LEVEL_MS, None, "active", flaps=None),
        ],
        totals=Totals(None, None, 3, None, None, None),
        flink=FlinkJob(
            "0123456789abcdef",
            "orders",
            state,
            "w",
            [source, window, sink],
            NOW_MS - 7_000,
            10_000,
            2,
            clock_ms=NOW_MS,
            unanswered=unanswered,
            held_in="s",
            failure=failure,
        ),
        origin={"level": "flink"},
    )


def text(parts: list[Part]) -> str:
    return "".join(run for one in parts for run, _ in one.spans)


def test_a_split_whose_watermark_does_not_move_is_not_said_to_have_no_data() -> None:
    said = text(presenter_of(job("stuck")).holder(None))
    assert "in-1" in said
    assert "backlog" not in said
    assert "no data" not in said
    assert "backlog" not in text(presenter_of(job("quiet")).holder(None))


def test_a_task_that_waits_or_whose_input_is_stuck_keeps_its_name_on_a_narrow_screen() -> None:
    known = job()
    vertices = [replace(known.job.vertices[0], input_ms=LEVEL_MS + 30_000), *known.job.vertices[1:]]
    unknown = replace(known, level=replace(known.level, holder=None), flink=replace(known.job, vertices=vertices))
    parts = presenter_of(unknown).holder(None)
    said = "Source: orders waits, or always sends its watermark 30s behind what it takes in"
    assert text_of(lay(parts, 200)).strip() == f"What holds it back is not known: {said}"
    assert text_of(lay(parts, 100)).strip() == said


def alone(cause: Cause) -> Snapshot:
    """One channel sets the watermark: no other takes part."""
    seen = job(cause)
    channels = [replace(seen.channels[0], state="idle"), seen.channels[1]]
    return replace(seen, channels=channels, blockers=[], level=replace(seen.level, behind_fastest_ms=0))


def test_what_only_the_next_record_of_a_channel_moves_is_held_back_by_none_if_its_splits_are_known() -> None:
    said, unknown = " no channel holds back the watermark", f" What holds it back is {ELSEWHERE}"
    seen = alone("behind")
    splits = replace(seen, instances=[InstanceView(0, "#0", LEVEL_MS, "active", 2)])
    assert [text(presenter_of(known).holder(None)) for known in (seen, splits)] == [said, said]
    # Flink 1.20 reports no watermark of a split: another one of the subtask may hold it back.
    unreported = replace(splits, level=replace(splits.level, behind_fastest_ms=None))
    assert seen.level.holder is not None
    own = replace(seen.level, holder=replace(seen.level.holder, channel="#1"))
    subtask = replace(
        seen, channels=[replace(one, channel=one.channel.replace("in-", "#")) for one in seen.channels], level=own
    )
    assert [text(presenter_of(hidden).holder(None)) for hidden in (unreported, subtask)] == [unknown, unknown]


def test_a_channel_alone_that_is_stuck_is_named_by_line_and_finding() -> None:
    stuck = replace(alone("stuck"), verdict=Verdict("stalled", age_ms=90_000, reason=Reason("records_come")))
    assert "in-1" in text(presenter_of(stuck).holder(None))
    [finding] = [explain(one, stuck, UTC) for one in diagnose(stuck, []) if one.code == "watermark-stalled"]
    assert "in-1 holds it back" in finding.title
    assert "No channel" not in finding.cause


def test_records_in_flight_blame_no_channel() -> None:
    flying = job("in_flight", "Window")
    said = text(presenter_of(flying).holder(None))
    assert "held back by" not in said
    assert "in-1" not in said
    bare = job("no_watermark")
    bare = replace(
        bare,
        level=replace(bare.level, watermark_ms=None, behind_fastest_ms=None),
        blockers=[],  # none of them is below another
        channels=[replace(one, watermark_ms=None) for one in bare.channels],
    )
    assert text(presenter_of(bare).holder(None)).startswith(" Source: orders: records come, but its source sends no")
    pressed = text(presenter_of(job("back_pressured")).holder(None))
    assert "held back by in-1" in pressed
    assert "no channel" not in pressed
    assert not any(stage.holds for stage in presenter_of(flying).stages(None))


def test_the_age_of_the_metrics_goes_by_the_jobmanagers_clock() -> None:
    for skew_ms in (-600_000, 600_000):
        there = job().job
        assert there is not None
        shifted = replace(there, sampled_ms=NOW_MS + skew_ms - 7_000, clock_ms=NOW_MS + skew_ms)
        said = text(presenter_of(replace(job(), flink=shifted)).tuning(None, None))
        assert "7s old" in said
        assert "10m" in said


def test_the_tuning_line_has_what_rest_shows_and_says_what_it_does_not() -> None:
    said = text(presenter_of(job()).tuning(None, None))
    assert "7s old, every 10s" in said
    assert "late 3" in said
    assert "restarts 2" in said
    assert ELSEWHERE in said
    unknown = replace(job(), totals=Totals(None, None, None, None, None, None))
    assert f"late {ELSEWHERE}" in text(presenter_of(unknown).tuning(None, None))


def test_a_preview_says_who_answers_the_what_if() -> None:
    presenter = presenter_of(job())
    assert presenter.untunable() is None
    assert not job().target.can_apply
    assert NO_WHAT_IF in presenter.no("what-if")
    assert NO_WHAT_IF_HERE in text(presenter.tuning(lateness(job(), 45_000), None))
    assert str(unknown_text("not_in_rest", {})) in presenter.no("windows")


def test_a_job_that_restarts_shows_its_state_and_the_cause() -> None:
    restarting = replace(
        job(state="RESTARTING", failure=DISK_FULL), state="stale", error=DISK_FULL, level=Level(LEVEL_MS)
    )
    now = condition(restarting, frozen=False, silent_s=0.0, lost=None)
    assert (now.word, now.note) == ("RESTARTING", DISK_FULL)
    assert "RESTARTING" in text(presenter_of(restarting).holder(None))
    [finding] = [one for one in diagnose(restarting, []) if one.code == "job-not-running"]
    said = explain(finding, restarting, None)
    assert (said.title, said.cause) == ("The job is RESTARTING", f"Its last failure: {DISK_FULL}")
    ended = replace(job(state="FINISHED"), state="ended", ended=True, channels=[], verdict=Verdict("ended"))
    assert "the job is FINISHED" in verdict_line(replace(ended, verdict=Verdict("ended", reason=Reason("ended"))))
    assert "FINISHED" in presenter_of(ended).no("barrel")
    partial = condition(replace(job(), state="partial"), frozen=False, silent_s=0.0, lost=None)
    assert partial.word == "PARTIAL"
    gone = replace(job(), state="stale", error="no answer from http://jobmanager:8081")
    now = condition(gone, frozen=False, silent_s=0.0, lost=None)
    assert now.word.startswith("STALE")
    assert now.note == gone.error
    assert "no answer" in str([explain(one, gone, None) for one in diagnose(gone, [])])
    assert not any(one.code == "job-not-running" for one in diagnose(job(), []))


def test_a_job_that_has_failed_is_no_query() -> None:
    failed = replace(job(state="FAILED", failure=DISK_FULL), state="failed", error=DISK_FULL)
    said = explain(diagnose(failed, [])[0], failed, None)
    assert said.title == "The job has failed"
    assert "exceptions in Flink's web UI" in said.fixes[0]


def test_a_split_that_alignment_pauses_is_freed_by_the_slower_ones() -> None:
    """Nobody has paused it, so nobody can resume it."""
    of = replace(job("paused"), blockers=[Blocker(["in-1"], 40_000, LEVEL_MS, "paused", 1)])
    assert [one.frees for one in steps(of)] == ["the slower sources catching up (watermark alignment)"]


def test_the_drift_of_an_aligned_source_is_shown() -> None:
    of = job()
    for drift_ms, said in (
        (45_000, "45s past its alignment limit"),
        (-5_000, "5s below its alignment limit"),
        (None, "alignment"),
    ):
        aligned = replace(of.job.vertices[0], drift_ms=drift_ms)
        seen = replace(of, flink=replace(of.job, vertices=[aligned, *of.job.vertices[1:]]))
        source = presenter_of(seen).stages(None)[1]
        assert (said in source.what) == (drift_ms is not None)


def test_a_jobmanager_that_does_not_answer_is_no_failure_of_the_job() -> None:
    """Its state is the last one known, and its web UI does not answer either."""
    silent = "no answer from http://jobmanager:8081"
    gone = replace(job(state="RESTARTING", failure=DISK_FULL, unanswered=True), state="stale", error=silent)
    now = condition(gone, frozen=False, silent_s=0.0, lost=None)
    assert (now.word.split()[0], now.note) == ("STALE", silent)
    [finding] = [one for one in diagnose(gone, []) if one.code == "job-not-running"]
    said = explain(finding, gone, None)
    assert (finding.fixes[0].code, said.cause) == ("check-jobmanager", silent)
    assert "Last known state of the job: RESTARTING" in said.evidence


@pytest.mark.parametrize(
    ("state", "error", "fix"),
    [
        ("RUNNING", None, "check-task-managers"),
        ("RUNNING", "no answer from http://jobmanager:8081", "check-jobmanager"),
        ("RUNNING", NO_METRICS, "fetch-metrics"),
        ("UNKNOWN", None, "submit-job"),
        ("FAILING", DISK_FULL, "check-job"),
    ],
)
def test_what_to_do_about_a_stale_job_depends_on_what_is_silent(state: str, error: str | None, fix: str) -> None:
    failure = DISK_FULL if error == DISK_FULL else None
    interval_ms = 0 if error == NO_METRICS else 10_000
    known = job(state=state, failure=failure, unanswered=fix == "check-jobmanager")
    stale = replace(known, state="stale", error=error, target=replace(known.job, interval_ms=interval_ms))
    assert [one.fixes[0].code for one in diagnose(stale, []) if one.code == "job-not-running"] == [fix]


def test_a_job_that_the_jobmanager_has_forgotten_is_not_called_unknown() -> None:
    """UNKNOWN is a verdict's word."""
    gone = replace(job(state="UNKNOWN"), state="stale", level=Level(LEVEL_MS))
    now = condition(gone, frozen=False, silent_s=0.0, lost=None)
    assert (now.word.split()[0], now.note) == ("STALE", JOB_GONE)
    assert JOB_GONE in text(presenter_of(gone).holder(None))
    assert explain(diagnose(gone, [])[0], gone, None).title == JOB_GONE


def test_the_graph_has_a_row_a_task_and_the_chosen_operator_names_the_split() -> None:
    clock, source, window, sink = presenter_of(job()).stages(None)
    assert clock.time_ms == NOW_MS
    assert (source.time_ms, source.held_ms) == (LEVEL_MS, 20_000)
    assert (window.time_ms, window.held_ms, window.holds) == (LEVEL_MS, 40_000, True)
    assert "in-1" in window.why
    assert "BUSY" in window.alarm
    assert (sink.upstream, window.upstream, source.upstream) == (window.key, "in-1", "in-1")
    assert (sink.held_ms, sink.holds) == (0, False)
    source_task, window_task, sink_task = job().job.vertices
    pressed = replace(source_task, back_pressured=0.9)
    graph = replace(job().job, vertices=[pressed, window_task, sink_task])
    assert "BACK-PRESSURED" in presenter_of(replace(job(), flink=graph)).stages(None)[1].alarm
    unknown = replace(source_unknown := job(), flink=replace_first(source_unknown))
    assert presenter_of(unknown).stages(None)[2].held_ms is None


def replace_first(snapshot: Snapshot) -> FlinkJob:
    first, *rest = snapshot.job.vertices
    return replace(snapshot.job, vertices=[replace(first, output_ms=None, spread_ms=None), *rest])


def test_a_job_is_identified_by_name_and_id() -> None:
    assert presenter_of(job()).identity() == "job 01234567"
    assert "0123456789abcdef" in presenter_of(job()).whole_identity()
    assert "RUNNING" in presenter_of(job()).whole_identity()


def test_an_idle_timeout_that_is_not_known_is_not_said_to_be_off() -> None:
    snapshot = job()
    quiet = [replace(view, quiet_ms=72_000_000, backlog=None) for view in snapshot.channels]
    [finding] = [one for one in diagnose(replace(snapshot, channels=quiet), []) if one.code == "no-data"]
    assert f"Idle timeout: {ELSEWHERE}" in str(explain(finding, snapshot, None))
    assert ".withIdleness(" in change_idle_timeout(snapshot, "add").words(snapshot)


def test_partial_rows_that_were_dropped_are_a_lower_bound() -> None:
    seen = job()
    assert "≥" not in text(presenter_of(seen).tuning(None, None))
    vertices = [replace(one, late_at_least=one.id == "w") for one in seen.job.vertices]
    two_phase = replace(seen, flink=replace(seen.job, vertices=vertices, late_at_least=True))
    assert "≥ 3" in text(presenter_of(two_phase).tuning(None, None))
    assert "dropped as late: ≥ 3" in summary(two_phase)
    case = Case(snapshot=two_phase, past=[], events=[], clip=Clip(1, None, None), versions=[], written_ms=NOW_MS)
    assert "| dropped as late | ≥ 3 |" in markdown(case)


def test_progress_shows_rates_load_event_time_and_checkpoints() -> None:
    there = job().job
    assert there is not None
    source, window, sink = there.vertices
    source = replace(source, taken_per_second=1_204.0, sent_per_second=1_200.0, busy=0.1, pending=0)
    window = replace(window, taken_per_second=1_200.0, sent_per_second=3.0, back_pressured=0.0)
    known = replace(
        job(),
        wall_ms=NOW_MS,
        flink=replace(
            there, vertices=[source, window, sink], checkpoint_ms=NOW_MS - 5_000, checkpoint_took_ms=120,
            checkpoint_bytes=2_097_152, checkpoints_failed=2,
        ),
    )  # fmt: skip
    later = replace(known, now_ms=NOW_MS + 4_000, wall_ms=NOW_MS + 4_000, level=Level(LEVEL_MS + 8_000))
    points = [point for one in (known, later) if (point := history_point(one)) is not None]
    found = {one.name: one for one in presenter_of(later).charts(points, cells_of(points, 10, 2_000))}
    assert found["records read"].now == "1,204/s"
    assert found["results out"].now == "3.0/s"
    assert found["busiest task"].now == "90.0 % Window"
    assert found["event time"].now == "×2.0"
    assert found["backlog"].note == NO_BACKLOG  # 0 pending proves nothing
    assert found["checkpoint"].note == "5s ago, took 120ms, state 2.0 MiB, 2 failed"
    waiting = replace(known, flink=replace(known.job, vertices=[replace(source, pending=70), window]))
    shown = {one.name: one for one in presenter_of(waiting).charts([], [])}
    assert "≥ 70" in (shown["backlog"].note or "")
    said = " ".join(stage.what for stage in presenter_of(known).stages(None))
    assert "1,204/s in" in said


def test_progress_shows_no_rate_that_is_not_known() -> None:
    """One source that does not say leaves the sum unknown; rates of stale metrics are not those of now."""
    there = job().job
    assert there is not None
    mute = replace(there.vertices[0], id="s2")
    said = replace(there.vertices[0], taken_per_second=5.0)
    both = replace(job(), wall_ms=NOW_MS, flink=replace(there, vertices=[said, mute, *there.vertices[1:]]))
    points = [point for one in (both, replace(both, state="stale")) if (point := history_point(one)) is not None]
    assert [point.rows_in for point in points] == [None, None]
    assert [point.busy for point in points] == [0.9, None]
    found = {one.name: one for one in presenter_of(both).charts(points, cells_of(points, 4, 2_000))}
    assert found["records read"].note == ELSEWHERE


def test_watermarks_that_a_task_sends_later_are_said_to_be_shown_so() -> None:
    seen = job()
    assert delay_words(seen) is None
    source, window, sink = seen.job.vertices
    late = replace(
        seen.job, vertices=[source, replace(window, delay_ms=30_000), sink], delays={"in-0": 30_000, "in-1": 30_000}
    )
    later = replace(seen, flink=late)
    assert delay_words(later) == "watermarks as they arrive: a task on the way sends them 30s later"
    mixed = delay_words(replace(later, flink=replace(late, delays={"in-1": 30_000})))
    assert mixed is not None
    assert "up to 30s" in mixed
    assert "sends its watermark 30s behind its input" in presenter_of(later).stages(None)[2].what
    fact = dict(facts(later, seen.channels[1], UTC))["its own"]
    assert "sends it 30s later" in text([Part(tuple(fact))])


def test_a_task_that_keeps_its_watermark_back_is_named() -> None:
    kept = job("kept_back", "#0")
    source, window, sink = kept.job.vertices
    join = replace(window, input_ms=LEVEL_MS + 120_000, output_ms=LEVEL_MS)
    channels = [ChannelView("#0", LEVEL_MS, None, "active")]
    kept = replace(kept, channels=channels, flink=replace(kept.job, vertices=[source, join, sink], held_in="w"))
    said = text_of(lay(presenter_of(kept).holder(None), 80)).strip()
    assert said == "Window sends a watermark 2m behind what it takes in"


def test_an_operator_that_keeps_the_watermark_back_is_named_on_the_main_screen() -> None:
    of = job("kept_back")
    source = replace(of.job.vertices[0], name="lookup", input_ms=LEVEL_MS + 5_600)
    kept = replace(
        of,
        blockers=[],  # no channel is ahead
        channels=[ChannelView("in-1", LEVEL_MS, None, "active")],
        level=replace(of.level, behind_fastest_ms=0, moved_ms=NOW_MS - 90_000),
        flink=replace(of.job, held_in="s", vertices=[source, *of.job.vertices[1:]]),
        verdict=Verdict(
            "stalled", NOW_MS - 90_000, age_ms=90_000, patience_ms=60_000, speed=0.0, reason=Reason("records_come")
        ),
    )
    line = "".join(text for one in presenter_of(kept).holder(UTC) for text, _ in one.spans)
    assert line == " lookup sends a watermark 5.6s behind what it takes in"
    assert offer_of(kept, diagnose(kept, [])) is None  # another lateness would not help
    assert verdict_line(kept, diagnose(kept, [])).startswith("STALLED 1m30s  lookup does not")


def test_how_often_a_split_was_idle_is_not_known_of_a_job() -> None:
    of = job()
    assert text([Part(tuple(dict(facts(of, of.channels[1], UTC))["idleness"]))]) == ELSEWHERE
