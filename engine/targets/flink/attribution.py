"""The states and causes of an operator's inputs, who holds back its watermark, and the snapshot of that. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ...snapshot import (
    UNCOUNTED,
    Blocker,
    Cause,
    ChannelView,
    EngineState,
    Holder,
    InstanceView,
    Level,
    Note,
    Snapshot,
    SourceView,
    Windows,
)
from ...snapshot.blockers import blockers_of
from ...snapshot.continuity import changed_ms, held_since
from ...snapshot.kinds.flink_job import NO_METRICS, FlinkJob, FlinkVertex
from ...watermarks.counts import NOTHING_COUNTED
from ...watermarks.operator_clock import steps_below
from ...watermarks.times import MAX, MIN
from ..clock import offset_note
from ..target import NOT_KNOWN
from .evidence import evidence_of
from .facts import FlinkFacts, Late, late_of, total_late
from .rules import HOLDER_RULES, JudgedChannel, JudgedInput, Minimum, first_match, judged, minimum_of
from .samples import COMPACTS, Vertex, VertexSample, or_min, splits_of, time_of


class Attribution(Struct, frozen=True):
    """An operator's watermark (epoch ms, None: none yet), its inputs, and who holds it back."""

    operator: str
    """The vertex id."""
    watermark_ms: int | None
    ended: bool
    is_ahead_of_the_end: bool
    """It has the last watermark although inputs have not ended: the others are idle, or it still receives records."""
    subtasks: tuple[InstanceView, ...]
    channels: list[ChannelView]
    """Its splits, and subtasks that show none; `instance` is the place of the subtask."""
    causes: list[Cause | None]
    """By channel why its watermark is not greater; None if it takes no part in the minimum."""
    delays: dict[str, int]
    """By channel how much later (ms) tasks on the way to the operator send its watermark, if they do."""
    held_back_by: Holder | None
    """The channel that holds back the watermark now; None: not known, or none does. `in_flight`: none is to blame."""
    held_in: str | None
    """The id of that channel's vertex; without a channel, of a task that waits, or whose input holds it back."""
    is_sure: bool
    """Whether it is known which channels are idle and which inputs take part: else a second sample may tell."""
    blockers: list[Blocker] | None
    """The steps below the fastest input; None: not known. Empty: no input holds it back (end, records in flight)."""

    @property
    def is_idle(self) -> bool:
        """Whether all its inputs are idle, and that is known."""
        return self.is_sure and bool(self.channels) and all(channel.state == "idle" for channel in self.channels)

    @property
    def has_subtasks(self) -> bool:
        """Whether any subtask has more than one channel."""
        return len(self.subtasks) != len(self.channels)


def attribution_of(facts: FlinkFacts, now_ms: int) -> Attribution | None:
    """The states of the chosen operator's inputs, and who holds back its watermark; None: no sample has it."""
    evidence = evidence_of(facts, now_ms)
    if evidence is None:
        return None
    operator, inputs = evidence.operator, [judged(input) for input in evidence.inputs]
    repeated = _repeated(inputs)
    views = [
        (_channel(channel, place, repeated), channel)
        for place, input in enumerate(inputs)
        for channel in input.channels
    ]
    minimum = minimum_of(operator, inputs)
    held_back_by, held_in = _held_back_by(minimum, views)
    is_at_end = operator.watermark == MAX
    ended = is_at_end and not operator.reads_on and all(input.state == "finished" for input in inputs)
    return Attribution(
        operator=operator.id,
        watermark_ms=time_of(operator.watermark),
        ended=ended,
        is_ahead_of_the_end=is_at_end and not ended,
        subtasks=tuple(
            InstanceView(place, input.subtask.name, time_of(input.subtask.sent), input.state, len(input.channels))
            for place, input in enumerate(inputs)
        ),
        channels=[view for view, _ in views],
        causes=[channel.cause for _, channel in views],
        delays={view.channel: ms for view, each in views if (ms := each.channel.subtask.delay_ms)},
        held_back_by=held_back_by,
        held_in=held_in,
        is_sure=all(input.is_sure and all(channel.is_sure for channel in input.channels) for input in inputs)
        and not minimum.needs_another_sample,
        blockers=[] if ended else _blockers(inputs, views, held_back_by, time_of(operator.watermark)),
    )


def _repeated(inputs: Sequence[JudgedInput]) -> set[str]:
    """The ids that splits of two sources have, as where both read one topic."""
    channels = [each.channel for input in inputs for each in input.channels]
    splits = {(channel.now.id, channel.subtask.source_label) for channel in channels if channel.is_split}
    counts = Counter(id for id, _ in splits)
    return {id for id, count in counts.items() if count > 1}


def _channel(judged_channel: JudgedChannel, place: int, repeated: set[str]) -> ChannelView:
    """The channel of the subtask at a place; what REST does not report is None."""
    channel, state = judged_channel.channel, judged_channel.state
    id, paused = channel.now.id, state == "active" and channel.is_paused
    return replace(
        UNCOUNTED,
        channel=f"{id} ({channel.subtask.source_label})" if channel.is_split and id in repeated else id,
        watermark_ms=time_of(channel.now.watermark),
        state=state,
        held_back=paused,
        backlog=None if channel.unread is None else channel.unread.backlog,
        behind_end_ms=None if channel.unread is None else channel.unread.behind_end_ms,
        quiet_ms=None if paused else channel.quiet_ms,
        instance=place,
    )


def _held_back_by(
    minimum: Minimum, views: Sequence[tuple[ChannelView, JudgedChannel]]
) -> tuple[Holder | None, str | None]:
    """The channel or the task, and the id of the channel's vertex, or of the task that may be to blame."""
    operator = minimum.operator
    answer, lowest, suspect = first_match(HOLDER_RULES, minimum), minimum.lowest, minimum.suspect
    if answer == "operator":
        return Holder(operator.waits_in, 0, "in_flight"), None
    if answer == "task or its input" and lowest is not None:
        return None, lowest.subtask.source_id
    if answer != "lowest channel" or lowest is None or suspect is None or suspect.cause is None:
        return None, None
    view = next(view for view, channel in views if channel is suspect)
    return Holder(view.channel, 0, suspect.cause, view.instance), lowest.subtask.source_id


def _blockers(
    inputs: Sequence[JudgedInput], views: Sequence[tuple[ChannelView, JudgedChannel]], holder: Holder | None,
    watermark_ms: int | None,
) -> list[Blocker] | None:  # fmt: skip
    """The steps. A split counts with its subtask's watermark if that is greater: a watermark never goes back."""
    if holder is None:
        return None
    if holder.instance is None:
        return []
    # The lowest channel in the minimum first; of equal ones the holder first.
    part: list[tuple[int, bool, int, str, int]] = []
    for number, (view, channel) in enumerate(views):
        input = inputs[view.instance or 0]
        if input.state == "active" and channel.cause is not None:
            reached = or_min(time_of(input.subtask.sent))
            height = max(channel.height, reached)
            part.append((height, view.channel != holder.channel, channel.height, view.channel, number))
    # The watermark after all inputs in the minimum have turned idle; not known while an active one has not caught up.
    is_catching_up = any(input.state == "catching_up" for input in inputs)
    known = [channel.height for _, channel in views if channel.state != "finished"]
    flushed = None if is_catching_up else max(known, default=None)
    steps = steps_below(((place[0], place[-1]) for place in sorted(part)), or_min(watermark_ms), flushed)
    return blockers_of(
        steps, lambda number: views[number][0].channel, lambda number: views[number][1].cause or "behind"
    )


STALE_AFTER_MS = 15_000
"""Metrics are stale if they are this much (ms) older than their interval."""
_STATES: dict[str, EngineState] = {
    "INITIALIZING": "starting", "CREATED": "starting", "RUNNING": "live", "FAILED": "failed", "CANCELED": "ended",
    "FINISHED": "ended",
}  # fmt: skip


def snapshot_of(facts: FlinkFacts, now_ms: int, *, name: str, source: SourceView, before: Snapshot | None) -> Snapshot:
    """The snapshot at `now_ms` of this machine's clock; `before` is the last one."""
    attribution = attribution_of(facts, now_ms)
    shown = next((one for one in facts.graph.vertices if attribution and one.id == attribution.operator), None)
    return Snapshot(
        name=name,
        state=_state(facts, now_ms),
        now_ms=now_ms,
        wall_ms=now_ms,
        ended=attribution is not None and attribution.ended,
        settings=NOT_KNOWN,
        source=source,
        level=Level() if attribution is None else _level(attribution, facts, now_ms, before),
        blockers=None if attribution is None or not facts.runs else attribution.blockers,
        channels=[] if attribution is None else _channel_views(attribution, now_ms, before),
        instances=list(attribution.subtasks) if attribution is not None and attribution.has_subtasks else None,
        windows=Windows(
            open_count=None,
            fired=None,
            late_firings=None,
            unknown="sink_waits" if shown is not None and COMPACTS in shown.name else "not_in_rest",
        ),
        totals=replace(NOTHING_COUNTED, late=total_late(late_of(facts).values())),
        target=_job(facts, now_ms, attribution, before),
        origin={"level": "flink", "channels": "flink", "totals": "flink"}
        | ({} if facts.unread is None else {"backlog": "broker"}),
        notes=list(_notes(facts, now_ms, attribution, shown)),
        error=_error(facts),
    )


def _notes(facts: FlinkFacts, now_ms: int, attribution: Attribution | None, shown: Vertex | None) -> Iterator[Note]:
    yield from offset_note(facts.clock, now_ms, "JobManager")
    if facts.broker_trouble is not None:
        yield Note(now_ms, "broker_silent", {"why": facts.broker_trouble})
    if attribution is None or not facts.runs:
        return
    is_unmarked = "no_watermark" in attribution.causes and not any(each.windowed for each in facts.samples[-1].vertices)
    if shown is not None and (shown.untimed or is_unmarked):
        yield Note(now_ms, "windows_untimed", {"operator": shown.name})
    open_ones = [one for one in attribution.subtasks if one.state != "finished"] or attribution.subtasks
    if attribution.is_ahead_of_the_end and attribution.is_sure:
        yield Note(now_ms, "ended_early", {"subtask": open_ones[0].channel, "more": len(open_ones) - 1})


def _state(facts: FlinkFacts, now_ms: int) -> EngineState:
    if facts.operator_gone:
        return "stale"
    state = _STATES.get(facts.graph.job.state, "stale")
    if (facts.trouble is not None or facts.interval_ms == 0) and state in ("live", "starting"):
        return "stale"
    if state != "live":
        return state
    if facts.sample is None:
        return "stale" if facts.restarts else "starting"
    if facts.clock_ms(now_ms) - facts.sample.at_ms > (facts.interval_ms or 0) + STALE_AFTER_MS:
        return "stale"
    return "live" if facts.sample.whole else "partial"


def _error(facts: FlinkFacts) -> str | None:
    if facts.operator_gone:
        return f"--operator {facts.operator}: the job has no such operator any more"
    if facts.trouble is not None:
        return facts.trouble
    if facts.interval_ms == 0 and facts.runs:
        return NO_METRICS
    is_down = facts.graph.job.state in ("FAILED", "FAILING", "RESTARTING") or (facts.runs and facts.sample is None)
    return facts.failure if is_down else None


def _level(attribution: Attribution, facts: FlinkFacts, now_ms: int, before: Snapshot | None) -> Level:
    watermark_ms = attribution.watermark_ms
    known = [channel.watermark_ms for channel in attribution.channels if channel.watermark_ms is not None]
    last = None if before is None else before.level
    moved_ms = None if last is None else last.moved_ms
    if last is not None and watermark_ms is not None:  # one that is lost has not moved
        moved_ms = changed_ms(watermark_ms, (last.watermark_ms, last.moved_ms), now_ms)
    return Level(
        watermark_ms=watermark_ms,
        behind_fastest_ms=None if watermark_ms is None or not known else max(0, max(known) - watermark_ms),
        behind_clock_ms=None if watermark_ms is None else now_ms - watermark_ms,
        holder=_holder(attribution, now_ms, last) if facts.runs else None,
        idle=attribution.is_idle,
        moved_ms=moved_ms,
    )


def _holder(attribution: Attribution, now_ms: int, last: Level | None) -> Holder | None:
    if attribution.held_back_by is None:
        return None
    # If there was no watermark before, it may have been held back for longer.
    was_watched = last is not None and last.watermark_ms is not None
    before = None if last is None else last.holder
    return held_since(attribution.held_back_by, before, now_ms, was_watched=was_watched)


def _channel_views(attribution: Attribution, now_ms: int, before: Snapshot | None) -> list[ChannelView]:
    """The channels with the time when their watermarks last changed, if that was seen."""
    last = {} if before is None else {view.channel: (view.watermark_ms, view.since_ms) for view in before.channels}
    in_subtasks = attribution.has_subtasks
    return [
        replace(
            channel,
            since_ms=changed_ms(channel.watermark_ms, last.get(channel.channel), now_ms),
            instance=channel.instance if in_subtasks else None,
        )
        for channel in attribution.channels
    ]


def _job(facts: FlinkFacts, now_ms: int, attribution: Attribution | None, before: Snapshot | None) -> FlinkJob:
    job, sample, checkpoint = facts.graph.job, facts.sample, facts.checkpoint
    vertices = _vertices(facts, now_ms, None if before is None else before.job)
    return FlinkJob(
        id=job.id,
        name=job.name,
        state=job.state,
        operator=None if attribution is None else attribution.operator,
        vertices=vertices,
        sampled_ms=None if sample is None else sample.at_ms,
        interval_ms=facts.interval_ms,
        restarts=facts.restarts,
        rescales=facts.rescales,
        checkpoint_ms=checkpoint.completed_ms,
        checkpoint_took_ms=checkpoint.took_ms,
        checkpoint_bytes=checkpoint.size,
        checkpoints_failed=checkpoint.failed,
        topics=facts.topics or sorted({split.topic for _, split in splits_of(sample) if split.topic is not None}),
        bootstrap=facts.bootstrap,
        clock_ms=facts.clock_ms(now_ms),
        submitted_ms=job.submitted_ms,
        running_ms=job.started_ms,
        failure=facts.failure,
        delays={} if attribution is None else attribution.delays,
        held_in=None if attribution is None or not facts.runs else attribution.held_in,
        unanswered=facts.trouble is not None,
        operator_gone=facts.operator_gone,
        late_at_least=any(task.late_at_least for task in vertices) or sum(bool(task.late) for task in vertices) > 1,
    )


def _vertices(facts: FlinkFacts, now_ms: int, before: FlinkJob | None) -> list[FlinkVertex]:
    """The tasks of the job's plan, each with the time of its watermark's last change."""
    late, sample = late_of(facts), facts.sample
    samples = {} if sample is None else {each.vertex.id: each for each in sample.vertices}
    is_same_job = before is not None and before.id == facts.graph.job.id
    last = {vertex.id: vertex for vertex in before.vertices} if before is not None and is_same_job else {}
    return [
        _vertex(vertex, samples.get(vertex.id, VertexSample(vertex, ())), now_ms, late[vertex.id], last.get(vertex.id))
        for vertex in facts.graph.vertices
    ]


def _vertex(vertex: Vertex, sample: VertexSample, now_ms: int, late: Late, last: FlinkVertex | None) -> FlinkVertex:
    outputs = [subtask.output for subtask in sample.subtasks if subtask.output is not None]
    times = [output for output in outputs if output not in (MIN, MAX)]
    lowest = min(outputs, default=None)
    input_ms = time_of(min((task.input for task in sample.subtasks if task.input is not None), default=None))
    before = None if last is None else (last.input_ms, last.since_ms)
    return FlinkVertex(
        id=vertex.id,
        name=vertex.name,
        parallelism=vertex.parallelism,
        status=vertex.status,
        inputs=[edge.vertex for edge in vertex.inputs],
        input_ms=input_ms,
        output_ms=time_of(lowest),
        spread_ms=max(times) - min(times) if len(times) == len(outputs) and times else None,
        slowest=next((task.index for task in sample.subtasks if task.output == lowest), None) if outputs else None,
        late=late.records,
        late_at_least=late.at_least,
        busy=_greatest(subtask.busy for subtask in sample.subtasks),
        back_pressured=_greatest(subtask.back_pressured for subtask in sample.subtasks),
        windowed=sample.windowed,
        taken_per_second=sample.rates.taken,
        sent_per_second=sample.rates.sent,
        read=sample.rates.read,
        pending=sample.rates.pending,
        drift_ms=max((subtask.drift_ms for subtask in sample.subtasks if subtask.drift_ms is not None), default=None),
        delay_ms=sample.vertex.delay_ms,
        since_ms=None if input_ms is None else changed_ms(input_ms, before, now_ms, first_ms=now_ms),
    )


def _greatest(shares: Iterable[float | None]) -> float | None:
    return max((share for share in shares if share is not None), default=None)
