"""A real Flink job under the adaptive scheduler: the invariants of semantics 11.1, look by look, and a rescale."""

import time
from collections.abc import Callable, Iterator

import pytest
from wmtop.engine.doctor import diagnose
from wmtop.engine.snapshot import Snapshot

from tests.one_truth import check_all

from .conftest import StartFlink
from .flinks import BASE_MS, FLINK_VERSION, START_S, Flink, Watching

PATIENCE_MS = 1_500
LOOK_S = 0.3


@pytest.fixture(scope="module")
def adaptive(start_flink: StartFlink) -> Flink:
    return start_flink(splits=3, parallelism=2, idle=4_000, adaptive=1)


def test_no_look_at_a_running_job_contradicts_itself(adaptive: Flink) -> None:
    """All splits go on, one falls silent until it is idle, it comes back late, all fall silent."""
    flink = adaptive
    watching, second = Watching(flink.url, horizon_ms=PATIENCE_MS), 1_000.0

    def write(*splits: str) -> None:
        nonlocal second
        second += 1
        for split in splits:
            flink.write(split, second)

    def until(wanted: Callable[[Snapshot], bool], feed: Callable[[], None]) -> Iterator[Snapshot]:
        deadline = time.monotonic() + START_S
        while True:
            feed()
            yield (snapshot := watching.look())
            if wanted(snapshot):
                return
            assert time.monotonic() < deadline, snapshot.verdict
            time.sleep(LOOK_S)

    def is_idle(snapshot: Snapshot) -> bool:
        return [one.state for one in snapshot.channels if one.channel == "in-2"] == ["idle"]

    def moves(snapshot: Snapshot) -> bool:
        return snapshot.verdict.verdict == "moving"

    def all_write() -> None:
        write("in-0", "in-1", "in-2")

    def two_write() -> None:
        write("in-0", "in-1")

    def looks() -> Iterator[Snapshot]:
        yield from until(moves, all_write)
        yield from until(is_idle, two_write)
        yield from until(moves, two_write)
        flink.write("in-2", (watching.look().level.watermark_ms or 0) / 1_000 - BASE_MS / 1_000 - 60)
        for _ in range(10):
            yield from until(lambda _: True, two_write)
        # A file's split does not tell whether there is more to read.
        yield from until(lambda seen: seen.verdict.verdict == "unknown", lambda: None)

    seen = check_all(looks())
    assert seen["moving"] >= 2
    assert seen["unknown"] >= 1


@pytest.mark.skipif(FLINK_VERSION.startswith("1."), reason="1.20 does not report how many restarts were rescales")
def test_a_rescale_is_a_restart_and_no_failure(adaptive: Flink) -> None:
    """Without a checkpoint the files are read again from their start; each split is in one subtask then."""
    watching = Watching(adaptive.url)
    watching.see(lambda s: s.level.watermark_ms is not None, "it runs")
    for most in (1, 3):
        before = watching.look().job.restarts
        adaptive.rescale(most)
        seen = watching.see(lambda s, before=before: (s.job.restarts or 0) > before, "the restart is counted")
        assert (seen.job.rescales, seen.job.failure) == (seen.job.restarts, None)
        seen = watching.see(
            lambda s, most=most: s.state == "live" and s.job.vertices[0].parallelism == most and len(s.channels) == 3,
            "it runs again",
        )
        assert sorted(one.channel for one in seen.channels) == ["in-0", "in-1", "in-2"]
        assert [one.channels for one in seen.instances or ()] == ([3] if most == 1 else [])
        [finding] = [one for one in diagnose(seen, []) if one.code == "job-restarts"]
        assert (finding.severity, finding.cause) == ("info", "It was rescaled.")
