"""Merges the facts of all taps on one Spark query into a snapshot. Pure.

Facts that no tap has are null in the snapshot, never 0.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from ...snapshot import (
    STATE_SCHEMA,
    ChannelView,
    Level,
    Note,
    Snapshot,
    SourceView,
    SparkProgress,
    SparkQuery,
    Totals,
    UnmovedReason,
    Windows,
    WindowsUnknownCode,
)
from ...watermarks.settings import Settings, WindowSpec
from .checkpoint.checkpoint import CheckpointFacts
from .events.query_runs import QueryRun
from .nodes import Node, Policy, delay_of, frozen_ms, nodes_of, shown
from .positions import positions
from .query_channels import (
    Tapped,
    barrel_rule,
    bucket_of,
    channels_of_taps,
    channels_of_topics,
    tapped_inputs,
    whatif_by_spark,
)
from .query_facts import Mark, QueryFacts, batch_of, begun_ms, history_of
from .query_state import current, state_of
from .said import (
    continuous,
    is_pause,
    newer_format,
    not_known,
    sibling_failed,
    time_needed,
    troubles_of_watermark,
    unreadable,
    why,
    windows_unknown,
)
from .state_view import operators_of, output_mode_of, windows_of
from .unmoved import unmoved_of

NOTHING_KNOWN = Totals(None, None, None, None, None, None)


def snapshot_of_query(
    facts: QueryFacts, *, name: str, source: SourceView, now_ms: int, before: Snapshot | None = None
) -> Snapshot:
    """The snapshot at `now_ms` (epoch ms); `before` is the last one."""
    facts = current(facts)
    checkpoint, run, topics = facts.checkpoint, facts.run, facts.topics
    state, said = state_of(facts, now_ms)
    nodes, policy = nodes_of(checkpoint, run), _policy(checkpoint, run)
    inputs = tapped_inputs(nodes, run)
    channels = channels_of_taps(inputs, now_ms)
    by_tap = bool(channels)
    elsewhere = topics is not None and topics.assumed
    if topics is not None and not by_tap:
        channels = channels_of_topics(topics, delay_of(nodes), withheld=elsewhere)
    settings = _settings(nodes, facts.window)
    level = _level(facts, nodes, channels, now_ms, before)
    silent = topics.trouble if topics else None
    plan = run.plan if run is not None else None
    in_force = {mark.batch: mark.watermark_ms for mark in checkpoint.history} if checkpoint is not None else {}
    mode = output_mode_of(plan, facts.windows, in_force)
    operators = operators_of(plan, run.progress if run is not None else None, facts.windows)
    windows = windows_of(facts.windows, operators, mode, level.watermark_ms, in_force, _without_state(facts))
    barrel = None if elsewhere and not by_tap else barrel_rule(nodes, channels, level.watermark_ms, policy)
    bucket_ms = bucket_of(nodes)
    unmoved = unmoved_of(checkpoint, run, level.watermark_ms)
    spark = replace(
        _spark(
            facts,
            nodes,
            level.watermark_ms,
            policy,
            flows=state not in ("stale", "ended", "failed") and not is_pause(said),
        ),
        output_mode=mode,
        operators=operators,
        has_watermark=_has_watermark(facts, nodes, level.watermark_ms),
        never_moved=_never_moved(facts, nodes, level.watermark_ms),
        max_event_ms=_newest_ms(facts, nodes),
        batches_unmoved=unmoved.batches,
    )
    spark = replace(spark, unmoved=_unmoved(spark))
    siblings = facts.report.siblings if facts.report is not None else None
    missing = checkpoint is not None and checkpoint.out_of_reach  # a small screen has room for the first note only
    trouble = checkpoint.trouble if checkpoint is not None else None
    over = said is not None and said[0] in ("application_gone", "stopped")
    notes = [
        why("unreadable", trouble if missing else None),
        None if over else why("broker_silent", silent),  # the likely reason of what is said next
        *troubles_of_watermark(spark, checkpoint, begun=batch_of(checkpoint, run) is not None),
        continuous(checkpoint),
        said,
        sibling_failed(siblings),
        newer_format(checkpoint.newer_format if checkpoint is not None else None),
        *unreadable(
            None if missing else trouble,
            facts.report.trouble if facts.report is not None else None,
            *(tap.trouble for tap in (run.inputs if run is not None else ())),
        ),
        why("broker_silent", silent) if over else None,
        time_needed(nodes) if elsewhere and not by_tap else None,
        *not_known(nodes, inputs, barrel),
        windows_unknown(windows),
    ]
    return Snapshot(
        name=name,
        state="partial" if state == "live" and silent else state,
        batch=batch_of(checkpoint, run),
        now_ms=now_ms,
        wall_ms=now_ms,
        settings=settings,
        source=source,
        level=level,
        channels=channels,
        windows=windows,
        totals=_totals(inputs),
        whatif=whatif_by_spark(nodes),
        whatif_upper_bound=bucket_ms is not None,
        whatif_bucket_ms=bucket_ms,
        target=SparkQuery(spark, positions(checkpoint, run, topics, unmoved.by_source), barrel, siblings),
        origin=_origin(facts, windows, by_tap=by_tap, delay_known=settings.lateness_ms is not None),
        notes=[Note(now_ms, *note) for note in notes if note],
        error=run.error if run is not None and run.ended else None,
    )


def _policy(checkpoint: CheckpointFacts | None, run: QueryRun | None) -> Policy | None:
    policies: dict[str | None, Policy] = {"min": "min", "max": "max"}
    kept = policies.get(checkpoint.watermark_policy if checkpoint is not None else None)
    return kept or policies.get(run.watermark_policy if run is not None else None)


def _settings(nodes: Sequence[Node], window: WindowSpec | None) -> Settings:
    """Spark's own rules, with the delay if there is exactly one."""
    return Settings(
        strategy="spark",
        lateness_ms=delay_of(nodes),
        idle_after_ms=None,
        future_guard_ms=None,
        emit_every_ms=0,
        window=window,
    )


def _totals(inputs: Sequence[Tapped]) -> Totals:
    """The counts of the taps; Spark's own late counts are not counts of rows."""
    if not inputs:
        return NOTHING_KNOWN
    nulls = sum(one.tap.nulls for one in inputs)
    return replace(NOTHING_KNOWN, records=sum(one.tap.rows for one in inputs) - nulls, malformed=nulls)


def _level(
    facts: QueryFacts, nodes: Sequence[Node], channels: Sequence[ChannelView], now_ms: int, before: Snapshot | None
) -> Level:
    """The watermark of the next batch, which is not known before the one in flight has ended."""
    level = _next_watermark(facts, nodes)
    if level is None:
        return Level()
    fastest = [view.watermark_ms for view in channels if view.watermark_ms is not None]
    since = _moved_ms(history_of(facts), level)
    if before is not None and before.level.watermark_ms == level and before.level.moved_ms is not None:
        since = before.level.moved_ms if since is None else min(since, before.level.moved_ms)
    delay = delay_of(nodes)
    return Level(
        watermark_ms=level,
        behind_fastest_ms=max(0, max(fastest) - level) if fastest else None,
        behind_clock_ms=now_ms - level,
        moved_ms=since,
        at_zero_lateness_ms=None if delay is None else level + delay,
    )


def _next_watermark(facts: QueryFacts, nodes: Sequence[Node]) -> int | None:
    """The watermark by the last commit; else by one node's clock, else by the last batch."""
    checkpoint, run = facts.checkpoint, facts.run
    if checkpoint is not None and checkpoint.batch is not None:
        known = checkpoint.next_watermark_ms
        return checkpoint.watermark_ms if known is None else known
    in_force = run.progress.watermark_ms if run is not None and run.progress is not None else None
    if run is None or len(nodes) != 1 or nodes[0].delay_ms is None or run.max_event_ms is None:
        return in_force
    clock = run.max_event_ms - nodes[0].delay_ms
    return clock if in_force is None else max(clock, in_force)


def _moved_ms(history: Sequence[Mark], level: int) -> int | None:
    """The start of the batch whose end gave the watermark its value, at the latest: older ones may not be recorded."""
    for mark in reversed(history):
        if mark.watermark_ms != level:
            return mark.timestamp_ms
    return history[0].timestamp_ms if history else None


def _spark(
    facts: QueryFacts, nodes: Sequence[Node], level_ms: int | None, policy: Policy | None, *, flows: bool
) -> SparkProgress:
    checkpoint, run = facts.checkpoint, facts.run
    progress = run.progress if run is not None else None
    settled = progress is not None and (checkpoint is None or checkpoint.committed == progress.batch)
    begun = checkpoint if checkpoint is not None and checkpoint.batch is not None else None
    states = progress.states if progress is not None else ()
    counted = [state.rows for state in states if state.rows is not None]
    running = run.running is not None if run is not None else None
    return SparkProgress(
        input_rows_per_second=_rows_per_second(facts) if flows else None,
        processed_rows_per_second=progress.processed_rows_per_second if progress is not None and flows else None,
        batch_ms=progress.duration_ms if progress is not None else None,
        phases_ms=progress.phases_ms if progress is not None else {},
        watermark_ms=level_ms,
        dropped_at_least=run.dropped_at_least if run is not None else None,
        dropped_behind_ms=run.dropped_behind_ms if run is not None else None,
        batch_watermark_ms=begun.watermark_ms if begun else progress.watermark_ms if progress else None,
        batch_timestamp_ms=begun_ms(begun, run),
        in_flight=False if run is not None and run.ended else begun.in_flight if begun else running,
        nodes=shown(nodes, level_ms, policy) or None,
        policy=policy,
        state_rows=sum(counted) if counted else None,
        state_bytes=sum(state.memory_bytes for state in states) if states else None,
        frozen_ms=frozen_ms(nodes, level_ms, policy) if settled else None,
        query_id=run.id if run is not None else checkpoint.query_id if checkpoint is not None else None,
        query_name=run.name if run is not None else None,
    )


def _without_state(facts: QueryFacts) -> WindowsUnknownCode:
    """Why no stateful operator was found."""
    plan = facts.run.plan if facts.run is not None else None
    if plan is not None and not plan.operators:
        return "no_state"
    if facts.checkpoint is None:
        return "state_not_found"
    if facts.windows is None:
        return "state_not_read"
    return "no_batch" if facts.checkpoint.committed is None else "no_state"


def _has_watermark(facts: QueryFacts, nodes: Sequence[Node], level_ms: int | None) -> bool | None:
    """Whether the query has a watermark; a checkpoint alone shows only one that has moved, or is in the state."""
    if facts.run is not None and facts.run.plan is not None:
        return bool(nodes)
    if facts.checkpoint is not None and facts.checkpoint.continuous:
        return False
    return True if nodes or level_ms is not None else None


def _never_moved(facts: QueryFacts, nodes: Sequence[Node], level_ms: int | None) -> bool | None:
    """Whether a completed batch had rows, and the watermark is still at 1970."""
    if not nodes:
        return None
    read = facts.run is not None and any(point.rows for point in facts.run.history)
    kept = any(one.batch is not None and one.keys for one in facts.windows or ())
    done = facts.checkpoint if facts.checkpoint is not None and facts.checkpoint.committed is not None else None
    # Kafka's first batch has offsets even without records.
    delivered = done is not None and any(one.offsets.kind not in ("nothing", "kafka") for one in done.sources)
    return level_ms is None and (read or kept or (len(nodes) > 1 and delivered))


def _newest_ms(facts: QueryFacts, nodes: Sequence[Node]) -> int | None:
    """The greatest reported event time, if there is only one watermark that it can belong to."""
    return facts.run.max_event_ms if facts.run is not None and len(nodes) == 1 else None


def _unmoved(spark: SparkProgress) -> UnmovedReason | None:
    """Why the only watermark stays at 1970. Spark treats a row without an event time as one of 1970."""
    [delay_ms] = [node.delay_ms for node in spark.nodes or ()] if len(spark.nodes or ()) == 1 else [None]
    if not spark.never_moved or delay_ms is None or spark.max_event_ms is None:
        return None
    if spark.max_event_ms <= 0:
        return "before_1970" if spark.max_event_ms else "no_event_time"
    return "delay_too_long" if spark.max_event_ms <= delay_ms else None


def _rows_per_second(facts: QueryFacts) -> float | None:
    """The rate by the query's report, or by Kafka's offsets: other sources' counters count files, seconds, or
    anything.
    """
    checkpoint, run = facts.checkpoint, facts.run
    if run is not None and run.progress is not None:
        return run.progress.input_rows_per_second
    if checkpoint is None:
        return None
    rates = [source.per_second for source in checkpoint.sources if source.offsets.kind == "kafka"]
    counted = [rate for rate in rates if rate is not None]
    return sum(counted) if counted and len(counted) == len(checkpoint.sources) else None


def _origin(facts: QueryFacts, windows: Windows, *, by_tap: bool, delay_known: bool) -> dict[str, str]:
    """The tap of each part."""
    tells: Literal["event log", "publish"] | None = facts.report.tap if facts.report is not None else None
    read = facts.checkpoint is not None and facts.checkpoint.batch is not None
    base = "checkpoint" if read or tells is None else tells
    origin = {"batch": base, "level": base, "sources": base}
    planned = facts.run is not None and facts.run.plan is not None and bool(facts.run.plan.nodes)
    if delay_known:
        origin["lateness"] = "plan" if planned else STATE_SCHEMA
    if tells is not None and facts.run is not None:
        origin |= {"rates": tells, "late": tells}
    if by_tap:
        origin["channels"] = "tap"
    elif facts.topics is not None:
        origin["channels"] = "broker"
    if windows.open_count is not None:
        origin["windows"] = "state files"
    return origin
