"""Facts of a checkpoint: what the query's own progress says; one line for what cannot be read; never a crash."""

import json
import os
import shutil
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace
from wmtop.engine.system.errors import UsageError
from wmtop.engine.targets.spark.checkpoint import (
    STATE_PROVIDER,
    WATERMARK_POLICY,
    CheckpointFacts,
    CheckpointTap,
    WatermarkDelay,
    check,
)
from wmtop.engine.targets.spark.event_log import is_log
from wmtop.engine.targets.spark.files import NOT_THERE

from .written import START_MS, Written

KINDS = [
    "counts", "purged", "types", "several", "checksummed", "uncounted", "chained", "rocksdb", "sessions", "join",
    "deduplicated", "unwindowed", "stateless", "plain", "restarted",
]  # fmt: skip


def poll(written: Written) -> CheckpointFacts:
    return CheckpointTap(written.path).poll()


@pytest.mark.parametrize("name", KINDS)
def test_the_facts_are_those_of_the_last_progress(written: dict[str, Written], name: str) -> None:
    facts, last = poll(written[name]), written[name].last
    progress = written[name].progress[last]
    assert facts.trouble is None
    assert (facts.batch, facts.committed, facts.in_flight) == (last, last, False)
    assert facts.query_id == progress["id"]
    assert facts.watermark_ms == written[name].watermark_ms(last)
    ends = [json.loads(source.text) for source in facts.sources]
    assert ends == [source["endOffset"] for source in progress["sources"]]
    assert [source.kind for source in facts.sources] == ["files"] * len(ends)


@pytest.mark.parametrize("name", ["counts", "stateless", "several", "plain", "restarted"])
def test_the_next_watermark_is_the_one_that_the_next_batch_uses(
    written: dict[str, Written], name: str, tmp_path: Path
) -> None:
    for batch in range(written[name].last):
        facts = poll(written[name].copy(tmp_path / str(batch), last=batch))
        assert facts.watermark_ms == written[name].watermark_ms(batch)
        assert facts.next_watermark_ms == written[name].watermark_ms(batch + 1)


def test_watermarks_are_event_time_minus_the_delay(written: dict[str, Written], tmp_path: Path) -> None:
    first = poll(written["counts"].copy(tmp_path / "first", last=0))
    assert first.watermark_ms is None  # it has not moved yet
    assert first.next_watermark_ms == START_MS + 39 * 700 - 30_000
    plain = poll(written["plain"])
    assert (plain.watermark_ms, plain.next_watermark_ms) == (None, None)  # there is none


@pytest.mark.parametrize("name", ["counts", "several", "stateless", "rocksdb"])
def test_a_batch_without_its_commit_is_in_flight(written: dict[str, Written], name: str, tmp_path: Path) -> None:
    copy = written[name].copy(tmp_path / "copy")
    last = copy.last
    (copy.path / "commits" / str(last)).unlink()
    facts = poll(copy)
    assert (facts.batch, facts.in_flight, facts.committed) == (last, True, last - 1)
    assert facts.watermark_ms == written[name].watermark_ms(last)
    assert facts.next_watermark_ms is None
    assert facts.batch_timestamp_ms is not None


def test_settings_of_the_query(written: dict[str, Written]) -> None:
    counts, stateless, rocksdb = poll(written["counts"]), poll(written["stateless"]), poll(written["rocksdb"])
    assert (counts.conf[WATERMARK_POLICY], stateless.conf[WATERMARK_POLICY]) == ("min", "max")
    assert counts.shuffle_partitions == 2
    assert counts.conf[STATE_PROVIDER].endswith(".HDFSBackedStateStoreProvider")
    assert rocksdb.conf[STATE_PROVIDER].endswith(".RocksDBStateStoreProvider")


def test_delays_are_those_that_the_state_knows(written: dict[str, Written]) -> None:
    of_window = WatermarkDelay(30_000, "window", windowed=True, operator=0)
    assert poll(written["counts"]).delays == (of_window,)
    assert poll(written["chained"]).delays == (of_window, WatermarkDelay(30_000, "window", True, 1))
    assert poll(written["sessions"]).delays == (WatermarkDelay(30_000, "session_window", True, 0),)
    assert poll(written["deduplicated"]).delays == (WatermarkDelay(30_000, "ts", False, 0),)
    assert poll(written["join"]).delays == tuple(WatermarkDelay(delay, "ts", False, 0) for delay in (30_000, 60_000))
    assert poll(written["stateless"]).delays == poll(written["unwindowed"]).delays == ()


def test_the_state_keeps_the_delay_of_the_first_start(written: dict[str, Written]) -> None:
    facts = poll(written["restarted"])
    assert [delay.delay_ms for delay in facts.delays] == [10_000]
    newest = START_MS + 6 * 20_000 + 39 * 700
    assert newest - 120_000 < START_MS + 5 * 20_000 + 39 * 700 - 10_000 == facts.watermark_ms  # it stands still


def test_pace_is_growth_between_the_last_two_batches(written: dict[str, Written], tmp_path: Path) -> None:
    copy = written["plain"].copy(tmp_path / "copy")
    for batch, (timestamp, offset) in enumerate([(10_000, 7), (12_000, 10)]):
        path = copy.path / "offsets" / str(batch)
        version, metadata, _ = path.read_text().split("\n")
        reported = json.dumps(json.loads(metadata) | {"batchTimestampMs": timestamp})
        path.write_text("\n".join((version, reported, json.dumps({"orders": {"0": offset}}))))
    assert poll(copy).rows_per_second == 1.5
    first = poll(copy.copy(tmp_path / "first", last=0))
    assert first.rows_per_second is None


def test_a_tap_follows_the_query(written: dict[str, Written], tmp_path: Path) -> None:
    last = written["counts"].last
    copy = written["counts"].copy(tmp_path / "copy", last=0)
    tap = CheckpointTap(copy.path)
    for batch in range(last + 1):
        for log in ("offsets", "commits"):
            shutil.copy2(written["counts"].path / log / str(batch), copy.path / log)
            facts = tap.poll()
            assert (facts.batch, facts.in_flight) == (batch, log == "offsets" and batch > 0)
            assert facts == poll(copy)
    assert tap.poll() == poll(written["counts"])


def test_a_file_is_read_again_only_when_it_has_changed(written: dict[str, Written], tmp_path: Path) -> None:
    copy = written["counts"].copy(tmp_path / "copy")
    tap, before = CheckpointTap(copy.path), poll(copy)
    assert tap.poll() == before
    for name in (f"offsets/{copy.last}", f"offsets/{copy.last - 1}", f"commits/{copy.last}", "metadata"):
        path = copy.path / name
        was = path.stat()
        path.write_bytes(b"?" * was.st_size)
        os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert tap.poll() == before  # nothing was opened
    os.utime(copy.path / "metadata", ns=(0, 0))
    assert tap.poll().query_id is None


def test_the_times_of_a_copys_files_are_not_those_of_its_batches(written: dict[str, Written], tmp_path: Path) -> None:
    first = written["counts"].copy(tmp_path / "first", last=0)
    [original] = poll(first).history
    assert original.end_ms is not None
    copied_s = original.end_ms // 1_000 + 60
    for path in first.path.rglob("*"):
        os.utime(path, (copied_s, copied_s))
    [copied] = poll(first).history
    assert copied == replace(original, end_ms=None)


def test_a_recreated_checkpoint_is_another_query(written: dict[str, Written], tmp_path: Path) -> None:
    copy = written["counts"].copy(tmp_path / "copy")
    tap = CheckpointTap(copy.path)
    tap.poll()
    shutil.rmtree(copy.path)
    gone = tap.poll()
    assert (gone.batch, gone.query_id, gone.trouble) == (None, None, f"copy/metadata {NOT_THERE}")
    written["plain"].copy(copy.path)
    assert tap.poll() == poll(written["plain"])


def test_other_names_are_not_batches(written: dict[str, Written], tmp_path: Path) -> None:
    copy = written["counts"].copy(tmp_path / "copy")
    before = poll(copy)
    for name in (".99.0b4c.tmp", "99.tmp", "99.compact", "+99", "-1", "९९", "9" * 40, ".99.crc", "99 "):
        (copy.path / "offsets" / name).write_text("?")
        (copy.path / "commits" / name).write_text("?")
    assert poll(copy) == before


def test_a_log_may_move_on_while_it_is_read(written: dict[str, Written], tmp_path: Path) -> None:
    copy = written["plain"].copy(tmp_path / "copy", last=0)
    offsets, commits = copy.path / "offsets", copy.path / "commits"
    batches = 300

    def run() -> None:
        for batch in range(1, batches):
            for log in (offsets, commits):
                temporary = log / f".{batch}.tmp"
                shutil.copy2(written["plain"].path / log.name / "0", temporary)
                temporary.rename(log / str(batch))
            for log in (offsets, commits):
                (log / str(batch - 1)).unlink()

    query = threading.Thread(target=run)
    query.start()
    tap, seen = CheckpointTap(copy.path), [0]
    while query.is_alive():
        facts = tap.poll()
        assert facts.batch is not None
        seen.append(facts.batch)
    query.join()
    assert seen == sorted(seen)
    facts = tap.poll()
    assert (facts.batch, facts.committed, facts.in_flight, facts.trouble) == (batches - 1, batches - 1, False, None)


NOISE = bytes(range(256)) * 8
DEEP = b'v1\n{"conf":' + b"[" * 200_000 + b"\n"


def short(content: bytes) -> str:
    return ascii(content[:20])


@pytest.mark.parametrize(
    "content", [b"", b"v1", b"v1\n", b"x7\n{}", b"v1\n{}\n-", b"v1\nnull", NOISE, DEEP, b"\0" * 100]
)
def test_unreadable_offsets_are_named(written: dict[str, Written], tmp_path: Path, content: bytes) -> None:
    copy = written["counts"].copy(tmp_path / "copy")
    (copy.path / "offsets" / str(copy.last)).write_bytes(content)
    facts, whole = poll(copy), poll(written["counts"])
    assert_one_line(facts.trouble, f"offsets/{copy.last}: ")
    assert (facts.watermark_ms, facts.batch_timestamp_ms, facts.conf, facts.sources) == (None, None, {}, ())
    assert (facts.batch, facts.in_flight, facts.delays) == (whole.batch, False, whole.delays)
    assert (facts.query_id, facts.next_watermark_ms) == (whole.query_id, whole.next_watermark_ms)


@pytest.mark.parametrize("content", [b"", b"v1", b"x7\n{}", b"v1\n[]", NOISE, DEEP], ids=short)
def test_unreadable_commits_are_named(written: dict[str, Written], tmp_path: Path, content: bytes) -> None:
    copy = written["counts"].copy(tmp_path / "copy")
    (copy.path / "commits" / str(copy.last)).write_bytes(content)
    facts, whole = poll(copy), poll(written["counts"])
    assert_one_line(facts.trouble, f"commits/{copy.last}: ")
    assert facts.next_watermark_ms is None
    assert (facts.in_flight, facts.watermark_ms) == (False, whole.watermark_ms)


@pytest.mark.parametrize("content", [b"", b"{}", b'{"id": 7}', NOISE], ids=short)
def test_an_unreadable_query_id_is_named(written: dict[str, Written], tmp_path: Path, content: bytes) -> None:
    copy = written["counts"].copy(tmp_path / "copy")
    (copy.path / "metadata").write_bytes(content)
    facts, whole = poll(copy), poll(written["counts"])
    assert_one_line(facts.trouble, "copy/metadata: ")
    assert (facts.query_id, facts.watermark_ms) == (None, whole.watermark_ms)


def test_an_unreadable_state_schema_is_named(written: dict[str, Written], tmp_path: Path) -> None:
    copy = written["counts"].copy(tmp_path / "copy")
    (copy.path / "state/0/0/_metadata/schema").write_bytes(NOISE)
    facts, whole = poll(copy), poll(written["counts"])
    assert_one_line(facts.trouble, "_metadata/schema: ")
    assert (facts.delays, facts.watermark_ms) == ((), whole.watermark_ms)


@pytest.mark.parametrize("name", ["metadata", "offsets", "commits", "state", "offsets/LAST", "commits/LAST"])
@pytest.mark.parametrize("kind", ["fifo", "file", "directory", "loop", "too large", "missing"])
def test_no_content_makes_it_crash(written: dict[str, Written], tmp_path: Path, name: str, kind: str) -> None:
    copy = written["counts"].copy(tmp_path / "copy")
    path = copy.path / name.replace("LAST", str(copy.last))
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "file":
        path.write_text("{}")
    elif kind == "directory":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "too large":
        path.touch()
        os.truncate(path, 20 * 1024 * 1024)
    tap = CheckpointTap(copy.path)
    for _ in range(2):
        facts = tap.poll()
        if facts.trouble is not None:
            assert_one_line(facts.trouble, "")
    if name == "commits" and kind not in ("missing", "directory"):
        assert (facts.committed, facts.in_flight) == (None, None)  # not: in flight


def test_a_query_that_is_being_started(written: dict[str, Written], tmp_path: Path) -> None:
    (tmp_path / "metadata").write_bytes((written["plain"].path / "metadata").read_bytes())
    facts = CheckpointTap(tmp_path).poll()
    assert facts == CheckpointFacts(query_id=written["plain"].progress[0]["id"])
    check(tmp_path)
    (tmp_path / "offsets").mkdir()
    (tmp_path / "commits").mkdir()
    assert CheckpointTap(tmp_path).poll() == facts


@pytest.mark.parametrize("name", KINDS)
def test_every_checkpoint_is_taken_for_one(written: dict[str, Written], name: str) -> None:
    check(written[name].path)


def refusal(path: Path, *named: Path) -> str:
    """The code of the error, which names the path and those."""
    with pytest.raises(UsageError) as raised:
        check(path)
    assert_one_line(str(raised.value), "")
    assert [name for name in named if str(name) not in str(raised.value)] == []
    return raised.value.code


def test_what_is_no_checkpoint_is_refused_with_what_to_do(written: dict[str, Written], tmp_path: Path) -> None:
    file = tmp_path / "file.txt"
    file.write_text("?")
    assert refusal(file, file) == "file"
    (tmp_path / "loop").symlink_to("loop")
    assert refusal(tmp_path / "loop", tmp_path / "loop") == "unreadable"
    (tmp_path / "empty").mkdir()
    assert refusal(tmp_path / "empty", tmp_path / "empty") == "no_offsets"


def test_a_directory_near_a_checkpoint_names_it(written: dict[str, Written], tmp_path: Path) -> None:
    copy = written["plain"].copy(tmp_path / "all" / "mine")
    for part in ("offsets", "commits", "sources"):
        assert refusal(copy.path / part, copy.path / part) == "part"
    assert refusal(copy.path.parent, copy.path) == "near"
    written["plain"].copy(tmp_path / "all" / "other")
    assert refusal(copy.path.parent, "holds 2 checkpoints", "mine (batch ", "other (batch ") == "near"
    assert refusal(tmp_path, "all/mine (batch ", "all/other (batch ") == "near"  # one level deeper


def test_an_event_log_is_recognised(tmp_path: Path) -> None:
    rolling = tmp_path / "eventlog_v2_local-1700000000000"
    rolling.mkdir()
    events = rolling / "events_1_local-1700000000000.zstd"
    events.write_bytes(b"\x28\xb5\x2f\xfd")
    single = tmp_path / "log"
    single.write_text('{"Event":"SparkListenerLogStart","Spark Version":"4.3.0"}\n')
    os.truncate(single, 1 << 30)  # they grow large
    assert all(map(is_log, (rolling, tmp_path, events, single)))


def assert_one_line(text: str | None, start: str) -> None:
    assert text is not None
    assert text.startswith(start)
    assert text.isprintable()
    assert len(text) < 400


def test_the_last_batches_with_their_watermarks(written: dict[str, Written], tmp_path: Path) -> None:
    copy = written["counts"].copy(tmp_path / "copy", last=2)
    tap = CheckpointTap(copy.path)
    assert [(mark.batch, mark.watermark_ms) for mark in tap.poll().history] == [
        (batch, written["counts"].watermark_ms(batch)) for batch in range(3)
    ]
    for log in ("offsets", "commits"):
        shutil.copy(written["counts"].path / log / "3", copy.path / log)
    (copy.path / "offsets" / "0").write_text("?")  # known already
    assert [mark.batch for mark in tap.poll().history] == [0, 1, 2, 3]
    (copy.path / "offsets" / "1").unlink()
    assert [mark.batch for mark in poll(copy).history] == [2, 3]  # none before a gap
    facts = poll(written["counts"])
    assert facts.batch_timestamp_ms == facts.history[-1].begin_ms
    assert sorted(facts.history, key=lambda mark: mark.begin_ms) == list(facts.history)
