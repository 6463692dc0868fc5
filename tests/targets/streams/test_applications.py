"""Real applications: what they emit is the truth of which windows wait, and for which record."""

import os
import random
import subprocess
import time
from collections import defaultdict
from pathlib import Path

import pytest
from wmtop.engine.doctor.kinds.kafka_streams_words import producer_line
from wmtop.engine.doctor.rules import diagnose
from wmtop.engine.snapshot import KafkaStreams, Snapshot
from wmtop.engine.verdict.verdict import SnapshotJudge

from .applications import BASE_MS, GRACE_MS, WINDOW_MS, WITHIN_S, Cluster, Emitted, Record, clock_of, console_producer
from .conftest import StartApplication

matrix = pytest.mark.matrix
CASES = [
    pytest.param({"mode": "suppress"}, 2, id="two topics in a task"),
    pytest.param({"mode": "suppress", "version": "3.9.1"}, 1, id="an older release", marks=matrix),
    pytest.param({"mode": "suppress", "version": "3.2.3"}, 1, id="the oldest release", marks=matrix),
    pytest.param({"mode": "suppress", "guarantee": "exactly_once_v2"}, 1, id="exactly once", marks=matrix),
    pytest.param({"mode": "suppress", "protocol": "streams"}, 2, id="the new protocol", marks=matrix),
    pytest.param({"mode": "repartition"}, 1, id="repartition", marks=matrix),
    pytest.param({"mode": "repartition", "protocol": "streams"}, 1, id="repartition, new protocol", marks=matrix),
    pytest.param(
        {"mode": "repartition", "guarantee": "exactly_once_v2"}, 1, id="repartition, exactly once", marks=matrix
    ),
]
PARTITIONS = 3


def random_records(topics: list[str], seed: int) -> list[Record]:
    """Records out of order over some windows; the partitions are apart in time, and the last one is silent."""
    r = random.Random(seed)
    return [
        Record(topic, number, BASE_MS + number * 7_000 + step * 900 + r.randint(-4_000, 4_000), f"k{number}")
        for step in range(60)
        for topic in topics
        for number in range(PARTITIONS - 1)
    ]


@pytest.mark.parametrize(("options", "topics"), CASES)
def test_emitted_and_waiting_windows_are_those_of_the_application(
    cluster: Cluster, start: StartApplication, options: dict[str, str], topics: int
) -> None:
    inputs = [cluster.topic(PARTITIONS) for _ in range(topics)]
    sent = random_records(inputs, topics)
    cluster.send(*sent)
    app = start(inputs, **options)
    seen = app.all_read(*sent)
    assert isinstance(seen.target, KafkaStreams)
    assert seen.level.watermark_ms is None
    assert seen.target.streams.protocol == options.get("protocol", "classic")
    assert (seen.target.streams.state, seen.target.streams.members) == ("Stable", 1)
    assert seen.target.streams.suppress is True

    where = _channels_of_windows(cluster, app.id, seen, sent)
    emitted = defaultdict[str, set[int]](set)
    for window in cluster.emitted(app.out):
        emitted[where[window.key]].add(window.end_ms)
    for one in seen.clocks if options["mode"] == "suppress" else ():
        own = [record.time_ms for record in sent if f"{record.topic}-{record.partition}" in one.channels]
        assert one.time_ms == max(own, default=None)
    for channel in set(where.values()):
        clock = clock_of(seen, channel)
        assert clock.has_windows
        assert clock.emitted_to_ms is not None
        assert emitted[channel], "nothing was emitted: the test shows nothing"
        assert max(emitted[channel]) <= clock.emitted_to_ms < max(emitted[channel]) + WINDOW_MS
        assert clock.waiting is not None
        assert clock.waiting.end_ms == max(emitted[channel]) + WINDOW_MS

    # The record that is said to free the first waiting window frees it, and one a millisecond earlier does not.
    for key, channel in where.items():
        clock = clock_of(seen, channel)
        assert clock.waiting is not None
        window = Emitted(key, clock.waiting.end_ms)
        topic, number = next((record.topic, record.partition) for record in sent if record.key == key)
        records = [
            Record(topic, number, clock.waiting.end_ms - 1, key),  # so that the window has one
            Record(topic, number, max(clock.waiting.frees_ms - 1, clock.time_ms or 0), key),
            Record(topic, number, clock.waiting.frees_ms, key),
        ]
        is_before = records[1].time_ms < clock.waiting.frees_ms
        cluster.send(*records[:2])
        app.all_read(*sent)
        assert (window not in cluster.emitted(app.out)) is is_before
        cluster.send(records[2])
        seen = app.all_read(*sent)
        assert window in cluster.emitted(app.out)
        after = clock_of(seen, channel)
        assert (after.emitted_to_ms or 0) >= window.end_ms

    # Records of windows that have come out are dropped: no window comes out again.
    late = [Record(topic, number, BASE_MS, f"k{number}") for topic in inputs for number in range(PARTITIONS - 1)]
    cluster.send(*late)
    app.all_read(*sent)
    emitted_in_all = cluster.emitted(app.out)
    assert len(emitted_in_all) == len(set(emitted_in_all))
    default_ms = 100 if options.get("guarantee") == "exactly_once_v2" else 30_000
    assert f"default commit.interval.ms {default_ms}" in app.printed


def _channels_of_windows(cluster: Cluster, app: str, seen: Snapshot, sent: list[Record]) -> dict[str, str]:
    """The partition whose task has the windows of a key: behind a repartition as its topic shows."""
    internal = [view.channel for view in seen.channels if view.channel.startswith(app)]
    if not internal:
        assert [clock.task for clock in seen.clocks] == [f"0_{number}" for number in range(PARTITIONS)]
        return {record.key: f"{record.topic}-{record.partition}" for record in sent}
    assert [clock.task for clock in seen.clocks] == [f"{part}_{n}" for part in (0, 1) for n in range(PARTITIONS)]
    assert [clock.downstream for clock in seen.clocks] == [False] * PARTITIONS + [True] * PARTITIONS
    topic = internal[0].rpartition("-")[0]
    found = {key: f"{topic}-{number}" for number, key in cluster.read(topic) if not key.startswith("#")}
    assert found.keys() == {record.key for record in sent}
    return found


@matrix
def test_windows_emitted_on_close_are_those_that_commits_name(cluster: Cluster, start: StartApplication) -> None:
    topic = cluster.topic(1)
    app = start([topic], mode="onclose")
    for second in range(0, 40, 4):
        record = Record(topic, 0, BASE_MS + second * 1_000, "k")
        cluster.send(record)
        seen = app.all_read(record)
    assert isinstance(seen.target, KafkaStreams)
    (clock,) = seen.clocks
    assert (clock.task, clock.time_ms, clock.has_windows) == ("0_0", BASE_MS + 36_000, True)
    assert seen.target.streams.stores
    emitted = {window.end_ms for window in cluster.emitted(app.out)}
    assert clock.emitted_to_ms is not None
    assert emitted == {BASE_MS + end for end in (10_000, 20_000, 30_000) if BASE_MS + end <= clock.emitted_to_ms}


@matrix
def test_a_stateless_application_has_clocks_without_windows(cluster: Cluster, start: StartApplication) -> None:
    topic = cluster.topic(2)
    app = start([topic], mode="stateless")
    sent = [Record(topic, 0, BASE_MS + 9_000, "k"), Record(topic, 0, BASE_MS, "k")]
    cluster.send(*sent)
    seen = app.all_read(*sent)
    assert isinstance(seen.target, KafkaStreams)
    assert [(clock.time_ms, clock.downstream) for clock in seen.clocks] == [(BASE_MS + 9_000, False), (None, False)]
    assert (seen.target.streams.suppress, seen.target.streams.stores) == (None, [])


@matrix
def test_unread_records_of_a_stopped_application_are_backlog_not_quiet(
    cluster: Cluster, start: StartApplication
) -> None:
    topic = cluster.topic(2)
    app = start([topic], mode="suppress")
    first = [Record(topic, number, BASE_MS + 5_000, "k") for number in (0, 1)]
    cluster.send(*first)
    app.all_read(*first)
    app.stop()
    app.judge = SnapshotJudge(verdict_after_ms=3_000)
    cluster.send(Record(topic, 1, BASE_MS + 25_000, "k"))
    seen = app.until(lambda seen: seen.channels[1].backlog and seen.verdict.verdict == "stalled")
    quiet, unread = seen.channels
    assert (quiet.backlog, unread.backlog, unread.quiet_ms) == (0, 1, None)
    assert unread.watermark_ms == BASE_MS + 5_000
    assert unread.behind_end_ms == 20_000  # the application uses the record's timestamp, as its stream time shows
    assert clock_of(seen, unread.channel).task == "0_1"
    app.start()
    seen = app.until(lambda seen: seen.channels[1].watermark_ms == BASE_MS + 25_000)
    assert clock_of(seen, unread.channel).verdict == "moving"


@pytest.mark.parametrize("protocol", ["classic", "streams"])
@matrix
def test_an_application_is_recognised_before_its_first_commit(
    cluster: Cluster, start: StartApplication, protocol: str
) -> None:
    topic = cluster.topic(2)
    app = start([topic], mode="suppress", **({} if protocol == "classic" else {"protocol": protocol}))
    seen = app.until(lambda seen: len(seen.channels) == 2)
    assert isinstance(seen.target, KafkaStreams)
    assert seen.target.streams.protocol == protocol
    assert [(clock.task, clock.time_ms) for clock in seen.clocks] == [("0_0", None), ("0_1", None)]
    assert [view.backlog for view in seen.channels] == [0, 0]
    cluster.send(Record(topic, 1, BASE_MS, "k"))
    app.until(lambda seen: seen.clocks[1].time_ms == BASE_MS)


@pytest.mark.parametrize("protocol", ["classic", "streams"])
@matrix
def test_a_window_that_comes_out_twice_after_a_restart_is_found(
    cluster: Cluster, start: StartApplication, protocol: str
) -> None:
    topic, now_ms = cluster.topic(1), time.time_ns() // 1_000_000
    begin = now_ms - now_ms % WINDOW_MS - 60_000  # old records would expire in the application's own topics
    app = start([topic], mode="suppress", **({} if protocol == "classic" else {"protocol": protocol}))
    sent = Record(topic, 0, begin + 30_000, "k")
    cluster.send(Record(topic, 0, begin, "k"), sent)
    app.all_read(sent)
    first = Emitted("k", begin + WINDOW_MS)
    assert cluster.emitted(app.out) == [first]
    app.stop()
    app.start()
    cluster.send(Record(topic, 0, begin + 1_000, "k"))
    seen = app.until(lambda seen: seen.clocks[0].reprocessed)
    [finding] = [finding for finding in diagnose(seen, []) if finding.code == "reemitted-windows"]
    assert (finding.severity, finding.channels) == ("warning", (f"{topic}-0",))
    cluster.send(Record(topic, 0, begin + 31_000, "k"))
    seen = app.until(lambda seen: seen.clocks[0].time_ms == begin + 31_000)
    assert cluster.emitted(app.out) == [first, first]
    [finding] = [finding for finding in diagnose(seen, []) if finding.code == "reemitted-windows"]

    # A restart after which only newer records come brings nothing out again.
    app.stop()
    app.start()
    reported = seen.clocks[0].reprocessed
    cluster.send(Record(topic, 0, begin + 32_000, "k"))
    seen = app.until(lambda seen: seen.clocks[0].time_ms == begin + 32_000)
    assert seen.clocks[0].reprocessed == reported
    assert cluster.emitted(app.out) == [first, first]


@matrix
def test_the_offered_command_frees_the_window(
    cluster: Cluster, start: StartApplication, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a person would run it, with Kafka's own producer: its record is of now."""
    topic = cluster.topic(1)
    sent = Record(topic, 0, BASE_MS, "k")
    cluster.send(sent)
    app = start([topic], mode="suppress")
    seen = app.all_read(sent)
    assert cluster.emitted(app.out) == []
    line = producer_line(seen, seen.clocks[0])
    assert line is not None
    console_producer(tmp_path / "kafka-console-producer")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    subprocess.run(["bash", "-c", line.replace("KEY|VALUE", "k|k")], check=True, timeout=WITHIN_S)
    seen = app.until(lambda seen: seen.clocks[0].time_ms != BASE_MS and cluster.emitted(app.out))
    first = Emitted("k", BASE_MS + WINDOW_MS)
    assert cluster.emitted(app.out) == [first]

    # That record is counted like any other: its own window comes out, too, once its time has come.
    now_ms = seen.clocks[0].time_ms
    assert now_ms is not None
    own = Emitted("k", now_ms - now_ms % WINDOW_MS + WINDOW_MS)
    cluster.send(Record(topic, 0, own.end_ms + GRACE_MS, "k"))
    app.until(lambda seen: len(cluster.emitted(app.out)) > 1)
    assert cluster.emitted(app.out) == [first, own]

    # A record of a window that has come out is dropped, and the application's own metric counts it.
    cluster.send(Record(topic, 0, BASE_MS, "k"))
    app.all_read(sent)
    app.stop()
    assert cluster.emitted(app.out) == [first, own]
    assert "dropped-records-total 1" in app.printed


@matrix
def test_hopping_windows_wait_as_said_but_those_between_the_named_ones_are_freed_earlier(
    cluster: Cluster, start: StartApplication
) -> None:
    """As docs/kafka-streams.md says: windows are taken as tumbling."""
    topic = cluster.topic(1)
    app = start([topic], mode="suppress", advance=WINDOW_MS // 2)
    first, between, named = BASE_MS + 3_000, BASE_MS + 7_000, BASE_MS + 12_000
    for time_ms in (first, between, named):
        record = Record(topic, 0, time_ms, "k")
        cluster.send(record)
        seen = app.all_read(record)
        (clock,) = seen.clocks
        emitted = {window.end_ms for window in cluster.emitted(app.out)}
        assert clock.waiting is not None
        if time_ms < named:
            assert (clock.waiting.end_ms, clock.waiting.frees_ms) == (BASE_MS + 10_000, named)
        assert emitted == {BASE_MS + end for end in (5_000, 10_000) if BASE_MS + end + 2_000 <= time_ms}
        assert clock.waiting.end_ms not in emitted


@matrix
def test_a_partition_that_never_had_a_record_is_no_reason_to_know_nothing_of_the_application(
    cluster: Cluster, start: StartApplication
) -> None:
    topic = cluster.topic(2)
    app = start([topic], mode="suppress")
    app.judge = SnapshotJudge(verdict_after_ms=3_000)
    sent = Record(topic, 0, BASE_MS + 5_000, "k")
    cluster.send(sent)
    app.all_read(sent)
    seen = app.until(lambda seen: all(clock.verdict == "waiting" for clock in seen.clocks))
    stuck, empty = seen.clocks
    assert (stuck.time_ms, stuck.has_windows) == (BASE_MS + 5_000, True)
    assert (empty.time_ms, empty.has_windows, empty.waiting) == (None, False, None)
    assert seen.verdict.reason.channels == stuck.channels
    findings = diagnose(seen, [])
    assert {channel for finding in findings for channel in finding.channels} == {*stuck.channels}


@matrix
def test_an_application_that_is_slower_than_its_input_is_slow(cluster: Cluster, start: StartApplication) -> None:
    topic = cluster.topic(1)
    app = start([topic], mode="suppress", delay=400)
    app.judge = SnapshotJudge(verdict_after_ms=5_000)

    def is_slow(seen: Snapshot) -> bool:
        cluster.send(Record(topic, 0, time.time_ns() // 1_000_000, "k"))
        return seen.verdict.verdict == "slow"

    cluster.send(Record(topic, 0, time.time_ns() // 1_000_000, "k"))
    seen = app.until(is_slow)
    (clock,) = seen.clocks
    assert (clock.verdict, clock.reason.code, clock.reason.channels) == ("slow", "losing_ground", clock.channels)
    assert seen.channels[0].backlog
    [finding] = [finding for finding in diagnose(seen, []) if finding.code == "stream-time-slow"]
    assert "processes more slowly than records come" in (finding.cause or "")
