"""`wmtop demo --kafka`: the flights through a real Kafka broker that the demo starts."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ...kafka.client_settings import KafkaConfig
from ...kafka.cluster import Cluster
from ...kafka.feeder import Feed, feeder_command, make_topic
from ...kafka.local_broker import LocalBroker
from ...snapshot import SourceView
from ...system.errors import UsageError
from ...system.json_path import JsonPath
from .kafka import Kafka, KafkaColumns

USUAL = "127.0.0.1:9092"
"""Address of a broker that may already run; used if none can be started."""
_PARTITIONS = 6
_STOP_S = 5


class DemoRows(Struct, frozen=True):
    """A Parquet file and the names of its columns."""

    file: Path
    time: str
    arrival: str
    channel: str


class KafkaDemo(Kafka):
    """A `Source` with its own topic, on its own broker, that a feeder fills at `speed`."""

    def __init__(self, topic: str, rows: DemoRows, *, speed: float, start_ms: int) -> None:
        self._work = Path(tempfile.mkdtemp(prefix="wmtop-kafka-"))
        columns = KafkaColumns(time=JsonPath((rows.time,)))
        super().__init__(KafkaConfig(USUAL), [topic], columns, directory=self._work / "run")
        self._rows = rows
        self._speed = speed
        self._start_ms = start_ms
        self._broker: LocalBroker | None = None
        self._feeder: subprocess.Popen[bytes] | None = None

    def check(self) -> None:
        """Nothing to check before the broker runs."""

    def describe(self) -> SourceView:
        return replace(super().describe(), speed=self._speed)

    def prepare(self, report: Callable[[str], None]) -> None:
        """Start a broker, or find one that runs, and make the topic."""
        self._config = KafkaConfig(self._find_broker(report))
        make_topic(self._config.bootstrap, self._topics[0], _PARTITIONS)
        super().prepare(report)

    def starting(self) -> None:
        """Start the feeder only with the query, so that there is no backlog."""
        job = Feed(
            bootstrap=self._config.bootstrap,
            topic=self._topics[0],
            file=str(self._rows.file),
            time=self._rows.time,
            arrival=self._rows.arrival,
            channel=self._rows.channel,
            partitions=_PARTITIONS,
            speed=self._speed,
            start_ms=self._start_ms,
        )
        with (self._work / "feeder.log").open("ab") as log:
            self._feeder = subprocess.Popen(feeder_command(job), stdin=subprocess.PIPE, stdout=log, stderr=log)

    def close(self) -> None:
        super().close()
        if self._feeder is not None and self._feeder.stdin is not None:
            self._feeder.stdin.close()
            try:
                self._feeder.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self._feeder.kill()
        if self._broker is not None:
            self._broker.stop()
        shutil.rmtree(self._work, ignore_errors=True)

    def _find_broker(self, report: Callable[[str], None]) -> str:
        broker = LocalBroker(self._work / "broker")
        try:
            broker.start(report)
        except UsageError as error:  # neither jars nor Maven
            try:
                Cluster(KafkaConfig(USUAL)).close()
            except UsageError:
                raise error from None
            return USUAL
        self._broker = broker
        return broker.bootstrap
