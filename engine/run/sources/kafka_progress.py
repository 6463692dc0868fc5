"""How far the partitions of a run's topics are read, and what of them is unread."""

from ...kafka.cluster import Positions, TopicPartition, parse_offsets
from ...kafka.probe import LookAhead, Probe, TakeNote
from ...watermarks.channels import Unread

_GIVE_UP_AFTER = 3
_RETRY_S = 0.5
"""Seconds before the first retry; later ones wait longer."""


class KafkaProgress(Probe):
    """How far partitions are read, from the offsets of batches and the probe; channels are known only if they are
    partitions. `ends` are offsets, a JSON text for each of the query's sources.
    """

    def __init__(
        self, topics: list[str], note: TakeNote, look_ahead: LookAhead, *, channels_are_partitions: bool, once: bool
    ) -> None:
        super().__init__(topics, note, look_ahead)
        self._once = once
        self._channels_are_partitions = channels_are_partitions
        self.starts: Positions = {}
        """The run's start offsets."""
        self.held_back: frozenset[str] = frozenset()
        """The channels that balanced reading has paused."""
        self._passing: Positions = {}
        """How many records of each partition the last batch took."""
        self._recreated: set[TopicPartition] = set()
        """Partitions that restarted at offset 0 since the last call of `gone_channels`."""
        self._recreations: dict[str, int] = {}
        """How often each topic had been recreated at the last call of `gone_channels`."""
        self._left: set[TopicPartition] = set()
        """Partitions reported as gone that have not come back."""

    def begin(self, start: Positions) -> None:
        """Set the run's start offsets."""
        self.starts = start
        self.read_to = dict(start)

    def channel_of(self, partition: TopicPartition) -> str:
        """The channel's name if channels are partitions: with the topic if there are several."""
        several = len(self._topics) > 1
        return f"{partition.topic}-{partition.partition}" if several else str(partition.partition)

    def channel_of_part(self, part: int) -> str:
        """The channel's name for a part number of `KafkaColumns.canonical_sql`, if channels are partitions."""
        return self.channel_of(TopicPartition(self._topics[part >> 32], part & 0xFFFFFFFF))

    def part_name(self, part: int) -> str:
        """`topic-partition` for a part number of `KafkaColumns.canonical_sql`."""
        return f"{self._topics[part >> 32]}-{part & 0xFFFFFFFF}"

    def channels(self) -> list[str]:
        """The present channels that are known before their first record, because they are partitions."""
        if not self._channels_are_partitions:
            return []
        there = self.there
        return [self.channel_of(partition) for partition in (self.starts if there is None else there)]

    def gone_channels(self) -> list[str]:
        """Channels whose partition no longer exists (named again each time), or was recreated (named once).

        `channels` omits the former; it includes the latter, which come back as new channels.
        """
        if not self._channels_are_partitions:
            return []
        there = self.there
        gone = set[TopicPartition]() if there is None else self.read_to.keys() - there
        recreated, self._recreated = self._recreated | self._recreated_unseen() - self._left, set()
        self._left = gone
        return [self.channel_of(partition) for partition in sorted(gone | recreated)]

    def finished_channels(self, latest: list[str]) -> list[str]:
        """With `--once`: partitions that are read to the offsets found at the start; never all: that is the end of the
        stream. `latest` is Spark's last report of the `ends` of the query; empty before its first report.
        """
        ends = positions_in(latest) if self._once and self._channels_are_partitions else None
        if ends is None:
            return []
        finished = [p for p, end in ends.items() if self.read_to.get(p, 0) >= end]
        return [] if len(finished) == len(ends) else [self.channel_of(partition) for partition in sorted(finished)]

    def _recreated_unseen(self) -> set[TopicPartition]:
        """Partitions of recreated topics, for a reader that continues at their end without an error.

        (A reader that reads them from their start goes back to offset 0, which `applied` sees in time.)
        """
        counts, before = dict(self.recreated), self._recreations
        self._recreations = counts
        if self.rereads:
            return set()
        return {p for p in self.read_to if counts.get(p.topic, 0) > before.get(p.topic, 0)}

    def resumed(self, ends: list[str]) -> None:
        """Note that the query continues after these offsets."""
        self.read_to = positions_in(ends) or self.read_to

    def applied(self, ends: list[str]) -> None:
        """Note how far each partition has been read, and which of its records no longer existed."""
        read_to = positions_in(ends)
        if read_to is None:
            return
        before, earliest = self.read_to, self.earliest
        for partition, end in read_to.items():
            lost = min(earliest.get(partition, 0), end) - before.get(partition, 0)
            if lost > 0:
                self._note("records_expired", topic=partition.topic, partition=partition.partition, records=lost)
        if self.rereads:
            self._recreated |= {partition for partition, end in read_to.items() if end < before.get(partition, 0)}
        self._passing = {partition: max(0, end - before.get(partition, 0)) for partition, end in read_to.items()}
        self.read_to = read_to

    def unread_after(self, ends: list[str], time_ms: int) -> Unread | None:
        """The records that existed at `time_ms` (epoch ms) and that a batch ending at these offsets left unread."""
        read_to = positions_in(ends)
        return None if read_to is None else self._left_unread(self.ends_at(time_ms), read_to)

    def unread(self) -> Unread:
        """The records between the reading position and the end of each partition."""
        return self._left_unread(self.fresh_ends(), self.read_to)

    def retry_after_s(self, failures: int, why: str) -> float | None:
        """`Source.retry_after_s`: a query that fails because the cluster does not answer always starts again."""
        if self.silent_since is None and failures > _GIVE_UP_AFTER:
            return None
        if failures == 1:
            self._note("read_failed", why=why[:200])
        return _RETRY_S * min(2**failures, 16)

    def _left_unread(self, ends: Positions | None, read_to: Positions) -> Unread:
        there = read_to.keys() if self.there is None else read_to.keys() & self.there
        if ends is None or not there <= ends.keys():
            return Unread(None, {} if self._channels_are_partitions else None, self.held_back)
        lags = {partition: max(0, end - read_to.get(partition, 0)) for partition, end in ends.items()}
        passing = {self.channel_of(p): records for p, records in self._passing.items()}
        return Unread(
            records=sum(lags.values()),
            by_channel={self.channel_of(p): lag for p, lag in lags.items()} if self._channels_are_partitions else None,
            held_back=self.held_back,
            passing=sum(passing.values()),
            passing_by_channel=passing,
        )


def positions_in(ends: list[str]) -> Positions | None:
    """The offsets of the query's one source; None: it has none, or they are not Kafka's."""
    return next((found for text in ends if (found := parse_offsets(text)) is not None), None)
