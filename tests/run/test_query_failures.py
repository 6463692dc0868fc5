"""A failed query: when it starts again, and what the user reads where it does not."""

import errno
import os
from pathlib import Path

import pytest
from wmtop.engine.kafka.log_guard import LogGuard
from wmtop.engine.kafka.probe import LookAhead, TakeNote
from wmtop.engine.run.jvm import QueryFailures, reason_of
from wmtop.engine.run.sources.kafka_progress import KafkaProgress
from wmtop.engine.system.errors import RunError

JAVA = """An error occurred while calling o1.start.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times
Caused by: java.lang.IllegalStateException: the partition t-0 is gone
\tat org.apache.spark.sql.kafka010.KafkaSourceRDD.compute(KafkaSourceRDD.scala:1)"""


class Retries:
    """Starts again 2 s after the first failure, 4 s after the second, and so on; gives up after the third."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, str]] = []

    def retry_after_s(self, failures: int, why: str) -> float | None:
        self.asked.append((failures, why))
        return None if failures > 3 else 2.0 * failures


class Clock:
    """Seconds that pass only when they are asked to."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_query_starts_again_once_after_the_pause_of_its_source() -> None:
    clock, retries = Clock(), Retries()
    failures = QueryFailures(retries.retry_after_s, Path("checkpoint"), clock)
    error = RuntimeError(JAVA)
    due: list[float] = []
    for tenth in range(30):
        clock.now_s = 100 + tenth / 10
        if failures.is_restart_due(error):
            due.append(clock.now_s)
            break
    assert due == [102.0]
    assert retries.asked == [(1, "the partition t-0 is gone")], "once a failure, not once a look"


def test_the_pause_grows_until_a_batch_is_applied_and_then_it_stays_failed() -> None:
    clock, retries = Clock(), Retries()
    failures = QueryFailures(retries.retry_after_s, Path("checkpoint"), clock)

    def fail() -> None:
        assert not failures.is_restart_due(RuntimeError("gone"))
        clock.now_s += 100
        assert failures.is_restart_due(RuntimeError("gone"))

    fail()
    fail()
    failures.batch_applied()
    fail()
    fail()
    fail()
    with pytest.raises(RunError, match=r"^gone$"):
        failures.is_restart_due(RuntimeError("gone"))
    assert [count for count, _ in retries.asked] == [1, 2, 1, 2, 3, 4]


def test_a_source_that_cannot_try_again_fails_with_the_reason_of_its_last_read() -> None:
    failures = QueryFailures(None, Path("checkpoint"))
    failures.read_error = OSError("the file is cut")
    with pytest.raises(RunError, match=r"^the file is cut$"):
        failures.is_restart_due(RuntimeError(JAVA))


def test_a_full_disk_names_the_directory() -> None:
    failures = QueryFailures(None, Path("/state/checkpoint"))
    full = f"java.io.IOException: {os.strerror(errno.ENOSPC)}"
    with pytest.raises(RunError, match=r"/state/checkpoint.*free some space"):
        failures.is_restart_due(RuntimeError(full))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (JAVA, "the partition t-0 is gone"),
        ("Traceback (most recent call last):\n  File x\nValueError: bad", "bad"),
        ("\n\n  plain  \nmore", "plain"),
        ("", "RuntimeError"),
    ],
)
def test_the_reason_of_an_error_is_one_line(text: str, reason: str) -> None:
    assert reason_of(RuntimeError(text)) == reason


def test_a_kafka_source_tries_again_for_as_long_as_its_cluster_does_not_answer() -> None:
    """With longer and longer pauses, and one note; a cluster that answers gets three tries."""
    notes: list[str] = []
    note: TakeNote = lambda code, **args: notes.append(code)  # noqa: E731
    guard = LogGuard(lambda: Path("/nonexistent"))
    ahead: LookAhead = lambda cluster, ends: None  # noqa: E731
    retries = KafkaProgress(["t"], note, ahead, channels_are_partitions=True, once=False, guard=guard)
    assert [retries.retry_after_s(failures, "refused") for failures in range(1, 5)] == [1, 2, 4, None]
    retries.silent_since = 0.0
    assert [retries.retry_after_s(failures, "refused") for failures in range(1, 8)] == [1, 2, 4, 8, 8, 8, 8]
    assert notes == ["read_failed", "read_failed"]
