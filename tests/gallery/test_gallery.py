"""What attach says of foreign jobs, by checkpoint and by event log, against what the jobs know themselves."""

import json
import sys
import time
from typing import Any

import pytest
from wmtop.engine.doctor import diagnose
from wmtop.engine.snapshot import NoteCode, Snapshot, SourceView
from wmtop.engine.targets.spark.open_windows import OpenWindowsTap
from wmtop.engine.targets.spark.reports import LogReports
from wmtop.engine.targets.spark.watch import QueryWatch
from wmtop.tui import cli

from tests.snapshots import replace

from .conftest import QUICK, Gallery
from .job import ms
from .jobs import JOBS

TAPS = ("checkpoint", "event log")
ANY = "any"


def attach(gallery: Gallery, job: str, tap: str) -> Snapshot:
    """One look at a job's query."""
    if tap == "checkpoint":
        watch = QueryWatch(SourceView(tap, job), checkpoint=gallery.checkpoint(job), windows=OpenWindowsTap)
    else:
        reports = LogReports(gallery.log, gallery.truths[job]["id"])
        watch = QueryWatch(SourceView(tap, job), reports=reports, windows=OpenWindowsTap)
    watch.open()
    try:
        return watch.picture(job, watch.poll(), time.time_ns() // 1_000_000).snapshot
    finally:
        watch.close()


def truth_of(gallery: Gallery, job: str) -> dict[str, Any]:
    if job not in gallery.truths:
        pytest.skip(f"{job} is not among the jobs that this gallery ran (GALLERY=all runs every one)")
    truth = gallery.truths[job]
    assert "broken" not in truth, truth["broken"]
    return truth


def codes(shown: Snapshot) -> set[NoteCode]:
    return {note.code for note in shown.notes}


def windows_of(shown: Snapshot, operator: int | None) -> list[list[int | None]]:
    return sorted(
        [window.start_ms, window.end_ms, window.records]
        for window in shown.windows.open
        if window.operator in (None, operator)
    )


@pytest.mark.parametrize("tap", TAPS)
@pytest.mark.parametrize("job", JOBS)
def test_attach_agrees_with_the_job(gallery: Gallery, job: str, tap: str) -> None:
    truth = truth_of(gallery, job)
    if truth.get("gone") and tap == "checkpoint":
        return
    shown = attach(gallery, job, tap)
    assert shown.spark.query_id == truth["id"]
    if truth["watermark_ms"] != ANY:
        assert shown.level.watermark_ms == truth["watermark_ms"]
    if isinstance(truth["open"], list):
        inner = truth.get("at", max((one.operator or 0 for one in shown.spark.operators or ()), default=0))
        assert windows_of(shown, inner) == sorted(truth["open"])
    elif truth["open"] is None:
        assert shown.windows.open_count is None
        assert shown.windows.unknown
    if "outer" in truth:
        assert {(window.start_ms, window.end_ms) for window in shown.windows.open if window.operator == 0} == {
            (start, end) for start, end, _ in truth["outer"]
        }
    if "upper" in truth:
        upper = [window for window in shown.windows.open if window.operator == 0]
        assert {(window.start_ms, window.end_ms) for window in upper} <= {
            (start, end) for start, end, _ in truth["upper"]
        }
        assert any(window.end_ms <= (shown.level.watermark_ms or 0) for window in upper)
        assert {window.short_ms for window in upper} == {None}
    if truth.get("several_delays") and tap == "checkpoint":  # the state has one of them, which is not the query's
        assert shown.settings.lateness_ms is None
        assert [node.watermark_ms for node in shown.spark.nodes or ()] == [None]
    if "kept" in truth:
        assert shown.windows.kept == truth["kept"]
    assert shown.windows.fired == (truth["kept"] if truth["mode"] == "complete" else None)
    if truth["batches"] and (tap == "event log" or truth["open"] is not None):  # windows in its state prove it
        assert (shown.spark.output_mode == "complete") == (truth["mode"] == "complete")


@pytest.mark.parametrize("job", JOBS)
def test_the_event_log_has_what_only_the_plan_knows(gallery: Gallery, job: str) -> None:
    truth = truth_of(gallery, job)
    spark = attach(gallery, job, "event log").spark
    assert spark.dropped_at_least == truth["dropped"]
    if truth["batches"]:
        assert spark.has_watermark is not truth.get("no_watermark", False)
    assert spark.frozen_ms == truth.get("frozen_ms")
    nodes, operators = spark.nodes or [], spark.operators or []
    assert [at for at, node in enumerate(nodes) if node.pinned] == [truth[key] for key in ("pinned",) if key in truth]
    if "held_by" in truth:
        assert [at for at, node in enumerate(nodes) if node.holds] == [truth["held_by"]]
    if "never_held_by" in truth:
        assert truth["never_held_by"] not in [at for at, node in enumerate(nodes) if node.holds]
    if "delay_ms" in truth:
        assert [node.delay_ms for node in nodes] == [truth["delay_ms"]]
    kept_forever = [one for one in operators if one.evicts is False and one.output_mode != "complete"]
    assert bool(kept_forever) == truth.get("keeps_forever", False)
    if any(one.output_mode for one in operators) and truth["mode"]:
        assert spark.output_mode == truth["mode"]


@pytest.mark.parametrize(
    ("job", "batches"), [("tumbling_late", 4 + 1), ("tumbling_complete", 4), ("stateless_watermark", 3)]
)
def test_a_batch_without_data_follows_where_the_watermark_removes_state(
    gallery: Gallery, job: str, batches: int
) -> None:
    """Of queries that have read a file in each batch, with or without a last one in which A = B (semantics 10)."""
    assert truth_of(gallery, job)["batches"] == batches


def test_the_next_watermark_of_several_inputs_may_not_be_known(gallery: Gallery) -> None:
    truth_of(gallery, "union_without_state")
    assert attach(gallery, "union_without_state", "checkpoint").level.watermark_ms == ms(18 - 60)
    shown = attach(gallery, "union_without_state", "event log")
    assert (shown.level.watermark_ms, shown.spark.watermark_ms, shown.spark.never_moved) == (None, None, None)
    assert "watermark-never-moved" not in {finding.code for finding in diagnose(shown, ())}


NOTES: dict[str, tuple[NoteCode, tuple[str, ...]]] = {
    "chained_second_watermark": ("watermark_pinned", ("event log",)),
    "join_empty_input": ("watermark_pinned", ("event log",)),
    "restart_longer_delay": ("watermark_frozen", ("event log",)),
    "join_restarted_with_another_delay": ("watermark_frozen", ("event log",)),
    "union_of_three_one_empty": ("watermark_pinned", ("event log",)),
    "no_watermark": ("no_watermark", TAPS),
    "dedup_without_watermark": ("no_watermark", TAPS),
    "aggregation_without_watermark": ("no_watermark", TAPS),
    "failed_sibling": ("sibling_failed", ("event log",)),
}
"""What must be said of a job, and by which taps."""


@pytest.mark.parametrize("job", NOTES)
def test_what_is_wrong_is_said(gallery: Gallery, job: str) -> None:
    truth_of(gallery, job)
    code, taps = NOTES[job]
    for tap in taps:
        assert code in codes(attach(gallery, job, tap))


FINDINGS: dict[str, dict[str, str]] = {
    "chained_second_watermark": {"checkpoint": "watermark-never-moved", "event log": "watermark-pinned"},
    "join_empty_input": {"checkpoint": "watermark-never-moved", "event log": "node-without-data"},
    "failed_query": {"event log": "engine-failed"},
    "failed_in_its_first_batch": {"event log": "engine-failed"},
    "totals_update": {"event log": "no-watermark"},
    "failed_sibling": {"event log": "sibling-failed"},
    "watermark_overwritten": dict.fromkeys(TAPS, "state-never-removed"),
    "watermark_after_aggregation": dict.fromkeys(TAPS, "state-never-removed"),
    "key_lacks_window": {"event log": "state-never-removed"},
    "dedup_without_watermark": {"event log": "no-watermark"},
    "join_without_bound": {"event log": "state-never-removed"},
    "union_of_three_one_empty": {"checkpoint": "watermark-never-moved", "event log": "node-without-data"},
    "python_function_behind_the_watermark": dict.fromkeys(TAPS, "state-never-removed"),
    "dedup_without_the_time": {"event log": "state-never-removed"},
    "before_1970": {"event log": "watermark-never-moved"},
    "one_row_from_the_far_future": dict.fromkeys(TAPS, "future-timestamps"),
}
"""What the doctor must find, by tap."""
QUIET = {
    "totals_complete": {"no-watermark", "state-never-removed"},
    "stream_limit": {"no-watermark", "state-never-removed"},
    "pandas_state": {"no-watermark", "state-never-removed"},
    "transform_with_state": {"no-watermark", "state-never-removed"},
    "failed_then_restarted": {"engine-failed", "query-stale"},
    "dedup_within_watermark": {"state-never-removed"},
}
"""What the doctor must not find, by event log; by checkpoint it warns of no state that is never removed."""
FINE = ("tumbling_late", "session_append", "join_min", "join_max", "tumbling_complete", "rocksdb", "dedup")
WRONG = {
    "node-without-data", "watermark-pinned", "watermark-never-moved", "no-watermark", "state-never-removed",
    "frozen-by-lateness", "state-grows",
}  # fmt: skip


@pytest.mark.parametrize("job", FINDINGS)
def test_the_doctor_finds_it(gallery: Gallery, job: str) -> None:
    truth_of(gallery, job)
    for tap, code in FINDINGS[job].items():
        shown = attach(gallery, job, tap)
        if shown.state == "ended" and code == "frozen-by-lateness":
            shown = replace(shown, state="live")  # as it was before it had read everything
        found = [finding.code for finding in diagnose(shown, [])]
        assert code in found, tap
        assert tap == "checkpoint" or code != "engine-failed" or found[0] == code


@pytest.mark.parametrize("job", QUIET)
def test_the_doctor_does_not_find_what_is_not_so(gallery: Gallery, job: str) -> None:
    truth_of(gallery, job)
    assert not {finding.code for finding in diagnose(attach(gallery, job, "event log"), [])} & QUIET[job]
    by_checkpoint = diagnose(attach(gallery, job, "checkpoint"), [])
    assert not {(one.code, one.severity) for one in by_checkpoint} & {("state-never-removed", "warning")}


@pytest.mark.parametrize("job", ["tumbling_late", "chained_second_watermark", "rerun_without_data"])
def test_check_reads_the_state_and_gives_a_reason_for_its_own_verdict(
    gallery: Gallery, job: str, capsys: pytest.CaptureFixture[str]
) -> None:
    truth = truth_of(gallery, job)
    for target in ([gallery.checkpoint(job)], [gallery.log, "--query", truth["id"]]):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["wmtop", "check", *map(str, target), "--json", "--for", "1ms"])
            with pytest.raises(SystemExit):
                cli.main()
        said = json.loads(capsys.readouterr().out)
        assert said["facts"]["open_windows"] == len(truth["open"])
        assert "failed" not in said["reason"]  # a sibling of it has, which is another matter


COUNTED = {
    "tumbling_late": 3, "tumbling_complete": 0, "late_rows_of_one_key": 1, "dedup_within_watermark_late": 3,
    "pandas_state": 3, "transform_with_state": 3,
}  # fmt: skip
"""What Spark counts of three late rows."""


@pytest.mark.parametrize("job", [*COUNTED, "foreach_batch_twice"])
def test_dropped_rows_are_what_spark_counts_and_exact_where_nothing_is_aggregated(gallery: Gallery, job: str) -> None:
    truth = truth_of(gallery, job)
    spark = attach(gallery, job, "event log").spark
    assert (spark.dropped_at_least, truth["late"]) == (COUNTED.get(job, truth["dropped"]), 3)
    assert spark.dropped_exact == ("dedup" in job or "state" in job)


@pytest.mark.parametrize("job", ["tumbling_late", "rocksdb", "rerun_without_data"])
def test_a_look_changes_nothing(gallery: Gallery, job: str) -> None:
    truth_of(gallery, job)

    def files() -> dict[str, tuple[int, int]]:
        places = (gallery.checkpoint(job), gallery.log)
        stats = {path: path.stat() for place in places for path in place.rglob("*")}
        return {str(path): (stat.st_mtime_ns, stat.st_size) for path, stat in stats.items()}

    before = files()
    for tap in TAPS:
        attach(gallery, job, tap)
    assert files() == before


@pytest.mark.parametrize("job", FINE)
def test_the_doctor_finds_nothing_in_what_is_fine(gallery: Gallery, job: str) -> None:
    truth_of(gallery, job)
    for tap in TAPS:
        assert not {finding.code for finding in diagnose(attach(gallery, job, tap), [])} & WRONG


@pytest.mark.parametrize(
    "job", ["tumbling_late", "session_append", "join_min", "tumbling_complete", "restart_with_older_rows"]
)
def test_nothing_wrong_is_said_of_a_job_that_is_fine(gallery: Gallery, job: str) -> None:
    truth_of(gallery, job)
    wrong: set[NoteCode] = {"watermark_pinned", "watermark_unmoved", "watermark_frozen", "no_watermark"}
    for tap in TAPS:
        assert not codes(attach(gallery, job, tap)) & wrong


def test_a_chain_that_never_emits_is_no_all_clear_by_its_checkpoint(gallery: Gallery) -> None:
    truth_of(gallery, "chained_second_watermark")
    assert "watermark_unmoved" in codes(attach(gallery, "chained_second_watermark", "checkpoint"))


def test_failed_queries_of_the_application_come_first(gallery: Gallery) -> None:
    truth_of(gallery, "failed_sibling")
    states = [one.state for one in attach(gallery, "failed_sibling", "event log").siblings or ()]
    assert states == ["failed"] * states.count("failed") + ["stopped"] * states.count("stopped")
    assert {"failed", "stopped"} == set(states)
    assert attach(gallery, "failed_sibling", "checkpoint").siblings is None


def test_a_failed_query_says_why(gallery: Gallery) -> None:
    truth = truth_of(gallery, "failed_query")
    shown = attach(gallery, "failed_query", "event log")
    assert shown.state == "failed"
    assert truth["error"] in (shown.error or "")


def test_the_quick_jobs_exist() -> None:
    assert set(QUICK) <= set(JOBS)
    assert len(JOBS) >= 30
