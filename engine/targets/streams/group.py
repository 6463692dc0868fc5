"""Queries the broker about a consumer group with all its topics, without joining it: commits, ends, members, tasks."""

import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, Literal

from kafka.protocol.admin import DescribeGroupsRequest  # pyright: ignore[reportMissingTypeStubs]
from kafka.protocol.api_message import ApiMessage  # pyright: ignore[reportMissingTypeStubs]
from msgspec import Struct, UnsetType
from msgspec.structs import replace

from ...kafka.client_settings import KafkaConfig
from ...kafka.cluster import Cluster, Commit, Positions, TopicPartition
from ...snapshot import Reprocessed
from ...system import clock
from ...system.errors import RunError, UsageError
from ...system.json_values import JsonPath
from ..topic import PartitionFacts, TopicFacts
from ..topic.broker import MAX_BACK, TOPIC_EVERY_S, TopicTap
from .clocks import CommittedTime, Times, Topology, assigned_tasks, channel_of, decode_metadata

_HERE = sys.modules[__package__ or ""]
NAMES_EVERY_S = 60.0
"""Seconds between two looks at the names of all topics, for changelogs."""
_SUPPRESS = "KTABLE-SUPPRESS-STATE-STORE"
_REPARTITION, _CHANGELOG = "-repartition", "-changelog"
_Task = tuple[str, int]
_TimesBetween = Callable[[Positions, Positions], dict[TopicPartition, list[int | None]]]
"""The event times of the records from one offset up to another."""


class StreamsGroupDescribeRequest(ApiMessage, load_json=_HERE):
    """KIP-1071's description of a `streams` group, which kafka-python does not have; Kafka's own schema."""


class StreamsGroupDescribeResponse(ApiMessage, load_json=_HERE):
    """The answer to it."""


class Members(Struct, frozen=True):
    """What the broker says of the group besides its commits; None: not known."""

    protocol: Literal["classic", "streams"] | None = None
    state: str | None = None
    members: int | None = None
    is_streams: bool = False
    """The protocol itself says that it is a Kafka Streams application."""
    topology: Topology = Topology()
    owners: dict[TopicPartition, str] = {}
    """The id of the member that reads a partition; while the group rebalances, the one before."""
    stores: frozenset[str] = frozenset()
    """The stores that changelogs name."""


class GroupFacts(Struct, frozen=True, kw_only=True):
    """The broker's facts about a group at one moment."""

    topics: TopicFacts = TopicFacts()
    """The group's topics, with its position in each partition."""
    times: dict[TopicPartition, CommittedTime] = {}
    """What Kafka Streams committed, by partition."""
    is_streams: bool = False
    """It is, or has been since it is watched, a Kafka Streams application."""
    members: Members = Members()
    reprocessed: dict[TopicPartition, Reprocessed] = {}
    """What its task processed again after a restart, by partition."""


class GroupTap:
    """Queries once per poll; members, tasks and topics every few seconds."""

    def __init__(self, config: KafkaConfig, group: str, *, path: JsonPath | None = None) -> None:
        self._config = config
        self._group = group
        self._cluster: Cluster | None = None
        self._tap = TopicTap(config, (), path=path)
        self._looked_s = self._named_s = float("-inf")
        self._changelogs: frozenset[str] = frozenset()
        self._last = GroupFacts()
        self._positions: Positions = {}
        self._restarts = Restarts(timed=path is not None)

    @property
    def facts(self) -> GroupFacts:
        """The last facts."""
        return self._last

    def open(self) -> str | None:
        """Connect; returns the format of times in the values, if used. UsageError for a group without topics."""
        cluster = self._cluster = Cluster(self._config)
        commits = cluster.commits(self._group)
        topics = self._look(cluster, commits)
        if not topics and not self._last.is_streams:
            raise UsageError(f"the group {self._group} has committed nothing; {cluster.near(self._group, group=True)}")
        self._tap.watch(topics)
        return self._tap.open()

    @property
    def cluster(self) -> str | UnsetType:
        """The cluster's own id, once it is open and if the cluster reports it."""
        return self._tap.cluster

    def poll(self) -> GroupFacts:
        """The present facts; while the broker does not answer, the last ones with the trouble."""
        assert self._cluster is not None
        try:
            self._last = self._ask(self._cluster)
        except (RunError, UsageError) as error:
            self._looked_s = float("-inf")
            self._last = replace(self._last, topics=replace(self._last.topics, trouble=str(error)))
        return self._last

    def close(self) -> None:
        """Disconnect."""
        self._tap.close()
        if self._cluster is not None:
            self._cluster.close()

    def _ask(self, cluster: Cluster) -> GroupFacts:
        commits = cluster.commits(self._group)
        topics = {partition.topic for partition in commits}
        watched = {partition.topic for partition in self._last.topics.partitions}
        positions = {partition: commit.offset for partition, commit in commits.items()}
        # Whoever committed must be known at once: a new owner's clock begins with its first record.
        is_due = time.monotonic() - self._looked_s > TOPIC_EVERY_S or positions != self._positions
        if is_due or not topics <= watched:
            self._tap.watch(self._look(cluster, commits))
        self._positions = positions
        found = self._tap.poll(positions)
        if found.trouble is not None:  # its positions are not of these commits
            raise RunError(found.trouble)
        found = replace(found, members=self._last.members.members)
        times = _times(commits)
        is_streams = self._last.is_streams or bool(times)
        facts = replace(self._last, topics=found, times=times, is_streams=is_streams)
        now_ms = clock.now_ms()
        return replace(facts, reprocessed=self._restarts.note(self._last, facts, now_ms, self._tap.times_between))

    def _look(self, cluster: Cluster, commits: dict[TopicPartition, Commit]) -> list[str]:
        """Look up members, tasks and topics; the group's topics that exist."""
        members = self._members(cluster)
        is_streams = self._last.is_streams or members.is_streams or bool(_times(commits))
        if is_streams:
            members = self._with_changelogs(cluster, members)
        self._last = replace(self._last, members=members, is_streams=is_streams)
        wanted = sorted({partition.topic for partition in commits} | members.topology.subtopologies.keys())
        existing = cluster.topics(wanted)
        self._looked_s = time.monotonic()
        return [topic for topic in wanted if topic in existing]

    def _members(self, cluster: Cluster) -> Members:
        """The group's members and tasks; tasks that are not reported at the moment are those known before."""
        before = self._last.members
        if before.protocol != "streams" and (found := self._classic(cluster, before)) is not None:
            return found
        return self._streams(cluster, before) or self._listed(cluster, before)

    def _listed(self, cluster: Cluster, before: Members) -> Members:
        """A group that the broker does not describe: only what its list says."""
        listed = cluster.listed_groups().get(self._group, {})
        is_streams = str(listed.get("group_type", "")).lower() == "streams"
        protocol = "streams" if is_streams else before.protocol
        state = listed.get("group_state") or None
        return replace(before, protocol=protocol, state=state, members=None, is_streams=is_streams)

    def _classic(self, cluster: Cluster, before: Members) -> Members | None:
        """A group of the classic protocol (or of consumers under the new one); None: not found under it."""
        answer = cluster.ask_coordinator(self._group, DescribeGroupsRequest(groups=[self._group]))
        found = answer.groups[0]
        if found.error_code or found.group_state in ("", "Dead"):
            return None
        is_streams = found.protocol_data == "stream"
        topology = self._topology(found.members) if is_streams else Topology()
        return replace(
            before,
            protocol="classic",
            state=found.group_state,
            members=len(found.members) if found.protocol_type else None,  # it never had any: something else commits
            is_streams=is_streams,
            topology=topology if topology.subtopologies else before.topology,
            owners=_owners(found.members) or before.owners,
        )

    def _topology(self, members: Iterable[Any]) -> Topology:
        parts: dict[str, str] = {}
        for member in members:
            for partition, (part, _) in assigned_tasks(member.member_assignment).items():
                parts[partition.topic] = str(part)
        internal = frozenset(topic for topic in parts if self._is_internal(topic, _REPARTITION))
        return Topology(subtopologies=parts, repartitions=internal)

    def _streams(self, cluster: Cluster, before: Members) -> Members | None:
        """A group of KIP-1071's protocol, which reports its topology; None: not found under it."""
        request = StreamsGroupDescribeRequest(group_ids=[self._group], include_authorized_operations=False)
        answer = cluster.ask_coordinator(self._group, request)
        if answer is None or answer.groups[0].error_code:
            return None
        found: Any = answer.groups[0]
        parts: list[Any] = (found.topology and found.topology.subtopologies) or []
        topology = before.topology
        if parts:
            topology = Topology(
                subtopologies={
                    topic: part.subtopology_id
                    for part in parts
                    for topic in (*part.source_topics, *(each.name for each in part.repartition_source_topics))
                },
                repartitions=frozenset(topic.name for part in parts for topic in part.repartition_source_topics),
                stateful=frozenset(part.subtopology_id for part in parts if part.state_changelog_topics),
                suppressing=frozenset(
                    part.subtopology_id
                    for part in parts
                    if any(_SUPPRESS in topic.name for topic in part.state_changelog_topics)
                ),
            )
        changelogs = [topic.name for part in parts for topic in part.state_changelog_topics]
        return Members(
            protocol="streams",
            state=found.group_state,
            members=len(found.members),
            is_streams=True,
            topology=topology,
            owners=_owners_of_tasks(found.members, topology) or before.owners,
            stores=frozenset(map(self._store, changelogs)) if parts else before.stores,
        )

    def _with_changelogs(self, cluster: Cluster, members: Members) -> Members:
        """The members with the stores that changelogs name: under the classic protocol by the topics' names."""
        if members.protocol == "streams":
            return members
        if time.monotonic() - self._named_s > NAMES_EVERY_S:
            # A topic of the application `app-2` begins with `app-`, too.
            longer = tuple(f"{group}-" for group in cluster.groups() if group.startswith(f"{self._group}-"))
            names = cluster.topic_names()
            self._changelogs = frozenset(
                name for name in names if self._is_internal(name, _CHANGELOG) and not name.startswith(longer)
            )
            self._named_s = time.monotonic()
        topology, parts = members.topology, set(members.topology.subtopologies.values())
        if len(parts) == 1 and any(_SUPPRESS in name for name in self._changelogs):
            topology = replace(topology, suppressing=frozenset(parts))
        return replace(members, topology=topology, stores=frozenset(map(self._store, self._changelogs)))

    def _is_internal(self, topic: str, ending: str) -> bool:
        return topic.startswith(f"{self._group}-") and topic.endswith(ending)

    def _store(self, changelog: str) -> str:
        return changelog.removeprefix(f"{self._group}-").removesuffix(_CHANGELOG)


def has_suppress(stores: Iterable[str]) -> bool:
    """Whether a store's name shows that results are suppressed until windows close."""
    return any(_SUPPRESS in store for store in stores)


def _times(commits: dict[TopicPartition, Commit]) -> dict[TopicPartition, CommittedTime]:
    decoded = {partition: decode_metadata(commit.metadata) for partition, commit in commits.items()}
    return {partition: time for partition, time in decoded.items() if time is not None}


def _owners(members: Iterable[Any]) -> dict[TopicPartition, str]:
    return {at: str(member.member_id) for member in members for at in assigned_tasks(member.member_assignment)}


def _owners_of_tasks(members: Iterable[Any], topology: Topology) -> dict[TopicPartition, str]:
    owners = {
        (str(task.subtopology_id), number): str(member.member_id)
        for member in members
        for task in member.assignment.active_tasks
        for number in task.partitions
    }
    return {
        TopicPartition(topic, number): owner
        for (part, number), owner in owners.items()
        for topic, read_by in topology.subtopologies.items()
        if read_by == part
    }


class Restarts:
    """Which tasks were restarted or moved to another member while they were watched, and what they read then."""

    def __init__(self, *, timed: bool) -> None:
        """`timed`: the user says where in a record its event time is."""
        self._timed = timed
        self._owners: dict[_Task, str] = {}
        self._open: dict[_Task, tuple[Reprocessed, Positions]] = {}
        """Those whose operators have seen nothing newer since, and up to where their records were looked at."""
        self._seen: dict[_Task, Reprocessed] = {}

    def note(
        self, before: GroupFacts, now: GroupFacts, now_ms: int, times_between: _TimesBetween
    ) -> dict[TopicPartition, Reprocessed]:
        """What each partition's task reprocessed, as of the facts of two polls, the later at `now_ms` (epoch ms)."""
        tasks: dict[_Task, dict[TopicPartition, PartitionFacts]] = {}
        for one in now.topics.partitions:
            at = TopicPartition(one.topic, one.partition)
            tasks.setdefault((now.members.topology.place(at), at.partition), {})[at] = one
        owners = now.members.owners
        for task, inputs in tasks.items():
            owner = next((owners[p] for p in inputs if p in owners), None) if now.members.members != 0 else ""
            last = self._owners.get(task)
            if owner is not None:
                self._owners[task] = owner
            if owner and last not in (None, owner) and (time_ms := _forgotten(before.times, inputs)) is not None:
                places = {TopicPartition(p.topic, p.partition): p.position for p in before.topics.partitions}
                begins = {p: at for p, at in places.items() if at is not None}
                self._open[task] = Reprocessed(now_ms, time_ms, 0, []), begins
            if task in self._open:
                self._read(task, inputs, now, times_between)
        return {at: self._seen[task] for task, inputs in tasks.items() if task in self._seen for at in inputs}

    def _read(
        self, task: _Task, inputs: dict[TopicPartition, PartitionFacts], now: GroupFacts, times_between: _TimesBetween
    ) -> None:
        (seen, begins), times = self._open[task], now.times
        if _forgotten(times, inputs) != seen.time_ms:
            del self._open[task]
            if task in self._seen:
                self._seen[task] = replace(self._seen[task], is_over=True)
            return
        ends = {p: at for p, one in inputs.items() if (at := one.position) is not None and at > begins.get(p, at)}
        for p, found in times_between(begins, ends).items():
            is_whole = inputs[p].first <= begins[p] and ends[p] - begins[p] <= MAX_BACK
            count = len(found) if is_whole else ends[p] - begins[p]  # markers of transactions are no records
            if not count:
                continue
            # Streams stamps the records of a repartition topic with their event time.
            is_stamped = p.topic in now.members.topology.repartitions
            is_stamped |= p in times and inputs[p].event_ms == times[p].time_ms
            is_known = is_whole and (self._timed or is_stamped)
            least = [*found, *([seen.earliest_ms] if seen.records else [])] if is_known else [None]
            known = [ms for ms in least if ms is not None]
            self._seen[task] = seen = replace(
                seen,
                records=seen.records + count,
                channels=sorted({*seen.channels, channel_of(p)}),
                earliest_ms=min(known) if len(known) == len(least) else None,
            )
        self._open[task] = seen, begins | ends


def _forgotten(times: Times, partitions: Iterable[TopicPartition]) -> int | None:
    """The stream time that the operators of a task forget at a restart; None: not known, or its commits also say what
    has been emitted (onWindowClose), which is not forgotten.
    """
    known = [times[p] for p in partitions if p in times]
    reached = [each.time_ms for each in known if each.time_ms is not None]
    return None if any(each.closed_to_ms for each in known) else max(reached, default=None)
