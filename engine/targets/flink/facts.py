"""What is known of a Flink job after a poll: the last samples, and what was learned from all samples. Pure."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ...watermarks.times import MIN
from ..clock import Offset
from .samples import (
    BRANCHES,
    Checkpoint,
    Graph,
    JobSample,
    SampledSplit,
    Subtask,
    UnreadBySplit,
    Vertex,
    VertexSample,
    first_operator,
    is_sink_name,
    last_operator,
    or_min,
    splits_of,
    time_of,
)

DUMP_MS = 1_000
"""Longest time (ms) between the values of one dump."""
MIN_BUSY = 0.8
"""Share of time from which a subtask counts as busy all the time."""
IDLE_STEP_MS = 5_000
"""Step (ms) in which Flink counts idle time: two samples must be this far apart."""
_UNCOUNTED = re.compile(r"Interval ?Join|Temporal(?:Sort|Join)|ProcessTableFunction")
"""Flink's operators that drop late records and do not count them."""
_SQL = re.compile(r"\w\[\d+\]")
"""Flink SQL's names of operators."""
_TWO_PHASE = "GlobalWindowAggregate"
"""Flink SQL's second phase of a window aggregate: it drops partial rows, of one record or more."""


LateRows = dict[tuple[str, str, int], int]
"""Dropped late rows by vertex, counter, and the start of the attempt that counted them."""


class Late(Struct, frozen=True):
    """How many late records a task dropped; None: not known, or it counts none. `at_least`: it is a lower bound."""

    records: int | None
    at_least: bool


class FlinkFacts(Struct, frozen=True, kw_only=True):
    """The facts about the job after a poll; `trouble` is why the JobManager did not answer, in one line."""

    graph: Graph
    answered_ms: int
    """When `graph` came, by this machine's clock (epoch ms)."""
    operator: str | None = None
    """The chosen operator: a part of a vertex's name, or its id; None: the windows nearest the sources."""
    samples: tuple[JobSample, ...] = ()
    """The samples as they came, the newest last; the first is at least IDLE_STEP_MS older if there is one that old."""
    interval_ms: int | None = None
    failure: str | None = None
    restarts: int | None = None
    rescales: int | None = None
    """How many of the restarts were rescales."""
    checkpoint: Checkpoint = Checkpoint()
    read_ms: dict[tuple[str, str], tuple[int, int]] = {}
    """By vertex and Kafka split: the last offset read, and when it was first seen (JobManager's clock)."""
    late: LateRows = {}
    """All counters of late rows: they start again with each attempt."""
    unread: UnreadBySplit | None = None
    """Unread records of Kafka splits, if a broker is queried."""
    topics: list[str] = []
    """The Kafka topics by their real names, if a broker is queried."""
    bootstrap: str | None = None
    broker_trouble: str | None = None
    """Why there is nothing newer from the broker, in one line."""
    clock: Offset = Offset()
    """How far the JobManager's clock is ahead of this machine's."""
    trouble: str | None = None

    @property
    def sample(self) -> JobSample | None:
        """The newest sample, each split in one subtask only."""
        return _compared(self.samples[-1], self.samples[0], _without_moved) if self.samples else None

    def quiet_ms(self, vertex: str, split: SampledSplit) -> int | None:
        """How long, at least, nothing was read from a Kafka split; None: it is read, or that is not known."""
        read = self.read_ms.get((vertex, split.id))
        quiet_ms = 0 if read is None or not self.samples else self.samples[-1].at_ms - read[1]
        return quiet_ms or None

    @property
    def older_sample(self) -> JobSample | None:
        """The sample that the newest one is compared with, each split in one subtask only."""
        return _compared(self.samples[0], self.samples[-1], _without_moved) if len(self.samples) > 1 else None

    def clock_ms(self, now_ms: int) -> int:
        """The JobManager's clock when this machine's shows `now_ms` (epoch ms); the two may differ by any amount."""
        return self.graph.now_ms + max(0, now_ms - self.answered_ms)

    @property
    def operator_gone(self) -> bool:
        """Whether the running job has no such operator; it had one when it was chosen."""
        is_known = self.trouble is None and self.interval_ms != 0 and self.runs
        return is_known and lacks(self.graph.vertices, self.operator)

    @property
    def runs(self) -> bool:
        """Whether the job runs: during a restart, and after its end, the last dump blames no channel."""
        return self.graph.job.state == "RUNNING"


def _late_rows(sample: JobSample) -> LateRows:
    """The counters of a sample."""
    rows: Counter[tuple[str, str, int]] = Counter()
    for vertex in sample.vertices:
        for counter, count in ((name, count) for task in vertex.subtasks for name, count in task.late.items()):
            rows[vertex.vertex.id, counter, vertex.vertex.started_ms] += count
    return rows


def late_of(facts: FlinkFacts) -> dict[str, Late]:
    """By vertex: the greatest of its counters, since several may count the same record; a lower bound where they do,
    where a record may be several rows, or a row several records, and after restarts before the first look.
    """
    rows: Counter[tuple[str, str]] = Counter()
    for (id, counter, _), count in facts.late.items():
        rows[id, counter] += count
    late: dict[str, Late] = {}
    for vertex in facts.graph.vertices:
        own = [count for (id, _), count in rows.items() if id == vertex.id]
        records = -(-max(own, default=0) // vertex.windows_per_record)
        may_lose = _may_lose_uncounted(vertex, facts.graph, own)
        is_bound = may_lose or sum(map(bool, own)) > 1 or vertex.windows_per_record > 1 or _TWO_PHASE in vertex.name
        known = records if records or (own and not may_lose) else None
        late[vertex.id] = Late(known, may_lose or (bool(own) and bool(facts.restarts)) or (records > 0 and is_bound))
    return late


def total_late(late: Iterable[Late]) -> int | None:
    """Late records of the job, at least: several operators may count the same record, so it is the greatest number of
    one; None: not known, as where the only operators that drop records do not count them.
    """
    known = list(late)
    greatest = max((one.records for one in known if one.records is not None), default=None)
    return greatest or (None if any(one.records is None and one.at_least for one in known) else greatest)


def _may_lose_uncounted(vertex: Vertex, graph: Graph, counts: Sequence[int]) -> bool:
    """Whether late records may leave it uncounted: an operator that counts none, a join of the DataStream API under a
    name of the user's, windows with a second output that have counted none: they count, or use a side output.
    """
    if _SQL.search(vertex.name) or _UNCOUNTED.search(vertex.name):
        return _UNCOUNTED.search(vertex.name) is not None and not vertex.untimed
    if not counts or all(counts):
        return not counts and len(vertex.inputs) > 1
    readers = [reader for reader in graph.vertices for edge in reader.inputs if edge.vertex == vertex.id]
    outputs = sum(not first_operator(reader).endswith("_Committer") for reader in readers)
    return BRANCHES in vertex.name or outputs + is_sink_name(last_operator(vertex)) > 1


def is_named(vertex: Vertex, part: str) -> bool:
    """Whether the vertex receives watermarks, and its name contains `part` in any case, or `part` is its id."""
    return vertex.receives and (part.lower() in vertex.name.lower() or part == vertex.id)


def lacks(vertices: Sequence[Vertex], operator: str | None) -> bool:
    """Whether the job's plan is known, and none of its tasks is named like the chosen operator (None: none is)."""
    return operator is not None and bool(vertices) and not any(is_named(vertex, operator) for vertex in vertices)


def with_sample(facts: FlinkFacts, new: JobSample) -> FlinkFacts:
    """The facts with a new sample, and what follows from it."""
    is_new = new.at_ms - facts.graph.job.started_ms < 2 * IDLE_STEP_MS  # the first step is not a whole one
    new = _compared(new, new, lambda vertex, _: _corrected(vertex, is_new=is_new))
    if facts.samples:
        last, at_ms = facts.samples[-1], new.at_ms
        new = _compared(new, last, lambda vertex, old: _with_delay(vertex, old or vertex, at_ms - last.at_ms))
    facts = replace(facts, samples=kept(facts.samples, new))
    read_ms: dict[tuple[str, str], tuple[int, int]] = {}
    for vertex, split in splits_of(facts.sample):
        if split.offset is not None:
            offset, read_at_ms = facts.read_ms.get((vertex, split.id), (None, 0))
            read_ms[vertex, split.id] = split.offset, read_at_ms if offset == split.offset else new.at_ms
    late = {counter: count for counter, count in facts.late.items() if count} | _late_rows(new)
    return replace(facts, read_ms=read_ms, late=late)


def _compared(
    sample: JobSample, other: JobSample, change: Callable[[VertexSample, VertexSample | None], VertexSample]
) -> JobSample:
    """The sample with each of its vertices changed, which gets that of the other sample, too."""
    others = {vertex.vertex.id: vertex for vertex in other.vertices}
    return replace(sample, vertices=tuple(change(each, others.get(each.vertex.id)) for each in sample.vertices))


def _corrected(sample: VertexSample, *, is_new: bool) -> VertexSample:
    """The vertex; of a new job without shares of time: all say busy until Flink first counts idle time (F13)."""
    tasks = (_past_idle_input(sample.vertex, task) for task in sample.subtasks)
    without = {"busy": None, "back_pressured": None} if is_new else {}
    return replace(sample, subtasks=tuple(replace(task, **without) for task in tasks))


def _past_idle_input(vertex: Vertex, task: Subtask) -> Subtask:
    """A task of several inputs has received at least what it sends: an idle one is reported, too (F14)."""
    if len(vertex.inputs) < 2 or vertex.assigns or task.input is None or time_of(task.output) is None:
        return task
    at_least = or_min(task.output) + vertex.delay_ms
    return replace(task, input=max(task.input, at_least), head=None if task.head is None else max(task.head, at_least))


def _with_delay(vertex: VertexSample, last: VertexSample, apart_ms: int) -> VertexSample:
    """The vertex with its delay: where it sent another watermark on since the last sample, as much later than received
    as before; else what is known of it. One that assigns watermarks passes none on.
    """
    delays, delays_before = (
        {ms for task in each.subtasks if (ms := task.delay_ms) is not None} for each in (vertex, last)
    )
    has_moved = [task.output for task in vertex.subtasks] != [task.output for task in last.subtasks]
    is_constant = has_moved and len(delays) == 1 and delays == delays_before and not vertex.vertex.assigns
    delay_ms = vertex.vertex.delay_ms or (max(0, *delays) if is_constant else last.vertex.delay_ms)
    vertex = replace(vertex, vertex=replace(vertex.vertex, delay_ms=delay_ms))
    waits = not is_constant and (last.vertex.waits or _waits(vertex, last, apart_ms))
    return replace(vertex, vertex=replace(vertex.vertex, waits=waits))


def _waits(vertex: VertexSample, last: VertexSample, apart_ms: int) -> bool:
    """Whether a subtask sends its watermark later than received by what is no constant: by another time than before, or
    than another subtask; from the first to the last watermark; or while it is busy and neither moves (F15).
    """
    least = min((task.delay_ms for task in vertex.subtasks if task.delay_ms is not None), default=0)
    for now, old in zip(vertex.subtasks, last.subtasks, strict=False):
        if not is_later(now, old, vertex.vertex.delay_ms, apart_ms):
            continue
        if now.delay_ms is None or old.delay_ms is None:
            varies = is_later(old, now, vertex.vertex.delay_ms, apart_ms)
        else:
            most_ms = passes_in_a_dump(now.received, old.received, apart_ms)
            varies = max(abs(now.delay_ms - old.delay_ms), now.delay_ms - least) > most_ms
        is_frozen = (now.output, now.received) == (old.output, old.received)
        if varies or (is_frozen and min(now.busy or 0, old.busy or 0) >= MIN_BUSY):
            return True
    return False


def is_later(now: Subtask, before: Subtask | None, delay_ms: int, apart_ms: int) -> bool:
    """Whether a subtask sends its watermark later than it receives it, by more than a known delay and what passes while
    a dump is taken.
    """
    received, sent = now.received, now.output
    if received in (None, MIN) or sent is None:
        return False
    received_before = None if before is None else before.received
    return received - delay_ms - sent > passes_in_a_dump(received, received_before, apart_ms)


def passes_in_a_dump(now: int | None, before: int | None, apart_ms: int) -> int:
    """How far (ms) a watermark may advance while a dump is taken, at its speed between the samples."""
    if now is None or before is None or MIN in (now, before) or apart_ms <= 0:
        return DUMP_MS
    return max(DUMP_MS, (now - before) * DUMP_MS // apart_ms)


def kept(samples: tuple[JobSample, ...], new: JobSample) -> tuple[JobSample, ...]:
    """The samples that are needed together with a new one: back to the youngest that is IDLE_STEP_MS older."""
    together = (*samples, new)
    old = [number for number, sample in enumerate(together) if new.at_ms - sample.at_ms >= IDLE_STEP_MS]
    return together[old[-1] :] if old else together


# The JobManager keeps the metrics of a split that has ended (F17), or moved to another subtask.


def _without_ended(task: Subtask, other: Subtask) -> Subtask:
    """The subtask without the splits whose times are the same in the other sample, although the subtask is not."""
    times = {(split.id, split.active_ms, split.idle_ms, split.paused_ms) for split in other.splits if split.active_ms}
    splits = (each for each in task.splits if (each.id, each.active_ms, each.idle_ms, each.paused_ms) not in times)
    return task if task == other else replace(task, splits=tuple(splits))


def _without_moved(vertex: VertexSample, other: VertexSample | None) -> VertexSample:
    """The vertex with each split that has not ended, in one subtask; `other` is of an older or a newer sample."""
    if other is not None and len(other.subtasks) == len(vertex.subtasks):
        tasks = zip(vertex.subtasks, other.subtasks, strict=True)
        vertex = replace(vertex, subtasks=tuple(_without_ended(task, before) for task, before in tasks))
    counts = Counter(split.id for subtask in vertex.subtasks for split in subtask.splits)
    places = {id: _place(id, vertex, other) for id, count in counts.items() if count > 1}
    subtasks = tuple(
        replace(task, splits=tuple(split for split in task.splits if places.get(split.id, task.index) == task.index))
        for task in vertex.subtasks
    )
    return replace(vertex, subtasks=subtasks)


def _place(id: str, vertex: VertexSample, other: VertexSample | None) -> int:
    """The subtask that has the split: the one whose metrics change; else one where the split is not below what the
    subtask sends, as only an idle one would be, and of several the one with the fewest splits.
    """
    places = list(_places(id, vertex))
    others = {} if other is None else {subtask.index: split for subtask, split in _places(id, other)}
    changed = [task.index for task, split in places if task.index in others and split != others[task.index]]
    if len(changed) == 1:
        return changed[0]
    above = [(subtask, split) for subtask, split in places if or_min(split.watermark) >= or_min(subtask.output)]
    # The one that would hold back more, where they are equal.
    return min(above or places, key=lambda place: (len(place[0].splits), or_min(place[1].watermark)))[0].index


def _places(id: str, vertex: VertexSample) -> Iterator[tuple[Subtask, SampledSplit]]:
    return ((subtask, split) for subtask in vertex.subtasks for split in subtask.splits if split.id == id)
