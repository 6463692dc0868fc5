"""Real Kafka Streams applications (`WindowsApp.java`), what they read and what they emit."""

import subprocess
import time
from collections.abc import Callable
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from wmtop.engine.kafka.client_settings import KafkaConfig
from wmtop.engine.snapshot import Clock, Snapshot
from wmtop.engine.system.errors import UsageError
from wmtop.engine.system.java import fetched_jars, find_java
from wmtop.engine.targets.streams.watch import GroupWatch
from wmtop.engine.targets.target import TargetOptions
from wmtop.engine.verdict.target_history import TargetHistory

WINDOW_MS, GRACE_MS = 10_000, 2_000
BASE_MS = 1_700_000_000_000
"""An event time at which a window begins."""
WITHIN_S = 120.0
_JAVA_OPTIONS = ("-Xmx200m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
_numbers = count()


def streams_jars(version: str) -> Path:
    """The directory of a release of Kafka Streams, with a compiler for a machine that has only a JRE."""
    artifacts = (
        f"org.apache.kafka:kafka-streams:{version}",
        "org.slf4j:slf4j-nop:1.7.36",
        "org.eclipse.jdt:ecj:3.32.0",
    )
    return fetched_jars(
        f"test-kafka-streams-{version}", artifacts, "fetching Kafka Streams", print,
        what="a Kafka Streams application", instead="leave these tests out",
    )  # fmt: skip


def console_producer(script: Path) -> None:
    """Write a script that is Kafka's own `kafka-console-producer`."""
    jars = fetched_jars(
        "test-kafka-tools", ("org.apache.kafka:kafka-tools:4.1.0", "org.slf4j:slf4j-nop:1.7.36"), "", print,
        what="Kafka's producer", instead="leave this test out",
    )  # fmt: skip
    java = find_java().home / "bin" / "java"
    script.write_text(f'#!/bin/sh\nexec {java} -cp "{jars}/*" org.apache.kafka.tools.ConsoleProducer "$@"\n')
    script.chmod(0o755)


class Record(NamedTuple):
    """A record of an input; its key is also its value."""

    topic: str
    partition: int
    time_ms: int
    key: str


class Emitted(NamedTuple):
    """A result: a window of a key."""

    key: str
    end_ms: int


class Cluster:
    """The broker that the tests started: topics, records, and what a topic holds."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def topic(self, partitions: int) -> str:
        name = f"topic-{next(_numbers)}"
        wanted = {"num_partitions": partitions, "replication_factor": 1, "configs": {"retention.ms": "-1"}}
        admin: Any = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        admin.create_topics({name: wanted}, wait_for_metadata=True)
        admin.close()
        return name

    def send(self, *records: Record) -> None:
        # A new one: once a topic that it wrote is deleted, a producer's thread asks for it without a pause.
        producer: Any = KafkaProducer(bootstrap_servers=self.bootstrap)
        with closing(producer):
            for topic, partition, time_ms, key in records:
                producer.send(topic, key.encode(), key.encode(), None, partition, time_ms)

    def read(self, topic: str) -> list[tuple[int, str]]:
        """The partition and key of all records of a topic."""
        consumer: Any = KafkaConsumer(
            bootstrap_servers=self.bootstrap, enable_auto_commit=False, isolation_level="read_committed"
        )
        partitions = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends, found = consumer.end_offsets(partitions), list[tuple[int, str]]()
        deadline = time.monotonic() + WITHIN_S
        while any(consumer.position(at) < ends[at] for at in partitions):
            assert time.monotonic() < deadline
            for at, records in consumer.poll(200).items():
                found += [(at.partition, record.key.decode()) for record in records]
        consumer.close()
        return found

    def emitted(self, topic: str) -> list[Emitted]:
        """The windows that an application has emitted."""
        parts = [key.split(" ") for _, key in self.read(topic)]
        return [Emitted(key, int(end)) for key, end in parts]


class Application:
    """A JVM with an application, and wmtop's look at its group; `options` are those of `WindowsApp.main`."""

    def __init__(self, cluster: Cluster, classes: str, directory: Path, inputs: list[str], **options: object) -> None:
        self.id = f"app-{next(_numbers)}"
        self.out = cluster.topic(1)
        self._cluster = cluster
        self._directory = directory
        arguments = {"bootstrap": cluster.bootstrap, "state": directory / self.id, "id": self.id, "out": self.out}
        arguments |= {"in": ",".join(inputs), "size": WINDOW_MS, "grace": GRACE_MS, **options}
        java = find_java().home / "bin" / "java"
        self._command = [
            java,
            *_JAVA_OPTIONS,
            "-cp",
            classes,
            "WindowsApp",
            *(f"{k}={v}" for k, v in arguments.items()),
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._watch: GroupWatch | None = None
        self.judge = TargetHistory()

    def start(self) -> None:
        with (self._directory / f"{self.id}.log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop(self) -> None:
        """Stop it cleanly: it commits."""
        if self._process is not None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(20)
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def printed(self) -> list[str]:
        """What it has printed, and its log."""
        return (self._directory / f"{self.id}.log").read_text().splitlines()

    def look(self) -> Snapshot:
        """What wmtop sees now, with its verdict."""
        if self._watch is None:
            options = TargetOptions(group=self.id, window=WINDOW_MS, grace=GRACE_MS)
            watch = GroupWatch(KafkaConfig(self._cluster.bootstrap), self.id, options)
            watch.open()
            self._watch = watch
        now_ms = time.time_ns() // 1_000_000
        return self.judge.judge(self._watch.picture(self.id, self._watch.poll(), now_ms))

    def until(self, wanted: Callable[[Snapshot], Any]) -> Snapshot:
        """The first look at which that is so."""
        deadline, last = time.monotonic() + WITHIN_S, None
        while True:
            with suppress(UsageError if last is None else ()):  # the group does not exist yet
                last = self.look()
                if wanted(last):
                    return last
            assert time.monotonic() < deadline, (last, (self._directory / f"{self.id}.log").read_text()[-2_000:])
            time.sleep(0.2)

    def all_read(self, *sent: Record) -> Snapshot:
        """The look at which all input, and what of it was repartitioned, is committed."""
        wanted = {f"{record.topic}-{record.partition}" for record in sent}
        settled: list[object] = []

        def is_settled(seen: Snapshot) -> bool:
            state = [(view.channel, view.backlog, view.watermark_ms) for view in seen.channels]
            is_read = all(view.backlog == 0 for view in seen.channels)
            named = {view.channel for view in seen.channels if view.watermark_ms is not None}
            settled.append((state, seen.sources))
            # Records may still be on their way through a repartition: the same for three looks.
            return is_read and wanted <= named and settled[-6:] == [settled[-1]] * 6

        return self.until(is_settled)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
        if self._watch is not None:
            self._watch.close()


def clock_of(seen: Snapshot, channel: str) -> Clock:
    """The clock of the task that reads a partition."""
    return next(clock for clock in seen.clocks if channel in clock.channels)
