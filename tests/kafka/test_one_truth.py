"""The invariants of semantics 11.1 on a topic, a consumer group and an own run of a real broker, look by look."""

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from queue import Queue
from typing import Any

import pytest
from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from wmtop.engine.doctor import diagnose
from wmtop.engine.feed import run_directory
from wmtop.engine.kafka.client_settings import KafkaConfig
from wmtop.engine.kafka.local_broker import LocalBroker
from wmtop.engine.snapshot import Snapshot
from wmtop.engine.targets.fleet import Watcher
from wmtop.engine.targets.target import Follower, TargetOptions
from wmtop.engine.targets.topic.consumer import TopicWatch
from wmtop.tui.cli.fleet import FleetRows, watcher_of
from wmtop.tui.cli.targets import members

from tests.one_truth import check_all

from ..conftest import QUICK_OPTIONS
from .records import CreateTopic, Produce, Record

PATIENCE_MS = 1_500
LOOK_S = 0.25
WITHIN_S = 60.0


def record(partition: int, behind_ms: int = 0) -> Record:
    now = time.time_ns() // 1_000_000
    return Record(json.dumps({"ts": now - behind_ms}).encode(), partition, now - behind_ms)


def until(
    follower: Follower[Any], poll: Callable[[], Any], wanted: set[str], feed: Callable[[], object] = lambda: None
) -> Iterator[Snapshot]:
    """Looks until the verdict is one of the wanted ones."""
    deadline = time.monotonic() + WITHIN_S
    while True:
        feed()
        snapshot = follower.snapshot(poll())
        yield snapshot
        if snapshot.verdict.verdict in wanted:
            return
        assert time.monotonic() < deadline, snapshot.verdict
        time.sleep(LOOK_S)


def followed(
    broker: LocalBroker, topic: str, *, time: str | None = None, group: str | None = None
) -> tuple[Follower[Any], TopicWatch]:
    options = TargetOptions(time=time, group=group, idle_after=-1)
    watch = TopicWatch(KafkaConfig(broker.bootstrap), topic, options)
    watch.open()
    return Follower(watch, "t", PATIENCE_MS), watch


def test_a_topic_whose_partitions_stop_one_after_the_other(
    broker: LocalBroker, create_topic: CreateTopic, produce: Produce
) -> None:
    topic = create_topic(2)
    produce(topic, [record(0), record(1)])
    follower, watch = followed(broker, topic, time="ts")

    def looks() -> Iterator[Snapshot]:
        yield from until(follower, watch.poll, {"moving"}, lambda: produce(topic, [record(0), record(1)]))
        yield from until(follower, watch.poll, {"stalled"}, lambda: produce(topic, [record(0)]))
        yield from until(follower, watch.poll, {"moving"}, lambda: produce(topic, [record(0), record(1)]))
        yield from until(follower, watch.poll, {"waiting", "stalled"})

    seen = check_all(looks())
    watch.close()
    assert {"moving", "stalled"} <= set(seen)


@pytest.mark.parametrize("timed", [True, False])
def test_a_group_that_falls_silent_with_unread_records(
    broker: LocalBroker, create_topic: CreateTopic, produce: Produce, *, timed: bool
) -> None:
    topic = create_topic(2)
    produce(topic, [record(partition, 60_000) for partition in (0, 1) for _ in range(50)])
    consumer: Any = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=f"g-{topic}", enable_auto_commit=False)
    consumer.assign([TopicPartition(topic, partition) for partition in (0, 1)])
    at = Counter[int]()

    def commit(*partitions: int) -> None:
        at.update(partitions)
        produce(topic, [record(partition) for partition in partitions])
        consumer.commit(
            {TopicPartition(topic, one): OffsetAndMetadata(at[one], "", -1) for one in partitions}
        )  # fmt: skip

    commit(0, 1)
    follower, watch = followed(broker, topic, time="ts" if timed else None, group=f"g-{topic}")

    def looks() -> Iterator[Snapshot]:
        for _ in range(6):
            commit(0, 1)
            yield follower.snapshot(watch.poll())
        yield from until(follower, watch.poll, {"stalled", "waiting"}, lambda: commit(0))
        for _ in range(12):
            time.sleep(LOOK_S)
            yield follower.snapshot(watch.poll())

    seen = check_all(looks())
    watch.close()
    consumer.close(autocommit=False)
    assert sum(seen.values()) > 12
    assert "stalled" in seen or not timed, seen


def test_a_group_that_has_read_nothing_from_a_partition_with_records(
    broker: LocalBroker, create_topic: CreateTopic, produce: Produce
) -> None:
    topic = create_topic(2)
    produce(topic, [record(1)] * 5)
    consumer: Any = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=f"g-{topic}", enable_auto_commit=False)
    consumer.assign([TopicPartition(topic, partition) for partition in (0, 1)])
    at = Counter[int]()

    def commit(read: int) -> None:
        at[0] += 1
        produce(topic, [record(0)])
        positions = {0: at[0], 1: read}
        consumer.commit({TopicPartition(topic, p): OffsetAndMetadata(end, "", -1) for p, end in positions.items()})

    commit(0)
    follower, watch = followed(broker, topic, group=f"g-{topic}")
    seen = check_all(until(follower, watch.poll, {"stalled"}, lambda: commit(0)))
    assert set(seen) == {"unknown", "stalled"}
    assert follower.last is not None
    assert [finding.code for finding in diagnose(follower.last, [])] == ["partitions-not-read"]
    assert set(check_all(until(follower, watch.poll, {"moving"}, lambda: commit(5)))) >= {"moving"}
    watch.close()
    consumer.close(autocommit=False)


@pytest.fixture
def run_dir(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="wm", dir="/tmp") as directory:
        monkeypatch.setenv(run_directory.RUN_DIR_VARIABLE, directory)
        yield


@contextmanager
def own_run(broker: LocalBroker, topic: str) -> Generator["subprocess.Popen[bytes]"]:
    command = f"run kafka {broker.bootstrap} {topic} --time ts --name own --lateness 1s --idle-after off --headless"
    options = [*command.split(), "--verdict-after", f"{PATIENCE_MS}ms", *QUICK_OPTIONS]
    quiet = subprocess.DEVNULL
    with subprocess.Popen([sys.executable, "-m", "wmtop.tui.cli", *options], stdout=quiet, stderr=quiet) as process:
        try:
            yield process
        finally:
            process.terminate()


def watched(watcher: Watcher, process: "subprocess.Popen[bytes]") -> "Queue[Snapshot]":
    """The snapshots that the fleet takes of the run from now on."""
    deadline, snapshots = time.monotonic() + 2 * WITHIN_S, Queue[Snapshot]()
    while (watch := watcher.watch("own")) is None or watch.status.snapshot is None:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(LOOK_S)
    watch.listen(lambda message: snapshots.put(message) if isinstance(message, Snapshot) else None)
    return snapshots


@pytest.mark.usefixtures("run_dir")
def test_an_own_run_and_the_fleet_that_watches_it(
    broker: LocalBroker, create_topic: CreateTopic, produce: Produce
) -> None:
    topic = create_topic(2)
    produce(topic, [record(0), record(1)])
    watcher, deadline = watcher_of(members, LOOK_S), time.monotonic() + 3 * WITHIN_S
    rows = FleetRows(watcher)
    with own_run(broker, topic) as process:
        watcher.start()
        snapshots = watched(watcher, process)

        def until(wanted: set[str], *partitions: int) -> Iterator[Snapshot]:
            while True:
                produce(topic, [record(partition) for partition in partitions])
                snapshot = snapshots.get(timeout=WITHIN_S)
                [row] = rows.rows()
                yield snapshot
                if row.verdict in wanted and row.verdict == snapshot.verdict.verdict:
                    return
                assert time.monotonic() < deadline, snapshot.verdict

        def looks() -> Iterator[Snapshot]:
            yield from until({"moving"}, 0, 1)
            yield from until({"stalled"}, 0)
            yield from until({"moving"}, 0, 1)
            yield from until({"waiting", "stalled"})

        seen = check_all(looks())
        watcher.stop()
    assert {"moving", "stalled"} <= set(seen)
