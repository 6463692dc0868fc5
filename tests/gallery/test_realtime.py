"""Real-time mode, on a real broker: what attach says of it while it runs, against what Spark told the job itself."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient
from wmtop.engine.doctor import diagnose
from wmtop.engine.feed.run_directory import RUN_DIR_VARIABLE
from wmtop.engine.kafka.local_broker import LocalBroker
from wmtop.engine.snapshot import Snapshot, SourceView
from wmtop.engine.targets.spark.reports import list_published
from wmtop.engine.targets.spark.watch import QueryWatch

from ..conftest import job_environment
from ..kafka.connector import connector_jars
from ..targets.spark.jobs import attach

pytestmark = pytest.mark.matrix
START_S = 1_700_000_000
STEPS = ([(1, 0), (2, 1), (9, 0), (40, 0)], [(3, 0), (3, 1), (4, 1), (40, 1), (41, 0)], [(41, 0)])
"""Seconds and partition; the last row is as old as the watermark of the query with a delay of 0."""
NAMES = ("windows", "dedup", "plain")
PATIENCE_S = 300


class Seen(NamedTuple):
    """What attach said of each query while it ran, by where it looked, and what Spark told the job up to then."""

    by_log: dict[str, Snapshot]
    by_checkpoint: dict[str, Snapshot]
    """Each at the same moment as by event log: while a batch runs."""
    by_publish: dict[str, Snapshot]
    early: dict[str, Snapshot]
    """What is said of the windows in their first batch, by where it looked."""
    held: Snapshot
    """By `publish`, of a query in micro-batches that waits for more records than there are."""
    truth: dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    directory = tmp_path_factory.mktemp("realtime")
    (directory / "log").mkdir()
    with LocalBroker(tmp_path_factory.mktemp("kafka")) as broker, pytest.MonkeyPatch.context() as patch:
        patch.setenv(RUN_DIR_VARIABLE, str(directory / "run"))
        admin: Any = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        topics = {name: {"num_partitions": 2, "replication_factor": 1} for name in NAMES}
        admin.create_topics(topics | {f"{name}-out": topics[name] for name in NAMES} | {"held": topics[NAMES[0]]})
        admin.close()
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
        producer.send("held", b"{}", partition=0).get()
        jars = ",".join(map(str, connector_jars()))
        command = [sys.executable, "-m", "tests.gallery.realtime_job", directory, broker.bootstrap, jars]
        environment = os.environ | job_environment()
        environment.pop("PYTHONSAFEPATH", None)
        with (directory / "stderr").open("w") as stderr:
            job = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=environment, text=True,
                cwd=Path(__file__).parents[2],
            )  # fmt: skip
        try:
            yield watch(job, directory, producer)
        finally:
            job.kill()
            job.wait()


def watch(job: "subprocess.Popen[str]", directory: Path, producer: KafkaProducer) -> Seen:
    """Rows; then, each time after batches without any, rows that are late, and a look."""
    wait_for(job, directory, lambda: (directory / "windows" / "metadata").exists() and list_published())
    early = {"checkpoint": by_checkpoint_alone(directory / "windows"), "publish": attach("windows")}
    assert commits(directory, "windows") < 0
    wait_for(job, directory, lambda: commits(directory, "held") == 0)
    total = 0
    for rows in STEPS:
        for seconds, partition in rows:
            for name in (*NAMES, "held"):
                producer.send(name, json.dumps({"t": START_S + seconds}).encode(), partition=partition)
        producer.flush()
        total += len(rows)
        wait_for(job, directory, lambda total=total: all(read(directory, name) == total for name in NAMES))
        marks = {name: commits(directory, name) for name in NAMES}
        wait_for(job, directory, lambda marks=marks: all(commits(directory, n) > marks[n] + 1 for n in NAMES))
    [log] = (directory / "log").iterdir()
    pairs = {name: in_flight(log, directory, name) for name in NAMES}
    by_publish = {name: attach(name) for name in NAMES}
    held = attach("held")
    out, _ = job.communicate("\n", timeout=PATIENCE_S)
    by_log, by_checkpoint = ({name: pair[place] for name, pair in pairs.items()} for place in (0, 1))
    return Seen(by_log, by_checkpoint, by_publish, early, held, json.loads(out))


def in_flight(log: Path, directory: Path, name: str) -> tuple[Snapshot, Snapshot]:
    """A look by event log while a batch runs, and by checkpoint before that batch has ended."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        shown = attach(log, "--query", name)
        stored = by_checkpoint_alone(directory / name)
        if shown.spark.in_flight and not (directory / name / "offsets" / str(shown.batch)).exists():
            return shown, stored
        assert time.monotonic() < deadline


def by_checkpoint_alone(checkpoint: Path) -> Snapshot:
    """A look that finds no job that publishes; at once, as a process would not be."""
    watch = QueryWatch(SourceView("checkpoint", str(checkpoint)), checkpoint=checkpoint)
    with pytest.MonkeyPatch.context() as patch, closing(watch):
        patch.setenv(RUN_DIR_VARIABLE, str(checkpoint.parent / "empty"))
        watch.open()
        return watch.picture(checkpoint.name, watch.poll(), time.time_ns() // 1_000_000).snapshot


def wait_for(job: "subprocess.Popen[str]", directory: Path, look: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not look():
        assert job.poll() is None, (directory / "stderr").read_text()[-4000:]
        assert time.monotonic() < deadline, (directory / "stderr").read_text()[-4000:]
        time.sleep(0.2)


def commits(directory: Path, name: str) -> int:
    """The last committed batch."""
    path = directory / name / "commits"
    return max((int(entry) for entry in os.listdir(path) if entry.isdigit()), default=-1) if path.exists() else -1


def read(directory: Path, name: str) -> int:
    """The records that committed batches have read."""
    last = commits(directory, name)
    if last < 0:
        return 0
    offsets: dict[str, int] = json.loads((directory / name / "offsets" / str(last)).read_text().splitlines()[-1])[name]
    return sum(offsets.values())


def test_the_batch_in_flight_is_the_one_after_the_last_that_was_reported(seen: Seen) -> None:
    for name, shown in seen.by_log.items():
        assert (shown.state, shown.spark.in_flight, shown.spark.real_time_ms) == ("live", True, 5_000), name
        reported = [one for one in seen.truth[name] if one["batchId"] == (shown.batch or 0) - 1]
        assert reported, name
        assert shown.spark.batch_timestamp_ms is not None
        assert 0 <= (shown.now_ms or 0) - shown.spark.batch_timestamp_ms < 60_000
    for name, shown in seen.by_publish.items():
        assert (shown.state, shown.spark.real_time_ms) == ("live", 5_000), name
        committed = shown.batch if not shown.spark.in_flight else (shown.batch or 0) - 1
        assert committed in [one["batchId"] for one in seen.truth[name]]


def test_a_checkpoint_has_no_batch_before_the_first_one_ends(seen: Seen) -> None:
    stored, published = seen.early["checkpoint"], seen.early["publish"]
    assert (stored.state, stored.batch, stored.notes[0].code) == ("stale", None, "no_batch")
    assert (published.state, published.batch) == ("live", None)
    assert published.notes[0].code == "no_batch_ended"


def test_the_offsets_of_a_batch_are_written_at_its_end(seen: Seen) -> None:
    """So a checkpoint shows the last batch that has ended while the event log shows the one that runs."""
    for name, stored in seen.by_checkpoint.items():
        assert seen.by_log[name].spark.in_flight
        ended = (seen.by_log[name].batch or 0) - 1
        assert (stored.state, stored.spark.in_flight, stored.batch) == ("live", False, ended), name


def test_what_a_micro_batch_waits_for_more_of_is_unread(seen: Seen) -> None:
    """`minOffsetsPerTrigger`: all but the record that was there at its start."""
    unread = sum(map(len, STEPS))
    assert [source.backlog for source in seen.held.sources or ()] == [unread]
    assert [note.args for note in seen.held.notes if note.code == "query_idle"] == [{"unread": unread}]


def test_operators_output_mode_and_the_watermark(seen: Seen) -> None:
    for by in (seen.by_log, seen.by_publish):
        windows, dedup, plain = (by[name] for name in NAMES)
        assert [one.spark.output_mode for one in (windows, dedup, plain)] == ["update"] * 3
        [operator] = windows.spark.operators or []
        assert (operator.kind, operator.windowed, operator.evicts) == ("aggregation", True, True)
        assert windows.level.watermark_ms == (START_S + 41 - 5) * 1000
        assert dedup.level.watermark_ms == (START_S + 41) * 1000
        assert plain.spark.has_watermark is False


def test_dropped_rows_are_counted_one_by_one(seen: Seen) -> None:
    """Three rows of one window are late: in real-time mode nothing is aggregated before they are counted."""
    for by in (seen.by_log, seen.by_publish):
        assert (by["windows"].spark.dropped_at_least, by["windows"].spark.dropped_exact) == (3, True)
        assert (by["dedup"].spark.dropped_at_least, by["dedup"].spark.dropped_exact) == (5, True)


def test_delay_0_drops_rows_equal_to_the_watermark_of_drop_duplicates(seen: Seen) -> None:
    shown = seen.by_publish["dedup"]
    [finding] = [one for one in diagnose(shown, ()) if one.code == "zero-delay"]
    assert finding.evidence[-1] == "5 rows dropped so far, at least 1 of them with exactly the watermark's time"


def test_batches_without_data_are_no_progress_of_the_input(seen: Seen) -> None:
    """The last batches had no rows: the query is idle, and nothing is unread."""
    for by in (seen.by_log, seen.by_publish):
        for name in NAMES:
            rows = {one["batchId"]: one["numInputRows"] for one in seen.truth[name]}
            assert rows[(by[name].batch or 0) - 1] == 0
            assert [source.backlog for source in by[name].sources or ()] == [0]
            assert "query_idle" in [note.code for note in by[name].notes]


def test_the_tap_and_spark_agree_on_what_is_late(seen: Seen) -> None:
    for by in (seen.by_log, seen.by_publish):
        barrel = by["windows"].barrel
        assert barrel is not None
        assert barrel.watermark_ms == (START_S + 40 - 5) * 1000
        assert by["windows"].totals.records == 10
