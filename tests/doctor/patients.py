"""Streams for the doctor: a healthy one of a live source by the wall clock, and ways to make it ill."""

from datetime import UTC
from typing import Any

from wmtop.engine.doctor import Finding, Severity, diagnose
from wmtop.engine.snapshot import (
    Cause,
    ChannelView,
    Holder,
    Level,
    OpenWindow,
    Reason,
    ReasonCode,
    Snapshot,
    SourceView,
    SparkProgress,
    Totals,
    Verdict,
    VerdictName,
    WhatIf,
    WhatIfIdle,
    Windows,
)
from wmtop.engine.verdict.history import HistoryPoint, Phases, history_point
from wmtop.engine.watermarks.settings import Settings, Tumbling

from tests.snapshots import replace, snapshot_for

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
NOW = 1_700_000_000_000
LATENESS, WINDOW, IDLE = 5 * SECOND, 10 * SECOND, 5 * MINUTE
SETTINGS = Settings(lateness_ms=LATENESS, idle_after_ms=IDLE, window=Tumbling(WINDOW))
SCALE = LATENESS + WINDOW
"""How long a result takes when nothing is wrong."""

HOLDER = Holder("d", NOW - 400, "behind")


def judged(
    verdict: VerdictName,
    age_ms: int,
    patience_ms: int = MINUTE,
    *,
    speed: float | None = 1.0,
    reason: ReasonCode | None = None,
) -> Verdict:
    """A verdict for a watermark of that age; `reason` None: the one that goes with it."""
    usual: dict[VerdictName, ReasonCode] = {"moving": "advancing", "stalled": "records_come", "unknown": "not_known"}
    known = Reason(reason or usual[verdict], ms=MINUTE)
    return Verdict(verdict, NOW - age_ms, age_ms=age_ms, patience_ms=patience_ms, speed=speed, reason=known)


def channel(name: str, behind_ms: int = 0, **more: Any) -> ChannelView:
    """A channel whose newest record is `behind_ms` older than the healthy one's, two seconds old."""
    newest = NOW - 2 * SECOND - behind_ms
    known: dict[str, Any] = {
        "watermark_ms": newest - LATENESS - 1,
        "max_event_ms": newest,
        "state": "active",
        "records": 50_000,
        "late": 200,
        "behind_watermark": 500,
        "backlog": 0,
        "quiet_ms": 300,
        "rate": 90.0,
    }
    return ChannelView(name, **(known | more))


def whatif(records: int, late: dict[int, int], delay_ms: int = 8 * SECOND) -> list[WhatIf]:
    """Late counts by lateness (ms); results come as much later as lateness is longer."""
    return [
        WhatIf(edge, count, count / records, float(delay_ms + edge), behind_watermark=3 * count)
        for edge, count in sorted(late.items())
    ]


LATE = {0: 9_000, 1_000: 5_000, 2_000: 2_400, 3_000: 1_500, LATENESS: 800, 10_000: 300, 30_000: 20}


def healthy(channels: list[ChannelView] | None = None, **more: Any) -> Snapshot:
    """Four partitions of a topic, 0.4 % late, results within seconds."""
    views = [channel(name, 700 * place) for place, name in enumerate("abcd")] if channels is None else channels
    marks = [v.watermark_ms for v in views if v.watermark_ms is not None and v.state not in ("idle", "never_seen")]
    level = min(marks, default=None)
    start = NOW - NOW % WINDOW - WINDOW
    known: dict[str, Any] = {
        "name": "events",
        "state": "live",
        "batch": 900,
        "now_ms": NOW,
        "wall_ms": NOW + 20,
        "settings": SETTINGS,
        "source": SourceView("kafka", "events at localhost:9092", reader="connector", time_column="$.ts"),
        "verdict": judged("moving", 0),
        "level": Level(level, max(marks, default=0) - (level or 0), NOW - (level or NOW), HOLDER),
        "channels": views,
        "windows": Windows(
            open=[OpenWindow(start + n * WINDOW, start + (n + 1) * WINDOW, 900, "d", 6_000) for n in range(2)],
            open_count=2,
            open_records=1_800,
            fired=5_000,
            late_firings=0,
        ),
        "totals": Totals(records=200_000, behind_watermark=2_000, late=800),
        "whatif": whatif(200_000, LATE),
        "whatif_idle": [
            WhatIfIdle(MINUTE, level, "d", 4, 900),
            WhatIfIdle(IDLE, level, "d", 0, 800),
            WhatIfIdle(2 * HOUR, level, "d", 0, 800),
            WhatIfIdle(None, level, "d", 0, 800),
        ],
        "spark": SparkProgress(
            input_rows_per_second=360.0,
            processed_rows_per_second=1_100.0,
            batch_ms=320,
            phases_ms={"addBatch": 240, "queryPlanning": 20, "walCommit": 30, "commitOffsets": 20},
        ),
    }  # fmt: skip
    return snapshot_for(**(known | more))


def before(snapshot: Snapshot, seconds: int = 300, **by_second: Any) -> list[HistoryPoint]:
    """The history up to `snapshot`, one point a second; `by_second` are functions of the seconds before now."""
    now = history_point(snapshot)
    assert now is not None
    out: list[HistoryPoint] = []
    for ago in range(seconds, -1, -1):
        steady: dict[str, Any] = {
            "now_ms": now.now_ms - ago * SECOND,
            "wall_ms": now.wall_ms - ago * SECOND,
            "watermark_ms": None if now.watermark_ms is None else now.watermark_ms - ago * SECOND,
            "max_event_ms": None if now.max_event_ms is None else now.max_event_ms - ago * SECOND,
            "records": max(now.records - 360 * ago, 0),
            "late": max(now.late - round(ago * 360 * now.late / max(now.records, 1)), 0),
            "batch": None if now.batch is None else now.batch - 3 * ago,
            "phases": Phases(10, 20, 240, 50),
        }
        reported = {name: value(ago) for name, value in by_second.items()}
        out.append(replace(now, **(steady | reported)))
    return out


def problem(code: str, severity: Severity = "critical", **more: Any) -> Finding:
    """A finding with that code, where its words do not matter."""
    known: dict[str, Any] = {"title": code, "impact": "no results", "cause": "not known", "evidence": []}
    return Finding(code=code, severity=severity, **(known | more))


def said(finding: Finding) -> str:
    """A finding's words, its times in UTC."""
    evidence = [text if isinstance(text, str) else text(UTC) for text in finding.evidence if text is not None]
    return "\n".join([finding.title, finding.impact, finding.cause, *evidence])


def found(snapshot: Snapshot, past: list[HistoryPoint] | None = None) -> dict[str, Finding]:
    """What the doctor says, by code and in its order; without a history of its own a steady one."""
    return {finding.code: finding for finding in diagnose(snapshot, before(snapshot) if past is None else past)}


def holding(snapshot: Snapshot, name: str, cause: Cause, held_ms: int) -> Snapshot:
    """The same with another holder."""
    level = replace(snapshot.level, holder=Holder(name, NOW - held_ms, cause))
    return replace(snapshot, level=level)
