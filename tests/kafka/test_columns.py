"""Records that tasks read as columns give what Spark's rows of the same records give."""

import random
from pathlib import Path
from unittest import mock

from pyspark.sql import SparkSession
from wmtop.engine.kafka.local_broker import LocalBroker
from wmtop.engine.run.observe import Observer
from wmtop.engine.run.sources.kafka import Kafka
from wmtop.engine.run.sources.kafka_columns import KafkaColumns
from wmtop.engine.watermarks.settings import Settings, Tumbling

from .records import CreateTopic, Produce, Record, Transact
from .running import running

NOON_MS = 1_767_268_800_000
SETTINGS = Settings(lateness_ms=1_000, window=Tumbling(10_000), future_guard_ms=60_000)


def test_columns_and_rows_agree(
    spark: SparkSession,
    broker: LocalBroker,
    create_topic: CreateTopic,
    produce: Produce,
    transact: Transact,
    tmp_path: Path,
) -> None:
    """Two topics, aborted transactions, times before 1970 and far ahead, and a run that goes on after a stop."""
    r = random.Random(7)
    anything = {"message.timestamp.after.max.ms": str(2**63 - 1)}
    topics = [create_topic(3, anything), create_topic(2, anything)]
    for number in range(30):
        topic, partition = r.choice(topics), r.randrange(2)
        times = [max(0, NOON_MS + number * 2_000 - int(r.expovariate(1 / 3_000))) for _ in range(r.randrange(1, 30))]
        records = [Record(b"x", partition, r.choice((at, at, at, 0, 4_102_444_800_000))) for at in times]
        if number % 3:
            produce(topic, records)
        else:
            transact(topic, records, commit=bool(number % 2))
    found = []
    for way in ("columns", "rows"):
        with mock.patch.object(Kafka, "has_columns", lambda *_, way=way: way == "columns"):
            pictures = []
            for _ in range(2):  # the second goes on in the first one's directory
                place = tmp_path / way
                with running(
                    spark, broker, topics, place, KafkaColumns(), SETTINGS, batch_records=100, once=True
                ) as it:
                    observer = it.run._observer
                    assert isinstance(observer, Observer)
                    assert observer.by_columns == (way == "columns")
                    stop_at = 60 if not pictures else 0
                    pictures.append(it.until(lambda p, at=stop_at: p.totals.records >= at if at else p.ended))
        last = pictures[-1]
        assert last.totals.future
        assert last.totals.late
        found.append((last.totals, [(c.channel, c.records, c.max_event_ms, c.late) for c in last.channels],
                      last.windows.fired, last.last_future, last.level.watermark_ms))  # fmt: skip
    assert found[0] == found[1]
