"""The replay through Spark: exact batches, in order, again after a restart, and no faster than its clock."""

import datetime
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from wmtop.engine.run.sources.columns import Columns
from wmtop.engine.run.sources.replay import BOUND, Replay, next_end, ranges
from wmtop.engine.run.sources.replay_time import ReplayTime
from wmtop.engine.system.errors import UsageError
from wmtop.engine.system.files import PrivateDirectory
from wmtop.engine.watermarks.times import MIN

from .streams import read_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR = 3_600_000


def replay(directory: Path, columns: Columns, *files: Path, **options: Any) -> Replay:
    """A replay that is ready to load."""
    source = Replay(files, columns, directory / "staged", **options)
    source.check()
    source.prepare(lambda text: None)
    source.clock.resume(0)
    return source


def parquet(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


ARRIVALS = np.array([MIN, 10, 10, 20, 30])


@pytest.mark.parametrize(
    ("start", "clock", "batch_rows", "most", "end"),
    [
        (0, None, None, None, 5),
        (0, None, None, 2, 2),
        (4, None, None, 2, 5),
        (5, None, None, 2, 5),
        (0, 9, None, None, 1),
        (0, 10, None, None, 3),
        (3, 19, None, None, 3),
        (3, 5, None, None, 3),
        (0, 10, 2, None, 2),
        (2, 10, 2, None, 2),
        (2, 20, 2, None, 4),
        (4, 29, 2, None, 4),
        (4, 30, 2, None, 5),
        (4, None, 2, None, 5),
    ],
)
def test_where_a_batch_ends(start: int, clock: int | None, batch_rows: int | None, most: int | None, end: int) -> None:
    assert next_end(ARRIVALS, start, clock, batch_rows, most) == end


def test_tasks_share_a_batch_in_order() -> None:
    parts = ranges(7, BOUND, 4)
    assert [start for start, _ in parts] == [7, *[stop for _, stop in parts][:-1]]
    assert (len(parts), parts[-1][1]) == (4, BOUND)
    assert ranges(0, 9, 4) == [(0, 9)]
    assert ranges(9, 9, 4) == []


def test_exact_batches_and_the_same_again_after_a_restart(spark: "SparkSession", tmp_path: Path) -> None:
    came = [5, 3, None, 3, 9, 7, 8]
    one = parquet(
        tmp_path / "1.parquet", ts=[1, 2, 3, None, 5, 6, 7], channel=["a", "b", None, "d", "e", "f", "g"], offset=came
    )
    two = parquet(tmp_path / "2.parquet", ts=[8, 9, 10], channel=["h", "i", "j"], offset=[3, 3, 99])
    columns = Columns(time="ts", unit="ms", channel="channel", arrival="offset")
    source = replay(tmp_path, columns, one, two, batch_rows=4, keep=True)
    first = read_batches(spark, source, tmp_path / "checkpoint")
    assert [[row["channel"] for row in batch] for batch in first.values()] == [
        ["(none)", "b", "d", "h"], ["i", "a", "f", "g"], ["e", "j"],
    ]  # fmt: skip
    rows = [row for batch in first.values() for row in batch]
    assert [row["offset"] for row in rows] == list(range(10)) == list(range(source.rows_in_all or 0))
    assert [row["arrival"] for row in rows] == [None, 3, 3, 3, 3, 5, 7, 8, 9, 99]
    assert [row["ts"] for row in rows] == [None, 2, None, 8, 9, 1, 6, 7, 5, 10]
    assert list(rows[0]) == ["channel", "ts", "arrival", "offset"]

    # Killed after Spark had planned batch 1 but not committed it: the same command reads the same rows.
    source.close()
    for file in ("commits/1", "offsets/2", "commits/2", "offsets/3"):  # batch 3 waited for rows
        (tmp_path / "checkpoint" / file).unlink(missing_ok=True)
    again = replay(tmp_path, columns, one, two, batch_rows=4, keep=True)
    assert read_batches(spark, again, tmp_path / "checkpoint", first_row=4) == {1: first[1], 2: first[2]}


def test_a_paced_replay_reads_what_has_arrived_by_its_clock(spark: "SparkSession", tmp_path: Path) -> None:
    file = parquet(tmp_path / "1.parquet", at=[None, HOUR, HOUR, 5 * HOUR, 6 * HOUR])
    source = replay(tmp_path, Columns(time="at", unit="ms"), file, speed=1.0)
    assert source.clock.now_ms() == HOUR
    before = read_batches(spark, source, tmp_path / "checkpoint", rows=3)
    assert [(row["ts"], row["arrival"]) for row in before[0]] == [(None, None), (HOUR, HOUR), (HOUR, HOUR)]
    assert HOUR < source.clock.now_ms() < 2 * HOUR
    assert source.clock.tick_limit_ms(3) == 5 * HOUR

    # Four hours later in replay time.
    source.clock.resume(3, 5 * HOUR)
    after = read_batches(spark, source, tmp_path / "checkpoint", rows=1, first_row=3)
    assert [[row["ts"] for row in batch] for batch in after.values()] == [[5 * HOUR]]


def test_a_paced_batch_of_exact_size_waits_for_its_last_row(spark: "SparkSession", tmp_path: Path) -> None:
    file = parquet(tmp_path / "1.parquet", at=[HOUR, HOUR + 1, HOUR + 2, 9 * HOUR, 9 * HOUR + 1])
    source = replay(tmp_path, Columns(time="at", unit="ms"), file, speed=1.0, batch_rows=2)
    assert source.clock.now_ms() == HOUR + 1
    before = read_batches(spark, source, tmp_path / "checkpoint", rows=2)
    source.clock.resume(5, 10 * HOUR)
    after = read_batches(spark, source, tmp_path / "checkpoint", rows=3, first_row=2)
    assert [[row["offset"] for row in batch] for batch in [*before.values(), *after.values()]] == [[0, 1], [2, 3], [4]]


def test_resume_goes_on_where_the_clock_had_come(tmp_path: Path) -> None:
    file = parquet(tmp_path / "1.parquet", at=[None, 10, 20, 90])
    source = replay(tmp_path, Columns(time="at", unit="ms"), file, speed=600.0)
    for rows_read, now_ms, expected in [
        (0, None, 10), (1, None, 10), (2, None, 10), (3, None, 20), (4, None, 90),
        (3, 50, 50), (3, 15, 20), (3, 500, 90), (4, 500, 500),
    ]:  # fmt: skip
        source.clock.resume(rows_read, now_ms)
        assert source.clock.now_ms() == expected, (rows_read, now_ms)
    source.prepare(lambda text: None)  # as a new process does: what it finds there is the clock of a run before it
    assert source.clock.now_ms() == 10
    assert [source.clock.tick_limit_ms(row) for row in range(5)] == [MIN, 10, 20, 90, None]


def test_the_clock_is_still_until_it_is_started_once(monkeypatch: pytest.MonkeyPatch) -> None:
    time = ReplayTime(speed=600, batch_rows=None)
    time.begin(np.array([10_000]))
    for now_s, started, expected in [(1e9, False, 10_000), (100.0, True, 10_000), (101.5, True, 910_000)]:
        monkeypatch.setattr("time.monotonic", lambda now_s=now_s: now_s)
        assert (time.start() if started else time.now_ms()) == expected


def test_marker_and_watermark_columns(spark: "SparkSession", tmp_path: Path) -> None:
    file = tmp_path / "1.csv"
    file.write_text("ts,kind,size,wm\n1,row,5,\n2,mark,,1\n3,mark,7,1970-01-01T00:00:00.002\n4,,,junk\n")
    columns = Columns(time="ts", unit="ms", channel="kind", watermark="wm", marker="kind = 'mark' and size > 6")
    source = replay(tmp_path, columns, file)
    rows = read_batches(spark, source, tmp_path / "checkpoint")[0]
    assert [row["marker"] for row in rows] == [False, False, True, False]
    assert [row["source_watermark"] for row in rows] == [None, 1, 2, None]
    assert list(rows[0]) == ["channel", "ts", "arrival", "offset", "source_watermark", "marker"]
    for marker, said in [("kind =", "is not a condition"), ("knd = 1", "knd"), ("size + 1", "is of type")]:
        bad = replay(tmp_path, replace(columns, marker=marker), file)
        with pytest.raises(UsageError, match=said) as caught:
            bad.load(spark, as_columns=False)
        assert "\n" not in str(caught.value)


def test_marker_over_a_typed_file(spark: "SparkSession", tmp_path: Path) -> None:
    seen = pa.array([datetime.datetime(2013, 2, 8), None], pa.timestamp("ns"))
    file = parquet(tmp_path / "1.parquet", at=[1, 2], Seen=seen, small=pa.array([1, 255], pa.uint8()), what=["x", "y"])
    columns = Columns(time="at", unit="ms", marker="seen < timestamp'2014-01-01' or (small = 255 and what = 'y')")
    rows = read_batches(spark, replay(tmp_path, columns, file), tmp_path / "checkpoint")[0]
    assert [row["marker"] for row in rows] == [True, True]
    assert [row["channel"] for row in rows] == ["all", "all"]


def test_identity_follows_the_content(tmp_path: Path) -> None:
    file = parquet(tmp_path / "1.parquet", at=[1])

    def identity(columns: Columns, **options: Any) -> dict[str, Any]:
        return Replay([file], columns, tmp_path / "staged", **options).identity()

    same = identity(Columns(time="at", unit="ms"))
    assert identity(Columns(time="at", unit="ms"), speed=600.0) == same
    assert identity(Columns(time="at", unit="ms"), batch_rows=10) != same
    assert identity(Columns(time="at", unit="s")) != same
    parquet(file, at=[2])
    assert identity(Columns(time="at", unit="ms")) != same


def test_without_a_state_directory_rows_are_where_only_this_user_may_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    source = Replay([parquet(tmp_path / "1.parquet", at=[1])], Columns(time="at", unit="ms"), None)
    source.check()
    assert list((tmp_path / "tmp").iterdir()) == []  # made by the engine, not by a terminal that starts one
    source.prepare(lambda text: None)
    [staged] = (tmp_path / "tmp").iterdir()
    assert (staged / "rows.arrow").exists()
    assert stat.S_IMODE(staged.stat().st_mode) == 0o700
    source.close()
    assert list((tmp_path / "tmp").iterdir()) == []


def test_rows_in_a_state_directory_are_private_too(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o755)
    file = parquet(tmp_path / "1.parquet", at=[1])
    source = Replay([file], Columns(time="at", unit="ms"), tmp_path / "state" / "staged", keep=True)
    source.check()
    source.prepare(lambda text: None)
    source.close()
    assert stat.S_IMODE((tmp_path / "state" / "staged").stat().st_mode) == 0o700


LEFT = """
import os, pathlib, sys
from wmtop.engine.run.sources.columns import Columns
from wmtop.engine.run.sources.replay import Replay
source = Replay([pathlib.Path(sys.argv[1])], Columns(time="at", unit="ms"), None)
source.check()
source.prepare(lambda text: None)
os.kill(os.getpid(), 9)
"""


def test_rows_that_a_killed_engine_left_are_removed_by_the_next_start(tmp_path: Path) -> None:
    file = parquet(tmp_path / "1.parquet", at=[1])
    (tmp_path / "tmp").mkdir()
    environment = os.environ | {"TMPDIR": str(tmp_path / "tmp")}
    done = subprocess.run([sys.executable, "-c", LEFT, file], env=environment, check=False)
    assert done.returncode == -9
    [left] = (tmp_path / "tmp").iterdir()
    assert (left / "rows.arrow").exists()
    PrivateDirectory("wmtop-spark-", tmp_path / "tmp").remove()
    assert list((tmp_path / "tmp").iterdir()) == []


def test_close_leaves_what_a_state_directory_needs(tmp_path: Path) -> None:
    file = parquet(tmp_path / "1.parquet", at=[1])
    for keep in (True, False):
        replay(tmp_path, Columns(time="at", unit="ms"), file, keep=keep).close()
        assert (tmp_path / "staged").exists() == keep
