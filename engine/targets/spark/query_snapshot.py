"""The way from the facts of all taps on one Spark query to its snapshot. Pure.

Facts that no tap has are null in the snapshot, never 0.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median

from msgspec import Struct
from msgspec.structs import replace

from ...snapshot import (
    NOTHING_KNOWN,
    STATE_SCHEMA,
    Condition,
    EngineState,
    Note,
    NoteCode,
    Snapshot,
    SourceView,
    SparkProgress,
    SparkQuery,
    Totals,
    Windows,
)
from ...watermarks.counts import NOTHING_COUNTED
from ...watermarks.settings import Settings, WindowSpec
from . import known
from .checkpoint import CheckpointFacts
from .facts import QueryFacts, QueryRun
from .inputs import Channels, channels_of, positions_of, unmoved_of
from .nodes import Nodes, nodes_of
from .operators import StoredState, stored_state_of
from .tapped import InputFacts
from .watermark import QueryWatermark, watermark_of

STALE_AFTER_MS = 30_000
STALE_AFTER_BATCHES = 3
"""A query is stale if no batch has begun for this long (ms), and for this many times its usual interval."""
MAX_FIRST_BATCH_MS = 330_000
"""Longest first batch (ms): in real-time mode a batch takes five minutes by default."""
MAX_TRIGGER_MS = 24 * 3_600_000
"""Longest pause (ms) that may be the trigger's while too few batches are recorded to show its interval."""
LOG_DELAY_MS = 5_000
"""How long after a commit (ms) a query that runs has reported it in its event log, at the latest."""
_MAX_PAUSE_RATIO = 2
"""A pause is like earlier ones up to this many times their length."""


class NoteDraft(Struct, frozen=True):
    """A note that a snapshot will carry: its code and arguments."""

    code: NoteCode
    args: dict[str, str | int | None] = {}

    def at(self, now_ms: int) -> Note:
        """The note of that moment."""
        return Note(now_ms, self.code, self.args)


class QueryState(Struct, frozen=True):
    """The query's state, what else is known of its condition, and the note on both."""

    state: EngineState
    condition: Condition = NOTHING_KNOWN
    note: NoteDraft | None = None

    @property
    def flows(self) -> bool:
        """Whether its last reported rates are those of now."""
        return self.state not in ("stale", "ended", "failed") and self.condition.pause is None

    @property
    def is_over(self) -> bool:
        """Whether the query was stopped, or its application is gone."""
        return self.state == "ended" or self.condition.standstill == "gone"


def state_of(facts: QueryFacts, now_ms: int) -> QueryState:
    """The query's state at `now_ms` (epoch ms): by its own reports, else by its checkpoint."""
    report, run = facts.report, facts.run
    if facts.is_out_of_reach:
        return QueryState("stale")
    if report is None or report.run is None:
        if facts.checkpoint is not None:
            return _state_of_checkpoint(facts, facts.checkpoint, now_ms)
        return _with_note("stale", "not_started") if report is None or not report.trouble else QueryState("stale")
    if run.ended:
        return QueryState("failed") if run.error else _with_note("ended", "stopped")
    if report.alive is False:
        silent_ms = None if report.heard_ms is None else max(now_ms - report.heard_ms, 0)
        args = {} if silent_ms is None else {"silent_ms": silent_ms}
        return _with_note("stale", "application_gone", Condition(standstill="gone", silent_ms=silent_ms), **args)
    if run.running is not None:
        took = (batch.end_ms - batch.begin_ms for batch in run.history if batch.end_ms is not None)
        longest_ms = max(took, default=(run.plan and run.plan.real_time_ms) or 0)
        if now_ms - run.running.since_ms > max(STALE_AFTER_MS, STALE_AFTER_BATCHES * longest_ms):
            condition = Condition(standstill="batch_unfinished", alive=bool(report.alive))
            alive = int(condition.alive) or None
            return _with_note("stale", "batch_unfinished", condition, batch=run.running.batch, alive=alive)
        return _live(facts)
    silent_ms = now_ms - (run.last_event_ms or now_ms)
    if run.continuous and run.progress is None and facts.checkpoint is None:
        return _with_note("partial", "continuous", Condition(continuous=True))
    return _state_between_batches(facts, run, silent_ms, is_alive=report.alive is True)


def _state_between_batches(facts: QueryFacts, run: QueryRun, silent_ms: int, *, is_alive: bool) -> QueryState:
    """The state of a run that reports no running batch, and nothing at all for `silent_ms`."""
    if run.progress is not None and run.last_event_ms is None:
        # Its driver has forgotten when its last batch was.
        return _with_note("partial", "pause_unknown", Condition(pause="unknown"))
    if run.progress is None and facts.checkpoint is None and is_alive and silent_ms <= MAX_FIRST_BATCH_MS:
        # `publish` reports each batch at its end; a driver does not show when the query started.
        condition = Condition(pause="first_batch", silent_ms=run.last_event_ms and silent_ms, alive=True)
        return _with_note("live", "no_batch_ended", condition, silent_ms=condition.silent_ms, alive=1)
    usual_ms = max(STALE_AFTER_MS, STALE_AFTER_BATCHES * _usual_ms(facts))
    if silent_ms <= usual_ms:
        return _live(facts)
    if is_alive and len(facts.history) < 2 and not run.history and silent_ms <= MAX_FIRST_BATCH_MS:
        # In real-time mode the first report comes at the end of the first batch.
        return _with_note("live", "query_silent", Condition(standstill="silent", alive=True), alive=1)
    trigger_ms = run.plan and run.plan.trigger_ms
    if trigger_ms is not None and silent_ms <= trigger_ms + usual_ms:
        condition = Condition(pause="trigger", silent_ms=silent_ms)
        return _with_note("live", "waits_for_trigger", condition, trigger_ms=trigger_ms, silent_ms=silent_ms)
    max_pause_ms = MAX_TRIGGER_MS if run.pause_ms is None else _MAX_PAUSE_RATIO * run.pause_ms
    is_shown = facts.is_by_driver and is_alive  # as running, and never as idle
    if trigger_ms is None and run.progress is not None and (is_shown or silent_ms <= max_pause_ms):
        condition = Condition(pause="unknown", silent_ms=silent_ms, alive=is_shown)
        return _with_note("partial", "pause_unknown", condition, silent_ms=silent_ms, alive=int(is_shown) or None)
    condition = Condition(standstill="silent", alive=is_alive)
    return _with_note("stale", "query_silent", condition, alive=int(is_alive) or None)


def _live(facts: QueryFacts) -> QueryState:
    """Idle until a batch begins, in real-time mode until one had rows: there one follows the other."""
    is_real_time = facts.plan is not None and facts.plan.real_time_ms is not None
    if facts.run.idle_ms is None or (_in_flight(facts) and not is_real_time):
        return QueryState("live")
    unread = sum(known(*(source.backlog for source in positions_of(facts, ()))))
    return _with_note("live", "query_idle", Condition(idle=True), unread=unread or None)


def _state_of_checkpoint(facts: QueryFacts, checkpoint: CheckpointFacts, now_ms: int) -> QueryState:
    """The state by the checkpoint alone, and what that leaves unknown."""
    if checkpoint.batch is None:
        return _with_note("stale", "no_batch") if checkpoint.trouble is None else QueryState("stale")
    if checkpoint.batch_timestamp_ms is None:
        return QueryState("partial")
    age_ms = max(0, now_ms - checkpoint.batch_timestamp_ms)
    if age_ms <= max(STALE_AFTER_MS, STALE_AFTER_BATCHES * _usual_ms(facts)):
        return QueryState("partial" if checkpoint.trouble else "live")
    if checkpoint.in_flight:
        return _with_note("stale", "batch_unfinished", Condition(standstill="batch_unfinished"), batch=checkpoint.batch)
    pauses = sorted(after.begin_ms - before.begin_ms for before, after in pairwise(checkpoint.history))
    # The longest pause may be a stop.
    max_pause_ms = _MAX_PAUSE_RATIO * pauses[-2] if len(pauses) > 1 else MAX_TRIGGER_MS
    if age_ms <= max_pause_ms and not checkpoint.continuous:
        return _with_note("partial", "pause_unknown", Condition(pause="unknown", silent_ms=age_ms), silent_ms=age_ms)
    topics = facts.topics
    is_unread = topics is not None and topics.trouble is None and any(part.unread for part in topics.partitions)
    # An epoch follows the last one also without data; a query with unread records is not idle.
    condition = Condition(standstill="no_new_batch", due=checkpoint.continuous or is_unread)
    return _with_note("stale", "no_new_batch", condition, due=int(condition.due) or None)


def _with_note(
    state: EngineState, code: NoteCode, condition: Condition = NOTHING_KNOWN, **args: str | int | None
) -> QueryState:
    return QueryState(state, condition, NoteDraft(code, args))


def _usual_ms(facts: QueryFacts) -> float:
    """The usual time between the beginnings of two batches; for a single batch, its duration.

    In real-time mode a batch lasts minutes, and its offsets are written at its end: they never show it in flight.
    """
    batches = facts.history
    if len(batches) == 1 and facts.stored.history:
        return max(0, (batches[0].end_ms or batches[0].begin_ms) - batches[0].begin_ms)
    return median([after.begin_ms - before.begin_ms for before, after in pairwise(batches)] or [0])


def snapshot_of_query(
    facts: QueryFacts, *, name: str, source: SourceView, now_ms: int, before: Snapshot | None = None
) -> Snapshot:
    """The snapshot at `now_ms` (epoch ms), stage by stage; `before` is the last one."""
    if _is_restarted(facts):  # by a job that reports nothing
        facts = replace(facts, report=None)
    nodes = nodes_of(facts)
    channels = channels_of(facts, nodes, now_ms)
    watermark = watermark_of(facts, nodes, channels, now_ms, before)
    unmoved = unmoved_of(facts, watermark.level.watermark_ms)
    stored = stored_state_of(facts, watermark.level.watermark_ms)
    query = state_of(facts, now_ms)
    notes = _notes(facts, nodes, channels, watermark, stored, query)
    return Snapshot(
        name=name,
        state="partial" if query.state == "live" and facts.topics and facts.topics.trouble else query.state,
        batch=facts.batch,
        now_ms=now_ms,
        wall_ms=now_ms,
        settings=settings_of_query(nodes.delay_ms, facts.window),
        source=source,
        level=watermark.level,
        channels=channels.views,
        windows=stored.windows,
        totals=_totals(channels.inputs),
        whatif=channels.whatif,
        whatif_upper_bound=channels.bucket_ms is not None,
        whatif_bucket_ms=channels.bucket_ms,
        target=SparkQuery(
            _progress(facts, watermark, stored, query, unmoved.batches, before),
            None if facts.is_by_driver else positions_of(facts, unmoved.by_source),
            watermark.barrel,
            facts.report.siblings if facts.report is not None else None,
        ),
        origin=_origin(facts, nodes, channels, stored.windows),
        condition=_condition(facts, query),
        notes=[note.at(now_ms) for note in notes],
        error=facts.run.error if facts.run.ended else None,
    )


def _condition(facts: QueryFacts, query: QueryState) -> Condition:
    """The query's condition, and what of it and its source cannot be read."""
    known = query.condition
    return replace(
        known,
        continuous=known.continuous or facts.stored.continuous,
        source_silent=(facts.topics and facts.topics.trouble) or None,
        unreadable=next(_unread_parts(facts), None),
    )


def _is_restarted(facts: QueryFacts) -> bool:
    """Whether the checkpoint has batches that cannot belong to the run: it has ended, or its log, as after a kill.

    A run that has failed leaves a batch behind that has begun and is not committed; in its first one it reports none.
    """
    checkpoint, report, run = facts.begun, facts.report, facts.run
    if checkpoint is None or report is None or report.run is None:
        return False
    last, heard_ms = run.progress and run.progress.batch, report.heard_ms
    commits_ms = known(*(batch.end_ms for batch in checkpoint.history))
    is_outlived = heard_ms is not None and max(commits_ms, default=heard_ms) > heard_ms + LOG_DELAY_MS
    if not (run.ended or report.alive is False or (is_outlived and report.alive is None)):
        return False
    if last is None:
        begun_ms = checkpoint.batch_timestamp_ms
        return is_outlived or heard_ms is None or begun_ms is None or begun_ms > heard_ms
    return (checkpoint.batch or 0) > last + 1 or ((run.ended or is_outlived) and (checkpoint.committed or 0) > last)


def settings_of_query(delay_ms: int | None = None, window: WindowSpec | None = None) -> Settings:
    """Spark's own rules, known before any fact; with the delay if there is exactly one."""
    return Settings(
        strategy="spark", lateness_ms=delay_ms, idle_after_ms=None, future_guard_ms=None, emit_every_ms=0, window=window
    )


def _totals(inputs: Sequence[InputFacts]) -> Totals:
    """The counts of the taps; Spark's own late counts are not counts of rows."""
    if not inputs:
        return NOTHING_COUNTED
    nulls = sum(tap.nulls for tap in inputs)
    return Totals(sum(tap.rows for tap in inputs) - nulls, None, None, nulls, None, None)


def _progress(
    facts: QueryFacts,
    watermark: QueryWatermark,
    stored: StoredState,
    query: QueryState,
    batches_unmoved: int | None,
    before: Snapshot | None,
) -> SparkProgress:
    """What Spark reports about the query; rates only while it flows."""
    run, progress, plan = facts.run, facts.progress, facts.plan
    states = progress.states if progress is not None else ()
    # A late row is counted each time that the plan reads it: twice in a join of a source with itself; and each copy.
    sources = {source.description for source in progress.sources} if progress is not None else set[str]()
    counts = 1 if plan is None else plan.copies * max(1, plan.reads + 1 - max(1, len(sources)))
    is_counted_once = counts == 1 and not (progress is not None and progress.is_used_by_function)
    delays = [node.delay_ms for node in watermark.spark.nodes or ()]
    read_per_second = facts.stored.rows_per_second if progress is None else progress.input_rows_per_second
    state_bytes = known(*(state.memory_bytes for state in states))
    state_rows = known(*(state.rows for state in states))
    query_id = run.id or facts.stored.query_id
    writes = facts.report and facts.report.writes
    if writes is None and plan is None and before is not None and before.spark.query_id == query_id is not None:
        writes = before.spark.writes  # until the first batch of a run, those of the run before
    return replace(
        watermark.spark,
        input_rows_per_second=read_per_second if query.flows else None,
        processed_rows_per_second=progress.processed_rows_per_second if progress is not None and query.flows else None,
        batch_ms=progress and progress.duration_ms,
        phases_ms=progress.phases_ms if progress is not None else {},
        dropped_at_least=None if run.dropped_at_least is None else -(-run.dropped_at_least // counts),
        dropped_exact=bool(states and run.is_whole)
        and (is_counted_once or not run.dropped_at_least)
        and all(state.counts_rows for state in states),
        dropped_at_watermark=run.dropped_at_watermark if delays == [0] else None,
        dropped_behind_ms=run.dropped_behind_ms,
        batch_timestamp_ms=_batch_began_ms(facts),
        in_flight=_in_flight(facts),
        state_rows=sum(state_rows) if state_rows else None,
        state_bytes=sum(state_bytes) if state_bytes else None,
        query_id=query_id,
        query_name=run.name,
        run_started_ms=run.started_ms,
        output_mode=stored.output_mode,
        operators=stored.operators,
        batches_unmoved=batches_unmoved,
        real_time_ms=plan and plan.real_time_ms,
        trigger_ms=plan and plan.trigger_ms,
        slowest_clock=facts.is_slowest_clock,
        writes=None if writes is None else list(writes),
    )


def _in_flight(facts: QueryFacts) -> bool | None:
    """Whether the last batch has not ended; None: not known, also where it was so when it was last seen."""
    if facts.batch is None or facts.is_out_of_reach:
        return None
    if facts.run.ended:
        return False
    return facts.running is not None or (facts.begun is not None and facts.begun.in_flight)


def _batch_began_ms(facts: QueryFacts) -> int | None:
    """When the last batch began."""
    if facts.running is not None:
        return facts.running.since_ms
    if facts.begun is not None:
        return facts.begun.batch_timestamp_ms
    return facts.progress.timestamp_ms if facts.progress is not None else None


def _origin(facts: QueryFacts, nodes: Nodes, channels: Channels, windows: Windows) -> dict[str, str]:
    """The tap of each part."""
    reporter = facts.report.tap if facts.report is not None else "checkpoint"
    base = "checkpoint" if facts.begun is not None else reporter
    origin: dict[str, str] = {"batch": base, "level": base, "sources": base}
    if any(node.delay_ms is not None for node in nodes.nodes):
        origin["lateness"] = "plan" if facts.plan is not None and facts.plan.nodes else STATE_SCHEMA
    if facts.report is not None and facts.report.run is not None:
        origin |= {"rates": reporter, "late": reporter}
    if channels.origin is not None:
        origin["channels"] = channels.origin
    if windows.open_count is not None:
        origin["windows"] = "state files"
    return origin


def _notes(
    facts: QueryFacts,
    nodes: Nodes,
    channels: Channels,
    watermark: QueryWatermark,
    stored: StoredState,
    query: QueryState,
) -> Iterator[NoteDraft]:
    """The troubles of the query and its taps, and what is not known; the first has room on a small screen."""
    checkpoint = facts.stored
    if checkpoint.out_of_reach:
        yield from _with_reason("unreadable", checkpoint.trouble)
    if not query.is_over:  # the likely reason of what follows
        yield from _with_reason("broker_silent", facts.topics and facts.topics.trouble)
    yield from _watermark_notes(facts, watermark)
    if checkpoint.continuous:
        yield NoteDraft("continuous")
    if query.note is not None:
        yield query.note
    siblings = (facts.report and facts.report.siblings) or ()
    if failed := [sibling for sibling in siblings if sibling.state == "failed"]:
        args = {"name": failed[0].name, "why": failed[0].error, "more": len(failed) - 1 or None}
        yield NoteDraft("sibling_failed", args)
    yield from _unreadable(facts)
    if query.is_over:
        yield from _with_reason("broker_silent", facts.topics and facts.topics.trouble)
    if facts.is_by_driver and not query.is_over:
        progress = facts.progress
        if watermark.spark.has_watermark and progress is not None and "watermark" not in progress.event_time:
            yield NoteDraft("driver_no_watermark")
        yield NoteDraft("driver_only")
    if channels.without_times:
        columns = [node.column for node in nodes.nodes if node.column is not None]
        yield NoteDraft("time_needed", {"column": ", ".join(columns) or None})
    yield from _missing_taps(nodes, channels, watermark)
    if stored.windows.unknown is not None:
        yield NoteDraft("windows_unknown", {**stored.windows.unknown_args, "code": stored.windows.unknown})


def _watermark_notes(facts: QueryFacts, watermark: QueryWatermark) -> Iterator[NoteDraft]:
    """The notes on a watermark that is missing, never moves, or is frozen."""
    spark, is_pinned = watermark.spark, False
    for reason in ("no_input", "own_output"):
        if pinned := [node.column or "window" for node in spark.nodes or () if node.pinned == reason]:
            is_pinned = True
            yield NoteDraft("watermark_pinned", {"columns": ", ".join(pinned), "why": reason})
    if spark.never_moved and not is_pinned:
        empty = [source.source for source in facts.stored.sources if source.kind == "nothing"]
        args = {"nodes": len(spark.nodes or ()), "sources": ", ".join(empty) or None, "why": spark.unmoved}
        yield NoteDraft("watermark_unmoved", args)
    if spark.frozen_ms is not None:
        yield NoteDraft("watermark_frozen", {"frozen_ms": spark.frozen_ms})
    if facts.is_slowest_clock:
        yield NoteDraft("slowest_clock")
    is_forgotten = facts.is_by_driver and facts.plan is None
    if facts.batch is not None and not spark.has_watermark and not is_forgotten:
        yield NoteDraft("no_watermark", {"sure": 1 if spark.has_watermark is False else None})


def _unreadable(facts: QueryFacts) -> Iterator[NoteDraft]:
    """The notes on files, reports and taps that cannot be read, or on a format newer than the known ones."""
    checkpoint = facts.stored
    if checkpoint.newer_format is not None:
        yield NoteDraft("newer_format", {"version": checkpoint.newer_format})
    if not checkpoint.out_of_reach:
        yield from _with_reason("unreadable", checkpoint.trouble)
    yield from _with_reason("unreadable", facts.report and facts.report.trouble)
    for tap in facts.run.inputs:
        yield from _with_reason("unreadable", tap.trouble)


def _unread_parts(facts: QueryFacts) -> Iterator[str]:
    """Why parts of the query cannot be read, each in one line."""
    troubles = (facts.stored.trouble, facts.report and facts.report.trouble, *(tap.trouble for tap in facts.run.inputs))
    return (trouble for trouble in troubles if trouble)


def _missing_taps(nodes: Nodes, channels: Channels, watermark: QueryWatermark) -> Iterator[NoteDraft]:
    """The notes on what the job's taps do not report."""
    for tap in channels.inputs:
        if tap.sampled is not None:
            yield NoteDraft("channels_sampled", {"tap": tap.name, "kept": tap.sampled.kept, "of": tap.sampled.of})
    columns = [node.column or "window" for node in nodes.nodes if not node.taps]
    if watermark.barrel is not None and channels.inputs and columns:
        yield NoteDraft("nodes_without_tap", {"columns": ", ".join(columns)})


def _with_reason(code: NoteCode, reason: str | None) -> Iterator[NoteDraft]:
    """A note that has a line as its reason; none without one."""
    if reason:
        yield NoteDraft(code, {"why": reason})
