"""What of a topic is unread: what still exists, what is not known, and how far behind the end that is."""

import pytest
from wmtop.engine.targets.topic import PartitionFacts, TopicFacts
from wmtop.engine.targets.topic.unread import behind_end_ms, least_unread, unread_now, unread_of_all

MINUTE, NOON = 60_000, 1_360_324_800_000


def partition(end: int, position: int | None, *, first: int = 0, newest_ms: int | None = NOON) -> PartitionFacts:
    return PartitionFacts("orders", 0, end, newest_ms, newest_ms, position, None, first)


READ, BEHIND, BEYOND, UNCOMMITTED = partition(9, 9), partition(9, 4), partition(3, 9), partition(9, None)


@pytest.mark.parametrize(
    ("facts", "unread"),
    [
        (READ, 0),
        (BEHIND, 5),
        (partition(9, 2, first=6), 3),  # what is deleted is not unread
        (BEYOND, None),  # the topic was recreated
        (UNCOMMITTED, None),
    ],
)
def test_unread_records_are_those_that_still_exist(facts: PartitionFacts, unread: int | None) -> None:
    assert unread_now(facts, TopicFacts(partitions=(facts,))) == unread


def test_nothing_is_known_while_the_broker_does_not_answer() -> None:
    assert unread_now(BEHIND, TopicFacts(partitions=(BEHIND,), trouble="no answer")) is None


@pytest.mark.parametrize("other", [BEYOND, UNCOMMITTED])
def test_with_an_unknown_partition_only_a_lower_bound_is_known(other: PartitionFacts) -> None:
    assert (unread_of_all([BEHIND, BEHIND]), least_unread([BEHIND, BEHIND])) == (10, 10)
    assert (unread_of_all([BEHIND, other]), least_unread([BEHIND, other])) == (None, 5)
    assert (unread_of_all([other]), least_unread([other])) == (None, 0)


def test_of_no_partition_nothing_is_unread() -> None:
    assert (unread_of_all([]), least_unread([])) == (0, 0)


def test_a_reader_is_behind_the_newest_record_and_never_ahead_of_it() -> None:
    assert behind_end_ms(BEHIND, NOON - MINUTE) == MINUTE
    assert behind_end_ms(BEHIND, NOON + MINUTE) == 0


@pytest.mark.parametrize(("newest_ms", "event_ms"), [(None, NOON), (NOON, None), (None, None)])
def test_how_far_behind_is_not_known_without_both_times(newest_ms: int | None, event_ms: int | None) -> None:
    assert behind_end_ms(partition(9, 4, newest_ms=newest_ms), event_ms) is None
