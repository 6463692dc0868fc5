"""Who is held back, and what is unread, from positions alone: no cluster, no Spark."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from wmtop.engine.kafka.client_settings import KafkaConfig
from wmtop.engine.kafka.cluster import Positions, Topic, TopicPartition
from wmtop.engine.run.sources.kafka import Kafka
from wmtop.engine.run.sources.kafka_columns import KafkaColumns
from wmtop.engine.system.errors import RunError
from wmtop.engine.system.json_values import JsonPath

MINUTE = 60_000
SLOW, FAST, THIRD = (TopicPartition("t", number) for number in range(3))


class Source:
    """A source that was started at offset 0, and what is known of its topic."""

    def __init__(self, directory: Path, **options: Any) -> None:
        options = {"columns": KafkaColumns(time=JsonPath(("ts",))), "reader": "python", **options}
        self.it = Kafka(KafkaConfig("127.0.0.1:9"), ["t"], directory=directory, **options)
        self._file = directory / "held-back.json"

    def know(self, ends: Positions | None, read_to: Positions) -> None:
        self.it._progress._note_ends(ends)
        self.it._progress.read_to = read_to

    def held(self) -> list[str]:
        """What the planner is told."""
        return sorted(json.loads(self._file.read_text())) if self._file.exists() else []


@pytest.fixture
def balanced(tmp_path: Path) -> Iterator[Source]:
    source = Source(tmp_path, max_drift_ms=5 * MINUTE)
    yield source
    source.it.close()


def test_who_is_further_ahead_than_allowed_waits(balanced: Source) -> None:
    balanced.know({SLOW: 100, FAST: 100, THIRD: 100}, {SLOW: 10, FAST: 10, THIRD: 10})
    balanced.it.balance({"0": 0, "1": 5 * MINUTE + 1, "2": 5 * MINUTE})
    assert balanced.held() == ["t-1"]
    unread = balanced.it.progress.unread()
    assert unread is not None
    assert unread.held_back == {"1"}
    balanced.it.balance({"0": 1, "1": 5 * MINUTE + 1, "2": 5 * MINUTE})
    assert balanced.held() == []


def test_all_wait_for_the_first_record_of_a_partition_that_has_some(balanced: Source) -> None:
    balanced.know({SLOW: 100, FAST: 100, THIRD: 0}, {SLOW: 0, FAST: 10, THIRD: 0})
    balanced.it.balance({"0": None, "1": 7, "2": None})
    assert balanced.held() == ["t-1"]


@pytest.mark.parametrize(
    ("ends", "read_to", "came_to"),
    [
        ({SLOW: 0, FAST: 100}, {SLOW: 0, FAST: 10}, {"0": None, "1": 9 * MINUTE}),  # an empty partition
        ({SLOW: 90, FAST: 100}, {SLOW: 90, FAST: 10}, {"1": 9 * MINUTE}),  # an idle one
        ({SLOW: 90, FAST: 100}, {SLOW: 50, FAST: 10}, {"0": None, "1": 9 * MINUTE}),  # only bad times so far
    ],
)
def test_who_has_no_part_in_it(balanced: Source, ends: Positions, read_to: Positions, came_to: Any) -> None:
    balanced.know(ends, read_to)
    balanced.it.balance(came_to)
    assert balanced.held() == []


def test_a_cluster_without_an_answer_lets_no_partition_run_ahead_of_one_that_may_have_records(balanced: Source) -> None:
    for ends in ({SLOW: 100, FAST: 100}, None):
        balanced.know(ends, {SLOW: 0, FAST: 10})
        balanced.it.balance({"0": None, "1": 7})
        assert balanced.held() == ["t-1"]
    balanced.know({SLOW: 0, FAST: 100}, {SLOW: 0, FAST: 10})
    balanced.it.balance({"0": None, "1": 7})
    assert balanced.held() == []


@pytest.mark.parametrize("options", [{}, {"max_drift_ms": MINUTE, "reader": "connector"}])
def test_no_partition_waits_without_a_limit_or_where_it_cannot_be_enforced(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    source = Source(tmp_path, **options)
    source.know({SLOW: 100, FAST: 100}, {SLOW: 10, FAST: 10})
    if source.it.balance is not None:
        source.it.balance({"0": 0, "1": 9 * MINUTE})
    assert source.held() == []
    source.it.close()


def test_what_a_batch_left_is_counted_from_the_ends_when_it_was_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source(tmp_path)
    probed = source.it._progress
    for stamp_ms, end in ((1_000, 10), (2_000, 20), (3_000, 90)):
        monkeypatch.setattr("wmtop.engine.kafka.probe._now_ms", lambda stamp_ms=stamp_ms: stamp_ms)
        source.know({SLOW: end, FAST: 5}, {SLOW: 0, FAST: 5})

    def left(time_ms: int, read_to: int) -> dict[str, int] | None:
        unread = source.it.progress.unread_after([f'{{"t":{{"0":{read_to},"1":5}}}}'], time_ms)
        assert unread is not None
        return unread.by_channel

    assert left(2_500, 15) == {"0": 5, "1": 0}
    assert left(2_500, 20) == {"0": 0, "1": 0}
    assert left(3_000, 20) == {"0": 70, "1": 0}
    assert left(500, 4) == {"0": 6, "1": 0}, "before the first look: what that found"
    assert left(2_500, 30) == {"0": 0, "1": 0}, "read past what was known"
    assert source.it.progress.unread_after(["{}x"], 2_500) is None
    monkeypatch.undo()
    assert probed.fresh_ends() is None, "ends of long ago say nothing of now"
    source.it.close()


def test_a_field_s_channels_may_be_in_anything_unread(tmp_path: Path) -> None:
    source = Source(tmp_path, columns=KafkaColumns(time=JsonPath(("ts",)), channel=JsonPath(("who",))))
    source.know({SLOW: 10, FAST: 7}, {SLOW: 8, FAST: 7})
    unread = source.it.progress.unread()
    assert unread is not None
    assert (unread.records, unread.of("a"), unread.may_be_of("a"), unread.not_quiet()) == (2, None, 2, None)
    source.know({SLOW: 10, FAST: 7}, {SLOW: 10, FAST: 7})
    unread = source.it.progress.unread()
    assert unread is not None
    assert unread.not_quiet() == []
    assert unread.records == 0
    source.it.close()


def test_only_more_than_what_two_batches_take_is_a_backlog(tmp_path: Path) -> None:
    source = Source(tmp_path)
    source.know({SLOW: 100, FAST: 100}, {SLOW: 0, FAST: 0})
    source.it.progress.applied(['{"t":{"0":40,"1":10}}'])
    unread = source.it.progress.unread()
    assert unread is not None
    assert (unread.of("0"), unread.backlog("0")) == (60, 0)
    assert (unread.of("1"), unread.backlog("1")) == (90, 90)
    assert unread.not_quiet() == ["0", "1"]
    source.it.close()


def test_waiting_for_a_topic_pauses_also_where_the_cluster_fails_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answers of a cluster that refuses without delay; the pauses are what is looked at, not the time."""
    answers: list[Any] = [RunError("refused"), RunError("refused"), RunError("refused"), {}, RunError("refused"), None]

    class Refusing:
        def topics(self, names: list[str]) -> dict[str, Topic]:
            answer = answers.pop(0)
            if isinstance(answer, RunError):
                raise answer
            return {"t": Topic("t", None, [SLOW])} if answer is None else answer

        def near(self, topic: str) -> str:
            return ""

    pauses: list[float] = []
    monkeypatch.setattr("wmtop.engine.run.sources.kafka.time.sleep", pauses.append)
    source = Source(tmp_path)
    cluster: Any = Refusing()
    assert source.it._wait_for_topics(cluster, lambda text: None) == [SLOW]
    assert pauses == [1, 2, 4, 1, 1]
    source.it.close()
