"""Facts about a cluster's topics, partitions, offsets and groups, and their last records, without joining a group."""

import time
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from itertools import islice
from math import ceil, floor
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
from kafka import KafkaConsumer
from kafka.admin import KafkaAdminClient
from kafka.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    CorruptRecordError,
    IncompatibleBrokerVersion,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    LeaderNotAvailableError,
    NodeNotReadyError,
)
from kafka.protocol.consumer import IsolationLevel, OffsetForLeaderEpochRequest, OffsetSpec  # pyright: ignore[reportMissingTypeStubs]
from msgspec import Struct

from ..system.errors import RunError, UsageError, first_line
from ..system.json_values import JsonPath, TimeUnit, formats_of, near_paths, time_of, why_no_time
from ..watermarks.observation import WhyNoTime
from .admission import enter
from .client_settings import KafkaConfig
from .compression import bound_codecs

if TYPE_CHECKING:

    class TopicPartition(NamedTuple):
        """A partition of a topic; kafka-python's own class has no types."""

        topic: str
        partition: int
else:
    from kafka import TopicPartition

Offsets = dict[str, dict[str, int]]
"""The next offset to read, by topic, then by partition as text (JSON has no other keys)."""
Positions = dict[TopicPartition, int]
"""The next offset to read, by topic and partition."""

Ends = dict[TopicPartition, tuple[int, int | None]]
"""The end of each partition, and the epoch of the leader that gave it; None: an old broker."""

_EPOCHS_TOPIC = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
CONNECT_MS = 8_000
"""Longest wait (ms) for an address: enough for a distant broker, short for a user."""
ASK_MS = 10_000
_BACKOFF: dict[str, Any] = {"reconnect_backoff_max_ms": 2_000}
"""Settings that find a recovered broker soon: by default kafka-python waits up to 30 s between attempts."""
NOT_AUTHORIZED = 29
_ELECTING = (CoordinatorNotAvailableError, CoordinatorLoadInProgressError, LeaderNotAvailableError)
_ELECTING_S = 0.3
_SILENT = (NodeNotReadyError, KafkaConnectionError, KafkaTimeoutError)
Answer = TypeVar("Answer")
_SAMPLED = 50
"""Records of each partition, at most, in which the format of times is looked for."""
WITHIN_S = 3.0
"""Longest wait (s) for records."""
_BACK = 8
"""How many offsets before the given one to begin: those right before it may be markers or compacted away."""
_POLL_MS = 200
_POSITIONS = 50
"""Partitions whose position is asked for between two polls, at most: kafka-python looks at all partitions for each."""
ADVICE = "check host and port, that it is up, and --kafka-config if it asks for security"


def positions_of(offsets: Offsets) -> Positions:
    """The offsets by partition."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in offsets.items()
        for partition, offset in partitions.items()
    }


def offsets_of(positions: Positions) -> Offsets:
    """The positions as nested dictionaries, in order."""
    offsets: Offsets = {}
    for partition, offset in sorted(positions.items()):
        offsets.setdefault(partition.topic, {})[str(partition.partition)] = offset
    return offsets


def parse_offsets(text: str) -> Positions | None:
    """The positions in a source's line of the offset log; None if the line belongs to another kind of source."""
    try:
        return positions_of(msgspec.json.decode(text, type=Offsets))
    except (msgspec.DecodeError, ValueError):
        return None


def limited(start: Positions, end: Positions, most: int) -> Positions:
    """The end of a batch of about `most` records: each partition in proportion to its unread records.

    The same rule as Spark's `KafkaMicroBatchStream.rateLimit`, so that both readers make the same batches.
    """
    unread = {partition: max(0, offset - start.get(partition, offset)) for partition, offset in end.items()}
    total = sum(unread.values())
    if total <= most:
        return end
    ends: Positions = {}
    for partition, offset in end.items():
        share = most * (unread[partition] / total)
        ends[partition] = min(offset, start.get(partition, offset) + (ceil(share) if share < 1 else floor(share)))
    return ends


class Topic(Struct, frozen=True):
    """An existing topic: its id (None: an old broker; a recreated topic has another id) and its partitions."""

    name: str
    id: str | None
    partitions: list[TopicPartition]
    may_read: bool = True
    """Whether the broker permits reading; True for an old broker, which does not report it."""


class Commit(Struct, frozen=True):
    """A committed offset of a group: the next offset to read, and what the group added to it."""

    offset: int
    metadata: str


class _TooOldError(RunError):
    """The broker does not know the request."""


class Record(Struct, frozen=True):
    """A record of a topic; `timestamp_ms` None: the producer gave none."""

    partition: TopicPartition
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None


class Cluster:
    """A connection for queries; UsageError if nothing answers, RunError if a later query fails."""

    def __init__(self, config: KafkaConfig) -> None:
        self.config = config
        limits: dict[str, Any] = {"bootstrap_timeout_ms": CONNECT_MS, "request_timeout_ms": ASK_MS, **_BACKOFF}
        try:
            enter(config, CONNECT_MS / 1_000)  # kafka-python would try all that time and report only a timeout
            self._admin: Any = KafkaAdminClient(**limits | config.for_python(), client_id="wmtop")
        except (KafkaError, OSError, ValueError, AssertionError) as error:
            raise UsageError(f"no Kafka broker answers at {config.bootstrap}: {first_line(error)}; {ADVICE}") from None

    def close(self) -> None:
        """Disconnect."""
        self._admin.close()

    def id(self) -> str | None:
        """The cluster's own id."""
        return self._ask(self._admin.describe_cluster).get("cluster_id")

    def topic_names(self) -> list[str]:
        """All topics except Kafka's own."""
        return sorted(name for name in self._ask(self._admin.list_topics) if not name.startswith("__"))

    def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """The existing ones of these topics, without those being created or deleted.

        UsageError for a topic that this client may not describe.
        """
        wanted = list(names)
        existing: dict[str, Topic] = {}
        for described in self._ask(lambda: self._admin.describe_topics(wanted)) if wanted else ():  # of none: of all
            if described["error_code"] == NOT_AUTHORIZED:
                raise UsageError(may_not_read(described["name"]))
            if described["error_code"] or not described["partitions"]:
                continue
            name = described["name"]
            numbers = sorted(part["partition_index"] for part in described["partitions"])
            key = str(described["topic_id"]) if described.get("topic_id") else None
            may_read = "READ" in (described.get("authorized_operations") or ["READ"])
            existing[name] = Topic(name, key, [TopicPartition(name, number) for number in numbers], may_read)
        return existing

    def near(self, name: str, *, group: bool = False) -> str:
        """A hint to append to the name of a missing topic or group."""
        known = self.groups() if group else self.topic_names()
        near = ", ".join(get_close_matches(name, known, 3) or known[:5])
        if not near:
            return f"the cluster has no {'groups' if group else 'topics'}"
        return f"{'there are' if group else 'near ones'}: {near}"

    def earliest(self, partitions: Iterable[TopicPartition]) -> Positions:
        """The first available offset of each partition."""
        return self._offsets(partitions, OffsetSpec.EARLIEST)

    def latest(self, partitions: Iterable[TopicPartition]) -> Positions:
        """The end for a `read_committed` reader, by partition: the next offset."""
        return self._offsets(partitions, OffsetSpec.LATEST)

    def ends(self, partitions: Iterable[TopicPartition]) -> Ends:
        """The ends as `latest`, with the epochs of their leaders."""
        found = self._list(dict.fromkeys(partitions, OffsetSpec.LATEST))
        return {key: (value.offset, value.leader_epoch) for key, value in found.items()}

    def epoch_ends(self, epochs: Positions) -> Positions:
        """Where the records of leader epochs up to the given one end, by partition; a log that does not know it is left
        out (KIP-320).
        """

        async def send() -> list[Any]:
            leaders = await self._admin._async_get_leader_for_partitions(set(epochs))
            return [
                await self._admin._manager.send(_epochs_request({p: epochs[p] for p in asked}), node_id=leader)
                for leader, asked in leaders.items()
            ]

        try:
            answers = self._ask(lambda: self._admin._manager.run(send))
        except _TooOldError:
            return {}
        found: Positions = {}
        for topic in (topic for answer in answers for topic in answer.topics):
            for part in topic.partitions:
                if part.error_code:
                    raise RunError(
                        f"the Kafka cluster at {self.config.bootstrap} does not say where leader epochs of "
                        f"{topic.topic}-{part.partition} end (error {part.error_code})"
                    )
                if part.end_offset >= 0:
                    found[TopicPartition(topic.topic, part.partition)] = part.end_offset
        return found

    def greatest_timestamps(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """Greatest record timestamp (ms) and its offset, by partition with records (`MAX_TIMESTAMP`, KIP-734)."""
        newest = self._list(dict.fromkeys(partitions, OffsetSpec.MAX_TIMESTAMP))
        return {key: (value.timestamp, value.offset) for key, value in newest.items() if value.timestamp >= 0}

    def at_time(self, partitions: Iterable[TopicPartition], time_ms: int) -> Positions:
        """The first offset whose record timestamp is at or after a time, else the end, by partition."""
        known = list(partitions)
        offsets = self._list(dict.fromkeys(known, max(0, time_ms)))
        ends = self.latest(known)
        return {key: value.offset if value.offset >= 0 else ends[key] for key, value in offsets.items()}

    def committed(self, group: str) -> Positions:
        """The offsets that a consumer group has committed; empty if it has none, or does not exist."""
        return {partition: commit.offset for partition, commit in self.commits(group).items()}

    def commits(self, group: str) -> dict[TopicPartition, Commit]:
        """The commits of a consumer group; empty if it has none, or does not exist."""
        commits = self._ask(lambda: self._admin.list_group_offsets({group: None})).get(group, {})
        return {key: Commit(value.offset, value.metadata) for key, value in commits.items() if value.offset >= 0}

    def members(self, group: str) -> int | None:
        """How many members a group has; None: the broker does not say, or it never had any: its readers only commit."""
        found = self._ask(lambda: self._admin.describe_groups([group])).get(group, {})
        return None if found.get("error") or not found.get("protocol_type") else len(found["members"])

    def ask_coordinator(self, group: str, request: Any) -> Any:
        """A group coordinator's answer to a request of kafka-python, as it decodes it; None: the broker is too old."""

        async def send() -> Any:
            node = await self._admin._find_coordinator_id(group)
            return await self._admin._manager.send(request, node_id=node)

        try:
            return self._ask(lambda: self._admin._manager.run(send))
        except _TooOldError:
            return None

    def groups(self) -> list[str]:
        """All consumer groups visible to this client."""
        return sorted(self.listed_groups())

    def listed_groups(self) -> dict[str, dict[str, Any]]:
        """What the cluster lists of each of them: `group_state` and `group_type`, if the broker is new enough."""
        return {group["group_id"]: group for group in self._ask(self._admin.list_groups)}

    def _offsets(self, partitions: Iterable[TopicPartition], spec: Any) -> Positions:
        return {key: value.offset for key, value in self._list(dict.fromkeys(partitions, spec)).items()}

    def _list(self, specs: dict[TopicPartition, Any]) -> dict[TopicPartition, Any]:
        if not specs:
            return {}
        return self._ask(
            lambda: self._admin.list_partition_offsets(specs, IsolationLevel.READ_COMMITTED, timeout_ms=ASK_MS)
        )

    def _ask(self, ask: Callable[[], Answer]) -> Answer:
        """The answer; waits while a leader or coordinator is being elected."""
        deadline = time.monotonic() + ASK_MS / 1_000
        while True:
            try:
                return ask()
            except IncompatibleBrokerVersion as error:
                raise _TooOldError(self._in_words(error)) from None
            except (KafkaError, OSError, ValueError) as error:
                if not isinstance(error, _ELECTING) or time.monotonic() > deadline:
                    raise RunError(self._in_words(error)) from None
            time.sleep(_ELECTING_S)

    def _in_words(self, error: Exception) -> str:
        if isinstance(error, _SILENT):
            return f"no Kafka broker answers at {self.config.bootstrap}"
        return f"the Kafka cluster at {self.config.bootstrap} gave no answer: {first_line(error)}"


def _epochs_request(epochs: Positions) -> OffsetForLeaderEpochRequest:
    """The request for the ends of these epochs of partitions that one broker leads."""
    topics = [
        _EPOCHS_TOPIC(
            topic=topic,
            partitions=[
                _EPOCHS_TOPIC.OffsetForLeaderPartition(
                    partition=int(number), current_leader_epoch=-1, leader_epoch=epoch
                )
                for number, epoch in parts.items()
            ],
        )
        for topic, parts in offsets_of(epochs).items()
    ]
    return OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)


def consumer_of(config: KafkaConfig, **options: Any) -> Any:
    """A consumer that reads committed records without a group, and commits nothing."""
    bound_codecs()
    settings: dict[str, Any] = {
        "client_id": "wmtop",
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "isolation_level": "read_committed",
        "allow_auto_create_topics": False,
    }
    return KafkaConsumer(**_BACKOFF | config.for_python() | settings | options)


def may_not_read(topic: str) -> str:
    """What to do about a topic that this client may not read."""
    return f"not allowed to read the topic {topic}: ask for the right to READ it, or use another user (--kafka-config)"


def time_in(record: Record, path: JsonPath, unit: TimeUnit = "auto") -> int | None:
    """The time (ms) in a record's value; None if it is not JSON, or has no such field or no time."""
    return time_of(path.of(_decoded(record)), unit)


def why_none_in(record: Record, path: JsonPath) -> tuple[str | None, WhyNoTime]:
    """What a record without a usable time at `path` has there, as text, and why that is no time."""
    value = _decoded(record)
    if value is None:
        return (record.value or b"").decode(errors="replace") or None, "not_json" if record.value else "missing"
    field = path.of(value)
    text = field if isinstance(field, str) else msgspec.json.encode(field).decode()
    return None if field is None else text, why_no_time(field)


def look_for_times(
    cluster: Cluster, partitions: list[TopicPartition], path: JsonPath, unit: TimeUnit = "auto"
) -> str | None:
    """As what times in the latest records are read, None without any; UsageError if no record has the field."""
    peek = Peek(cluster.config)
    back = dict.fromkeys(partitions, _SAMPLED)
    try:
        tails = peek.tails(cluster.latest(partitions), cluster.earliest(partitions), back)
    finally:
        peek.close()
    records = [record for partition in partitions for record in tails.get(partition, ())]
    values = [value for record in records if (value := _decoded(record)) is not None]
    times = [field for value in values if (field := path.of(value)) is not None]
    if not values and (filled := sum(bool(record.value) for record in records)):
        instead = "leave out --time to see the records' own timestamps"
        raise UsageError(f"--time {path}: none of the last {filled} records is JSON; {instead}")
    if values and not times:
        near = near_paths(path, values)
        hint = f"; near ones: {', '.join(near)}" if near else ""
        raise UsageError(f"--time {path}: none of the last {len(values)} records has it{hint}")
    return formats_of(times, [time_of(value, unit) for value in times], unit)


def _decoded(record: Record) -> Any:
    value = record.value
    if not value:
        return None
    try:
        return msgspec.json.decode(value[5:] if value[:1] == b"\0" else value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # what msgspec raises on malicious input
        return None


class Peek:
    """Reads without a group and without committing; RunError if the cluster does not answer."""

    def __init__(self, config: KafkaConfig) -> None:
        self._config = config
        self._consumer: Any = None

    def before(self, offsets: Positions, first: Positions) -> dict[TopicPartition, Record]:
        """The last record before each offset, if there is one close by; `first` are the first available offsets."""
        return {partition: records[-1] for partition, records in self.tails(offsets, first, {}).items()}

    def tails(
        self, offsets: Positions, first: Positions, back: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, list[Record]]:
        """The last records before each offset, in order, from `back` (at least 8) offsets before it."""
        with_records = {p: offset for p, offset in offsets.items() if offset > first.get(p, 0)}
        if not with_records:
            return {}
        try:
            return self._before(with_records, first, back)
        except CorruptRecordError as error:
            self.close()
            topics = ", ".join(sorted({partition.topic for partition in with_records}))
            raise RunError(f"cannot read the last records of {topics}: {error.args[0]}") from None
        except (KafkaError, OSError, ValueError) as error:
            self.close()
            raise RunError(
                f"the Kafka cluster at {self._config.bootstrap} gave no answer: {first_line(error)}"
            ) from None

    def close(self) -> None:
        """Disconnect."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close(autocommit=False, timeout_ms=1_000)

    def _before(
        self, offsets: Positions, first: Positions, back: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, list[Record]]:
        if self._consumer is None:
            self._consumer = consumer_of(self._config, max_partition_fetch_bytes=64 * 1024, fetch_max_wait_ms=_POLL_MS)
        consumer = self._consumer
        consumer.assign(list(offsets))
        consumer.resume(*offsets)  # a partition that stays assigned stays paused
        for partition, offset in offsets.items():
            consumer.seek(partition, max(first.get(partition, 0), offset - max(_BACK, back.get(partition, 0))))
        tails: dict[TopicPartition, list[Record]] = {}
        left: list[TopicPartition] = list(offsets)
        deadline = time.monotonic() + WITHIN_S
        while left and time.monotonic() < deadline:
            found = consumer.poll(timeout_ms=_POLL_MS)
            for partition, records in found.items():
                for raw in records:
                    if raw.offset < offsets[partition]:
                        stamp = raw.timestamp if raw.timestamp is not None and raw.timestamp >= 0 else None
                        record = Record(partition, raw.offset, stamp, raw.key, raw.value)
                        tails.setdefault(partition, []).append(record)
            done = {p for p, records in found.items() if records[-1].offset + 1 >= offsets[p]}
            # Where the last offsets are control records, only the position shows that they are passed.
            answered: list[TopicPartition] = list(found) or left
            asked = set(islice((p for p in answered if p not in done), _POSITIONS))
            done |= {p for p in asked if (consumer.position(p, timeout_ms=1_000) or 0) >= offsets[p]}
            left = [p for p in (*(p for p in left if p not in asked), *asked) if p not in done]
            consumer.pause(*done)
        return tails
