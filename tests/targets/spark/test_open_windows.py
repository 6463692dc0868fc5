"""Open windows read from state files: what Spark's own reader finds, key by key, or one line on why not."""

import os
import shutil
import signal
import struct
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from wmtop.engine.feed.messages import SnapshotLine
from wmtop.engine.run.state_reader import read_windows
from wmtop.engine.snapshot import WindowsUnknown
from wmtop.engine.targets.spark.checkpoint import CheckpointFacts, CheckpointTap
from wmtop.engine.targets.spark.open_windows import OpenWindows, OpenWindowsTap

from tests.snapshots import replace

from ...conftest import job_environment
from .written import State, Written, state_by_spark

Windows = dict[tuple[int, int], tuple[int, int]]
"""Keys and records by start and end (ms)."""
READ = ["counts", "purged", "types", "several", "checksummed", "uncounted", "chained", "restarted"]


def facts_of(written: Written, batch: int | None = None) -> CheckpointFacts:
    facts = CheckpointTap(written.path).poll()
    return facts if batch is None else replace(facts, committed=batch)


def windows_of(written: Written, batch: int | None = None) -> tuple[OpenWindows, ...]:
    return OpenWindowsTap(written.path).poll(facts_of(written, batch))


def only(found: tuple[OpenWindows, ...]) -> OpenWindows:
    [one] = found
    return one


def by_window(state: State) -> Windows:
    """The records of each window, and its keys, of what Spark's reader finds key by key."""
    counts: Windows = {}
    for (start_ms, end_ms, _), records in state.items():
        keys, so_far = counts.get((start_ms, end_ms), (0, 0))
        counts[start_ms, end_ms] = keys + 1, so_far + records
    return counts


def counted(found: OpenWindows) -> Windows:
    """The same of the windows that were read."""
    assert all(window.records is not None for window in found.windows)
    return {(window.start_ms, window.end_ms): (window.keys, window.records or 0) for window in found.windows}


@pytest.mark.parametrize("name", [name for name in READ if name != "uncounted"])
def test_every_window_is_as_spark_reads_it(written: dict[str, Written], spark: SparkSession, name: str) -> None:
    for found in windows_of(written[name]):
        expected = state_by_spark(spark, written[name], written[name].last, found.operator)
        assert found.reason is None
        assert counted(found) == by_window(expected)
        assert found.keys == len(expected) > 0
        assert found.open == len({key[:2] for key in expected})


@pytest.mark.parametrize("name", READ)
def test_rows_are_as_many_as_the_query_reports(written: dict[str, Written], name: str) -> None:
    reported = [operator["numRowsTotal"] for operator in written[name].progress[written[name].last]["stateOperators"]]
    assert [found.keys for found in windows_of(written[name])] == reported


def test_a_window_sums_its_keys_over_the_partitions(written: dict[str, Written]) -> None:
    found = only(windows_of(written["counts"]))
    assert len(found.windows) > 2
    for window in found.windows:
        assert window.end_ms - window.start_ms == 10_000
    assert [window.end_ms for window in found.windows] == sorted(window.end_ms for window in found.windows)


def test_after_every_batch_the_followed_state_is_the_one_read_afresh(
    written: dict[str, Written], spark: SparkSession
) -> None:
    follower = OpenWindowsTap(written["counts"].path)
    seen: set[tuple[int, int]] = set()
    for batch in range(written["counts"].last + 1):
        followed = only(follower.poll(facts_of(written["counts"], batch)))
        assert followed == only(windows_of(written["counts"], batch))
        assert followed.batch == batch
        seen |= {(window.start_ms, window.end_ms) for window in followed.windows}
    assert len(seen) > only(follower.poll(facts_of(written["counts"]))).open  # some were opened and closed
    middle = written["counts"].last // 2
    by_spark = by_window(state_by_spark(spark, written["counts"], middle))
    assert counted(only(windows_of(written["counts"], middle))) == by_spark


def test_snapshots_and_deltas_say_the_same(written: dict[str, Written], tmp_path: Path) -> None:
    expected = windows_of(written["counts"])
    deltas, snapshots = written["counts"].copy(tmp_path / "deltas"), written["counts"].copy(tmp_path / "snapshots")
    for path in deltas.path.glob("state/0/*/*.snapshot"):
        path.unlink()
    purge(snapshots)
    assert windows_of(deltas) == windows_of(snapshots) == expected


def test_a_purge_of_what_comes_next_is_survived(written: dict[str, Written], tmp_path: Path) -> None:
    copy = written["counts"].copy(tmp_path / "copy")
    tap = OpenWindowsTap(copy.path)
    assert only(tap.poll(facts_of(copy, 0))).batch == 0
    purge(copy)
    assert tap.poll(facts_of(copy)) == windows_of(written["counts"])


def test_state_of_a_batch_that_is_not_committed_is_not_looked_at(written: dict[str, Written], tmp_path: Path) -> None:
    copy = written["counts"].copy(tmp_path / "copy")
    last = copy.last
    (copy.path / "commits" / str(last)).unlink()
    found = only(windows_of(copy))
    assert found.batch == last - 1
    assert found == only(windows_of(written["counts"], last - 1)) != only(windows_of(written["counts"]))


def test_what_has_vanished_leaves_what_was_seen_before(written: dict[str, Written], tmp_path: Path) -> None:
    copy = written["counts"].copy(tmp_path / "copy")
    tap = OpenWindowsTap(copy.path)
    before = only(tap.poll(facts_of(copy, 3)))
    shutil.rmtree(copy.path / "state/0/1")
    reason = WindowsUnknown("vanished", {"why": "0/1 is not there"})
    assert only(tap.poll(facts_of(copy))) == replace(before, reason=reason)
    fresh = only(windows_of(copy))
    assert (fresh.windows, fresh.batch, fresh.reason) == ((), None, reason)


def test_another_query_in_the_same_directory_is_read_from_the_start(
    written: dict[str, Written], tmp_path: Path
) -> None:
    copy = written["counts"].copy(tmp_path / "copy")
    tap = OpenWindowsTap(copy.path)
    batch = written["purged"].last
    tap.poll(facts_of(copy, batch))
    shutil.rmtree(copy.path)
    written["purged"].copy(copy.path)
    assert tap.poll(facts_of(copy, batch)) == windows_of(written["purged"], batch)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("rocksdb", WindowsUnknown("state_store", {"name": "RocksDB"})),
        ("join", WindowsUnknown("no_windows", {"kind": "join"})),
        ("deduplicated", WindowsUnknown("no_windows", {"kind": "dedup"})),
        ("unwindowed", WindowsUnknown("no_time_window")),
    ],
)
def test_what_cannot_be_read_is_named(written: dict[str, Written], name: str, reason: WindowsUnknown) -> None:
    found = only(windows_of(written[name]))
    assert (found.reason, found.windows, found.open, found.keys) == (reason, (), 0, 0)


def test_state_that_does_not_say_whose_it_is_is_read_by_its_rows(written: dict[str, Written], tmp_path: Path) -> None:
    """As Spark before 4.0 writes it."""
    copy = written["uncounted"].copy(tmp_path / "copy")
    (copy.path / "state/0/_metadata/metadata").unlink()
    assert only(windows_of(copy)) == only(windows_of(written["uncounted"]))


def test_whether_rows_without_a_window_are_removed_is_known_only_of_a_recorded_kind(
    written: dict[str, Written], tmp_path: Path
) -> None:
    """Before Spark 4.0: `dropDuplicatesWithinWatermark` removes rows that carry no watermark."""
    copy = written["unwindowed"].copy(tmp_path / "copy")
    assert only(windows_of(copy)).evicts is False
    (copy.path / "state/0/_metadata/metadata").unlink()
    assert only(windows_of(copy)).evicts is None


def test_each_session_is_a_window_of_its_own(written: dict[str, Written], spark: SparkSession) -> None:
    found = only(windows_of(written["sessions"]))
    reader = spark.read.format("statestore").load(str(written["sessions"].path))
    edges = [F.unix_millis(f"value.session_window.{edge}") for edge in ("start", "end")]
    by_spark = sorted(tuple(row) for row in reader.select(*edges, "value.count").collect())
    assert sorted((window.start_ms, window.end_ms, window.records) for window in found.windows) == by_spark
    assert (found.kind, found.open, found.keys) == ("session", len(by_spark), len(by_spark))


def test_without_a_count_records_are_not_known(written: dict[str, Written]) -> None:
    found = only(windows_of(written["uncounted"]))
    assert [window.records for window in found.windows] == [None] * found.open
    assert sum(window.keys for window in found.windows) == found.keys > 0


def test_nothing_is_written_into_the_checkpoint(written: dict[str, Written], tmp_path: Path) -> None:
    copy = written["counts"].copy(tmp_path / "copy")

    def look() -> list[tuple[Path, int, int]]:
        return sorted((path, path.stat().st_mtime_ns, path.stat().st_size) for path in copy.path.rglob("*"))

    before = look()
    windows_of(copy)
    assert look() == before


@pytest.mark.parametrize("name", ["stateless", "plain"])
def test_a_stateless_query_has_no_operators(written: dict[str, Written], name: str) -> None:
    assert windows_of(written[name]) == ()


def test_before_the_first_commit_nothing_is_known(written: dict[str, Written], tmp_path: Path) -> None:
    copy = written["counts"].copy(tmp_path / "copy", last=0)
    (copy.path / "commits/0").unlink()
    assert only(windows_of(copy)).reason == WindowsUnknown("no_batch")


def test_too_many_keys_are_not_held(written: dict[str, Written]) -> None:
    keys = only(windows_of(written["counts"])).keys
    facts = facts_of(written["counts"])
    assert only(OpenWindowsTap(written["counts"].path, max_keys=keys * 10).poll(facts)).keys == keys
    tap = OpenWindowsTap(written["counts"].path, max_keys=keys - 1)
    assert only(tap.poll(facts)).reason == WindowsUnknown("too_many_keys", {"limit": keys - 1})
    assert only(tap.poll(replace(facts, committed=0))).keys == 0


CONF = "spark.sql.streaming.stateStore."
DEEP = b'{"fields":[{"name":"a","type":' + b"[" * 60_000
DEEP_SCHEMA = b"\0\2v2" + b"".join(struct.pack(">iH", 1, len(DEEP)) + DEEP for _ in range(2))


@pytest.mark.parametrize(
    ("conf", "reason"),
    [
        ({}, WindowsUnknown("settings_unreadable")),
        ({CONF + "encodingFormat": "avro"}, WindowsUnknown("state_encoding", {"name": "avro"})),
        ({CONF + "providerClass": "a.b.MyProvider"}, WindowsUnknown("state_store", {"name": "MyProvider"})),
        ({"spark.sql.shuffle.partitions": "2000000000"}, WindowsUnknown("partitions_unknown")),
        ({"spark.sql.shuffle.partitions": "many"}, WindowsUnknown("partitions_unknown")),
    ],
)
def test_settings_that_are_not_understood_are_named(
    written: dict[str, Written], conf: dict[str, str], reason: WindowsUnknown
) -> None:
    facts = facts_of(written["counts"])
    facts = replace(facts, conf=facts.conf | conf if conf else {})
    assert only(OpenWindowsTap(written["counts"].path).poll(facts)).reason == reason


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("_metadata/metadata", b"v9\n{}", "_metadata/metadata: unknown format 'v9': v1 is known"),
        ("_metadata/metadata", b"v1\n{}", "_metadata/metadata: Object missing required field"),
        ("0/_metadata/schema", b"\0\2v3{}", "_metadata/schema: unknown format 'v3': v1 and v2 are known"),
        ("0/_metadata/schema", b"\0\2v2\0\0\0\1\0\1", "_metadata/schema: it is cut short or damaged"),
        ("0/_metadata/schema", b"", "_metadata/schema: it is cut short or damaged"),
        ("0/_metadata/schema", DEEP_SCHEMA, "_metadata/schema: maximum recursion depth exceeded"),
        ("0/1.delta", b"", "state 0/0/1.delta: it is neither lz4 nor zstd"),
        ("0/1.delta", b"\x82SNAPPY\0\0", "state 0/0/1.delta: it is compressed with snappy: only lz4 and zstd are read"),
        ("0/1.delta", b"ZV\1\0\0", "state 0/0/1.delta: it is compressed with lzf: only lz4 and zstd are read"),
        ("0/1.delta", b"LZ4Block", "state 0/0/1.delta: it is cut short or damaged: no LZ4 frame where one should be"),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_damaged_files_are_named(
    written: dict[str, Written], tmp_path: Path, file: str, content: bytes | None, reason: str
) -> None:
    copy = written["uncounted"].copy(tmp_path / "copy")
    path = copy.path / "state/0" / file
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    found = only(windows_of(copy, batch=0)).reason
    assert found is not None
    assert found.code == "unreadable"
    why = str(found.args["why"])
    assert why.startswith(reason)
    assert why.isprintable()


def test_damaged_state_is_read_again_when_there_is_a_newer_batch(written: dict[str, Written], tmp_path: Path) -> None:
    copy = written["uncounted"].copy(tmp_path / "copy")
    broken = copy.path / "state/0/0/1.delta"
    whole = broken.read_bytes()
    broken.write_bytes(whole[:-30])
    tap = OpenWindowsTap(copy.path)
    assert only(tap.poll(facts_of(copy, 0))).reason is not None
    broken.write_bytes(whole)
    assert only(tap.poll(facts_of(copy, 0))).reason is not None  # not before there is something new
    assert tap.poll(facts_of(copy)) == windows_of(written["uncounted"])


@pytest.mark.parametrize("kind", ["fifo", "directory", "loop", "too large"])
def test_what_is_no_plain_file_does_not_hold_us_up(written: dict[str, Written], tmp_path: Path, kind: str) -> None:
    copy = written["uncounted"].copy(tmp_path / "copy")
    for file in ("0/1.delta", "0/_metadata/schema", "_metadata/metadata"):
        path = copy.path / "state/0" / file
        path.unlink()
        make_odd(path, kind)
        assert only(windows_of(copy, batch=0)).reason is not None


def make_odd(path: Path, kind: str) -> None:
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    else:
        path.touch()
        os.truncate(path, 300 * 1024 * 1024)


def purge(written: Written) -> None:
    """Remove every delta that is not needed any more beside the newest snapshot of its partition."""
    for partition in written.path.glob("state/0/[0-9]*"):
        newest = max(int(path.stem) for path in partition.glob("*.snapshot"))
        for path in partition.glob("*.delta"):
            if int(path.stem) <= newest:
                path.unlink()


@pytest.mark.parametrize("name", [name for name in READ if name != "types"])
def test_spark_reads_the_same_windows(written: dict[str, Written], spark: SparkSession, name: str) -> None:
    for found in windows_of(written[name]):
        assert found.batch is not None
        by_spark = read_windows(spark, written[name].path, found.operator, found.batch)
        assert found.windows == by_spark.windows
        assert (by_spark.open, by_spark.keys) == (found.open, found.keys)


def test_spark_reads_state_that_no_file_shows(written: dict[str, Written], spark: SparkSession) -> None:
    rocks = written["rocksdb"]
    batch = facts_of(rocks).committed
    assert batch is not None
    found = read_windows(spark, rocks.path, 0, batch)
    [operator] = rocks.progress[rocks.last]["stateOperators"]
    assert found.keys == operator["numRowsTotal"] > 0
    assert found.reason is None
    expected = state_by_spark(spark, rocks, rocks.last, 0)
    assert {(one.start_ms, one.end_ms): one.records for one in found.windows} == {
        key[:2]: records for key, records in expected.items()
    }
    assert read_windows(spark, written["deduplicated"].path, 0, batch).reason is not None


@pytest.mark.matrix
def test_the_command_reads_state_with_spark_when_asked(written: dict[str, Written]) -> None:
    rocks = written["rocksdb"]
    [operator] = rocks.progress[rocks.last]["stateOperators"]
    command = [sys.executable, "-m", "wmtop.tui.cli", "attach", str(rocks.path), "--state-reader", "spark", "--json"]
    environment = os.environ | job_environment()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        windows = (msgspec.json.decode(line, type=SnapshotLine).windows for line in process.stdout)
        read = next(view for view in windows if view.open_count is not None)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert read.open_count == operator["numRowsTotal"]
    assert read.unknown is None
    assert process.returncode == 143
