"""What a target hands over for its verdict, and what is kept of it between two looks."""

import pytest
from msgspec.structs import replace
from wmtop.engine.snapshot import (
    NOTHING_KNOWN,
    UNCOUNTED,
    Condition,
    FlinkJob,
    KafkaTopic,
    Level,
    Note,
    Snapshot,
    SourceView,
    SparkQuery,
    TargetPart,
    Totals,
)
from wmtop.engine.targets.target import NOT_KNOWN
from wmtop.engine.verdict.evidence import Evidence, Picture, Task
from wmtop.engine.verdict.target_history import TargetHistory
from wmtop.engine.verdict.verdict import judged, lost_state, verdict_of
from wmtop.engine.watermarks.watermark_history import WatermarkHistory

from tests.judging import Judge, picture_of

SECOND, MINUTE = 1_000, 60_000
NOW = 1_700_000_000_000


def seen(now_ms: int, level_ms: int | None = NOW, target: TargetPart | None = None) -> Snapshot:
    return Snapshot(
        name="q",
        state="live",
        now_ms=now_ms,
        wall_ms=now_ms,
        settings=NOT_KNOWN,
        source=SourceView("checkpoint", "/q"),
        level=Level(level_ms),
        channels=[replace(UNCOUNTED, channel="a", watermark_ms=level_ms, backlog=0)],
        totals=Totals(None, None, None, None, None, None),
        target=SparkQuery() if target is None else target,
    )


def test_what_is_not_given_is_not_known() -> None:
    bare = Evidence(unread=0)
    history = WatermarkHistory(beat_of="sample", verdict_after_ms=10 * SECOND)
    for now in range(NOW, NOW + MINUTE, 5 * SECOND):
        history.see_level(now, NOW, NOT_KNOWN)
        found = judged(seen(now), history, bare).verdict
    assert (found.verdict, found.reason.code) == ("unknown", "not_known")


@pytest.mark.parametrize(
    ("evidence", "verdict"),
    [
        (Evidence(unread=0, record_ms=None), "waiting"),
        (Evidence(unread=3, record_ms=None), "stalled"),
        (Evidence(unread=3, record_ms=None, inconclusive="trigger"), "unknown"),
        (Evidence(unread=0, record_ms=NOW + 55 * SECOND), "stalled"),
        (Evidence(unread=0, record_ms=NOW + 55 * SECOND, frozen_by_lateness_ms=5), "waiting"),
        (Evidence(unread=3, record_ms=None, lost="source_silent"), "unknown"),
    ],
)
def test_a_frozen_watermark_is_judged_by_the_evidence_alone(evidence: Evidence, verdict: str) -> None:
    """The snapshot is the same each time, its notes and its condition say the opposite."""
    history = WatermarkHistory(beat_of="sample", verdict_after_ms=10 * SECOND)
    notes = [Note(NOW, "pause_unknown", {"silent_ms": 5}), Note(NOW, "query_idle")]
    for now in range(NOW, NOW + MINUTE, 5 * SECOND):
        history.see_level(now, NOW, NOT_KNOWN)
        shown = replace(seen(now), notes=notes, condition=Condition(pause="unknown", idle=True))
        found = judged(shown, history, evidence)
    assert found.verdict.verdict == verdict


@pytest.mark.parametrize("settled", [True, False])
def test_the_snapshot_shows_whether_it_is_settled(settled: bool) -> None:
    shown = replace(seen(NOW), condition=Condition(settled=not settled, idle=True))
    found = judged(shown, WatermarkHistory(), Evidence(unread=None, settled=settled))
    assert found.condition == Condition(settled=settled, idle=True)


@pytest.mark.parametrize(
    ("state", "condition", "settled"),
    [
        ("partial", Condition(pause="unknown"), True),
        ("live", Condition(pause="trigger"), False),
        ("live", Condition(pause="first_batch"), False),
        ("partial", Condition(continuous=True), True),
        ("stale", Condition(standstill="batch_unfinished"), True),
        ("live", Condition(standstill="silent"), False),
        ("stale", Condition(unreadable="denied"), False),
        ("live", NOTHING_KNOWN, False),
    ],
)
def test_a_query_is_settled_if_it_pauses_for_an_unknown_time_or_begins_no_batch(
    state: str, condition: Condition, settled: bool
) -> None:
    evidence = picture_of(replace(seen(NOW), state=state, condition=condition)).evidence
    assert evidence is not None
    assert evidence.settled is settled


def test_no_note_changes_a_verdict() -> None:
    notes = [Note(NOW, "query_idle"), Note(NOW, "windows_untimed"), Note(NOW, "no_member"), Note(NOW, "continuous")]
    for target in (SparkQuery(), KafkaTopic(), FlinkJob("1", "q", "RUNNING", None, [])):
        plain, noted = Judge(10 * SECOND), Judge(10 * SECOND)
        for now in range(NOW, NOW + MINUTE, 5 * SECOND):
            shown = seen(now, NOW, target)
            expected = plain.see(shown)
            assert noted.see(replace(shown, notes=notes)) == replace(expected, notes=notes)


def test_a_poll_that_hangs_makes_the_target_and_its_tasks_stale() -> None:
    """What its last answer proved about a restart is no longer about now."""
    evidence = Evidence(unread=0, restarted_ms=NOW)
    seen_now = Picture(seen(NOW), evidence, (Task(["a"], seen(NOW), replace(evidence, lost="not_known")),))
    stale = seen_now.as_stale()
    assert stale.tasks is not None
    assert stale.evidence is not None
    assert (stale.snapshot.state, stale.evidence.lost, stale.evidence.restarted_ms) == ("stale", "source_silent", None)
    assert (stale.tasks[0].snapshot.state, stale.tasks[0].evidence.lost) == ("stale", "not_known")


def test_what_has_its_own_verdict_is_not_judged() -> None:
    shown = seen(NOW)
    assert TargetHistory().judge(Picture(shown, evidence=None)) is shown


def test_the_history_remembers_since_when_something_is_unread() -> None:
    history, since = WatermarkHistory(), list[int | None]()
    for place, unread in enumerate((0, 2, 5, None, 4, 4, 0)):
        judged(seen(NOW + place), history, Evidence(unread=unread))
        since.append(history.unread_since_ms)
    assert since == [None, NOW + 1, NOW + 1, None, NOW + 4, NOW + 4, None]
    judged(seen(NOW + 9), history, Evidence(unread=4, unread_since_ms=NOW - 5))
    assert history.unread_since_ms == NOW - 5  # the target knows it itself


def test_a_target_that_proves_that_no_record_ever_came_waits_at_once() -> None:
    history = TargetHistory(10 * SECOND)
    found = []
    for now in range(NOW, NOW + MINUTE, 5 * SECOND):
        evidence = Evidence(unread=0, record_ms=None, beat="sample")
        found.append(history.judge(Picture(seen(now), evidence)).verdict)
    assert (found[-1].verdict, found[-1].reason.code, found[-1].reason.ms) == ("waiting", "no_records", None)


@pytest.mark.parametrize("condition", [Condition(clock_ahead=True), Condition(no_guide=True)])
def test_what_was_stopped_has_ended_whatever_its_clock_shows(condition: Condition) -> None:
    shown = replace(seen(NOW), state="ended", condition=condition)
    found = judged(shown, WatermarkHistory(), Evidence(unread=None, record_ms=None, lost=lost_state(shown)))
    assert verdict_of(found).verdict == "ended"
    assert verdict_of(replace(found, state="live")).verdict == "unknown"
