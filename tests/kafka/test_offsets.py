"""How many records a batch takes of each partition, and which offsets are those of a topic that is gone."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wmtop.engine.kafka.cluster import (
    Positions,
    Topic,
    TopicPartition,
    limited,
    offsets_of,
    parse_offsets,
    positions_of,
)
from wmtop.engine.run.sources.kafka_stream import KnownTopics

A, B, C = (TopicPartition("t", number) for number in range(3))


@pytest.mark.parametrize(
    ("start", "end", "most", "expected"),
    [
        ({A: 0, B: 0}, {A: 30, B: 10}, 100, {A: 30, B: 10}),
        ({A: 0, B: 0}, {A: 300, B: 100}, 40, {A: 30, B: 10}),  # in proportion
        ({A: 5, B: 7}, {A: 105, B: 7}, 10, {A: 15, B: 7}),  # nothing of who has nothing
        ({A: 0, B: 0}, {A: 1_000_000, B: 1}, 10, {A: 9, B: 1}),  # nobody starves
        ({A: 0, B: 0, C: 0}, {A: 50, B: 50, C: 50}, 10, {A: 3, B: 3, C: 3}),  # rounded down
        ({A: 90}, {A: 10}, 5, {A: 10}),  # behind its start: for the caller to see
        ({A: 0}, {A: 100, B: 40}, 10, {A: 10, B: 40}),  # where B begins is not known
    ],
)
def test_a_batch_takes_of_each_partition_in_proportion(
    start: Positions, end: Positions, most: int, expected: Positions
) -> None:
    assert limited(start, end, most) == expected


@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), min_size=1, max_size=20), st.integers(1, 10**6)
)
def test_batches_of_any_backlog_come_to_its_end(partitions: list[tuple[int, int]], most: int) -> None:
    start = {TopicPartition("t", n): begin for n, (begin, _) in enumerate(partitions)}
    end = {TopicPartition("t", n): begin + unread for n, (begin, unread) in enumerate(partitions)}
    ends = limited(start, end, most)
    assert all(start[p] < ends[p] <= end[p] for p in start if end[p] > start[p]), "each with unread records moves"
    assert sum(ends[p] - start[p] for p in start) <= most + len(partitions)


def test_offsets_as_spark_writes_them() -> None:
    written = '{"u":{"0":3},"t":{"10":1,"2":0}}'
    positions = {TopicPartition("u", 0): 3, TopicPartition("t", 10): 1, TopicPartition("t", 2): 0}
    assert parse_offsets(written) == positions
    assert positions_of(offsets_of(positions)) == positions
    assert parse_offsets('{"rows": 7}') is None
    assert parse_offsets("7") is None


class TestKnownTopics:
    """A topic that was recreated is read from its start, once."""

    def topic(self, key: str | None) -> dict[str, Topic]:
        return {"t": Topic("t", key, [A, B])}

    def test_the_first_id_is_known_also_after_a_restart(self, tmp_path: Path) -> None:
        file = tmp_path / "topics.json"
        KnownTopics(file).look(self.topic("one"))
        again = KnownTopics(file)
        again.look(self.topic("one"))
        assert not again.was_recreated(A)
        again.look(self.topic("two"))
        assert again.was_recreated(A)
        assert again.was_recreated(B)
        assert not again.was_recreated(TopicPartition("other", 0))

    def test_it_is_recreated_until_all_of_sparks_offsets_are_back_at_the_start(self, tmp_path: Path) -> None:
        known = KnownTopics(tmp_path / "topics.json")
        known.look(self.topic("one"))
        known.look(self.topic("two"))
        for reached in ({A: 5, B: 3}, {A: 0, B: 3}):
            known.rewind(reached)
            assert known.was_recreated(A)
        known.rewind({A: 0, B: 0, TopicPartition("other", 0): 7})
        assert not known.was_recreated(A)
        known.look(self.topic("two"))
        assert not known.was_recreated(A)

    def test_a_crash_before_the_offsets_are_back_forgets_nothing(self, tmp_path: Path) -> None:
        file = tmp_path / "topics.json"
        known = KnownTopics(file)
        known.look(self.topic("one"))
        known.look(self.topic("two"))
        after_a_crash = KnownTopics(file)
        after_a_crash.look(self.topic("two"))
        assert after_a_crash.was_recreated(A)
        after_a_crash.rewind({A: 0, B: 0})
        later = KnownTopics(file)
        later.look(self.topic("two"))
        assert not later.was_recreated(A)

    def test_a_topic_that_is_recreated_twice(self, tmp_path: Path) -> None:
        known = KnownTopics(tmp_path / "topics.json")
        for key in ("one", "two", "three"):
            known.look(self.topic(key))
        known.rewind({A: 0, B: 0})
        known.look(self.topic("three"))
        assert not known.was_recreated(A)

    def test_a_topic_that_is_gone_or_has_no_id_shows_nothing(self, tmp_path: Path) -> None:
        known = KnownTopics(tmp_path / "topics.json")
        known.look(self.topic(None))
        known.look({})
        known.look(self.topic("one"))
        assert not known.was_recreated(A)
        known.look(self.topic(None))
        assert not known.was_recreated(A)
