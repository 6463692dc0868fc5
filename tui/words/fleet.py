"""The fleet: a row for each target, the worst first, as a table and as JSON. Pure."""

import re
from collections.abc import Callable, Sequence
from datetime import UTC
from typing import Any, get_args

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len

from ...engine.doctor import Severity, accounts_for, diagnose, explain, verdict_at
from ...engine.snapshot import Snapshot, VerdictName
from ...engine.text import formatting as f
from ...engine.text.formatting import name as shown_name
from ...engine.verdict.history import HistoryPoint
from .check import BAD
from .fail_if import FACTS, CheckInput
from .progress import lags_of, sparkline
from .spans import Part, Span, clip, part
from .verdict import STYLES, WORDS, WORST, blame, style_of
from .watermark import is_close

SILENT_MS = 10_000
"""Time (ms) without a snapshot after which a target's verdict is not known."""
RECORDING = "recording"
"""The kind of a target that never becomes stale: its verdict is that of its end."""
SPARK_CELLS, SPARK_CELL_MS = 12, 10_000


class FleetRow(Struct, frozen=True, kw_only=True):
    """One target; times in ms, None: not known. `lost` is why there is nothing newer."""

    target: str
    kind: str
    verdict: VerdictName = "unknown"
    reason: str = ""
    watermark_ms: int | None = None
    behind_fastest_ms: int | None = None
    behind_clock_ms: int | None = None
    held_back_by: str | None = None
    late_share_recent: float | None = None
    backlog: int | None = None
    findings: dict[Severity, int] | None = None
    age_ms: int | None = None
    """How long ago its last snapshot came; of a recording, was taken."""
    lost: str | None = None
    lags: tuple[int | None, ...] = ()
    """The lag of the last minutes, the newest last."""

    @property
    def style(self) -> str:
        """The style of its verdict and findings."""
        return style_of(self.verdict, [level for level, count in (self.findings or {}).items() if count])

    @property
    def lag_ms(self) -> int | None:
        """Behind the fastest channel; behind the clock where no channel is known."""
        return self.behind_clock_ms if self.behind_fastest_ms is None else self.behind_fastest_ms


def fleet_row(
    target: str, kind: str, snapshot: Snapshot | None, past: Sequence[HistoryPoint], lost: str | None
) -> FleetRow:
    """The row of a target by its last snapshot (None: there was none yet) and its history."""
    if snapshot is None:
        return FleetRow(target=target, kind=kind, reason=lost or "no answer yet", lost=lost)
    gone = None if snapshot.ended or snapshot.state in ("ended", "failed") else lost
    findings = diagnose(snapshot, past, lost=gone)
    verdict = verdict_at(snapshot, past, lost=gone)
    given = CheckInput(snapshot, past, verdict, findings)
    late, backlog = FACTS["late_share_recent"].take(given), FACTS["backlog"].take(given)
    level = snapshot.level
    failed = f.first_line(snapshot.error) if snapshot.state == "failed" and snapshot.error else None
    return FleetRow(
        target=target,
        kind=kind_of(kind, snapshot),
        verdict=verdict,
        reason=gone or failed or _reason(given),
        watermark_ms=level.watermark_ms,
        behind_fastest_ms=level.behind_fastest_ms,
        behind_clock_ms=level.behind_clock_ms,
        held_back_by=held_back_by(snapshot),
        late_share_recent=late if isinstance(late, float) else None,
        backlog=backlog if isinstance(backlog, int) else None,
        findings={level: sum(one.severity == level for one in findings) for level in get_args(Severity)},
        lost=gone or failed,
        lags=tuple(lags_of(past, SPARK_CELLS, SPARK_CELL_MS)),
    )


def held_back_by(snapshot: Snapshot) -> str | None:
    """The channel that holds back the watermark; None if no channel is to blame: the slowest one is no further behind
    than it may be, or is itself the fastest, or records wait in a busy operator.
    """
    holder = snapshot.level.holder
    if holder is None or holder.cause in ("in_flight", "lateness_raised") or is_close(snapshot):
        return None
    return None if snapshot.blockers == [] and holder.cause == "behind" else holder.channel


def _reason(given: CheckInput) -> str:
    """Why the verdict is not good: the blockers of the watermark, else the doctor's finding."""
    if given.verdict in BAD and (blamed := blame(given.snapshot)) is not None:
        return blamed
    critical = next((one for one in given.findings if one.severity == "critical"), None)
    if given.verdict not in (*BAD, "unknown"):
        return "" if critical is None else explain(critical, given.snapshot, UTC).title
    found = next((one for one in given.findings if accounts_for(one, given.verdict)), None)
    return "" if found is None else explain(found, given.snapshot, UTC).title


def aged(row: FleetRow, age_ms: int | None) -> FleetRow:
    """The row when its last snapshot is `age_ms` old: a target without recent snapshots is not known to be fine."""
    row = replace(row, age_ms=age_ms)
    if age_ms is None or age_ms <= SILENT_MS or row.verdict in ("ended", "unknown") or row.kind == RECORDING:
        return row
    silent = f"no answer for {f.duration(age_ms // 1_000 * 1_000)}"
    return replace(row, verdict="unknown", reason=silent, lost=silent)


def kind_of(kind: str, snapshot: Snapshot) -> str:
    """The target's kind, if its address (`kind`) does not show it."""
    source = snapshot.source
    return kind if source is None or kind == RECORDING else source.kind if snapshot.is_attached else "run"


# Order and filter


def _worst(row: FleetRow) -> tuple[Any, ...]:
    """A lost target is worse than one that has been watched for too short a time."""
    found = row.findings or {"critical": 0, "warning": 0}
    findings = -found["critical"], -found["warning"]
    return WORST.index(row.verdict), row.lost is None, *findings, -(row.lag_ms or 0)


def _greatest(value: float | None) -> tuple[bool, float]:
    """The sort key of a value, the greatest first; unknown values come last."""
    return value is None, -(value or 0)


SORTS: dict[str, Callable[[FleetRow], Any]] = {
    "verdict": _worst,
    "target": lambda row: row.target.casefold(),
    "kind": lambda row: row.kind,
    "lag": lambda row: _greatest(row.lag_ms),
    "held back by": lambda row: (row.held_back_by is None, row.held_back_by or ""),
    "late": lambda row: _greatest(row.late_share_recent),
    "backlog": lambda row: _greatest(row.backlog),
    "findings": _worst,
    "age": lambda row: _greatest(row.age_ms),
}
"""The sort orders of the rows, by the column's title; ties by the worst, then by name."""


def ordered(
    rows: Sequence[FleetRow], sort: str = "verdict", pattern: re.Pattern[str] | None = None, *, reverse: bool = False
) -> list[FleetRow]:
    """The rows whose target matches `pattern`, in the order of a column, optionally reversed."""
    found = [row for row in rows if pattern is None or pattern.search(row.target)]
    found.sort(key=lambda row: (_worst(row), row.target.casefold()))
    found.sort(key=SORTS[sort], reverse=reverse)
    return found


def headline(rows: Sequence[FleetRow]) -> list[Span]:
    """The number of targets with each verdict."""
    spans: list[Span] = [(f" {f.counted(len(rows), 'target')} ", "strong")]
    for verdict in WORST:
        if count := sum(row.verdict == verdict for row in rows):
            spans += [("  ", "dim"), (f"● {count:,} {WORDS[verdict]}", STYLES[verdict])]
    return spans


# The table


class FleetColumn(Struct, frozen=True):
    """A column: rank 0 is always shown; others are dropped, the greatest `rank` first."""

    title: str
    cells: int
    text: Callable[[FleetRow], str]
    rank: int = 0
    right: bool = False
    style: Callable[[FleetRow], str] = lambda row: "text"


def _findings(row: FleetRow) -> str:
    found = row.findings
    if found is None:
        return f.UNKNOWN
    marks = [(found["critical"], "!"), (found["warning"], "?")]
    return " ".join(f"{count}{mark}" for count, mark in marks if count) or "0"


def _duration(ms: int | None) -> str:
    return f.UNKNOWN if ms is None else f.duration(ms)


def _age(row: FleetRow) -> str:
    """In whole seconds, so that it does not flicker."""
    return _duration(None if row.age_ms is None else row.age_ms // f.SECOND * f.SECOND)


COLUMNS: tuple[FleetColumn, ...] = (
    FleetColumn("verdict", 9, lambda row: f"● {WORDS[row.verdict]}", style=lambda row: row.style),
    FleetColumn("target", 16, lambda row: f.clean(row.target), style=lambda row: "strong"),
    FleetColumn("kind", 11, lambda row: f.clean(row.kind) or f.UNKNOWN, rank=5, style=lambda row: "dim"),
    FleetColumn("lag", 7, lambda row: _duration(row.lag_ms), right=True),
    FleetColumn("last 2 min", SPARK_CELLS, lambda row: sparkline(row.lags), rank=4, style=lambda row: "holder"),
    FleetColumn("late", 7, lambda row: f.share(row.late_share_recent), rank=2, right=True),
    FleetColumn("backlog", 9, lambda row: f.count(row.backlog), rank=3, right=True),
    FleetColumn("findings", 8, _findings, rank=1, right=True,
           style=lambda row: "bad" if (row.findings or {}).get("critical") else "text"),
    FleetColumn("age", 6, _age, rank=6, right=True, style=lambda row: "dim"),
)  # fmt: skip
LAST = "held back by"
"""The title of the last column, which gets the remaining width: which channel holds the watermark back, or why
that is unknown."""
_MIN_LAST = 14
_MAX_TARGET = 32


def layout(rows: Sequence[FleetRow], width: int) -> list[FleetColumn]:
    """The columns that fit, with the target's as wide as its names need."""
    longest = max((cell_len(f.clean(row.target)) for row in rows), default=0)
    columns = [
        replace(column, cells=max(6, min(longest, _MAX_TARGET))) if column.title == "target" else column
        for column in COLUMNS
    ]
    while 1 + sum(column.cells + 2 for column in columns) + _MIN_LAST > width and any(
        column.rank for column in columns
    ):
        columns.remove(max(columns, key=lambda column: column.rank))
    return columns


def header_line(columns: Sequence[FleetColumn], sort: str, width: int, *, reverse: bool = False) -> list[Span]:
    """The titles; the one that sorts has an arrow."""
    spans: list[Span] = [(" ", "dim")]
    for title, wide, right in [*((c.title, c.cells, c.right) for c in columns), (LAST, 0, False)]:
        arrow = ("▴" if reverse else "▾") if title == sort else ""
        text = f.pad(title + arrow, wide, right=right) + "  " if wide else title + arrow
        spans.append((text, "strong" if arrow else "dim"))
    return clip(spans, width)


def title_at(columns: Sequence[FleetColumn], x: int) -> str:
    """The title of the column at cell `x`."""
    right = 1
    for column in columns:
        right += column.cells + 2
        if x < right:
            return column.title
    return LAST


def row_line(row: FleetRow, columns: Sequence[FleetColumn], width: int) -> list[Span]:
    """A target's line."""
    spans: list[Span] = [(" ", "text")]
    spans += [(f.pad(c.text(row), c.cells, right=c.right) + "  ", c.style(row)) for c in columns]
    if row.reason:
        spans.append((f.clean(row.reason), "stale" if row.lost else "text"))
    elif row.held_back_by is not None:
        spans.append((shown_name(row.held_back_by), "holder"))
    return clip(spans, width)


def about(row: FleetRow) -> list[Part]:
    """What the table has no room for: why the target is where it is, and its watermark."""
    said = row.reason or ("" if row.held_back_by is None else f"held back by {shown_name(row.held_back_by)}")
    parts = [part((f" {f.clean(row.target)}", "strong"))]
    if said:
        parts.append(part((f.clean(said), "stale" if row.lost else "text"), gap="  "))
    if row.watermark_ms is not None:
        clock = "" if row.behind_clock_ms is None else f", {f.behind_clock(row.behind_clock_ms)}"
        parts.append(part((f"watermark {f.stamp(row.watermark_ms, UTC)}{clock}", "dim"), rank=1))
    return parts
