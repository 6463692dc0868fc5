"""The verdict of an attached query that reports to be idle: it waits for data, which is known of nothing else."""

from typing import Any

import pytest
from wmtop.engine.snapshot import UNCOUNTED, Level, Note, Snapshot, SparkProgress
from wmtop.engine.watermarks.settings import Settings

from tests.judging import Judge
from tests.snapshots import replace, snapshot_for

NOW = 1_800_000_000_000
SECOND = 1_000


def seen(notes: list[Note], **more: Any) -> Snapshot:
    """A query whose sources do not say what is unread."""
    return snapshot_for(
        name="q", state="live", batch=4, settings=Settings(strategy="spark"), level=Level(NOW - 60 * SECOND),
        spark=SparkProgress(batch_timestamp_ms=NOW - 100 * SECOND), origin={"batch": "event log"}, notes=notes, **more,
    )  # fmt: skip


def verdict_after(notes: list[Note], seconds: int) -> str:
    judge, last = Judge(60 * SECOND), ""
    for second in range(seconds):
        now = NOW + second * SECOND
        last = judge.see(seen(notes, now_ms=now, wall_ms=now)).verdict.verdict
    return last


def test_an_idle_query_waits_and_one_that_says_nothing_is_unknown() -> None:
    assert verdict_after([Note(NOW, "query_idle", {})], 90) == "waiting"
    assert verdict_after([], 90) == "unknown"


@pytest.mark.parametrize(("unmoved", "verdict"), [(0, "waiting"), (2, "stalled")])
def test_an_idle_query_s_last_batch_had_rows_only_if_they_left_the_watermark_as_it_was(
    unmoved: int, verdict: str
) -> None:
    """A batch without data follows the one that moved the watermark, however long that one took."""
    progress = SparkProgress(batch_timestamp_ms=NOW + 15 * SECOND, batches_unmoved=unmoved)
    shown = replace(seen([Note(NOW, "query_idle", {})]), level=Level(NOW - 60 * SECOND, moved_ms=NOW))
    shown = replace(shown, spark=progress, now_ms=NOW + 70 * SECOND)
    assert Judge(60 * SECOND).see(shown).verdict.verdict == verdict


@pytest.mark.parametrize(("unread", "verdict"), [(0, "waiting"), (6, "unknown")])
def test_an_idle_query_with_unread_records_does_not_just_wait_for_data(unread: int, verdict: str) -> None:
    """`minOffsetsPerTrigger` delays them, and Spark reports that it is idle; or they have just come."""
    channels = [replace(UNCOUNTED, channel="0", max_event_ms=NOW, backlog=unread)]
    shown = replace(seen([Note(NOW, "query_idle", {})], channels=channels), now_ms=NOW + 70 * SECOND)
    shown = replace(shown, level=Level(NOW - 60 * SECOND, moved_ms=NOW))
    assert Judge(60 * SECOND).see(shown).verdict.verdict == verdict
