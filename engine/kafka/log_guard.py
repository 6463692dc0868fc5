"""Whether a log is still the one that was read: it may be cut and written again, or its topic deleted and recreated.

A leader that was not in sync (unclean leader election) or a broker that lost its last segments has a shorter log, whose
offsets are then given to other records. An end below the reading position shows that only until as many records were
written again. Leader epochs show it for good: each leader writes under an epoch of its own, and a log knows where the
records of an epoch end.

    read under epoch 4:   0 ............... 60 ......... 100     position 100
    the log now:          0 ............... 60 === 110           epoch 4 ends at 60, epoch 5 begins there
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from ..system.files import replace_file
from .cluster import Cluster, Ends, Offsets, Positions, TopicPartition, offsets_of, positions_of


class LogState(NamedTuple):
    """A partition's log now: the id of its topic and the epoch of its leader (None: an old broker), and its end."""

    topic_id: str | None
    epoch: int | None
    end: int


class LogCutError(Exception):
    """What was read of a batch, or before it, may no longer be what the log has: nothing of the batch counts."""


class _Marks(Struct, frozen=True):
    """The logs that were read: the topics' ids, and the last epoch under which records of each partition were read."""

    ids: dict[str, str]
    epochs: Offsets


class LogGuard:
    """Compares logs with those that were read; a file at `place` keeps what is known of them for a resumed run."""

    def __init__(self, place: Callable[[], Path]) -> None:
        self._place = place
        self._ids: dict[str, str] = {}
        self._epochs: Positions = {}

    def resume(self) -> bool:
        """Read what an earlier run knew; False if it left nothing that can be read."""
        try:
            marks = msgspec.json.decode(self._place().read_bytes(), type=_Marks)
            epochs = positions_of(marks.epochs)
        except (OSError, msgspec.DecodeError, ValueError):
            marks = _Marks({}, {})
            epochs = Positions()
        self._ids = marks.ids
        self._epochs = epochs
        return bool(self._ids or self._epochs)

    def ids(self) -> dict[str, str]:
        """The ids of the topics that were read, by name."""
        return dict(self._ids)

    def accept(self, states: Mapping[TopicPartition, LogState]) -> None:
        """What was read is in these logs: later ones are compared with them."""
        before = dict(self._ids), dict(self._epochs)
        for partition, state in states.items():
            if state.topic_id is not None:
                self._ids[partition.topic] = state.topic_id
            if state.epoch is not None:
                self._epochs[partition] = state.epoch
        if before != (self._ids, self._epochs):
            replace_file(self._place(), msgspec.json.encode(_Marks(self._ids, offsets_of(self._epochs))), sync=True)

    def cuts(self, cluster: Cluster, states: Mapping[TopicPartition, LogState], read_to: Positions) -> Positions:
        """Where logs were cut below the position that they are read to; 0: the topic was recreated."""
        read = {p: state for p, state in states.items() if read_to.get(p, 0) > 0}
        recreated = {p for p in read if self.is_recreated(p, read[p])}
        shared_ends = self._shared_ends(cluster, {p: read[p] for p in read.keys() - recreated}, read_to)
        return dict.fromkeys(recreated, 0) | {p: end for p, end in shared_ends.items() if end < read_to[p]}

    def changed_during(
        self, cluster: Cluster, states: Mapping[TopicPartition, LogState], ends: Positions
    ) -> set[TopicPartition]:
        """Partitions of which a batch up to `ends` may have records of a log that was cut since it was read."""
        shared_ends = self._shared_ends(cluster, states, ends)
        return {p for p, end in shared_ends.items() if end < ends.get(p, 0)}

    def is_recreated(self, partition: TopicPartition, state: LogState) -> bool:
        """Whether the topic was deleted and recreated since it was read."""
        return state.topic_id is not None and self._ids.get(partition.topic, state.topic_id) != state.topic_id

    def _shared_ends(
        self, cluster: Cluster, states: Mapping[TopicPartition, LogState], read_to: Positions
    ) -> Positions:
        """Up to where a log has the records that were read before, where it may have changed.

        A log that has the epoch of before and reaches as far as it was read only grew.
        """
        ends = Positions()
        asked = Positions()
        for partition, state in states.items():
            before = self._epochs.get(partition)
            if before is None or state.epoch is None:
                ends[partition] = state.end
            elif before != state.epoch or state.end < read_to.get(partition, 0):
                asked[partition] = before
        known = cluster.epoch_ends(asked) if asked else {}
        return ends | {p: known.get(p, states[p].end) for p in asked}


def log_states(cluster: Cluster, topics: list[str]) -> dict[TopicPartition, LogState]:
    """The logs of all existing partitions; RunError if the cluster does not answer."""
    existing = cluster.topics(topics)
    ends = cluster.ends(partition for topic in existing.values() for partition in topic.partitions)
    return states_of({name: topic.id for name, topic in existing.items()}, ends)


def states_of(ids: Mapping[str, str | None], ends: Ends) -> dict[TopicPartition, LogState]:
    """The logs with these ends, of topics with these ids (by name)."""
    return {p: LogState(ids.get(p.topic), epoch, end) for p, (end, epoch) in ends.items()}
