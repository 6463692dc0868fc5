"""The invariants of verdict and findings (semantics 11.1 a, b) at every snapshot of random runs, by the texts shown."""

import re
from collections.abc import Iterator
from random import Random

import pytest
from wmtop.engine.doctor import Diagnosis, accounts_for, diagnose, explain
from wmtop.engine.snapshot import Level, Note, Snapshot
from wmtop.engine.watermarks.settings import Session, Settings, Tumbling

from tests.snapshots import replace

from .patients import NOW, healthy, judged
from .streams import HOUR, KAFKA, MINUTE, SECOND, SETTINGS, Stream, traffic

pytestmark = pytest.mark.hours

FROZEN = re.compile(
    r"frozen|stalled|stuck|unchanged|advances again|no window fires|(do|does|has|have|can) ?(not|n't) (advance|move)",
    re.IGNORECASE,
)
"""How a text says that the watermark does not advance."""
NO_CHANNEL = re.compile(
    r"\b(no|all|every|which) (other )?(channel|input|task)s?\b|the (source|reader|lateness)", re.IGNORECASE
)
FAULTS = (
    "none",
    "none",
    "silent",
    "all_silent",
    "repeats",
    "lags",
    "slower",
    "lateness",
    "backlog",
    "paused",
    "future",
)
STRATEGIES = ("bounded", "bounded", "bounded-legacy", "monotonous", "smoothed", "spark")


def random_stream(chance: Random) -> Iterator[Stream]:
    """A run with faults that come and go; yields the stream after each of its steps."""
    speed = chance.choice([None, None, 60.0, 600.0])
    by = 10 * SECOND if speed is None else round(speed) * SECOND
    strategy = chance.choice(STRATEGIES)
    lateness = None if strategy == "monotonous" else chance.choice([5 * SECOND, MINUTE, 30 * MINUTE])
    settings = Settings(
        strategy=strategy,
        lateness_ms=lateness,
        idle_after_ms=None if strategy == "spark" else chance.choice([None, 30 * SECOND, 5 * MINUTE, 2 * HOUR]),
        window=chance.choice([Tumbling(10 * SECOND), Tumbling(HOUR), Session(MINUTE)]),
        future_guard_ms=chance.choice([None, HOUR]),
    )
    stream = Stream(settings, source=KAFKA, speed=speed)
    names = "abcdef"[: chance.randint(1, 6)]
    shift = 0
    for _ in range(5):
        fault, some = chance.choice(FAULTS), chance.choice(names)
        at = stream.now
        stream.state = "paused" if fault == "paused" and speed is None else "live"
        if fault == "lateness" and lateness is not None:
            stream.change(lateness_ms=chance.choice([2 * SECOND, 10 * MINUTE, 2 * HOUR]))
        if fault == "backlog" and speed is None:
            stream.backlog = dict.fromkeys(names, 5_000)
        for _ in range(chance.choice([8, 30, 90])):
            reading = [name for name in names if not (fault in ("silent", "repeats") and name == some)]
            shift -= by // 2 if fault == "slower" else 0
            behind = {some: 10 * MINUTE} if fault == "lags" else {}
            make = traffic(reading, each=1, disorder=SECOND, shift=shift, behind=behind, seed=chance.randrange(99))
            records = [] if fault in ("all_silent", "backlog") or stream.state == "paused" else make(stream.now + by)
            if fault == "repeats":
                records.append((some, at))
            if fault == "future" and stream.now == at:
                records.append((some, at + 50 * MINUTE))
            stream.step(records, by)
            yield stream
        stream.backlog = dict.fromkeys(names, 0)


def diagnosed(stream: Stream) -> tuple[Snapshot, list[Diagnosis], list[Diagnosis]]:
    """The snapshot, its findings in words, and those of them that are a reason for its verdict."""
    snapshot = stream.snapshot
    assert snapshot is not None
    findings = diagnose(snapshot, stream.past)
    said = [explain(finding, snapshot, None) for finding in findings]
    verdict = snapshot.verdict.verdict
    reasons = [words for finding, words in zip(findings, said, strict=True) if accounts_for(finding, verdict)]
    return snapshot, said, reasons


def text_of(said: Diagnosis) -> str:
    return "\n".join([said.title, said.impact, said.cause, *said.evidence, *said.fixes])


@pytest.mark.parametrize("seed", range(16))
def test_findings_fit_the_verdict_at_every_moment(seed: int) -> None:
    for stream in random_stream(Random(seed)):
        snapshot, said, reasons = diagnosed(stream)
        verdict = snapshot.verdict
        if verdict.verdict in ("moving", "slow"):
            assert verdict.age_ms is not None
            assert verdict.patience_ms is not None
            assert verdict.age_ms <= verdict.patience_ms
            assert [text for text in map(text_of, said) if FROZEN.search(text)] == [], verdict
        if verdict.verdict in ("stalled", "slow"):
            assert reasons, verdict
            for one in reasons:
                assert all((one.title, one.cause, one.fixes)), verdict
                named = one.channels and any(channel in text_of(one) for channel in one.channels)
                assert named or NO_CHANNEL.search(text_of(one)), (verdict, one)


def test_the_runs_have_every_verdict_and_several_reasons() -> None:
    """Else the test above would check nothing."""
    seen: set[tuple[str, str]] = set()
    for seed in (0, 2, 10, 20):
        for stream in random_stream(Random(seed)):
            snapshot, _, reasons = diagnosed(stream)
            seen |= {(snapshot.verdict.verdict, one.code) for one in reasons}
    stalled = {"lagging-channels", "silent-channels", "future-timestamps", "watermark-stalled"}
    assert seen >= {("stalled", code) for code in stalled} | {("slow", "watermark-slow"), ("slow", "silent-channels")}


def test_a_run_whose_watermark_has_never_advanced_is_not_called_moving() -> None:
    stream = Stream()
    stream.monitor.add_channels(["a"], stream.now)
    stream.wait(3 * MINUTE, by=SECOND)
    names = [snapshot.verdict.verdict for snapshot in stream.published]
    assert (names[0], names[-1]) == ("unknown", "waiting")
    assert "moving" not in names


SPARK = Settings(strategy="spark", lateness_ms=5 * SECOND, idle_after_ms=None, window=Tumbling(10 * SECOND))


def test_a_stall_that_no_channel_causes_says_so() -> None:
    stream = Stream(SPARK).run(120, traffic("ab"))
    repeated = stream.now
    stream.run(90, lambda now: [("a", repeated), ("b", repeated - SECOND)])
    snapshot, [found], _ = diagnosed(stream)
    assert (snapshot.verdict.verdict, found.code, found.channels) == ("stalled", "watermark-stalled", ())
    assert found.cause == "No channel holds it back: no record is newer than the newest before it."
    assert found.fixes == ["Look at the timestamps of new records, and at the time column"]


def test_records_that_are_not_read_are_the_cause_of_a_stall() -> None:
    stream = Stream(SPARK).run(120, traffic("ab"))
    stream.backlog = {"a": 500}
    snapshot, [found], _ = diagnosed(stream.wait(2 * MINUTE))
    assert found.cause == "No channel is known to hold it back: 500 records unread."
    assert found.fixes[0].startswith("Add readers")
    [alone] = diagnose(replace(snapshot, notes=[Note(NOW, "no_member", {"unread": 500})]), [])
    assert [fix.code for fix in alone.fixes] == ["start-consumer"]


def test_a_stall_of_unknown_cause_says_what_would_show_it() -> None:
    bare = healthy([], level=Level(NOW - HOUR, None, HOUR), origin={"level": "checkpoint"}, whatif=None)
    snapshot = replace(bare, verdict=judged("stalled", 2 * MINUTE))
    [found] = [explain(one, snapshot, None) for one in diagnose(snapshot, [])]
    assert (found.code, found.channels) == ("watermark-stalled", ())
    assert found.cause.startswith("The cause is not known")
    assert found.fixes == ["To see its event time, put a tap (one line) on its input"]


def test_the_channel_that_loses_ground_is_named_or_that_all_do() -> None:
    def losing(behind: str) -> Diagnosis:
        stream = Stream(SETTINGS).run(60, traffic("ab"), by=10 * SECOND)
        for place in range(90):
            lag = dict.fromkeys(behind, place * 3 * SECOND)
            stream.step(traffic("ab", behind=lag)(stream.now + 10 * SECOND), 10 * SECOND)
        snapshot = stream.published[-1]
        assert snapshot.verdict.verdict == "slow"
        [found] = [explain(one, snapshot, None) for one in diagnose(snapshot, [])]
        return found

    one, both = losing("b"), losing("ab")
    assert (one.channels, one.title) == (("b",), "Event time loses ground: b holds back the watermark")
    assert one.fixes[0] == "Find out why b is behind: producer, network, an unused partition?"
    assert both.channels == ()
    assert both.cause.startswith("No channel alone holds it back")


def test_a_pause_of_the_watermark_within_patience_is_no_standstill_in_any_text() -> None:
    """A paused source and one without data: the watermark is moving until patience is over."""
    paused = Stream(SETTINGS).run(120, traffic("ab"))
    paused.state = "paused"
    snapshot, [found], _ = diagnosed(paused.wait(30 * SECOND))
    assert (snapshot.verdict.verdict, found.code) == ("moving", "source-paused")
    assert found.impact == "The watermark waits until the source is resumed"
