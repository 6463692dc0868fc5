"""What the taps on one Spark query say, merged into the snapshot that every reader gets. Pure.

A tap gives facts; what no tap gives is null in the snapshot, never 0.
"""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ..core.settings import Settings, WindowSpec
from ..core.snapshot import (
    BarrelRule,
    ChannelView,
    EngineState,
    Level,
    OpenWindow,
    Snapshot,
    SourceView,
    SparkProgress,
    Totals,
    Windows,
)
from ..core.view import MOST_OPEN_WINDOWS
from .checkpoint import CheckpointFacts
from .nodes import Node, Policy, delay_of, nodes_of, shown
from .open_windows import OpenWindows
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
from .query_runs import QueryRun
from .reports import Report
from .topic_facts import TopicFacts

STALE_AFTER_MS = 30_000
STALE_AFTER_BATCHES = 3
"""A query is stale when no batch has begun for so long, and for so many times its usual distance between two."""
NOTHING_KNOWN = Totals(None, None, None, None, None, None)


class QueryFacts(Struct, frozen=True, kw_only=True):
    """What the taps on one query say at one moment; None: there is no such tap on it."""

    checkpoint: CheckpointFacts | None = None
    report: Report | None = None
    windows: tuple[OpenWindows, ...] | None = None
    window: WindowSpec | None = None
    """What the windows seen so far tell of how they are made."""
    topics: TopicFacts | None = None
    """What the broker says of the query's topics."""

    @property
    def run(self) -> QueryRun | None:
        """The query's last run, as it tells of it."""
        return self.report.run if self.report is not None else None


class _Mark(Struct):
    """A batch on record: when it began, and the watermark in force in it (ms)."""

    timestamp_ms: int
    watermark_ms: int | None


def snapshot_of_query(
    facts: QueryFacts, *, name: str, source: SourceView, now_ms: int, before: Snapshot | None = None
) -> Snapshot:
    """The picture at `now_ms` (epoch ms), `before` it the last one."""
    facts = _current(facts)
    checkpoint, run, topics = facts.checkpoint, facts.run, facts.topics
    state, said = _state(facts, now_ms)
    nodes, policy = nodes_of(checkpoint, run), _policy(checkpoint, run)
    inputs = tapped_inputs(nodes, run)
    channels = channels_of_taps(inputs, now_ms)
    by_tap = bool(channels)
    if topics is not None and not by_tap:
        channels = channels_of_topics(topics, delay_of(nodes))
    settings = _settings(nodes, facts.window)
    level = _level(facts, nodes, channels, now_ms, before)
    silent = topics.trouble if topics else None
    windows = _windows(facts, level.watermark_ms)
    barrel = barrel_rule(nodes, channels, level.watermark_ms, policy)
    bucket_ms = bucket_of(nodes)
    notes = [said, *_troubles(facts), silent, *_not_known(nodes, inputs, barrel), windows.unknown]
    return Snapshot(
        name=name,
        state="partial" if state == "live" and silent else state,
        batch=_batch(checkpoint, run),
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
        spark=_spark(facts, nodes, level.watermark_ms, policy, flows=state not in ("stale", "ended", "failed")),
        sources=positions(checkpoint, run, topics),
        barrel=barrel,
        origin=_origin(facts, windows, by_tap=by_tap, delay_known=settings.lateness_ms is not None),
        notes=[note for note in notes if note],
        error=run.error if run is not None and run.ended else None,
    )


def _current(facts: QueryFacts) -> QueryFacts:
    """Without a report of an earlier run: the query was started again by a job that tells nothing."""
    checkpoint, report = facts.checkpoint, facts.report
    if checkpoint is None or checkpoint.batch is None or report is None or report.run is None:
        return facts
    last = _batch(None, report.run)
    over = report.run.ended or report.alive is False
    return replace(facts, report=None) if over and (last is None or checkpoint.batch > last + 1) else facts


def _state(facts: QueryFacts, now_ms: int) -> tuple[EngineState, str | None]:
    """How the query stands, and in one line what is to be said of that."""
    report, run = facts.report, facts.run
    if report is None or run is None:
        if facts.checkpoint is not None:
            return _state_of_checkpoint(facts, facts.checkpoint, now_ms)
        return "stale", "no query has started yet" if report is None or not report.trouble else None
    if run.ended:
        return ("failed", None) if run.error else ("ended", "the query was stopped")
    if report.alive is False:
        return "stale", "its application is gone, and the query did not end before it: this is what it last said"
    if run.running is not None:
        took_ms = now_ms - run.running.since_ms
        if took_ms > max(STALE_AFTER_MS, STALE_AFTER_BATCHES * _longest_ms(run)):
            return "stale", f"batch {run.running.batch} has not ended: it takes long, or the query died in it"
        return "live", None
    heard_ms = now_ms - (run.last_event_ms or now_ms)
    if heard_ms > max(STALE_AFTER_MS, STALE_AFTER_BATCHES * _usual_ms(facts)):
        gone = "" if report.alive else ", or it died"
        return "stale", f"it says nothing any more: its trigger waits, a batch takes long{gone}"
    return "live", "idle: it has nothing to read" if run.idle_ms is not None else None


def _state_of_checkpoint(facts: QueryFacts, checkpoint: CheckpointFacts, now_ms: int) -> tuple[EngineState, str | None]:
    """The same, and what of it cannot be told from a checkpoint."""
    age_ms = checkpoint.age_ms(now_ms)
    if checkpoint.batch is None:
        return "stale", "no batch has begun yet" if checkpoint.trouble is None else None
    if age_ms is None:
        return "partial", None
    if age_ms <= max(STALE_AFTER_MS, STALE_AFTER_BATCHES * _usual_ms(facts)):
        return "partial" if checkpoint.trouble else "live", None
    if checkpoint.in_flight:
        return "stale", f"batch {checkpoint.batch} has not ended: it takes long, or the query died in it"
    return "stale", "no new batch: the query is idle, or it has stopped; a checkpoint tells no more"


def _usual_ms(facts: QueryFacts) -> float:
    """The usual time between the beginnings of two batches."""
    times = [mark.timestamp_ms for mark in _history(facts)]
    return median([after - before for before, after in pairwise(times)] or [0])


def _longest_ms(run: QueryRun) -> int:
    return max((point.duration_ms for point in run.history), default=0)


def _troubles(facts: QueryFacts) -> list[str | None]:
    taps = [tap.trouble for tap in facts.run.inputs] if facts.run is not None else []
    return [
        facts.checkpoint.trouble if facts.checkpoint is not None else None,
        facts.report.trouble if facts.report is not None else None,
        *taps,
    ]


def _not_known(nodes: Sequence[Node], inputs: Sequence[Tapped], barrel: BarrelRule | None) -> list[str]:
    """What the taps do not tell, though there are some."""
    lines = [
        f"{one.tap.name}: of {one.tap.sampled.of:,} channels {one.tap.sampled.kept:,} are known, a fair sample"
        for one in inputs
        if one.tap.sampled is not None
    ]
    bare = [node.column or "a window's" for node in nodes if not node.taps]
    if barrel is not None and inputs and bare:
        lines.append(f"no tap has told of the watermark of {', '.join(bare)}: the barrel's level is not known")
    return lines


def _batch(checkpoint: CheckpointFacts | None, run: QueryRun | None) -> int | None:
    """The last batch that has begun."""
    said = [checkpoint.batch if checkpoint is not None else None]
    if run is not None:
        said += [run.progress.batch if run.progress else None, run.running.batch if run.running else None]
    return max((batch for batch in said if batch is not None), default=None)


def _policy(checkpoint: CheckpointFacts | None, run: QueryRun | None) -> Policy | None:
    policies: dict[str | None, Policy] = {"min": "min", "max": "max"}
    kept = policies.get(checkpoint.watermark_policy if checkpoint is not None else None)
    return kept or policies.get(run.watermark_policy if run is not None else None)


def _settings(nodes: Sequence[Node], window: WindowSpec | None) -> Settings:
    """Spark's own rules, with the delay where there is one and no more than one."""
    return Settings(
        strategy="spark",
        lateness_ms=delay_of(nodes),
        idle_after_ms=None,
        future_guard_ms=None,
        emit_every_ms=0,
        window=window,
    )


def _totals(inputs: Sequence[Tapped]) -> Totals:
    """What the taps have counted; Spark's own late counts are no counts of rows."""
    if not inputs:
        return NOTHING_KNOWN
    nulls = sum(one.tap.nulls for one in inputs)
    return replace(NOTHING_KNOWN, records=sum(one.tap.rows for one in inputs) - nulls, malformed=nulls)


def _level(
    facts: QueryFacts, nodes: Sequence[Node], channels: Sequence[ChannelView], now_ms: int, before: Snapshot | None
) -> Level:
    """What the next batch will use: it is not known before the one in flight has ended."""
    level = _next_watermark(facts, nodes)
    if level is None:
        return Level()
    fastest = [view.watermark_ms for view in channels if view.watermark_ms is not None]
    since = _moved_ms(_history(facts), level)
    if before is not None and before.level.watermark_ms == level and before.level.since_ms is not None:
        since = before.level.since_ms if since is None else min(since, before.level.since_ms)
    delay = delay_of(nodes)
    return Level(
        watermark_ms=level,
        behind_fastest_ms=max(0, max(fastest) - level) if fastest else None,
        behind_clock_ms=now_ms - level,
        since_ms=since,
        at_zero_lateness_ms=None if delay is None else level + delay,
    )


def _next_watermark(facts: QueryFacts, nodes: Sequence[Node]) -> int | None:
    """As the last commit has it; else what one node's clock says, else that of the last batch."""
    checkpoint, run = facts.checkpoint, facts.run
    if checkpoint is not None and checkpoint.batch is not None:
        known = checkpoint.next_watermark_ms
        return checkpoint.watermark_ms if known is None else known
    in_force = run.progress.watermark_ms if run is not None and run.progress is not None else None
    if run is None or len(nodes) != 1 or nodes[0].delay_ms is None or run.max_event_ms is None:
        return in_force
    clock = run.max_event_ms - nodes[0].delay_ms
    return clock if in_force is None else max(clock, in_force)


def _history(facts: QueryFacts) -> Sequence[_Mark]:
    """The batches on record, the newest last."""
    if facts.checkpoint is not None and facts.checkpoint.history:
        return [_Mark(mark.timestamp_ms, mark.watermark_ms) for mark in facts.checkpoint.history]
    return [_Mark(point.timestamp_ms, point.watermark_ms) for point in facts.run.history] if facts.run else []


def _moved_ms(history: Sequence[_Mark], level: int) -> int | None:
    """When the batch began whose end made the level what it is, at the latest: older ones may not be on record."""
    for mark in reversed(history):
        if mark.watermark_ms != level:
            return mark.timestamp_ms
    return history[0].timestamp_ms if history else None


def _windows(facts: QueryFacts, level_ms: int | None) -> Windows:
    """The open windows of all operators that could be read, and why others could not."""
    found = facts.windows
    if found is None:
        return _no_windows("the state is not looked at" if facts.checkpoint is not None else "its state was not found")
    if not found:
        return _no_windows("no state is there")
    reasons = [
        f"operator {operator.operator}: {operator.reason}" if len(found) > 1 else operator.reason
        for operator in found
        if operator.reason
    ]
    known = [operator for operator in found if operator.batch is not None]
    if not known:
        return _no_windows(reasons[0] if reasons else "nothing could be read")
    listed = [
        OpenWindow(
            start_ms=window.start_ms,
            end_ms=window.end_ms,
            records=window.records,
            waits_for=None,
            short_ms=None if level_ms is None else max(window.end_ms - level_ms, 0),
            operator=operator.operator if len(found) > 1 else None,
        )
        for operator in known
        for window in operator.windows
    ]
    listed.sort(key=lambda window: (window.end_ms, window.start_ms, window.operator or 0))
    return Windows(
        open=listed[:MOST_OPEN_WINDOWS],
        open_count=sum(operator.open for operator in known),
        fired=None,
        late_firings=None,
        unknown=reasons[0] if reasons else None,
    )


def _no_windows(why: str) -> Windows:
    return Windows(open_count=None, fired=None, late_firings=None, unknown=why)


def _spark(
    facts: QueryFacts, nodes: Sequence[Node], level_ms: int | None, policy: Policy | None, *, flows: bool
) -> SparkProgress:
    checkpoint, run = facts.checkpoint, facts.run
    progress = run.progress if run is not None else None
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
        batch_watermark_ms=begun.watermark_ms if begun else progress.watermark_ms if progress else None,
        batch_timestamp_ms=_begun_ms(begun, run),
        in_flight=begun.in_flight if begun else running,
        nodes=shown(nodes, level_ms, policy) or None,
        policy=policy,
        state_rows=sum(counted) if counted else None,
        state_bytes=sum(state.memory_bytes for state in states) if states else None,
    )


def _begun_ms(checkpoint: CheckpointFacts | None, run: QueryRun | None) -> int | None:
    """When the last batch began."""
    if checkpoint is not None:
        return checkpoint.batch_timestamp_ms
    if run is None:
        return None
    return run.running.since_ms if run.running else run.progress.timestamp_ms if run.progress else None


def _rows_per_second(facts: QueryFacts) -> float | None:
    """As the query said it, or as offsets of Kafka moved: other sources' counters count files, seconds, or anything."""
    checkpoint, run = facts.checkpoint, facts.run
    if run is not None and run.progress is not None:
        return run.progress.input_rows_per_second
    if checkpoint is None:
        return None
    rates = [source.per_second for source in checkpoint.sources if source.offsets.kind == "kafka"]
    counted = [rate for rate in rates if rate is not None]
    return sum(counted) if counted and len(counted) == len(checkpoint.sources) else None


def _origin(facts: QueryFacts, windows: Windows, *, by_tap: bool, delay_known: bool) -> dict[str, str]:
    """Which tap each part comes from."""
    tells: Literal["event log", "publish"] | None = facts.report.tap if facts.report is not None else None
    read = facts.checkpoint is not None and facts.checkpoint.batch is not None
    base = "checkpoint" if read or tells is None else tells
    origin = {"batch": base, "level": base, "sources": base}
    planned = facts.run is not None and facts.run.plan is not None and bool(facts.run.plan.nodes)
    if delay_known:
        origin["lateness"] = f"plan, {tells}" if planned else "state schema, as the query was first started"
    if tells is not None and facts.run is not None:
        origin |= {"rates": tells, "late": tells}
    if by_tap:
        origin["channels"] = f"tap in the job, {tells}"
    elif facts.topics is not None:
        origin["channels"] = "broker"
    if windows.open_count is not None:
        origin["windows"] = "state files"
    return origin
