"""A split of a real Flink that was idle sends older records again: what a first look says is compared with REST."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from wmtop.engine.snapshot import Snapshot
from wmtop.engine.system.rest import RestSecurity
from wmtop.engine.targets.flink.watch import FlinkWatch

from .flinks import BASE_MS, Flink, until

LOOKS = 6


def look(flink: Flink, job: str) -> Snapshot:
    """What a single answer says, by a watch of its own."""
    watch = FlinkWatch(flink.url, job, None, RestSecurity())
    watch.open()
    try:
        return watch.picture(job, watch.look(), time.time_ns() // 1_000_000).snapshot
    finally:
        watch.close()


def states(seen: Snapshot) -> dict[str, str]:
    """The state of each channel."""
    return {view.channel: view.state for view in seen.channels}


@contextmanager
def sending(flink: Flink, **starts: int) -> Iterator[None]:
    """Splits that send a record every 0.3 s, from so many seconds on."""
    ended = threading.Event()

    def send() -> None:
        for step in count():
            for split, start in starts.items():
                flink.write(split.replace("_", "-"), start + step)
            if ended.wait(0.3):
                return

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def let_the_first_split_turn_idle(flink: Flink, job: str) -> None:
    for second in (1, 2, 3):  # both of them first: an empty split makes its whole subtask idle once
        for split in (f"{job}-0", f"{job}-1"):
            flink.write(split, second)
    until(lambda: flink.level(job) == BASE_MS + 2_999, "both have sent")
    with sending(flink, **{f"{job}_1": 1_000}):
        until(lambda: flink.level(job) > BASE_MS + 1_000_000, "the first split is idle")


def test_a_split_that_returns_below_the_operator_is_not_blamed_at_any_look(flink: Flink) -> None:
    let_the_first_split_turn_idle(flink, "back")
    with sending(flink, back_0=10, back_1=1_200):
        until(lambda: flink.level("back") > BASE_MS + 1_200_000, "the second sends")
        until(lambda: states(look(flink, "back"))["back-0"] == "catching_up", "the first sends, too")
        for _ in range(LOOKS):
            before = flink.level("back")
            seen = look(flink, "back")
            assert seen.level.watermark_ms is not None
            assert before <= seen.level.watermark_ms <= flink.level("back")
            assert states(seen) == {"back-0": "catching_up", "back-1": "active"}
            assert seen.level.holder is None or seen.level.holder.channel == "back-1"


def test_a_split_that_returns_below_its_own_subtask_is_seen_to_hold_it(flink: Flink) -> None:
    let_the_first_split_turn_idle(flink, "below")
    with sending(flink, below_0=10, below_1=1_200):
        late = look(flink, "below").totals.late or 0
        until(lambda: (look(flink, "below").totals.late or 0) > late + 5, "its records are dropped")
        for _ in range(LOOKS):
            seen = look(flink, "below")
            assert seen.level.watermark_ms == flink.level("below")
            assert {one.channel: one.state for one in seen.channels} == {"below-0": "active", "below-1": "active"}
            assert seen.level.holder is not None
            assert (seen.level.holder.channel, seen.level.holder.cause) == ("below-0", "behind")


def test_splits_that_are_all_idle_are_not_blamed_at_any_look(flink: Flink) -> None:
    until(lambda: look(flink, "below").level.idle, "nothing is sent any more")
    for _ in range(LOOKS):
        seen = look(flink, "below")
        assert (seen.level.idle, seen.level.holder, set(states(seen).values())) == (True, None, {"idle"})
