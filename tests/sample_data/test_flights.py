"""The committed flights are what the script makes of the source, with UTC times that were worked out by hand."""

import subprocess
import sys
from collections import Counter
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from wmtop.sample_data import ARRIVAL, CHANNEL, DEMO_START, TIME, flights, make_flights
from wmtop.sample_data.make_flights import Departure


def utc(iso: str) -> int:
    return int(datetime.fromisoformat(iso + "Z").timestamp() * 1000)


@pytest.fixture(scope="module")
def source() -> list[dict[str, str]]:
    return list(make_flights.source_rows())


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return pq.read_table(flights())


@pytest.fixture(scope="module")
def rows(table: pa.Table) -> list[Departure]:
    integers = table.set_column(0, TIME, table[TIME].cast("int64")).set_column(1, ARRIVAL, table[ARRIVAL].cast("int64"))
    return [Departure(*row) for row in zip(*(column.to_pylist() for column in integers.columns), strict=True)]


@pytest.mark.matrix
def test_the_file_is_what_the_script_makes_again_byte_for_byte(
    source: list[dict[str, str]], table: pa.Table, rows: list[Departure], tmp_path: Path
) -> None:
    made, cancelled = make_flights.departures(source)
    assert rows == made
    assert len(made) + cancelled == len(source) == 336_776
    make_flights.write(made, tmp_path / "here.parquet")
    said = subprocess.run(
        [sys.executable, make_flights.__file__, tmp_path / "script.parquet"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert (tmp_path / "script.parquet").read_bytes() == (tmp_path / "here.parquet").read_bytes()
    again, committed = pq.ParquetFile(tmp_path / "script.parquet"), pq.ParquetFile(flights())
    assert again.schema_arrow.equals(committed.schema_arrow)
    assert again.metadata.num_row_groups == committed.metadata.num_row_groups
    assert said[0].startswith(f"{len(made):,} departures")
    assert said[0].endswith(f"{cancelled:,} cancelled")
    assert said[4].startswith(f"stormy: {DEMO_START[:10]} 27 over 5 hours late")


def test_columns(table: pa.Table) -> None:
    time = pa.timestamp("ms", "UTC")
    assert [(field.name, field.type) for field in table.schema] == [
        (TIME, time),
        (ARRIVAL, time),
        (CHANNEL, pa.string()),
        ("flight", pa.int16()),
        ("origin", pa.string()),
        ("dest", pa.string()),
    ]
    assert not any(column.null_count for column in table.columns)
    assert flights().stat().st_size < 4_000_000


@pytest.mark.parametrize(
    ("local", "expected"),
    [
        ((2013, 1, 1, 515), "2013-01-01T10:15"),  # winter: UTC - 5
        ((2013, 3, 9, 2359), "2013-03-10T04:59"),
        ((2013, 3, 10, 159), "2013-03-10T06:59"),  # the last minute before the clocks skip an hour ...
        ((2013, 3, 10, 300), "2013-03-10T07:00"),  # ... and the next
        ((2013, 7, 10, 1200), "2013-07-10T16:00"),  # summer: UTC - 4
        ((2013, 11, 3, 59), "2013-11-03T04:59"),  # the last minute that is there once ...
        ((2013, 11, 3, 200), "2013-11-03T07:00"),  # ... and the first after the repeated hour
        ((2013, 12, 31, 2359), "2014-01-01T04:59"),
    ],
)
def test_local_times_by_hand(local: tuple[int, int, int, int], expected: str) -> None:
    assert make_flights.utc_ms(*local) == utc(expected)


@pytest.mark.parametrize("local", [(2013, 3, 10, 200), (2013, 3, 10, 259), (2013, 11, 3, 100), (2013, 11, 3, 159)])
def test_a_skipped_or_repeated_time_is_refused(local: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="skipped or repeated by daylight saving"):
        make_flights.utc_ms(*local)


def test_a_row_that_contradicts_itself_is_refused(source: list[dict[str, str]]) -> None:
    with pytest.raises(ValueError, match="is not the departure"):
        make_flights.departure(source[0] | {"dep_delay": "3"})


@pytest.mark.parametrize(
    ("scheduled", "departed", "carrier", "flight"),
    [
        ("2013-03-10T04:59", "2013-03-10T05:53", "B6", 727),  # 9 March 23:59 EST, 54 minutes late, over midnight
        ("2013-03-10T09:00", "2013-03-10T08:54", "US", 1113),  # 10 March 05:00 EDT, 6 minutes early
        ("2013-03-11T01:00", "2013-03-11T04:41", "EV", 4368),  # 10 March 21:00 EDT, 221 minutes late
        ("2013-11-03T10:20", "2013-11-03T10:19", "UA", 322),  # 3 November 05:20 EST, 1 minute early
        ("2013-11-05T03:50", "2013-11-05T05:11", "B6", 1816),  # 4 November 22:50 EST, 81 minutes late
    ],
)
def test_flights_around_the_change_of_clocks_by_hand(
    rows: list[Departure], scheduled: str, departed: str, carrier: str, flight: int
) -> None:
    [found] = [row for row in rows if (row.scheduled, row.carrier, row.flight) == (utc(scheduled), carrier, flight)]
    assert found.departed == utc(departed)


def test_the_hours_agree_with_those_that_the_source_gives_in_utc(source: list[dict[str, str]]) -> None:
    for row in source:
        found = make_flights.departure(row)
        assert found is None or found.scheduled // 3_600_000 * 3_600_000 == utc(row["time_hour"].removesuffix("Z"))


def test_it_is_sorted_by_arrival(rows: list[Departure]) -> None:
    assert all(a.departed <= b.departed for a, b in pairwise(rows))


def test_ties_keep_the_order_of_the_source_and_cancelled_flights_are_counted(source: list[dict[str, str]]) -> None:
    late = source[0] | {"dep_delay": "60", "dep_time": "615"}
    cancelled = source[0] | {"dep_delay": "NA", "dep_time": "NA"}
    made, left_out = make_flights.departures([late, source[0], cancelled, source[0] | {"flight": "7"}])
    assert [(row.departed - made[0].departed, row.flight) for row in made] == [(0, 1545), (0, 7), (58 * 60_000, 1545)]
    assert left_out == 1


def test_the_disorder_that_the_demo_lives_on(rows: list[Departure]) -> None:
    delays = [(row.departed - row.scheduled) // 60_000 for row in rows]
    assert (min(delays), max(delays)) == (-43, 1301)
    assert 0.14 < sum(delay > 30 for delay in delays) / len(rows) < 0.15
    assert 0.02 < sum(delay > 120 for delay in delays) / len(rows) < 0.03
    carriers = Counter(row.carrier for row in rows)
    assert len(carriers) == 16
    assert carriers["HA"] < 366  # nearly idle: less than one a day
    assert carriers["OO"] < 366


def test_the_demo_starts_before_the_storm(rows: list[Departure]) -> None:
    start, hour = utc(DEMO_START.removesuffix("Z")), 3_600_000
    day = [row for row in rows if start <= row.departed < start + 12 * hour]

    def over_two_hours_late(first: int, last: int) -> int:
        part = [row for row in day if start + first * hour <= row.departed < start + last * hour]
        return sum(row.departed - row.scheduled > 2 * hour for row in part)

    assert over_two_hours_late(0, 3) < 10 < 100 < over_two_hours_late(3, 12)
    night = [row for row in rows if start + 15 * hour <= row.departed < start + 17 * hour]
    assert len(night) < 5
