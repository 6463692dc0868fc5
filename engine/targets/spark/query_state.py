"""Whether an attached Spark query runs, waits, is stale or has ended, by its taps. Pure."""

from itertools import pairwise
from statistics import median

from msgspec import Struct

from ...snapshot import EngineState, NoteCode
from .checkpoint import CheckpointFacts
from .facts import QueryFacts
from .query_runs import QueryRun

STALE_AFTER_MS = 30_000
STALE_AFTER_BATCHES = 3
"""A query is stale if no batch has begun for this long (ms), and for this many times its usual interval."""
MAX_FIRST_BATCH_MS = 330_000
"""Longest first batch (ms): in real-time mode a batch takes five minutes by default."""
MAX_TRIGGER_MS = 24 * 3_600_000
"""Longest pause (ms) that may be the trigger's while too few batches are recorded to show its interval."""
_MIN_BATCHES_FOR_PACE = 3
"""Recorded batches that show the pace: the first begins at the start, later ones at the trigger's interval."""
_MAX_PAUSE_RATIO = 2
"""A pause is like earlier ones up to this many times their length."""


class NoteDraft(Struct, frozen=True):
    """A note that a snapshot will carry: its code and arguments."""

    code: NoteCode
    args: dict[str, str | int | None] = {}


class QueryState(Struct, frozen=True):
    """The query's state, and the note on it."""

    state: EngineState
    note: NoteDraft | None = None

    @property
    def flows(self) -> bool:
        """Whether its last reported rates are those of now."""
        is_pausing = self.note is not None and self.note.code in (
            "pause_unknown", "waits_for_trigger", "no_batch_ended",
        )  # fmt: skip
        return self.state not in ("stale", "ended", "failed") and not is_pausing

    @property
    def is_over(self) -> bool:
        """Whether the query was stopped, or its application is gone."""
        return self.note is not None and self.note.code in ("application_gone", "stopped")


def state_of(facts: QueryFacts, now_ms: int) -> QueryState:
    """The query's state at `now_ms` (epoch ms): by its own reports, else by its checkpoint."""
    report, run = facts.report, facts.run
    if report is None or run is None:
        if facts.checkpoint is not None:
            return _state_of_checkpoint(facts, facts.checkpoint, now_ms)
        return _with_note("stale", "not_started") if report is None or not report.trouble else QueryState("stale")
    if run.ended:
        return QueryState("failed") if run.error else _with_note("ended", "stopped")
    if report.alive is False:
        return _with_note("stale", "application_gone")
    if run.running is not None:
        took_ms = now_ms - run.running.since_ms
        if took_ms > max(STALE_AFTER_MS, STALE_AFTER_BATCHES * _longest_ms(run)):
            return _with_note("stale", "batch_unfinished", batch=run.running.batch)
        return QueryState("live")
    silent_ms = now_ms - (run.last_event_ms or now_ms)
    if run.continuous and run.progress is None and facts.checkpoint is None:
        return _with_note("partial", "continuous")
    return _state_between_batches(facts, run, silent_ms, is_alive=report.alive is True)


def _state_between_batches(facts: QueryFacts, run: QueryRun, silent_ms: int, *, is_alive: bool) -> QueryState:
    """The state of a run that reports no running batch, and nothing at all for `silent_ms`."""
    if run.progress is None and facts.checkpoint is None and is_alive and silent_ms <= MAX_FIRST_BATCH_MS:
        return _with_note("live", "no_batch_ended", silent_ms=silent_ms)  # publish reports each batch at its end
    usual_ms = max(STALE_AFTER_MS, STALE_AFTER_BATCHES * _usual_ms(facts))
    if silent_ms <= usual_ms:
        return _with_note("live", "query_idle") if run.idle_ms is not None else QueryState("live")
    if is_alive and len(facts.history) < 2 and not run.history and silent_ms <= MAX_FIRST_BATCH_MS:
        # In real-time mode the first report comes at the end of the first batch.
        return _with_note("live", "query_silent", alive=1)
    trigger_ms = run.plan.trigger_ms if run.plan is not None else None
    if trigger_ms is not None and silent_ms <= trigger_ms + usual_ms:
        return _with_note("live", "waits_for_trigger", trigger_ms=trigger_ms, silent_ms=silent_ms)
    max_pause_ms = MAX_TRIGGER_MS if run.pause_ms is None else _MAX_PAUSE_RATIO * run.pause_ms
    if trigger_ms is None and run.progress is not None and silent_ms <= max_pause_ms:
        return _with_note("partial", "pause_unknown", silent_ms=silent_ms)
    return _with_note("stale", "query_silent", alive=1 if is_alive else None)


def _state_of_checkpoint(facts: QueryFacts, checkpoint: CheckpointFacts, now_ms: int) -> QueryState:
    """The state by the checkpoint alone, and what that leaves unknown."""
    age_ms = checkpoint.age_ms(now_ms)
    if checkpoint.out_of_reach:
        return QueryState("stale")
    if checkpoint.batch is None:
        return _with_note("stale", "no_batch") if checkpoint.trouble is None else QueryState("stale")
    if age_ms is None:
        return QueryState("partial")
    if age_ms <= max(STALE_AFTER_MS, STALE_AFTER_BATCHES * _usual_ms(facts)):
        return QueryState("partial" if checkpoint.trouble else "live")
    if checkpoint.in_flight:
        return _with_note("stale", "batch_unfinished", batch=checkpoint.batch)
    if age_ms <= _max_pause_ms(checkpoint) and not checkpoint.continuous:
        return _with_note("partial", "pause_unknown", silent_ms=age_ms)
    return _with_note("stale", "no_new_batch")


def _with_note(state: EngineState, code: NoteCode, **args: str | int | None) -> QueryState:
    return QueryState(state, NoteDraft(code, args))


def _max_pause_ms(checkpoint: CheckpointFacts) -> float:
    """The longest pause that may be the trigger's: any with few batches, else like the second longest (one may be a
    stop).
    """
    times = [mark.timestamp_ms for mark in checkpoint.history]
    if len(times) < _MIN_BATCHES_FOR_PACE:
        return MAX_TRIGGER_MS
    return _MAX_PAUSE_RATIO * sorted(after - before for before, after in pairwise(times))[-2]


def _usual_ms(facts: QueryFacts) -> float:
    """The usual time between the beginnings of two batches; for a single batch, its duration.

    In real-time mode a batch lasts minutes, and its offsets are written at its end: they never show it in flight.
    """
    batches = facts.history
    if len(batches) == 1 and facts.checkpoint is not None and facts.checkpoint.history:
        return max(0, (batches[0].end_ms or batches[0].begin_ms) - batches[0].begin_ms)
    return median([after.begin_ms - before.begin_ms for before, after in pairwise(batches)] or [0])


def _longest_ms(run: QueryRun) -> int:
    return max((point.duration_ms for point in run.history), default=0)
