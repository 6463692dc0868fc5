"""Whether a log is the one that was read, by its topic's id, its leader's epoch and its end: without a broker."""

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import pytest
from wmtop.engine.kafka.client_settings import KafkaConfig
from wmtop.engine.kafka.cluster import Cluster, Ends, Positions, Topic, TopicPartition
from wmtop.engine.kafka.log_guard import LogGuard, LogState
from wmtop.engine.run.sources.kafka import Kafka
from wmtop.engine.run.sources.kafka_columns import KafkaColumns
from wmtop.engine.run.sources.kafka_progress import KafkaProgress, rewound

P, Q = TopicPartition("t", 0), TopicPartition("t", 1)


class Epochs:
    """A cluster that knows where epochs end, and counts how often it is asked."""

    def __init__(self, ends: dict[TopicPartition, dict[int, int]]) -> None:
        self._ends = ends
        self.asked = 0

    def epoch_ends(self, epochs: Positions) -> Positions:
        self.asked += 1
        return {p: self._ends[p][epoch] for p, epoch in epochs.items() if epoch in self._ends.get(p, {})}


def cuts(guard: LogGuard, state: LogState, read_to: int, ends: dict[int, int] | None = None) -> Positions:
    return guard.cuts(cast("Cluster", Epochs({P: ends or {}})), {P: state}, {P: read_to})


@pytest.fixture
def guard(tmp_path: Path) -> LogGuard:
    """One that knows partition 0 in epoch 4 of the topic `a`."""
    guard = LogGuard(lambda: tmp_path / "logs.json")
    assert not guard.resume()
    guard.accept({P: LogState("a", 4, 100)})
    return guard


@pytest.mark.parametrize(
    ("state", "read_to", "ends", "cut"),
    [
        (LogState("a", 4, 100), 100, {}, None),
        (LogState("a", 4, 900), 100, {}, None),
        (LogState("a", 5, 110), 100, {4: 100}, None),  # another leader, with all that was read
        (LogState("a", 5, 110), 100, {4: 60}, 60),  # written again beyond the position
        (LogState("a", 5, 60), 100, {4: 60}, 60),
        (LogState("a", 7, 50), 100, {4: 30}, 30),  # cut twice
        (LogState("a", 4, 60), 100, {4: 60}, 60),  # the broker's epoch did not change
        (LogState("a", 4, 60), 100, {4: 100}, None),  # an end that is not yet known again to a new leader
        (LogState("a", 5, 60), 100, {}, 60),  # it does not know the epoch: its end is all there is
        (LogState("a", 5, 110), 100, {}, None),
        (LogState("a", None, 60), 100, {}, 60),  # an old broker
        (LogState("a", None, 110), 100, {}, None),
        (LogState("b", 0, 900), 100, {4: 100}, 0),  # another topic of that name
        (LogState(None, 4, 100), 100, {}, None),
        (LogState("b", 0, 0), 0, {}, None),  # nothing was read
        (LogState("a", 5, 95), 30, {4: 90}, None),  # retention: the log begins after the position
    ],
)
def test_where_a_log_was_cut(
    guard: LogGuard, state: LogState, read_to: int, ends: dict[int, int], cut: int | None
) -> None:
    assert cuts(guard, state, read_to, ends) == ({} if cut is None else {P: cut})


def test_a_log_that_only_grew_is_not_asked_about(guard: LogGuard) -> None:
    cluster = Epochs({})
    assert guard.cuts(cast("Cluster", cluster), {P: LogState("a", 4, 900)}, {P: 100}) == {}
    assert cluster.asked == 0


@pytest.mark.parametrize(("epoch_ends_at", "changed"), [(100, True), (119, True), (120, False), (400, False)])
def test_a_batch_that_was_read_across_a_change_of_leader(guard: LogGuard, epoch_ends_at: int, changed: bool) -> None:
    """Its records beyond the end of the epoch may be those of the log before or after."""
    cluster: Any = Epochs({P: {4: epoch_ends_at}})
    found = guard.changed_during(cluster, {P: LogState("a", 5, 500)}, {P: 120})
    assert found == ({P} if changed else set())


def test_a_resumed_run_compares_with_what_it_read_before(guard: LogGuard, tmp_path: Path) -> None:
    guard.accept({Q: LogState("a", 9, 5)})
    again = LogGuard(lambda: tmp_path / "logs.json")
    assert again.resume()
    assert again.ids() == {"t": "a"}
    assert cuts(again, LogState("a", 5, 110), 100, {4: 60}) == {P: 60}
    again.accept({P: LogState("a", 5, 110)})
    assert cuts(again, LogState("a", 5, 110), 110) == {}
    (tmp_path / "logs.json").write_text("{")
    assert not LogGuard(lambda: tmp_path / "logs.json").resume()


def test_a_line_of_the_offset_log_gets_the_new_positions() -> None:
    assert rewound('{"t":{"1":7,"0":5}}', {P: 3, TopicPartition("u", 0): 1}) == '{"t":{"0":3,"1":7}}'
    assert rewound('{"t":{"1":7}}', {P: 3}) == '{"t":{"1":7}}'
    assert rewound('{"logOffset":4}', {P: 3}) == '{"logOffset":4}'


class Logs(Epochs):
    """A cluster with one partition, which has this state now."""

    def __init__(self, state: LogState, epoch_ends: dict[int, int]) -> None:
        super().__init__({P: epoch_ends})
        self._state = state
        self.looked = 0

    def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        self.looked += 1
        return {"t": Topic("t", self._state.topic_id, [P])}

    def ends(self, partitions: Iterable[TopicPartition]) -> Ends:
        return {P: (self._state.end, self._state.epoch)}


@pytest.mark.parametrize(
    ("polled", "now", "epoch_ends", "rewinds", "due", "looked"),
    [
        ((900, 4), LogState("a", 4, 900), {}, False, False, 0),  # it only grew
        ((110, 5), LogState("a", 5, 110), {4: 100}, False, False, 0),  # another leader, with all that was read
        ((60, 4), LogState("a", 4, 60), {4: 60}, False, True, 1),
        ((110, 5), LogState("a", 5, 110), {4: 60}, False, True, 1),
        ((60, 0), LogState("b", 0, 60), {}, False, True, 1),  # recreated since the topics were looked at
        ((60, 0), LogState("b", 0, 60), {}, True, False, 1),  # the same, of which the reader takes care
        ((90, None), LogState("a", None, 100), {}, False, False, 1),  # a batch was applied after the poll
    ],
)
def test_the_probe_looks_at_the_logs_again_only_where_its_poll_shows_a_cut(
    guard: LogGuard,
    polled: tuple[int, int | None],
    now: LogState,
    epoch_ends: dict[int, int],
    rewinds: bool,
    due: bool,
    looked: int,
) -> None:
    progress = KafkaProgress(["t"], print, print, channels_are_partitions=True, once=False, guard=guard)
    progress.reader_rewinds = rewinds
    progress.read_to = {P: 100}
    logs = Logs(now, epoch_ends)
    progress.compare(cast("Cluster", logs), {P: polled})
    assert (progress.is_rewind_due, logs.looked) == (due, looked)


def test_the_file_of_a_source_that_was_not_prepared_has_no_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    source = Kafka(KafkaConfig("localhost:1"), ["t"], KafkaColumns(), max_drift_ms=1_000, directory=None)
    assert list(tmp_path.iterdir()) == []
    source.close()
    assert list(tmp_path.iterdir()) == []
