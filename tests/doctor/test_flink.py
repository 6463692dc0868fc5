"""Findings about Flink jobs that look healthy by the watermark of one operator."""

from collections.abc import Sequence

import pytest
from wmtop.engine.doctor import Finding, diagnose
from wmtop.engine.doctor.clocks import FutureTimestamps
from wmtop.engine.doctor.flink import (
    JobRestarts,
    LateDrops,
    OperatorBehind,
    OperatorKeepsBack,
    ReadsTooSlowly,
    SourceSendsNoWatermark,
)
from wmtop.engine.doctor.idleness import NoData
from wmtop.engine.doctor.progress import EventTimeStuck
from wmtop.engine.snapshot import Cause, ChannelView, Holder, Level, Snapshot, SourceView, Totals
from wmtop.engine.snapshot.flink_job import FlinkJob, FlinkVertex
from wmtop.engine.verdict.history import HistoryPoint
from wmtop.engine.watermarks.settings import Settings

from tests.snapshots import replace, snapshot_for

from .patients import NOW, judged
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


def found(of: Snapshot, past: Sequence[HistoryPoint] = ()) -> dict[type[Finding], Finding]:
    return {type(one): one for one in diagnose(of, past)}


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
    finding = found(of, points(late))[LateDrops]
    assert isinstance(finding, LateDrops)
    assert (finding.severity, finding.recent, finding.tasks) == (severity, recent, ("w5",))
    if recent:
        assert finding.lost_share == pytest.approx(recent / 3_000)


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
    finding = found(snapshot(job))[JobRestarts]
    assert isinstance(finding, JobRestarts)
    assert (finding.severity, finding.ago_ms, finding.error) == (severity, ago, "java.lang.Oops: 1")
    assert found(snapshot(replace(job, failure=None)))[JobRestarts].severity == "info", "a rescale"
    assert JobRestarts not in found(snapshot(replace(job, running_ms=NOW - HOUR, submitted_ms=NOW - 9 * HOUR)))


def test_a_source_without_watermarks_is_no_matter_of_waiting() -> None:
    of = snapshot(replace(JOB, vertices=[replace(SOURCE, output_ms=None), WINDOW]), None, "no_watermark")
    of = replace(of, verdict=judged("unknown", 0))
    assert [one.code for one in diagnose(of, [])] == ["source-without-watermark"]
    assert found(of)[SourceSendsNoWatermark].severity == "critical"
    stalled = replace(of, verdict=judged("stalled", 2 * MINUTE))
    assert list(found(stalled)) == [SourceSendsNoWatermark], "another source advances: the fix is that of this one"
    fires = replace(of, flink=replace(JOB, vertices=[SOURCE, replace(WINDOW, sent_per_second=3.0)]))
    assert found(fires)[SourceSendsNoWatermark].severity == "info"
    assert len(found(replace(fires, verdict=stalled.verdict))) == 2, "that it is stalled has another cause"
    young = replace(of, flink=replace(JOB, running_ms=NOW - 5 * SECOND))
    assert SourceSendsNoWatermark not in found(young)


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
    finding = found(of).get(ReadsTooSlowly)
    assert (finding is not None) == is_found
    if isinstance(finding, ReadsTooSlowly):
        assert (finding.severity, finding.unread, finding.at_least) == ("warning", 50_000, True)
        few = replace(of, channels=[replace(one, backlog=7) for one in of.channels])
        assert ReadsTooSlowly not in found(few), "it may be that far behind the clock by its out-of-orderness"
        joined = replace(of, channels=[replace(one, backlog=7, behind_end_ms=9 * MINUTE) for one in of.channels])
        exact = found(joined)[ReadsTooSlowly]
        assert isinstance(exact, ReadsTooSlowly)
        assert (exact.unread, exact.at_least) == (7, False)


def test_records_that_repeat_their_timestamp_are_found() -> None:
    frozen = NOW - 3 * MINUTE
    of = replace(snapshot(level=frozen), verdict=judged("unknown", 3 * MINUTE))
    past = points([0] * 12, level=frozen)
    finding = found(of, past)[EventTimeStuck]
    assert isinstance(finding, EventTimeStuck)
    assert finding.severity == "critical"
    assert [one.code for one in diagnose(of, past)] == ["event-time-stuck"], "instead of `wait`"
    dropping = replace(of, flink=replace(JOB, vertices=[SOURCE, replace(WINDOW, late=90)]))
    assert LateDrops not in found(dropping, points([90] * 12, level=frozen)), "a longer delay would not help"
    ahead = replace(of, level=replace(of.level, behind_fastest_ms=3 * MINUTE))
    assert EventTimeStuck not in found(ahead, past), "somebody is ahead: the slowest holds it back"
    unread = replace(of, flink=replace(JOB, vertices=[replace(SOURCE, taken_per_second=0.0), WINDOW]))
    assert EventTimeStuck not in found(unread, past), "nothing is read"


def test_an_operator_further_down_without_a_watermark_is_found() -> None:
    second = replace(WINDOW, id="x", name="minutes", inputs=["w"], input_ms=None, output_ms=None)
    first = replace(WINDOW, output_ms=None)
    finding = found(snapshot(replace(JOB, vertices=[SOURCE, first, second])))[OperatorBehind]
    assert isinstance(finding, OperatorBehind)
    assert (finding.tasks, finding.behind_ms, finding.silent_input) == (("minutes",), None, "w5")
    slower = replace(second, input_ms=LEVEL - HOUR)
    finding = found(snapshot(replace(JOB, vertices=[SOURCE, WINDOW, slower])))[OperatorBehind]
    assert isinstance(finding, OperatorBehind)
    assert finding.behind_ms == HOUR
    near = replace(second, input_ms=LEVEL - MINUTE)
    assert found(snapshot(replace(JOB, vertices=[SOURCE, WINDOW, near])), points([0] * 10)) == {}


def test_a_watermark_a_year_ahead_is_critical_and_no_longer_delay_helps() -> None:
    ahead = NOW + 365 * 24 * HOUR
    of = snapshot(replace(JOB, vertices=[SOURCE, replace(WINDOW, late=500)]), ahead, "stuck")
    unknown = replace(of, verdict=judged("unknown", 3 * MINUTE))
    findings = diagnose(unknown, points([0, 100, 200, 300, 400, 500], level=ahead))
    assert isinstance(findings[0], FutureTimestamps)
    assert (findings[0].severity, findings[0].drags) == ("critical", True)
    [late] = [one for one in findings if isinstance(one, LateDrops)]
    assert [fix.code for fix in late.fixes] == ["collect-late-records"]


def test_an_operator_that_keeps_the_watermark_back_for_a_minute_is_critical() -> None:
    of = snapshot(cause="kept_back")
    held = replace(of, flink=replace(JOB, held_in="s"), verdict=judged("unknown", 2 * MINUTE))
    finding = found(held)[OperatorKeepsBack]
    assert isinstance(finding, OperatorKeepsBack)
    assert (finding.severity, finding.task, finding.stuck_ms) == ("critical", "Source: in", 2 * MINUTE)
    assert OperatorKeepsBack not in found(replace(held, verdict=judged("moving", MINUTE)))
    stalled = found(replace(held, verdict=judged("stalled", 11 * SECOND, 10 * SECOND)))
    assert list(stalled) == [OperatorKeepsBack]


def test_a_source_whose_records_repeat_their_times_is_stuck_also_without_offsets() -> None:
    of = snapshot(cause="stuck")
    assert EventTimeStuck in found(replace(of, verdict=judged("stalled", 2 * MINUTE)))
    assert EventTimeStuck not in found(replace(of, verdict=judged("moving", 2 * MINUTE, 3 * MINUTE)))


def test_no_data_accounts_for_a_verdict_that_is_not_known() -> None:
    of = snapshot(cause="quiet")
    quiet = replace(
        of, channels=[ChannelView("#0", LEVEL, None, "active", quiet_ms=2 * HOUR)], verdict=judged("unknown", 2 * HOUR)
    )
    assert list(found(quiet)) == [NoData]


def test_a_later_window_operator_that_is_stuck_while_the_shown_one_advances_is_critical() -> None:
    later = replace(WINDOW, id="v", name="second", input_ms=LEVEL - 90 * SECOND, since_ms=NOW - 90 * SECOND)
    of = snapshot(replace(JOB, vertices=[SOURCE, WINDOW, later]))
    moving = replace(of, verdict=judged("moving", SECOND))
    finding = found(moving)[OperatorBehind]
    assert isinstance(finding, OperatorBehind)
    assert (finding.severity, finding.tasks, finding.stuck_ms) == ("critical", ("second",), 90 * SECOND)
    frozen = replace(of, verdict=judged("stalled", 90 * SECOND))
    assert OperatorBehind not in found(frozen)  # the verdict is about both
    advanced = replace(later, since_ms=NOW)
    assert OperatorBehind not in found(replace(moving, flink=replace(JOB, vertices=[SOURCE, WINDOW, advanced])))


def test_what_flink_can_do_about_future_timestamps_is_no_option_of_wmtop() -> None:
    finding = found(snapshot(level=NOW + HOUR))[FutureTimestamps]
    assert [fix.code for fix in finding.fixes] == ["filter-future-records", "check-record"]
