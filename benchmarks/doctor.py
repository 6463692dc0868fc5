"""The cost of a diagnosis: all rules over one snapshot and fifteen minutes of history, by the number of channels."""

import statistics
import time

from wmtop.engine.doctor import diagnose
from wmtop.engine.snapshot import ChannelView, Holder, Level, OpenWindow, Snapshot, SourceView, Totals, Windows
from wmtop.engine.verdict.history import HistoryPoint, Phases
from wmtop.engine.watermarks.settings import Settings, Tumbling

CHANNELS = (12, 1_000, 10_000)
ROUNDS = 30
NOW = 1_700_000_000_000
SECOND, MINUTE = 1_000, 60_000
LATENESS = 5 * SECOND


def main() -> None:
    """Print the table."""
    print("| channels | healthy, median / max | a hundredth silent for an hour, median / max |\n| --- | --- | --- |")
    for channels in CHANNELS:
        times = " | ".join(_measured(channels, silent) for silent in (0, max(channels // 100, 1)))
        print(f"| {channels:,} | {times} |")


def _measured(channels: int, silent: int) -> str:
    snapshot, past = _snapshot(channels, silent), _past()
    diagnose(snapshot, past)
    took: list[float] = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        diagnose(snapshot, past)
        took.append(1_000 * (time.perf_counter() - began))
    return f"{statistics.median(took):.1f} / {max(took):.1f} ms"


def _snapshot(channels: int, silent: int) -> Snapshot:
    views = [_channel(number, 60 * MINUTE if number < silent else 300) for number in range(channels)]
    levels = [view.watermark_ms for view in views if view.watermark_ms is not None]
    windows = [OpenWindow(NOW - n * 10 * SECOND, NOW - (n - 1) * 10 * SECOND, 900, "c0", 6_000) for n in range(500)]
    return Snapshot(
        name="many",
        state="live",
        batch=900,
        now_ms=NOW,
        wall_ms=NOW,
        settings=Settings(lateness_ms=LATENESS, idle_after_ms=None, window=Tumbling(10 * SECOND)),
        source=SourceView("kafka", "many at localhost:9092", reader="connector"),
        level=Level(min(levels), max(levels) - min(levels), NOW - min(levels), Holder("c0", NOW - 400, "quiet")),
        channels=views,
        windows=Windows(open=windows, open_count=len(windows), fired=5_000, late_firings=0),
        totals=Totals(records=10**8, behind_watermark=10**5, late=10**4),
    )


def _channel(number: int, quiet_ms: int) -> ChannelView:
    newest = NOW - 2 * SECOND - quiet_ms - number % 700
    return ChannelView(
        channel=f"c{number}",
        watermark_ms=newest - LATENESS - 1,
        max_event_ms=newest,
        state="active",
        records=10_000,
        behind_watermark=10,
        late=1,
        malformed=0,
        future=0,
        backlog=0,
        quiet_ms=quiet_ms,
        longest_quiet_ms=quiet_ms,
        rate=0.0 if quiet_ms > MINUTE else 90.0,
    )


def _past() -> list[HistoryPoint]:
    return [
        HistoryPoint(
            now_ms=NOW - ago * SECOND,
            wall_ms=NOW - ago * SECOND,
            batch=900 - ago,
            watermark_ms=NOW - LATENESS - ago * SECOND,
            behind_fastest_ms=700,
            holder="c0",
            max_event_ms=NOW - ago * SECOND,
            records=10**8 - 10_000 * ago,
            late=10**4 - ago,
            phases=Phases(10, 20, 240, 50),
        )
        for ago in range(900, -1, -1)
    ]


if __name__ == "__main__":
    main()
