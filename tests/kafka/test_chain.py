"""`wmtop chain` over topics and consumer groups of a real broker: the losses are those that the records have."""

import base64
import json
import os
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from wmtop.engine.feed import run_directory
from wmtop.engine.kafka.local_broker import LocalBroker

from ..tui.cli.commands import run
from .records import CreateTopic, Produce, Record

MINUTE = 60_000
OFTEN = '[ui]\nrefresh = "100ms"\n'
"""The second look is the first that counts."""
Chained = Callable[..., dict[str, Any]]


@pytest.fixture(autouse=True)
def own_run_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(run_directory.RUN_DIR_VARIABLE, str(Path("/tmp", f"wmtop-test-{os.getpid()}")))


@pytest.fixture
def chained(
    broker: LocalBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Chained:
    """Writes a configuration and prints the chain as JSON; `targets` by name: the address and lines of options."""

    def print_chain(**targets: tuple[str, str]) -> dict[str, Any]:
        sections = [
            f'[targets.{name}]\nattach = "kafka://{broker.bootstrap}/{topic}"\n{lines}\n'
            for name, (topic, lines) in targets.items()
        ]
        (tmp_path / "config.toml").write_text("\n".join([OFTEN, *sections]))
        monkeypatch.setenv("WMTOP_CONFIG", str(tmp_path / "config.toml"))
        code, out, err = run(capsys, "chain", "--json", "--for", "1m")
        assert (code, err) == (0, "")
        return json.loads(out)

    return print_chain


def commit(broker: LocalBroker, group: str, topic: str, offsets: dict[int, int]) -> None:
    consumer: Any = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=group, enable_auto_commit=False)
    consumer.assign([TopicPartition(topic, partition) for partition in offsets])
    consumer.commit({TopicPartition(topic, p): OffsetAndMetadata(at, "", -1) for p, at in offsets.items()})
    consumer.close(autocommit=False)


def test_the_losses_of_hops_are_those_of_their_records(
    broker: LocalBroker, create_topic: CreateTopic, produce: Produce, chained: Chained
) -> None:
    orders, enriched = create_topic(2), create_topic(1)
    now = time.time_ns() // 1_000_000
    read = [now - minutes * MINUTE for minutes in range(120, 0, -1)]
    written = [time_ms for time_ms in read if time_ms <= now - 90 * MINUTE]
    produce(orders, [Record(partition=p, timestamp_ms=time_ms) for time_ms in read for p in (0, 1)])
    produce(enriched, [Record(timestamp_ms=time_ms) for time_ms in written])
    commit(broker, f"enrich-{orders}", orders, {0: 120, 1: 31})  # partition 1 is read up to 90 minutes ago
    commit(broker, f"report-{orders}", enriched, {0: 11})  # up to 110 minutes ago

    chain = chained(
        orders=(orders, 'time = "timestamp"'),
        enrich=(orders, f'group = "enrich-{orders}"\nwrites = ["{enriched}"]'),
        out=(enriched, 'time = "timestamp"'),
        report=(enriched, f'group = "report-{orders}"'),
    )

    hops = {hop["name"]: hop for hop in chain["hops"]}
    assert [chain["hops"][number]["name"] for number in chain["way"]] == [orders, "enrich", enriched, "report"]
    # A group's watermark is 1 ms below the record it has read, as Flink's.
    assert hops["enrich"]["loss_ms"] == read[-1] - (read[30] - 1)
    assert hops[enriched]["loss_ms"] == read[30] - 1 - written[-1]
    assert hops["report"]["loss_ms"] == written[-1] - (written[10] - 1)
    assert chain["behind_ms"] == read[-1] - (written[10] - 1)
    found = chain["hops"][chain["worst"]]
    assert (found["name"], found["channel"], found["cause"], found["edge"]) == ("enrich", "1", "backlog", "reported")
    assert hops[enriched]["edge"] == "configured"


def test_a_topic_without_a_configured_time_and_one_no_target_watches_are_not_known(
    broker: LocalBroker, create_topic: CreateTopic, produce: Produce, chained: Chained
) -> None:
    orders = create_topic(1)
    produce(orders, [Record(timestamp_ms=time.time_ns() // 1_000_000 - MINUTE)])
    commit(broker, f"g-{orders}", orders, {0: 1})
    chain = chained(orders=(orders, ""), job=(orders, f'group = "g-{orders}"\nwrites = ["nowhere"]'))
    hops = {hop["name"]: hop for hop in chain["hops"]}
    assert (hops[orders]["event_ms"], hops["nowhere"]["event_ms"], chain["behind_ms"]) == (None, None, None)
    assert (hops["job"]["loss_ms"], hops["nowhere"]["target"], chain["worst"]) == (None, None, None)


def test_a_kafka_streams_application_is_a_hop_whose_loss_is_not_known_alone(
    broker: LocalBroker, create_topic: CreateTopic, produce: Produce, chained: Chained
) -> None:
    """Its tasks have a clock each: the next hop's loss includes its own, and both are named."""
    orders, out = create_topic(1), create_topic(1)
    now = time.time_ns() // 1_000_000
    produce(orders, [Record(timestamp_ms=now)])
    produce(out, [Record(timestamp_ms=now - 60 * MINUTE)])
    consumer: Any = KafkaConsumer(
        bootstrap_servers=broker.bootstrap, group_id=f"app-{orders}", enable_auto_commit=False
    )
    consumer.assign([TopicPartition(orders, 0)])
    said = base64.b64encode(struct.pack(">bq", 2, now)).decode()  # what Kafka Streams 3.9 adds to a commit
    consumer.commit({TopicPartition(orders, 0): OffsetAndMetadata(1, said, -1)})
    consumer.close(autocommit=False)
    chain = chained(
        orders=(orders, 'time = "timestamp"'),
        app=("", f'group = "app-{orders}"\nwrites = ["{out}"]'),
        out=(out, 'time = "timestamp"'),
    )
    hops = {hop["name"]: hop for hop in chain["hops"]}
    assert (hops["app"]["watermark_ms"], hops["app"]["loss_ms"], hops["app"]["edge"]) == (None, None, "reported")
    assert hops["app"]["trouble"] == "each task has its own clock"
    assert hops[out]["loss_ms"] == 60 * MINUTE
    assert [chain["hops"][number]["name"] for number in hops[out]["includes"]] == ["app"]


def test_two_writers_a_loop_and_a_dead_hop_give_no_wrong_number(
    broker: LocalBroker, create_topic: CreateTopic, produce: Produce, chained: Chained
) -> None:
    orders, out, again = create_topic(1), create_topic(1), create_topic(1)
    now = time.time_ns() // 1_000_000
    for topic, minutes in ((orders, 0), (out, 30), (again, 50)):
        produce(topic, [Record(timestamp_ms=now - m * MINUTE) for m in (100, minutes)])
    commit(broker, f"fast-{orders}", orders, {0: 2})
    commit(broker, f"slow-{orders}", orders, {0: 1})
    commit(broker, f"retry-{orders}", again, {0: 2})
    chain = chained(
        orders=(orders, 'time = "timestamp"'),
        fast=(orders, f'group = "fast-{orders}"\nwrites = ["{out}"]'),
        slow=(orders, f'group = "slow-{orders}"\nwrites = ["{out}"]'),
        out=(out, 'time = "timestamp"'),
        again=(again, 'time = "timestamp"'),
        retry=(again, f'group = "retry-{orders}"\nwrites = ["{again}"]'),
        gone=(out, f'group = "gone-{orders}"'),
    )
    hops = {hop["name"]: hop for hop in chain["hops"]}
    assert hops[out]["loss_ms"] == 30 * MINUTE - 1  # against the writer that is furthest
    assert [(hops[name]["looping"], hops[name]["loss_ms"]) for name in (again, "retry")] == [(True, None)] * 2
    assert (hops["gone"]["watermark_ms"], hops["gone"]["verdict"]) == (None, "unknown")
    assert hops["gone"]["trouble"]
    assert chain["behind_at_least"]


def test_without_a_topic_there_is_no_chain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.toml").write_text("")
    monkeypatch.setenv("WMTOP_CONFIG", str(tmp_path / "config.toml"))
    code, out, err = run(capsys, "chain")
    assert (code, out) == (2, "")
    assert "[targets.orders]" in err
    assert err.count("\n") == 1


def test_a_group_whose_consumer_has_gone_has_no_member_and_one_that_only_commits_is_not_blamed_for_that(
    broker: LocalBroker, create_topic: CreateTopic, produce: Produce, chained: Chained
) -> None:
    orders = create_topic(1)
    now = time.time_ns() // 1_000_000
    produce(orders, [Record(timestamp_ms=now - 90 * MINUTE)])
    consumer: Any = KafkaConsumer(
        orders, bootstrap_servers=broker.bootstrap, group_id=f"gone-{orders}", auto_offset_reset="earliest"
    )
    while not consumer.poll(timeout_ms=500):
        pass
    consumer.commit()
    consumer.close()
    commit(broker, f"commits-{orders}", orders, {0: 1})
    produce(orders, [Record(timestamp_ms=now - MINUTE)])
    chain = chained(
        orders=(orders, 'time = "timestamp"'),
        gone=(orders, f'group = "gone-{orders}"'),
        commits=(orders, f'group = "commits-{orders}"'),
    )
    hops = {hop["name"]: (hop["loss_ms"], hop["cause"]) for hop in chain["hops"]}
    assert hops["gone"] == (89 * MINUTE + 1, "no_member")
    assert hops["commits"] == (89 * MINUTE + 1, "backlog")
