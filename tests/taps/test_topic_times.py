"""Event times of a Kafka partition before a reader's position, without a broker."""

from types import SimpleNamespace
from typing import Any

from wmtop.engine.kafka.config import KafkaConfig
from wmtop.engine.kafka.offsets import TopicPartition
from wmtop.engine.taps.broker.topic import TopicTap

ORDERS = TopicPartition("orders", 0)
NOON = 1_700_000_000_000


def test_a_channel_s_time_never_goes_back_where_older_records_follow() -> None:
    """At the end the broker's greatest timestamp is known; the records read next are all older."""
    tap: Any = TopicTap(KafkaConfig("localhost:1"), ["orders"])
    tap._newest = {ORDERS: NOON}
    read: list[int] = []
    older = [SimpleNamespace(timestamp_ms=NOON - 60_000)] * 200

    def tails(moved: Any, first: Any, back: dict[TopicPartition, int]) -> dict[TopicPartition, Any]:
        read.extend(back.values())
        return dict.fromkeys(moved, older)

    tap._peek = SimpleNamespace(tails=tails)
    assert tap._reached({ORDERS: 500}, {ORDERS: 500}, {ORDERS: 0}) == {ORDERS: NOON}
    assert tap._reached({ORDERS: 900}, {ORDERS: 1_500}, {ORDERS: 0}) == {ORDERS: NOON}
    assert read == [200]
    tap._newest = {ORDERS: NOON - 60_000}  # retention has removed the newest one
    assert tap._reached({ORDERS: 1_500}, {ORDERS: 1_500}, {ORDERS: 0}) == {ORDERS: NOON}
