"""Since when a value is unchanged, and since when a holder holds, from two looks."""

import doctest

import pytest
from wmtop.engine.snapshot import Cause, Holder, continuity
from wmtop.engine.snapshot.continuity import changed_ms, held_since

FIRST, SECOND, THIRD = 100, 200, 300


def test_the_examples_in_the_docstrings_are_so() -> None:
    done = doctest.testmod(continuity)
    assert (done.failed, done.attempted > 0) == (0, True)


def test_when_a_value_changed_that_was_always_so_is_not_known() -> None:
    at_first = changed_ms(20, None, FIRST)
    assert at_first is None
    assert changed_ms(20, (20, at_first), SECOND) is None


def test_a_value_changed_at_the_look_that_saw_it_and_keeps_that_time() -> None:
    changed = changed_ms(30, (20, None), SECOND)
    assert changed == SECOND
    assert changed_ms(30, (30, changed), THIRD) == SECOND


@pytest.mark.parametrize(("was", "now"), [(None, 20), (20, None)])
def test_none_is_a_value_of_its_own(was: int | None, now: int | None) -> None:
    assert changed_ms(now, (was, FIRST), SECOND) == SECOND


def test_a_value_that_was_not_looked_at_before_gets_the_time_that_the_caller_says() -> None:
    assert changed_ms(20, None, FIRST, first_ms=FIRST) == FIRST
    assert changed_ms(30, (20, FIRST), SECOND, first_ms=THIRD) == SECOND  # only then


def holder(channel: str, cause: Cause = "behind", instance: int | None = None) -> Holder:
    return Holder(channel, 0, cause, instance)


def test_a_holder_of_the_first_look_may_have_held_for_longer() -> None:
    assert held_since(holder("a"), None, FIRST, was_watched=False) == Holder("a", FIRST, "behind", at_least=True)


def test_a_holder_that_a_watched_target_did_not_have_begins_now() -> None:
    assert held_since(holder("a"), None, SECOND, was_watched=True) == Holder("a", SECOND, "behind")


@pytest.mark.parametrize("was_watched", [False, True])
def test_another_channel_begins_now(was_watched: bool) -> None:
    before = Holder("a", FIRST, "behind", at_least=True)
    assert held_since(holder("b"), before, SECOND, was_watched=was_watched) == Holder("b", SECOND, "behind")


@pytest.mark.parametrize("at_least", [False, True])
def test_the_same_channel_keeps_its_time_and_whether_that_is_a_lower_bound(at_least: bool) -> None:
    before = Holder("a", FIRST, "behind", at_least=at_least)
    now = held_since(holder("a", "quiet", 3), before, SECOND, was_watched=True)
    assert now == Holder("a", FIRST, "quiet", 3, at_least)  # cause and instance are those of now


def test_another_cause_begins_again_only_where_a_holder_is_one_of_its_cause() -> None:
    before = Holder("a", FIRST, "behind", at_least=True)
    again = held_since(holder("a", "quiet"), before, SECOND, was_watched=True, of_cause=True)
    assert again == Holder("a", SECOND, "quiet")
    assert held_since(holder("a"), before, SECOND, was_watched=True, of_cause=True) == before
