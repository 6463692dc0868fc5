"""The judge of attached queries against the reference of section 11: with and without what is on record of before."""

from itertools import pairwise
from random import Random
from typing import Any

import pytest
from wmtop.engine.snapshot import (
    Blocker,
    Cause,
    ChannelView,
    ConsumerGroup,
    EngineState,
    Holder,
    KafkaTopic,
    Level,
    Reason,
    Snapshot,
    SourcePosition,
    SourceView,
    SparkProgress,
    Totals,
    Verdict,
    VerdictName,
    WatermarkNode,
)
from wmtop.engine.snapshot.kinds.flink_job import FlinkJob, FlinkVertex
from wmtop.engine.verdict.verdict import RecordedPast, SnapshotJudge, lost_state, verdict_of
from wmtop.engine.watermarks.settings import Settings, Tumbling
from wmtop.engine.watermarks.watermark_history import WatermarkHistory

from tests.one_truth import check_all
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
        spark=SparkProgress(query_id="q"),
        origin={"batch": "event log"},
        ended=moment.ended,
    )


def flink_snapshot(now: int, splits: dict[str, int], tasks: list[FlinkVertex], **fields: Any) -> Snapshot:
    """A running Flink job at that moment; `splits` and their watermarks (ms)."""
    return snapshot_for(
        name="q",
        state="live",
        now_ms=now,
        wall_ms=now,
        channels=[ChannelView(split, at, None, "active", records=None) for split, at in splits.items()],
        flink=FlinkJob("1", "q", "RUNNING", "w", tasks),
        totals=Totals(None, None, None, None, None, None),
        **({"settings": SETTINGS} | fields),
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


def judge_of(after: int | None = None) -> SnapshotJudge:
    return SnapshotJudge(after)


@pytest.mark.parametrize("seed", range(30))
def test_snapshots_are_judged_as_the_text_says(seed: int) -> None:
    dice = Random(seed)
    after = dice.choice([None, 20 * SECOND, 3 * MINUTE])
    judge, reference = SnapshotJudge(after), VerdictReference(after, "spark", attached=True)
    last_record, moments = None, history(dice)
    for before, moment in zip([moments[0], *moments], moments, strict=False):
        last_record = moment.now if moment.records > before.records else last_record
        quiet = None if last_record is None else moment.now - last_record
        found = judge.judge(shown(moment, quiet))
        verdict = found.verdict
        # The first look sees one batch, however many there were.
        reference_moment = replaced(moment, moment.batches - moments[0].batches + 1)
        expected = reference.see(reference_moment)
        if verdict.reason.code != "not_known":
            assert (verdict.verdict, verdict.since_ms, verdict.age_ms) == expected, moment
        assert (verdict.pace_ms, verdict.patience_ms) == (reference.pace(), reference.patience())
        assert verdict.age_at_least == (not reference.advances())
        assert found.level.moved_ms == (None if verdict.age_at_least else moment.now - (verdict.age_ms or 0))


def replaced(moment: Moment, batches: int) -> Moment:
    return Moment(moment.now, moment.level, batches, moment.event_times, moment.records, moment.unread, window=WINDOW)


@pytest.mark.parametrize("seed", range(30))
def test_a_past_on_record_never_gives_another_verdict_than_having_watched(seed: int) -> None:
    """At the moment of attaching: what the reference says that saw everything, or unknown; and often not unknown."""
    moments = history(Random(seed))
    reference = VerdictReference(None, "spark", attached=True)
    sure = 0
    for place, moment in enumerate(moments):
        seen = moments[: place + 1]
        reference.moments.append(replaced(moment, moment.batches - moments[0].batches + 1))
        judge = SnapshotJudge()
        begun = [
            (now.batches, now.now)
            for before, now in zip([None, *seen], seen, strict=False)
            if now.batches > (before.batches if before else -1)
        ]
        past = RecordedPast(tuple((one.now, one.level) for one in seen), tuple(begun))
        quiet = [moment.now - one.now for before, one in pairwise(seen) if one.records > before.records]
        snapshot = shown(moment, min(quiet, default=None))
        judge.remember(past, snapshot)
        found = judge.judge(snapshot).verdict
        if found.verdict != "unknown":
            sure += 1
            assert found.verdict == reference.raw(reference.moments[-1])[0], moment
            assert found.age_ms == reference.age(moment)
    assert sure > 20


def test_a_watermark_that_is_frozen_at_the_first_look_has_an_age_of_at_least_that() -> None:
    still = shown(Moment(NOW, NOW, 1, {"a": NOW}, 5, 0))
    judge = judge_of(MINUTE)
    first = judge.judge(still).verdict
    assert (first.verdict, first.age_ms, first.age_at_least) == ("unknown", 0, True)
    for seconds in range(5, 71, 5):
        now = NOW + seconds * SECOND
        later = judge.judge(replace(still, now_ms=now, totals=Totals(records=5 + seconds)))
    assert (later.verdict.verdict, later.verdict.age_ms, later.verdict.age_at_least) == ("stalled", 70 * SECOND, True)
    assert later.level.moved_ms is None
    moved = judge.judge(shown(Moment(NOW + 80 * SECOND, NOW + 1, 9, {"a": NOW + 1}, 90, 0))).verdict
    assert (moved.verdict, moved.age_ms, moved.age_at_least) == ("moving", 0, False)


def test_without_an_advance_too_short_a_time_gives_no_verdict() -> None:
    judge = SnapshotJudge(MINUTE)
    snapshot = shown(Moment(NOW, NOW, 1, {"a": NOW}, 5, 0), quiet_ms=0)
    judge.remember(RecordedPast(((NOW - 20 * SECOND, NOW),), ((1, NOW - 20 * SECOND),)), snapshot)
    verdict = judge.judge(snapshot).verdict
    assert (verdict.verdict, verdict.reason.code, verdict.reason.ms) == ("unknown", "too_short", 20 * SECOND)


def test_the_time_during_which_a_source_was_silent_is_no_stall() -> None:
    """The watermark went on meanwhile: the first answer shows it."""
    judge = SnapshotJudge()
    for second in range(90):
        now = NOW + second * SECOND
        snapshot = shown(Moment(now, now, second, {"a": now}, second), quiet_ms=0)
        snapshot = replace(snapshot, level=Level(NOW + 9 * SECOND)) if 10 <= second < 80 else snapshot
        verdict = judge.judge(replace(snapshot, state="stale" if 10 <= second < 80 else "live")).verdict
        if 10 <= second < 80:
            assert (verdict.verdict, verdict.reason.code) == ("unknown", "source_silent")
        elif second:
            assert verdict.verdict == "moving"


@pytest.mark.parametrize(("part", "verdict"), [(KafkaTopic, "waiting"), (ConsumerGroup, "unknown")])
def test_a_topic_without_a_reader_has_nothing_unread(
    part: type[KafkaTopic | ConsumerGroup], verdict: VerdictName
) -> None:
    judge, found = SnapshotJudge(MINUTE), "unknown"
    for seconds in range(0, 200, 5):
        still = shown(Moment(NOW + seconds * SECOND, NOW, 1, {"0": NOW}, 5, 0))
        channels = [replace(view, backlog=None) for view in still.channels]
        target = part([SourcePosition("t", None, None)])
        still = replace(still, source=SourceView("any", "orders"), channels=channels, target=target)
        found = judge.judge(still).verdict.verdict
    assert found == verdict


def test_a_query_that_was_recreated_is_observed_from_then_on() -> None:
    judge = SnapshotJudge()
    for second in range(70):
        verdict = judge.judge(
            shown(Moment(NOW + second * SECOND, NOW + second * SECOND, second, {"a": NOW}, second))
        ).verdict
    assert verdict.verdict == "moving"
    again = judge.judge(shown(Moment(NOW + 71 * SECOND, NOW, 71, {"a": NOW}, 71))).verdict
    assert (again.verdict, again.reason.code) == ("unknown", "too_short")


def test_another_query_of_the_same_name_is_observed_from_then_on() -> None:
    """A job that was started afresh: its watermark is ahead of the old one's, which is no advance of anything."""
    judge = SnapshotJudge()
    moments = [Moment(NOW + n * SECOND, NOW + n * SECOND, n, {"a": NOW + n * SECOND}, n) for n in range(75)]
    for moment in moments[:70]:
        snapshot = shown(moment, quiet_ms=0)
        verdict = judge.judge(replace(snapshot, spark=replace(snapshot.spark, query_id="1"))).verdict
    assert verdict.verdict == "moving"
    for moment in moments[70:]:
        ahead = Moment(moment.now, NOW + 60 * MINUTE, moment.batches - 70, moment.event_times, moment.records)
        snapshot = shown(ahead, quiet_ms=0)
        verdict = judge.judge(replace(snapshot, spark=replace(snapshot.spark, query_id="2"))).verdict
        assert (verdict.verdict, verdict.reason.code, verdict.speed) == ("unknown", "too_short", None)


def test_a_resumed_run_is_observed_from_then_on() -> None:
    """The time it was down was not observed, and is nobody's gap; the age goes on."""
    history = WatermarkHistory()
    for second in range(70):
        history.see_level(NOW + second * SECOND, NOW + second * SECOND, SETTINGS)
    history.restart()
    history.see_level(NOW + 100 * MINUTE, NOW + 69 * SECOND, SETTINGS)
    assert (history.began_ms, history.moved_ms) == (NOW + 100 * MINUTE, NOW + 69 * SECOND)
    assert not history.has_advanced()
    gaps = list(history.gaps)
    history.see_level(NOW + 101 * MINUTE, NOW + 70 * SECOND, SETTINGS)
    assert history.has_advanced()
    assert history.gaps == gaps


MOVING = Verdict("moving", NOW, age_ms=0, speed=1.0, reason=Reason("advancing"))


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
    found = verdict_of(snapshot, lost=lost)  # type: ignore[arg-type]
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
        last = judge.judge(one).verdict
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
            found = judge.judge(flink_snapshot(now, {"#0": NOW}, tasks, level=Level(watermark_ms=NOW))).verdict
        return found.verdict

    assert verdict("s") == "stalled"
    assert verdict("x") == "unknown"  # another part of the job


@pytest.mark.parametrize(("reads", "verdict"), [("s", "stalled"), ("x", "waiting"), ("", "waiting")])
def test_records_that_a_source_reads_show_that_a_frozen_watermark_is_stalled(reads: str, verdict: str) -> None:
    """One record from the future, or a key without data: all else is read, and no watermark in the job moves."""
    judge, found = SnapshotJudge(MINUTE), Verdict("unknown")
    for second in range(0, 91, 5):
        of = {"s": [], "w": ["s"], "x": []}
        tasks = [FlinkVertex(id, id, 1, "RUNNING", of[id], read=second * (id == reads), output_ms=NOW) for id in of]
        channels = [ChannelView("in-0", NOW, None, "active", records=None, backlog=0)]
        seen = flink_snapshot(NOW + second * SECOND, {}, tasks, level=Level(watermark_ms=NOW))
        found = judge.judge(replace(seen, channels=channels)).verdict
    assert found.verdict == verdict


@pytest.mark.parametrize(
    ("cause", "verdict"),
    [("in_flight", "stalled"), ("back_pressured", "stalled"), ("slow_reader", "stalled"), ("stuck", "unknown")],
)
def test_records_that_wait_have_come_also_while_the_source_reads_none(cause: Cause, verdict: str) -> None:
    """A task that works on a record for long keeps its source from reading: what waits there is not over."""
    judge, found = SnapshotJudge(MINUTE), list[str]()
    for second in range(0, 300, 5):
        now = NOW + second * SECOND
        task = FlinkVertex("s", "s", 1, "RUNNING", [], read=min(second, 30), output_ms=NOW)
        level = Level(watermark_ms=NOW, holder=Holder("#0", NOW, cause))
        found.append(judge.judge(flink_snapshot(now, {"#0": NOW}, [task], level=level)).verdict.verdict)
    assert set(found[20:]) == {verdict}, "it does not change"


def test_a_channel_is_stuck_once_the_watermark_s_patience_is_over_and_not_before() -> None:
    """Flink's samples call a split stuck if it is the same in two of them, 35 ms after the watermark reached it."""
    judge, seen = SnapshotJudge(10 * SECOND), list[Snapshot]()
    for second in range(15):
        now, level = NOW + second * SECOND, NOW - 2 * MINUTE if second < 2 else NOW - MINUTE
        splits = {"in-2": NOW - MINUTE, "in-1": NOW - 30 * SECOND, "in-0": NOW + second * SECOND}
        found = judge.judge(
            flink_snapshot(
                now,
                splits,
                [],
                settings=replace(SETTINGS, strategy="source", lateness_ms=None, window=None),
                level=Level(level, max(splits.values()) - level, holder=Holder("in-2", now, "stuck")),
                blockers=[Blocker([split], 30 * SECOND, at, "stuck") for split, at in list(splits.items())[:2]],
            )
        )
        holder, steps = found.level.holder, [step.cause for step in found.blockers or ()]
        seen.append(found)
        if found.verdict.verdict == "moving":
            assert holder is not None
            assert [holder.cause, steps[0]] == ["behind", "behind"]
            assert steps[1] == ("stuck" if second > 10 else "behind")
    assert [one.verdict.verdict for one in seen] == ["unknown"] * 2 + ["moving"] * 11 + ["stalled"] * 2
    assert check_all(seen)["moving"] == 11
    assert steps == ["stuck", "stuck"]


def test_a_job_that_a_restart_left_without_a_watermark_is_stalled_while_records_come() -> None:
    """A restart restores no watermark: a partition without a record since then leaves the operator without one."""
    judge, found = judge_of(30 * SECOND), dict[int, str]()
    for second in range(0, 100, 5):
        now, began = NOW + second * SECOND, NOW + 40 * SECOND * (second >= 40)
        mark, moved_ms = (None, NOW + 35 * SECOND) if second >= 40 else (now, now)
        seen = flink_snapshot(now, {"a": now}, [], level=Level(watermark_ms=mark, moved_ms=moved_ms))
        ahead_ms = 7_000  # the JobManager's clock
        job = replace(seen.job, clock_ms=now + ahead_ms, running_ms=began + ahead_ms)
        found[second] = judge.judge(replace(seen, flink=job)).verdict.verdict
    assert [found[second] for second in (35, 40, 70, 75, 95)] == ["moving", *["unknown"] * 2, *["stalled"] * 2]
