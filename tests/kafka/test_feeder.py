"""The feeder: order, partitions and payload of what it sends, its pace, and how it ends."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from wmtop import sample_data
from wmtop.engine.kafka import feeder
from wmtop.engine.kafka.feeder import Feed, feed, feeder_command
from wmtop.engine.kafka.local_broker import LocalBroker
from wmtop.engine.system.errors import RunError, UsageError

from ..refusals import refused
from .processes import wait_until_gone
from .reading import read
from .records import CreateTopic

NOON = datetime(2013, 2, 8, 12, tzinfo=UTC)
COLUMNS = {"time": "at", "arrival": "came", "channel": "who"}


def event_file(path: Path, rows: list[tuple[int, int | None, str | None]]) -> Path:
    """Rows of event time and arrival in seconds after noon, and channel, numbered by `n`."""
    events = [NOON + timedelta(seconds=row[0]) for row in rows]
    arrivals = [None if row[1] is None else NOON + timedelta(seconds=row[1]) for row in rows]
    table = pa.table(
        {
            "at": pa.array(events, pa.timestamp("us")),
            "came": pa.array(arrivals, pa.timestamp("ns", "Europe/Paris")),
            "who": pa.array([row[2] for row in rows], pa.string()),
            "n": pa.array(range(len(rows)), pa.int16()),
        }
    )
    pq.write_table(table, path)
    return path


def feed_at_once(broker: LocalBroker, topic: str, file: Path, **changes: Any) -> int:
    """Feed without a pace."""
    report = changes.pop("report", print)
    return feed(Feed(bootstrap=broker.bootstrap, topic=topic, file=str(file), **{**COLUMNS, **changes}), report)


def numbers(records: list[Any]) -> list[int]:
    return [json.loads(record.value)["n"] for record in records]


def test_rows_are_sent_in_order_of_arrival_and_a_channel_stays_in_one_partition(
    broker: LocalBroker, tmp_path: Path
) -> None:
    rows: list[tuple[int, int | None, str | None]] = [
        (50, 90, "c"),
        (10, 30, "b"),
        (20, 30, "a"),  # arrived together with the one before
        (70, None, "a"),  # never arrived
        (40, 20, "d"),
        (0, 10, "a"),  # before the start
        (60, 95, None),
        (35, 95, "b"),
    ]
    said: list[str] = []
    start_ms = int(NOON.timestamp() * 1000) + 20_000
    file = event_file(tmp_path / "events.parquet", rows)
    before_ms = time.time_ns() // 1_000_000
    assert feed_at_once(broker, "ordered", file, partitions=3, start_ms=start_ms, report=said.append) == 6
    found = [read(broker, "ordered", partition) for partition in range(3)]
    assert list(map(numbers, found)) == [[4, 2, 6], [1, 7], [0]]  # a and d, b, c
    assert [record.key for record in found[0]] == [b"d", b"a", None]
    assert json.loads(found[0][0].value) == {
        "at": "2013-02-08T12:00:40Z",
        "came": "2013-02-08T12:00:20Z",
        "who": "d",
        "n": 4,
    }
    assert all(record.timestamp >= before_ms for part in found for record in part)  # retention goes by it
    assert [re.findall(r"\d+|ordered", line) for line in said] == [["6", "ordered"], ["6", "6"]]
    admin: Any = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    [topic] = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, "ordered")])["topic"].values()
    admin.close()
    assert topic["retention.ms"]["value"] == "-1"


def test_it_goes_on_in_a_topic_that_is_there_if_that_has_as_many_partitions(
    broker: LocalBroker, create_topic: CreateTopic, tmp_path: Path
) -> None:
    file = event_file(tmp_path / "events.parquet", [(0, 0, "a"), (1, 1, "b")])
    topic = create_topic(2)
    assert feed_at_once(broker, topic, file, partitions=2) == feed_at_once(broker, topic, file, partitions=2) == 2
    assert [numbers(read(broker, topic, partition)) for partition in range(2)] == [[0, 0], [1, 1]]
    with refused(UsageError, "other_partitions", topic):
        feed_at_once(broker, topic, file, partitions=3)


def feeding(broker: LocalBroker, topic: str, file: Path, speed: float) -> "subprocess.Popen[str]":
    """A feeder as a process."""
    job = Feed(bootstrap=broker.bootstrap, topic=topic, file=str(file), speed=speed, **COLUMNS)
    pipe = subprocess.PIPE
    return subprocess.Popen(feeder_command(job), stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_row_waits_until_it_is_due_and_no_longer_than_standard_input(
    broker: LocalBroker, topic: str, tmp_path: Path
) -> None:
    file = event_file(tmp_path / "events.parquet", [(0, 0, "a"), (0, 3_600, "a"), (0, 7_200, "a"), (0, 10**7, "a")])
    process = feeding(broker, topic, file, speed=72_000)  # an hour is 50 ms, the last row 138 s
    wait_for(lambda: len(read(broker, topic)) == 3)
    assert process.poll() is None
    assert process.communicate("", timeout=60)[1] == ""
    assert process.returncode == 0
    assert numbers(read(broker, topic)) == [0, 1, 2]


def test_a_restart_of_the_broker_loses_nothing_and_repeats_nothing(
    broker: LocalBroker, topic: str, tmp_path: Path
) -> None:
    count = 400
    file = event_file(tmp_path / "events.parquet", [(n, n, "a") for n in range(count)])
    process = feeding(broker, topic, file, speed=100)
    wait_for(lambda: len(read(broker, topic)) > 20)
    address, pid = broker.bootstrap, broker.pid
    broker.restart()
    assert broker.bootstrap == address
    assert broker.pid not in (None, pid)
    wait_until_gone(pid)
    assert process.wait(60) == 0
    assert process.stdout is not None
    assert re.findall(r"\d+", process.stdout.read().splitlines()[-1]) == [f"{count}", f"{count}"]
    assert numbers(read(broker, topic)) == list(range(count))


def test_it_stops_although_the_broker_hangs(broker: LocalBroker, topic: str, tmp_path: Path) -> None:
    file = event_file(tmp_path / "events.parquet", [(n, n, "a") for n in range(1_000)])
    process = feeding(broker, topic, file, speed=50)
    wait_for(lambda: len(read(broker, topic)) > 5)
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        time.sleep(0.2)  # ten more are sent, which nobody acknowledges
        process.communicate("", timeout=10)
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    assert process.returncode == 0


def test_a_broker_that_refuses_records_is_one_line(
    broker: LocalBroker, create_topic: CreateTopic, tmp_path: Path
) -> None:
    file = event_file(tmp_path / "events.parquet", [(0, 0, "a")])
    with refused(RunError, "not_sent", broker.bootstrap):
        feed_at_once(broker, create_topic(1, {"max.message.bytes": "90"}), file)


def test_unusable_input_is_one_line(broker: LocalBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = event_file(tmp_path / "events.parquet", [(0, 0, "a")])
    (tmp_path / "text").write_text("at,came\n1,2\n")
    monkeypatch.setitem(feeder._CLIENT, "bootstrap_timeout_ms", 300)
    for wrong, code in (
        (lambda: feed_at_once(broker, "t", tmp_path / "nothing"), "no_parquet"),
        (lambda: feed_at_once(broker, "t", tmp_path / "text"), "no_parquet"),
        (lambda: feed_at_once(LocalBroker(tmp_path), "t", file), "no_broker"),
    ):
        with refused(UsageError, code):
            wrong()


def start(broker: LocalBroker, topic: str, file: Path) -> "subprocess.Popen[str]":
    start_ms = int(datetime.fromisoformat(sample_data.DEMO_START).timestamp() * 1000)
    job = Feed(
        bootstrap=broker.bootstrap,
        topic=topic,
        file=str(file),
        time=sample_data.TIME,
        arrival=sample_data.ARRIVAL,
        channel=sample_data.CHANNEL,
        partitions=4,
        speed=600,
        start_ms=start_ms,
    )
    pipe = subprocess.PIPE
    return subprocess.Popen(feeder_command(job), stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_as_a_process_it_replays_the_flights_and_ends_with_its_parent(broker: LocalBroker) -> None:
    process = start(broker, "flights", sample_data.flights())
    assert process.stdout is not None
    assert {"158,919", "flights"} <= set(process.stdout.readline().split())
    wait_for(lambda: sum(len(read(broker, "flights", partition)) for partition in range(4)) > 10)
    _, errors = process.communicate("")  # closes its standard input
    assert (process.returncode, errors) == (0, "")
    records = [read(broker, "flights", partition) for partition in range(4)]
    flights = [[json.loads(record.value) for record in part] for part in records]
    carriers = [{flight["carrier"] for flight in part} for part in flights]
    assert sum(map(len, carriers)) == len(set().union(*carriers))
    arrivals = [[flight["departed"] for flight in part] for part in flights]
    assert min(map(min, arrivals)) >= sample_data.DEMO_START
    assert arrivals == [sorted(part) for part in arrivals]


def test_as_a_process_it_fails_with_one_line(broker: LocalBroker, tmp_path: Path) -> None:
    process = start(broker, "flights", tmp_path / "nothing")
    assert process.wait(60) == 2
    assert process.stderr is not None
    errors = process.stderr.read()
    assert errors.startswith("wmtop: ")
    assert errors.count("\n") == 1


def test_records_of_a_held_partition_wait_in_their_order_until_it_is_released(
    broker: LocalBroker, create_topic: CreateTopic, tmp_path: Path
) -> None:
    name = create_topic(2)
    file = event_file(tmp_path / "events.parquet", [(n, n, "ab"[n % 2]) for n in range(8)])
    job = Feed(
        bootstrap=broker.bootstrap, topic=name, file=str(file), partitions=2, speed=2.0,
        time="at", arrival="came", channel="who",
    )  # fmt: skip
    process = subprocess.Popen(feeder_command(job), stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(b"hold 1\n")
    process.stdin.flush()
    while len(read(broker, name, 0)) < 3:  # n = 4 is there, so b's 1 and 3 were due before
        time.sleep(0.05)
    held = numbers(read(broker, name, 1))
    process.stdin.write(b"release 1\n")
    process.stdin.flush()
    assert process.wait(30) == 0
    process.stdin.close()
    assert held in ([], [1])  # it may have been sent before the command was read
    assert [numbers(read(broker, name, partition)) for partition in (0, 1)] == [[0, 2, 4, 6], [1, 3, 5, 7]]
