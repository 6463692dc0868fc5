"""What a topic holds, read with a client of its own."""

from typing import Any

from kafka import KafkaConsumer, TopicPartition
from wmtop.engine.kafka.local_broker import LocalBroker


def read(broker: LocalBroker, topic: str, partition: int = 0, **options: Any) -> list[Any]:
    """The records of one partition; `options` are kafka-python's."""
    consumer: Any = KafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", **options)
    where = TopicPartition(topic, partition)
    consumer.assign([where])
    [end] = consumer.end_offsets([where]).values()
    records: list[Any] = []
    while consumer.position(where) < end:
        records += consumer.poll(timeout_ms=500).get(where, [])
    consumer.close()
    return records
