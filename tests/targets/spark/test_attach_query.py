"""`wmtop attach` on a query that says something of itself: live by any of its taps, and once it is over."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from wmtop.engine.feed.messages import SnapshotLine, snapshot_of_line
from wmtop.engine.feed.recording_reader import RecordingReader
from wmtop.tui.cli.running import PUBLISHED

from .jobs import ORDERS, RETURNS, Row, Seen, attach

WAYS = ("published", "event log", "checkpoint")


def wmtop(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "wmtop.tui.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def batches(seen: Seen, name: str) -> list[dict[str, Any]]:
    """What Spark said of the query's batches; it also says something of triggers without one."""
    return [progress for progress in seen.job.progress()[name] if "addBatch" in progress["durationMs"]]


def reached(files: list[list[Row]]) -> dict[str, int]:
    """By hand: the greatest event time of each channel."""
    found: dict[str, int] = {}
    for ms, key in (row for rows in files for row in rows):
        if ms is not None:
            found[key or "(none)"] = max(ms, found.get(key or "(none)", ms))
    return found


def slowest(files: list[list[Row]]) -> int:
    """By hand: how far the slowest channel had come at best; one that first comes later does not take it back."""
    return max(min(reached(files[: number + 1]).values()) for number in range(len(files)))


@pytest.mark.parametrize("way", WAYS)
def test_whatever_it_is_attached_to_the_query_is_the_same(seen: dict[str, Seen], way: str) -> None:
    shown, other = seen["rolled"].attached[way], seen["rolled"].attached["published"]
    assert shown.state == "live"
    assert shown.level == msgspec.structs.replace(other.level, behind_clock_ms=shown.level.behind_clock_ms)
    assert (shown.batch, shown.settings, shown.barrel, shown.whatif) == (
        other.batch,
        other.settings,
        other.barrel,
        other.whatif,
    )
    assert shown.spark.nodes == other.spark.nodes
    assert shown.windows.open == other.windows.open
    assert shown.origin is not None
    assert shown.origin["channels"] == "tap"
    assert (shown.origin["level"], shown.origin["windows"]) == ("checkpoint", "state files")


def test_a_copy_of_its_checkpoint_is_not_the_query_that_runs(seen: dict[str, Seen]) -> None:
    """It has the same id, but the job that publishes that writes to another place."""
    shown, other = seen["rolled"].attached["copy"], seen["rolled"].attached["checkpoint"]
    assert shown.spark.query_id == other.spark.query_id
    assert (shown.spark.query_name, other.spark.query_name) == (None, "windows")
    assert set((shown.origin or {}).values()) <= {"checkpoint", "state files", "state schema"}


def test_two_nodes_both_tapped_show_both_levels_and_who_holds(seen: dict[str, Seen]) -> None:
    shown = seen["rolled"].attached["published"]
    orders, returns = reached(ORDERS), reached([[(ms, (key or "").upper()) for ms, key in rows] for rows in RETURNS])
    by_spark = {"orders": max(orders.values()) - 30_000, "returns": max(returns.values()) - 65_000}
    assert shown.spark.nodes is not None
    assert sorted(node.watermark_ms or 0 for node in shown.spark.nodes) == sorted(by_spark.values())
    assert shown.level.watermark_ms == min(by_spark.values())
    assert [node.delay_ms for node in shown.spark.nodes if node.holds] == [65_000]
    assert shown.barrel is not None
    assert shown.barrel.watermark_ms == min(slowest(ORDERS) - 30_000, slowest(RETURNS) - 65_000)
    both = {f"orders/{name}": ms for name, ms in orders.items()} | {f"ts/{name}": ms for name, ms in returns.items()}
    assert {view.channel: view.max_event_ms for view in shown.channels} == both
    below = {name for name, ms in both.items() if ms <= min(by_spark.values())}
    assert set(shown.barrel.below) == below


def test_what_spark_said_of_the_query(seen: dict[str, Seen]) -> None:
    shown, said = seen["rolled"].attached["published"].spark, batches(seen["rolled"], "windows")
    operators = [state for progress in said for state in progress["stateOperators"]]
    assert shown.dropped_at_least == sum(state["numRowsDroppedByWatermark"] for state in operators)
    assert shown.state_rows == operators[-1]["numRowsTotal"]
    assert {**shown.phases_ms, "triggerExecution": shown.batch_ms} == said[-1]["durationMs"]


def test_the_records_are_those_that_the_taps_saw(seen: dict[str, Seen]) -> None:
    rows = [row for files in (ORDERS, RETURNS) for some in files for row in some]
    totals = seen["rolled"].attached["published"].totals
    assert totals.records == sum(ms is not None for ms, _ in rows)
    assert totals.malformed == sum(ms is None for ms, _ in rows)
    assert totals.late is None


def test_a_finished_log_is_a_recording_of_every_batch(seen: dict[str, Seen], tmp_path: Path) -> None:
    log, out = seen["rolled"].job.log, tmp_path / "windows.rec"
    done = wmtop("attach", log, "--query", "windows", "--json", "--record", out)
    assert done.returncode == 0, done.stderr
    shown = [snapshot_of_line(msgspec.json.decode(line, type=SnapshotLine)) for line in done.stdout.splitlines()]
    said = [progress["batchId"] for progress in batches(seen["rolled"], "windows")]
    assert sorted({snapshot.batch or 0 for snapshot in shown}) == said
    assert [snapshot.state for snapshot in shown][-1] == "ended"
    states = [snapshot.state for snapshot in shown]
    assert states == ["live"] * states.count("live") + ["ended"] * states.count("ended")
    assert states.count("live") >= len(said)
    levels = [snapshot.level.watermark_ms or 0 for snapshot in shown]
    assert levels == sorted(levels)
    with RecordingReader(out) as reader:
        assert len(reader) == len(shown)
    assert wmtop("replay", out, "--once").returncode == 0


def test_a_query_that_failed_says_why(seen: dict[str, Seen]) -> None:
    shown = attach(seen["rolled"].job.log, "--query", "failing")
    assert shown.state == "failed"
    assert shown.error is not None
    assert "no such thing" in shown.error


def test_of_several_queries_one_must_be_meant(seen: dict[str, Seen]) -> None:
    for arguments, reported in {
        (): "it has 3 queries: give --query with one of failing (failed), ticking (stopped), windows (stopped)",
        (
            "--query",
            "orders",
        ): "--query 'orders' is not among its queries: failing (failed), ticking (stopped), windows (stopped)",
        ("--query", "windows", "--state-reader", "files"): "--state-reader has no effect for a finished event log",
    }.items():
        done = wmtop("attach", seen["rolled"].job.log, *arguments, "--once")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.count("\n") == 1
        assert reported in done.stderr


def test_what_a_job_has_published_is_seen_after_its_end(seen: dict[str, Seen], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WMTOP_RUN_DIR", str(seen["rolled"].job.run_dir))
    shown = attach("windows")
    assert shown.state == "ended"
    assert shown.spark.dropped_at_least == seen["rolled"].attached["published"].spark.dropped_at_least
    listed = wmtop("attach")
    assert PUBLISHED in listed.stdout
    assert "gone" in listed.stdout
    assert json.loads(wmtop("attach", "windows", "--once", "--json").stdout)["barrel"] is not None


def test_a_job_killed_in_a_batch_leaves_it_in_flight(seen: dict[str, Seen]) -> None:
    job = seen["plain"].job
    by_checkpoint, by_log = attach(job.directory / "checkpoints" / "hanging"), attach(job.log, "--query", "hanging")
    said = max(ms for ms, _ in ORDERS[0] if ms is not None) - 30_000
    for shown in by_checkpoint, by_log:
        assert (shown.batch, shown.spark.in_flight, shown.level.watermark_ms) == (1, True, said)
    assert by_checkpoint.channels == []
    assert {view.channel: view.max_event_ms for view in by_log.channels} == reached(ORDERS[:1])
    assert (by_checkpoint.settings.lateness_ms, by_log.settings.lateness_ms) == (None, 30_000)  # it keeps no state


def test_a_directory_that_holds_several_lists_them(seen: dict[str, Seen]) -> None:
    directory = seen["rolled"].job.directory
    listed = wmtop("attach", directory)
    assert listed.returncode == 0
    assert str(directory) in listed.stdout.splitlines()[0]
    assert f"  {directory}/checkpoints/windows  changed " in listed.stdout
    assert f"  {seen['rolled'].job.log}  changed " in listed.stdout
    assert wmtop("attach", directory, "--once").returncode == 2


def test_a_reader_that_goes_away_is_no_failure(seen: dict[str, Seen]) -> None:
    target = str(seen["rolled"].job.directory / "checkpoints" / "windows")
    command = [sys.executable, "-m", "wmtop.tui.cli", "attach", target, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 143
        assert process.stderr.read() == ""
