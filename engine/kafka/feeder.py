"""Replays a file of events into a Kafka topic at its own pace, times a factor, as a live demo.

Event times go into the payload unchanged, because watermark, lateness and late counts depend only on them. The record
timestamp is the current time: the broker's retention would delete records with timestamps that are years old.

As a process (`feeder_command`) it ends at its file's end, and at once when its standard input closes: what is not
acknowledged then is given up. `hold 1` on its standard input keeps the records of partition 1 back, until `release 1`.
"""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# (pyarrow is only partly typed.)

import contextlib
import signal
import sys
from collections import deque
from collections.abc import Callable, Container, Generator, Iterator
from time import monotonic, sleep
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError, TopicAlreadyExistsError
from msgspec import Struct

from ..system.child import obey
from ..system.errors import RunError, UsageError, first_line

Row = dict[str, Any]

_CLIENT: dict[str, Any] = {
    "client_id": "wmtop-feeder",
    "bootstrap_timeout_ms": 10_000,
    "request_timeout_ms": 10_000,
    "reconnect_backoff_max_ms": 1_000,
}
_DELIVERY_MS = 30_000
"""Longest absence (ms) of the broker, as in a restart, before that is an error."""
_BLOCK_MS = 10_000
_LINGER_MS = 10
_BATCH_BYTES = 131_072
_TIMES = pa.timestamp("ms", "UTC")
_ON_THE_WAY = 10_000
"""Unacknowledged records, at most: kafka-python itself has no limit."""
_CHUNK = 1_000
_EARLY_S = 0.02
"""Records due within this time (s) are sent at once: one wait for many."""


class Feed(Struct, frozen=True, kw_only=True):
    """What to send where: the rows of a Parquet file to a topic, which is created if it does not exist."""

    bootstrap: str
    topic: str
    file: str
    time: str
    """The column of event times; `arrival`: of arrival times; `channel`: of the records' keys."""
    arrival: str
    channel: str
    partitions: int = 1
    speed: float | None = None
    """Seconds of arrival time per second; None: as fast as possible."""
    start_ms: int | None = None
    """Rows that arrived before (epoch ms) are left out."""


def feed(job: Feed, report: Callable[[str], None], held: Container[int] = ()) -> int:
    """Send the rows in order of arrival, as JSON; returns how many the broker acknowledged.

    A channel stays in one partition; records of a `held` partition wait until it is not held. UsageError for unusable
    input or no broker, RunError if the broker stops accepting records.
    """
    rows = _load(job)
    names: list[Any] = pc.unique(rows.column(job.channel).drop_null()).to_pylist()
    partition_of = {name: index % job.partitions for index, name in enumerate(sorted(names))}
    if job.start_ms is not None:
        rows = rows.filter(pc.greater_equal(rows.column(job.arrival), pa.scalar(job.start_ms, _TIMES)))
    make_topic(job.bootstrap, job.topic, job.partitions)
    report(f"feeding {rows.num_rows:,} records to {job.topic}")
    encode = msgspec.json.Encoder().encode
    sent = 0
    on_the_way: deque[Any] = deque()
    with _in_one_line(job.bootstrap), _producer(job.bootstrap) as producer:
        placed = ((partition_of.get(row[job.channel], 0), row) for row in _paced(rows, job))
        for partition, row in _released(placed, held):
            name = row[job.channel]
            key = None if name is None else str(name).encode()
            on_the_way.append(producer.send(job.topic, encode(row), key, partition=partition))
            while on_the_way and (on_the_way[0].is_done or len(on_the_way) > _ON_THE_WAY):
                on_the_way.popleft().get()  # raises the error of a record that failed
                sent += 1
        for record in on_the_way:
            record.get()
            sent += 1
    report(f"{sent:,} of {rows.num_rows:,} records sent")
    return sent


def feeder_command(job: Feed) -> list[str]:
    """The command that runs `feed` as a process; with a pipe as standard input it ends with its parent."""
    return [sys.executable, "-P", "-m", __name__, msgspec.json.encode(job).decode()]


@contextlib.contextmanager
def _producer(bootstrap: str) -> Generator[Any]:
    producer: Any = KafkaProducer(
        **_CLIENT,
        bootstrap_servers=bootstrap.split(","),
        delivery_timeout_ms=_DELIVERY_MS,
        max_block_ms=_BLOCK_MS,
        batch_size=_BATCH_BYTES,
        linger_ms=_LINGER_MS,
        allow_auto_create_topics=False,
    )
    try:
        yield producer
    finally:
        with contextlib.suppress(KafkaError):
            producer.close(timeout=1)


def _load(job: Feed) -> pa.Table:
    """The rows in a stable order of arrival, without rows that have no arrival time; all times in ms UTC."""
    try:
        table = pq.read_table(job.file)
    except (OSError, pa.ArrowInvalid) as error:
        raise UsageError(f"{job.file} cannot be read as Parquet: {first_line(error)}", code="no_parquet") from None
    for index, name in enumerate(table.column_names):
        if pa.types.is_timestamp(table.column(index).type):
            table = table.set_column(index, name, table.column(index).cast(_TIMES, safe=False))
    table = table.filter(pc.is_valid(table.column(job.arrival)))
    return table.take(pc.sort_indices(table.column(job.arrival)))


def make_topic(bootstrap: str, topic: str, partitions: int) -> None:
    """Create a topic that keeps its records, or check that the existing one has as many partitions."""
    with _in_one_line(bootstrap, UsageError):
        admin: Any = KafkaAdminClient(**_CLIENT, bootstrap_servers=bootstrap.split(","))
    with contextlib.closing(admin), _in_one_line(bootstrap):
        settings = {"num_partitions": partitions, "replication_factor": 1, "configs": {"retention.ms": "-1"}}
        try:
            admin.create_topics({topic: settings}, wait_for_metadata=True)
        except TopicAlreadyExistsError:
            [existing] = admin.describe_topics([topic])
            if len(existing["partitions"]) != partitions:
                raise UsageError(
                    f"topic {topic} already exists, with {len(existing['partitions'])} partitions instead of "
                    f"{partitions}; choose another topic",
                    code="other_partitions",
                ) from None


def _paced(rows: pa.Table, job: Feed) -> Iterator[Row]:
    """The rows, each when it is due, the first one now."""
    began = monotonic()
    first: Any = None
    for offset in range(0, rows.num_rows, _CHUNK):
        for row in rows.slice(offset, _CHUNK).to_pylist():
            first = first or row[job.arrival]
            if job.speed is not None:
                wait_s = (row[job.arrival] - first).total_seconds() / job.speed - (monotonic() - began)
                if wait_s > _EARLY_S:
                    sleep(wait_s)
            yield row


def _released(rows: Iterator[tuple[int, Row]], held: Container[int]) -> Iterator[tuple[int, Row]]:
    """Rows with their partition, in their order; those of a held one once it is released and another row is due."""
    waiting: list[tuple[int, Row]] = []
    for row in rows:
        due, waiting = [*waiting, row], []
        for each in due:
            if each[0] in held:
                waiting.append(each)
            else:
                yield each
    yield from waiting


@contextlib.contextmanager
def _in_one_line(bootstrap: str, kind: type[UsageError | RunError] = RunError) -> Generator[None]:
    """Turn kafka-python's errors into one line."""
    try:
        yield
    except (KafkaError, OSError, ValueError) as error:
        text, code = (
            ("no Kafka broker answers at", "no_broker")
            if kind is UsageError
            else ("cannot send records to the Kafka broker at", "not_sent")
        )
        raise kind(f"{text} {bootstrap}: {first_line(error)}", code=code) from None


def main() -> int:
    """Feed until the end of the file or of standard input; returns the exit code."""
    job = msgspec.json.decode(sys.argv[1], type=Feed)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the parent, and so this process
    held: set[int] = set()

    def take(command: str) -> None:
        what, _, partition = command.partition(" ")
        (held.add if what == "hold" else held.discard)(int(partition))

    obey(take)
    try:
        feed(job, lambda text: print(text, flush=True), held)
    except (UsageError, RunError) as error:
        print(f"wmtop: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
