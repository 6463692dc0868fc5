"""What attach says of the same jobs by `publish` and `tap`, against their truth and against their input files."""

import json
import time
from pathlib import Path

import pytest
from wmtop.engine.doctor import diagnose
from wmtop.engine.snapshot import Snapshot, SourceView
from wmtop.engine.targets.spark.open_windows import OpenWindowsTap
from wmtop.engine.targets.spark.reports import SUFFIX, JobReports, Published, PublishedTap
from wmtop.engine.targets.spark.watch import QueryWatch

from .conftest import Gallery
from .jobs import JOBS
from .test_gallery import FINE, WRONG, truth_of, windows_of

OF_LATER_RUNS = (
    "restart_longer_delay", "restart_shorter_delay", "restart_with_older_rows", "failed_then_restarted",
    "rerun_without_data",
)  # fmt: skip
"""A tap counts since the start of a run; the files have what earlier runs read, too."""
UNREAD = ("failed_query", "failed_sibling", "failed_in_its_first_batch")
"""Not all of the files were read."""


def attach(published: Gallery, job: str) -> Snapshot:
    """One look at a job's query by what it publishes."""
    [path] = (published.directory / "run").glob(f"*{SUFFIX}")
    publication = PublishedTap(path).poll()
    assert publication is not None
    reports = JobReports(Published("gallery", path, publication), published.truths[job]["id"])
    watch = QueryWatch(SourceView("published query", job), reports=reports, windows=OpenWindowsTap)
    watch.open()
    try:
        return watch.picture(job, watch.poll(), time.time_ns() // 1_000_000).snapshot
    finally:
        watch.close()


def batches_of(directory: Path) -> list[list[tuple[int, str]]]:
    """Event times (ms) and keys in the input, file by file as they are read."""
    files = sorted(directory.glob("*.json"), key=lambda path: int(path.stem))
    rows = [[json.loads(line) for line in path.read_text().splitlines()] for path in files]
    return [[(round(row["t"] * 1000), row["key"]) for row in file] for file in rows]


@pytest.mark.parametrize("job", JOBS)
def test_a_published_query_agrees_with_its_job(published: Gallery, job: str) -> None:
    truth = truth_of(published, job)
    shown = attach(published, job)
    assert shown.spark.query_id == truth["id"]
    assert shown.spark.query_name is None or shown.spark.query_name in (job, "sibling")
    assert shown.spark.dropped_at_least == truth["dropped"]
    if truth["watermark_ms"] != "any":
        assert shown.level.watermark_ms == truth["watermark_ms"]
    if isinstance(truth["open"], list) and not truth.get("gone"):
        inner = truth.get("at", max((one.operator or 0 for one in shown.spark.operators or ()), default=0))
        assert windows_of(shown, inner) == sorted(truth["open"])
    elif truth["open"] is None:
        assert shown.windows.open_count is None
    if "held_by" in truth:
        assert [at for at, node in enumerate(shown.spark.nodes or ()) if node.holds] == [truth["held_by"]]
    if "never_held_by" in truth:
        assert truth["never_held_by"] not in [at for at, node in enumerate(shown.spark.nodes or ()) if node.holds]
    if "policy" in truth:
        assert shown.spark.policy == truth["policy"]
    if "error" in truth:
        assert (shown.state, truth["error"] in (shown.error or "")) == ("failed", True)
        assert shown.batch == truth["batches"], "the one that it failed in"
        assert shown.spark.has_watermark, "also of one that has reported none"
    if job in FINE:
        assert not {finding.code for finding in diagnose(shown, [])} & WRONG


@pytest.mark.parametrize("job", JOBS)
def test_a_tap_counts_what_is_in_the_files(published: Gallery, job: str) -> None:
    truth = truth_of(published, job)
    directory = published.directory / job / "input"
    shown = attach(published, job)
    if job in (*OF_LATER_RUNS, *UNREAD) or not directory.is_dir() or shown.barrel is None:
        pytest.skip("it has no tap, or the files are not what this run has read")
    batches = batches_of(directory)
    rows = [row for batch in batches for row in batch]
    assert shown.totals.records == len(rows)
    if shown.channels:  # by channel from Spark 4.3 on
        keys = {key for _, key in rows}
        assert {view.channel: view.max_event_ms for view in shown.channels} == {
            key: max(at for at, other in rows if other == key) for key in keys
        }
        assert {view.channel: view.records for view in shown.channels} == {
            key: sum(other == key for _, other in rows) for key in keys
        }
    passing = [[at for at, key in batch if key == "a" or job != "filter_behind_the_watermark"] for batch in batches]
    bucket = shown.whatif_bucket_ms or 0
    for row in shown.whatif or ():
        # Without a batch without data in between, late rows are compared with the watermark of the batch before.
        least = _late(batches, passing, row.lateness_ms, lag=1)
        most = _late(batches, passing, row.lateness_ms - bucket)
        assert least <= (row.behind_watermark or 0) <= most, row.lateness_ms
        drops = truth["mode"] != "complete" and truth["operators"]
        assert row.late == (row.behind_watermark if drops else 0), row.lateness_ms
    assert truth["batches"]


def _late(batches: list[list[tuple[int, str]]], passing: list[list[int]], delay_ms: int, lag: int = 0) -> int:
    """Rows at or behind the watermark of their batch, or of `lag` before it; `passing` drive the clock."""
    late = 0
    for number, batch in enumerate(batches):
        before = [at for times in passing[: max(number - lag, 0)] for at in times]
        late += sum(at <= max(before) - delay_ms for at, _ in batch) if before else 0
    return late
