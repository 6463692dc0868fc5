"""Derives from the taps whether a Spark query runs, waits, is stale or has ended. Pure."""

from itertools import pairwise
from statistics import median

from msgspec.structs import replace

from ...snapshot import EngineState
from .checkpoint.checkpoint import CheckpointFacts
from .events.query_runs import QueryRun
from .query_facts import QueryFacts, batch_of, history_of
from .reports import Report
from .said import Said

STALE_AFTER_MS = 30_000
STALE_AFTER_BATCHES = 3
"""A query is stale if no batch has begun for this long (ms), and for this many times its usual interval."""
MAX_FIRST_BATCH_MS = 330_000
"""Longest first batch (ms): in real-time mode a batch takes five minutes by default."""
MAX_TRIGGER_MS = 24 * 3_600_000
"""Longest pause (ms) that may be the trigger's while too few batches are recorded to show its interval."""
_PACE_SHOWS = 3
"""Recorded batches that show the pace: the first begins at the start, later ones at the trigger's interval."""
_LONGER = 2
"""A pause is like earlier ones up to this many times their length."""


def current(facts: QueryFacts) -> QueryFacts:
    """The facts without an earlier run's report: the query was restarted by a job that reports nothing."""
    checkpoint, report = facts.checkpoint, facts.report
    if checkpoint is None or checkpoint.batch is None or report is None or report.run is None:
        return facts
    over = report.run.ended or report.alive is False
    return replace(facts, report=None) if over and _went_on(checkpoint, report, report.run) else facts


def _went_on(checkpoint: CheckpointFacts, report: Report, run: QueryRun) -> bool:
    """Whether the checkpoint has batches that cannot belong to an ended run.

    A run that has failed leaves a batch behind that has begun and is not committed; in its first one it reports none.
    """
    last = batch_of(None, run)
    if last is None:
        begun = checkpoint.batch_timestamp_ms
        return report.heard_ms is None or begun is None or begun > report.heard_ms
    committed = checkpoint.committed if run.ended else None
    newest = checkpoint.batch
    return (newest is not None and newest > last + 1) or (committed is not None and committed > last)


def state_of(facts: QueryFacts, now_ms: int) -> tuple[EngineState, Said | None]:
    """The query's state, and the note on it."""
    report, run = facts.report, facts.run
    if report is None or run is None:
        if facts.checkpoint is not None:
            return _state_of_checkpoint(facts, facts.checkpoint, now_ms)
        return "stale", ("not_started", {}) if report is None or not report.trouble else None
    if run.ended:
        return ("failed", None) if run.error else ("ended", ("stopped", {}))
    if report.alive is False:
        return "stale", ("application_gone", {})
    if run.running is not None:
        took_ms = now_ms - run.running.since_ms
        if took_ms > max(STALE_AFTER_MS, STALE_AFTER_BATCHES * _longest_ms(run)):
            return "stale", ("batch_unfinished", {"batch": run.running.batch})
        return "live", None
    heard_ms = now_ms - (run.last_event_ms or now_ms)
    if run.continuous and run.progress is None and facts.checkpoint is None:
        return "partial", ("continuous", {})
    if run.progress is None and facts.checkpoint is None and report.alive and heard_ms <= MAX_FIRST_BATCH_MS:
        return "live", ("no_batch_ended", {"silent_ms": heard_ms})  # a job that publishes reports each batch at its end
    usual_ms = max(STALE_AFTER_MS, STALE_AFTER_BATCHES * _usual_ms(facts))
    if heard_ms <= usual_ms:
        return "live", ("query_idle", {}) if run.idle_ms is not None else None
    if report.alive and len(history_of(facts)) < 2 and not run.history and heard_ms <= MAX_FIRST_BATCH_MS:
        # In real-time mode the first report comes at the end of the first batch.
        return "live", ("query_silent", {"alive": 1})
    trigger_ms = run.plan.trigger_ms if run.plan is not None else None
    if trigger_ms is not None and heard_ms <= trigger_ms + usual_ms:
        return "live", ("waits_for_trigger", {"trigger_ms": trigger_ms, "silent_ms": heard_ms})
    longest_ms = MAX_TRIGGER_MS if run.pause_ms is None else _LONGER * run.pause_ms
    if trigger_ms is None and run.progress is not None and heard_ms <= longest_ms:
        return "partial", ("pause_unknown", {"silent_ms": heard_ms})
    return "stale", ("query_silent", {"alive": 1 if report.alive else None})


def _state_of_checkpoint(
    facts: QueryFacts, checkpoint: CheckpointFacts, now_ms: int
) -> tuple[EngineState, Said | None]:
    """The state by the checkpoint alone, and what that leaves unknown."""
    age_ms = checkpoint.age_ms(now_ms)
    if checkpoint.out_of_reach:
        return "stale", None
    if checkpoint.batch is None:
        return "stale", ("no_batch", {}) if checkpoint.trouble is None else None
    if age_ms is None:
        return "partial", None
    if age_ms <= max(STALE_AFTER_MS, STALE_AFTER_BATCHES * _usual_ms(facts)):
        return "partial" if checkpoint.trouble else "live", None
    if checkpoint.in_flight:
        return "stale", ("batch_unfinished", {"batch": checkpoint.batch})
    if age_ms <= _explained_ms(checkpoint) and not checkpoint.continuous:
        return "partial", ("pause_unknown", {"silent_ms": age_ms})
    return "stale", ("no_new_batch", {})


def _explained_ms(checkpoint: CheckpointFacts) -> float:
    """The longest pause that may be the trigger's: any with few batches, else like the second longest (one may be a
    stop).
    """
    times = [mark.timestamp_ms for mark in checkpoint.history]
    if len(times) < _PACE_SHOWS:
        return MAX_TRIGGER_MS
    return _LONGER * sorted(after - before for before, after in pairwise(times))[-2]


def _usual_ms(facts: QueryFacts) -> float:
    """The usual time between the beginnings of two batches; for a single batch, its duration.

    In real-time mode a batch lasts minutes, and its offsets are written at its end: they never show it in flight.
    """
    times = [mark.timestamp_ms for mark in history_of(facts)]
    if len(times) == 1 and facts.checkpoint is not None and facts.checkpoint.history:
        only = facts.checkpoint.history[0]
        return max(0, (only.committed_ms or only.timestamp_ms) - only.timestamp_ms)
    return median([after - before for before, after in pairwise(times)] or [0])


def _longest_ms(run: QueryRun) -> int:
    return max((point.duration_ms for point in run.history), default=0)
