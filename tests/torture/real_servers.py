"""A real broker, JobManager and History Server, with data that keep coming, which are suspended or killed and go on."""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Any, Protocol

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError
from wmtop.engine.kafka.local_broker import LocalBroker

from ..targets.flink.flinks import Flink, compiled
from ..targets.spark.shop import applications, started_history_server, started_job, until
from ..test_serve import free_port


class RealServer(Protocol):
    """What a round does with it; `address` and `query` are what wmtop is given."""

    address: str
    query: str

    def signal(self, number: int) -> None: ...
    def kill(self) -> None: ...
    def restart(self) -> None: ...


class Broker:
    """A Kafka broker; a record every 0.2 s."""

    query = ""

    def __init__(self, directory: Path) -> None:
        self._broker = LocalBroker(directory)
        self._broker.start()
        self.address = f"kafka://{self._broker.bootstrap}/orders"
        admin: Any = KafkaAdminClient(bootstrap_servers=self._broker.bootstrap)
        topic = {"num_partitions": 1, "replication_factor": 1, "configs": {}}
        admin.create_topics({"orders": topic}, wait_for_metadata=True)
        admin.close()
        self._producer: Any = KafkaProducer(bootstrap_servers=self._broker.bootstrap)

    def send(self, number: int) -> None:
        with suppress(KafkaError):
            self._producer.send("orders", b"%d" % number, partition=0)

    def signal(self, number: int) -> None:
        assert self._broker.pid is not None
        os.kill(self._broker.pid, number)

    def kill(self) -> None:
        self._broker.kill()

    def restart(self) -> None:
        self._broker.start()

    def close(self) -> None:
        self._producer.close(0)
        self._broker.kill()


class JobManager:
    """A Flink with one job; two records every 0.2 s."""

    query = ""

    def __init__(self, directory: Path) -> None:
        self._directory, self._port = directory / "flink", free_port()
        directory.mkdir()
        self._class_path = compiled(directory)
        self.restart()
        self.address = f"flink://127.0.0.1:{self._port}/files"  # by name: a Flink that was killed has another job

    def restart(self) -> None:
        options = {"sources": "a", "splits": 2, "parallelism": 1}
        self._flink = Flink(self._class_path, self._directory, self._port, **options)
        self._flink.wait_for("RUNNING")

    def send(self, number: int) -> None:
        for split in ("a-0", "a-1"):
            self._flink.write(split, number)

    def signal(self, number: int) -> None:
        os.kill(self._flink.process.pid, number)

    def kill(self) -> None:
        self._flink.process.kill()
        self._flink.process.wait()

    def close(self) -> None:
        self._flink.__exit__(None, None, None)


class HistoryServer:
    """Spark's own, with the event log of a job whose queries go on while it fails."""

    query = "counts"

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._logs, self._port = directory / "logs", free_port()
        self._job = started_job(directory, free_port())
        self.address = f"spark+http://127.0.0.1:{self._port}/shop"
        self.restart()

    def restart(self) -> None:
        self._server = started_history_server(self._logs, self._port)
        until(lambda: applications(self._port) or None)

    def send(self, number: int) -> None:
        """The job's own source has the records."""

    def signal(self, number: int) -> None:
        self._server.send_signal(number)

    def kill(self) -> None:
        self._server.kill()
        self._server.wait()

    def close(self) -> None:
        self._job.kill()
        self._job.wait()
        self.kill()


@contextmanager
def real_server(directory: Path, kind: Callable[[Path], Any]) -> Generator[RealServer]:
    """Started, with data that keep coming; ended at the end."""
    server, over = kind(directory), Event()

    def send() -> None:
        for number in count():
            server.send(number)
            if over.wait(0.2):
                return

    sending = Thread(target=send, daemon=True)
    sending.start()
    try:
        yield server
    finally:
        over.set()
        sending.join(60)
        server.close()


REAL: dict[str, Callable[[Path], Any]] = {"broker": Broker, "JobManager": JobManager, "History Server": HistoryServer}
