"""The invariants of semantics 11.1 on a real Flink job that runs meanwhile, look by look."""

import time
from collections.abc import Callable, Iterator

from wmtop.engine.snapshot import Snapshot

from tests.one_truth import check_all

from .conftest import StartFlink
from .flinks import BASE_MS, START_S, Watching

PATIENCE_MS = 1_500
LOOK_S = 0.3


def test_no_look_at_a_running_job_contradicts_itself(start_flink: StartFlink) -> None:
    """All splits go on, one falls silent until it is idle, it comes back late, all fall silent."""
    flink = start_flink(splits=3, parallelism=2, idle=4_000)
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
