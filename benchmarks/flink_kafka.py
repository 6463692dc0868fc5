"""The same topic through `wmtop run kafka` (kafka-python) and a local Flink with its Kafka connector, as in `flink`.

A partition is a channel and a record's timestamp its event time, so neither side looks at the values (100 bytes of
JSON). The broker runs beside both, on the same cores; its CPU counts for neither.
"""

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from kafka.admin import KafkaAdminClient
from wmtop.engine.kafka.local_broker import LocalBroker
from wmtop.engine.system.java import fetched_jars
from wmtop.engine.targets.flink.demo import compile_job, flink_jars

from .flink import JOB, PARALLELISM, Result, Sides, compare, java, of_flink, of_wmtop, print_head, write

CHANNELS = (16, 64)
SMALL, LARGE, BATCH_RECORDS = 4_000_000, 16_000_000, 1_000_000
_CONNECTOR = ("org.apache.flink:flink-connector-kafka:5.0.0-2.2", "org.apache.kafka:kafka-clients:4.1.0")


class Topic:
    """A topic of a broker, made anew for each number of events."""

    def __init__(self, bootstrap: str, directory: Path, class_path: str, channels: int) -> None:
        self._bootstrap = bootstrap
        self._directory = directory
        self._class_path = class_path
        self._channels = channels
        self._name = ""

    def fill(self, events: int) -> None:
        """Replace the topic by one with so many events."""
        write(self._directory, events, self._channels)
        files = sorted(self._directory.glob("part-*"))
        admin: Any = KafkaAdminClient(bootstrap_servers=self._bootstrap)
        if self._name:
            admin.delete_topics([self._name])
        self._name = f"events-{self._channels}-{events}"
        wanted = {"num_partitions": self._channels, "replication_factor": 1, "configs": {"retention.ms": "-1"}}
        admin.create_topics({self._name: wanted}, wait_for_metadata=True)
        admin.close()
        command = [java(), "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", self._class_path, "FlinkKafka"]
        subprocess.run([*command, self._bootstrap, self._name, "fill", *map(str, files)], check=True)

    def through_wmtop(self) -> Result:
        """`wmtop run kafka` from the topic's start to its end."""
        source = ["kafka", self._bootstrap, self._name, "--from", "earliest", "--reader", "python"]
        return of_wmtop([*source, "--batch-records", str(BATCH_RECORDS)], self._directory)

    def through_flink(self) -> Result:
        """Flink's connector from the topic's start to its end."""
        return of_flink(
            self._directory, self._class_path, ["FlinkKafka", self._bootstrap, self._name, str(PARALLELISM)]
        )


def main() -> None:
    """Print the table; exit where the two sides differ."""
    what, instead = "Flink's Kafka connector", "leave this benchmark out"
    doing = "fetching Flink's Kafka connector (10 MB, once)"
    connector = fetched_jars("flink-kafka-5.0.0", _CONNECTOR, doing, print, what=what, instead=instead, alone=True)
    jars = [flink_jars(), connector]
    print_head()
    with tempfile.TemporaryDirectory(prefix="wmtop-bench-") as name, LocalBroker(Path(name, "broker")) as broker:
        directory, classes = Path(name), Path(name, "classes")
        compile_job(java(), jars, [JOB, JOB.with_name("FlinkKafka.java")], classes)
        class_path = ":".join([str(classes), *(f"{place}/*" for place in jars)])
        for channels in CHANNELS:
            topic = Topic(broker.bootstrap, directory, class_path, channels)
            sides: Sides = {"wmtop": topic.through_wmtop, "Flink 2.3.0": topic.through_flink}
            compare(channels, (SMALL, LARGE), topic.fill, sides)


if __name__ == "__main__":
    main()
