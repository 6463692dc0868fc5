"""Whether event time moves, according to the history, and findings for verdicts that no other rule explains."""

from collections.abc import Sequence

from ..snapshot import Snapshot, VerdictName
from ..verdict import verdict as judgement
from ..verdict.history import HistoryPoint
from .diagnosis_input import SECOND, DiagnosisInput
from .finding import Finding, Fix

STUCK_MS = 75 * SECOND
"""Rates are means over the last minute, and metrics are up to 10 s old: a source that still has a rate after this
time has read records while the watermark was frozen."""
UNMOVED_BATCHES = 3
"""Batches with new input that show that a query's watermark does not advance with what it reads."""


class Stalled(Finding, frozen=True, kw_only=True, tag="watermark-stalled"):
    """The watermark does not advance although data comes, and no other rule explains it."""

    frozen_ms: int | None
    behind_fastest_ms: int | None
    moves_again: bool = False
    """It has advanced within the horizon: the verdict changes once that has lasted."""


class Slow(Finding, frozen=True, kw_only=True, tag="watermark-slow"):
    """The watermark advances, but event time loses ground, and no other rule explains it."""

    behind_clock_ms: int | None


class NotAdvancing(Finding, frozen=True, kw_only=True, tag="watermark-not-advancing"):
    """Batches of an attached query read new input, and its watermark does not advance; why is not known from here."""

    frozen_ms: int
    batches: int
    """Batches with new input since it has its value, at least."""
    inputs: int
    silent: tuple[str, ...] = ()
    """The sources without new input in these batches, where others had some."""


class CannotTell(Finding, frozen=True, kw_only=True, tag="cannot-tell-yet"):
    """Too little is known for a verdict, and no other rule explains it."""

    watched_ms: int
    attached: bool
    without_watermark: bool = False
    """An attached query without a watermark: waiting does not help."""
    without_links: bool = False
    """A Flink job in which no task reads another one: no task receives a watermark, and waiting does not help."""


def verdict_of(given: DiagnosisInput) -> VerdictName:
    """The snapshot's verdict; unknown once its engine is lost."""
    return judgement.verdict_of(given.snapshot, lost=None if given.lost is None else "engine_lost").verdict


def verdict_at(snapshot: Snapshot, past: Sequence[HistoryPoint], *, lost: str | None = None) -> VerdictName:
    """The verdict behind the findings for the same arguments."""
    return verdict_of(DiagnosisInput(snapshot, past, lost=lost))


def _not_advancing(given: DiagnosisInput) -> NotAdvancing | None:
    """What a checkpoint shows of a frozen watermark: its batches' offsets advance, without event times."""
    snapshot, frozen_ms = given.snapshot, given.frozen_ms
    batches = snapshot.spark.batches_unmoved
    if snapshot.state not in ("live", "partial") or judgement.lost_state(snapshot) is not None:
        return None  # among them a query that pauses: what it read last need not be newer
    if given.watermark_ms is None or frozen_ms is None:
        return None
    if batches is None or batches < UNMOVED_BATCHES or frozen_ms < STUCK_MS:
        return None
    sources = snapshot.sources or []
    reported = (snapshot.origin or {}).get("rates") is not None
    fixes = (Fix(code="check-event-time"),) if reported else (Fix(code="attach-reports"), Fix(code="check-event-time"))
    return NotAdvancing(
        severity="warning",
        size=frozen_ms,
        frozen_ms=frozen_ms,
        batches=batches,
        inputs=len(sources),
        silent=tuple(source.description for source in sources if source.batches_unmoved == 0),
        fixes=fixes,
    )


def unexplained(given: DiagnosisInput, verdict: VerdictName) -> Finding | None:
    """The finding for a bad verdict that no rule has explained: a stalled watermark is never an all-clear."""
    level = given.snapshot.level
    if verdict == "stalled" and judgement.moves_again(given.snapshot):
        return Stalled(
            severity="warning",
            frozen_ms=given.frozen_ms,
            behind_fastest_ms=level.behind_fastest_ms,
            moves_again=True,
            fixes=(Fix(code="wait"),),
        )
    if verdict == "stalled":
        return Stalled(
            severity="critical",
            size=float(given.frozen_ms or 0),
            channels=() if level.holder is None else (level.holder.channel,),
            frozen_ms=given.frozen_ms,
            behind_fastest_ms=level.behind_fastest_ms,
            fixes=(Fix(code="see-blockers"),),
        )
    if verdict == "slow":
        code = "see-progress" if given.snapshot.flink is None else "see-operators"
        return Slow(severity="warning", behind_clock_ms=level.behind_clock_ms, fixes=(Fix(code=code),))
    if verdict == "unknown":
        if (found := _not_advancing(given)) is not None:
            return found
        past, bare = given.past, given.snapshot.spark.has_watermark is False
        job = given.running_job
        alone = job is not None and bool(job.vertices) and not job.has_links
        return CannotTell(
            severity="info",
            without_links=alone,
            watched_ms=past[-1].wall_ms - past[0].wall_ms if past else 0,
            attached=given.is_attached,
            without_watermark=bare,
            fixes=(Fix(code="see-progress" if alone else "tap-events" if bare else "wait"),),
        )
    return None
