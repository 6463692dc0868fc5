"""The verdict (semantics 11.1): whether the watermark moves, by its age and its usual pace. Times are ms.

One function judges own runs, attached targets, topics and recordings, from a snapshot and the history of its watermark.
"""

from msgspec import UnsetType
from msgspec.structs import replace

from ..snapshot import Blocker, Reason, Snapshot, Verdict, VerdictName
from ..watermarks.watermark_history import WatermarkHistory
from .evidence import Evidence, Lost

MAX_NAMED = 3
"""Channels that a reason names, at most."""


def judged(snapshot: Snapshot, history: WatermarkHistory, evidence: Evidence) -> Snapshot:
    """The snapshot with its verdict, the age of its watermark, and the causes that follow from the verdict."""
    found = verdict(history, snapshot, evidence)
    level, blockers = snapshot.level, snapshot.blockers
    holder = level.holder
    if holder is not None and found.reason.code == "lateness_raised":
        holder = replace(holder, cause="lateness_raised")
    elif found.verdict in ("moving", "slow"):  # two samples call a channel stuck, which takes the same patience
        holder = replace(holder, cause="behind") if holder is not None and holder.cause == "stuck" else holder
        # The first step is at the watermark that moves; one that was not seen to move is as old as the watching.
        stuck = {step.channels[0] for step in (blockers or ())[1:] if step.cause == "stuck"}
        began, since = history.began_ms or 0, (snapshot.now_ms or 0) - (found.patience_ms or 0)
        views = snapshot.channels if stuck else ()
        stuck &= {view.channel for view in views if (view.since_ms or began) < since}
        blockers = blockers and [
            step if step.cause != "stuck" or step.channels[0] in stuck else replace(step, cause="behind")
            for step in blockers
        ]
    moved_ms = None if level.watermark_ms is None else history.moved_ms
    return replace(
        snapshot,
        verdict=found,
        level=replace(level, moved_ms=moved_ms, holder=holder),
        blockers=blockers,
        condition=replace(snapshot.condition, settled=evidence.settled),
    )


def verdict(history: WatermarkHistory, snapshot: Snapshot, evidence: Evidence) -> Verdict:
    """The verdict at the snapshot's processing time; notes in the history since when it holds."""
    now = snapshot.now_ms
    if now is None:
        return Verdict("unknown", reason=Reason(evidence.lost or "starting"))
    history.see_unread(now, evidence.unread, evidence.unread_since_ms)
    patience = history.patience(snapshot.settings)
    name, reason, began_ms = _condition(history, snapshot, evidence, now, patience)
    if history.verdict != name:
        history.verdict, history.verdict_since_ms = name, now
    gained = history.gained(now - patience) if name not in ("unknown", "ended") else None
    frozen_since = history.frozen_since(now)
    return Verdict(
        verdict=name,
        since_ms=history.verdict_since_ms if began_ms is None else began_ms,
        age_ms=now - frozen_since,
        age_at_least=history.moved_ms is None and snapshot.is_attached,
        pace_ms=history.pace(),
        patience_ms=patience,
        speed=None if gained is None else gained / patience,
        reason=reason,
    )


def _condition(
    history: WatermarkHistory, snapshot: Snapshot, evidence: Evidence, now: int, patience: int
) -> tuple[VerdictName, Reason, int | None]:
    """The verdict, its reason, and since when it holds (None: since it was first so)."""
    if snapshot.ended or snapshot.state == "ended":
        return "ended", Reason("ended"), None
    if evidence.lost is not None:
        return "unknown", Reason(evidence.lost), None
    observed = history.observed_ms(now)
    if not history.has_advanced() and observed <= patience:
        return "unknown", Reason("too_short", ms=observed), None
    frozen_since = history.frozen_since(now)
    if now - frozen_since > patience:
        name, reason = _not_advancing(snapshot, evidence, now, patience)
        return name, reason, None if name == "unknown" else frozen_since
    behind = None if evidence.bounded_backlog else history.falling_behind(now, patience)
    if behind is not None:
        reason = Reason("losing_ground", ms=behind.ms, over_ms=behind.over_ms, channels=held_by(snapshot.blockers))
        return "slow", reason, behind.since_ms
    return "moving", Reason("advancing", ms=history.gained(now - patience)), None


def _not_advancing(snapshot: Snapshot, evidence: Evidence, now: int, patience: int) -> tuple[VerdictName, Reason]:
    """The verdict and reason for a watermark that is frozen for longer than `patience`."""
    if snapshot.state == "paused":
        return "waiting", Reason("paused")
    holders, last, unread = held_by(snapshot.blockers), evidence.record_ms, evidence.unread
    if isinstance(last, int) and now - last <= patience:
        raised = _frozen_by_lateness_ms(snapshot, evidence, patience)
        if raised is not None:
            return "waiting", Reason("lateness_raised", ms=raised)
        return "stalled", Reason("records_come", channels=holders)
    if evidence.inconclusive is not None:
        return "unknown", Reason("not_known")
    if unread:
        return "stalled", Reason("unread_records", records=unread, channels=holders)
    if unread is None or isinstance(last, UnsetType):
        return "unknown", Reason("not_known")
    code = "all_idle" if snapshot.channels and all(view.idle for view in snapshot.channels) else "no_records"
    return "waiting", Reason(code, ms=None if last is None else now - last)


def _frozen_by_lateness_ms(snapshot: Snapshot, evidence: Evidence, patience: int) -> int | None:
    """How far (event time) a raised lateness alone holds the watermark back; None: something else does."""
    if evidence.frozen_by_lateness_ms:
        return evidence.frozen_by_lateness_ms
    level, lateness = snapshot.level.watermark_ms, snapshot.settings.lateness_ms
    parts = [
        (view.at_zero_lateness_ms, view.quiet_ms)
        for view in snapshot.channels
        if view.at_zero_lateness_ms is not None and (snapshot.one_clock or (view.aligned and not view.idle))
    ]
    if level is None or lateness is None or not parts:
        return None
    reached, quiet_ms = max(parts) if snapshot.one_clock else min(parts)
    short = level - (reached - lateness)
    return short if short > 0 and quiet_ms is not None and quiet_ms <= patience else None


def verdict_of(snapshot: Snapshot, *, lost: Lost | None = None) -> Verdict:
    """The verdict for a reader to show: the snapshot's own, unless its source or its engine is lost.

    `lost`: why there is nothing newer than this snapshot. An ended run stays ended.
    """
    own = snapshot.verdict
    if snapshot.ended:
        return own if own.verdict == "ended" else replace(own, verdict="ended", reason=Reason("ended"))
    found = lost or lost_state(snapshot)
    if found is None or (lost is None and own.verdict == "unknown" and own.reason.code == found):
        return own
    return replace(own, verdict="unknown", since_ms=None, speed=None, reason=Reason(found))


def lost_state(snapshot: Snapshot) -> Lost | None:
    """Why a snapshot's own state allows no verdict; None: it allows one."""
    states: dict[str, Lost] = {"starting": "starting", "stale": "source_silent", "failed": "failed"}
    if snapshot.state == "ended":
        return None  # what was stopped has ended, whatever its clock shows
    if snapshot.condition.no_guide or snapshot.condition.clock_ahead:
        return "not_known"
    return states.get(snapshot.state)


def held_by(blockers: list[Blocker] | None) -> list[str]:
    """Some channels of the first step."""
    return blockers[0].channels[:MAX_NAMED] if blockers else []


def unread_of(snapshot: Snapshot) -> int | None:
    """Unread records of channels or sources; None if any of them is not known."""
    if not snapshot.target.has_reader and snapshot.state == "live":
        return 0
    parts = [view.backlog for view in snapshot.channels]
    if not parts or None in parts:
        parts = [source.backlog for source in snapshot.sources or ()]
    known = [part for part in parts if part is not None]
    if snapshot.condition.idle and not any(known):
        return 0
    return sum(known) if known and len(known) == len(parts) else None
