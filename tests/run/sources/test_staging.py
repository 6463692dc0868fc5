"""Files of every format become the same rows in the same order."""

import datetime
import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from wmtop.engine.run.sources import staging
from wmtop.engine.run.sources.base import NOTHING_MORE
from wmtop.engine.run.sources.columns import PREFIX, Columns, channels, check_files
from wmtop.engine.run.sources.data_files import data_files
from wmtop.engine.run.sources.staging import BATCH_ROWS, StagedRows, StagingProgress, arrivals_of
from wmtop.engine.run.sources.table_files import look_at
from wmtop.engine.system.errors import UsageError
from wmtop.engine.watermarks.times import FIRST_USABLE_MS, LAST_USABLE_MS

ALL = Columns(time="when", unit="ms", channel="who", arrival="came")


def staged(directory: Path, columns: Columns, *files: Path) -> list[dict[str, Any]]:
    """The staged rows under their canonical names."""
    looked_at = [look_at(file) for file in files]
    staging.stage(looked_at, columns, "origin", directory, lambda text: None)
    count = len(arrivals_of(directory))
    rows = [row for table in StagedRows(str(directory)).tables(0, count) for row in table.to_pylist()]
    assert len(rows) == count
    return [{name.removeprefix(PREFIX): value for name, value in row.items()} for row in rows]


def short(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["channel"], row["ts"], row["arrival"]) for row in rows]


def parquet(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def text(path: Path, content: str) -> Path:
    path.write_text(content)
    return path


def test_rows_are_sorted_by_arrival_and_ties_keep_file_and_row(tmp_path: Path) -> None:
    first = parquet(tmp_path / "1.parquet", when=[1, 2, 3], who=["a", "b", "c"], came=[20, 10, 20])
    second = parquet(tmp_path / "2.parquet", when=[4, 5, 6], who=["d", "e", "f"], came=[10, 20, 5])
    rows = staged(tmp_path / "s", ALL, first, second)
    assert [row["channel"] for row in rows] == ["f", "b", "d", "a", "c", "e"]
    assert [row["offset"] for row in rows] == list(range(6))
    assert [row["channel"] for row in staged(tmp_path / "t", ALL, second, first)] == ["f", "d", "b", "e", "a", "c"]


def test_a_row_without_a_usable_arrival_is_malformed_and_first(tmp_path: Path) -> None:
    file = parquet(tmp_path / "1.parquet", when=[1, 2, None, 4], who=["a", "b", "c", "d"], came=[5, None, 3, 2**62])
    rows = short(staged(tmp_path / "s", ALL, file))
    assert rows == [("b", None, None), ("d", None, None), ("c", None, 3), ("a", 1, 5)]


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ms", "Asia/Tokyo")])
def test_times_that_python_cannot_hold_are_malformed_and_channels_by_their_text(kind: Any, tmp_path: Path) -> None:
    absurd = pa.array([2**62, 2**63 - 1], pa.int64()).cast(kind)
    file = parquet(tmp_path / "1.parquet", when=absurd, who=absurd, came=pa.array([None, 5], pa.timestamp("ms")))
    columns = Columns(time="when", unit="ms", channel="who", arrival="came")
    check_files([look_at(file)], columns, NOTHING_MORE)
    rows = short(staged(tmp_path / "s", columns, file))
    assert [(at, came) for _, at, came in rows] == [(None, None), (None, 5)]
    assert len({channel for channel, _, _ in rows}) == 2


def test_the_last_usable_times_are_usable_in_any_zone(tmp_path: Path) -> None:
    ends = [FIRST_USABLE_MS, LAST_USABLE_MS]
    times = [pa.array(ends, pa.timestamp("ms", zone)) for zone in ("America/New_York", "Asia/Tokyo")]
    file = parquet(tmp_path / "1.parquet", when=times[0], who=["a", "b"], came=times[1])
    columns = Columns(time="when", unit="ms", channel="who", arrival="came")
    check_files([look_at(file)], columns, NOTHING_MORE)
    assert short(staged(tmp_path / "s", columns, file)) == [("a", ends[0], ends[0]), ("b", ends[1], ends[1])]


def test_without_arrivals_a_row_comes_at_the_greatest_time_so_far(tmp_path: Path) -> None:
    file = parquet(tmp_path / "1.parquet", when=[None, 5, 3, None, 9, 8], who=list("abcdef"))
    rows = short(staged(tmp_path / "s", Columns(time="when", unit="ms", channel="who"), file))
    assert rows == [("a", None, None), ("b", 5, 5), ("c", 3, 5), ("d", None, 5), ("e", 9, 9), ("f", 8, 9)]


def test_rows_before_since_are_left_out(tmp_path: Path) -> None:
    file = parquet(tmp_path / "1.parquet", when=[1, 2, 3], who=["a", "b", "c"], came=[30, 10, 20])
    columns = Columns(time="when", unit="ms", channel="who", arrival="came", since_ms=20)
    assert short(staged(tmp_path / "s", columns, file)) == [("c", 3, 20), ("a", 1, 30)]


def test_all_formats_give_the_same_rows(tmp_path: Path) -> None:
    at = ["2013-02-08T14:32:10.5Z", None, "2013-02-08 14:32:11", "never", "2021-02-30"]
    who = ["UA", "007", None, 'x,"y"', "é\n2"]
    came = [3, 1, 2, 5, 4]
    expected = [("007", None, 1), ("(none)", 1360333931000, 2), ("UA", 1360333930500, 3), ("é\n2", None, 4)]
    expected += [('x,"y"', None, 5)]
    table = pa.table({"came": came, "other": [0] * 5, "who": who, "when": at})
    pq.write_table(table, tmp_path / "a.parquet")
    pa_csv.write_csv(table, tmp_path / "a.csv")
    lines = "\n".join(json.dumps(row) for row in table.to_pylist())
    text(tmp_path / "a.jsonl", lines)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress((tmp_path / "a.csv").read_bytes()))
    (tmp_path / "packed").write_bytes(gzip.compress(b"\xef\xbb\xbf" + lines.encode()))
    for name in ("a.parquet", "a.csv", "a.jsonl", "a.csv.gz", "packed"):
        assert short(staged(tmp_path / f"{name}.staged", ALL, tmp_path / name)) == expected, name


def test_csv_rows_that_are_ragged_or_no_text_stay_in_place(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b"\xef\xbb\xbfwhen;who;came\n1;a;1\n\n2\n3;c;3;extra\n;\xff;4\n5;e;5\n")
    rows = short(staged(tmp_path / "s", ALL, file))
    assert rows == [("(none)", None, None), ("a", 1, 1), ("c", 3, 3), ("\ufffd", None, 4), ("e", 5, 5)]


def test_a_ragged_row_far_into_a_csv_file_loses_nothing(tmp_path: Path) -> None:
    count, wide = 12_000, "x" * 1_000  # beyond the first block that Arrow reads
    lines = [f"{i},{wide}" for i in range(count)]
    lines[count - 10] += ",more"
    rows = staged(
        tmp_path / "s", Columns(time="when", unit="ms"), text(tmp_path / "a.csv", "when,who\n" + "\n".join(lines))
    )
    assert [row["ts"] for row in rows] == list(range(count))


def test_broken_json_lines_are_malformed_records(tmp_path: Path) -> None:
    file = text(
        tmp_path / "a.jsonl", '{"when": 1, "who": 7, "came": 1}\n\n{"when": 2, "wh\n5\n{"when": 1.9, "came": 2}\n'
    )
    assert short(staged(tmp_path / "s", ALL, file)) == [
        ("(none)", None, None), ("(none)", None, None), ("7", 1, 1), ("(none)", 1, 2),
    ]  # fmt: skip


def test_json_values_of_every_type(tmp_path: Path) -> None:
    values = ["1", "1.5", '"1"', '"1970-01-01T00:00:01"', "true", "null", "[1]", '{"a": 1}', "1e3", str(2**70)]
    file = text(tmp_path / "a.jsonl", "\n".join(f'{{"when": {value}, "who": {value}}}' for value in values))
    rows = staged(tmp_path / "s", Columns(time="when", unit="ms", channel="who"), file)
    assert [row["ts"] for row in rows] == [1, 1, 1, 1_000, None, None, None, None, 1_000, None]
    assert [row["channel"] for row in rows] == [
        "1", "1.5", "1", "1970-01-01T00:00:01", "true", "(none)", "[1]", '{"a":1}', "1000", str(2**70),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([1, None, -2], pa.int8()), ["1", "(none)", "-2"]),
        (pa.array([1.0, 2.5, None]), ["1", "2.5", "(none)"]),
        (pa.array([True, False, None]), ["true", "false", "(none)"]),
        (pa.array(["a", None, "", "(none)"]), ["a", "(none)", "", "(none)"]),
        (pa.array(["b", None, "b"]).dictionary_encode(), ["b", "(none)", "b"]),
        (pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array([None, "x"])), ["(none)", "x", "(none)"]),
        (pa.array([b"ok", b"\xff"]), ["ok", "\ufffd"]),
        (pa.array([datetime.date(2013, 2, 8)]), ["2013-02-08"]),
        (pa.nulls(2), ["(none)", "(none)"]),
        (pa.array([], pa.string()), []),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)  # fmt: skip
def test_any_value_names_a_channel(values: Any, expected: list[str]) -> None:
    assert channels(values).to_pylist() == expected


def test_what_is_staged_is_not_staged_again(tmp_path: Path) -> None:
    file = parquet(tmp_path / "1.parquet", when=[1, 2])
    columns, directory = Columns(time="when", unit="ms"), tmp_path / "s"

    def count(origin: str) -> int:
        staging.stage([look_at(file)], columns, origin, directory, lambda text: None)
        return len(arrivals_of(directory))

    assert count("origin") == 2
    modified = (directory / "rows.arrow").stat().st_mtime_ns
    parquet(file, when=[1, 2, 3])
    assert count("origin") == 2
    assert (directory / "rows.arrow").stat().st_mtime_ns == modified
    assert count("another") == 3


def test_any_range_of_rows_can_be_read(tmp_path: Path) -> None:
    count = 2 * BATCH_ROWS + 10
    file = parquet(tmp_path / "1.parquet", when=list(range(count)), who=["a", "b"] * (count // 2))
    staged(tmp_path / "s", Columns(time="when", unit="ms", channel="who"), file)
    edge = BATCH_ROWS
    for start, stop in [(0, 1), (edge - 2, edge + 2), (edge, 2 * edge), (count - 1, count), (5, 5), (0, count)]:
        got = [row for table in StagedRows(str(tmp_path / "s")).tables(start, stop) for row in table.to_pylist()]
        assert [row[f"{PREFIX}offset"] for row in got] == list(range(start, stop))
        assert [row[f"{PREFIX}ts"] for row in got] == list(range(start, stop))
        assert [row[f"{PREFIX}channel"] for row in got] == ["ab"[row % 2] for row in range(start, stop)]


@pytest.mark.parametrize("late_file", [False, True], ids=["in order", "the last file is older"])
def test_parts_whose_channels_are_numbered_differently(tmp_path: Path, late_file: bool) -> None:
    """Rows in order are written as they are read, in batches of one size, however the files are divided."""
    sizes, number = [BATCH_ROWS - 1, 3, 0, 2 * BATCH_ROWS + 5, 7], 0
    expected: list[tuple[str, int | None, int | None]] = []
    files: list[Path] = []
    for place, size in enumerate(sizes):
        names = ["x", "y", "z", f"only-{place}"]
        rows = [(names[(row * 7 + place) % 4], row + 1) for row in range(number, number + size)]
        shift = 10**6 if late_file and place == len(sizes) - 1 else 0
        arrivals = [row // 2 - shift for row in range(number, number + size)]
        who, when = [name for name, _ in rows], [time for _, time in rows]
        files.append(tmp_path / f"{place}.parquet")
        table = pa.table({"who": pa.array(who, pa.string()), "when": when, "came": arrivals})
        pq.write_table(table.cast(pa.schema({"who": pa.string(), "when": pa.int64(), "came": pa.int64()})), files[-1])
        expected += zip(who, when, arrivals, strict=True)
        number += size
    expected.sort(key=lambda row: row[2] or 0)
    assert short(staged(tmp_path / "s", ALL, *files)) == expected
    columns = StagedRows(str(tmp_path / "s"))
    for low, high in ((0, 5), (BATCH_ROWS - 2, BATCH_ROWS + 9), (number - 12, number)):
        rows = [row for table in columns((low, high)) for row in table.to_pylist()]
        assert short(rows) == expected[low:high]
        assert [row["offset"] for row in rows] == list(range(low, high))


def test_a_pattern_names_files_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for name in ("day=10", "day=9", "day=x[1]"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.csv").write_text("t\n1\n")

    def found(*patterns: str) -> list[str]:
        return [str(file) for file in data_files([tmp_path / pattern for pattern in patterns])]

    assert found("day=?/*.csv", "day=1*") == [str(tmp_path / f"day={day}" / "a.csv") for day in (9, 10)]
    assert found("day=x[1]") == [str(tmp_path / "day=x[1]" / "a.csv")]  # a name, not a pattern
    (tmp_path / "day=9" / "_SUCCESS").touch()
    (tmp_path / "day=8").mkdir()
    for hidden in ("_temporary", "day=9/.part"):
        (tmp_path / hidden).mkdir()
        (tmp_path / hidden / "a.csv").write_text("t\n1\n")
    assert len(found("**")) == len(found("**/*", "day=1*")) == len(found("**/*.csv")) == len(found("*", "*/*")) == 3
    assert found("_temp*/*") == [str(tmp_path / "_temporary" / "a.csv")]
    with pytest.raises(UsageError, match="file matches"):
        data_files([tmp_path / "day=7*"])


def test_progress_has_the_rate_and_the_time_left(tmp_path: Path) -> None:
    text, table = tmp_path / "a.csv", tmp_path / "b.parquet"
    text.write_text("when\n" + "1\n" * 30)
    pq.write_table(pa.table({"when": pa.array([1] * 100)}), table)
    sizes = text.stat().st_size, table.stat().st_size
    said: list[str] = []
    clock = iter([0.0, 0.5, 2.0, 4.0])
    progress = StagingProgress([look_at(text), look_at(table)], said.append, lambda: next(clock))
    progress.begin(0, look_at(text))
    progress.add(10)
    progress.add(20)
    progress.begin(1, look_at(table))
    progress.add(50)
    share = (sizes[0] + sizes[1] / 2) / sum(sizes)
    assert said == [
        "10 rows read",
        "30 rows read, 15/s",
        f"80 rows read, 20/s, {share:.0%}, {4 * (1 - share) / share:.0f} s left",
    ]
