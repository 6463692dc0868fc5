"""The Kafka topics that a Flink job reads, joined with its splits: unread records, and when the last records came."""

from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from ...kafka.cluster import Cluster
from ...system.errors import RunError, UsageError
from ..spark.files import SourceOffsets
from ..topic import TopicFacts
from ..topic.broker import BrokerTap, reported_id
from .facts import FlinkFacts
from .samples import JobSample, SampledSplit, UnreadBySplit, UnreadPartition, splits_of

if TYPE_CHECKING:
    from ...kafka.client_settings import KafkaConfig
    from ...system.json_path import JsonPath


class KafkaJoin:
    """Queries a broker about the topics in the metrics."""

    def __init__(self, config: "KafkaConfig", path: "JsonPath | None") -> None:
        """`path` is the place of event time in the values; None: not given, so no event times are read."""
        self._config = config
        self._timed = path is not None
        self._tap = BrokerTap(config, path, assumed=path is None)
        self._names: dict[str, list[str]] = {}
        """The topics by their names in metrics, where `.` is `_`."""
        self._opened = False
        self.cluster: str | UnsetType = UNSET
        """The cluster's own id, once it is open and if the cluster reports it."""

    def open(self) -> None:
        """Fetch the topics; UsageError if the broker does not answer."""
        self._names.clear()
        try:
            cluster = Cluster(self._config)
            try:
                self.cluster = reported_id(cluster)
                for name in cluster.topic_names():
                    self._names.setdefault(name.replace(".", "_"), []).append(name)
            finally:
                cluster.close()
        except RunError as error:
            raise UsageError(str(error)) from None

    def join(self, facts: FlinkFacts) -> FlinkFacts:
        """The facts with the broker's last answer about the newest sample's splits; trouble if there is none."""
        sample = facts.sample
        assert sample is not None
        offsets = self._offsets(sample)
        try:
            if not self._opened:
                self._tap.open(offsets)
                self._opened = True
            answer = self._tap.poll(offsets)
        except (RunError, UsageError) as error:
            answer = TopicFacts(trouble=str(error))
        return replace(
            facts,
            unread=self._unread(answer, sample, facts.older_sample),
            # By their real names if they are unambiguous.
            topics=sorted({real for _, split in splits_of(sample) if (real := self._real(split)) is not None}),
            bootstrap=self._config.bootstrap,
            broker_trouble=answer.trouble,
        )

    def _unread(self, facts: TopicFacts, sample: JobSample, before: JobSample | None) -> UnreadBySplit:
        """Unread records by split when `sample` was taken, as far as the broker had answered by then."""
        partitions = {(partition.topic, partition.partition): partition for partition in facts.partitions}
        earlier = {(vertex, split.id): split.offset for vertex, split in splits_of(before)}
        unread: UnreadBySplit = {}
        for vertex, split in splits_of(sample):
            partition = partitions.get((self._real(split) or "", -1 if split.partition is None else split.partition))
            if partition is None or split.offset is None:
                continue
            offset_before = earlier.get((vertex, split.id))
            newest_ms, event_ms = partition.newest_ms, partition.event_ms
            unread[vertex, split.id] = UnreadPartition(
                backlog=max(0, partition.end - split.offset - 1),
                behind_end_ms=newest_ms - event_ms if self._timed and newest_ms and event_ms else None,
                read=None if offset_before is None else split.offset - offset_before,
            )
        return unread

    def close(self) -> None:
        """Stop querying."""
        self._tap.close()

    def _real(self, split: SampledSplit) -> str | None:
        names = [] if split.topic is None else self._names.get(split.topic, [])
        return names[0] if len(names) == 1 else None

    def _offsets(self, sample: JobSample) -> list[SourceOffsets]:
        read: dict[str, int] = {}
        for _, split in splits_of(sample):
            if split.offset is not None and (real := self._real(split)) is not None:
                place = f"{real}/{split.partition}"  # of two sources the slower one
                read[place] = min(split.offset + 1, read.get(place, split.offset + 1))
        return [SourceOffsets(source="flink", kind="kafka", text="", offsets=read)] if read else []
