"""The facts about a Flink job after a poll. Pure."""

from msgspec import Struct
from msgspec.structs import replace

from .barrel import IDLE_STEP_MS
from .delays import Delay, learned
from .moved import without_moved
from .samples import Checkpoint, Graph, Sample, Split, Vertex
from .unread import UnreadBySplit


class FlinkFacts(Struct, frozen=True, kw_only=True):
    """The facts about the job after a poll; `trouble` is why the JobManager did not answer, in one line."""

    graph: Graph
    answered_ms: int
    """When `graph` came, by this machine's clock (epoch ms)."""
    samples: tuple[Sample, ...] = ()
    """The samples, the newest last; the first is at least IDLE_STEP_MS older if there is one that old."""
    interval_ms: int | None = None
    failure: str | None = None
    restarts: int | None = None
    checkpoint: Checkpoint = Checkpoint()
    read_ms: dict[tuple[str, str], tuple[int, int]] = {}
    """By vertex and Kafka split: the last offset read, and when it was first seen (JobManager's clock)."""
    delays: dict[str, Delay] = {}
    """By vertex: how far tasks send their watermark behind the one they receive."""
    late_before: dict[str, int] = {}
    """Late records of earlier attempts, by vertex: counters start again with each."""
    unread: UnreadBySplit | None = None
    """Unread records of Kafka splits, if a broker is queried."""
    topics: list[str] = []
    """The Kafka topics by their real names, if a broker is queried."""
    bootstrap: str | None = None
    broker_trouble: str | None = None
    """Why there is nothing newer from the broker, in one line."""
    trouble: str | None = None


def clock_of(facts: FlinkFacts, now_ms: int) -> int:
    """The JobManager's clock when this machine's shows `now_ms` (epoch ms); the two may differ by any amount."""
    return facts.graph.now_ms + max(0, now_ms - facts.answered_ms)


def late_of(facts: FlinkFacts) -> dict[str, int]:
    """Late records by vertex, attempts before this one included."""
    late = dict(facts.late_before)
    for one in facts.samples[-1].vertices if facts.samples else ():
        counted = [task.late for task in one.subtasks if task.late is not None]
        if counted:
            late[one.vertex.id] = late.get(one.vertex.id, 0) + sum(counted)
    return late


def seen(facts: FlinkFacts, new: Sample) -> FlinkFacts:
    """The facts with a new sample, in which Kafka splits have the time since their last read."""
    new = without_moved(new, facts.samples[0] if facts.samples else None)
    read_ms: dict[tuple[str, str], tuple[int, int]] = {}

    def known(vertex: Vertex, split: Split) -> Split:
        if split.offset is None:
            return split
        place = vertex.id, split.id
        last = facts.read_ms.get(place)
        same = last is not None and last[0] == split.offset
        read_ms[place] = last if last is not None and same else (split.offset, new.at_ms)
        return replace(split, quiet_ms=new.at_ms - read_ms[place][1] if same else None)

    vertices = tuple(
        replace(
            one,
            subtasks=tuple(
                replace(task, splits=tuple(known(one.vertex, s) for s in task.splits)) for task in one.subtasks
            ),
        )
        for one in new.vertices
    )
    samples = kept(facts.samples, replace(new, vertices=vertices))
    return replace(facts, samples=samples, read_ms=read_ms, delays=learned(facts.delays, new))


def kept(samples: tuple[Sample, ...], new: Sample) -> tuple[Sample, ...]:
    """The samples that are needed together with a new one: back to the youngest that is IDLE_STEP_MS older."""
    together = (*samples, new)
    old = [number for number, sample in enumerate(together) if new.at_ms - sample.at_ms >= IDLE_STEP_MS]
    return together[old[-1] :] if old else together
