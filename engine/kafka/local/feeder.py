"""Replays a file of events into a Kafka topic at its own pace, times a factor, as a live demo.

Event times go into the payload, as they are in the file: watermark, lateness and late counts depend only on them, and
shifted or scaled event times would distort them. The record timestamp is the current time: the broker's retention goes
by it and would delete records that claim to be years old.

Run as a process (`feeder_command`) it ends at its file's end, and at once when its standard input closes.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# (Arrow's types are known in part only.)

import contextlib
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from time import monotonic
from typing import Any, Self

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError, TopicAlreadyExistsError
from msgspec import Struct

from ...errors import RunError, UsageError, first_line

Row = dict[str, Any]

_CLIENT: dict[str, Any] = {
    "client_id": "wmtop-feeder",
    "bootstrap_timeout_ms": 10_000,
    "request_timeout_ms": 10_000,
    "reconnect_backoff_max_ms": 1_000,
}
_DELIVERY_MS = 30_000
"""How long the broker may be away, as in a restart, before that is an error."""
_BLOCK_MS = 10_000
_LINGER_MS = 10
_BATCH_BYTES = 131_072
_TIMES = pa.timestamp("ms", "UTC")
_ON_THE_WAY = 10_000
"""How many records may be unacknowledged: kafka-python itself would take any number."""
_CHUNK = 1_000
_EARLY_S = 0.02
"""A record that is due within this is sent now: one wait for many."""
_SETTLE_S = 0.005
_REPORT_S = 60.0
_GIVE_UP_S = 5.0


class Feed(Struct, frozen=True, kw_only=True):
    """What is sent where: the rows of a Parquet file to a topic, which is created if it does not exist."""

    bootstrap: str
    topic: str
    file: str
    time: str
    """The column of event times; `arrival` that of arrival times, `channel` that of the records' keys."""
    arrival: str
    channel: str
    partitions: int = 1
    speed: float | None = None
    """Seconds of arrival time a second; None: as fast as possible."""
    start_ms: int | None = None
    """What arrived before (epoch ms) is left out."""


def feed(job: Feed, stop: threading.Event, report: Callable[[str], None]) -> int:
    """Send the rows in order of arrival, as JSON; how many the broker has taken.

    A channel stays in one partition. Ends early when `stop` is set. UsageError for unusable input or no broker,
    RunError where the broker stops taking records.
    """
    rows = _load(job)
    partition_of = _partition_of(rows.column(job.channel), job.partitions)
    if job.start_ms is not None:
        rows = rows.filter(pc.greater_equal(rows.column(job.arrival), pa.scalar(job.start_ms, _TIMES)))
    _make_topic(job)
    report(f"feeding {rows.num_rows:,} records to {job.topic}")
    encode = msgspec.json.Encoder().encode
    reported = monotonic()
    with _in_one_line(job.bootstrap), _Producer(job, stop) as producer:
        for row in _paced(rows, job, stop):
            name = row[job.channel]
            producer.send(partition_of.get(name, 0), None if name is None else str(name).encode(), encode(row))
            if monotonic() - reported > _REPORT_S:
                reported, arrived = monotonic(), row[job.arrival]
                report(f"{producer.sent:,} of {rows.num_rows:,} records sent, arrival {arrived:%Y-%m-%d %H:%M}")
        producer.settle_all()
        report(f"{producer.sent:,} of {rows.num_rows:,} records sent")
        return producer.sent


def feeder_command(job: Feed) -> list[str]:
    """What runs `feed` as a process of its own; give it a pipe as standard input, and it ends with its parent."""
    return [sys.executable, "-P", "-m", __name__, msgspec.json.encode(job).decode()]


class _Producer:
    """Sends to one topic; tracks what the broker has not acknowledged yet, and bounds it."""

    def __init__(self, job: Feed, stop: threading.Event) -> None:
        self._topic = job.topic
        self._stop = stop
        self._open: deque[Any] = deque()
        self.sent = 0
        """How many records the broker has acknowledged."""
        self._producer: Any = KafkaProducer(
            **_CLIENT,
            bootstrap_servers=job.bootstrap.split(","),
            delivery_timeout_ms=_DELIVERY_MS,
            max_block_ms=_BLOCK_MS,
            batch_size=_BATCH_BYTES,
            linger_ms=_LINGER_MS,
            allow_auto_create_topics=False,
        )

    def send(self, partition: int, key: bytes | None, value: bytes) -> None:
        """Send a record; waits while too many are on the way. Raises the error of one that did not get there."""
        self._open.append(self._producer.send(self._topic, value, key, partition=partition))
        self._settle_to(_ON_THE_WAY)

    def settle_all(self) -> None:
        """Wait until the broker has acknowledged everything, or `stop` is set."""
        self._settle_to(0)

    def _settle_to(self, most: int) -> None:
        self._settle()
        while len(self._open) > most and not self._stop.wait(_SETTLE_S):
            self._settle()

    def _settle(self) -> None:
        while self._open and self._open[0].is_done:
            self._open.popleft().get()
            self.sent += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._producer.close(timeout=1)
        except KafkaError:
            # What is not acknowledged by now is given up; kafka-python itself would leave its thread waiting for it.
            self._producer._sender.force_close()
            self._producer._sender.join(_GIVE_UP_S)
            with contextlib.suppress(KafkaError):
                self._producer.close(timeout=0)


def _load(job: Feed) -> pa.Table:
    """The rows in a stable order of arrival, without those that have none; all times in ms UTC."""
    try:
        table = pq.read_table(job.file)
    except (OSError, pa.ArrowInvalid) as error:
        raise UsageError(f"{job.file} cannot be read as Parquet: {first_line(error)}", code="no_parquet") from None
    for name in (job.time, job.arrival, job.channel):
        if name not in table.column_names:
            raise UsageError(
                f"{job.file} has no column '{name}': it has {', '.join(table.column_names)}", code="no_column"
            )
    if not pa.types.is_timestamp(table.column(job.arrival).type):
        raise UsageError(
            f"{job.file}: column '{job.arrival}' holds no timestamps, which the order of arrival needs",
            code="no_arrival",
        )
    for index, name in enumerate(table.column_names):
        if pa.types.is_timestamp(table.column(index).type):
            table = table.set_column(index, name, table.column(index).cast(_TIMES, safe=False))
    table = table.filter(pc.is_valid(table.column(job.arrival)))
    return table.take(pc.sort_indices(table.column(job.arrival)))


def _partition_of(channels: "pa.ChunkedArray[Any]", partitions: int) -> dict[Any, int]:
    """Each channel's partition: its index in the order of all the file's names, in turns."""
    names: list[Any] = pc.unique(channels.drop_null()).to_pylist()
    return {name: index % partitions for index, name in enumerate(sorted(names))}


def _make_topic(job: Feed) -> None:
    """Make the topic, or see that the one that is there has as many partitions."""
    with _in_one_line(job.bootstrap, UsageError):
        admin: Any = KafkaAdminClient(**_CLIENT, bootstrap_servers=job.bootstrap.split(","))
    with contextlib.closing(admin), _in_one_line(job.bootstrap):
        wanted = {"num_partitions": job.partitions, "replication_factor": 1, "configs": {"retention.ms": "-1"}}
        try:
            admin.create_topics({job.topic: wanted}, wait_for_metadata=True)
        except TopicAlreadyExistsError:
            [found] = admin.describe_topics([job.topic])
            if len(found["partitions"]) != job.partitions:
                raise UsageError(
                    f"topic {job.topic} already exists, with {len(found['partitions'])} partitions instead of "
                    f"{job.partitions}; choose another topic",
                    code="other_partitions",
                ) from None


def _paced(rows: pa.Table, job: Feed, stop: threading.Event) -> Iterator[Row]:
    """The rows, each when it is due: the first one now. Ends early when `stop` is set."""
    began = monotonic()
    first: Any = None
    for offset in range(0, rows.num_rows, _CHUNK):
        for row in rows.slice(offset, _CHUNK).to_pylist():
            first = first or row[job.arrival]
            if job.speed is not None:
                wait_s = (row[job.arrival] - first).total_seconds() / job.speed - (monotonic() - began)
                if wait_s > _EARLY_S:
                    stop.wait(wait_s)
            if stop.is_set():
                return
            yield row


@contextlib.contextmanager
def _in_one_line(bootstrap: str, kind: type[UsageError | RunError] = RunError) -> Generator[None]:
    """What kafka-python raises becomes one line."""
    try:
        yield
    except (KafkaError, OSError, ValueError) as error:
        what, code = (
            ("no Kafka broker answers at", "no_broker")
            if kind is UsageError
            else ("cannot send records to the Kafka broker at", "not_sent")
        )
        raise kind(f"{what} {bootstrap}: {first_line(error)}", code=code) from None


def _stop_with_standard_input(stop: threading.Event) -> None:
    while os.read(0, 1):
        pass
    stop.set()


def main() -> int:
    """Feed until the end of the file, of standard input, or a TERM or INT; the exit code."""
    job = msgspec.json.decode(sys.argv[1], type=Feed)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: stop.set())
    threading.Thread(target=_stop_with_standard_input, args=(stop,), daemon=True).start()
    try:
        feed(job, stop, lambda text: print(text, flush=True))
    except (UsageError, RunError) as error:
        print(f"wmtop: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
