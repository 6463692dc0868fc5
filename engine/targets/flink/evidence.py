"""What two dumps of metrics say about each input of an operator: one frozen record a subtask and a split. Pure.

A dump is not taken at one moment, so a second one is compared wherever one alone cannot tell.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from ...watermarks.times import MAX, MIN
from .facts import DUMP_MS, IDLE_STEP_MS, MIN_BUSY, FlinkFacts, is_later
from .samples import OPERATOR_SEPARATOR, JobSample, SampledSplit, Subtask, UnreadPartition, VertexSample, or_min
from .upstream import (
    Upstream,
    chain_ms,
    delayed,
    records_wait,
    source_subtask,
    source_vertex,
    subtask_at,
    upstream_of,
    watermark_of,
)

_MINUTE_MS = 60_000
"""The time (ms) of which Flink's shares of idle time are the mean; they are up to IDLE_STEP_MS old."""
MIN_BACK_PRESSURED = 0.5
"""Share of time from which a subtask counts as back-pressured."""
MIN_PAUSED_SHARE = 0.5
"""Share of the time between two samples from which a split counts as paused."""
NEW_JOB_MS = 60_000
"""Time (ms) after a job's start in which its first records may still be on their way."""


class OperatorEvidence(Struct, frozen=True, kw_only=True):
    """The operator in both samples."""

    id: str
    watermark: int | None
    """Its own, the lowest of its subtasks."""
    watermark_before: int | None
    reached: int | None
    """The greatest one in all samples so much older that no value of the newest is as old."""
    least_sent: int | None
    """The lowest watermark, not below its own, that an input sends; None: all dumps of its inputs are older."""
    reads_on: bool
    """It had Flink's last watermark in the older sample, and has received records since."""
    apart_ms: int
    """The time between the samples; 0: there is only one."""
    is_new: bool
    """The job has run for less than a minute, so its first records may still be on their way."""
    waits_in: str
    """The name of the task on the way before which records wait; of its own where they wait before none."""
    reads: Literal["one", "some", "all"]
    """From how many of the inputs each of its subtasks has its watermark; if these are idle, it waits for them."""

    @property
    def can_compare(self) -> bool:
        """Whether the samples are far enough apart to compare idle times."""
        return self.apart_ms >= IDLE_STEP_MS


class SubtaskEvidence(Struct, frozen=True, kw_only=True, gc=False):
    """An input of the operator's minimum in both samples, with its counterpart at the source; watermarks on arrival."""

    operator: OperatorEvidence
    name: str
    source_id: str
    """The id of the source's vertex."""
    source_label: str
    """The name of its source operator, unlike that of any other source."""
    now: Subtask
    before: Subtask | None
    source: Subtask
    """The source subtask behind edges that are not shuffled; `now` itself if it has no such input."""
    source_before: Subtask | None
    sent: int | None
    """The watermark that it sends."""
    sent_before: int | None
    """The watermark that it had sent in the older sample."""
    delay_ms: int
    """How much later (ms) tasks on the way to the operator send its watermark."""
    is_kept_back: bool | None
    """A task that waits sends its watermark, behind the one that the task, or its own source, sends; None: the task
    waits, or always sends its watermark so much later.
    """
    is_unmarked: bool
    """Its source reads records, but none of its subtasks sends a watermark."""
    is_not_assigned: bool
    """The same, but an operator that assigns watermarks follows, or may: no record has come out of it."""
    has_no_split: bool
    """Other subtasks of its source have splits, this one has none."""
    reads_nothing: bool
    """Its source as a whole has had nothing to read."""
    is_back_pressured: bool
    """A busy operator keeps its source from reading."""
    waits_for_alignment: bool
    """Its source reads nothing and is beyond the limit of watermark alignment; alone, the second proves nothing."""

    @property
    def is_in_a_record(self) -> bool:
        """Its source was not idle, but none of its splits moved since the older sample: it is at work on a record."""
        if self.source_before is None or self.source.source_idle_ms != 0 or not self.operator.can_compare:
            return False
        tasks = (self.source, self.source_before)
        now, before = ([(split.offset, split.watermark) for split in task.splits] for task in tasks)
        is_busy = bool(now) and min(task.busy or 0 for task in tasks) >= MIN_BUSY
        return now == before and (is_busy or any(offset is not None for offset, _ in now))

    @property
    def was_idle(self) -> bool:
        """Whether a split of it has ever been idle: its source has an idle timeout."""
        return any(split.idle_ms for split in self.source.splits)


class ChannelEvidence(Struct, frozen=True, kw_only=True, gc=False):
    """A channel in both samples: a split, or a subtask that shows no splits; watermarks as they arrive."""

    subtask: SubtaskEvidence
    is_split: bool
    now: SampledSplit
    """The split; for a subtask without splits its name and its watermark."""
    before: SampledSplit | None = None
    is_paused: bool
    """Watermark alignment pauses the split, or the whole subtask, until slower ones catch up."""
    unread: UnreadPartition | None = None
    """Its unread records; None: no broker is queried, or it does not know the partition."""
    quiet_ms: int | None
    """How long, at least, nothing was read from it; None: not known: another split is read, or data may be unread."""

    @property
    def has_moved(self) -> bool | None:
        """Whether a record came since the older sample, as far as watermark and offset tell; None: there is none."""
        now, before = self.now, self.before
        return None if before is None else (before.watermark, before.offset) != (now.watermark, now.offset)

    @property
    def is_below_sent(self) -> bool:
        """Whether it is below the watermark that its subtask has sent."""
        own, sent = self.now.watermark, self.subtask.sent
        return own is not None and sent is not None and own < sent != MIN

    @property
    def is_at_sent(self) -> bool:
        """Whether it is at the watermark that its subtask has sent."""
        return self.now.watermark is not None and self.now.watermark == self.subtask.sent

    @property
    def idle_time_grows(self) -> bool | None:
        """Whether its idle time grew between the samples; None: it cannot be compared."""
        before, now = None if self.before is None else self.before.idle_ms, self.now.idle_ms
        return None if now is None or before is None or not self.subtask.operator.can_compare else now > before

    @property
    def stays_active(self) -> bool:
        """Whether nothing was read for so long that an idle timeout would be seen; True where none would be."""
        is_short = self.subtask.was_idle or self.idle_time_grows is not False
        known_ms = (_MINUTE_MS if is_short else self.subtask.operator.apart_ms) + IDLE_STEP_MS
        return self.now.idle_ms is None or (self.now.idle_share == 0.0 and (self.quiet_ms or 0) >= known_ms)

    @property
    def is_idle_since_read(self) -> bool:
        """Whether it was idle for longer in the last minute than fits before its last record."""
        return _is_longer_than_before_a_record(self.now.idle_share, self.quiet_ms)


class InputEvidence(Struct, frozen=True):
    """A subtask and its channels: its splits if they have watermarks of their own, else itself."""

    subtask: SubtaskEvidence
    channels: tuple[ChannelEvidence, ...]

    @property
    def splits(self) -> tuple[ChannelEvidence, ...]:
        """Its splits."""
        return self.channels if self.channels[0].is_split else ()


class JobEvidence(Struct, frozen=True):
    """All that is known of an operator and of the inputs that its watermark is the minimum of."""

    operator: OperatorEvidence
    inputs: tuple[InputEvidence, ...]


def evidence_of(facts: FlinkFacts, now_ms: int) -> JobEvidence | None:
    """What is known at `now_ms` of the chosen operator and its inputs; None: no sample has the operator."""
    upstream = upstream_of(facts)
    if upstream is None:
        return None
    operator, now, before = upstream.operator, upstream.now, upstream.before
    waiting = (each.vertex.name for each in (operator, *upstream.passing) if records_wait(each, now, before))
    watermark, top = watermark_of(operator), source_vertex(now, operator, shared=True).vertex.id
    has_shares = len(operator.subtasks) > 1 and any(edge.forward for edge in operator.vertex.inputs)
    reads_one = any(source_vertex(now, vertex, shared=True).vertex.id == top for vertex, _ in upstream.ends)
    sent = (delayed(task, delay_ms, 0).output for vertex, delay_ms in upstream.ends for task in vertex.subtasks)
    known = OperatorEvidence(
        id=operator.vertex.id,
        watermark=watermark,
        watermark_before=(watermark_before := watermark_of(before.get(operator.vertex.id))),
        reads_on=watermark_before == MAX and (operator.rates.read or 0) > (before[operator.vertex.id].rates.read or 0),
        reached=_reached(operator.vertex.id, facts.samples),
        least_sent=min((mark for mark in sent if mark is not None and mark >= or_min(watermark)), default=None),
        apart_ms=facts.samples[-1].at_ms - facts.samples[0].at_ms,
        is_new=facts.clock_ms(now_ms) - facts.graph.job.started_ms < NEW_JOB_MS,
        waits_in=next(waiting, operator.vertex.name),
        reads="one" if reads_one else "some" if has_shares else "all",
    )
    vertices = [vertex for vertex, _ in upstream.ends]
    sources = (source_vertex(now, vertex).vertex.name.partition(OPERATOR_SEPARATOR)[0] for vertex in vertices)
    source_labels = _numbered(source.removeprefix("Source: ") for source in sources)
    labels = _numbered(vertex.vertex.name for vertex in vertices)
    inputs: list[InputEvidence] = []
    for place, (source_label, label) in enumerate(zip(source_labels, labels, strict=True)):
        inputs += _inputs(upstream, place, known, source_label, f"{label} " if len(vertices) > 1 else "", facts)
    return JobEvidence(known, tuple(inputs))


def _reached(operator: str, samples: Sequence[JobSample]) -> int | None:
    """What the operator's watermark was at least when the values of the newest sample were read."""
    older = (sample for sample in samples if samples[-1].at_ms - sample.at_ms > DUMP_MS)
    vertices = (vertex for sample in older for vertex in sample.vertices if vertex.vertex.id == operator)
    return max((mark for vertex in vertices if (mark := watermark_of(vertex)) is not None), default=None)


def _numbered(names: Iterable[str]) -> list[str]:
    """The names, the second one like another with ` 2` after its first operator, which a short label keeps."""
    counts: Counter[str] = Counter()
    numbered: list[str] = []
    for name in names:
        counts[name] += 1
        first, separator, rest = name.partition(OPERATOR_SEPARATOR)
        numbered.append(name if counts[name] == 1 else f"{first} {counts[name]}{separator}{rest}")
    return numbered


def _inputs(
    upstream: Upstream, place: int, operator: OperatorEvidence, source_label: str, prefix: str, facts: FlinkFacts
) -> Iterator[InputEvidence]:
    """The subtasks of the vertex at a place among the ends; `prefix` precedes their numbers in their names."""
    own, delay_ms = upstream.ends[place]
    own_before = upstream.before.get(own.vertex.id)
    source = source_vertex(upstream.now, own)
    is_source = not source.vertex.inputs
    way_ms = chain_ms(upstream.now, own) if is_source else 0
    source_assigns, assigns = source.vertex.assigns, own.vertex.assigns
    has_splits = any(subtask.splits for subtask in source.subtasks)
    may_assign = source_assigns or assigns or upstream.operator.rates.read == 0
    is_silent = has_splits and _is_unmarked(source) and _is_unmarked(own)
    for subtask in own.subtasks:
        earlier, at_source_before = subtask_at(own_before, subtask.index), None
        before = None if earlier is None else delayed(earlier, delay_ms, way_ms)
        if own_before is not None and earlier is not None:
            at_source_before = delayed(source_subtask(upstream.before, own_before, earlier), delay_ms, way_ms)
        counterpart, now = source_subtask(upstream.now, own, subtask), delayed(subtask, delay_ms, way_ms)
        at_source = now if counterpart is subtask else delayed(counterpart, delay_ms, way_ms)
        is_late = not assigns and is_later(subtask, earlier, own.vertex.delay_ms, operator.apart_ms)
        known = SubtaskEvidence(
            operator=operator,
            name=f"{prefix}#{now.index}",
            source_id=own.vertex.id if is_late or not is_source else source.vertex.id,
            source_label=source_label,
            now=now,
            before=before,
            source=at_source,
            source_before=at_source_before,
            sent=now.output,
            sent_before=None if before is None else before.output,
            delay_ms=delay_ms + way_ms,
            is_kept_back=is_late and (own.vertex.waits or None),
            is_unmarked=is_silent and not may_assign,
            is_not_assigned=is_silent and may_assign,
            has_no_split=has_splits and not at_source.splits,
            reads_nothing=(reads_nothing := (at_source.source_idle_ms or 0) >= IDLE_STEP_MS),
            is_back_pressured=(at_source.back_pressured or 0) >= MIN_BACK_PRESSURED,
            waits_for_alignment=reads_nothing and (at_source.drift_ms or 0) > 0,
        )
        hides_splits = is_late or known.is_not_assigned or _is_assigned_later(known, source_assigns=source_assigns)
        old = {split.id: split for split in (() if at_source_before is None else at_source_before.splits)}
        shown = () if hides_splits else at_source.splits
        splits = tuple(_split(split, old.get(split.id), known, facts) for split in shown)
        yield InputEvidence(known, splits or (_itself(known),))


def _itself(subtask: SubtaskEvidence) -> ChannelEvidence:
    # The idle time grows, too, while an operator chained to the source waits.
    quiet_ms = subtask.source.source_idle_ms if subtask.is_kept_back is False else None
    now, is_paused = SampledSplit(subtask.name, subtask.sent), subtask.waits_for_alignment
    is_compared = subtask.before is not None and subtask.operator.can_compare
    before = SampledSplit(subtask.name, subtask.sent_before) if is_compared else None
    return ChannelEvidence(
        subtask=subtask, is_split=False, now=now, before=before, is_paused=is_paused, quiet_ms=quiet_ms
    )


def _split(
    split: SampledSplit, before: SampledSplit | None, subtask: SubtaskEvidence, facts: FlinkFacts
) -> ChannelEvidence:
    own_unread = (facts.unread or {}).get((subtask.source_id, split.id))
    has_unread = own_unread is not None and own_unread.backlog > 0
    own_quiet_ms = facts.quiet_ms(subtask.source_id, split)
    is_known = subtask.reads_nothing or (own_quiet_ms is not None and not subtask.is_in_a_record)
    quiet_ms = max(subtask.source.source_idle_ms or 0, own_quiet_ms or 0)
    may_be_paused = bool(split.paused_share) and not subtask.operator.can_compare
    return ChannelEvidence(
        subtask=subtask,
        is_split=True,
        now=split,
        before=before,
        is_paused=_is_paused(split, before, subtask, quiet_ms if is_known else None),
        unread=own_unread,
        quiet_ms=quiet_ms if is_known and not (subtask.is_back_pressured or has_unread or may_be_paused) else None,
    )


def _is_paused(now: SampledSplit, before: SampledSplit | None, subtask: SubtaskEvidence, quiet_ms: int | None) -> bool:
    if now.paused_ms is None:
        return subtask.waits_for_alignment
    if now.paused_share == 1.0:
        return True
    if before is None or before.paused_ms is None or not subtask.operator.can_compare:
        return _is_longer_than_before_a_record(now.paused_share, quiet_ms)
    return now.paused_ms - before.paused_ms >= MIN_PAUSED_SHARE * subtask.operator.apart_ms


def _is_longer_than_before_a_record(share: float | None, quiet_ms: int | None) -> bool:
    """Whether a share of the last minute, which is up to IDLE_STEP_MS old, is more than what was before `quiet_ms`."""
    fits_ms = _MINUTE_MS + IDLE_STEP_MS + DUMP_MS - (quiet_ms or 0)
    return (share or 0) * _MINUTE_MS > max(0, fits_ms)


def _is_unmarked(vertex: VertexSample) -> bool:
    """Whether records are read or received, but no subtask or split has a watermark.

    If splits do not report theirs (1.20), one that was never read may keep its subtask at MIN.
    """
    splits = [split for subtask in vertex.subtasks for split in subtask.splits]
    watermarks = [*(subtask.output for subtask in vertex.subtasks), *(split.watermark for split in splits)]
    reads = bool(vertex.rates.taken) or any(split.offset is not None for split in splits)
    return reads and bool(watermarks) and all(watermark == MIN for watermark in watermarks)


def _is_assigned_later(subtask: SubtaskEvidence, *, source_assigns: bool) -> bool:
    """Whether watermarks are assigned after the source, so that those of its splits do not count: none has one, but the
    subtask sends one, or an operator chained to the source sends others.
    """
    sent, source_sent = subtask.sent, subtask.now.head
    if sent not in (None, MIN) and all(split.watermark == MIN for split in subtask.source.splits):
        return True
    if source_sent is None or sent in (None, MIN, MAX, source_sent):
        return False
    return source_assigns or (subtask.sent_before is not None and subtask.sent_before > source_sent)
