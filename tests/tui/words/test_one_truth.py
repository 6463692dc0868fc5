"""The invariants of semantics 11.1: no surface contradicts another in the same frame."""

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from wmtop.engine.doctor import Finding, diagnose, explain
from wmtop.engine.feed.recording_reader import RecordingReader
from wmtop.engine.snapshot import Snapshot
from wmtop.engine.verdict.history import HistoryPoint, history_point
from wmtop.tui.words.check import CheckInput, reason_of
from wmtop.tui.words.fail_if import facts_of
from wmtop.tui.words.fleet import fleet_row
from wmtop.tui.words.presenter import presenter_of
from wmtop.tui.words.spans import lay
from wmtop.tui.words.verdict import age_words, verdict_parts
from wmtop.tui.words.watermark import watermark_parts

from tests.snapshots import replace

from ...doctor.streams import HOUR, MINUTE, SECOND, SETTINGS, Stream, traffic

RECORDINGS = sorted((Path(__file__).parents[2] / "doctor").glob("*.rec"))
NOT_ADVANCING = re.compile(r"not advanc|frozen|stalled|is stuck|unchanged|does not move", re.IGNORECASE)


def random_run(dice: Random) -> Stream:
    """Channels that come and go, a backlog, changed settings, a raised lateness; live, or a replay."""
    settings = replace(SETTINGS, idle_after_ms=dice.choice([None, MINUTE, 5 * MINUTE]))
    stream = Stream(settings, speed=dice.choice([None, None, 600]))
    while len(stream.published) < 300:
        names = dice.sample("abcd", dice.randrange(1, 5))
        behind = {name: dice.choice([0, 0, 30 * SECOND, HOUR]) for name in names}
        mode = dice.choice(["data", "data", "data", "nothing", "old", "raise", "backlog"])
        stream.backlog = {"a": 50} if mode == "backlog" and stream.speed is None else {}
        if mode == "raise":
            stream.change(lateness_ms=dice.choice([0, SECOND, 10 * MINUTE]))
        steps, by = dice.randrange(3, 40), dice.choice([SECOND, 5 * SECOND, MINUTE])
        shift = -2 * HOUR if mode == "old" else 0
        make = traffic(names, each=1, behind=behind, shift=shift, seed=dice.randrange(99))
        stream.run(steps, (lambda now: []) if mode in ("nothing", "backlog") else make, by)
    return stream


def frames(snapshots: list[Snapshot]) -> Iterator[tuple[Snapshot, list[HistoryPoint], list[Finding]]]:
    past: list[HistoryPoint] = []
    for snapshot in snapshots:
        point = history_point(snapshot)
        past = [*past[-600:], *([point] if point is not None else [])]
        yield snapshot, past, diagnose(snapshot, past)


def check_frame(snapshot: Snapshot, past: list[HistoryPoint], findings: list[Finding]) -> None:
    verdict, level = snapshot.verdict, snapshot.level
    explained = [explain(one, snapshot, None) for one in findings]
    headline = explained[0].title if explained else None
    parts = verdict_parts(snapshot, findings, headline=headline)
    line = "".join(text for text, _ in lay(parts, 10_000))
    watermark = "".join(text for text, _ in lay(list(watermark_parts(snapshot, None)), 10_000))
    holder = "".join(text for text, _ in lay(list(presenter_of(snapshot).holder(None)), 10_000))
    given = CheckInput(snapshot, past, verdict.verdict, findings)
    row, facts, reason = fleet_row("t", "", snapshot, past, None), facts_of(given), reason_of(given, explained)
    said = [line, watermark, reason, row.reason, *(f"{e.title} {e.impact}" for e in explained)]
    # (a)
    if verdict.verdict in ("moving", "slow"):
        assert verdict.age_ms is not None
        assert verdict.patience_ms is not None
        assert verdict.age_ms <= verdict.patience_ms
        assert not [text for text in said if NOT_ADVANCING.search(text)]
    # (b)
    if verdict.verdict in ("stalled", "slow"):
        assert findings
        assert explained[0].cause
        assert findings[0].fixes
    # (c)
    styles = {style for _, style in parts[0].spans}
    worst = {one.severity for one in findings}
    if verdict.verdict == "stalled" or "critical" in worst:
        assert styles == {"bad"} == {row.style}
    elif verdict.verdict == "slow" or "warning" in worst:
        assert styles == {"stale"} == {row.style}
    # (d)
    assert row.verdict == verdict.verdict
    if level.moved_ms is not None and snapshot.now_ms is not None:
        assert verdict.age_ms == snapshot.now_ms - level.moved_ms == facts["age"]
    if verdict.verdict in ("stalled", "waiting"):
        age = age_words(verdict)
        assert f"{verdict.verdict.upper()} {age}" in line
        assert facts[f"{verdict.verdict}_for"] == verdict.age_ms
        assert "moved " not in watermark or f"moved {age} ago" in watermark
    # (e)
    if verdict.verdict == "stalled" and level.holder is not None and row.held_back_by is not None:
        assert row.held_back_by == level.holder.channel
        assert not snapshot.blockers or level.holder.channel in snapshot.blockers[0].channels
        assert level.holder.channel in holder


@pytest.mark.parametrize("seed", range(12))
def test_no_frame_of_a_random_run_contradicts_itself(seed: int) -> None:
    stream = random_run(Random(seed))
    for snapshot, past, findings in frames(stream.published):
        check_frame(snapshot, past, findings)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_no_frame_of_a_recording_contradicts_itself(path: Path) -> None:
    with RecordingReader(path) as recording:
        for snapshot, past, findings in frames(list(recording)):
            check_frame(snapshot, past, findings)


def test_the_random_runs_reach_every_verdict() -> None:
    seen = {one.verdict.verdict for seed in range(12) for one in random_run(Random(seed)).published}
    assert {"moving", "slow", "stalled", "waiting", "unknown"} <= seen
