"""The fleet: a row for each target, the worst first, as a table and as JSON. Pure."""

from collections.abc import Callable, Sequence
from datetime import UTC
from typing import Any, get_args

from msgspec import Struct
from msgspec.structs import replace

from ...engine.doctor import Severity, accounts_for
from ...engine.snapshot import Snapshot, VerdictName
from ...engine.snapshot.watermark import WORST_FIRST
from ...engine.text import formatting as f
from ...engine.text.formatting import name as shown_name
from ...engine.verdict.blame import held_back_by
from ...engine.verdict.history import HistoryPoint
from .check import BAD, FACTS, CheckInput, check_input
from .kinds import presenter_of
from .progress import lags_of
from .spans import Column, Part, Span, cells, fitted, laid, part, sized, spark
from .texts import Filter
from .verdict import blame, style_of
from .verdict_words import STYLES, WORDS
from .watermark import lag_ms, worst_clock

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
    given = check_input(snapshot, past, gone)
    late, backlog = FACTS["late_share_recent"].take(given), FACTS["backlog"].take(given)
    level, worst = snapshot.level, worst_clock(snapshot)
    failed = f.first_line(snapshot.error) if snapshot.state == "failed" and snapshot.error else None
    return FleetRow(
        target=target,
        kind=kind_of(kind, snapshot),
        verdict=given.verdict,
        reason=gone or failed or _reason(given),
        watermark_ms=level.watermark_ms if worst is None else worst.time_ms,
        behind_fastest_ms=None if snapshot.one_clock else level.behind_fastest_ms,
        behind_clock_ms=lag_ms(snapshot),
        held_back_by=held_back_by(snapshot),
        late_share_recent=late if isinstance(late, float) else None,
        backlog=backlog if isinstance(backlog, int) else None,
        findings={level: sum(one.severity == level for one in given.findings) for level in get_args(Severity)},
        lost=gone or failed,
        lags=tuple(lags_of(past, SPARK_CELLS, SPARK_CELL_MS)),
    )


def _reason(given: CheckInput) -> str:
    """Why the verdict is not good: the blockers of the watermark, else the doctor's finding."""
    if given.verdict in BAD and (blamed := blame(given.snapshot)) is not None:
        return blamed
    critical = next((one for one in given.findings if one.severity == "critical"), None)
    if given.verdict not in BAD and (critical is not None or given.verdict not in ("unknown", "waiting")):
        return "" if critical is None else critical.title
    found = next((one for one in given.findings if accounts_for(one, given.verdict)), critical)
    return "" if found is None else found.title


def aged(row: FleetRow, age_ms: int | None, silent_after_ms: int) -> FleetRow:
    """The row when its last snapshot is `age_ms` old: one older than `silent_after_ms` does not show that the target
    is fine.
    """
    row = replace(row, age_ms=age_ms)
    if age_ms is None or age_ms <= silent_after_ms or row.verdict in ("ended", "unknown") or row.kind == RECORDING:
        return row
    silent = f"no answer for {f.duration(age_ms // 1_000 * 1_000)}"
    return replace(row, verdict="unknown", reason=silent, lost=silent)


def kind_of(kind: str, snapshot: Snapshot) -> str:
    """The target's kind, if its address (`kind`) does not show it."""
    known = None if kind == RECORDING else presenter_of(snapshot).fleet_kind()
    return kind if known is None else known


# Order and filter


def _worst(row: FleetRow) -> tuple[Any, ...]:
    """A lost target is worse than one that has been watched for too short a time."""
    found = row.findings or {"critical": 0, "warning": 0}
    findings = -found["critical"], -found["warning"]
    return WORST_FIRST.index(row.verdict), row.lost is None, *findings, -(row.lag_ms or 0)


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
    rows: Sequence[FleetRow], sort: str = "verdict", pattern: Filter | None = None, *, reverse: bool = False
) -> list[FleetRow]:
    """The rows whose target matches `pattern`, in the order of a column, optionally reversed."""
    found = [row for row in rows if pattern is None or pattern.matches(row.target)]
    found.sort(key=lambda row: (_worst(row), row.target.casefold()))
    found.sort(key=SORTS[sort], reverse=reverse)
    return found


def headline(rows: Sequence[FleetRow]) -> list[Span]:
    """The number of targets with each verdict."""
    spans: list[Span] = [(f" {f.counted(len(rows), 'target')} ", "strong")]
    for verdict in WORST_FIRST:
        if count := sum(row.verdict == verdict for row in rows):
            spans += [("  ", "dim"), (f"● {count:,} {WORDS[verdict]}", STYLES[verdict])]
    return spans


# The table


def _findings(row: FleetRow) -> str:
    found = row.findings
    if found is None:
        return f.UNKNOWN
    if found["critical"]:
        return f"{found['critical']} critical"
    return f.counted(found["warning"], "warning") if found["warning"] else "0"


def _age(row: FleetRow) -> str:
    """In whole seconds, so that it does not flicker."""
    return f.duration(None if row.age_ms is None else row.age_ms // f.SECOND * f.SECOND)


def _holder(row: FleetRow, room: int) -> list[Span]:
    """Which channel holds the watermark back, or why that is unknown, in the width that remains."""
    if row.reason:
        return [(fitted(f.clean(row.reason), room), "stale" if row.lost else "text")]
    return [] if row.held_back_by is None else [(f.cut(shown_name(row.held_back_by), room), "holder")]


COLUMNS: tuple[Column[FleetRow], ...] = (
    Column("verdict", lambda row: f"● {WORDS[row.verdict]}", style=lambda row: row.style, cells=9),
    Column("target", lambda row: f.clean(row.target), style=lambda row: "strong", cells=7),
    Column("kind", lambda row: f.clean(row.kind) or f.UNKNOWN, rank=5, style=lambda row: "dim", cells=5),
    Column("lag", lambda row: f.duration(row.lag_ms), right=True, cells=7),
    Column("last 2 min", lambda row: spark(row.lags), rank=4, style=lambda row: "holder", cells=SPARK_CELLS),
    Column("late", lambda row: f.share(row.late_share_recent), rank=2, right=True, cells=7),
    Column("backlog", lambda row: f.count(row.backlog), rank=3, right=True, cells=9),
    Column("findings", _findings, rank=1, right=True,
           style=lambda row: "bad" if (row.findings or {}).get("critical") else "text", cells=9),
    Column("age", _age, rank=6, right=True, style=lambda row: "dim", cells=6),
    Column("held back by", lambda row: "", cells=24, most=400, draw=_holder),
)  # fmt: skip


def layout(rows: Sequence[FleetRow], width: int) -> list[Column[FleetRow]]:
    """The columns that fit, as wide as their contents need."""
    return laid(sized(COLUMNS, rows), width)


def about(row: FleetRow, width: int) -> list[Part]:
    """What the table has no room for: why the target is where it is, and its watermark."""
    said = row.reason or ("" if row.held_back_by is None else f"held back by {shown_name(row.held_back_by)}")
    parts = [part((f" {f.clean(row.target)}", "strong"))]
    if said:
        said = fitted(f.clean(said), width - cells(parts[0].spans) - 2)
        parts.append(part((said, "stale" if row.lost else "text"), gap="  "))
    if row.watermark_ms is not None:
        clock = "" if row.behind_clock_ms is None else f", {f.behind_clock(row.behind_clock_ms)}"
        parts.append(part((f"watermark {f.stamp(row.watermark_ms, UTC)}{clock}", "dim"), rank=1))
    return parts
