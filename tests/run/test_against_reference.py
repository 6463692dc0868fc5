"""Whole runs through real Spark, from a Parquet file to the firings, against the record-at-a-time reference."""

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from wmtop.engine.run.durable_state import StateDirectory
from wmtop.engine.run.query import Run
from wmtop.engine.run.sources.base import RecordColumns
from wmtop.engine.run.sources.columns import Columns
from wmtop.engine.run.sources.replay import Replay
from wmtop.engine.verdict.monitor_snapshot import snapshot_of
from wmtop.engine.watermarks.monitor import Monitor
from wmtop.engine.watermarks.settings import Session, Settings, Sliding, StrategyName, Tumbling

from ..reference.ops import Row, in_batches
from ..reference.result import Result, same_lines
from ..reference.run import LateRow, Reference, at_idle_after, at_lateness, run_ops
from .sources.streams import PATIENCE_S

BATCH_ROWS = 100
CASES: dict[str, tuple[StrategyName, Settings]] = {
    "tumbling": ("bounded", Settings(lateness_ms=300, window=Tumbling(500, 7), idle_after_ms=400)),
    "sliding": ("bounded-legacy", Settings(lateness_ms=200, window=Sliding(500, 150), allowed_lateness_ms=120)),
    "gaps": ("bounded", Settings(lateness_ms=100, window=Sliding(150, 400, 30), allowed_lateness_ms=60)),
    "sessions": ("bounded", Settings(lateness_ms=150, window=Session(12), allowed_lateness_ms=90, idle_after_ms=300)),
    "subtasks": ("monotonous", Settings(lateness_ms=0, window=Tumbling(250), subtasks=3, idle_after_ms=350)),
    "future": ("bounded", Settings(lateness_ms=100, window=Tumbling(300), future_guard_ms=200)),
    "punctuated": ("punctuated", Settings(lateness_ms=None, window=Tumbling(200), marker="kind = 'm'")),
    "smoothed": ("smoothed", Settings(lateness_ms=100, window=Tumbling(200), smooth=9)),
    "source": ("source", Settings(lateness_ms=None, window=Tumbling(200), watermark_column="wm")),
    "spark": ("spark", Settings(lateness_ms=150, window=Tumbling(200))),
    "spark sessions": ("spark", Settings(lateness_ms=150, window=Session(12))),
    "none": ("none", Settings(lateness_ms=None, window=Sliding(300, 100))),
}


class Ran(NamedTuple):
    """A run and what it wrote."""

    settings: Settings
    rows: list[Row]
    monitor: Monitor
    lines: list[dict[str, object]]
    late: list[dict[str, Any]]


def make_rows(settings: Settings) -> list[Row]:
    """Rows by arrival: disorder, channels that fall silent, nulls, far futures, markers and watermarks."""
    r = random.Random(str(settings))
    rows: list[Row] = []
    for number in range(600):
        arrival = 1_000 + number * 6 + r.randrange(6)
        silent = "ab" if (number // 100) % 2 else "abcdef"
        channel = r.choice(silent) if r.random() > 0.02 else None
        ts = arrival - int(r.expovariate(1 / 150)) + (900 if r.random() < 0.01 else 0)
        extra: int | bool | None = None
        if settings.strategy == "punctuated":
            extra = r.random() < 0.1
        elif settings.strategy == "source" and r.random() < 0.2:
            extra = ts - 100
        rows.append(Row(arrival, channel, ts if r.random() > 0.02 else None, extra))
    return sorted(rows, key=lambda row: row.arrival or 0)


def write(rows: list[Row], path: Path) -> None:
    columns = {
        "t": [row.ts for row in rows],
        "a": [row.arrival for row in rows],
        "c": pa.array([row.channel for row in rows], pa.string()),
        "kind": ["m" if row.extra is True else "d" for row in rows],
        "number": range(len(rows)),
        "wm": pa.array([None if isinstance(row.extra, bool) else row.extra for row in rows], pa.int64()),
    }
    pq.write_table(pa.table(columns), path)


@pytest.fixture(scope="module", params=CASES)
def ran(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    """One run of each case, and what it wrote."""
    strategy, settings = CASES[request.param]
    settings = msgspec.structs.replace(
        settings, strategy=strategy, future_guard_ms=200 if request.param == "future" else None
    )
    directory = tmp_path_factory.mktemp(request.param)
    rows = make_rows(settings)
    write(rows, directory / "rows.parquet")
    columns = Columns(
        time="t", unit="ms", arrival="a", channel="c", marker=settings.marker, watermark=settings.watermark_column
    )
    source = Replay([directory / "rows.parquet"], columns, directory / "staged", batch_rows=BATCH_ROWS)
    source.more = RecordColumns(whole=True, explain=("kind", "c"))
    source.check()
    source.prepare(lambda text: None)
    state = StateDirectory(directory / "state")
    state.lock()
    run = Run(source, settings, state, directory / "firings.ndjson", lambda: None, late_output=str(directory / "late"))
    run.load(spark)
    run.start()
    until = time.monotonic() + PATIENCE_S
    while not run.exhausted:
        run.check()
        assert time.monotonic() < until
        time.sleep(0.02)
    run.end()
    run.stop()
    lines = [json.loads(line) for line in (directory / "firings.ndjson").read_text().splitlines()]
    late = directory / "late"
    yield Ran(settings, rows, run.monitor, lines, pq.read_table(late).to_pylist() if any(late.glob("*/*")) else [])
    state.unlock()


def expected(settings: Settings, rows: list[Row]) -> Result:
    return run_ops(in_batches(rows, BATCH_ROWS), settings)


def test_counts_and_channels(ran: Ran) -> None:
    settings, rows, monitor, _, _ = ran
    result = expected(settings, rows)
    snapshot = snapshot_of(monitor, name="x", state="ended", wall_ms=0)
    assert msgspec.structs.asdict(snapshot.totals) == asdict(result.totals)
    counts = {name: msgspec.structs.asdict(counts) for name, counts in monitor.counts.items()}
    assert counts == {name: asdict(counts) for name, counts in result.by_channel.items()}
    assert (snapshot.windows.fired, snapshot.windows.late_firings) == (result.fired, result.late_firings)
    assert monitor.level == result.level
    got = {c.name: (monitor.clock.watermark(n), c.max_event_ms) for n, c in enumerate(monitor.channels)}
    assert got == {name: (c.watermark, c.max_event) for name, c in result.channels.items()}


def test_firings(ran: Ran) -> None:
    settings, rows, monitor, lines, _ = ran
    plus = 1 if settings.strategy == "spark" else 0
    theirs = [
        {**line, "watermark_ms": None if line["watermark_ms"] is None else line["watermark_ms"] + plus}
        for line in expected(settings, rows).lines
    ]
    assert same_lines(lines, theirs)
    late = sum(line["records"] for line in lines if line["kind"] == "late")  # type: ignore[misc]
    assert late == snapshot_of(monitor, name="x", state="ended", wall_ms=0).totals.late


def test_late_output(ran: Ran) -> None:
    """Record by record: which were dropped, by which watermark, of which window, with all their columns."""
    settings, rows, monitor, _, kept = ran
    reference = Reference(settings)
    for op in in_batches(rows, BATCH_ROWS):
        reference.apply(op)
    plus = 1 if settings.strategy == "spark" else 0
    expected = [
        (late.batch, *late.row[:3], late.watermark + plus, late.end, late.watermark - ((late.end or _ts(late) + 1) - 1))
        for late in reference.late
    ]
    added = ("wmtop_watermark_ms", "wmtop_window_end_ms", "wmtop_late_by_ms")
    got = [(row["batch"], row["a"], row["c"], row["t"], *(row[name] for name in added)) for row in kept]
    assert sorted(map(repr, got)) == sorted(map(repr, expected))
    assert len(kept) == sum(counts.late for counts in monitor.counts.values())
    assert len({row["number"] for row in kept}) == len(kept)
    for row in kept:
        own = rows[row["number"]]
        assert (row["t"], row["a"], row["c"]) == (own.ts, own.arrival, own.channel)
        assert (row["wmtop_time_ms"], row["wmtop_channel"]) == (own.ts, own.channel or "(none)")


def test_explain(ran: Ran) -> None:
    _, rows, monitor, _, kept = ran
    late, usable = Counter(row["c"] for row in kept), [row for row in rows if row.ts is not None]
    records = Counter(row.channel for row in usable)
    assert monitor.explain is not None
    kind, channel = monitor.explain.columns.values()
    assert {name: (value.late, value.records) for name, value in channel.counts.items()} == {
        name or "(none)": (late[name], count) for name, count in records.items()
    }
    assert sum(value.late for value in kind.counts.values()) == len(kept)
    assert sum(value.records for value in kind.counts.values()) == len(usable)


def _ts(late: LateRow) -> int:
    assert late.row.ts is not None
    return late.row.ts


def test_what_if(ran: Ran) -> None:
    settings, rows, monitor, _, _ = ran
    snapshot = snapshot_of(monitor, name="x", state="ended", wall_ms=0)
    if not settings.tunable:
        assert snapshot.whatif is None
        return
    assert snapshot.whatif is not None
    ops = in_batches(rows, BATCH_ROWS)
    for row in snapshot.whatif:
        if row.lateness_ms in (0, 1, 50, 100, settings.lateness_ms, 300, 700, 5_000):
            real = at_lateness(ops, settings, row.lateness_ms)
            assert row.behind_watermark == real.totals.behind_watermark, row
            if isinstance(settings.window, Session) and not settings.late_alone:
                assert row.late >= real.totals.late
            elif settings.late_alone:
                assert row.late == real.totals.late
            else:
                assert (row.late, row.delay_ms) == (real.totals.late, real.delay()), row


def test_what_if_of_idle_timeouts(ran: Ran) -> None:
    settings, rows, monitor, _, _ = ran
    ops = in_batches(rows, BATCH_ROWS)
    for row in snapshot_of(monitor, name="x", state="ended", wall_ms=0).whatif_idle:
        real = at_idle_after(ops, settings, row.idle_after_ms)
        # Sessions count a record by its own unmerged window: an upper bound.
        assert real.totals.late <= row.late + row.late_error, row
        assert row.late <= real.totals.late or isinstance(settings.window, Session), row
        assert row.flaps == sum(channel.flaps for channel in real.channels.values())
