"""A topic or a consumer group as a barrel: the watermark that a job with the bounded strategy would compute from the
broker's times.
"""

import time

from msgspec.structs import replace

from ...kafka.client_settings import KafkaConfig, kafka_config
from ...snapshot import (
    ChannelView,
    Condition,
    ConsumerGroup,
    EngineState,
    KafkaTopic,
    Note,
    Snapshot,
    SourcePosition,
    SourceView,
    Uncommitted,
)
from ...system.errors import UsageError, one_line
from ...verdict.evidence import Picture
from ...verdict.monitor_snapshot import snapshot_of
from ...watermarks.channels import Unread
from ...watermarks.counts import NOTHING_COUNTED, RateMeter
from ...watermarks.monitor import new_monitor
from ...watermarks.observation import BatchObservation, Group
from ...watermarks.settings import Settings
from ..clock import MIN_SKEW_MS
from ..own import name_of
from ..target import AttachedTarget, JudgedTarget, TargetOptions
from . import RECORD, PartitionFacts, TopicFacts
from .broker import TopicTap, time_path
from .unread import behind_end_ms, least_unread, unread_now
from .verdict_evidence import evidence_of_group, evidence_of_topic

_HOUR_MS = 3_600_000
COMMITTED_WITHIN_MS = 15_000
"""For how long (ms) the records of a commit say how many are usually on their way; clients commit every 5 s."""
_IDLE_AFTER_MS = 7_200_000
_ORIGIN = {"channels": "broker", "sources": "broker", "level": "broker"}


def open_topic(address: str, options: TargetOptions) -> AttachedTarget:
    """The topic or group at `kafka://BOOTSTRAP/TOPIC`."""
    bootstrap, _, topic = address.removeprefix("kafka://").partition("/")
    if not bootstrap or not topic or "/" in topic:
        raise UsageError(f"{one_line(address)} is not kafka://BOOTSTRAP/TOPIC, e.g. kafka://localhost:9092/orders")
    watch = TopicWatch(kafka_config(bootstrap, options.kafka_config), topic, options)
    options.refuse(("window", "grace"), "for one topic; a Kafka Streams application is kafka://BOOTSTRAP --group APP")
    return AttachedTarget(watch, name_of(options.group or topic))


class TopicWatch(JudgedTarget[TopicFacts]):
    """A topic, each partition a channel, read up to the position of the group in `options`, without one to its end.

    Facts about several topics of a group are shown the same way.
    """

    step = "asking the Kafka cluster"

    def __init__(self, config: KafkaConfig, topic: str, options: TargetOptions) -> None:
        group, path = options.group, time_path(options.time)
        self._tap = TopicTap(config, [topic], group=group, path=path)
        self._group = group
        idle_after_ms = _IDLE_AFTER_MS if options.idle_after is None else options.idle_after
        self._rules = Settings(
            lateness_ms=options.lateness or 0,
            idle_after_ms=None if idle_after_ms < 0 else idle_after_ms,
            future_guard_ms=None,
            emit_every_ms=1_000,
            window=None,
        )
        whose = f"{topic} at {config.bootstrap}"
        self._source = SourceView(
            kind="topic" if group is None else "group",
            description=whose if group is None else f"group {group} on {whose}",
            time_column=RECORD if path is None else str(path),
        )
        self._reset(TopicFacts())

    @property
    def empty(self) -> KafkaTopic | ConsumerGroup:
        """Its part of a snapshot while nothing is known of it."""
        return KafkaTopic() if self._group is None else ConsumerGroup()

    def describe(self) -> SourceView:
        """The topic, and the reader that is watched."""
        return self._source

    def open(self) -> None:
        """Connect; UsageError for a topic or group that cannot be watched."""
        time_unit = self._tap.open()
        self._source = replace(self._source, time_unit=time_unit, cluster=self._tap.cluster)

    def poll(self) -> TopicFacts:
        """The broker's present facts."""
        return self._tap.poll()

    def close(self) -> None:
        """Disconnect."""
        self._tap.close()

    def picture(self, name: str, facts: TopicFacts, now_ms: int) -> Picture:
        """One poll's facts at `now_ms` (epoch ms)."""
        positions = positions_of(facts, is_known=self._group is not None and facts.trouble is None)
        shown = self._snapshot(name, facts, now_ms)
        if self._group is None:
            shown = replace(shown, target=KafkaTopic(positions), origin=_ORIGIN)
            return Picture(shown, evidence_of_topic(shown))
        shown = replace(shown, target=ConsumerGroup(positions), origin={**_ORIGIN, "positions": "consumer group"})
        return Picture(shown, evidence_of_group(shown, positions))

    def _snapshot(self, name: str, facts: TopicFacts, now_ms: int) -> Snapshot:
        """What is the same of a topic and a group."""
        if facts.ids != self._facts.ids or _has_gone_back(self._facts, facts):
            self._reset(facts)
        unread, since = self._unread(facts, now_ms), self._monitor.now_ms
        if since is not None and now_ms > since:  # a partition with unread records is slow, not quiet
            self._monitor.exclude(now_ms - since, now_ms, unread.not_quiet())
        if facts is not self._facts:
            self._take(facts, now_ms)
        self._monitor.tick_until(now_ms)
        state: EngineState = "live" if facts.trouble is None else "stale"
        seen = snapshot_of(
            self._monitor,
            name=name,
            state=state,
            wall_ms=now_ms,
            now_ms=now_ms,
            source=self._source,
            rates=self._rates.rates(time.monotonic(), {n: _at(p) or 0 for n, p in _named(facts).items()}),
            unread=unread,
            notes=_notes(facts, now_ms, is_group=self._group is not None),
        )
        return replace(  # its records come only from our polls
            seen,
            batch=None,
            whatif_idle=None,
            channels=_channels(seen.channels, facts),
            windows=replace(seen.windows, unknown="not_in_broker"),
            totals=NOTHING_COUNTED,
            condition=_condition(facts, is_group=self._group is not None),
        )

    def _reset(self, facts: TopicFacts) -> None:
        self._monitor = new_monitor(self._rules)
        self._rates = RateMeter()
        self._facts = TopicFacts(ids=facts.ids)
        self._advance: dict[str, tuple[int, int]] = {}
        """Records between the last two positions of a partition, and when that was seen (epoch ms)."""
        self._batch = 0

    def _take(self, facts: TopicFacts, now_ms: int) -> None:
        """Let the monitor see all changes since the last facts."""
        before = {name: _at(p) for name, p in _named(self._facts).items()}
        named = _named(facts)
        for name, p in named.items():
            if name in before and (read := (_at(p) or 0) - (before[name] or 0)) > 0:
                self._advance[name] = (read, now_ms)
        fresh = {name: p for name, p in named.items() if p.event_ms is not None and _at(p) != before.get(name)}
        unread = [name for name, p in named.items() if p.is_unread]
        first, self._facts = not self._facts.partitions, facts
        if first:
            self._begin(fresh, unread, now_ms)
            return
        self._monitor.add_channels(unread, now_ms)
        if fresh:
            self._observe(fresh, now_ms)

    def _begin(self, fresh: dict[str, PartitionFacts], unread: list[str], now_ms: int) -> None:
        """A partition with nothing unread has been quiet since its last record arrived, not since the first poll.

        Arrival is judged by record timestamps, if some of them look like arrivals: a replay's may be years old.
        `unread` holds the watermark back, as it does in a job that has read none of its records.
        """
        arrived = self._arrivals(fresh, now_ms)
        moments = sorted(set(arrived.values()))
        self._monitor.add_channels(unread, min(moments, default=now_ms))
        unread = [*unread, *(name for name, p in fresh.items() if p.unread)]
        for number, moment in enumerate(moments):
            # All channels exist from the first moment, so that none joins an existing watermark.
            here = {name: p for name, p in fresh.items() if number == 0 or arrived[name] == moment}
            self._observe(here, moment)
            until = moments[number + 1] if number + 1 < len(moments) else now_ms
            for tick in (1, 2):  # now every idleness clock runs
                self._monitor.tick(moment + tick)
            later = [name for name, time_ms in arrived.items() if time_ms > moment]
            self._monitor.exclude(until - moment, until, unread + later)
            self._monitor.tick_until(until)
        self._monitor.heard_at(arrived, now_ms)
        if unread or any(_is_ahead(p, now_ms) for p in fresh.values()):
            # When the others were read, or when records of our future came, is not known.
            self._monitor.history.moved_ms = None

    def _arrivals(self, fresh: dict[str, PartitionFacts], now_ms: int) -> dict[str, int]:
        """When the last record of each partition arrived (epoch ms); `now_ms` for all of them if all are too old."""
        arrived = {name: _arrived_ms(p, now_ms) for name, p in fresh.items()}
        after = self._rules.idle_after_ms or _HOUR_MS
        is_old = all(now_ms - time_ms > after for time_ms in arrived.values())
        return dict.fromkeys(arrived, now_ms) if is_old else arrived

    def _observe(self, partitions: dict[str, PartitionFacts], now_ms: int) -> None:
        groups = [
            Group(
                channel=name,
                start_ms=p.event_ms,
                head=False,
                records=self._advance.get(name, (1, 0))[0],
                min_ms=p.event_ms,
                max_ms=p.event_ms,
                max_event_ms=p.event_ms,
            )
            for name, p in partitions.items()
            if p.event_ms is not None
        ]
        self._monitor.apply(BatchObservation(batch=self._batch, now_ms=now_ms, groups=groups))
        self._batch += 1

    def _unread(self, facts: TopicFacts, now_ms: int) -> Unread:
        if facts.trouble is not None:
            return Unread(None, {})
        lags = {name: p.unread or 0 for name, p in _named(facts).items()}
        passing = {name: read for name, (read, at_ms) in self._advance.items() if now_ms - at_ms <= COMMITTED_WITHIN_MS}
        return Unread(sum(lags.values()), lags, passing=sum(passing.values()), passing_by_channel=passing)


def positions_of(facts: TopicFacts, *, is_known: bool) -> list[SourcePosition]:
    """The positions by topic, and their unread records if they are known."""
    topics: dict[str, list[PartitionFacts]] = {}
    for p in facts.partitions:
        topics.setdefault(p.topic, []).append(p)
    positions: list[SourcePosition] = []
    for topic, partitions in topics.items():
        at = {f"{topic}/{p.partition}": found for p in partitions if (found := _at(p)) is not None}
        unread = least_unread(partitions)
        is_certain = unread > 0 or all(p.is_empty or p.unread is not None for p in partitions)  # else it may not be 0
        what = f"kafka {topic}, {len(partitions):,} partition{'s' * (len(partitions) != 1)}"
        positions.append(SourcePosition(what, at, unread if is_known and is_certain else None))
    return positions


def _named(facts: TopicFacts) -> dict[str, PartitionFacts]:
    """The partitions by the names of their channels: their numbers, with several topics `orders-3`."""
    several = len({p.topic for p in facts.partitions}) > 1
    return {f"{p.topic}-{p.partition}" if several else str(p.partition): p for p in facts.partitions}


def _has_gone_back(before: TopicFacts, now: TopicFacts) -> bool:
    """Whether the group reads records again: its offsets were reset, so its watermark is that of the older records."""
    reached = {(p.topic, p.partition): p.position for p in before.partitions if p.position is not None}
    return any(p.position < reached.get((p.topic, p.partition), 0) for p in now.partitions if p.position is not None)


def _at(partition: PartitionFacts) -> int | None:
    """The group's position, else the end."""
    if partition.position is not None:
        return partition.position
    return None if partition.event_ms is None else partition.end


def _arrived_ms(partition: PartitionFacts, now_ms: int) -> int:
    """When the last record that has been read arrived; for a group that is behind: about now."""
    if partition.unread or partition.arrived_ms is None:
        return now_ms
    return min(partition.arrived_ms, now_ms)


def _is_ahead(partition: PartitionFacts, now_ms: int) -> bool:
    """Whether its last record has a timestamp in our future: that shows nothing of when it came."""
    return partition.arrived_ms is not None and partition.arrived_ms > now_ms + MIN_SKEW_MS


def _channels(seen: list[ChannelView], facts: TopicFacts) -> list[ChannelView]:
    """The partitions by topic and number; only unread records can be counted here."""
    known, views = {view.channel: view for view in seen}, list[ChannelView]()
    for name, partition in _named(facts).items():
        view = known.get(name) or ChannelView(name, None, None, "never_seen")
        unread = unread_now(partition, facts)
        views.append(
            replace(
                view,
                records=None,
                behind_watermark=None,
                late=None,
                malformed=None,
                future=None,
                backlog=unread,
                behind_end_ms=None if unread is None else behind_end_ms(partition, view.max_event_ms),
                longest_quiet_ms=None,
                round_ms=None,
            )
        )
    return views


def _counted(partitions: dict[str, PartitionFacts]) -> dict[str, str | int | None]:
    """The arguments of a note about some partitions: how many, and the name of the first one."""
    return {"partitions": len(partitions), "partition": _first(partitions)}


def _first(partitions: dict[str, PartitionFacts]) -> int | str:
    first = next(iter(partitions))
    return int(first) if first.isdecimal() else first


def _notes(facts: TopicFacts, now_ms: int, *, is_group: bool) -> list[Note]:
    """What the broker does not report, and partitions that hold back a real job but not the watermark drawn here."""
    notes = [] if facts.trouble is None else [Note(now_ms, "broker_silent", {"why": facts.trouble})]
    no_times = {name: p for name, p in _named(facts).items() if p.event_ms is None and not p.is_unread}
    left_out = _uncommitted(facts) if is_group else {}
    if left_out:
        notes.append(Note(now_ms, "partitions_uncommitted", _counted(left_out) | {"records": _records(left_out)}))
    unseen = {name: p for name, p in no_times.items() if name not in left_out}
    records, is_all = _records(unseen), len(no_times) == len(facts.partitions)
    if unseen and (records or not is_all):
        numbers = {"records": records, "unread": least_unread(unseen.values()), "all": int(is_all)}
        known = {name: number for name, number in numbers.items() if number}
        notes.append(Note(now_ms, "partitions_unseen", _counted(unseen) | known))
    return notes + no_member(facts, now_ms)


def no_member(facts: TopicFacts, now_ms: int) -> list[Note]:
    """That records are unread and the group has no member to read them."""
    unread = unread_alone(facts)
    return [Note(now_ms, "no_member", {"unread": unread})] if unread else []


def unread_alone(facts: TopicFacts) -> int:
    """How many records are unread, at least, while the group has no member to read them."""
    return 0 if facts.members != 0 else least_unread(facts.partitions)


def _uncommitted(facts: TopicFacts) -> dict[str, PartitionFacts]:
    """The partitions with records, on which the group has committed nothing."""
    return {
        name: p
        for name, p in _named(facts).items()
        if p.event_ms is None and not p.is_unread and p.position is None and not p.is_empty
    }


def _records(partitions: dict[str, PartitionFacts]) -> int:
    return sum(p.end - p.first for p in partitions.values())


def _condition(facts: TopicFacts, *, is_group: bool) -> Condition:
    left_out = _uncommitted(facts) if is_group else {}
    return Condition(
        source_silent=facts.trouble,
        no_member=unread_alone(facts) > 0,
        uncommitted=Uncommitted(len(left_out), _first(left_out), _records(left_out)) if left_out else None,
    )
