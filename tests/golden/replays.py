"""Replays of flights and of synthetic records through the real Monitor, as pure functions of data and settings."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from msgspec import to_builtins
from msgspec.structs import replace
from pyarrow import parquet
from wmtop.engine.watermarks.settings import Session, Settings, Sliding, Tumbling

from ..doctor.streams import DAY, HOUR, MINUTE, SECOND, START, Stream
from ..reference.ops import Batch, Row
from ..watermarks.aggregate import observe

FLIGHTS = Path(__file__).parents[2] / "sample_data" / "flights.parquet"
FIRST_ROW, ROWS, BATCH_ROWS = 33_000, 6_000, 250
"""A few days from the eighth of February on, when a storm came."""
FLIGHT = Settings(lateness_ms=30 * MINUTE, idle_after_ms=2 * HOUR, window=Tumbling(HOUR), future_guard_ms=None)
SYNTHETIC = Settings(lateness_ms=3 * SECOND, idle_after_ms=20 * SECOND, window=Tumbling(10 * SECOND))
UNTUNED = replace(FLIGHT, lateness_ms=None)
SPEED = 600.0


class Replay(Stream):
    """A stream of batches that begin when their last record has arrived; `firings` are the `--firings` lines."""

    def __init__(self, settings: Settings, first_ms: int) -> None:
        super().__init__(settings, speed=SPEED)
        self.now = first_ms - 1
        self.firings: list[object] = []

    def take(self, rows: tuple[Row, ...], now: int) -> None:
        """Let time pass up to `now`, and the rows in."""
        for tick in range(self.now + MINUTE, now, MINUTE):
            self.firings += to_builtins(self.monitor.tick(tick))
        self.now, self.batch = now, self.batch + 1
        self.firings += to_builtins(self.monitor.apply(observe(self.monitor, Batch(rows, now), self.batch)))
        self.publish()


def flights(settings: Settings) -> Replay:
    """Airlines as channels, the scheduled departure as event time, in order of departure."""
    table = parquet.read_table(FLIGHTS, columns=["scheduled", "departed", "carrier"]).slice(FIRST_ROW, ROWS)
    times, arrivals = (table[name].cast("int64").to_pylist() for name in ("scheduled", "departed"))
    rows = sorted(zip(arrivals, times, table["carrier"].to_pylist(), strict=True), key=lambda row: row[0])
    replay = Replay(settings, rows[0][0])
    for first in range(0, len(rows), BATCH_ROWS):
        batch = rows[first : first + BATCH_ROWS]
        replay.take(
            tuple(Row(at, who, ts, _extra(settings, n, ts)) for n, (at, ts, who) in enumerate(batch)), batch[-1][0]
        )
    return replay


def _extra(settings: Settings, number: int, ts: int) -> int | bool | None:
    """Every fiftieth record is a marker; a source's watermark is 20 minutes old."""
    if settings.strategy == "punctuated":
        return number % 50 == 0
    return ts - 20 * MINUTE if settings.strategy == "source" else None


def synthetic(settings: Settings, seconds: int = 240) -> Replay:
    """Four channels: `b` is slow and a little disordered, `c` pauses, `d` has late, malformed and future times."""
    chance = Random(3)
    replay = Replay(settings, START)
    for second in range(1, seconds):
        now = START + second * SECOND
        replay.take(tuple(_records(chance, second, now)), now)
    return replay


def _records(chance: Random, second: int, now: int) -> Iterator[Row]:
    for name in "abcd":
        if name == "c" and 60 <= second < 120:
            continue
        for _ in range(2):
            ts: int | None = now - chance.randrange(2 * SECOND) - 5 * SECOND * (name == "b")
            if name == "d" and second % 20 == 19:
                ts = [None, now + DAY, now - MINUTE][second // 20 % 3]
            yield Row(now - chance.randrange(500), name if second % 50 else None, ts)


def ended(replay: Replay) -> Replay:
    """The same after the end of the source."""
    replay.end()
    return replay


REPLAYS: dict[str, Callable[[], Replay]] = {
    "flights bounded": lambda: flights(FLIGHT),
    "flights bounded ended": lambda: ended(flights(FLIGHT)),
    "flights bounded-legacy": lambda: flights(replace(FLIGHT, strategy="bounded-legacy")),
    "flights smoothed": lambda: flights(replace(FLIGHT, strategy="smoothed")),
    "flights spark": lambda: flights(replace(FLIGHT, strategy="spark", idle_after_ms=None)),
    "flights monotonous": lambda: flights(replace(UNTUNED, strategy="monotonous")),
    "flights punctuated": lambda: flights(replace(UNTUNED, strategy="punctuated", marker="marker")),
    "flights source": lambda: flights(replace(UNTUNED, strategy="source", watermark_column="watermark")),
    "flights none": lambda: flights(replace(UNTUNED, strategy="none")),
    "flights subtasks": lambda: flights(replace(FLIGHT, subtasks=3)),
    "flights sliding": lambda: flights(replace(FLIGHT, window=Sliding(HOUR, 15 * MINUTE))),
    "flights sessions": lambda: flights(replace(FLIGHT, window=Session(20 * MINUTE))),
    "flights allowed lateness": lambda: flights(replace(FLIGHT, allowed_lateness_ms=2 * HOUR)),
    "flights no idle timeout": lambda: flights(replace(FLIGHT, idle_after_ms=None)),
    "synthetic guarded": lambda: synthetic(replace(SYNTHETIC, future_guard_ms=5 * MINUTE)),
    "synthetic unguarded": lambda: synthetic(replace(SYNTHETIC, future_guard_ms=None)),
    "synthetic sliding with gaps": lambda: synthetic(replace(SYNTHETIC, window=Sliding(4 * SECOND, 10 * SECOND))),
    "synthetic session": lambda: synthetic(replace(SYNTHETIC, window=Session(900))),
    "synthetic spark": lambda: synthetic(replace(SYNTHETIC, strategy="spark", idle_after_ms=None)),
    "synthetic subtasks": lambda: synthetic(replace(SYNTHETIC, subtasks=2, allowed_lateness_ms=30 * SECOND)),
    "synthetic ended": lambda: ended(synthetic(SYNTHETIC)),
}
