"""`wmtop attach kafka://…` on a real broker: what a look says of partitions and of a group, and what it cannot."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from wmtop.engine.feed import run_directory
from wmtop.engine.feed.client import request
from wmtop.engine.feed.messages import Change, Stop
from wmtop.engine.kafka.client_settings import KafkaConfig
from wmtop.engine.kafka.local_broker import LocalBroker
from wmtop.engine.snapshot import ChannelView, Snapshot
from wmtop.engine.system.errors import UsageError
from wmtop.engine.targets.target import TargetOptions
from wmtop.engine.targets.topic.consumer import COMMITTED_WITHIN_MS, TopicWatch
from wmtop.engine.targets.watch_engine import NOT_FROM_HERE
from wmtop.tui import cli

from ..refusals import refused
from .records import CreateTopic, Produce, Record, Transact

COMMAND = [sys.executable, "-m", "wmtop.tui.cli", "attach"]
WITHIN_S = 60.0
HOUR = 3_600_000


@pytest.fixture(autouse=True)
def own_run_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(run_directory.RUN_DIR_VARIABLE, str(Path("/tmp", f"wmtop-test-{os.getpid()}")))


class Ended(NamedTuple):
    """How a command has ended."""

    returncode: object
    stdout: str
    stderr: str


@pytest.fixture
def wmtop(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Runs `wmtop attach` in this process."""

    def run(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["wmtop", "attach", *arguments])
        before = os.dup(2)  # an engine sends it to its log
        try:
            with pytest.raises(SystemExit) as ended:
                cli.main()
        finally:
            os.dup2(before, 2)
            os.close(before)
        return Ended(ended.value.code, *capfd.readouterr())

    return run


@pytest.fixture
def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
def commit(broker: LocalBroker) -> Iterator[Callable[..., None]]:
    """Commits offsets of a group, by partition, as its consumers do."""
    consumers: list[Any] = []

    def run(group: str, topic: str, offsets: dict[int, int]) -> None:
        consumer: Any = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=group, enable_auto_commit=False)
        consumers.append(consumer)
        consumer.assign([TopicPartition(topic, partition) for partition in offsets])
        consumer.commit({TopicPartition(topic, p): OffsetAndMetadata(at, "", -1) for p, at in offsets.items()})

    yield run
    for consumer in consumers:
        consumer.close(autocommit=False)


class Look:
    """A watch in this process, and its pictures."""

    def __init__(
        self, broker: LocalBroker, topic: str, *, path: str | None = None, group: str | None = None,
        lateness_ms: int = 0, idle_after_ms: int | None = None,
    ) -> None:  # fmt: skip
        idle_after = -1 if idle_after_ms is None else idle_after_ms
        options = TargetOptions(time=path, group=group, lateness=lateness_ms, idle_after=idle_after)
        self.watch = TopicWatch(KafkaConfig(broker.bootstrap), topic, options)
        self.watch.open()

    def picture(self, now_ms: int | None = None) -> Snapshot:
        return self.watch.picture(
            "q", self.watch.poll(), time.time_ns() // 1_000_000 if now_ms is None else now_ms
        ).snapshot

    def until(self, wanted: Callable[[Snapshot], Any]) -> Snapshot:
        deadline = time.monotonic() + WITHIN_S
        while not wanted(picture := self.picture()):
            assert time.monotonic() < deadline, picture
            time.sleep(0.1)
        return picture


@pytest.fixture
def look(broker: LocalBroker) -> Iterator[Callable[..., Look]]:
    made: list[Look] = []

    def make(topic: str, **more: Any) -> Look:
        made.append(Look(broker, topic, **more))
        return made[-1]

    yield make
    for one in made:
        one.watch.close()


def channels(picture: Snapshot) -> dict[str, ChannelView]:
    return {view.channel: view for view in picture.channels}


def test_a_topic_s_partitions_are_at_their_greatest_timestamps(
    create_topic: CreateTopic, produce: Produce, look: Callable[..., Look], now_ms: int
) -> None:
    topic = create_topic(3)
    stamps = {0: (9_000, 5_000), 1: (60_000, 61_000)}
    produce(topic, [Record(partition=p, timestamp_ms=now_ms - ago) for p, agos in stamps.items() for ago in agos])
    picture = look(topic, lateness_ms=1_000).picture()
    seen = channels(picture)
    assert [(v.channel, v.max_event_ms, v.state) for v in picture.channels] == [
        ("0", now_ms - 5_000, "active"),
        ("1", now_ms - 60_000, "active"),
        ("2", None, "never_seen"),
    ]
    assert picture.level.watermark_ms == seen["1"].watermark_ms == now_ms - 60_000 - 1_000 - 1
    assert picture.level.behind_fastest_ms == 55_000
    assert picture.level.holder is not None
    assert picture.level.holder.channel == "1"
    assert seen["1"].quiet_ms is not None
    assert seen["1"].quiet_ms >= 60_000  # since its last record came, not since we look
    assert [(note.code, note.args) for note in picture.notes] == [
        ("partitions_unseen", {"partitions": 1, "partition": 2})
    ]
    assert [source.backlog for source in picture.sources or []] == [None]
    assert {view.backlog for view in picture.channels} == {None}


def test_a_partition_whose_records_have_no_event_time_is_not_called_empty(
    create_topic: CreateTopic, produce: Produce, look: Callable[..., Look]
) -> None:
    topic = create_topic(3)
    produce(topic, [Record(b'{"at": 1700000000000}'), Record(b'{"at": null}', 1), Record(None, 1, key=b"k")])
    assert [(note.code, note.args) for note in look(topic, path="at").picture().notes] == [
        ("partitions_unseen", {"partitions": 2, "partition": 1, "records": 2})
    ]


def test_times_in_records_that_are_not_json_are_refused(
    create_topic: CreateTopic, produce: Produce, look: Callable[..., Look]
) -> None:
    topic = create_topic()
    produce(topic, [Record(b"\0\0\0\0\7\6abc"), Record(None, key=b"k")])
    with pytest.raises(UsageError, match="none of the last 1 records is JSON; leave out --time"):
        look(topic, path="at")


def test_what_a_look_cannot_know_is_null(
    create_topic: CreateTopic, produce: Produce, look: Callable[..., Look]
) -> None:
    topic = create_topic()
    produce(topic, [Record()])
    picture = look(topic).picture()
    totals, windows = picture.totals, picture.windows
    assert {totals.records, totals.late, totals.behind_watermark, totals.malformed} == {None}
    assert (windows.open, windows.open_count, windows.fired, windows.late_firings) == ([], None, None, None)
    assert (picture.whatif, picture.whatif_idle, picture.batch, picture.settings.window) == (None, None, None, None)
    assert {(view.records, view.late, view.longest_quiet_ms) for view in picture.channels} == {(None, None, None)}


def test_a_group_is_where_it_has_committed(
    create_topic: CreateTopic, produce: Produce, commit: Callable[..., None], look: Callable[..., Look], now_ms: int
) -> None:
    topic = create_topic(3)
    produce(topic, [Record(partition=p, timestamp_ms=now_ms - 10_000 + 1_000 * n) for p in (0, 1, 2) for n in range(9)])
    commit("readers", topic, {0: 4, 1: 9})
    it = look(topic, group="readers")
    picture = it.picture()
    seen = channels(picture)
    assert (seen["0"].max_event_ms, seen["0"].backlog, seen["0"].behind_end_ms) == (now_ms - 7_000, 5, 5_000)
    assert (seen["1"].max_event_ms, seen["1"].backlog, seen["1"].behind_end_ms) == (now_ms - 2_000, 0, 0)
    assert (seen["2"].state, seen["2"].backlog) == ("never_seen", None)  # where it would begin is not known
    assert picture.level.holder is not None
    assert (picture.level.holder.channel, picture.level.holder.cause) == ("0", "backlog")
    [source] = picture.sources or []
    assert (source.offsets, source.backlog) == ({f"{topic}/0": 4, f"{topic}/1": 9}, 5)
    commit("readers", topic, {0: 9, 1: 9})
    later = it.until(lambda p: channels(p)["0"].backlog == 0)
    assert later.level.watermark_ms == now_ms - 2_000 - 1
    assert channels(later)["0"].rate is not None
    [source] = later.sources or []
    assert source.backlog is None, "of partition 2 it is not known"
    assert [note.code for note in later.notes] == ["partitions_uncommitted"]
    commit("readers", topic, {0: 9, 1: 9, 2: 0})
    begun = it.until(lambda p: channels(p)["2"].backlog == 9)
    assert (begun.level.watermark_ms, begun.notes) == (later.level.watermark_ms, [])
    assert begun.level.holder is not None
    assert (begun.level.holder.channel, begun.level.holder.cause) == ("2", "backlog")
    commit("readers", topic, {0: 9, 1: 9, 2: 5})
    read = it.until(lambda p: channels(p)["2"].backlog == 4)
    assert channels(read)["2"].max_event_ms == now_ms - 6_000
    assert read.level.holder is not None
    assert read.level.holder.channel == "2"


def test_a_look_joins_no_group(
    broker: LocalBroker,
    topic: str,
    produce: Produce,
    commit: Callable[..., None],
    look: Callable[..., Look],
    now_ms: int,
) -> None:
    from kafka.admin import KafkaAdminClient

    produce(topic, [Record(timestamp_ms=now_ms)])
    commit("looked-at", topic, {0: 1})
    admin: Any = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        groups = {group["group_id"] for group in admin.list_groups()}
        it = look(topic, group="looked-at")
        assert it.picture().level.watermark_ms == now_ms - 1
        assert {group["group_id"] for group in admin.list_groups()} == groups
        assert admin.describe_groups(["looked-at"])["looked-at"]["members"] == []
    finally:
        admin.close()


def test_before_the_position_may_be_what_is_no_record(
    topic: str,
    produce: Produce,
    transact: Transact,
    commit: Callable[..., None],
    look: Callable[..., Look],
    now_ms: int,
) -> None:
    produce(topic, [Record(timestamp_ms=now_ms - 5_000)])
    transact(topic, [Record(timestamp_ms=now_ms)] * 2, commit=False)  # two records and a marker, for nobody
    [after] = produce(topic, [Record(timestamp_ms=now_ms - 1_000)])
    commit("readers", topic, {0: after})
    picture = look(topic, group="readers").picture()
    assert channels(picture)["0"].max_event_ms == now_ms - 5_000
    assert channels(picture)["0"].backlog  # the marker counts as well: lags are distances of offsets


def test_times_in_the_value(
    create_topic: CreateTopic, produce: Produce, commit: Callable[..., None], look: Callable[..., Look], now_ms: int
) -> None:
    topic = create_topic(2)
    values = [json.dumps({"at": {"ms": now_ms - HOUR + n}}).encode() for n in range(4)]
    produce(topic, [Record(value, partition) for partition in (0, 1) for value in values])
    commit("readers", topic, {0: 2, 1: 4})
    picture = look(topic, group="readers", path="at.ms").picture()
    assert picture.source is not None
    assert (picture.source.time_column, picture.source.time_unit) == ("$.at.ms", "epoch ms (recognised)")
    seen = channels(picture)
    assert (seen["0"].max_event_ms, seen["0"].behind_end_ms) == (now_ms - HOUR + 1, 2)
    assert (seen["1"].max_event_ms, seen["1"].behind_end_ms) == (now_ms - HOUR + 3, 0)
    assert picture.level.watermark_ms == now_ms - HOUR
    produce(topic, [Record(b"no json", 1)])
    commit("readers", topic, {0: 2, 1: 5})
    it = look(topic, group="readers", path="at.ms")
    after = channels(it.until(lambda p: channels(p)["1"].backlog == 0))["1"]
    assert (after.state, after.max_event_ms) == ("active", now_ms - HOUR + 3)  # one record without a time takes nothing
    with refused(UsageError, "", "at.ms"):
        look(topic, path="at.s")


def test_who_has_read_all_and_hears_nothing_is_idle_and_who_is_behind_is_not(
    create_topic: CreateTopic, produce: Produce, commit: Callable[..., None], look: Callable[..., Look], now_ms: int
) -> None:
    topic = create_topic(3)
    long_ago = [Record(partition=p, timestamp_ms=now_ms - 2 * HOUR + n) for p in (0, 1) for n in range(3)]
    produce(topic, [*long_ago, Record(partition=2, timestamp_ms=now_ms - 500)])
    commit("readers", topic, {0: 3, 1: 2, 2: 1})
    it = look(topic, group="readers", idle_after_ms=HOUR)
    picture = it.picture()
    assert {name: view.state for name, view in channels(picture).items()} == {"0": "idle", "1": "active", "2": "active"}
    assert picture.level.holder is not None
    assert (picture.level.holder.channel, picture.level.holder.cause) == ("1", "backlog")
    assert picture.level.watermark_ms == now_ms - 2 * HOUR  # of its second record, minus 1
    produce(topic, [Record(partition=0, timestamp_ms=now_ms)])
    commit("readers", topic, {0: 4, 1: 3, 2: 1})
    later = it.until(lambda p: channels(p)["0"].backlog == 0 == channels(p)["1"].backlog)
    assert channels(later)["0"].state == "active"
    off = look(topic, group="readers", idle_after_ms=None).picture()
    assert {view.state for view in off.channels} == {"active"}


def test_records_that_come_between_two_commits_are_on_their_way_and_no_backlog(
    create_topic: CreateTopic, produce: Produce, commit: Callable[..., None], look: Callable[..., Look], now_ms: int
) -> None:
    """Else the cause would change with each commit of a group that keeps up."""
    topic = create_topic(2)

    def send(count: int) -> None:
        times = {0: now_ms, 1: now_ms - HOUR}
        produce(topic, [Record(partition=p, timestamp_ms=times[p] + n) for p in times for n in range(count)])

    send(2)
    commit("readers", topic, {0: 2, 1: 2})
    it = look(topic, group="readers")
    it.picture()
    send(2)
    commit("readers", topic, {0: 4, 1: 4})
    it.picture()
    send(1)
    picture = it.until(lambda p: channels(p)["1"].backlog == 1)
    assert picture.level.holder is not None
    assert (picture.level.holder.channel, picture.level.holder.cause) == ("1", "behind")
    later = it.picture(time.time_ns() // 1_000_000 + COMMITTED_WITHIN_MS + 1)
    assert later.level.holder is not None
    assert later.level.holder.cause == "backlog"


def test_timestamps_of_a_replay_are_no_arrivals(
    create_topic: CreateTopic, produce: Produce, look: Callable[..., Look]
) -> None:
    topic = create_topic(2, {"retention.ms": "-1"})
    produce(topic, [Record(partition=p, timestamp_ms=1_360_000_000_000 + p) for p in (0, 1)])
    picture = look(topic, idle_after_ms=HOUR).picture()
    assert [view.state for view in picture.channels] == ["active", "active"]
    assert picture.level.watermark_ms == 1_360_000_000_000 - 1


def test_a_broker_that_is_down_is_stale_and_no_partition_is_quiet(
    broker: LocalBroker, create_topic: CreateTopic, produce: Produce, look: Callable[..., Look], now_ms: int
) -> None:
    topic = create_topic()
    produce(topic, [Record(timestamp_ms=now_ms)])
    it = look(topic, idle_after_ms=1_000)
    before = it.picture()
    assert before.state == "live"
    broker.kill()
    try:
        down = it.until(lambda p: p.state == "stale")
        assert down.notes[0].code == "broker_silent"
        assert broker.bootstrap in str(down.notes[0].args["why"])
        assert down.level.watermark_ms == before.level.watermark_ms
        assert it.picture(time.time_ns() // 1_000_000 + 60_000).channels[0].state == "active"
    finally:
        broker.start()
    it.until(lambda p: p.state == "live")


def test_a_recreated_topic_begins_again(
    broker: LocalBroker, create_topic: CreateTopic, produce: Produce, look: Callable[..., Look], now_ms: int
) -> None:
    from kafka.admin import KafkaAdminClient

    topic = create_topic()
    produce(topic, [Record(timestamp_ms=now_ms)])
    it = look(topic)
    it.picture()
    admin: Any = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.delete_topics([topic])
    it.until(lambda p: p.state == "stale")
    admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)
    admin.close()
    produce(topic, [Record(timestamp_ms=now_ms - HOUR)])
    it.until(lambda p: p.state == "live" and p.level.watermark_ms == now_ms - HOUR - 1)


def checkpoint(path: Path, offsets: dict[str, dict[str, int]], watermark_ms: int, began_ms: int) -> Path:
    """What a query leaves that has read so far, as Spark writes it."""
    for log in ("offsets", "commits", "state/0/0/_metadata"):
        (path / log).mkdir(parents=True)
    (path / "metadata").write_text('{"id":"5d0b3a8e-7b5e-4f6e-9a57-0d3b0f6f2a11"}')
    metadata = {"batchWatermarkMs": 0, "batchTimestampMs": began_ms, "conf": {"spark.sql.shuffle.partitions": "1"}}
    (path / "offsets" / "0").write_text(f"v1\n{json.dumps(metadata)}\n{json.dumps(offsets)}")
    (path / "commits" / "0").write_text(f'v1\n{{"nextBatchWatermarkMs":{watermark_ms}}}')
    return path


def test_a_query_that_reads_from_kafka_shows_its_partitions(
    broker: LocalBroker,
    create_topic: CreateTopic,
    produce: Produce,
    tmp_path: Path,
    now_ms: int,
    wmtop: Callable[..., Ended],
) -> None:
    topic = create_topic(3)
    produce(topic, [Record(partition=p, timestamp_ms=now_ms - 60_000 * (p + 1) + n) for p in (0, 1) for n in range(5)])
    path = checkpoint(tmp_path / "q", {topic: {"0": 5, "1": 2, "2": 0}}, now_ms - 90_000, now_ms)
    done = wmtop(str(path), "--bootstrap", broker.bootstrap, "--time", "timestamp", "--once", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    reported = json.loads(done.stdout)
    assert [(c["channel"], c["max_event_ms"], c["backlog"], c["state"]) for c in reported["channels"]] == [
        ("0", now_ms - 60_000 + 4, 0, "active"),
        ("1", now_ms - 120_000 + 1, 3, "active"),
        ("2", None, 0, "never_seen"),
    ]
    assert reported["channels"][1]["behind_end_ms"] == 3
    assert {c["watermark_ms"] for c in reported["channels"]} == {None}  # the delay is not known
    assert reported["level"]["watermark_ms"] == now_ms - 90_000
    assert (reported["sources"][0]["backlog"], reported["origin"]["channels"]) == (3, "broker")
    wrong = wmtop(str(path), "--bootstrap", broker.bootstrap, "--time", "ts", "--once")
    assert wrong.returncode == 0  # no record has a value to look into


def test_a_partition_that_the_query_does_not_read_is_no_channel(
    broker: LocalBroker,
    create_topic: CreateTopic,
    produce: Produce,
    tmp_path: Path,
    now_ms: int,
    wmtop: Callable[..., Ended],
) -> None:
    """As with `assign`: of three partitions it has offsets of two."""
    topic = create_topic(3)
    produce(topic, [Record(partition=p, timestamp_ms=now_ms - 60_000) for p in range(3)])
    path = checkpoint(tmp_path / "q", {topic: {"0": 1, "2": 0}}, now_ms - 90_000, now_ms)
    done = wmtop(str(path), "--bootstrap", broker.bootstrap, "--time", "timestamp", "--once", "--json")
    reported = json.loads(done.stdout)
    assert [(c["channel"], c["backlog"]) for c in reported["channels"]] == [("0", 0), ("2", 1)]
    assert reported["sources"][0]["backlog"] == 1


def test_record_timestamps_are_no_event_times_by_default(
    broker: LocalBroker,
    create_topic: CreateTopic,
    produce: Produce,
    tmp_path: Path,
    now_ms: int,
    wmtop: Callable[..., Ended],
) -> None:
    topic = create_topic(1)
    produce(topic, [Record(timestamp_ms=now_ms - 7_200_000)])
    path = checkpoint(tmp_path / "q", {topic: {"0": 1}}, now_ms - 90_000, now_ms)
    reported = json.loads(wmtop(str(path), "--bootstrap", broker.bootstrap, "--once", "--json").stdout)
    assert [(c["max_event_ms"], c["watermark_ms"], c["state"], c["backlog"]) for c in reported["channels"]] == [
        (None, None, "active", 0)
    ]
    assert reported["barrel"] is None
    assert "time_needed" in {note["code"] for note in reported["notes"]}


def test_one_late_record_at_the_end_does_not_make_its_partition_late(
    broker: LocalBroker,
    create_topic: CreateTopic,
    produce: Produce,
    tmp_path: Path,
    now_ms: int,
    wmtop: Callable[..., Ended],
) -> None:
    topic = create_topic(1)
    times = [*(now_ms - 1_000 + n for n in range(100)), now_ms - 7_200_000]
    produce(topic, [Record(json.dumps({"at": ms}).encode()) for ms in times])
    path = checkpoint(tmp_path / "q", {topic: {"0": 101}}, now_ms - 90_000, now_ms)
    reported = json.loads(wmtop(str(path), "--bootstrap", broker.bootstrap, "--time", "at", "--once", "--json").stdout)
    assert [c["max_event_ms"] for c in reported["channels"]] == [max(times)]
    assert reported["barrel"]["below"] == []


def test_the_command_looks_once(
    broker: LocalBroker,
    topic: str,
    produce: Produce,
    commit: Callable[..., None],
    now_ms: int,
    wmtop: Callable[..., Ended],
) -> None:
    produce(topic, [Record(timestamp_ms=now_ms - 3_000), Record(timestamp_ms=now_ms)])
    commit("readers", topic, {0: 1})
    target = f"kafka://{broker.bootstrap}/{topic}"
    done = wmtop(target, "--group", "readers", "--lateness", "2s", "--once", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    reported = json.loads(done.stdout)
    assert (reported["name"], reported["source"]["kind"]) == ("readers", "group")
    assert reported["level"]["watermark_ms"] == now_ms - 3_000 - 2_000 - 1
    assert (reported["channels"][0]["backlog"], reported["channels"][0]["behind_end_ms"]) == (1, 3_000)
    assert reported["origin"]["positions"] == "consumer group"
    # When the group read its last record is not known: it may have died long ago.
    assert (reported["level"]["moved_ms"], reported["verdict"]["verdict"]) == (None, "unknown")
    assert "backlog 1" in wmtop(target, "--group", "readers", "--once").stdout
    for arguments, said in (
        ([target, "--group", "reader"], f"the group reader has committed nothing on {topic}; there are: readers"),
        ([target + "x"], f"there is no topic {topic}x at {broker.bootstrap}; near ones: {topic}"),
        ([f"kafka://127.0.0.1:1/{topic}"], "no Kafka broker answers at 127.0.0.1:1"),
    ):
        wrong = wmtop(*arguments, "--once")
        assert (wrong.returncode, wrong.stdout, wrong.stderr.count("\n")) == (2, "", 1)
        assert said in wrong.stderr


def test_the_engine_follows_and_is_not_to_be_changed(
    broker: LocalBroker, topic: str, produce: Produce, now_ms: int
) -> None:
    produce(topic, [Record(timestamp_ms=now_ms - 9_000)])
    command = [*COMMAND, f"kafka://{broker.bootstrap}/{topic}", "--json", "--name", "follower"]
    engine = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert engine.stdout is not None
        assert json.loads(engine.stdout.readline())["channels"][0]["max_event_ms"] == now_ms - 9_000
        produce(topic, [Record(timestamp_ms=now_ms - 4_000)])
        levels = (json.loads(line)["level"]["watermark_ms"] for line in islice(engine.stdout, 30))
        assert now_ms - 4_000 - 1 in levels
        socket = run_directory.socket_path("follower")
        refused = request(socket, Change(id=1, lateness_ms=5_000, who="test"))
        assert not refused.ok
        assert all(fact in refused.text for fact in (NOT_FROM_HERE, "--lateness", "--idle-after"))
        assert request(socket, Stop(id=2)).ok
        _, error = engine.communicate(timeout=WITHIN_S)
        assert (engine.returncode, error) == (0, "")
    finally:
        if engine.poll() is None:
            os.kill(engine.pid, signal.SIGKILL)
            engine.communicate()
