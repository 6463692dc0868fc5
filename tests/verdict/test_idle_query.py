"""The verdict of an attached query that reports to be idle: it waits for data, which is known of nothing else."""

from typing import Any

from wmtop.engine.snapshot import Level, Note, Snapshot, SparkProgress
from wmtop.engine.verdict.verdict import SnapshotJudge
from wmtop.engine.watermarks.settings import Settings

from tests.snapshots import snapshot_for

NOW = 1_800_000_000_000
SECOND = 1_000


def seen(notes: list[Note], **more: Any) -> Snapshot:
    """A query whose sources do not say what is unread."""
    return snapshot_for(
        name="q", state="live", batch=4, settings=Settings(strategy="spark"), level=Level(NOW - 60 * SECOND),
        spark=SparkProgress(batch_timestamp_ms=NOW - 100 * SECOND), origin={"batch": "event log"}, notes=notes, **more,
    )  # fmt: skip


def verdict_after(notes: list[Note], seconds: int) -> str:
    judge, last = SnapshotJudge(60 * SECOND), ""
    for second in range(seconds):
        now = NOW + second * SECOND
        last = judge.judge(seen(notes, now_ms=now, wall_ms=now)).verdict.verdict
    return last


def test_an_idle_query_waits_and_one_that_says_nothing_is_unknown() -> None:
    assert verdict_after([Note(NOW, "query_idle", {})], 90) == "waiting"
    assert verdict_after([], 90) == "unknown"
