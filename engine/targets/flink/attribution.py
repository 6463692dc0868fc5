"""The states and causes of an operator's inputs, who holds back its watermark, and the snapshot of that. Pure."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ...snapshot import (
    Blocker,
    Cause,
    ChannelState,
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
    WindowsUnknownCode,
)
from ...snapshot.flink_job import NO_METRICS, FlinkJob, FlinkVertex
from ...watermarks.operator_clock import steps_below
from ...watermarks.settings import Settings
from ...watermarks.times import MAX, MIN
from .evidence import ChannelEvidence, Evidence
from .facts import Late, Moment, late_of, total_late
from .rules import HOLDER_RULES, InputAnswer, Minimum, first_match, judged
from .samples import COMPACTS, VertexSample, or_min, splits_of

MAX_NAMED = 100
"""How many channels of a step are named."""


class Attribution(Struct, frozen=True):
    """An operator's watermark (epoch ms, None: none yet), its inputs, and who holds it back."""

    operator: str
    """The vertex id."""
    watermark_ms: int | None
    ended: bool
    is_ahead_of_the_end: bool
    """It has the last watermark although inputs have not ended: Flink sends it where the others are idle."""
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
    """The id of that channel's vertex."""
    is_sure: bool
    """Whether it is known which channels are idle and which inputs take part: else a second sample may tell."""
    blockers: list[Blocker] | None
    """The steps below the fastest input; None: not known. Empty: no input holds it back (end, records in flight)."""

    @property
    def is_idle(self) -> bool:
        """Whether all its inputs are idle, and that is known."""
        return self.is_sure and bool(self.subtasks) and all(subtask.state == "idle" for subtask in self.subtasks)

    @property
    def has_subtasks(self) -> bool:
        """Whether any subtask has more than one channel."""
        return len(self.subtasks) != len(self.channels)


def time_of(watermark: int | None) -> int | None:
    """A watermark as a time (epoch ms); None for none yet, end of stream, and not in the dump."""
    return None if watermark in (None, MIN, MAX) else watermark


def attribution_of(evidence: Evidence) -> Attribution:
    """The states of all inputs and channels, and who holds back the operator's watermark."""
    answers = [judged(input) for input in evidence.inputs]
    states: list[ChannelState] = [answer.state for answer in answers]
    channels: list[ChannelView] = []
    causes: list[Cause | None] = []
    delays: dict[str, int] = {}
    repeated = _repeated(evidence)
    for place, (input, answer) in enumerate(zip(evidence.inputs, answers, strict=True)):
        for channel, found in zip(input.channels, answer.channels, strict=True):
            id, subtask = channel.now.id, input.subtask
            name = f"{id} ({subtask.source_label})" if channel.is_split and id in repeated else id
            channels.append(_channel(channel, name, found.state, place))
            causes.append(found.cause)
            if subtask.delay_ms:
                delays[name] = subtask.delay_ms
    watermark_ms = time_of(evidence.operator.watermark)
    held_back_by, held_in = _held_back_by(evidence, answers, channels)
    is_at_end = evidence.operator.watermark == MAX
    ended = is_at_end and all(state == "finished" for state in states)
    return Attribution(
        operator=evidence.operator.id,
        watermark_ms=watermark_ms,
        ended=ended,
        is_ahead_of_the_end=is_at_end and not ended,
        subtasks=tuple(
            InstanceView(place, input.subtask.name, time_of(input.subtask.sent), state, len(input.channels))
            for place, (input, state) in enumerate(zip(evidence.inputs, states, strict=True))
        ),
        channels=channels,
        causes=causes,
        delays=delays,
        held_back_by=held_back_by,
        held_in=held_in,
        is_sure=all(answer.is_sure and all(one.is_sure for one in answer.channels) for answer in answers),
        blockers=[] if ended else _blockers(evidence, states, channels, causes, held_back_by, watermark_ms),
    )


def _repeated(evidence: Evidence) -> set[str]:
    """The ids that splits of two sources have, as where both read one topic."""
    sources: dict[str, str] = {}
    splits = ((split.now.id, input.subtask.source_label) for input in evidence.inputs for split in input.splits)
    return {id for id, source in splits if sources.setdefault(id, source) != source}


def _channel(channel: ChannelEvidence, name: str, state: ChannelState, place: int) -> ChannelView:
    """The channel in the subtask at a place; what REST does not report is None."""
    paused = state == "active" and channel.is_paused
    return ChannelView(
        channel=name,
        watermark_ms=time_of(channel.now.watermark),
        max_event_ms=None,
        state=state,
        records=None,
        behind_watermark=None,
        late=None,
        malformed=None,
        future=None,
        held_back=paused,
        backlog=None if channel.unread is None else channel.unread.backlog,
        behind_end_ms=None if channel.unread is None else channel.unread.behind_end_ms,
        quiet_ms=None if paused else channel.quiet_ms,
        flaps=None,  # changes between two samples are not seen
        instance=place,
    )


def _taking_part(evidence: Evidence, answers: Sequence[InputAnswer]) -> list[tuple[int, bool, int, int]]:
    """What the inputs in the minimum send, whether no channel has a cause, what they sent before, and their place among
    all inputs: of equal ones the lowest is the one that was lower before, since the values are not of one moment.
    """
    pairs = enumerate(zip(evidence.inputs, answers, strict=True))
    return [
        (sent, all(one.cause is None for one in answer.channels), or_min(input.subtask.sent_before), place)
        for place, (input, answer) in pairs
        if answer.state == "active" and (sent := input.subtask.sent) is not None
    ]


def _held_back_by(
    evidence: Evidence, answers: Sequence[InputAnswer], channels: Sequence[ChannelView]
) -> tuple[Holder | None, str | None]:
    """The channel or the task, and the id of the channel's vertex."""
    taking_part = _taking_part(evidence, answers)
    place = min(taking_part)[-1] if taking_part else None
    own = [] if place is None else [channel for channel in channels if channel.instance == place]
    judged = list(zip(own, [] if place is None else answers[place].channels, strict=True))
    suspects = [(channel, answer) for channel, answer in judged if answer.cause is not None]
    suspect, found = min(suspects, key=lambda one: or_min(one[0].watermark_ms), default=(None, None))
    at = or_min(None if suspect is None else suspect.watermark_ms)
    missing = (
        not answer.is_sure or (answer.state == "active" and input.subtask.sent is None)
        for input, answer in zip(evidence.inputs, answers, strict=True)
    )
    minimum = Minimum(
        operator=evidence.operator,
        part=[evidence.inputs[place] for *_, place in taking_part],
        lowest=None if place is None else evidence.inputs[place],
        is_input_missing=any(missing),
        has_suspect=suspect is not None,
        may_be_another=(place is not None and not answers[place].is_sure)
        or any(not answer.is_sure and or_min(channel.watermark_ms) <= at for channel, answer in judged),
    )
    answer = first_match(HOLDER_RULES, minimum)
    if answer == "no channel" or minimum.lowest is None:
        return None, None
    if answer == "operator":
        return Holder(evidence.operator.waits_in or evidence.operator.name, 0, "in_flight"), None
    if answer == "task on the way":
        return Holder(minimum.lowest.subtask.vertex, 0, "in_flight"), None
    assert suspect is not None
    assert found is not None
    assert found.cause is not None
    return Holder(suspect.channel, 0, found.cause, place), minimum.lowest.subtask.source_id


def _blockers(
    evidence: Evidence, states: Sequence[ChannelState], channels: Sequence[ChannelView],
    causes: Sequence[Cause | None], holder: Holder | None, watermark_ms: int | None,
) -> list[Blocker] | None:  # fmt: skip
    """The steps. A split counts with its subtask's watermark if that is greater: a watermark never goes back."""
    if holder is None:
        return None
    if holder.instance is None:
        return []
    inputs = zip(evidence.inputs, states, strict=True)
    # The lowest channel in the minimum first; of equal ones the holder first.
    part: list[tuple[int, bool, int, str, int]] = []
    sent = [or_min(time_of(input.subtask.sent)) if state == "active" else None for input, state in inputs]
    for number, channel in enumerate(channels):
        own, reached = or_min(channel.watermark_ms), sent[channel.instance or 0]
        if reached is not None and channel.state in ("active", "never_seen"):
            part.append((max(own, reached), channel.channel != holder.channel, own, channel.channel, number))
    # The watermark after all inputs in the minimum have turned idle; not known while an active one has not caught up.
    known = [or_min(channel.watermark_ms) for channel in channels if channel.state != "finished"]
    flushed = max(known, default=None) if "catching_up" not in states else None
    return [
        Blocker(
            channels=[channels[number].channel for number in step.channels[:MAX_NAMED]],
            gain_ms=step.gain_ms,
            watermark_ms=None if step.watermark == MIN else step.watermark,
            cause=causes[step.channels[0]] or "behind",
            channel_count=len(step.channels),
        )
        for step in steps_below(((place[0], place[-1]) for place in sorted(part)), or_min(watermark_ms), flushed)
    ]


STALE_AFTER_MS = 15_000
"""Metrics are stale if they are this much (ms) older than their interval."""
_STATES: dict[str, EngineState] = {
    "INITIALIZING": "starting", "CREATED": "starting", "RUNNING": "live", "FAILED": "failed", "CANCELED": "ended",
    "FINISHED": "ended",
}  # fmt: skip


def snapshot_of(
    moment: Moment, attribution: Attribution | None, *, name: str, source: SourceView, settings: Settings,
    before: Snapshot | None,
) -> Snapshot:  # fmt: skip
    """The snapshot at one moment; `attribution` is None while no sample has the operator, `before` is the last one."""
    facts, now_ms = moment.facts, moment.now_ms
    return Snapshot(
        name=name,
        state=_state(moment),
        now_ms=now_ms,
        wall_ms=now_ms,
        ended=attribution is not None and attribution.ended,
        settings=settings,
        source=source,
        level=Level() if attribution is None else _level(attribution, moment, before),
        blockers=None if attribution is None or not moment.runs else attribution.blockers,
        channels=[] if attribution is None else _channel_views(attribution, now_ms, before),
        instances=list(attribution.subtasks) if attribution is not None and attribution.has_subtasks else None,
        windows=Windows(open_count=None, fired=None, late_firings=None, unknown=_no_windows(moment, attribution)),
        totals=Totals(None, None, total_late(late_of(facts).values()), None, None, None),
        target=_job(moment, attribution, before),
        origin={"level": "flink", "channels": "flink", "totals": "flink"}
        | ({} if facts.unread is None else {"backlog": "broker"}),
        notes=list(_notes(moment, attribution)),
        error=_error(moment),
    )


def _no_windows(moment: Moment, attribution: Attribution | None) -> WindowsUnknownCode:
    shown = (one.name for one in moment.facts.graph.vertices if attribution and one.id == attribution.operator)
    return "sink_waits" if COMPACTS in next(shown, "") else "not_in_rest"


def _notes(moment: Moment, attribution: Attribution | None) -> Iterator[Note]:
    now_ms, trouble = moment.now_ms, moment.facts.broker_trouble
    if trouble is not None:
        yield Note(now_ms, "broker_silent", {"why": trouble})
    if attribution is None or not moment.runs:
        return
    shown = next((one for one in moment.facts.graph.vertices if one.id == attribution.operator), None)
    if shown is not None and shown.untimed:
        yield Note(now_ms, "windows_untimed", {"operator": shown.name})
    open_ones = [one.channel for one in attribution.subtasks if one.state != "finished"]
    if attribution.is_ahead_of_the_end and attribution.is_sure:
        yield Note(now_ms, "ended_early", {"subtask": open_ones[0], "more": len(open_ones) - 1})


def _state(moment: Moment) -> EngineState:
    facts = moment.facts
    if moment.operator_gone:
        return "stale"
    state = _STATES.get(facts.graph.job.state, "stale")
    if (facts.trouble is not None or facts.interval_ms == 0) and state in ("live", "starting"):
        return "stale"
    if state != "live":
        return state
    if facts.sample is None:
        return "starting"
    if moment.clock_ms - facts.sample.at_ms > (facts.interval_ms or 0) + STALE_AFTER_MS:
        return "stale"
    return "live" if facts.sample.whole else "partial"


def _error(moment: Moment) -> str | None:
    facts = moment.facts
    if moment.operator_gone:
        return f"--operator {moment.operator}: the job has no such operator any more"
    if facts.trouble is not None:
        return facts.trouble
    if facts.interval_ms == 0 and moment.runs:
        return NO_METRICS
    return facts.failure if facts.graph.job.state in ("FAILED", "FAILING", "RESTARTING") else None


def _level(attribution: Attribution, moment: Moment, before: Snapshot | None) -> Level:
    watermark_ms, now_ms = attribution.watermark_ms, moment.now_ms
    known = [channel.watermark_ms for channel in attribution.channels if channel.watermark_ms is not None]
    last = None if before is None else before.level
    # At the first poll it is not known when the watermark last moved.
    has_moved = last is not None and last.watermark_ms != watermark_ms
    return Level(
        watermark_ms=watermark_ms,
        behind_fastest_ms=None if watermark_ms is None or not known else max(0, max(known) - watermark_ms),
        behind_clock_ms=None if watermark_ms is None else now_ms - watermark_ms,
        holder=_holder(attribution, now_ms, last) if moment.runs else None,
        idle=attribution.is_idle,
        moved_ms=now_ms if has_moved else None if last is None else last.moved_ms,
    )


def _holder(attribution: Attribution, now_ms: int, last: Level | None) -> Holder | None:
    holder, before = attribution.held_back_by, None if last is None else last.holder
    if holder is None:
        return None
    if before is not None and before.channel == holder.channel:
        return replace(holder, since_ms=before.since_ms, at_least=before.at_least)
    # If there was no watermark before, it may have been held back for longer.
    at_least = before is None and (last is None or last.watermark_ms is None)
    return replace(holder, since_ms=now_ms, at_least=at_least)


def _channel_views(attribution: Attribution, now_ms: int, before: Snapshot | None) -> list[ChannelView]:
    """The channels with the time when their watermarks last changed, if that was seen."""
    last = {view.channel: view for view in before.channels} if before is not None else {}
    views: list[ChannelView] = []
    in_subtasks = attribution.has_subtasks
    for channel in attribution.channels:
        old = last.get(channel.channel)
        since_ms = None if old is None else now_ms if old.watermark_ms != channel.watermark_ms else old.since_ms
        views.append(replace(channel, since_ms=since_ms, instance=channel.instance if in_subtasks else None))
    return views


def _job(moment: Moment, attribution: Attribution | None, before: Snapshot | None) -> FlinkJob:
    facts = moment.facts
    job, sample, checkpoint = facts.graph.job, facts.sample, facts.checkpoint
    return FlinkJob(
        id=job.id,
        name=job.name,
        state=job.state,
        operator=None if attribution is None else attribution.operator,
        vertices=_vertices(moment, None if before is None else before.job),
        sampled_ms=None if sample is None else sample.at_ms,
        interval_ms=facts.interval_ms,
        restarts=facts.restarts,
        checkpoint_ms=checkpoint.completed_ms,
        checkpoint_took_ms=checkpoint.took_ms,
        checkpoint_bytes=checkpoint.size,
        checkpoints_failed=checkpoint.failed,
        topics=facts.topics or sorted({split.topic for _, split in splits_of(sample) if split.topic is not None}),
        bootstrap=facts.bootstrap,
        clock_ms=moment.clock_ms,
        submitted_ms=job.submitted_ms,
        running_ms=job.started_ms,
        failure=facts.failure,
        delays={} if attribution is None else attribution.delays,
        held_in=None if attribution is None else attribution.held_in,
        unanswered=facts.trouble is not None,
        operator_gone=moment.operator_gone,
    )


def _vertices(moment: Moment, before: FlinkJob | None) -> list[FlinkVertex]:
    """The tasks of the job's plan, each with the time of its watermark's last change."""
    facts = moment.facts
    late, sample = late_of(facts), facts.sample
    samples = {} if sample is None else {each.vertex.id: each for each in sample.vertices}
    is_same_job = before is not None and before.id == facts.graph.job.id
    last = {vertex.id: vertex for vertex in before.vertices} if before is not None and is_same_job else {}
    plan = [(vertex.id, vertex) for vertex in facts.graph.vertices]
    return [
        _vertex(samples.get(id) or VertexSample(vertex, ()), vertex.status, moment, late[id], last.get(id))
        for id, vertex in plan
    ]


def _vertex(vertex: VertexSample, status: str, moment: Moment, late: Late, last: FlinkVertex | None) -> FlinkVertex:
    id, name = vertex.vertex.id, vertex.vertex.name
    outputs = [subtask.output for subtask in vertex.subtasks if subtask.output is not None]
    times = [output for output in outputs if output not in (MIN, MAX)]
    lowest = min(outputs, default=None)
    input_ms = time_of(min((task.input for task in vertex.subtasks if task.input is not None), default=None))
    since_ms = moment.now_ms if last is None or last.input_ms != input_ms else last.since_ms
    return FlinkVertex(
        id=id,
        name=name,
        parallelism=vertex.vertex.parallelism,
        status=status,
        inputs=[edge.vertex for edge in vertex.vertex.inputs],
        input_ms=input_ms,
        output_ms=time_of(lowest),
        spread_ms=max(times) - min(times) if len(times) == len(outputs) and times else None,
        slowest=next((task.index for task in vertex.subtasks if task.output == lowest), None) if outputs else None,
        late=late.records,
        late_at_least=late.at_least,
        busy=_greatest(subtask.busy for subtask in vertex.subtasks),
        back_pressured=_greatest(subtask.back_pressured for subtask in vertex.subtasks),
        windowed=vertex.windowed,
        taken_per_second=vertex.rates.taken,
        sent_per_second=vertex.rates.sent,
        pending=vertex.rates.pending,
        drift_ms=max((subtask.drift_ms for subtask in vertex.subtasks if subtask.drift_ms is not None), default=None),
        delay_ms=moment.facts.delay_ms(vertex.vertex),
        since_ms=None if input_ms is None else since_ms,
    )


def _greatest(shares: Iterable[float | None]) -> float | None:
    return max((share for share in shares if share is not None), default=None)
