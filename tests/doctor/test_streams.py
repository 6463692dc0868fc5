"""Findings about Kafka Streams applications: what must be found of stuck tasks, and what must not be said."""

from typing import Any

import pytest
from msgspec.structs import replace
from wmtop.engine.doctor import Finding, accounts_for, diagnose, explain
from wmtop.engine.snapshot import Clock, KafkaStreams, Reprocessed, Snapshot, VerdictName

from ..tui.attached import MINUTE, NOW, streams


def found(snapshot: Snapshot, **reader: Any) -> dict[str, Finding]:
    return {finding.code: finding for finding in diagnose(snapshot, (), **reader)}


def changed(snapshot: Snapshot, task: str, **changes: Any) -> Snapshot:
    """The application with another clock for that task, and a channel that fits it."""
    target = snapshot.target
    assert isinstance(target, KafkaStreams)
    clocks = [replace(one, **changes) if one.task == task else one for one in target.clocks]
    channel = next(one.channels[0] for one in clocks if one.task == task)
    at = changes.get("time_ms")
    views = [
        replace(view, watermark_ms=at, max_event_ms=at) if at is not None and view.channel == channel else view
        for view in snapshot.channels
    ]
    return replace(snapshot, channels=views, target=replace(target, clocks=clocks))


def test_a_healthy_application_has_no_findings() -> None:
    assert found(streams(stuck=0)) == {}
    assert found(streams(stuck=0, tasks=500)) == {}


@pytest.mark.parametrize(("window_ms", "severity"), [(10_000, "critical"), (None, "warning")])
def test_a_task_without_data_is_critical_only_where_windows_are_known_to_wait(
    window_ms: int | None, severity: str
) -> None:
    snapshot = streams(window_ms=window_ms)
    finding = found(snapshot)["stream-time-stuck"]
    assert (finding.severity, finding.channels) == (severity, ("orders-2",))
    assert accounts_for(finding, "waiting")
    said = explain(finding, snapshot, None)
    assert "0_2" in said.title
    assert "orders-2" in said.title
    assert any("kafka-console-producer" in fix for fix in said.fixes) == (window_ms is not None)


def test_a_task_that_is_known_to_have_no_windows_holds_nothing() -> None:
    without = changed(streams(window_ms=None), "0_2", has_windows=False)
    assert "stream-time-stuck" not in found(without)


def test_records_that_are_not_processed_are_the_application_s_and_no_producer_is_sent_for() -> None:
    snapshot = streams(unread=44_000)
    findings = found(snapshot)
    said = explain(findings["stream-time-stuck"], snapshot, None)
    assert "44,000" in said.title
    assert accounts_for(findings["stream-time-stuck"], "stalled")
    assert not any("producer" in fix for fix in said.fixes)
    assert "starving-partition" not in findings
    assert "no members" not in said.cause
    target = snapshot.target
    assert isinstance(target, KafkaStreams)
    down = replace(snapshot, target=replace(target, streams=replace(target.streams, members=0)))
    assert "no members" in explain(found(down)["stream-time-stuck"], down, None).cause


def test_a_partition_is_starving_only_while_others_of_its_topic_or_task_have_data() -> None:
    assert found(streams())["starving-partition"].channels == ("orders-2",)
    assert "starving-partition" not in found(streams(stuck=3))
    together = streams(stuck=2)
    target = together.target
    assert isinstance(target, KafkaStreams)
    joined = Clock("0_0", ["orders-0", "orders-1"], target.clocks[0].time_ms, "moving", 0, downstream=False)
    one_task = replace(together, target=replace(target, clocks=[joined]))
    finding = found(one_task)["starving-partition"]
    assert (finding.channels, finding.severity) == (("orders-1",), "info")


def lagging(behind_ms: int, **more: Any) -> Snapshot:
    """A source partition that reads its backlog, so far behind the tasks downstream of the repartition."""
    snapshot = streams(stuck=0, **more)
    slow = changed(snapshot, "0_1", time_ms=NOW - 4_000 - behind_ms)
    views = [replace(view, backlog=900) if view.channel == "orders-1" else view for view in slow.channels]
    return replace(slow, channels=views)


@pytest.mark.parametrize(
    ("behind_ms", "window_ms", "severity"),
    [(13_000, 10_000, "warning"), (11_000, 10_000, None), (2 * MINUTE, None, "info"), (50_000, None, None)],
)
def test_what_a_repartition_drops_of_a_lagging_partition(
    behind_ms: int, window_ms: int | None, severity: str | None
) -> None:
    """Windows of 10 s with a grace of 2 s: a record 12 s behind may still be counted."""
    finding = found(lagging(behind_ms, window_ms=window_ms)).get("repartition-drops")
    assert (None if finding is None else finding.severity) == severity
    assert finding is None or finding.channels == ("orders-1",)


@pytest.mark.parametrize(
    ("behind", "severity", "impact"),
    [
        ("all", "warning", "Drops records of orders-1:"),
        ("one", "warning", "Drops records of orders-1 that go to task 1_2:"),
        ("other sub-topology", "info", "Drops records of orders-1 that go to task 1_0 and 2 more:"),
        ("none", None, ""),
    ],
)
def test_only_tasks_that_are_ahead_drop_the_records_of_a_lagging_partition(
    behind: str, severity: str | None, impact: str
) -> None:
    """Its keys may all go to tasks that are as far behind; with two sub-topologies perhaps to none of these."""
    snapshot = lagging(5 * MINUTE)
    for number in range({"one": 2, "none": 3}.get(behind, 0)):
        snapshot = changed(snapshot, f"1_{number}", time_ms=NOW - 5 * MINUTE)
    if behind == "other sub-topology":
        target = snapshot.target
        assert isinstance(target, KafkaStreams)
        clocks = [replace(one, task="2_0") if one.task == "0_0" else one for one in target.clocks]
        snapshot = replace(snapshot, target=replace(target, clocks=clocks))
    finding = found(snapshot).get("repartition-drops")
    assert (None if finding is None else finding.severity) == severity
    assert finding is None or finding.impact.startswith(impact)


def test_a_task_that_may_wait_for_its_partition_without_records_says_so() -> None:
    """Real applications: with max.task.idle.ms a task processes nothing until each partition has a record."""
    snapshot = streams(unread=7)
    target = snapshot.target
    assert isinstance(target, KafkaStreams)
    stuck = replace(target.clocks[2], channels=["orders-2", "orders-1"])
    waits = replace(snapshot, target=replace(target, clocks=[target.clocks[0], stuck]))
    assert "max.task.idle.ms" in found(waits)["stream-time-stuck"].cause
    assert "orders-1" in found(waits)["stream-time-stuck"].cause
    assert "max.task.idle.ms" not in found(snapshot)["stream-time-stuck"].cause


def test_without_a_repartition_nothing_is_dropped_by_it() -> None:
    snapshot = lagging(5 * MINUTE)
    target = snapshot.target
    assert isinstance(target, KafkaStreams)
    clocks = [replace(one, downstream=False) for one in target.clocks]
    assert "repartition-drops" not in found(replace(snapshot, target=replace(target, clocks=clocks)))


@pytest.mark.parametrize(("ahead_ms", "is_found"), [(4 * MINUTE, False), (60 * MINUTE, True)])
def test_a_stream_time_far_ahead_of_the_clock_closed_windows_early(ahead_ms: int, is_found: bool) -> None:
    findings = found(changed(streams(stuck=0), "0_1", time_ms=NOW + ahead_ms, has_windows=True))
    assert set(findings) == ({"future-stream-time"} if is_found else set())
    if is_found:
        finding = findings["future-stream-time"]
        assert (finding.severity, finding.channels) == ("critical", ("orders-1",))


def reprocessed(ago_ms: int = MINUTE, **known: Any) -> Reprocessed:
    """Three records after a restart at which the stream time was four seconds before now."""
    return Reprocessed(
        **{"since_ms": NOW - ago_ms, "time_ms": NOW - 4_000, "records": 3, "channels": ["orders-1"]} | known
    )


@pytest.mark.parametrize(
    ("window_ms", "earliest_ms", "severity"),
    [
        (10_000, NOW - 60_000, "warning"),
        (10_000, NOW - 5_000, None),  # its window was open
        (10_000, None, "info"),
        (None, NOW - 60_000, "info"),
    ],
)
def test_records_of_emitted_windows_after_a_restart_may_bring_them_out_again(
    window_ms: int | None, earliest_ms: int | None, severity: str | None
) -> None:
    seen = reprocessed(earliest_ms=earliest_ms)
    snapshot = changed(streams(stuck=0, window_ms=window_ms), "0_1", reprocessed=seen)
    finding = found(snapshot).get("reemitted-windows")
    assert (finding and finding.severity) == severity
    if finding is not None:
        said = explain(finding, snapshot, None)
        assert "task 0_1" in said.title
        assert "may" in said.title
        assert "3 records of orders-1" in said.impact
        assert said.impact.startswith("If it has windows")


def test_only_tasks_with_windows_are_named_where_some_are_known_to_have_them() -> None:
    snapshot = changed(streams(stuck=0), "0_1", reprocessed=reprocessed())
    assert "reemitted-windows" in found(changed(snapshot, "0_1", has_windows=True))
    assert "reemitted-windows" not in found(changed(snapshot, "1_0", has_windows=True))


@pytest.mark.parametrize(
    ("is_over", "ago_ms", "is_found"),
    [(True, 59 * MINUTE, True), (True, 61 * MINUTE, False), (False, 300 * MINUTE, True)],
)
def test_windows_that_came_out_again_are_reported_for_an_hour(is_over: bool, ago_ms: int, is_found: bool) -> None:
    snapshot = changed(streams(stuck=0), "0_1", reprocessed=reprocessed(ago_ms, is_over=is_over))
    finding = found(snapshot).get("reemitted-windows")
    assert (finding is not None) is is_found
    assert finding is None or ("come out twice" in finding.title) is is_over


def test_nothing_is_judged_of_an_application_that_is_lost() -> None:
    assert "stream-time-stuck" not in found(streams(), lost="the broker is gone")
    assert "stream-time-stuck" not in found(streams(state="stale"))


def all_quiet(verdict: VerdictName) -> Snapshot:
    """No partition of any task has had a record for twelve minutes."""
    snapshot = streams(stuck=3)
    target = snapshot.target
    assert isinstance(target, KafkaStreams)
    clocks = [replace(clock, verdict=verdict) for clock in target.clocks]
    views = [replace(view, quiet_ms=12 * MINUTE) for view in snapshot.channels]
    found = replace(snapshot.verdict, verdict=verdict)
    return replace(snapshot, channels=views, target=replace(target, clocks=clocks), verdict=found)


def test_an_application_without_any_data_has_one_finding() -> None:
    assert set(found(all_quiet("unknown"))) == {"no-data"}  # not watched long enough for a verdict
    assert set(found(all_quiet("waiting"))) == {"stream-time-stuck"}


def test_a_partition_without_a_known_reader_may_have_data() -> None:
    quiet = all_quiet("unknown")
    new = replace(
        quiet.channels[0], channel="new-0", watermark_ms=None, state="never_seen", backlog=None, quiet_ms=None
    )
    assert "no-data" not in found(replace(quiet, channels=[*quiet.channels, new]))
    assert "no-data" in found(replace(quiet, channels=[*quiet.channels, replace(new, backlog=0)]))


def test_no_finding_speaks_of_a_watermark() -> None:
    quiet = all_quiet("unknown")
    for snapshot in (streams(), streams(unread=7), lagging(60_000), streams(stuck=3, window_ms=None), quiet):
        for finding in diagnose(snapshot, ()):
            said = explain(finding, snapshot, None)
            text = " ".join([said.title, said.impact, said.cause, *said.evidence, *said.fixes])
            assert "watermark" not in text
            assert "idle timeout of" not in text
