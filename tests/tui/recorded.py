"""Canned recordings, and a driver for the app that replays them."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from wmtop.engine.feed.recording_reader import RecordingReader
from wmtop.engine.feed.recording_writer import RecordingWriter
from wmtop.engine.snapshot import ChannelView, Holder, Snapshot, Totals
from wmtop.tui.replay.app import ReplayApp

from tests.snapshots import replace

from .canned import LEVEL, MINUTE, NOW, WALL, CannedClient, Clock, header, live
from .drive import Driven

COUNT = 150
STALL, BURST = range(40, 80), range(100, 104)


def timeline(number: int) -> Snapshot:
    """Snapshot `number`: MQ, then F9 holds; the watermark stands in `STALL`; in `BURST` one record in four is late."""
    frozen = min(max(number - STALL.start, 0), len(STALL) - 1)
    moved = (number - frozen) * MINUTE
    late = 4 * number + 250 * min(max(number - BURST.start + 1, 0), len(BURST))
    snapshot = live(batch=number, now_ms=NOW + number * MINUTE, wall_ms=WALL + number * 1_000)
    holder = Holder("MQ" if number < STALL.start else "F9", NOW, "behind")
    level = replace(snapshot.level, watermark_ms=LEVEL + moved, behind_fastest_ms=(10 + frozen) * MINUTE, holder=holder)
    channels = [_later(view, moved + (view.channel != "F9") * frozen * MINUTE) for view in snapshot.channels]
    totals = Totals(records=1_000 * (number + 1), late=late)
    return replace(snapshot, level=level, channels=channels, totals=totals)


def _later(view: ChannelView, by_ms: int) -> ChannelView:
    newest_ms = None if view.max_event_ms is None else view.max_event_ms + by_ms
    return replace(view, watermark_ms=(view.watermark_ms or 0) + by_ms, max_event_ms=newest_ms)


def record(path: Path, *snapshots: Snapshot) -> Path:
    """A recording of the snapshots, or of the whole story."""
    with RecordingWriter(path, header(), existing="replace") as writer:
        for snapshot in snapshots or (timeline(number) for number in range(COUNT)):
            writer.append(snapshot)
    return path


def replay(
    scenario: Callable[[Driven], Awaitable[None]], path: Path, size: tuple[int, int] = (120, 36), **more: Any
) -> None:
    """Run `scenario` on an app that replays `path`, paused at the start unless configured otherwise."""

    async def run() -> None:
        clock = Clock()
        with RecordingReader(path) as reader:
            app = ReplayApp(reader, clock=clock, **({"playing": False} | more))
            async with app.run_test(size=size) as pilot:
                driven = Driven(app, pilot, CannedClient(), clock)
                await driven.until(lambda: "REPLAY" in driven.said("#status"))
                await scenario(driven)

    asyncio.run(run())
