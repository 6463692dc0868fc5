"""The snapshot of a Flink job. Pure."""

from collections.abc import Iterable

from msgspec.structs import replace

from ...snapshot import (
    ChannelView,
    EngineState,
    Holder,
    InstanceView,
    Level,
    Note,
    Snapshot,
    SourceView,
    Totals,
    Windows,
)
from ...snapshot.flink_job import NO_METRICS, FlinkJob, FlinkVertex
from ...watermarks.settings import Settings
from ...watermarks.times import MAX, MIN
from .barrel import Barrel, BarrelChannel, barrel_of
from .delays import delay_of
from .facts import FlinkFacts, clock_of, late_of
from .inputs import is_named, lacks, operators
from .samples import Sample, VertexSample, time_of
from .staircase import blockers_of
from .unread import splits_of, with_backlog

STALE_AFTER_MS = 15_000
"""Metrics are stale if they are this much (ms) older than their interval."""
_STATES: dict[str, EngineState] = {
    "INITIALIZING": "starting", "CREATED": "starting", "RUNNING": "live", "FAILED": "failed", "CANCELED": "ended",
    "FINISHED": "ended",
}  # fmt: skip


def picture_of(
    facts: FlinkFacts, *, name: str, source: SourceView, settings: Settings, operator: str | None, now_ms: int,
    before: Snapshot | None,
) -> Snapshot:  # fmt: skip
    """The snapshot at `now_ms` (this machine's clock, epoch ms); `before` is the last one, `operator` a part of a
    vertex's name.
    """
    sample = facts.samples[-1] if facts.samples else None
    older = facts.samples[0] if len(facts.samples) > 1 else None
    chosen = _chosen(sample, operator)
    gone = _is_gone(facts, operator)
    age_ms = clock_of(facts, now_ms) - facts.graph.job.started_ms
    barrel = None if chosen is None or sample is None else barrel_of(chosen, sample, older, facts.delays, age_ms)
    if barrel is not None and facts.unread is not None:
        barrel = with_backlog(barrel, facts.unread)
    runs = facts.graph.job.state == "RUNNING"
    level = _level(barrel, now_ms, before, runs=runs)
    late = late_of(facts)
    job = _job(facts, sample, chosen, barrel, late, clock_of(facts, now_ms))
    return Snapshot(
        name=name,
        state="stale" if gone else _state(facts, sample, now_ms),
        now_ms=now_ms,
        wall_ms=now_ms,
        ended=barrel.ended if barrel is not None else False,
        settings=settings,
        source=source,
        level=level,
        blockers=None if barrel is None or not runs else blockers_of(barrel),
        channels=[] if barrel is None else _channels(barrel, facts, now_ms, before),
        instances=None if barrel is None or len(barrel.instances) == len(barrel.channels) else _instances(barrel),
        windows=Windows(open_count=None, fired=None, late_firings=None, unknown="not_in_rest"),
        totals=Totals(None, None, sum(late.values()) if late else None, None, None, None),
        target=_since_seen(replace(job, operator_gone=gone), now_ms, before),
        origin={"level": "flink", "channels": "flink", "totals": "flink"}
        | ({} if facts.unread is None else {"backlog": "broker"}),
        notes=_notes(facts, now_ms),
        error=f"--operator {operator}: the job has no such operator any more" if gone else _error(facts),
    )


def _notes(facts: FlinkFacts, now_ms: int) -> list[Note]:
    return [] if facts.broker_trouble is None else [Note(now_ms, "broker_silent", {"why": facts.broker_trouble})]


def _chosen(sample: Sample | None, operator: str | None) -> VertexSample | None:
    found = [] if sample is None else operators(sample)
    if operator is not None:  # never another one in its place
        found = [one for one in found if is_named(one.vertex, operator)]
    return found[0] if found else None


def _is_gone(facts: FlinkFacts, operator: str | None) -> bool:
    """Whether the running job has no such operator; it had one when it was chosen."""
    if facts.trouble is not None or facts.interval_ms == 0 or facts.graph.job.state != "RUNNING":
        return False
    return lacks(facts.graph.vertices, operator)


def _state(facts: FlinkFacts, sample: Sample | None, now_ms: int) -> EngineState:
    state = _STATES.get(facts.graph.job.state, "stale")
    if (facts.trouble is not None or facts.interval_ms == 0) and state in ("live", "starting"):
        return "stale"
    if state != "live":
        return state
    if sample is None:
        return "starting"
    if clock_of(facts, now_ms) - sample.at_ms > (facts.interval_ms or 0) + STALE_AFTER_MS:
        return "stale"
    return "live" if sample.whole else "partial"


def _error(facts: FlinkFacts) -> str | None:
    if facts.trouble is not None:
        return facts.trouble
    if facts.interval_ms == 0 and facts.graph.job.state == "RUNNING":
        return NO_METRICS
    return facts.failure if facts.graph.job.state in ("FAILED", "FAILING", "RESTARTING") else None


def _level(barrel: Barrel | None, now_ms: int, before: Snapshot | None, *, runs: bool) -> Level:
    if barrel is None:
        return Level()
    watermark = barrel.watermark_ms
    known = [one.watermark_ms for one in barrel.channels if one.watermark_ms is not None]
    last = before.level if before is not None else None
    # At the first poll it is not known when the watermark last moved.
    moved = last is not None and last.watermark_ms != watermark
    since = now_ms if moved else None if last is None else last.moved_ms
    return Level(
        watermark_ms=watermark,
        behind_fastest_ms=None if watermark is None or not known else max(0, max(known) - watermark),
        behind_clock_ms=None if watermark is None else now_ms - watermark,
        # During a restart, and after the job's end, the last dump blames no channel.
        holder=_holder(barrel, now_ms, last) if runs else None,
        idle=bool(barrel.instances) and all(one.state == "idle" for one in barrel.instances),
        moved_ms=since,
    )


def _holder(barrel: Barrel, now_ms: int, last: Level | None) -> Holder | None:
    held = barrel.held
    if held is None:
        return None
    before = last.holder if last is not None else None
    if before is not None and before.channel == held.channel:
        return Holder(held.channel, before.since_ms, held.cause, held.instance, before.at_least)
    # If there was no watermark before, it may have been held back for longer.
    unseen = before is None and (last is None or last.watermark_ms is None)
    return Holder(held.channel, now_ms, held.cause, held.instance, at_least=unseen)


def _channels(barrel: Barrel, facts: FlinkFacts, now_ms: int, before: Snapshot | None) -> list[ChannelView]:
    inside = len(barrel.instances) != len(barrel.channels)
    last = {one.channel: one for one in before.channels} if before is not None else {}
    unread = facts.unread or {}
    return [
        ChannelView(
            channel=one.name,
            watermark_ms=one.watermark_ms,
            max_event_ms=None,
            state=one.state,
            records=None,
            behind_watermark=None,
            late=None,
            malformed=None,
            future=None,
            held_back=one.paused,
            backlog=unread[one.split].backlog if one.split in unread else None,
            behind_end_ms=unread[one.split].behind_end_ms if one.split in unread else None,
            quiet_ms=one.quiet_ms,
            flaps=None,  # changes between two samples are not seen
            since_ms=_since(one, last.get(one.name), now_ms),
            instance=one.instance if inside else None,
        )
        for one in barrel.channels
    ]


def _since(one: BarrelChannel, last: ChannelView | None, now_ms: int) -> int | None:
    """When its watermark last changed, if that was seen."""
    if last is None:
        return None
    return last.since_ms if last.watermark_ms == one.watermark_ms else now_ms


def _instances(barrel: Barrel) -> list[InstanceView]:
    return [
        InstanceView(number, one.name, one.watermark_ms, one.state, one.channels)
        for number, one in enumerate(barrel.instances)
    ]


def _job(
    facts: FlinkFacts, sample: Sample | None, chosen: VertexSample | None, barrel: Barrel | None,
    late: dict[str, int], clock_ms: int,
) -> FlinkJob:  # fmt: skip
    job = facts.graph.job
    seen = {one.vertex.id: one for one in sample.vertices} if sample is not None else {}
    return FlinkJob(
        id=job.id,
        name=job.name,
        state=job.state,
        operator=chosen.vertex.id if chosen is not None else None,
        vertices=[
            _vertex(seen.get(one.id) or VertexSample(one, ()), one.status, late.get(one.id), facts)
            for one in facts.graph.vertices
        ],
        sampled_ms=sample.at_ms if sample is not None else None,
        interval_ms=facts.interval_ms,
        restarts=facts.restarts,
        checkpoint_ms=facts.checkpoint.completed_ms,
        checkpoint_took_ms=facts.checkpoint.took_ms,
        checkpoint_bytes=facts.checkpoint.size,
        checkpoints_failed=facts.checkpoint.failed,
        topics=facts.topics or sorted({split.topic for _, split in splits_of(sample) if split.topic is not None}),
        bootstrap=facts.bootstrap,
        clock_ms=clock_ms,
        submitted_ms=job.submitted_ms,
        running_ms=job.started_ms,
        failure=facts.failure,
        delays={one.name: one.delay_ms for one in barrel.channels if one.delay_ms} if barrel is not None else {},
        held_in=barrel.held.vertex if barrel is not None and barrel.held is not None else None,
        unanswered=facts.trouble is not None,
    )


def _since_seen(job: FlinkJob, now_ms: int, before: Snapshot | None) -> FlinkJob:
    """The job, in which each task has the time of its watermark's last change; `before` is the last snapshot."""
    then = before.flink if before is not None else None
    last = {one.id: one for one in then.vertices} if then is not None and then.id == job.id else {}

    def since(one: FlinkVertex) -> int | None:
        old = last.get(one.id)
        if one.input_ms is None:
            return None
        return now_ms if old is None or old.input_ms != one.input_ms else old.since_ms

    return replace(job, vertices=[replace(one, since_ms=since(one)) for one in job.vertices])


TWO_PHASE = "GlobalWindowAggregate"
"""Flink SQL's second phase of a window aggregate (`StreamExecGlobalWindowAggregate`)."""


def _vertex(one: VertexSample, status: str, late: int | None, facts: FlinkFacts) -> FlinkVertex:
    inputs = [task.input for task in one.subtasks if task.input is not None]
    outputs = [task.output for task in one.subtasks if task.output is not None]
    sane = [output for output in outputs if output not in (MIN, MAX)]
    lowest = min(outputs, default=None)
    return FlinkVertex(
        id=one.vertex.id,
        name=one.vertex.name,
        parallelism=one.vertex.parallelism,
        status=status,
        inputs=[edge.vertex for edge in one.vertex.inputs],
        input_ms=time_of(min(inputs, default=None)),
        output_ms=time_of(lowest),
        spread_ms=max(sane) - min(sane) if len(sane) == len(outputs) and sane else None,
        slowest=next((task.index for task in one.subtasks if task.output == lowest), None) if outputs else None,
        late=late,
        # A restart resets the counts, except those seen before.
        late_at_least=late is not None and (bool(facts.restarts) or (late > 0 and TWO_PHASE in one.vertex.name)),
        busy=_greatest(task.busy for task in one.subtasks),
        back_pressured=_greatest(task.back_pressured for task in one.subtasks),
        windowed=one.windowed,
        taken_per_second=one.rates.taken,
        sent_per_second=one.rates.sent,
        pending=one.rates.pending,
        drift_ms=max((task.drift_ms for task in one.subtasks if task.drift_ms is not None), default=None),
        delay_ms=delay_of(one, facts.delays),
    )


def _greatest(shares: Iterable[float | None]) -> float | None:
    return max((share for share in shares if share is not None), default=None)
