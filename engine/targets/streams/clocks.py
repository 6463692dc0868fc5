"""The clocks of a Kafka Streams application, by what it writes into its group: the metadata of its commits and the user
data of its assignments. Times are epoch ms.

Both are decoded strictly: what is not exactly of Streams' form is None. The rule of a clock: a window that ends at `e`
is emitted when its task's time `T`, the greatest of the task's partitions, reaches `e <= T - grace`.
"""

import base64
import binascii
import struct
from collections.abc import Iterable, Mapping, Set
from typing import Any

from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment  # pyright: ignore[reportMissingTypeStubs]
from msgspec import Struct
from msgspec.structs import replace

from ...kafka.cluster import TopicPartition
from ...snapshot import Clock, WaitingWindow

_assignment: Any = ConsumerProtocolAssignment
_VERSIONS = (1, 2)
_NO_TIME = -1
_TIME, _COUNT, _LENGTH = struct.Struct(">Bq"), struct.Struct(">i"), struct.Struct(">i")
_TASK = struct.Struct(">ii")
_FIRST_WITH_HIGHEST, _FIRST_WITH_NAME, _LAST_KNOWN = 3, 10, 11
"""Versions of the user data: with the highest common version, with a topology's name in each task, the last known."""


class CommittedTime(Struct, frozen=True):
    """The metadata of a commit by Kafka Streams."""

    time_ms: int | None
    """The greatest event time processed from the partition; None: Streams does not know one yet."""
    closed_to_ms: dict[str, int] = {}
    """By window store, up to where its windows have been emitted; only with `EmitStrategy.onWindowClose()`."""


def decode_metadata(text: str | None) -> CommittedTime | None:
    """The time in the metadata of a committed offset; None: not written by Kafka Streams."""
    if not text:
        return None
    try:
        data = base64.b64decode(text, validate=True)
        if base64.b64encode(data).decode() != text:
            return None
        return _committed_time(data)
    except (binascii.Error, struct.error, ValueError):  # text that is not ASCII, not base64, or too short inside
        return None


def _committed_time(data: bytes) -> CommittedTime | None:
    version, time_ms = _TIME.unpack_from(data)
    if version not in _VERSIONS or time_ms < _NO_TIME:
        return None
    at, closed = _TIME.size, dict[str, int]()
    if version > 1 and at < len(data):
        (count,) = _COUNT.unpack_from(data, at)
        at += _COUNT.size
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(data, at)
            store, close = struct.unpack_from(f">{length}sq", data, at + _LENGTH.size)
            closed[store.decode()] = close
            at += _LENGTH.size + length + 8
        if count != len(closed):
            return None
    return CommittedTime(None if time_ms == _NO_TIME else time_ms, closed) if at == len(data) else None


def decode_tasks(data: bytes | None) -> list[tuple[int, int]] | None:
    """The active tasks (sub-topology, number) in an assignment's user data, by topic and number; None: other form."""
    if not data:
        return None
    try:
        version, _highest, count = struct.unpack_from(">iii", data)
        if not _FIRST_WITH_HIGHEST <= version <= _LAST_KNOWN:
            return None
        at, tasks = 12, list[tuple[int, int]]()
        for _ in range(count):
            tasks.append(_TASK.unpack_from(data, at))
            at += _TASK.size
            if version >= _FIRST_WITH_NAME:
                (length,) = _LENGTH.unpack_from(data, at)
                at += _LENGTH.size
                if length:  # a named topology: its tasks are other ones
                    return None
    except struct.error:
        return None
    return tasks if count >= 0 and all(min(task) >= 0 for task in tasks) else None


def assigned_tasks(assignment: bytes | None) -> dict[TopicPartition, tuple[int, int]]:
    """The task of each partition that a member of a classic group is assigned; empty: not of Streams' form."""
    if not assignment:
        return {}
    try:
        decoded = _assignment.decode(assignment)
        read = sorted((each.topic, number) for each in decoded.assigned_partitions for number in each.partitions)
    except (struct.error, ValueError, TypeError):
        return {}
    tasks = decode_tasks(decoded.user_data) or []
    partitions = [TopicPartition(*place) for place in read]
    if [p.partition for p in partitions] != [number for _, number in tasks] or None in dict(read):
        return {}
    return dict(zip(partitions, tasks, strict=True))


class Topology(Struct, frozen=True):
    """The sub-topologies of the application, as far as its group shows them."""

    subtopologies: dict[str, str] = {}
    """The sub-topology that reads a topic; a topic is read by one at most."""
    repartitions: frozenset[str] = frozenset()
    """The topics that the application itself writes and reads again."""
    stateful: frozenset[str] | None = None
    """The sub-topologies that have state; None: not known."""
    suppressing: frozenset[str] | None = None
    """The sub-topologies that suppress results until their windows close; None: not known which."""

    def place(self, partition: TopicPartition) -> str:
        """The sub-topology of a partition; where it is not known, its topic stands for it."""
        return self.subtopologies.get(partition.topic, partition.topic)


class WindowRule(Struct, frozen=True):
    """The windows that the user says the application has: size and grace (ms); None: not given."""

    window_ms: int | None = None
    grace_ms: int | None = None


Times = Mapping[TopicPartition, CommittedTime]
"""What Kafka Streams committed, by partition."""


def channel_of(partition: TopicPartition) -> str:
    """The channel's name: `orders-3`."""
    return f"{partition.topic}-{partition.partition}"


def clocks_of(
    partitions: Iterable[TopicPartition], times: Times, topology: Topology, rule: WindowRule,
    empty: Set[TopicPartition] = frozenset(),
) -> list[Clock]:  # fmt: skip
    """The clock of each task that reads one of the partitions, by sub-topology and number, without a verdict.

    A partition of a topic whose sub-topology is not known is a clock of its own, after the others. `empty`: those that
    never had a record; a task with no others has no windows.
    """
    tasks: dict[tuple[str | None, str, int], list[TopicPartition]] = {}
    ordered = sorted(partitions)
    for partition in ordered:
        part = topology.subtopologies.get(partition.topic)
        tasks.setdefault((part, "" if part is not None else partition.topic, partition.partition), []).append(partition)
    windowed = _windowed(ordered, times, topology, rule)
    order = sorted(tasks, key=lambda task: (task[0] is None, len(task[0] or ""), *map(str, task[:2]), task[2]))
    clocks = [_clock(tasks[task], times, topology, rule, windowed) for task in order]
    never = {channel_of(partition) for partition in empty}
    return [
        replace(clock, has_windows=False) if clock.time_ms is None and never.issuperset(clock.channels) else clock
        for clock in clocks
    ]


def _windowed(partitions: list[TopicPartition], times: Times, topology: Topology, rule: WindowRule) -> frozenset[str]:
    """The sub-topologies whose windows are proven to wait.

    The options say that there are windows, but not where: they are where a commit names a window store or the group
    a suppression, else behind the last repartition, where Streams aggregates; without one in all that may have state.
    """
    named = {topology.place(p) for p in partitions if p in times and times[p].closed_to_ms}
    named |= topology.suppressing or frozenset()
    if named or rule.grace_ms is None:
        return frozenset(named)
    behind = {topology.place(p) for p in partitions if p.topic in topology.repartitions}
    anywhere = behind or {topology.place(p) for p in partitions}
    return frozenset(anywhere if topology.stateful is None else anywhere & topology.stateful)


def _clock(
    task: list[TopicPartition], times: Times, topology: Topology, rule: WindowRule, windowed: frozenset[str]
) -> Clock:
    part = topology.subtopologies.get(task[0].topic)
    known = [times[p] for p in task if p in times]
    time_ms = max((each.time_ms for each in known if each.time_ms is not None), default=None)
    has_windows = topology.place(task[0]) in windowed
    emitted_to_ms = _emitted_to(time_ms, known, rule) if has_windows else None
    channels = [channel_of(p) for p in task]
    waiting, count = None, None
    if rule.window_ms is not None and rule.grace_ms is not None and time_ms is not None and emitted_to_ms is not None:
        first, count = waiting_windows(time_ms, emitted_to_ms, rule.window_ms)
        waiting = WaitingWindow(first, first + rule.grace_ms, channels) if count else None
    return Clock(
        task=None if part is None else f"{part}_{task[0].partition}",
        channels=channels,
        time_ms=time_ms,
        downstream=any(p.topic in topology.repartitions for p in task),
        has_windows=True if has_windows else None,
        emitted_to_ms=emitted_to_ms,
        waiting=waiting,
        waiting_count=count,
    )


def _emitted_to(time_ms: int | None, known: list[CommittedTime], rule: WindowRule) -> int | None:
    """Up to where windows have been emitted: what all stores in the commits say, else by the rule."""
    stores: dict[str, int] = {}
    for each in known:  # each partition has the same stores, as of its own last commit
        for store, close in each.closed_to_ms.items():
            stores[store] = max(close, stores.get(store, close))
    if stores:
        return min(stores.values())
    return None if time_ms is None or rule.grace_ms is None else time_ms - rule.grace_ms


def waiting_windows(time_ms: int, emitted_to_ms: int, window_ms: int) -> tuple[int, int]:
    """The end of the first tumbling window after `emitted_to_ms`, and how many from it on begin by `time_ms`."""
    first = (emitted_to_ms // window_ms + 1) * window_ms
    last = (time_ms // window_ms + 1) * window_ms
    return first, max(0, (last - first) // window_ms + 1)
