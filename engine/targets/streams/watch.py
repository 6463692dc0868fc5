"""A consumer group with all its topics as a target: the clocks of a Kafka Streams application, else one watermark."""

import time

from msgspec.structs import replace

from ...kafka.client_settings import KafkaConfig, kafka_config
from ...kafka.cluster import TopicPartition
from ...snapshot import (
    UNCOUNTED,
    ChannelView,
    ConsumerGroup,
    EngineState,
    KafkaStreams,
    Note,
    Snapshot,
    SourceView,
    StreamsApplication,
    Windows,
)
from ...snapshot.continuity import changed_ms
from ...system.errors import UsageError, one_line
from ...watermarks.counts import NOTHING_COUNTED, RateMeter
from ...watermarks.settings import Settings, Tumbling
from ..own import name_of
from ..target import NOT_KNOWN, AttachedTarget, Target, TargetOptions
from ..topic import RECORD, PartitionFacts, TopicFacts
from ..topic.broker import time_path
from ..topic.consumer import TopicWatch, no_member, positions_of
from ..topic.unread import behind_end_ms, unread_now
from .clocks import CommittedTime, WindowRule, channel_of, clocks_of
from .group import GroupFacts, GroupTap, has_suppress

_HOUR_MS = 3_600_000
_ORIGIN = {"channels": "commits", "clocks": "commits", "sources": "broker", "positions": "consumer group"}


def open_group(address: str, options: TargetOptions) -> AttachedTarget:
    """The group at `kafka://BOOTSTRAP`, which must exist."""
    bootstrap = address.removeprefix("kafka://").rstrip("/")
    if not bootstrap or options.group is None:
        raise UsageError(
            f"{one_line(address)} needs a topic, e.g. kafka://localhost:9092/orders, or --group G for all topics of G"
        )
    watch = GroupWatch(kafka_config(bootstrap, options.kafka_config), options.group, options)
    watch.open()
    return AttachedTarget(watch, name_of(options.group))


class GroupWatch(Target[GroupFacts]):
    """A group, read by its commits; from the first commit of Kafka Streams on it is an application of it."""

    step = "asking the Kafka cluster"

    def __init__(self, config: KafkaConfig, group: str, options: TargetOptions) -> None:
        self._config = config
        self._group = group
        self._options = options
        self._rule = WindowRule(options.window, options.grace)
        if options.window is not None and (options.window < 1 or options.grace is None):
            raise UsageError("--window needs a size longer than 0 and a --grace, e.g. --window 5m --grace 1m")
        path = time_path(options.time)
        self._tap = GroupTap(config, group, path=path)
        self._is_open = False
        self._plain: TopicWatch | None = None
        self._channels = StreamChannels(timed=options.time is not None)
        self._source = SourceView(
            kind="group",
            description=f"Kafka Streams application {group} at {config.bootstrap}",
            bootstrap=config.bootstrap,
            time_column=None if options.time is None else RECORD if path is None else str(path),
        )

    @property
    def settings(self) -> Settings:
        """The windows that the user names; for a plain group the rules for computing its watermark."""
        if self._plain is not None and not self._tap.facts.is_streams:
            return self._plain.settings
        return replace(NOT_KNOWN, window=None if self._rule.window_ms is None else Tumbling(self._rule.window_ms))

    @property
    def empty(self) -> KafkaStreams | ConsumerGroup:
        """Its part of a snapshot while nothing is known of it."""
        if self._plain is not None and not self._tap.facts.is_streams:
            return ConsumerGroup()
        return KafkaStreams([], StreamsApplication(self._group, None, None))

    def describe(self) -> SourceView:
        """The group, and what it is."""
        if self._plain is not None and not self._tap.facts.is_streams:
            return replace(self._plain.describe(), time_unit=self._source.time_unit, cluster=self._source.cluster)
        return self._source

    def open(self) -> None:
        """Connect; UsageError for a group that cannot be watched, or an option that has no effect on it."""
        if self._is_open:
            return
        try:
            time_unit = self._tap.open()
            self._source = replace(self._source, time_unit=time_unit, cluster=self._tap.cluster)
            self._recognise(self._tap.poll())
        except BaseException:
            self._tap.close()
            raise
        self._is_open = True

    def _recognise(self, facts: GroupFacts) -> None:
        options = self._options
        if facts.is_streams:
            options.refuse(("lateness", "idle_after"), "for a Kafka Streams application")
            return
        options.refuse(("window", "grace"), f"for {self._group}, which is not a Kafka Streams application")
        self._plain = TopicWatch(self._config, ", ".join(sorted({p.topic for p in facts.topics.partitions})), options)

    def poll(self) -> GroupFacts:
        """The present facts."""
        return self._tap.poll()

    def close(self) -> None:
        """Disconnect."""
        self._tap.close()
        self._is_open = False

    def picture(self, name: str, facts: GroupFacts, now_ms: int) -> Snapshot:
        """The snapshot of one poll's facts at `now_ms` (epoch ms)."""
        if self._plain is not None and not facts.is_streams:
            return replace(self._plain.picture(name, facts.topics, now_ms), source=self.describe())
        return self._application(name, facts, now_ms)

    def _application(self, name: str, facts: GroupFacts, now_ms: int) -> Snapshot:
        topics, members = facts.topics, facts.members
        trouble = topics.trouble
        state: EngineState = "live" if trouble is None else "stale"
        partitions = [TopicPartition(p.topic, p.partition) for p in topics.partitions]
        empty = {TopicPartition(p.topic, p.partition) for p in topics.partitions if p.end == 0}
        again = {channel_of(partition): seen for partition, seen in facts.reprocessed.items()}
        clocks = clocks_of(partitions, facts.times, members.topology, self._rule, empty)
        stores = members.stores | {store for each in facts.times.values() for store in each.closed_to_ms}
        return Snapshot(
            name=name,
            state=state,
            now_ms=now_ms,
            wall_ms=now_ms,
            settings=self.settings,
            source=self._source,
            channels=self._channels.views(topics, facts.times, now_ms),
            windows=Windows(open_count=None, fired=None, late_firings=None, unknown="not_in_broker"),
            totals=NOTHING_COUNTED,
            target=KafkaStreams(
                clocks=[replace(clock, reprocessed=again.get(clock.channels[0])) for clock in clocks],
                streams=StreamsApplication(
                    id=self._group,
                    protocol=members.protocol,
                    state=members.state,
                    members=members.members,
                    stores=sorted(stores),
                    suppress=True if has_suppress(members.stores) else None,
                    window_ms=self._rule.window_ms,
                    grace_ms=self._rule.grace_ms,
                ),
                sources=positions_of(topics, is_known=trouble is None),
            ),
            origin=_ORIGIN,
            notes=no_member(topics, now_ms) if trouble is None else [Note(now_ms, "broker_silent", {"why": trouble})],
        )


class StreamChannels:
    """The partitions over time: since when each stream time is frozen, and when the last record came (where none ever
    did: since when it is watched)."""

    def __init__(self, *, timed: bool) -> None:
        """`timed`: the user says where in a record its event time is."""
        self._timed = timed
        self._rates = RateMeter()
        self._seen: dict[TopicPartition, tuple[int, int | None]] = {}
        """The last end and stream time."""
        self._since: dict[TopicPartition, int | None] = {}
        self._came: dict[TopicPartition, int] = {}
        """When the last record came."""

    def views(self, topics: TopicFacts, times: dict[TopicPartition, CommittedTime], now_ms: int) -> list[ChannelView]:
        """The channels at `now_ms`, by topic and number."""
        found = {TopicPartition(p.topic, p.partition): p for p in topics.partitions}
        is_silent = topics.trouble is not None
        if not is_silent:
            self._note(found, times, now_ms)
        rates = self._rates.rates(time.monotonic(), {channel_of(at): p.end for at, p in found.items()})
        views: list[ChannelView] = []
        for at, p in sorted(found.items()):
            time_ms = times[at].time_ms if at in times else None
            unread = unread_now(p, topics)
            if p.position is None and p.is_empty and not is_silent:
                unread = 0
            came_ms = self._came.get(at) if unread == 0 else None
            views.append(
                replace(
                    UNCOUNTED,
                    channel=channel_of(at),
                    watermark_ms=time_ms,
                    max_event_ms=time_ms,
                    state="never_seen" if time_ms is None else "active",
                    backlog=unread,
                    behind_end_ms=None if is_silent else self._behind_end(p, time_ms),
                    quiet_ms=None if came_ms is None else max(0, now_ms - came_ms),
                    rate=rates.get(channel_of(at)),
                    since_ms=self._since.get(at),
                )
            )
        return views

    def _note(
        self, found: dict[TopicPartition, PartitionFacts], times: dict[TopicPartition, CommittedTime], now_ms: int
    ) -> None:
        """Note what changed since the last poll."""
        if not self._seen:
            self._came = _arrivals(found, now_ms) | {at: now_ms for at, p in found.items() if p.end == 0}
        for at, p in found.items():
            time_ms = times[at].time_ms if at in times else None
            end, before_ms = self._seen.get(at, (p.end, time_ms))
            self._since[at] = changed_ms(time_ms, (before_ms, self._since.get(at)), now_ms)
            if p.end != end:
                self._came[at] = now_ms
            self._seen[at] = p.end, time_ms

    def _behind_end(self, partition: PartitionFacts, time_ms: int | None) -> int | None:
        """How far the stream time is behind the newest record; None: not known.

        Without the user's word a record's own timestamp counts if the greatest one read is the stream time: then the
        application uses it, too.
        """
        is_of_records = self._timed or partition.event_ms == time_ms
        return behind_end_ms(partition, time_ms) if is_of_records else None


def _arrivals(found: dict[TopicPartition, PartitionFacts], now_ms: int) -> dict[TopicPartition, int]:
    """When the last records came before they were watched: by their timestamps, if some of these look like arrivals."""
    stamps = {at: p.arrived_ms for at, p in found.items() if p.arrived_ms is not None and p.arrived_ms <= now_ms}
    return stamps if any(now_ms - ms <= _HOUR_MS for ms in stamps.values()) else {}
