"""One real broker for all tests that need one, and topics on it."""

import contextlib
import json
import random
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient
from pyspark.sql import SparkSession
from wmtop.engine.kafka.local_broker import LocalBroker
from wmtop.engine.run.sources.kafka import Reader
from wmtop.engine.system.errors import RunError, UsageError

from .connector import connector_jars
from .records import FULL, CreateTopic, Produce, Record, Transact

PROPERTIES = {
    "broker.session.timeout.ms": "3000",  # after a crash it takes the broker back in 3 s instead of 9
    "broker.heartbeat.interval.ms": "500",
    "log.retention.ms": "-1",  # it goes by the records' times, which are long ago here: a sweep every five minutes
}


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """A running broker. A test may restart or kill it, but leaves it running."""
    local = LocalBroker(tmp_path_factory.mktemp("kafka"), properties=PROPERTIES)
    try:
        local.start(print)
    except (UsageError, RunError) as error:
        pytest.fail(str(error), pytrace=False)
    yield local
    local.stop()


@pytest.fixture(scope="session")
def create_topic(broker: LocalBroker) -> CreateTopic:
    numbers = count()

    def create(partitions: int = 1, config: dict[str, str] | None = None) -> str:
        name = f"topic-{next(numbers)}"
        wanted = {"num_partitions": partitions, "replication_factor": 1, "configs": config or {}}
        admin: Any = KafkaAdminClient(bootstrap_servers=broker.bootstrap)  # a new one: the broker may have restarted
        admin.create_topics({name: wanted}, wait_for_metadata=True)
        admin.close()
        return name

    return create


NOON_MS = 1_767_268_800_000


@pytest.fixture(scope="session")
def full_topic(create_topic: CreateTopic, produce: Produce) -> str:
    """Three partitions of unequal pace, late records, and every hundredth one bad: `FULL`."""
    r = random.Random(5)
    topic = create_topic(3)
    records = [
        Record(
            b"bad"
            if i % 100 == 99
            else json.dumps({"ts": NOON_MS + i * 500 - int(r.expovariate(1 / 60_000))}).encode(),
            partition=r.choices((0, 1, 2), (6, 3, 1))[0],
        )
        for i in range(FULL)
    ]
    produce(topic, records)
    return topic


@pytest.fixture
def topic(create_topic: CreateTopic) -> str:
    """A new topic of one partition."""
    return create_topic()


@pytest.fixture(scope="session")
def produce(broker: LocalBroker) -> Produce:
    def send_all(topic: str, records: Iterable[Record]) -> list[int]:
        # A new one: once a topic that it wrote is deleted, a producer's thread asks for it without a pause.
        producer: Any = KafkaProducer(bootstrap_servers=broker.bootstrap, metadata_max_age_ms=1_000)
        with contextlib.closing(producer):
            return [sent.get().offset for sent in send(producer, topic, records)]

    return send_all


@pytest.fixture
def transact(broker: LocalBroker) -> Iterator[Transact]:
    producer: Any = KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id="tests")
    producer.init_transactions()

    def send_all(topic: str, records: Iterable[Record], *, commit: bool = True) -> None:
        producer.begin_transaction()
        sent = send(producer, topic, records)
        producer.flush()  # so that what is aborted has been there, too
        assert all(future.succeeded() for future in sent)
        if commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()

    yield send_all
    producer.close(timeout=1)


def send(producer: Any, topic: str, records: Iterable[Record]) -> list[Any]:
    records = list(records)
    wanted = {record.partition for record in records if record.partition is not None}
    deadline = time.monotonic() + 60
    while not wanted <= (producer.partitions_for(topic) or set()):  # a partition that was added a moment ago
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return [
        producer.send(topic, value, key, list(headers), partition, timestamp_ms)
        for value, partition, timestamp_ms, key, headers in records
    ]


@pytest.fixture(scope="session", name="connector_jars")
def the_connector_jars() -> list[Path]:
    """Spark's Kafka connector."""
    try:
        return connector_jars()
    except (UsageError, RunError) as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def both_readers(spark: SparkSession, connector_jars: list[Path]) -> SparkSession:
    """The session, with the connector added to it."""
    for jar in connector_jars:
        spark.sql(f"ADD JAR '{jar}'")
    return spark


@pytest.fixture
def session_for(request: pytest.FixtureRequest) -> Callable[[Reader], SparkSession]:
    """The session for a reader: the connector is added only for its own sake, since Spark then starts its Python
    workers again, and compiles all its code.
    """
    return lambda reader: request.getfixturevalue("both_readers" if reader == "connector" else "spark")
