"""What is said of a Kafka Streams application: clocks without a minimum, what is stuck, and what frees it."""

import re

import pytest
from msgspec.structs import replace
from wmtop.engine.doctor import diagnose
from wmtop.engine.snapshot import KafkaStreams, Snapshot
from wmtop.engine.verdict.alerts import VerdictChanged
from wmtop.engine.verdict.history import history_point
from wmtop.tui.words.check import CheckInput, facts_of, reason_of
from wmtop.tui.words.clocks import clock_lines, groups, partition_line
from wmtop.tui.words.fleet import fleet_row
from wmtop.tui.words.history import alert_text
from wmtop.tui.words.kinds import presenter_of
from wmtop.tui.words.metrics import METRICS
from wmtop.tui.words.spans import lay
from wmtop.tui.words.summary import summary
from wmtop.tui.words.verdict import blame, verdict_line, verdict_parts

from ..attached import MINUTE, NOW, streams


def line(snapshot: Snapshot, width: int = 200) -> str:
    return "".join(text for text, _ in lay(verdict_parts(snapshot, diagnose(snapshot, ()), key="v"), width))


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_line_has_the_word_the_age_and_who_at_every_width(width: int) -> None:
    said = line(streams(), width)
    for part in ("WAITING ≥ 12m", "task 0_2", "orders-2 has no data"):
        assert part in said
    assert ("4 windows wait" in said) == (width >= 80)
    assert ("13:47:42 or later in orders-2" in said) == (width >= 200)
    assert "…" not in said


def test_it_counts_the_other_stuck_tasks() -> None:
    assert "task 0_1 and 1 more: orders-1 has no data" in line(streams(stuck=2))


def test_unread_records_need_no_record_to_free_them() -> None:
    said = line(streams(unread=44_000))
    assert "STALLED" in said
    assert "44,000 records of orders-2 are not processed" in said
    assert "or later" not in said


def test_a_record_of_a_whole_second_is_enough_where_the_window_needs_a_part_of_it() -> None:
    """13:47:42.001 is needed: 13:47:42 would not free it."""
    snapshot = streams()
    target = snapshot.target
    assert isinstance(target, KafkaStreams)
    waiting = target.clocks[2].waiting
    assert waiting is not None
    late = replace(target.clocks[2], waiting=replace(waiting, frees_ms=waiting.frees_ms + 1))
    clocks = [*target.clocks[:2], late, *target.clocks[3:]]
    assert "13:47:43 or later" in line(replace(snapshot, target=replace(target, clocks=clocks)), 250)


def test_the_clocks_are_grouped_by_sub_topology_and_downstream_ones_are_apart() -> None:
    grouped = groups(streams(tasks=12).clocks)
    assert ["downstream" in title for title, _ in grouped] == [False, True]
    assert [clock.task for clock in grouped[0][1]] == [f"0_{number}" for number in range(12)]


def test_a_task_of_which_the_number_is_none_comes_after_the_others() -> None:
    """Of another program's recording: `²` is a digit for Python, and no number; nor are 5,000 digits one."""
    tasks = ["0_²", "9" * 5_000, "0_7"]
    odd = [replace(clock, task=task) for clock, task in zip(streams().clocks, tasks, strict=False)]
    assert {clock.task for _, group in groups(odd) for clock in group} == set(tasks)


def test_every_surface_names_the_same_task_age_and_lag() -> None:
    """One truth: line, blame, check, fleet, facts, export, report's words and alert."""
    snapshot = streams()
    point = history_point(snapshot)
    assert point is not None
    findings = diagnose(snapshot, ())
    given = CheckInput(snapshot, (), "waiting", findings)
    row = fleet_row("billing", "kafka", snapshot, (), None)
    for text in (blame(snapshot), verdict_line(snapshot, findings), reason_of(given), row.reason):
        assert text is not None
        assert "0_2" in text
        assert "orders-2 has no data" in text
    lag_ms = 12 * MINUTE + 30_000
    facts = facts_of(given)
    assert (facts["level_lag"], facts["age"]) == (lag_ms, 12 * MINUTE)
    assert (row.lag_ms, point.now_ms - (point.watermark_ms or 0)) == (lag_ms, lag_ms)
    exported = {metric.name: dict(metric.take(given)) for metric in METRICS}
    assert exported["stream_time_lag_seconds"][("0_2",)] == lag_ms / 1_000
    assert exported["stream_time_age_seconds"][("0_2",)] == 12 * 60
    assert exported["watermark_timestamp_seconds"] == {}
    changed = VerdictChanged(wall_ms=NOW, verdict="stalled", before="moving")
    assert "0_2" in alert_text(changed, streams(unread=5), ())


def test_nothing_speaks_of_a_watermark_of_the_application() -> None:
    for snapshot in (streams(), streams(stuck=0), streams(unread=9), streams(window_ms=None)):
        words = presenter_of(snapshot)
        parts = [*words.watermark(None), *words.holder(None), *words.tuning(None, None)]
        texts = [line(snapshot), "".join(text for part in parts for text, _ in part.spans), summary(snapshot)]
        assert not [text for text in texts if re.search("watermark|barrel|held back", text)]


def test_without_options_it_says_which_ones_show_more() -> None:
    words = presenter_of(streams(window_ms=None))
    for text in (words.not_here("Windows"), words.no("windows")):
        assert text is not None
        assert "--window" in text
        assert "--grace" in text
    assert presenter_of(streams()).not_here("Windows") is None
    assert presenter_of(streams()).not_here("Lateness") is not None
    assert presenter_of(streams()).not_here("Doctor") is None


def test_a_thousand_clocks_are_a_few_lines() -> None:
    lines = clock_lines(streams(tasks=500))
    assert len(lines) == 21
    assert "0_499" in lines[0]
    assert "980" in lines[-1]


def test_a_clock_without_a_commit_is_not_at_zero() -> None:
    snapshot = streams(tasks=1, stuck=0)
    target = snapshot.target
    assert isinstance(target, KafkaStreams)
    none = replace(target.clocks[0], time_ms=None, verdict="unknown", age_ms=None)
    views = [replace(view, watermark_ms=None, max_event_ms=None, state="never_seen") for view in snapshot.channels]
    empty = replace(snapshot, channels=views, target=replace(target, clocks=[none]))
    said = " ".join(clock_lines(empty))
    assert "1970" not in said
    assert "UNKNOWN" in said
    assert facts_of(CheckInput(empty, (), "unknown", ()))["level_lag"] is None


def test_a_copied_partition_says_what_its_page_says() -> None:
    """No partition is ahead of or behind a watermark where each task has a clock of its own."""
    snapshot = streams()
    said = ["".join(text for text, _ in presenter_of(snapshot).channel_line(view)) for view in snapshot.channels]
    assert said == ["".join(text for text, _ in partition_line(snapshot, view)) for view in snapshot.channels]
    assert not any("watermark" in line for line in said)
