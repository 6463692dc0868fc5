"""(i) Logs of a real broker are cut and written again, topics recreated, the broker restarted, the run killed: what was
written and read counts once, of the old log and of the new one.
"""

import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient
from wmtop.engine.kafka.local_broker import LocalBroker

from ..conftest import QUICK_OPTIONS
from ..kafka.conftest import PROPERTIES
from ..kafka.log_cutting import cut
from ..run.test_arriving_files import Engine
from .blows import emptied
from .rounds import expect

NOON_MS = 1_767_268_800_000
STEPS = 6


class Torture:
    """One broker for all rounds, a topic for each."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._broker = LocalBroker(directory / "broker", properties=PROPERTIES)
        self._broker.start()
        self._rounds = 0

    def close(self) -> None:
        self._broker.stop()

    def round(self, chance: random.Random, counts: Counter[str]) -> None:
        """One run, and all that happens to its topic."""
        self._rounds += 1
        Log(self._broker, f"t{self._rounds}", emptied(self._directory / "round"), chance, counts).round()


class Log:
    """A topic of one partition, a run that reads it, and how many records it must have counted."""

    def __init__(
        self, broker: LocalBroker, topic: str, directory: Path, chance: random.Random, counts: Counter[str]
    ) -> None:
        self._broker = broker
        self._topic = topic
        self._directory = directory
        self._chance = chance
        self._counts = counts
        self._end = 0
        self._expected = 0
        self._running: Engine | None = None
        self._done: list[str] = []
        self._create()

    def round(self) -> None:
        """Some records, and what happens to them, again and again; the run is up or down meanwhile."""
        attacks: dict[str, Callable[[], None]] = {
            "cut": self._cut,
            "recreated": self._recreate,
            "broker restarted": self._broker.restart,
            "nothing": lambda: None,
        }
        try:
            self._write()
            self._start()
            for _ in range(STEPS):
                self._expect_read()
                is_up = self._chance.random() < 0.6
                if not is_up:
                    self._kill()
                name = self._chance.choices(list(attacks), (6, 2, 2, 1))[0]
                self._done.append(f"{name}{'' if is_up else ' while the run is down'}")
                attacks[name]()
                self._counts[self._done[-1]] += 1
                self._write()
                if not is_up:
                    self._start()
            self._expect_read()
        finally:
            self._kill()

    def _start(self) -> None:
        arguments = [sys.executable, "-m", "wmtop.tui.cli", "run", "kafka", self._broker.bootstrap, self._topic]
        options = ["--reader", "python", "--state-dir", str(self._directory / "state"), "--json", *QUICK_OPTIONS]
        self._running = Engine([*arguments, *options], self._directory / "errors")

    def _kill(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            os.kill(running.process.pid, signal.SIGKILL)
            running.kill()

    def _expect_read(self) -> None:
        """All records are counted, and no more come."""
        assert self._running is not None
        what = f"{'; '.join(self._done) or 'at first'}: {self._expected} records"
        try:
            self._running.read(self._expected)
            time.sleep(1.5)
            line: dict[str, Any] = self._running.read(self._expected)
        except AssertionError as error:
            expect(False, f"{what}: {str(error)[:2_000]}")
            raise
        expect(line["totals"]["records"] == self._expected, f"{what}, but {line['totals']}; {line['notes']}")
        said = self._running.said()
        expect("Traceback" not in said, f"{what}: {said[-1_500:]}")

    def _write(self) -> None:
        """Some records, one a batch."""
        producer: Any = KafkaProducer(bootstrap_servers=self._broker.bootstrap)
        for _ in range(self._chance.randint(1, 30)):
            producer.send(self._topic, b"{}", partition=0, timestamp_ms=NOON_MS + self._expected).get()
            self._end += 1
            self._expected += 1
        producer.close()

    def _cut(self) -> None:
        self._end = self._chance.randrange(self._end)
        cut(self._broker, self._topic, self._end)

    def _recreate(self) -> None:
        admin: Any = KafkaAdminClient(bootstrap_servers=self._broker.bootstrap)
        admin.delete_topics([self._topic])
        while self._topic in admin.list_topics():
            time.sleep(0.05)
        admin.close()
        self._end = 0
        self._create()

    def _create(self) -> None:
        admin: Any = KafkaAdminClient(bootstrap_servers=self._broker.bootstrap)
        wanted = {"num_partitions": 1, "replication_factor": 1}
        admin.create_topics({self._topic: wanted}, wait_for_metadata=True)
        admin.close()
