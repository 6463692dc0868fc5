"""Canned snapshots and a canned client: what an engine would send, without one."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from wmtop.engine.feed.messages import FromEngine, Header, Stop, ToEngine
from wmtop.engine.snapshot import (
    Blocker,
    ChannelLateness,
    ChannelRecords,
    ChannelView,
    FiredWindow,
    Holder,
    InstanceView,
    Level,
    OpenWindow,
    Reason,
    RecentLateness,
    RecentRow,
    Snapshot,
    SourcePosition,
    SourceView,
    SparkProgress,
    Step,
    Totals,
    Verdict,
    WhatIf,
    WhatIfIdle,
    Windows,
)
from wmtop.engine.system.errors import RunError
from wmtop.engine.verdict.history import HistoryPoint
from wmtop.engine.watermarks.settings import Settings

from tests.snapshots import replace, snapshot_for

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
NOON = 1_360_281_600_000 + 12 * HOUR
"""2013-02-08T12:00:00Z."""
NOW = NOON + 2 * HOUR + 32 * MINUTE + 10_000
LEVEL = NOON + HOUR + 48 * MINUTE - 1
WALL = 1_700_000_000_000
STOP = Stop(id=0)
SETTINGS = Settings(lateness_ms=30 * MINUTE, idle_after_ms=2 * HOUR)

CARRIERS = ["UA", "B6", "F9", "EV", "DL", "AA", "MQ", "US", "9E", "AS", "FL", "HA", "OO", "VX", "WN", "YV"]
_AHEAD = (43, 40, 0, 27, 31, 35, 12, 22, 38, -95, 18, 3, -4 * 1440, 33, 29, 9)
EDGES = sorted({0, 1_000, 10_000, 30_000, *(MINUTE * m for m in (1, 2, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300))})


def channel(name: str, ahead_ms: int | None, **more: Any) -> ChannelView:
    """A channel `ahead_ms` of the canned watermark."""
    watermark = None if ahead_ms is None else LEVEL + ahead_ms
    known: dict[str, Any] = {
        "watermark_ms": watermark,
        "max_event_ms": None if watermark is None else watermark + 30 * MINUTE + 1,
        "state": "active",
        "records": 4_000,
        "late": 40,
        "behind_watermark": 90,
        "backlog": 0,
        "quiet_ms": 4 * MINUTE,
        "rate": 12.0,
    }
    known |= more
    if known["state"] == "active":  # its idle timer runs since its last record
        known.setdefault("timer_ms", known["quiet_ms"])
    return ChannelView(channel=name, **known)


def flights() -> list[ChannelView]:
    """Sixteen channels: F9 holds, AS and OO are idle, HA catches up."""
    out: list[ChannelView] = []
    for place, (name, ahead) in enumerate(zip(CARRIERS, _AHEAD, strict=True)):
        more: dict[str, Any] = {"records": 9_000 - 520 * place, "late": 17 * (place % 5), "rate": 860.0 / (place + 1)}
        if name == "F9":
            more |= {"quiet_ms": 26 * MINUTE, "rate": 0.0}
        elif ahead < 0:
            more |= {"state": "idle", "quiet_ms": -ahead * MINUTE, "rate": 0.0, "flaps": 3}
        elif name == "HA":
            more |= {"state": "catching_up"}
        out.append(channel(name, ahead * MINUTE, **more))
    return out


def whatif(records: int = 69_000) -> list[WhatIf]:
    """A late share that halves with each edge, and a delay that grows with it."""
    rows: list[WhatIf] = []
    for place, edge in enumerate(EDGES):
        late = int(records * 0.2 / 1.35**place)
        rows.append(WhatIf(edge, late, late / records, float(edge + 12 * MINUTE), behind_watermark=2 * late))
    return rows


def lateness_of(views: Sequence[ChannelView]) -> list[ChannelLateness]:
    """For each channel a hump that lies further to the right than the one before."""
    return [
        ChannelLateness(view.channel, view.records or 0, [max(40 - 6 * abs(edge - place % 9), 0) for edge in range(16)])
        for place, view in enumerate(views)
    ]


def idle_ladder() -> list[WhatIfIdle]:
    """Four timeouts and off; only the shortest has an inexact late count."""
    return [
        WhatIfIdle(15 * MINUTE, LEVEL + 12 * MINUTE, "MQ", 41, 1_900, late_error=60),
        WhatIfIdle(HOUR, LEVEL + 3 * MINUTE, "HA", 12, 1_400),
        WhatIfIdle(2 * HOUR, LEVEL, "F9", 6, 1_242),
        WhatIfIdle(6 * HOUR, LEVEL - 95 * MINUTE, "AS", 2, 900),
        WhatIfIdle(None, LEVEL - 4 * DAY, "OO", 0, 12),
    ]


def live(channels: Sequence[ChannelView] | None = None, **more: Any) -> Snapshot:
    """A running engine, sixteen channels unless configured otherwise."""
    views = flights() if channels is None else list(channels)
    known = [view.watermark_ms for view in views if view.watermark_ms is not None and view.state != "idle"]
    first = None if not views else "F9" if channels is None else views[0].channel
    level = Level(
        watermark_ms=LEVEL,
        behind_fastest_ms=max(known, default=LEVEL) - LEVEL,
        behind_clock_ms=NOW - LEVEL,
        holder=None if first is None else Holder(first, NOW - 26 * MINUTE, "quiet"),
        at_zero_lateness_ms=LEVEL + 30 * MINUTE,
    )
    start = NOON + HOUR
    windows = Windows(
        open=[
            OpenWindow(
                start + n * HOUR, start + (n + 1) * HOUR, records, first, (12 + 60 * n) * MINUTE,
                channels=filled(views, records), channel_count=min(len(views), records),
            )
            for n, records in enumerate((1_204, 611, 7))
        ],
        open_count=3,
        fired=212,
        late_firings=41,
        last_fired=fired(start) if views else [],
    )  # fmt: skip
    stairs = blockers_of(views)
    windows = replace(windows, open=[waiting(window, stairs) for window in windows.open])
    reason = Reason("records_come", channels=stairs[0].channels if stairs else [])
    stalled_verdict = Verdict(
        "stalled", NOW - 26 * MINUTE, age_ms=26 * MINUTE, patience_ms=10 * MINUTE, speed=0.0, reason=reason
    )
    moving_verdict = Verdict(
        "moving",
        NOW - 3 * HOUR,
        age_ms=0,
        patience_ms=10 * MINUTE,
        speed=1.0,
        reason=Reason("advancing", ms=10 * MINUTE),
    )
    known_parts: dict[str, Any] = {
        "name": "flights",
        "state": "live",
        "verdict": stalled_verdict if stairs else moving_verdict,
        "blockers": stairs,
        "batch": 214,
        "now_ms": NOW,
        "wall_ms": WALL,
        "settings": SETTINGS,
        "source": SourceView("replay", "flights-2013.parquet", speed=600.0, rows=327_346, rows_read=69_412),
        "level": level,
        "channels": views,
        "windows": windows,
        "totals": Totals(records=69_000, behind_watermark=3_100, late=1_242),
        "whatif": whatif(),
        "whatif_idle": idle_ladder(),
        "lateness_by_channel": lateness_of(views[:16]),
        "spark": SparkProgress(input_rows_per_second=5_402.0, batch_ms=310),
    }
    return snapshot_for(**(known_parts | more))


def blockers_of(views: Sequence[ChannelView]) -> list[Blocker]:
    """The first ten active channels below the fastest, one a step."""
    active = sorted((view for view in views if view.state == "active"), key=lambda view: view.watermark_ms or 0)
    times = [view.watermark_ms or 0 for view in active]
    return [
        Blocker([view.channel], times[place + 1] - LEVEL, view.watermark_ms, "behind" if place else "quiet", 1)
        for place, view in enumerate(active[:10])
        if place + 1 < len(times) and times[place + 1] > times[place]
    ]


def waiting(window: OpenWindow, stairs: Sequence[Blocker]) -> OpenWindow:
    """A window with those of the staircase that it waits for."""
    names = [step.channels[0] for step in stairs if (step.watermark_ms or 0) < window.end_ms - 1]
    return replace(window, blockers=names, blocker_count=len(names)) if names else window


def filled(views: Sequence[ChannelView], records: int) -> list[ChannelRecords]:
    """The eight channels with most of a window's records."""
    parts = [ChannelRecords(view.channel, records // (2 * place + 4)) for place, view in enumerate(views[:8])]
    return [part for part in parts if part.records]


def fired(end_ms: int) -> list[FiredWindow]:
    """Four windows that fired, two of them with late records."""
    return [
        FiredWindow(end_ms - (n + 1) * HOUR, end_ms - n * HOUR, records, end_ms - n * HOUR + 37 * MINUTE, again, drops)
        for n, (records, again, drops) in enumerate(((2_310, 0, 12), (1_987, 3, 41), (2_044, 0, 0), (1_872, 0, 7)))
    ][::-1]


def attached() -> Snapshot:
    """An existing query, seen through its checkpoint: one watermark, sources, windows; no channel, no count."""
    start = NOON + HOUR
    return snapshot_for(
        name="orders",
        state="live",
        batch=88,
        now_ms=NOW,
        wall_ms=NOW,
        settings=Settings(strategy="spark", lateness_ms=30 * MINUTE, idle_after_ms=None, emit_every_ms=0, window=None),
        source=SourceView("checkpoint", "/srv/checkpoints/orders"),
        level=Level(watermark_ms=LEVEL + 1, behind_clock_ms=NOW - LEVEL - 1, moved_ms=NOW - 20_000),
        windows=Windows(
            open=[
                OpenWindow(start + n * HOUR, start + (n + 1) * HOUR, records, None, (12 + 60 * n) * MINUTE)
                for n, records in enumerate((1_204, 611))
            ],
            open_count=2,
            fired=None,
            late_firings=None,
        ),
        totals=Totals(None, None, None, None, None, None),
        spark=SparkProgress(input_rows_per_second=840.0, watermark_ms=LEVEL + 1, batch_watermark_ms=LEVEL + 1),
        sources=[SourcePosition("kafka orders, 6 partitions", {"orders/0": 4_117})],
        origin={"batch": "checkpoint", "level": "checkpoint", "sources": "checkpoint", "windows": "state files"},
    )


def one() -> Snapshot:
    """A single channel."""
    return live([channel("all", 0, rate=812.0)])


def many(count: int = 1_000) -> Snapshot:
    """Many channels: one in fifty idle, one in seventy catching up, spread over an hour."""
    views = [channel("events-0", 0, quiet_ms=26 * MINUTE, rate=0.0)]
    for place in range(1, count):
        ahead = 4 * MINUTE + (place * 7_919) % (50 * MINUTE)
        state = "idle" if place % 50 == 7 else "catching_up" if place % 70 == 9 else "active"
        more: dict[str, Any] = {"state": state, "rate": 5_000.0 / place, "late": place % 40}
        views.append(channel(f"events-{place}", -30 * MINUTE if state == "idle" else ahead, **more))
    return live(views)


def instances() -> Snapshot:
    """The sixteen channels behind four source instances."""
    views = [replace(view, instance=place % 4) for place, view in enumerate(flights())]
    combined = [
        InstanceView(i, f"#{i}", min(v.watermark_ms or 0 for v in views[i::4] if v.state != "idle"), "active", 4)
        for i in range(4)
    ]
    snapshot = live(views, instances=combined)
    return replace(snapshot, level=replace(snapshot.level, holder=Holder("#2", NOW - 26 * MINUTE, "quiet")))


def starting() -> Snapshot:
    """While the JVM starts."""
    steps = [Step("Java 17 found", 0.1), Step("flights-2013.parquet staged, 327,346 rows", 1.2), Step("starting Spark")]
    return snapshot_for(
        name="flights", state="starting", settings=SETTINGS, steps=[*steps, Step("first batch")], log="/run/engine.log"
    )


def empty() -> Snapshot:
    """Running, and no record came yet."""
    return live([], level=Level(), windows=Windows(), totals=Totals(), whatif=None, whatif_idle=None)


def never_seen() -> Snapshot:
    """A partition that never had a record pins the watermark."""
    silent = channel("1", None, state="never_seen", records=0, late=0)
    views = [channel("0", 20 * MINUTE), silent, channel("2", 31 * MINUTE)]
    snapshot = live(views, windows=Windows())
    return replace(snapshot, level=Level(holder=Holder("1", NOW - 26 * MINUTE, "never_seen")))


def late_burst() -> Snapshot:
    """Many records came late within the last minute."""
    return live(totals=Totals(records=75_000, behind_watermark=9_900, late=6_100), batch=240)


def stalled() -> Snapshot:
    """Everybody idle: the watermark stands."""
    views = [replace(view, state="idle", rate=0.0) for view in flights()]
    snapshot = live(views)
    return replace(snapshot, level=replace(snapshot.level, holder=None, idle=True))


def ended() -> Snapshot:
    """The end of the stream."""
    views = [replace(view, state="finished", rate=0.0) for view in flights()]
    snapshot = live(views, state="ended", ended=True, windows=Windows(fired=8_760, late_firings=41))
    return replace(snapshot, level=replace(snapshot.level, holder=None))


def failed() -> Snapshot:
    """The JVM died in the middle."""
    error = "the JVM went away (exit 137): out of memory?\n\tat org.apache.spark.Lots.of(Frames.scala:1)"
    return live(state="failed", error=error, log="/home/me/.cache/wmtop/flights/engine.log")


HOSTILE = (
    "\x1b[31mred\x1b[0m", "[bold]markup[/bold]", "line\nbreak\ttab", "‮rtl‬", "漢字漢字", "e" * 200, "emoji🚀", "",
)  # fmt: skip


def hostile() -> Snapshot:
    """Names that try to be something else."""
    views = [channel(name, place * 6 * MINUTE) for place, name in enumerate(HOSTILE)]
    return live(views, name="[red]\x1b]0;title\x07name")


def header(history: Sequence[HistoryPoint] = ()) -> Header:
    """The first line of the stream."""
    return Header(name="flights", pid=1, started_ms=WALL - 600_000, settings=SETTINGS, history=list(history))


def held(count: int = 60) -> list[HistoryPoint]:
    """The last hours in which MQ, then YV, MQ again, nobody, and at last F9 held."""
    turns = [("MQ", "behind")] * 14 + [("YV", "quiet")] * 9 + [("MQ", "behind")] * 6 + [(None, None)] * 4
    turns += [("F9", "behind")] * (count - len(turns) - 8) + [("F9", "quiet")] * 8
    return [
        replace(point, holder=holder, cause=cause, now_ms=NOW - place * 3 * MINUTE, watermark_ms=LEVEL - place * MINUTE)
        for place, point, (holder, cause) in zip(range(count, 0, -1), lags(count), turns, strict=True)
    ]


def lags(count: int = 60) -> list[HistoryPoint]:
    """Five minutes in which the lag grew, broke, and grew again."""
    return [
        HistoryPoint(NOW - place * 5_000, LEVEL, (10 + (count - place) * 37 % 34) * MINUTE, "F9",
                     60_000 - place * 100, 900 - place * 9, WALL - place * 5_000)
        for place in range(count, 0, -1)
    ]  # fmt: skip


class CannedClient:
    """Sends what it is given and keeps what it is sent; ends when told to."""

    def __init__(self, *messages: FromEngine) -> None:
        self._queue: asyncio.Queue[FromEngine | BaseException | None] = asyncio.Queue()
        self.sent: list[ToEngine] = []
        self.closed = False
        for message in messages:
            self.push(message)

    def push(self, message: FromEngine) -> None:
        self._queue.put_nowait(message)

    def end(self, error: str | None = None) -> None:
        self._queue.put_nowait(None if error is None else RunError(error))

    def drained(self) -> bool:
        """Whether the app has taken all of it."""
        return self._queue.empty()

    async def messages(self) -> AsyncIterator[FromEngine]:
        while (message := await self._queue.get()) is not None:
            if isinstance(message, BaseException):
                raise message
            yield message

    async def send(self, command: ToEngine) -> None:
        self.sent.append(command)

    async def close(self) -> None:
        self.closed = True


class Clock:
    """Monotonic seconds that stand still until they are moved."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def reported(snapshot: Snapshot) -> list[FromEngine]:
    """A header with a history, and the snapshot."""
    return [header(lags()), snapshot]


def recent() -> list[RecentLateness]:
    """Of the last 15 min no record, of the last hour 30,000 with fewer late ones, since the start those of `whatif`."""

    def of(horizon: int | None, records: int, late: Sequence[int]) -> RecentLateness:
        rows = [
            RecentRow(edge, count, count / records if records else None, None, None, behind_watermark=2 * count)
            for edge, count in zip(EDGES, late, strict=True)
        ]
        return RecentLateness(horizon, records, rows)

    whole = [row.late for row in whatif()]
    hour = [max(100 - 7 * place, 0) for place in range(len(EDGES))]
    none = [0] * len(EDGES)
    return [of(15 * MINUTE, 0, none), of(HOUR, 30_000, hour), of(DAY, 69_000, whole), of(None, 69_000, whole)]
