"""The invariants of semantics 11.1: no surface contradicts another in the same frame."""

from pathlib import Path
from random import Random

import pytest
from wmtop.engine.feed.recording_reader import RecordingReader

from tests.one_truth import check_all
from tests.snapshots import replace

from ...doctor.streams import HOUR, MINUTE, SECOND, SETTINGS, Stream, traffic

RECORDINGS = sorted((Path(__file__).parents[2] / "doctor").glob("*.rec"))


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


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.matrix) for seed in range(3, 12))])
def test_no_frame_of_a_random_run_contradicts_itself(seed: int) -> None:
    check_all(random_run(Random(seed)).published)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_no_frame_of_a_recording_contradicts_itself(path: Path) -> None:
    with RecordingReader(path) as recording:
        check_all(recording)


def test_the_random_runs_reach_every_verdict() -> None:
    wanted, seen = {"moving", "slow", "stalled", "waiting", "unknown"}, set[str]()
    for seed in range(12):
        seen |= {one.verdict.verdict for one in random_run(Random(seed)).published}
        if wanted <= seen:
            return
    assert wanted <= seen
