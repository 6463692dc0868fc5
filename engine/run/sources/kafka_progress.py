"""How far the partitions of a run's topics are read, and what of them is unread."""

from collections.abc import Mapping

import msgspec

from ...kafka.client_settings import KafkaConfig
from ...kafka.cluster import Cluster, Ends, Positions, TopicPartition, offsets_of, parse_offsets
from ...kafka.log_guard import LogCutError, LogGuard, LogState, log_states, states_of
from ...kafka.probe import LookAhead, Probe, TakeNote
from ...system.errors import RunError, UsageError
from ...watermarks.channels import Unread

_UNNAMED = ("long overflow", "Exception thrown in awaitResult")
"""What Spark says, if anything, of a timestamp that is more microseconds than 64 bits hold."""
_GIVE_UP_AFTER = 3
_RETRY_S = 0.5
"""Seconds before the first retry; later ones wait longer."""


class KafkaProgress(Probe):
    """How far partitions are read, from the offsets of batches and the probe; channels are known only if they are
    partitions. `ends` are offsets, a JSON text for each of the query's sources.
    """

    def __init__(
        self,
        topics: list[str],
        note: TakeNote,
        look_ahead: LookAhead,
        *,
        channels_are_partitions: bool,
        once: bool,
        guard: LogGuard,
    ) -> None:
        super().__init__(topics, note, look_ahead)
        self._once = once
        self._config: KafkaConfig | None = None
        self._guard = guard
        self._cluster: Cluster | None = None
        """The connection of the query's thread."""
        self.reader_rewinds = True
        """Whether the reader goes back to the start of a recreated topic by itself (Spark's connector does not)."""
        self.is_rewind_due = False
        """Whether the query has to begin again where `cut` says: a log was cut."""
        self._missing: int | None = None
        """How many offsets of the last batch had no record; None: not known."""
        self._expired_to: Positions = {}
        """Up to where it was noted that records were deleted unread."""
        self._channels_are_partitions = channels_are_partitions
        self.starts: Positions = {}
        """The run's start offsets."""
        self.held_back: frozenset[str] = frozenset()
        """The channels that balanced reading has paused."""
        self._passing: Positions = {}
        """How many records of each partition the last batch took."""
        self._recreated: set[TopicPartition] = set()
        """Partitions that restarted at offset 0 since the last call of `gone_channels`."""

    def begin(self, start: Positions, cluster: Cluster) -> None:
        """Set the run's start offsets, and remember the logs that it reads, unless an earlier run did."""
        self.starts = start
        self.read_to = dict(start)
        if not self._guard.resume():
            self._guard.accept(log_states(cluster, self._topics))
        self._ids |= self._guard.ids()  # a topic that was recreated before the run was resumed is noted, too

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
        recreated, self._recreated = self._recreated, set()
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

    def resumed(self, ends: list[str]) -> None:
        """Note that the query continues after these offsets."""
        self.read_to = positions_in(ends) or self.read_to

    def applied(self, ends: list[str]) -> None:
        """Note how far each partition has been read, and which of its records no longer existed."""
        read_to = positions_in(ends)
        if read_to is None:
            return
        before = self.read_to
        for partition, end in read_to.items():
            self._note_expired(partition, before.get(partition, 0), end)
        self._recreated |= {partition for partition, end in read_to.items() if end < before.get(partition, 0)}
        self._passing = {partition: max(0, end - before.get(partition, 0)) for partition, end in read_to.items()}
        self.read_to = read_to

    def confirm(self, ends: list[str], records: int) -> None:
        """A batch that ends there was read and had so many records; nothing of it has been applied.

        LogCutError if they may not be what the logs have: the query has to begin again where `cut` says. RunError if
        the cluster does not answer.
        """
        read_to = positions_in(ends)
        if read_to is None:
            return
        cluster = self._connected()
        try:
            states = log_states(cluster, self._topics)
            self._missing = sum(max(0, end - self.read_to.get(p, 0)) for p, end in read_to.items()) - records
            if self._missing > 0:
                self.earliest = cluster.earliest(states)
            rewinding = {p for p, end in read_to.items() if end < self.read_to.get(p, 0)}
            asked = {p: state for p, state in states.items() if not (self.reader_rewinds and p in rewinding)}
            if self._guard.cuts(cluster, asked, self.read_to) or self._guard.changed_during(cluster, asked, read_to):
                self.is_rewind_due = True
                raise LogCutError("a partition was cut or recreated while it was read; reading it again")
        except RunError:
            self._disconnect()
            raise
        self._guard.accept(states)

    def compare(self, cluster: Cluster, ends: Ends) -> None:
        if self._has_cuts(cluster, states_of(self._ids, ends), self.read_to):
            read_to = self.read_to  # before the logs are asked: a batch applied meanwhile would look like a cut
            if self._has_cuts(cluster, log_states(cluster, self._topics), read_to):
                self.is_rewind_due = True

    def cut(self) -> tuple[Positions, dict[TopicPartition, LogState]]:
        """Where partitions whose logs were cut continue, and all logs now; RunError if the cluster does not answer."""
        cluster = self._connected()
        try:
            states = log_states(cluster, self._topics)
            return self._guard.cuts(cluster, states, self.read_to), states
        except RunError:
            self._disconnect()
            raise

    def rewound(self, cuts: Positions, states: Mapping[TopicPartition, LogState], *, again: bool) -> None:
        """The query begins again at these positions, if `again`: note them, and read these logs from now on."""
        for partition, offset in cuts.items():
            if self._guard.is_recreated(partition, states[partition]):
                self._recreated.add(partition)
                continue
            place = {"topic": partition.topic, "partition": partition.partition}
            self._note("log_cut", **place, offset=offset, read_to=self.read_to[partition], again=int(again))
        self.read_to = self.read_to | cuts
        self._expired_to = {p: offset for p, offset in self._expired_to.items() if p not in cuts}
        self._guard.accept(states)
        self.is_rewind_due = False

    def start(self, config: KafkaConfig) -> None:
        self._config = config
        super().start(config)

    def stop(self) -> None:
        super().stop()
        self._disconnect()

    def _has_cuts(self, cluster: Cluster, states: Mapping[TopicPartition, LogState], read_to: Positions) -> bool:
        guard = self._guard
        by_itself = {p for p, state in states.items() if self.reader_rewinds and guard.is_recreated(p, state)}
        return bool(guard.cuts(cluster, {p: s for p, s in states.items() if p not in by_itself}, read_to))

    def _connected(self) -> Cluster:
        if self._cluster is None:
            assert self._config is not None, "the query runs once the source is prepared"
            try:
                self._cluster = Cluster(self._config)
            except UsageError as error:
                raise RunError(str(error)) from None
        return self._cluster

    def _disconnect(self) -> None:
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.close()

    def _note_expired(self, partition: TopicPartition, began: int, end: int) -> None:
        """Note how many records were deleted before they could be read, once for all of them."""
        first = self.earliest.get(partition, 0)
        known_to = max(began, self._expired_to.get(partition, 0))
        in_batch = max(0, min(first, end) - known_to)
        if self._missing is not None:  # what was deleted after it was read is not lost
            in_batch = min(in_batch, max(0, self._missing))
        lost = in_batch + max(0, first - max(end, known_to)) if end > began else 0
        if not lost or (self._missing is not None and self._missing <= 0):
            return
        self._expired_to[partition] = first
        self._note("records_expired", topic=partition.topic, partition=partition.partition, records=lost, offset=first)

    def unread_after(self, ends: list[str], time_ms: int) -> Unread | None:
        """The records that existed at `time_ms` (epoch ms) and that a batch ending at these offsets left unread."""
        read_to = positions_in(ends)
        return None if read_to is None else self._left_unread(self.ends_at(time_ms), read_to)

    def unread(self) -> Unread:
        """The records between the reading position and the end of each partition."""
        return self._left_unread(self.fresh_ends(), self.read_to)

    def retry_after_s(self, failures: int, why: str) -> float | None:
        """`Source.retry_after_s`: a query that fails because the cluster does not answer always starts again.

        RunError for what may be a record that Spark's connector cannot read.
        """
        if self.silent_since is None and failures > _GIVE_UP_AFTER:
            if not self.reader_rewinds and why.startswith(_UNNAMED):
                raise RunError(
                    f"Spark's Kafka connector cannot read the records ({why}): perhaps a timestamp after the year "
                    "294,247, as nanoseconds; continue with --reader python, which counts it as malformed",
                    code="connector_failed",
                )
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


def rewound(line: str, positions: Positions) -> str:
    """A source's line of the offset log with these positions, where it has the partitions."""
    offsets = parse_offsets(line)
    if offsets is None:
        return line
    moved = offsets | {p: offset for p, offset in positions.items() if p in offsets}
    return line if moved == offsets else msgspec.json.encode(offsets_of(moved)).decode()


def positions_in(ends: list[str]) -> Positions | None:
    """The offsets of the query's one source; None: it has none, or they are not Kafka's."""
    return next((found for text in ends if (found := parse_offsets(text)) is not None), None)
