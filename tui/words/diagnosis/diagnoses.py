"""Findings in words: each explained by the function for its type. Pure."""

from collections.abc import Sequence
from datetime import tzinfo

from msgspec import Struct

from ....engine.doctor import Finding, Severity, diagnose
from ....engine.snapshot import Snapshot
from ....engine.verdict.history import HistoryPoint
from ..preview import ProposedSetting
from . import batches, blocking, clocks, condition, explained, flink, idleness, lateness, plan, spark
from .explanation import Context, Explainers
from .fixes import fix_words, wish_of

SEVERITIES: dict[Severity, tuple[str, str]] = {
    "critical": ("CRITICAL", "bad"),
    "warning": ("WARNING", "stale"),
    "info": ("INFO", "dim"),
}
"""The word and the ink for each severity."""
EXPLAINERS: Explainers = {
    **condition.EXPLAINERS,
    **blocking.EXPLAINERS,
    **idleness.EXPLAINERS,
    **spark.EXPLAINERS,
    **plan.EXPLAINERS,
    **flink.EXPLAINERS,
    **clocks.EXPLAINERS,
    **explained.EXPLAINERS,
    **lateness.EXPLAINERS,
    **batches.EXPLAINERS,
}


class Diagnosis(Struct, frozen=True):
    """A finding in words; `wish` is the setting among its fixes that can be previewed."""

    code: str
    severity: Severity
    channels: Sequence[str]
    title: str
    impact: str
    """The effect on the results."""
    cause: str
    evidence: Sequence[str]
    fixes: Sequence[str]
    """What to do, the best first."""
    screens: Sequence[str]
    """The further screens that show it, the best first."""
    channel: str | None = None
    """The channel whose page shows it best."""
    proposed: ProposedSetting | None = None


def diagnoses(
    snapshot: Snapshot,
    past: Sequence[HistoryPoint],
    zone: tzinfo | None,
    *,
    lost: str | None = None,
    silent_ms: int | None = None,
) -> list[Diagnosis]:
    """All findings in words, the worst first; the arguments are those of `diagnose`."""
    found = diagnose(snapshot, past, lost=lost, silent_ms=silent_ms)
    return [explain(finding, snapshot, zone) for finding in found]


def explain(finding: Finding, snapshot: Snapshot, zone: tzinfo | None) -> Diagnosis:
    """A finding in words."""
    context = Context(snapshot, zone)
    said = EXPLAINERS[type(finding)](finding, context)
    return Diagnosis(
        code=finding.code,
        severity=finding.severity,
        channels=finding.channels,
        title=said.title,
        impact=said.impact,
        cause=said.cause,
        evidence=said.evidence,
        fixes=[fix_words(fix, finding, context) for fix in finding.fixes],
        screens=said.screens,
        channel=said.channel,
        proposed=next((proposed for fix in finding.fixes if (proposed := wish_of(fix)) is not None), None),
    )
