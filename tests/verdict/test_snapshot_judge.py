"""The judge of attached queries against the reference of section 11: with and without what is on record of before."""

from itertools import pairwise
from random import Random

import pytest
from wmtop.engine.snapshot import (
    ChannelView,
    EngineState,
    Level,
    Reason,
    Snapshot,
    SourcePosition,
    SourceView,
    SparkProgress,
    Totals,
    Verdict,
    WatermarkNode,
)
from wmtop.engine.snapshot.flink_job import FlinkJob, FlinkVertex
from wmtop.engine.verdict.judge import RecordedPast, SnapshotJudge
from wmtop.engine.verdict.verdict import lost_state, verdict_of
from wmtop.engine.watermarks.settings import Settings, Tumbling
from wmtop.engine.watermarks.watermark_history import WatermarkHistory

from tests.snapshots import replace, snapshot_for

from .judgement_reference import Moment, VerdictReference

SECOND, MINUTE = 1_000, 60_000
NOW = 1_700_000_000_000
WINDOW = 10 * SECOND
SETTINGS = Settings(strategy="spark", lateness_ms=0, idle_after_ms=None, window=Tumbling(WINDOW))


def shown(moment: Moment, quiet_ms: int | None = None) -> Snapshot:
    """What a tap that knows everything would show of a moment."""
    channels = [
        ChannelView(
            channel=name, watermark_ms=None, max_event_ms=ms, state="active", records=None, backlog=moment.unread,
            quiet_ms=quiet_ms, flaps=None, late=None, behind_watermark=None, malformed=None, future=None, rate=None,
        )
        for name, ms in moment.event_times.items()
    ]  # fmt: skip
    return snapshot_for(
        name="q",
        state="live",
        batch=moment.batches,
        now_ms=moment.now,
        wall_ms=moment.now,
        settings=SETTINGS,
        level=Level(watermark_ms=moment.level),
        channels=channels,
        totals=Totals(records=moment.records),
        sources=[SourcePosition("s", None, moment.unread)],
        ended=moment.ended,
    )


def history(dice: Random) -> list[Moment]:
    """A query that reads steadily, pauses, or reads what does not move its watermark."""
    now, level, event, records, batches = NOW, NOW - MINUTE, NOW - MINUTE, 0, 0
    found: list[Moment] = []
    while len(found) < 80:
        mode = dice.choice(["reads", "reads", "reads", "pauses", "behind", "backlog"])
        for _ in range(dice.randrange(1, 12)):
            now += dice.choice([SECOND, 2 * SECOND, 7 * SECOND])
            if mode in ("reads", "behind"):
                batches, records = batches + 1, records + dice.randrange(1, 5)
                event += dice.choice([0, SECOND, 5 * SECOND])
            if mode == "reads":
                level = max(level, event)
            unread = dice.randrange(1, 9) if mode == "backlog" else 0
            found.append(Moment(now, level, batches, {"a": event}, records, unread))
    return found


@pytest.mark.parametrize("seed", range(30))
def test_snapshots_are_judged_as_the_text_says(seed: int) -> None:
    dice = Random(seed)
    horizon = dice.choice([None, 20 * SECOND, 3 * MINUTE])
    judge, reference = SnapshotJudge(horizon), VerdictReference(WINDOW, horizon, MINUTE)
    moments = history(dice)
    # The judge learns of batches that begin while it looks on; the reference counts from the first moment.
    first = moments[0].batches
    last_record = None
    for before, moment in zip([moments[0], *moments], moments, strict=False):
        last_record = moment.now if moment.records > before.records else last_record
        quiet = None if last_record is None else moment.now - last_record
        verdict = judge.verdict(shown(moment, quiet))
        expected = reference.see(replaced(moment, moment.batches - first))
        assert (verdict.verdict, verdict.since_ms) == expected, moment


def replaced(moment: Moment, batches: int) -> Moment:
    return Moment(moment.now, moment.level, batches, moment.event_times, moment.records, moment.unread)


@pytest.mark.parametrize("seed", range(30))
def test_a_past_on_record_never_gives_another_verdict_than_having_watched(seed: int) -> None:
    """At the moment of attaching: what the reference says that saw everything, or unknown; and often not unknown."""
    moments = history(Random(seed))
    reference = VerdictReference(WINDOW, None, MINUTE)
    sure = 0
    for place, moment in enumerate(moments):
        reference.moments.append(moment)
        judge = SnapshotJudge()
        seen = moments[: place + 1]
        begun = [
            (now.batches, now.now)
            for before, now in zip([None, *seen], seen, strict=False)
            if now.batches > (before.batches if before else 0)
        ]
        judge.remember(RecordedPast(tuple((one.now, one.level) for one in seen), tuple(begun)))
        quiet = [moment.now - one.now for before, one in pairwise(seen) if one.records > before.records]
        found = judge.verdict(shown(moment, min(quiet, default=None))).verdict
        if found != "unknown":
            sure += 1
            assert found == reference.raw(moment), moment
    assert sure > 20


def test_what_the_past_does_not_have_is_not_reported() -> None:
    """The watermark stood for a minute; whether event time advanced meanwhile was not seen: not "nothing is behind"."""
    past = RecordedPast(tuple((NOW - MINUTE - SECOND * n, NOW) for n in (9, 0)), ((1, NOW - 2 * MINUTE),))
    still = Moment(NOW, NOW, 1, {"a": NOW}, 5, 0)
    judge = SnapshotJudge()
    judge.remember(past)
    assert judge.verdict(shown(still, quiet_ms=SECOND)).verdict == "unknown"
    assert judge.verdict(replace(shown(still, quiet_ms=SECOND), now_ms=NOW + 30 * SECOND)).verdict == "unknown"


def test_a_short_past_is_too_short() -> None:
    judge = SnapshotJudge()
    judge.remember(RecordedPast(((NOW - 20 * SECOND, NOW - MINUTE), (NOW - SECOND, NOW)), ((1, NOW - 20 * SECOND),)))
    verdict = judge.verdict(shown(Moment(NOW, NOW, 1, {"a": NOW}, 5, 0), quiet_ms=0))
    assert (verdict.verdict, verdict.reason.code, verdict.reason.ms) == ("unknown", "too_short", 20 * SECOND)


@pytest.mark.parametrize(("kind", "verdict"), [("topic", "waiting"), ("group", "unknown")])
def test_a_topic_without_a_reader_has_nothing_unread(kind: str, verdict: str) -> None:
    judge, found = SnapshotJudge(horizon_ms=MINUTE), "unknown"
    for seconds in range(0, 200, 5):
        still = shown(Moment(NOW + seconds * SECOND, NOW, 1, {"0": NOW}, 5, 0))
        channels = [replace(view, backlog=None) for view in still.channels]
        sources = [SourcePosition("t", None, None)]
        still = replace(still, source=SourceView(kind, "orders"), channels=channels, sources=sources)
        found = judge.verdict(still).verdict
    assert found == verdict


def test_a_query_that_was_recreated_is_observed_from_then_on() -> None:
    judge = SnapshotJudge()
    for second in range(70):
        verdict = judge.verdict(shown(Moment(NOW + second * SECOND, NOW + second * SECOND, second, {"a": NOW}, second)))
    assert verdict.verdict == "moving"
    again = judge.verdict(shown(Moment(NOW + 71 * SECOND, NOW, 71, {"a": NOW}, 71)))
    assert (again.verdict, again.reason.code) == ("unknown", "too_short")


def test_another_query_of_the_same_name_is_observed_from_then_on() -> None:
    """A job that was started afresh: its watermark is ahead of the old one's, which is no advance of anything."""
    judge = SnapshotJudge()
    moments = [Moment(NOW + n * SECOND, NOW + n * SECOND, n, {"a": NOW + n * SECOND}, n) for n in range(75)]
    for moment in moments[:70]:
        snapshot = shown(moment, quiet_ms=0)
        verdict = judge.verdict(replace(snapshot, spark=replace(snapshot.spark, query_id="1")))
    assert verdict.verdict == "moving"
    for moment in moments[70:]:
        ahead = Moment(moment.now, NOW + 60 * MINUTE, moment.batches - 70, moment.event_times, moment.records)
        snapshot = shown(ahead, quiet_ms=0)
        verdict = judge.verdict(replace(snapshot, spark=replace(snapshot.spark, query_id="2")))
        assert (verdict.verdict, verdict.reason.code, verdict.speed) == ("unknown", "too_short", None)


def test_a_judge_that_restarts_after_a_pause_says_too_short() -> None:
    """What a live resume does: the time it was down was not observed."""
    history = WatermarkHistory()
    for second in range(70):
        history.see_level(NOW + second * SECOND, NOW + second * SECOND)
    history.restart()
    history.see_level(NOW + 100 * MINUTE, NOW + 70 * SECOND)
    assert history.levels.began_ms == NOW + 100 * MINUTE


MOVING = Verdict("moving", NOW, MINUTE, 1.0, Reason("advancing"))


@pytest.mark.parametrize(
    ("state", "lost", "expected"),
    [
        ("live", None, ("moving", "advancing")),
        ("partial", None, ("moving", "advancing")),
        ("paused", None, ("moving", "advancing")),
        ("starting", None, ("unknown", "starting")),
        ("stale", None, ("unknown", "source_silent")),
        ("failed", None, ("unknown", "failed")),
        ("live", "engine_lost", ("unknown", "engine_lost")),
        ("stale", "engine_lost", ("unknown", "engine_lost")),
    ],
)
def test_what_a_reader_may_show(state: EngineState, lost: str | None, expected: tuple[str, str]) -> None:
    snapshot = replace(shown(Moment(NOW, NOW, 1, {}, 0)), state=state, verdict=MOVING)
    found = verdict_of(snapshot, lost=lost, lost_since_ms=5 if lost else None)  # type: ignore[arg-type]
    assert (found.verdict, found.reason.code) == expected
    assert found.speed == (1.0 if expected[0] == "moving" else None)
    assert lost_state(snapshot) == (None if state in ("live", "partial", "paused") else expected[1] if not lost else
                                    "source_silent" if state == "stale" else None)  # fmt: skip


def test_what_has_ended_stays_ended_also_when_the_engine_is_gone() -> None:
    ended = replace(shown(Moment(NOW, NOW, 1, {}, 0)), ended=True, verdict=MOVING)
    assert verdict_of(ended, lost="engine_lost").verdict == "ended"
    assert verdict_of(ended).verdict == "ended"


@pytest.mark.parametrize("known", ["watermark_ms", "at_least_ms"])
@pytest.mark.parametrize(("other", "verdict"), [(True, "stalled"), (False, "unknown")])
def test_an_input_whose_watermark_advances_shows_that_the_query_s_is_stalled(
    other: bool, verdict: str, known: str
) -> None:
    """Of two inputs without a tap: one advances, the other holds the query back."""
    judge = SnapshotJudge()
    for second in range(0, 130, 5):
        now, level = NOW + second * SECOND, NOW - MINUTE
        ahead = replace(WatermarkNode("a", 0), **{known: now if other else level})
        nodes = [ahead, WatermarkNode("b", 0, level, holds=True)]
        one = snapshot_for(
            name="q", state="live", batch=second, now_ms=now, wall_ms=now, settings=SETTINGS, level=Level(level),
            totals=Totals(None, None, None, None, None, None), spark=SparkProgress(nodes=nodes),
        )  # fmt: skip
        last = judge.verdict(one)
    assert last.verdict == verdict


def test_a_task_that_keeps_its_watermark_back_while_its_sources_advance_is_stalled() -> None:
    """Async I/O without an answer: the barrel's own channels show nothing of the sources."""

    def verdict(moves: str) -> str:
        judge, found = SnapshotJudge(MINUTE), Verdict("unknown")
        for second in range(0, 91, 5):
            now = NOW + second * SECOND
            ids = (("s", []), ("a", ["s"]), ("w", ["a"]), ("x", []))
            tasks = [
                FlinkVertex(id, id, 1, "RUNNING", inputs, output_ms=now if id == moves else NOW) for id, inputs in ids
            ]
            found = judge.verdict(
                snapshot_for(
                    name="q",
                    state="live",
                    now_ms=now,
                    wall_ms=now,
                    settings=SETTINGS,
                    level=Level(watermark_ms=NOW),
                    channels=[ChannelView("#0", NOW, None, "active", records=None)],
                    flink=FlinkJob("1", "q", "RUNNING", "w", tasks),
                    totals=Totals(None, None, None, None, None, None),
                )
            )
        return found.verdict

    assert verdict("s") == "stalled"
    assert verdict("x") == "unknown"  # another part of the job
