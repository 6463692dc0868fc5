"""A gap in the watching is no pause of the job: patience does not grow from it (semantics 11.1)."""

from collections.abc import Iterator

import pytest
from wmtop.engine.snapshot import ChannelView, EngineState, Level, Snapshot, Totals
from wmtop.engine.snapshot.kinds.flink_job import FlinkJob
from wmtop.engine.system import clock
from wmtop.engine.targets.target import NOT_KNOWN, Follower, Looks, Target
from wmtop.engine.verdict.verdict import SnapshotJudge
from wmtop.engine.watermarks.watermark_history import WatermarkHistory

from tests.snapshots import snapshot_for

SECOND, MINUTE = 1_000, 60_000
NOW = 1_700_000_000_000
GAP_S = 100


def look(now: int, level: int, state: EngineState = "live") -> Snapshot:
    """A Flink job at that moment."""
    return snapshot_for(
        name="q",
        state=state,
        now_ms=now,
        wall_ms=now,
        settings=NOT_KNOWN,
        level=Level(level),
        channels=[ChannelView("a", level, None, "active", records=None)],
        flink=FlinkJob("1", "q", "RUNNING", "w", []),
        totals=Totals(None, None, None, None, None, None),
    )


def seconds(first: int, last: int) -> Iterator[int]:
    return iter(NOW + second * SECOND for second in range(first, last))


@pytest.mark.parametrize("looked", ["stale", "not at all"])
def test_a_job_that_freezes_after_a_gap_is_not_moving_for_three_times_the_gap(looked: str) -> None:
    judge = SnapshotJudge()
    for now in seconds(0, 20):
        judge.judge(look(now, now))
    if looked == "stale":
        for now in seconds(20, 20 + GAP_S):
            judge.judge(look(now, NOW + 19 * SECOND, "stale"))
    back = NOW + (20 + GAP_S) * SECOND
    found = judge.judge(look(back, back), after_gap=looked != "stale").verdict
    assert (found.verdict, found.patience_ms) == ("moving", MINUTE)
    for now in seconds(21 + GAP_S, 21 + GAP_S + 61):
        found = judge.judge(look(now, back)).verdict
    assert (found.verdict, found.age_ms, found.patience_ms) == ("unknown", 61 * SECOND, MINUTE)


def test_the_gap_is_in_the_age_of_a_watermark_that_is_the_same_after_it() -> None:
    judge = SnapshotJudge()
    for now in seconds(0, 20):
        judge.judge(look(now, now))
    found = judge.judge(look(NOW + 119 * SECOND, NOW + 19 * SECOND), after_gap=True).verdict
    assert found.age_ms == 100 * SECOND


def test_time_that_was_not_watched_is_no_observed_patience() -> None:
    """The watermark was never seen to advance."""
    judge = SnapshotJudge()
    for now in seconds(0, 20):
        judge.judge(look(now, NOW))
    found = judge.judge(look(NOW + 119 * SECOND, NOW), after_gap=True).verdict
    assert (found.verdict, found.reason.code, found.reason.ms) == ("unknown", "too_short", 19 * SECOND)
    for now in seconds(120, 162):
        found = judge.judge(look(now, NOW)).verdict
    assert found.reason.code != "too_short"


def test_a_gap_is_no_beat() -> None:
    history = WatermarkHistory(beat_of="sample")
    for now in seconds(0, 5):
        history.see_beat(now)
    history.leave_out(GAP_S * SECOND)
    history.see_beat(NOW + (5 + GAP_S) * SECOND)
    assert history.patience(NOT_KNOWN) == MINUTE


def test_looks_that_are_always_far_apart_are_no_gaps() -> None:
    looks, now = Looks(), NOW
    assert looks.note(now, 1) == 0
    for place, pause_s in enumerate((1, 1, 40, 40, 40, 30, 1, 1)):
        now += pause_s * SECOND
        assert bool(looks.note(now, 1)) == (place in (2, 3))


class Job(Target[int]):
    """A job whose watermark is `level`; the facts of a poll are its level then."""

    level = NOW

    def poll(self) -> int:
        return self.level

    def picture(self, name: str, facts: int, now_ms: int) -> Snapshot:
        return look(now_ms, facts)


def test_a_process_that_was_suspended_and_a_poll_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job()
    follower, at = Follower(job, "q"), [NOW]
    monkeypatch.setattr(clock, "now_ms", lambda: at[0])
    for now in seconds(0, 20):
        at[0] = job.level = now
        follower.snapshot(job.poll())
    at[0] += GAP_S * SECOND  # suspended
    job.level = at[0]
    assert follower.snapshot(job.poll()).verdict.patience_ms == MINUTE
    answered = at[0]
    for second in range(GAP_S):  # the poll hangs: the last facts are shown again
        at[0] += SECOND
        shown = follower.snapshot(job.level, answered)
        assert (shown.state == "stale") == (second >= 10)
    job.level = at[0]
    shown = follower.snapshot(job.poll())
    assert (shown.state, shown.verdict.verdict, shown.verdict.patience_ms) == ("live", "moving", MINUTE)
