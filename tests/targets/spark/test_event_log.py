"""Event logs: what Spark told the job itself; read while it grows, in pieces, damaged; never a crash."""

import json
import os
import shutil
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from wmtop.engine.doctor import diagnose
from wmtop.engine.feed.recording_reader import RecordingReader
from wmtop.engine.snapshot import SourceView
from wmtop.engine.system.errors import UsageError
from wmtop.engine.targets.open import open_target
from wmtop.engine.targets.spark.event_log import (
    CUT_LINE,
    NO_EVENTS,
    NO_ZSTD,
    UNREADABLE_EVENT,
    EventLines,
    EventLogTap,
    check,
)
from wmtop.engine.targets.spark.facts import STARTS, Application, QueryFacts, QueryRun
from wmtop.engine.targets.spark.files import NOT_THERE
from wmtop.engine.targets.spark.plan import PlanFacts, PlannedWatermark
from wmtop.engine.targets.spark.query_snapshot import snapshot_of_query
from wmtop.engine.targets.spark.reports import report_of
from wmtop.engine.targets.spark.watch import record
from wmtop.engine.targets.target import TargetOptions

from tests.judging import Judge

from ...tui.cli.checkpoints import checkpoint
from .jobs import ORDERS, START_MS, Seen, query

KINDS = ["rolled", "plain"]
QUERIES = [("rolled", "windows"), ("rolled", "ticking"), ("rolled", "failing"), ("plain", "local")]


def all_in(log: Path) -> Application:
    with closing(EventLogTap(log)) as tap:
        return tap.poll_all()


def iso_ms(text: str | None) -> int | None:
    if text is None:
        return None
    return (datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def reported(seen: dict[str, Seen], kind: str, name: str) -> list[dict[str, Any]]:
    """What Spark told the job of each batch; it counts idle triggers among them, which have no event."""
    return [batch for batch in seen[kind].job.progress()[name] if "addBatch" in batch["durationMs"]]


@pytest.mark.parametrize(("kind", "name"), QUERIES)
def test_the_last_batch_is_the_one_of_the_last_progress(seen: dict[str, Seen], kind: str, name: str) -> None:
    last = reported(seen, kind, name)[-1]
    batch = query(seen[kind].log, name).progress
    assert batch is not None
    times = last.get("eventTime", {})
    phases = dict(last["durationMs"])
    assert batch.batch == last["batchId"]
    assert batch.timestamp_ms == iso_ms(last["timestamp"])
    assert batch.duration_ms == phases.pop("triggerExecution")
    assert batch.phases_ms == phases
    assert batch.watermark_ms == (iso_ms(times.get("watermark")) or None)
    rates = (batch.input_rows_per_second, batch.processed_rows_per_second)
    assert rates == (
        pytest.approx(last["inputRowsPerSecond"], abs=0.2),
        pytest.approx(last["processedRowsPerSecond"], abs=0.2),
    )
    for source, own in zip(batch.sources, last["sources"], strict=True):
        assert source.description == own["description"]
        offsets = [text and json.loads(text) for text in (source.end, source.latest)]
        assert offsets == [own["endOffset"], own["latestOffset"]]
    for state, own in zip(batch.states, last["stateOperators"], strict=True):
        assert (state.operator, state.rows, state.memory_bytes, state.dropped_at_least) == tuple(
            own[key] for key in ("operatorName", "numRowsTotal", "memoryUsedBytes", "numRowsDroppedByWatermark")
        )


@pytest.mark.parametrize(("kind", "name"), QUERIES)
def test_the_history_is_every_batch(seen: dict[str, Seen], kind: str, name: str) -> None:
    run, batches = query(seen[kind].log, name), reported(seen, kind, name)
    for point, batch in zip(run.history, batches, strict=True):
        assert point.batch == batch["batchId"]
        assert point.begin_ms == iso_ms(batch["timestamp"])
        assert (point.end_ms or point.begin_ms) - point.begin_ms == batch["durationMs"]["triggerExecution"]
        assert point.watermark_ms == (iso_ms(batch.get("eventTime", {}).get("watermark")) or None)
    frozen = [
        batch
        for batch in batches
        if batch.get("eventTime", {}).get("watermark") == batches[-1].get("eventTime", {}).get("watermark")
    ]
    assert run.unmoved == sum(batch["numInputRows"] > 0 for batch in frozen)
    before = batches[: len(batches) - len(frozen)]
    assert run.moved_ms == iso_ms((before[-1:] or batches)[0]["timestamp"])
    assert (run.id, {run.run_id}) == (batches[0]["id"], {batch["runId"] for batch in batches})
    greatest = [iso_ms(batch.get("eventTime", {}).get("max")) for batch in batches]
    assert run.max_event_ms == max((time for time in greatest if time is not None), default=None)
    states = [state for batch in batches for state in batch["stateOperators"]]
    assert run.dropped_at_least == sum(state["numRowsDroppedByWatermark"] for state in states)


def test_late_rows_were_dropped(seen: dict[str, Seen]) -> None:
    assert query(seen["rolled"].log, "windows").dropped_at_least > 0


def test_the_plan_has_delays_columns_taps_and_the_checkpoint(seen: dict[str, Seen]) -> None:
    rolled, plain = seen["rolled"], seen["plain"]
    plan = query(rolled.log, "windows").plan
    assert plan is not None
    orders, others = plan.nodes
    assert orders == PlannedWatermark("ts", 30_000, ("orders",), sources=(0,))
    assert others == PlannedWatermark("ts", 65_000, ("ts",), sources=(1,))
    assert (plan.checkpoint, plan.leaves) == (str(rolled.job.directory / "checkpoints" / "windows"), 2)
    [operator] = plan.operators
    assert (operator.kind, operator.output_mode, operator.windowed) == ("aggregation", "append", True)
    plan = query(plain.log, "local").plan
    assert plan is not None
    assert (plan.nodes, plan.checkpoint) == ((PlannedWatermark("ts", 10_000, ("ts",), sources=(0,)),), None)
    assert query(rolled.log, "failing").plan == PlanFacts(leaves=1)
    assert query(rolled.log, "windows").watermark_policy == "min"  # as long as nobody says otherwise
    assert query(plain.log, "local").watermark_policy == "max"


def test_running_idle_ended_failed(seen: dict[str, Seen]) -> None:
    early, late = seen["rolled"].early, seen["rolled"].log
    windows = query(early, "windows")
    assert windows.idle_ms is not None
    assert windows.progress is not None
    assert windows.progress.timestamp_ms is not None
    assert windows.idle_ms > windows.progress.timestamp_ms
    assert windows.last_event_ms == windows.idle_ms
    assert [(run.name, run.ended) for run in early.queries] == [
        ("windows", False),
        ("failing", True),
        ("ticking", False),
    ]
    assert all(run.ended for run in late.queries)
    assert [run.error is None for run in late.queries] == [True, False, True]
    assert "ValueError: no such thing" in (query(late, "failing").error or "")
    assert "\n" not in (query(late, "failing").error or "")
    failed = query(late, "failing")
    assert failed.running is not None  # the batch that it failed in
    assert failed.running.batch == 1
    assert (early.alive, late.app) == (None, "somebody's rolled job")
    assert late.started_ms is not None
    assert late.alive is False
    assert late.trouble is early.trouble is None


def test_a_query_without_a_watermark_is_unknown_and_says_so(seen: dict[str, Seen]) -> None:
    early = seen["rolled"].early
    run = query(early, "ticking")
    facts = QueryFacts(report=report_of("event log", early, run))
    shown = snapshot_of_query(facts, name="q", source=SourceView("event log", "/q"), now_ms=run.last_event_ms or 0)
    judged = Judge().see(shown)
    assert (judged.state, judged.verdict.verdict) == ("live", "unknown")
    titles = [finding.title for finding in diagnose(judged, [])]
    assert "Event time is not known: the query has no watermark" in titles


def test_an_application_that_was_killed_has_not_ended(seen: dict[str, Seen]) -> None:
    job = seen["plain"].job
    assert job.log.name.endswith(".inprogress")
    assert seen["plain"].log.alive is None
    check(job.log)
    assert EventLogTap(job.log).poll() == seen["plain"].log


@pytest.mark.parametrize("kind", KINDS)
def test_a_tap_that_comes_late_knows_the_same(seen: dict[str, Seen], kind: str) -> None:
    for path in (seen[kind].job.log, seen[kind].job.log.parent):
        check(path)
        assert EventLogTap(path).poll() == seen[kind].log


def whole_log(seen: Seen) -> bytes:
    """The lines of the log."""
    if seen.job.log.is_file():
        return seen.job.log.read_bytes()
    [path] = seen.job.log.glob("events_1_*")
    return zstandard.ZstdDecompressor().decompressobj(read_across_frames=True).decompress(path.read_bytes())


def same(facts: Application, other: Application) -> bool:
    return replace(facts, written_ms=None) == replace(other, written_ms=None)


@pytest.mark.parametrize("kind", KINDS)
def test_a_log_that_grows_is_read_piece_by_piece(seen: dict[str, Seen], kind: str, tmp_path: Path) -> None:
    source = seen[kind].job.log if kind == "plain" else next(seen[kind].job.log.glob("events_1_*"))
    content, size = source.read_bytes(), 1999
    path = tmp_path / "local-1.inprogress"
    path.touch()
    check(path)
    tap, events = EventLogTap(path), -1
    for at in range(0, len(content), size):
        with path.open("ab") as file:
            file.write(content[at : at + size])
        facts = tap.poll()
        assert facts.trouble is None
        assert facts.unread == 0
        now = sum(len(run.history) for run in facts.queries)
        assert now >= events
        events = now
    path = path.rename(tmp_path / "local-1")
    assert same(tap.poll(), seen[kind].log)


@pytest.mark.parametrize("kind", KINDS)
def test_a_poll_reads_no_more_than_it_may(seen: dict[str, Seen], kind: str) -> None:
    tap, polls = EventLogTap(seen[kind].job.log), 1
    facts = tap.poll(5000)
    while facts.unread:
        left, polls = facts.unread, polls + 1
        facts = tap.poll(5000)
        assert left - 5000 <= facts.unread < left
    assert polls > 10
    assert facts == seen[kind].log


def test_files_that_follow_each_other(seen: dict[str, Seen], tmp_path: Path) -> None:
    lines = whole_log(seen["rolled"]).splitlines(keepends=True)
    third = len(lines) // 3
    parts = [b"".join(lines[at : at + third]) for at in range(0, len(lines), third)]
    log = tmp_path / "eventlog_v2_local-1"
    log.mkdir()
    (log / "appstatus_local-1.inprogress").touch()
    check_refuses(log, f"eventlog_v2_local-1 {NO_EVENTS}")
    tap = EventLogTap(log)
    assert tap.poll().trouble == f"eventlog_v2_local-1 {NO_EVENTS}"
    for number, part in enumerate(parts, 9):  # 10 comes after 9
        half = len(part) // 2
        for piece in (part[:half], part[half:]):
            with (log / f"events_{number}_local-1").open("ab") as file:
                file.write(piece)
            if piece is not part[half:] or number % 2:
                assert tap.poll().trouble is None
    assert same(tap.poll(), seen["rolled"].log)
    (log / "events_10_local-1").unlink()
    (log / "events_9_local-1").unlink()
    (log / "events_10_local-1.zstd.compact").write_bytes(zstandard.compress(b"".join(parts[:2])))
    for path in (log, log / "events_11_local-1"):
        compacted = EventLogTap(path).poll()
        assert not query(compacted, "windows").is_whole, "Spark keeps only some events of a compacted log"
        runs = tuple(replace(run, is_whole=True) for run in compacted.queries)
        assert same(replace(compacted, queries=runs), seen["rolled"].log)


def test_another_log_in_its_place_is_read_from_its_beginning(seen: dict[str, Seen], tmp_path: Path) -> None:
    path = tmp_path / "local-1"
    path.write_bytes(whole_log(seen["rolled"]))
    tap = EventLogTap(path)
    assert same(tap.poll(), seen["rolled"].log)
    path.write_bytes(whole_log(seen["plain"]))  # shorter: it was cut
    assert same(tap.poll(), seen["plain"].log)
    (tmp_path / "new").write_bytes(whole_log(seen["rolled"]))
    (tmp_path / "new").rename(path)
    assert same(tap.poll(), seen["rolled"].log)
    path.unlink()
    gone = tap.poll()
    assert gone.trouble == f"local-1 {NOT_THERE}"
    assert gone.queries == seen["rolled"].log.queries
    tap.close()


BROKEN = zstandard.compress(b"?") + b"no frame"


def relevant(seen: Seen) -> bytes:
    return b"".join(line for line in whole_log(seen).splitlines(keepends=True) if line.startswith(STARTS))


def looked_at(path: Path, content: bytes) -> Application:
    path.write_bytes(content)
    facts = EventLogTap(path).poll()
    assert facts.trouble is None or (facts.trouble.isprintable() and len(facts.trouble) < 1000)
    msgspec.json.encode(facts)
    return facts


def test_damage_anywhere_is_no_crash(seen: dict[str, Seen], tmp_path_factory: pytest.TempPathFactory) -> None:
    content, path = relevant(seen["rolled"]), tmp_path_factory.mktemp("damaged") / "local-1"
    logs = {"plain": content, "zstd": zstandard.compress(content)}
    starts = st.sampled_from([content.find(word) for word in (b"observedMetrics", b"eventTime", b"sources", b"plan")])
    pieces = st.sampled_from([b"", b"null", b"-1", b"1e400", b"9" * 30, b'"', b"{", b"[" * 3000, b"\n", b"\0", b"\xff"])

    @settings(max_examples=150, deadline=None)
    @given(data=st.data(), codec=st.sampled_from(sorted(logs)))
    def look(data: st.DataObject, codec: str) -> None:
        damaged = bytearray(logs[codec])
        for _ in range(data.draw(st.integers(1, 4))):
            start = data.draw(st.just(0) | starts) if codec == "plain" else 0
            at = start + data.draw(st.integers(0, len(damaged) if not start else 3000))
            damaged[at : at + data.draw(st.integers(0, 12))] = data.draw(pieces | st.binary(max_size=12))
        looked_at(
            path, bytes(damaged[: data.draw(st.integers(0, len(damaged)))] if data.draw(st.booleans()) else damaged)
        )

    look()


def test_values_of_other_types_cost_no_more_than_their_event(seen: dict[str, Seen], tmp_path: Path) -> None:
    events = [json.loads(line) for line in relevant(seen["rolled"]).splitlines()]
    strange: list[Any] = [None, -1, 2**70, 1e300, "", "x", [], {}, [[]], {"": None}, True]

    @settings(max_examples=200, deadline=None)
    @given(data=st.data())
    def look(data: st.DataObject) -> None:
        event = json.loads(json.dumps(data.draw(st.sampled_from(events))))
        place: Any = event
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            keys = [key for key in keys if key != "Event"]
            if not keys:
                return
            key = data.draw(st.sampled_from(keys))
            if isinstance(place[key], dict | list) and place[key] and data.draw(st.booleans()):
                place = place[key]
                continue
            place[key] = data.draw(st.sampled_from(strange))
            break
        looked_at(tmp_path / "local-1", b"".join(map(line_of, (*events[:6], event, events[-1]))))

    look()


def test_what_follows_a_damaged_event_is_read(seen: dict[str, Seen], tmp_path: Path) -> None:
    lines = relevant(seen["rolled"]).splitlines(keepends=True)
    place = next(number for number, line in enumerate(lines) if b"QueryProgressEvent" in line[:100])
    lines[place] = lines[place][:500] + b"\n"
    facts = looked_at(tmp_path / "local-1", b"".join(lines))
    assert facts.trouble is not None
    assert facts.trouble.startswith(UNREADABLE_EVENT)
    missing = [len(run.history) for run in seen["rolled"].log.queries]
    missing[0] -= 1
    assert [len(run.history) for run in facts.queries] == missing


def test_a_file_that_was_cut_shows_what_it_has(seen: dict[str, Seen], tmp_path: Path) -> None:
    whole = zstandard.compress(whole_log(seen["rolled"]))
    counts = [
        sum(len(run.history) for run in looked_at(tmp_path / "local-1.zstd", whole[:size]).queries)
        for size in range(1, len(whole), len(whole) // 40)
    ]
    assert counts == sorted(counts)
    assert counts[0] == 0
    broken = looked_at(tmp_path / "local-1.zstd", BROKEN)
    assert broken.trouble == f"local-1.zstd {NO_ZSTD}"


def test_a_broken_file_does_not_hide_the_next_one(seen: dict[str, Seen], tmp_path: Path) -> None:
    content = whole_log(seen["rolled"])
    log = tmp_path / "eventlog_v2_local-1"
    log.mkdir()
    (log / "events_1_local-1.zstd").write_bytes(BROKEN)
    (log / "events_2_local-1").write_bytes(b'{"Event":"SparkListenerLogStart"')
    (log / "events_3_local-1.zstd").write_bytes(zstandard.compress(content))
    facts = EventLogTap(log).poll()
    assert facts.queries == seen["rolled"].log.queries
    assert facts.trouble == f"events_1_local-1.zstd {NO_ZSTD}; events_2_local-1 {CUT_LINE}"


def test_lines_of_any_length_take_little_memory() -> None:
    lines: list[bytes] = []
    log = EventLines((b'{"a"', b'{"bb"'), lines.append, limit=100)
    for piece in (
        b'{"a',
        b'":1}\n{"c":1}\n',
        b"x" * 5000,
        b'\n{"bb":',
        b"2}\n",
        b'{"a":' + b"1" * 60,
        b"1" * 60,
        b"1\n{",
    ):
        log.write(piece)
    assert lines == [b'{"a":1}', b'{"bb":2}']
    assert (log.too_long, log.inside) == (1, True)
    log.write(b'"a":3}\n{"a":' + b"4" * 200 + b"}\n")
    assert (lines[2:], log.too_long, log.inside) == ([b'{"a":3}'], 2, False)


@given(content=st.lists(st.sampled_from([b'{"a":1}', b'{"c":2}', b"", b"noise", b'{"a"']), max_size=20), data=st.data())
def test_lines_are_the_same_however_they_are_cut(content: list[bytes], data: st.DataObject) -> None:
    whole = b"\n".join(content)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=10)))
    lines: list[bytes] = []
    log = EventLines((b'{"a"',), lines.append)
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        log.write(whole[start:end])
    assert lines == [line for line in content[:-1] if line.startswith(b'{"a"')]


def check_refuses(path: Path, why: str) -> None:
    with pytest.raises(UsageError) as raised:
        check(path)
    assert why in str(raised.value)
    assert str(raised.value).isprintable()


def test_what_is_no_event_log_is_refused_with_what_to_do(seen: dict[str, Seen], tmp_path: Path) -> None:
    check_refuses(tmp_path / "none", "none is not there")
    check_refuses(tmp_path, "holds no Spark event log: give what spark.eventLog.dir is set to")
    (tmp_path / "file.txt").write_text("?")
    check_refuses(tmp_path / "file.txt", "file.txt is not a Spark event log")
    os.mkfifo(tmp_path / "pipe")
    check_refuses(tmp_path / "pipe", "pipe is not a regular file")
    check_refuses(tmp_path / "a\0b", "")
    check_refuses(seen["rolled"].job.directory / "checkpoints" / "windows", "is a Spark checkpoint, not an event log")
    (tmp_path / "app-1.lz4").write_bytes(b"LZ4Block")
    check_refuses(tmp_path / "app-1.lz4", "app-1.lz4 is compressed with lz4: only zstd is read")
    for name in ("local-1", "local-2"):
        shutil.copy(seen["plain"].job.log, tmp_path / name)
    os.utime(tmp_path / "local-1", (4e9, 4e9))
    check_refuses(tmp_path, f"{tmp_path} holds 3 event logs: give one of them, the newest is {tmp_path / 'local-1'}")


Event = dict[str, Any]


def of_query(name: str, batches: int, change: Callable[[int], Event] = lambda batch: {}) -> list[Event]:
    """A query's events."""
    listener = "org.apache.spark.sql.streaming.StreamingQueryListener$"
    ids = {"id": f"{name}-id", "runId": f"{name}-run"}
    started = {"Event": listener + "QueryStartedEvent", **ids, "name": name, "timestamp": "2026-01-01T00:00:00.000Z"}
    progress = [
        {
            "Event": listener + "QueryProgressEvent",
            "progress": {
                **ids,
                "batchId": batch,
                "timestamp": f"2026-01-01T{batch // 3600:02}:{batch // 60 % 60:02}:{batch % 60:02}.000Z",
                "durationMs": {"triggerExecution": batch % 100},
                "sources": [{"numInputRows": 3, "inputRowsPerSecond": "NaN", "processedRowsPerSecond": 1.5}],
                **change(batch),
            },
        }
        for batch in range(batches)
    ]
    return [started, *progress, {"Event": listener + "QueryTerminatedEvent", **ids}]


def written(path: Path, events: list[Event]) -> tuple[QueryRun, ...]:
    return looked_at(path, b"".join(map(line_of, events))).queries


def line_of(event: Event) -> bytes:
    """As Spark writes it."""
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


def test_of_a_long_run_the_last_batches_are_kept_and_since_when_the_watermark_is_frozen(tmp_path: Path) -> None:
    def watermark(batch: int) -> Event:
        return {"eventTime": {"watermark": f"2026-01-01T00:00:{min(batch, 30):02}.000Z"}}

    [run] = written(tmp_path / "local-1", of_query("long", 2000, watermark))
    assert [batch.batch for batch in run.history] == list(range(1400, 2000))
    assert run.moved_ms == iso_ms("2026-01-01T00:00:29.000Z")  # the end of batch 29 gave it its value
    assert run.unmoved == 1970


def test_rates_that_are_none_are_not_counted(tmp_path: Path) -> None:
    [run] = written(tmp_path / "local-1", of_query("odd", 1))
    assert run.progress is not None
    assert (run.progress.input_rows_per_second, run.progress.processed_rows_per_second) == (None, 1.5)


def test_a_batch_that_is_reported_again_counts_once(tmp_path: Path) -> None:
    events = of_query("old", 3, lambda batch: {"batchId": min(batch, 1)})
    [run] = written(tmp_path / "local-1", events)
    assert [point.batch for point in run.history] == [0, 1]


def test_of_many_queries_the_ended_ones_are_forgotten_first(tmp_path: Path) -> None:
    running = of_query("running", 1)[:-1]
    events = [event for number in range(300) for event in of_query(f"query {number}", 1)]
    runs = written(tmp_path / "local-1", [*running, *events])
    assert len(runs) == 200
    assert [run.name for run in runs][:2] == ["running", "query 101"]


def test_a_batch_runs_until_it_is_reported(tmp_path: Path) -> None:
    start = {
        "Event": "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart",
        "executionId": 7,
        "rootExecutionId": 7,
        "description": "long\nid = long-id\nrunId = long-run\nbatch = 1",
        "sparkPlanInfo": {"simpleString": "EventTimeWatermark", "children": [{"simpleString": "Scan"}]},
        "time": START_MS,
    }
    events = of_query("long", 2)
    inner = start | {"executionId": 8, "description": start["description"].replace("batch = 1", "batch = 9")}
    [run] = written(tmp_path / "local-1", [*events[:2], start, inner])
    assert run.running is not None
    assert (run.running.batch, run.running.since_ms) == (1, START_MS)
    [run] = written(tmp_path / "local-1", [*events[:2], start, *events[2:3]])
    assert run.running is None


@pytest.mark.parametrize("earlier", [0, 3])
def test_a_query_that_failed_in_the_first_batch_of_its_run_shows_that_batch(tmp_path: Path, earlier: int) -> None:
    state = checkpoint(tmp_path / "ckpt", 2)
    for name in () if earlier else ("1", "2"):
        (state / "commits" / name).unlink()
    failed = {"batchWatermarkMs": START_MS, "batchTimestampMs": START_MS, "conf": {"spark.sql.shuffle.partitions": "1"}}
    for name in ("3",) if earlier else ("0",):
        (state / "offsets" / name).write_text(f"v1\n{json.dumps(failed)}\n-")
    for name in () if earlier else ("1", "2"):
        (state / "offsets" / name).unlink()
    ids = {"id": "5d0b3a8e-7b5e-4f6e-9a57-0d3b0f6f2a11", "runId": "second"}
    plan = f"StateStoreSave [key#1], state info [ checkpoint = file:{state}/state, runId = second, opId = 0, ver = 0]"
    start = {
        "Event": "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart",
        "executionId": 7,
        "rootExecutionId": 7,
        "description": f"orders\nid = {ids['id']}\nrunId = second\nbatch = {earlier}",
        "sparkPlanInfo": {"simpleString": plan, "children": []},
        "time": START_MS,
    }
    first = [] if not earlier else of_query("orders", earlier, lambda batch: {"id": ids["id"]})
    begun, *_, ended = of_query("orders", 0)
    listed = [
        {"Event": "SparkListenerApplicationStart", "App Name": "shop", "Timestamp": START_MS},
        *({**one, "id": ids["id"]} for one in first),
        {**begun, **ids},
        start,
        {**ended, **ids, "exception": "java.io.IOException: quota exceeded"},
        {"Event": "SparkListenerApplicationEnd", "Timestamp": START_MS + 9_000},
    ]
    log = tmp_path / "local-1"
    written(log, listed)
    assert record(log, all_in(log), tmp_path / "out.rec", None, None, lambda left: None)
    with RecordingReader(tmp_path / "out.rec") as reader:
        last = reader.at(len(reader) - 1)
    assert (last.state, last.batch, last.spark.in_flight) == ("failed", earlier, False)


@pytest.mark.parametrize("uri", [None, "spark+http://history:18080/shop"])
def test_a_finished_log_of_another_machine_has_its_state_there(tmp_path: Path, uri: str | None) -> None:
    log = tmp_path / "local-1"
    plan = "StateStoreSave [key#1], state info [ checkpoint = file:/gone/state, runId = r, opId = 0, ver = 0]"
    events = of_query("orders", 2)
    start = {
        "Event": "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart",
        "executionId": 7,
        "rootExecutionId": 7,
        "description": f"orders\nid = {events[0]['id']}\nrunId = {events[0]['runId']}\nbatch = 0",
        "sparkPlanInfo": {"simpleString": plan, "children": []},
        "time": START_MS,
    }
    over = {"Event": "SparkListenerApplicationEnd", "Timestamp": START_MS + 9_000}
    written(log, [events[0], start, *events[1:], over])
    assert record(log, all_in(log), tmp_path / "out.rec", None, None, lambda left: None, uri=uri)
    with RecordingReader(tmp_path / "out.rec") as reader:
        last = reader.at(len(reader) - 1)
    assert last.windows.unknown == ("state_not_found" if uri is None else "state_elsewhere")


@contextmanager
def no_progress(label: str) -> Generator[Callable[[int], object]]:
    yield lambda left: None


def test_an_attached_log_has_the_name_of_its_query_not_of_its_directory(tmp_path: Path) -> None:
    log = tmp_path / "local-1"
    written(log, of_query("orders by day", 2)[:-1])
    assert open_target(str(log)).name == "orders-by-day"
    [run] = all_in(log).queries
    assert open_target(str(log), TargetOptions(query=run.id)).name == "orders-by-day"
    assert open_target(str(log), TargetOptions(log_progress=no_progress)).name == "orders-by-day"
    log.write_bytes(line_of({"Event": "SparkListenerApplicationStart", "App Name": "shop", "Timestamp": START_MS}))
    assert open_target(str(log)).name == "shop", "no query has started yet"


def test_there_were_rows_to_compare(seen: dict[str, Seen]) -> None:
    assert sum(map(len, ORDERS)) == next(
        tapped.rows for tapped in query(seen["rolled"].log, "windows").inputs if tapped.name == "orders"
    )
