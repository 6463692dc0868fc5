"""What two dumps of metrics say about each input of an operator: one frozen record a subtask and a split. Pure.

A dump is not taken at one moment, so a second one is compared wherever one alone cannot tell.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ...watermarks.times import MAX, MIN
from .facts import IDLE_STEP_MS, Moment
from .samples import Split, Subtask, Unread, UnreadBySplit, VertexSample
from .upstream import ASSIGNERS, OperatorEvidence, Upstream, UpstreamSubtask, UpstreamVertex

MIN_BACK_PRESSURED = 0.5
"""Share of time from which a subtask counts as back-pressured."""


class SubtaskEvidence(UpstreamSubtask, frozen=True, kw_only=True):
    """An input of the operator's minimum, and what both samples say of it."""

    operator: OperatorEvidence
    name: str
    vertex: str
    """The name of its vertex."""
    source_id: str
    """The id of the source's vertex."""
    delay_ms: int
    """How much later (ms) tasks on the way to the operator send its watermark."""
    is_ended: bool
    """Its vertex is FINISHED."""
    is_kept_back: bool
    """Its watermark is behind the one it receives, or the one that its own source sends, not by a constant."""
    is_unmarked: bool
    """Its source reads records, but none of its subtasks sends a watermark."""
    is_not_assigned: bool
    """The same, but an operator that assigns watermarks follows: no record has reached it yet, or it drops them."""
    has_no_split: bool
    """Other subtasks of its source have splits, this one has none."""
    reads_nothing: bool
    """Its source as a whole has had nothing to read."""
    is_back_pressured: bool
    """A busy operator keeps its source from reading."""
    is_beyond_alignment: bool
    """It is beyond the limit of watermark alignment, so that all of it waits."""

    @property
    def sent(self) -> int | None:
        """The watermark that it sends."""
        return self.now.output

    @property
    def sent_before(self) -> int | None:
        """The watermark that it had sent in the older sample."""
        return None if self.before is None else self.before.output

    @property
    def can_compare(self) -> bool:
        """Whether the samples are far enough apart to compare idle times."""
        return self.operator.apart_ms >= IDLE_STEP_MS


class ChannelEvidence(Struct, frozen=True, kw_only=True):
    """A channel in both samples: a split, or a subtask that shows no splits; watermarks as they arrive."""

    name: str
    """A split's id, with the name of its source where another source has a split of the same id."""
    subtask: SubtaskEvidence
    is_split: bool
    now: Split
    """The split; for a subtask without splits only its watermark."""
    before: Split | None
    unread: Unread | None
    """Its unread records; None: no broker is queried, or it does not know the partition."""
    quiet_ms: int | None
    """How long, at least, nothing was read from it; None: not known, since another split of its subtask is read, or
    since there may be unread data.
    """


class InputEvidence(Struct, frozen=True):
    """A subtask and its channels: its splits if they have watermarks of their own, else itself."""

    subtask: SubtaskEvidence
    channels: tuple[ChannelEvidence, ...]

    @property
    def splits(self) -> tuple[ChannelEvidence, ...]:
        """Its splits."""
        return tuple(channel for channel in self.channels if channel.is_split)


class Evidence(Struct, frozen=True):
    """All that is known of an operator and of the inputs that its watermark is the minimum of."""

    operator: OperatorEvidence
    inputs: tuple[InputEvidence, ...]


def evidence_of(upstream: Upstream, moment: Moment) -> Evidence:
    """What is known of the chosen operator and its inputs."""
    inputs = [
        (input, vertex.source_label)
        for vertex in upstream.vertices
        for input in _inputs(vertex, upstream.operator, moment.facts.unread or {})
    ]
    return Evidence(upstream.operator, _uniquely_named(inputs))


def _uniquely_named(inputs: Sequence[tuple[InputEvidence, str]]) -> tuple[InputEvidence, ...]:
    """The inputs, each with its source's name: two sources may have splits of the same id (both read one topic)."""
    sources: dict[str, set[str]] = {}
    for input, source in inputs:
        for split in input.splits:
            sources.setdefault(split.name, set()).add(source)

    def named(channel: ChannelEvidence, source: str) -> ChannelEvidence:
        is_repeated = channel.is_split and len(sources[channel.name]) > 1
        return replace(channel, name=f"{channel.name} ({source})") if is_repeated else channel

    return tuple(
        InputEvidence(input.subtask, tuple(named(channel, source) for channel in input.channels))
        for input, source in inputs
    )


def _inputs(vertex: UpstreamVertex, operator: OperatorEvidence, unread: UnreadBySplit) -> Iterator[InputEvidence]:
    own, source, is_source = vertex.vertex, vertex.source, not vertex.source.vertex.inputs
    source_assigns, assigns = _assigns_watermarks(source), _assigns_watermarks(own)
    has_splits = any(subtask.splits for subtask in source.subtasks)
    is_silent = has_splits and _is_unmarked(source) and _is_unmarked(own)
    for subtask in vertex.subtasks:
        is_held = not source_assigns and _is_held_in_chain(subtask)
        known = SubtaskEvidence(
            operator=operator,
            name=f"{vertex.subtask_prefix}#{subtask.now.index}",
            vertex=own.vertex.name,
            now=subtask.now,
            before=subtask.before,
            source=subtask.source,
            source_before=subtask.source_before,
            source_id=source.vertex.id if is_source else own.vertex.id,
            delay_ms=vertex.delay_ms,
            is_ended=own.vertex.status == "FINISHED",
            is_kept_back=is_held or (not is_source and not assigns and _is_behind_its_input(subtask.now)),
            is_unmarked=is_silent and not (source_assigns or assigns),
            is_not_assigned=is_silent and (source_assigns or assigns),
            has_no_split=has_splits and not subtask.source.splits,
            reads_nothing=(subtask.source.source_idle_ms or 0) >= IDLE_STEP_MS,
            is_back_pressured=(subtask.source.back_pressured or 0) >= MIN_BACK_PRESSURED,
            is_beyond_alignment=(subtask.source.drift_ms or 0) > 0,
        )
        hides_splits = is_held or known.is_not_assigned or _is_assigned_later(subtask, source_assigns=source_assigns)
        splits = () if hides_splits else _splits(known, unread)
        yield InputEvidence(known, splits or (_itself(known),))


def _itself(subtask: SubtaskEvidence) -> ChannelEvidence:
    # The idle time grows, too, while an operator chained to the source waits.
    quiet_ms = None if subtask.is_kept_back else subtask.source.source_idle_ms
    now = Split(subtask.name, subtask.sent)
    return ChannelEvidence(
        name=now.id, subtask=subtask, is_split=False, now=now, before=None, unread=None, quiet_ms=quiet_ms
    )


def _splits(subtask: SubtaskEvidence, unread: UnreadBySplit) -> tuple[ChannelEvidence, ...]:
    splits_before = () if subtask.source_before is None else subtask.source_before.splits
    earlier = {split.id: split for split in splits_before}
    return tuple(_split(split, earlier.get(split.id), subtask, unread) for split in subtask.source.splits)


def _split(split: Split, before: Split | None, subtask: SubtaskEvidence, unread: UnreadBySplit) -> ChannelEvidence:
    own_unread = unread.get((subtask.source_id, split.id))
    has_unread = own_unread is not None and own_unread.backlog > 0
    is_known = subtask.reads_nothing or split.quiet_ms is not None
    quiet_ms = max(subtask.source.source_idle_ms or 0, split.quiet_ms or 0)
    return ChannelEvidence(
        name=split.id,
        subtask=subtask,
        is_split=True,
        now=split,
        before=before,
        unread=own_unread,
        quiet_ms=quiet_ms if is_known and not (subtask.is_back_pressured or has_unread) else None,
    )


def _is_unmarked(vertex: VertexSample) -> bool:
    """Whether records are read or received, but no subtask or split has a watermark.

    If splits do not report theirs (1.20), one that was never read may keep its subtask at MIN.
    """
    splits = [split for subtask in vertex.subtasks for split in subtask.splits]
    watermarks = [*(subtask.output for subtask in vertex.subtasks), *(split.watermark for split in splits)]
    reads = bool(vertex.rates.taken) or any(split.offset is not None for split in splits)
    return reads and bool(watermarks) and all(watermark == MIN for watermark in watermarks)


def _is_behind_its_input(subtask: Subtask) -> bool:
    return subtask.input not in (None, MIN) and subtask.output is not None and subtask.output < subtask.input


def _is_held_in_chain(subtask: UpstreamSubtask) -> bool:
    """Whether an operator chained to the source has not sent yet what the source had sent in the older sample."""
    sent, source_sent = subtask.now.output, subtask.now.source_output
    source_sent_before = None if subtask.before is None else subtask.before.source_output
    if sent is None or source_sent in (None, MIN) or source_sent_before is None or MAX in (source_sent, sent):
        return False
    return sent < source_sent_before


def _is_assigned_later(subtask: UpstreamSubtask, *, source_assigns: bool) -> bool:
    """Whether watermarks are assigned after the source, so that those of its splits do not count: none has one, but the
    subtask sends one, or an operator chained to the source sends others.
    """
    sent, source_sent = subtask.now.output, subtask.now.source_output
    if sent not in (None, MIN) and all(split.watermark == MIN for split in subtask.source.splits):
        return True
    if source_sent is None or sent in (None, MIN, MAX, source_sent):
        return False
    sent_before = None if subtask.before is None else subtask.before.output
    return source_assigns or (sent_before is not None and sent_before > source_sent)


def _assigns_watermarks(vertex: VertexSample) -> bool:
    """Whether an operator in the vertex assigns watermarks itself, by its name."""
    return any(name in vertex.vertex.name for name in ASSIGNERS)
