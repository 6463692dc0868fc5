"""Blockers from the steps of a staircase: names, cause, and what is not known."""

from wmtop.engine.snapshot import Blocker, Cause
from wmtop.engine.snapshot.blockers import MAX_NAMED, blockers_of
from wmtop.engine.watermarks.operator_clock import BlockerStep, steps_below
from wmtop.engine.watermarks.times import MIN

CAUSES: dict[int, Cause] = {0: "quiet", 1: "backlog", 2: "behind", 3: "behind"}


def name_of(number: int) -> str:
    return "abcd"[number]


def test_a_step_has_the_names_of_its_channels_and_the_cause_of_its_first() -> None:
    steps = steps_below([(20, 1), (20, 0), (30, 3), (50, 2)], 20, 50)
    assert blockers_of(steps, name_of, CAUSES.__getitem__) == [
        Blocker(["b", "a"], 10, 20, "backlog", 2),
        Blocker(["d"], 30, 30, "behind", 1),
    ]


def test_a_channel_without_a_watermark_has_none_and_gains_nothing_that_is_known() -> None:
    steps = steps_below([(MIN, 0), (50, 2)], MIN, 50)
    assert blockers_of(steps, name_of, CAUSES.__getitem__) == [Blocker(["a"], None, None, "quiet", 1)]


def test_a_step_names_its_first_channels_and_counts_all() -> None:
    step = BlockerStep(list(range(MAX_NAMED + 1)), 20, 10)
    [blocker] = blockers_of([step], str, lambda number: "behind")
    assert blocker.channels == [str(number) for number in range(MAX_NAMED)]
    assert blocker.channel_count == MAX_NAMED + 1


def test_no_step_is_no_blocker() -> None:
    assert blockers_of([], name_of, CAUSES.__getitem__) == []
