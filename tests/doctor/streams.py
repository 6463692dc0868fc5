"""A real Monitor driven second by second, with the snapshots and the history that an engine would publish."""

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

from wmtop.engine.doctor import Finding, diagnose
from wmtop.engine.snapshot import EngineState, Offender, Snapshot, SourceView, SparkProgress
from wmtop.engine.verdict.evidence import Evidence
from wmtop.engine.verdict.history import HistoryPoint, history_point
from wmtop.engine.verdict.monitor_snapshot import snapshot_of
from wmtop.engine.verdict.verdict import judged, lost_state
from wmtop.engine.watermarks.channels import Unread
from wmtop.engine.watermarks.monitor import new_monitor
from wmtop.engine.watermarks.settings import Settings, Tumbling

from tests.snapshots import replace

from ..reference.ops import Batch, Row
from ..watermarks.aggregate import observe

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
START = 1_700_000_000_000 - 1_700_000_000_000 % DAY
SETTINGS = Settings(lateness_ms=5 * SECOND, idle_after_ms=5 * MINUTE, window=Tumbling(10 * SECOND))
KAFKA = SourceView("kafka", "events at localhost:9092", reader="connector", time_column="$.ts", time_unit="epoch ms")

Record = tuple[str, int | None]


class Stream:
    """One run: `step` passes time and lets records in; `speed` is that of a replay, None of a live source."""

    def __init__(
        self, settings: Settings = SETTINGS, *, source: SourceView = KAFKA, speed: float | None = None
    ) -> None:
        self.monitor = new_monitor(settings)
        self.source = source if speed is None else SourceView("replay", "flights.parquet", speed=speed, rows=10**6)
        self.speed = speed
        self.now = START
        self.batch = -1
        self.past: list[HistoryPoint] = []
        self.backlog: dict[str, int] = {}
        self.held_back: frozenset[str] = frozenset()
        self.state: EngineState = "live"
        self.batch_ms = 300
        self.rows_in: float | None = None
        self.snapshot: Snapshot | None = None
        self.published: list[Snapshot] = []
        self.bounded = False
        self.monitor.history.beat_of = "run" if speed is None else "replay"

    @property
    def wall(self) -> int:
        """The wall clock (ms): of a replay it runs slower than processing time."""
        return self.now if self.speed is None else START + round((self.now - START) / self.speed)

    def step(self, records: Iterable[Record] = (), by: int = SECOND) -> None:
        """Let `by` ms pass, then a batch of (channel, event time), a tick or two, and a snapshot."""
        before, self.now = self.now, self.now + by
        self.monitor.exclude(by, self.now, [name for name, unread in self.backlog.items() if unread])
        if self.state == "paused":
            self.monitor.exclude(by, self.now)
        rows = tuple(Row(self.now, channel, ts) for channel, ts in records)
        if self.state != "paused":
            for tick in range(before + 200, self.now, max(200, by // 5)):
                self.monitor.tick(tick)
        if rows:
            self.batch += 1
            observation = observe(self.monitor, Batch(rows, self.now, own_arrival=False), self.batch)
            bad = [row for row in rows if row.ts is None]
            guard = self.monitor.settings.future_guard_ms
            future = [row for row in rows if guard is not None and row.ts is not None and row.ts - self.now > guard]
            self.monitor.apply(_with_offenders(observation, future[-1] if future else None, bad[-1] if bad else None))
        self.publish()

    def publish(self) -> None:
        """A snapshot as it is now."""
        unread = Unread(sum(self.backlog.values()), self.backlog, self.held_back) if self._knows_backlog else None
        snapshot = snapshot_of(
            self.monitor,
            name="events",
            state=self.state,
            wall_ms=self.wall,
            now_ms=self.now,
            source=self.source,
            unread=unread,
            spark=SparkProgress(batch_ms=self.batch_ms, input_rows_per_second=self.rows_in),
        )
        self.snapshot = self._judged(snapshot, unread)
        self.published.append(self.snapshot)
        point = history_point(self.snapshot)
        if point is not None:
            self.past = [p for p in self.past if p.wall_ms > point.wall_ms - 15 * MINUTE] + [point]

    def _judged(self, snapshot: Snapshot, unread: Unread | None) -> Snapshot:
        """As the pipeline's query asks for it."""
        evidence = Evidence(
            unread=0 if unread is None else unread.records,
            record_ms=self.monitor.history.record_ms,
            bounded_backlog=self.bounded,
            lost=lost_state(snapshot),
        )
        return judged(snapshot, self.monitor.history, evidence)

    @property
    def _knows_backlog(self) -> bool:
        return self.speed is None

    def run(self, seconds: int, make: Callable[[int], Iterable[Record]], by: int = SECOND) -> "Stream":
        """So many steps of `by` ms; `make` gives the records at a processing time (ms)."""
        for _ in range(seconds):
            self.step(make(self.now + by), by)
        return self

    def wait(self, ms: int, by: int = 10 * SECOND) -> "Stream":
        """Time without a record."""
        for _ in range(ms // by):
            self.step((), by)
        return self

    def change(self, **settings: Any) -> "Stream":
        """Change settings while it runs."""
        self.monitor.change(**settings, who="test", wall_ms=self.wall)
        return self

    def end(self) -> "Stream":
        """The end of the source."""
        self.monitor.end(self.now)
        self.state = "ended"
        self.publish()
        return self

    def findings(self, **reader: Any) -> list[Finding]:
        """What the doctor finds at the end."""
        assert self.snapshot is not None
        return diagnose(self.snapshot, self.past, **reader)


def _with_offenders(observation: Any, future: Row | None, bad: Row | None) -> Any:
    def offender(row: Row | None) -> Offender | None:
        return None if row is None else Offender(str(row.channel), 81_204, row.ts)

    return replace(observation, last_future=offender(future), last_malformed=offender(bad))


def traffic(
    channels: Sequence[str],
    *,
    each: int = 3,
    disorder: int = 3 * SECOND,
    shift: int = 0,
    behind: dict[str, int] | None = None,
    seed: int = 7,
) -> Callable[[int], list[Record]]:
    """`each` records a step of every channel, up to `disorder` ms old, `shift`ed, some channels `behind` (ms)."""
    chance = Random(seed)

    def make(now: int) -> list[Record]:
        return [
            (name, now + shift - (behind or {}).get(name, 0) - chance.randrange(disorder + 1))
            for name in channels
            for _ in range(each)
        ]

    return make
