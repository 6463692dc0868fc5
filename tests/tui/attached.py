"""Canned snapshots of existing queries: a query seen through its checkpoint, and a consumer group."""

from typing import Any

from wmtop.engine.snapshot import (
    STATE_SCHEMA,
    BarrelRule,
    ChannelView,
    Clock,
    Holder,
    Level,
    Note,
    OpenWindow,
    Reason,
    Snapshot,
    SourcePosition,
    SourceView,
    SparkProgress,
    StreamsApplication,
    Totals,
    Verdict,
    WaitingWindow,
    WatermarkNode,
    WhatIf,
    Windows,
)
from wmtop.engine.targets.target import NOT_KNOWN
from wmtop.engine.watermarks.settings import Settings, Tumbling

from tests.snapshots import replace, snapshot_for

from .canned import MINUTE, NOON

NOW = NOON + 2 * 60 * MINUTE
LEVEL = NOW - 47_000
UNKNOWN = Totals(None, None, None, None, None, None)
SPARK = Settings(
    strategy="spark", lateness_ms=30_000, idle_after_ms=None, future_guard_ms=None, window=Tumbling(10_000)
)


def query(**more: Any) -> Snapshot:
    """A Spark query whose third source is somebody's own; its watermark moved 3 s ago."""
    windows = [
        OpenWindow(LEVEL - LEVEL % 10_000 + 10_000 * n, LEVEL - LEVEL % 10_000 + 10_000 * (n + 1), records, None,
                   10_000 * (n + 1) - LEVEL % 10_000)
        for n, records in enumerate((204, 1_611, None))
    ]  # fmt: skip
    known: dict[str, Any] = {
        "name": "orders",
        "state": "live",
        "batch": 214,
        "now_ms": NOW,
        "wall_ms": NOW,
        "settings": SPARK,
        "source": SourceView("checkpoint", "/jobs/orders/checkpoint"),
        "level": Level(LEVEL, None, NOW - LEVEL, moved_ms=NOW - 3_000, at_zero_lateness_ms=LEVEL + 30_000),
        "windows": Windows(open=windows, open_count=3, fired=None, late_firings=None),
        "totals": UNKNOWN,
        "spark": SparkProgress(
            input_rows_per_second=812.0,
            watermark_ms=LEVEL,
            batch_watermark_ms=LEVEL - 2_000,
            batch_timestamp_ms=NOW - 3_000,
            in_flight=False,
            nodes=[WatermarkNode("ts", 30_000)],
            policy="min",
        ),
        "sources": [
            SourcePosition("source 0: kafka orders, 2 partitions", {"orders/0": 1_200_000, "orders/1": 34_567}),
            SourcePosition("source 1: offsets of its own form", '{"at":"yesterday"}'),
        ],
        "origin": {"level": "checkpoint", "lateness": STATE_SCHEMA},
    }
    return snapshot_for(**known | more)


def stale() -> Snapshot:
    """No batch has begun for 12 minutes, and its state is none of those that can be read."""
    args: dict[str, str | int | None] = {"name": "RocksDB"}
    silent = replace(query().spark, batch_timestamp_ms=NOW - 12 * MINUTE, input_rows_per_second=None)
    return query(
        state="stale",
        spark=silent,
        level=replace(query().level, moved_ms=NOW - 12 * MINUTE),
        windows=Windows(open_count=None, fired=None, late_firings=None, unknown="state_store", unknown_args=args),
        notes=[Note(NOW, "no_new_batch"), Note(NOW, "windows_unknown", {**args, "code": "state_store"})],
    )


def two_nodes() -> Snapshot:
    """Two inputs with watermarks of their own."""
    nodes = [WatermarkNode("ordered_at", 30_000), WatermarkNode(None, 60_000)]
    return query(
        settings=replace(SPARK, lateness_ms=None),
        spark=replace(query().spark, nodes=nodes),
        level=replace(query().level, at_zero_lateness_ms=None),
        origin={"level": "checkpoint"},
    )


def tapped() -> Snapshot:
    """A query whose job taps its input: by Spark's clock, which shop-0 drives, three of six shops lose their rows."""
    ahead = [30, 18, 6, -6, -18, -54]
    views = [
        ChannelView(f"shop-{n}", LEVEL + s * 1_000 - 30_000, LEVEL + s * 1_000, "active", 9_000, None, None, None, None,
                    quiet_ms=2_000, rate=25.0)
        for n, s in enumerate(ahead)
    ]  # fmt: skip
    edges = [1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 50_000, 100_000, 200_000]

    def whatif(late: list[int]) -> list[WhatIf]:
        return [WhatIf(edge, n, n / 54_000, None, n) for edge, n in zip(edges, late, strict=True)]

    return query(
        source=SourceView("published query", "orders by minute, process 4711"),
        channels=views,
        level=replace(query().level, behind_fastest_ms=0),
        totals=replace(UNKNOWN, records=54_000, malformed=3),
        whatif=whatif([40_000, 39_000, 36_000, 35_000, 30_000, 27_000, 9_000, 0, 0]),
        whatif_upper_bound=True,
        whatif_bucket_ms=1_000,
        spark=replace(query().spark, dropped_at_least=1_204, batch_ms=580, state_rows=41, state_bytes=22_784),
        barrel=BarrelRule(
            LEVEL - 84_000, "shop-5", ["shop-5", "shop-4", "shop-3"], whatif([3_000, 1_200, 500, 40, 1, 0, 0, 0, 0])
        ),
        origin={"level": "checkpoint", "lateness": "plan", "channels": "tap"},
    )


def group(kind: str = "group") -> Snapshot:
    """A consumer group: 2 has a backlog and holds, 1 is idle, 3 has never had a record."""
    rows: list[tuple[str, int | None, Any, int | None, int | None, int | None]] = [
        ("0", LEVEL + 41_000, "active", 3, 900, 400),
        ("1", LEVEL - 9 * MINUTE, "idle", 0, 0, 10 * MINUTE),
        ("2", LEVEL, "active", 13_161, 44_000, 400),
        ("3", None, "never_seen", None, None, None),
    ]
    views = [
        ChannelView(name, None if at is None else at - 1, at, state, None, None, None, None, None, backlog=unread,
                    behind_end_ms=behind, quiet_ms=quiet, rate=None if at is None else 12.0)
        for name, at, state, unread, behind, quiet in rows
    ]  # fmt: skip
    return query(
        name="billing",
        batch=None,
        settings=Settings(lateness_ms=0, idle_after_ms=5 * MINUTE, future_guard_ms=None, window=None),
        source=SourceView(kind, "group billing on orders at localhost:9092", time_column="timestamp"),
        level=Level(
            LEVEL - 1, 41_000, NOW - LEVEL, Holder("2", NOW - 90_000, "backlog"), at_zero_lateness_ms=LEVEL - 1
        ),
        channels=views,
        windows=Windows(open_count=None, fired=None, late_firings=None, unknown="not_in_broker"),
        spark=SparkProgress(),
        sources=[SourcePosition("kafka orders, 4 partitions", {"orders/0": 12, "orders/2": 7}, 13_164)],
        origin={"channels": "broker", "level": "broker", "positions": "consumer group"},
    )


def streams(
    tasks: int = 3, *, stuck: int = 1, window_ms: int | None = 10_000, unread: int = 0, **more: Any
) -> Snapshot:
    """A Kafka Streams application of two sub-topologies: the last `stuck` tasks of the first have had no data for 12
    minutes, or (`unread`) process nothing; the second is behind a repartition.
    """
    views: list[ChannelView] = []
    clocks: list[Clock] = []
    for part, topic in enumerate(("orders", "billing-totals-repartition")):
        for number in range(tasks):
            quiet = part == 0 and number >= tasks - stuck
            at = NOW - (12 * MINUTE + 30_000 if quiet else 4_000 + 100 * number)
            verdict = "moving" if not quiet else "stalled" if unread else "waiting"
            since = NOW - (12 * MINUTE if quiet else 3_000)
            channel = f"{topic}-{number}"
            view = ChannelView(channel, at, at, "active", None, None, None, None, None,
                               since_ms=None if quiet else since, quiet_ms=None if quiet and unread else NOW - since,
                               backlog=unread if quiet else 0, flaps=None)  # fmt: skip
            waits = quiet and window_ms is not None
            end = at // 10_000 * 10_000 + 10_000
            views.append(view)
            clocks.append(
                Clock(
                    f"{part}_{number}",
                    [channel],
                    at,
                    verdict,
                    NOW - since,
                    age_at_least=quiet,
                    reason=Reason("advancing" if not quiet else "unread_records" if unread else "no_records"),
                    downstream=part == 1,
                    has_windows=True if waits else None,
                    emitted_to_ms=at - 2_000 if waits else None,
                    waiting=WaitingWindow(end, end + 2_000, [channel]) if waits else None,
                    waiting_count=4 if waits else None,
                )
            )
    worst = min(clocks, key=lambda clock: -(clock.age_ms or 0))
    verdict = Verdict(worst.verdict, NOW - (worst.age_ms or 0), worst.age_ms, worst.age_at_least, patience_ms=MINUTE,
                      reason=worst.reason)  # fmt: skip
    known: dict[str, Any] = {
        "name": "billing",
        "batch": None,
        "settings": replace(NOT_KNOWN, window=None if window_ms is None else Tumbling(window_ms)),
        "source": SourceView(
            "group", "Kafka Streams application billing at localhost:9092", bootstrap="localhost:9092"
        ),
        "level": Level(),
        "verdict": verdict,
        "channels": views,
        "windows": Windows(open_count=None, fired=None, late_firings=None, unknown="not_in_broker"),
        "spark": SparkProgress(),
        "sources": None,
        "clocks": clocks,
        "streams": StreamsApplication(
            "billing", "classic", "Stable", 2, window_ms=window_ms, grace_ms=None if window_ms is None else 2_000
        ),
        "origin": {"channels": "commits", "positions": "consumer group"},
    }
    return query(**known | more)
