"""From a record in Kafka to the picture that has it: 1,000 records/s, both readers (goal: p95 under 0.5 s).

A producer here sends records that carry the time at which they are sent; `wmtop run kafka --json` in a child process
prints each snapshot. A record is shown by the first snapshot whose channel has its time. The way from a snapshot to a
painted screen, which comes on top, is `screen`'s.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient
from wmtop.engine.kafka.local_broker import LocalBroker

from tests.kafka.connector import connector_jars

from .machine import scratch

PARTITIONS, EVERY_S, WARM_UP_S, MEASURED_S = 4, 0.001, 20, 30


class Sender(threading.Thread):
    """Sends a record a millisecond until `stop` is set; what it has sent is in `sent`."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._producer: Any = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=5)
        self._topic = topic
        self.stop = threading.Event()
        self.sent: list[tuple[str, int]] = []
        """Channel and time (ms) of each record."""

    def run(self) -> None:
        """Send on schedule: what was missed while the machine was busy is sent at once."""
        began = time.time()
        while not self.stop.wait(EVERY_S):
            for number in range(len(self.sent), int((time.time() - began) / EVERY_S)):
                partition, now_ms = number % PARTITIONS, time.time_ns() // 1_000_000
                self._producer.send(self._topic, b"x" * 100, partition=partition, timestamp_ms=now_ms)
                self.sent.append((str(partition), now_ms))
        self._producer.close()


def latencies_ms(bootstrap: str, topic: str, reader: str) -> list[float]:
    """How long after its time each record of the measured seconds is in a snapshot."""
    admin: Any = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics({topic: {"num_partitions": PARTITIONS, "replication_factor": 1}}, wait_for_metadata=True)
    admin.close()
    jars = ",".join(map(str, connector_jars()))
    command = [sys.executable, "-m", "wmtop.tui.cli", "run", "kafka", bootstrap, topic, "--reader", reader]
    engine = subprocess.Popen([*command, "--jars", jars, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert engine.stdout is not None
    sender = Sender(bootstrap, topic)
    sender.start()
    shown: dict[str, list[tuple[int, float]]] = {str(number): [] for number in range(PARTITIONS)}
    measured_from = None
    for line in engine.stdout:
        now_ms = time.time() * 1000
        snapshot = json.loads(line)
        if snapshot["totals"]["records"] and measured_from is None:
            measured_from = now_ms + WARM_UP_S * 1000
        for channel in snapshot["channels"]:
            if channel["max_event_ms"] is not None:
                shown[channel["channel"].rpartition("-")[2]].append((channel["max_event_ms"], now_ms))
        if measured_from is not None and now_ms > measured_from + (MEASURED_S + 2) * 1000:
            break
    engine.terminate()
    sender.stop.set()
    engine.stdout.read()
    engine.wait()
    sender.join()
    assert measured_from is not None
    until = measured_from + MEASURED_S * 1000
    found: list[float] = []
    for channel, sent_ms in sender.sent:
        if measured_from <= sent_ms < until:
            found.append(next(at_ms for event_ms, at_ms in shown[channel] if event_ms >= sent_ms) - sent_ms)
    return found


def main() -> None:
    """Print the table."""
    print("| reader | records | p50 | p95 | max |\n| --- | --- | --- | --- | --- |")
    with scratch(), tempfile.TemporaryDirectory() as path, LocalBroker(Path(path)) as broker:
        for reader in ("connector", "python"):
            found = sorted(latencies_ms(broker.bootstrap, f"live-{reader}", reader))
            p95 = found[int(len(found) * 0.95)]
            print(
                f"| {reader} | {len(found)} | {statistics.median(found):.0f} ms | {p95:.0f} ms | {found[-1]:.0f} ms |",
                flush=True,
            )


if __name__ == "__main__":
    main()
