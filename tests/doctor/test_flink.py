"""Findings about Flink jobs that look healthy by the watermark of one operator."""

from collections.abc import Sequence

import pytest
from wmtop.engine.doctor import Finding, diagnose
from wmtop.engine.snapshot import Cause, ChannelView, Holder, Level, Snapshot, SourceView, Totals
from wmtop.engine.snapshot.kinds.flink_job import FlinkJob, FlinkVertex
from wmtop.engine.verdict.history import HistoryPoint
from wmtop.engine.watermarks.settings import Settings

from tests.snapshots import replace, snapshot_for

from .patients import NOW, judged, said
from .streams import HOUR, MINUTE, SECOND

LEVEL = NOW - 5 * SECOND
SOURCE = FlinkVertex("s", "Source: in", 1, "RUNNING", [], output_ms=LEVEL, taken_per_second=50.0)
WINDOW = FlinkVertex(
    "w", "w5", 1, "RUNNING", ["s"], input_ms=LEVEL, output_ms=LEVEL, windowed=True, late=0, taken_per_second=50.0,
    sent_per_second=0.0,
)  # fmt: skip
JOB = FlinkJob(
    "1", "orders", "RUNNING", "w", [SOURCE, WINDOW], NOW, 10_000, 0, clock_ms=NOW, submitted_ms=NOW - HOUR,
    running_ms=NOW - HOUR,
)  # fmt: skip


def snapshot(job: FlinkJob = JOB, level: int | None = LEVEL, cause: Cause = "behind") -> Snapshot:
    return snapshot_for(
        name="orders",
        state="live",
        now_ms=NOW,
        wall_ms=NOW,
        settings=Settings(strategy="source", lateness_ms=None, idle_after_ms=None, future_guard_ms=None),
        source=SourceView("flink", "http://jobmanager:8081, orders"),
        level=Level(level, None if level is None else 10, None, Holder("#0", NOW, cause), moved_ms=level),
        channels=[ChannelView("#0", level, None, "active")],
        totals=Totals(None, None, sum(one.late or 0 for one in job.vertices), None, None, None),
        verdict=judged("moving", 0),
        flink=job,
        origin={"level": "flink"},
    )


def points(late: Sequence[int], *, level: int | None = None, every: int = 10 * SECOND) -> list[HistoryPoint]:
    """One point for each count of late records, the last one now; `level`: the watermark of all of them."""
    times = [NOW - every * number for number in reversed(range(len(late)))]
    return [
        HistoryPoint(at, at - 5 * SECOND if level is None else level, 10, "#0", 0, count, at)
        for at, count in zip(times, late, strict=True)
    ]


def found(of: Snapshot, past: Sequence[HistoryPoint] = ()) -> dict[str, Finding]:
    return {one.code: one for one in diagnose(of, past)}


def test_a_healthy_job_has_no_findings() -> None:
    assert found(snapshot(), points([0] * 10)) == {}


@pytest.mark.parametrize(
    ("late", "severity", "recent"),
    [
        ([0, 100, 200, 300, 400, 500, 600], "critical", 600),  # 600 of 3,000
        ([0, 10, 20, 30, 40, 50, 60], "warning", 60),
        ([0, 0, 0, 0, 0, 0, 1], "info", 1),
        ([600] * 7, "info", 0),
        ([600], "warning", None),
    ],
)
def test_late_records_of_a_moving_job_are_found(late: list[int], severity: str, recent: int | None) -> None:
    of = snapshot(replace(JOB, vertices=[SOURCE, replace(WINDOW, late=late[-1])]))
    finding = found(of, points(late))["late-drops"]
    assert (finding.severity, "of w5" in said(finding)) == (severity, True)
    assert recent is None or f"In the last 1m: {recent}" in said(finding)
    if recent:
        assert finding.size == pytest.approx(recent / 3_000)


@pytest.mark.parametrize(
    ("restarts", "ago", "submitted", "severity"),
    [
        (26, 4 * SECOND, 3 * MINUTE, "critical"),
        (2, 4 * SECOND, 3 * MINUTE, "warning"),
        (5, 4 * SECOND, 100 * HOUR, "warning"),  # one now and then
    ],
)
def test_a_job_that_runs_between_two_failures_is_not_healthy(
    restarts: int, ago: int, submitted: int, severity: str
) -> None:
    job = replace(
        JOB, restarts=restarts, running_ms=NOW - ago, submitted_ms=NOW - submitted, failure="java.lang.Oops: 1"
    )
    finding = found(snapshot(job))["job-restarts"]
    assert (finding.severity, "Its last failure: java.lang.Oops: 1" in said(finding)) == (severity, True)
    assert f"the last one {ago // SECOND}s ago" in said(finding)
    assert found(snapshot(replace(job, failure=None)))["job-restarts"].severity == "info", "perhaps a rescale"
    assert "job-restarts" not in found(snapshot(replace(job, running_ms=NOW - HOUR, submitted_ms=NOW - 9 * HOUR)))


@pytest.mark.parametrize(("rescales", "severity"), [(4, "info"), (3, "warning"), (1, "critical"), (None, "critical")])
def test_rescales_are_not_counted_as_failures(rescales: int | None, severity: str) -> None:
    """The last failure that Flink reports may be older than the rescales."""
    job = replace(
        JOB, restarts=4, rescales=rescales, running_ms=NOW - SECOND, submitted_ms=NOW - MINUTE, failure="Oops"
    )
    finding = found(snapshot(job))["job-restarts"]
    assert (finding.severity, "It was rescaled" in said(finding)) == (severity, rescales == 4)
    assert ("among them" in said(finding)) == (rescales is not None)


def test_a_source_without_watermarks_is_no_matter_of_waiting() -> None:
    of = snapshot(replace(JOB, vertices=[replace(SOURCE, output_ms=None), WINDOW]), None, "no_watermark")
    of = replace(of, verdict=judged("unknown", 0))
    assert [one.code for one in diagnose(of, [])] == ["source-without-watermark"]
    assert found(of)["source-without-watermark"].severity == "critical"
    stalled = replace(of, verdict=judged("stalled", 2 * MINUTE))
    assert list(found(stalled)) == ["source-without-watermark"], "another source advances: the fix is that of this one"
    fires = replace(of, flink=replace(JOB, vertices=[SOURCE, replace(WINDOW, sent_per_second=3.0)]))
    assert found(fires)["source-without-watermark"].severity == "info"
    assert len(found(replace(fires, verdict=stalled.verdict))) == 2, "that it is stalled has another cause"
    young = replace(of, flink=replace(JOB, running_ms=NOW - 5 * SECOND))
    assert "source-without-watermark" not in found(young)


@pytest.mark.parametrize(
    ("cause", "speed", "pending", "behind", "is_found"),
    [
        ("slow_reader", 0.95, 50_000, HOUR, True),
        ("backlog", 1.0, 50_000, HOUR, True),
        ("slow_reader", 3.0, 50_000, HOUR, False),  # it catches up
        ("slow_reader", 0.95, 0, HOUR, False),  # nothing is known to be unread
        ("slow_reader", 0.95, 50_000, MINUTE, False),
        ("behind", 0.95, 50_000, HOUR, False),
    ],
)
def test_a_job_that_does_not_catch_up_with_its_backlog_is_no_all_clear(
    cause: Cause, speed: float, pending: int, behind: int, is_found: bool
) -> None:
    job = replace(JOB, vertices=[replace(SOURCE, pending=pending), WINDOW])
    of = snapshot(job, NOW - behind, cause)
    of = replace(of, level=replace(of.level, behind_clock_ms=behind), verdict=judged("moving", 0, speed=speed))
    finding = found(of).get("source-too-slow")
    assert (finding is not None) == is_found
    if finding is not None:
        assert (finding.severity, "≥ 50,000 records unread" in said(finding)) == ("warning", True)
        few = replace(of, channels=[replace(one, backlog=7) for one in of.channels])
        assert "source-too-slow" not in found(few), "it may be that far behind the clock by its out-of-orderness"
        joined = replace(of, channels=[replace(one, backlog=7, behind_end_ms=9 * MINUTE) for one in of.channels])
        exact = found(joined)["source-too-slow"]
        assert "\n7 records unread" in said(exact)


def test_records_that_repeat_their_timestamp_are_found() -> None:
    frozen = NOW - 3 * MINUTE
    of = replace(snapshot(level=frozen), verdict=judged("unknown", 3 * MINUTE))
    past = points([0] * 12, level=frozen)
    finding = found(of, past)["event-time-stuck"]
    assert finding.code == "event-time-stuck"
    assert finding.severity == "critical"
    assert [one.code for one in diagnose(of, past)] == ["event-time-stuck"], "instead of `wait`"
    dropping = replace(of, flink=replace(JOB, vertices=[SOURCE, replace(WINDOW, late=90)]))
    assert "late-drops" not in found(dropping, points([90] * 12, level=frozen)), "a longer delay would not help"
    ahead = replace(of, level=replace(of.level, behind_fastest_ms=3 * MINUTE))
    assert "event-time-stuck" not in found(ahead, past), "somebody is ahead: the slowest holds it back"
    unread = replace(of, flink=replace(JOB, vertices=[replace(SOURCE, taken_per_second=0.0), WINDOW]))
    assert "event-time-stuck" not in found(unread, past), "nothing is read"


def test_an_operator_further_down_without_a_watermark_is_found() -> None:
    second = replace(WINDOW, id="x", name="minutes", inputs=["w"], input_ms=None, output_ms=None)
    first = replace(WINDOW, output_ms=None)
    finding = found(snapshot(replace(JOB, vertices=[SOURCE, first, second])))["operator-behind"]
    assert finding.code == "operator-behind"
    assert finding.title == "No watermark reaches minutes"
    assert finding.cause.startswith("w5 has sent no record")
    slower = replace(second, input_ms=LEVEL - HOUR)
    finding = found(snapshot(replace(JOB, vertices=[SOURCE, WINDOW, slower])))["operator-behind"]
    assert finding.code == "operator-behind"
    assert finding.impact == "Its results come 1h of event time later"
    near = replace(second, input_ms=LEVEL - MINUTE)
    assert found(snapshot(replace(JOB, vertices=[SOURCE, WINDOW, near])), points([0] * 10)) == {}


def test_a_watermark_a_year_ahead_is_critical_and_no_longer_delay_helps() -> None:
    ahead = NOW + 365 * 24 * HOUR
    of = snapshot(replace(JOB, vertices=[SOURCE, replace(WINDOW, late=500)]), ahead, "stuck")
    unknown = replace(of, verdict=judged("unknown", 3 * MINUTE))
    findings = diagnose(unknown, points([0, 100, 200, 300, 400, 500], level=ahead))
    assert findings[0].code == "future-timestamps"
    assert findings[0].severity == "critical"
    [late] = [one for one in findings if one.code == "late-drops"]
    assert [fix.code for fix in late.fixes] == ["collect-late-records"]


def test_an_operator_that_keeps_the_watermark_back_for_a_minute_is_critical() -> None:
    of = snapshot(cause="kept_back")
    held = replace(of, flink=replace(JOB, held_in="s"), verdict=judged("unknown", 2 * MINUTE))
    finding = found(held)["operator-keeps-watermark"]
    assert (finding.severity, finding.impact) == ("critical", "No window below it has fired for 2m")
    assert finding.title.startswith("Source: in does not send")
    assert "operator-keeps-watermark" not in found(replace(held, verdict=judged("moving", MINUTE)))
    stalled = found(replace(held, verdict=judged("stalled", 11 * SECOND, 10 * SECOND)))
    assert list(stalled) == ["operator-keeps-watermark"]


def test_a_task_that_waits_or_whose_input_is_stuck_is_a_warning_that_names_both() -> None:
    of = snapshot()
    vertices = [replace(SOURCE, input_ms=NOW, output_ms=NOW - 30 * SECOND), WINDOW]
    of = replace(of, level=replace(of.level, holder=None), flink=replace(JOB, vertices=vertices, held_in="s"))
    [finding] = diagnose(replace(of, verdict=judged("unknown", 2 * MINUTE)), [])
    assert (finding.code, finding.severity, finding.channels) == ("operator-keeps-watermark", "warning", ())
    assert "Source: in sends a watermark 30s behind what it takes in; neither has moved for 2m" in said(finding)


def test_a_source_whose_records_repeat_their_times_is_stuck_also_without_offsets() -> None:
    of = snapshot(cause="stuck")
    assert "event-time-stuck" in found(replace(of, verdict=judged("stalled", 2 * MINUTE)))
    assert "event-time-stuck" not in found(replace(of, verdict=judged("moving", 2 * MINUTE, 3 * MINUTE)))


def test_no_data_accounts_for_a_verdict_that_is_not_known() -> None:
    of = snapshot(cause="quiet")
    quiet = replace(
        of, channels=[ChannelView("#0", LEVEL, None, "active", quiet_ms=2 * HOUR)], verdict=judged("unknown", 2 * HOUR)
    )
    assert list(found(quiet)) == ["no-data"]


def test_a_later_window_operator_that_is_stuck_while_the_shown_one_advances_is_critical() -> None:
    later = replace(WINDOW, id="v", name="second", input_ms=LEVEL - 90 * SECOND, since_ms=NOW - 90 * SECOND)
    of = snapshot(replace(JOB, vertices=[SOURCE, WINDOW, later]))
    moving = replace(of, verdict=judged("moving", SECOND))
    finding = found(moving)["operator-behind"]
    assert (finding.severity, finding.title) == ("critical", "The watermark of second is stuck for 1m30s")
    frozen = replace(of, verdict=judged("stalled", 90 * SECOND))
    assert "operator-behind" not in found(frozen)  # the verdict is about both
    advanced = replace(later, since_ms=NOW)
    assert "operator-behind" not in found(replace(moving, flink=replace(JOB, vertices=[SOURCE, WINDOW, advanced])))


@pytest.mark.parametrize(
    ("cause", "backlog", "severity", "waits_for"),
    [
        ("behind", None, "info", "#0"),
        ("behind", 40, "warning", "#0"),
        ("quiet", None, "warning", "#0"),
        ("paused", None, "warning", None),
    ],
)
def test_alignment_is_named_where_a_pause_is_proven(
    cause: Cause, backlog: int | None, severity: str, waits_for: str | None
) -> None:
    drifting = replace(SOURCE, drift_ms=20 * SECOND)
    of = snapshot(replace(JOB, vertices=[drifting, WINDOW]), cause=cause)
    holder = replace(of.level.holder, instance=0)
    ahead = ChannelView("#1", LEVEL + 20 * SECOND, None, "active", backlog=backlog)
    moving = replace(of, level=replace(of.level, holder=holder), channels=[*of.channels, ahead])
    assert "alignment-pauses" not in found(moving), "past the limit is not paused"
    finding = found(replace(moving, channels=[*of.channels, replace(ahead, held_back=True)]))["alignment-pauses"]
    assert (finding.severity, finding.channels) == (severity, ("#1",))
    assert finding.impact == f"Read no faster than {waits_for or 'the slowest source'}"
    assert "20s ahead of the watermark" in said(finding)
    assert ("Backlog: 40 records" in said(finding)) == (backlog == 40)


def test_what_flink_can_do_about_future_timestamps_is_no_option_of_wmtop() -> None:
    finding = found(snapshot(level=NOW + HOUR))["future-timestamps"]
    assert [fix.code for fix in finding.fixes] == ["filter-future-records", "check-record"]
