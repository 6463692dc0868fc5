"""The chain: where a pipeline of topics and jobs loses event time, hop by hop. Pure; times are epoch ms, losses ms.

A topic's event time is that of its newest record, a job's is its watermark. What a hop loses is the event time at its
input minus its own, so a hop that is late only because its input is late loses nothing. A hop whose event time is not
known passes its input on: the next known hop's loss then includes it.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import get_args

from msgspec import Struct
from msgspec.structs import replace

from ..snapshot import Snapshot, Verdict
from ..snapshot.kinds.chain import Chain, Edge, Hop, HopKind
from ..snapshot.watermark import WORST_FIRST
from .history import HistoryPoint

NO_CLUSTER = "a cluster that is not configured"
_ADDRESS = re.compile("kafka://([^/]+)/([^/]+)")
Place = tuple[str, str | None]
"""A topic and its cluster, as `Clusters.find` names that."""


class Clusters:
    """The clusters of a pipeline: the id that Kafka gives one identifies it, whatever its addresses; else these do."""

    def __init__(self, known: Iterable[tuple[str | None, str | None]]) -> None:
        """`known`: the addresses of each cluster that is configured, and its id; None: not known."""
        found = [(_in_order_of_names(addresses), addresses, id) for addresses, id in known if addresses is not None]
        self._ids = {key: id for key, _, id in found if id is not None}
        self._addresses: dict[str, str] = {}
        for key, addresses, _ in found:
            self._addresses.setdefault(self._ids.get(key, key), addresses)

    def find(self, addresses: str | None) -> str | None:
        """Which of them has these addresses; None: not known, or there is only one."""
        if addresses is None or len(self._addresses) < 2:
            return None
        key = _in_order_of_names(addresses)
        found = self._ids.get(key, key)
        return found if found in self._addresses else None

    def names(self, places: Collection[Place]) -> dict[Place, str]:
        """What to call each topic: by its name, with its cluster where several have a topic of that name."""
        several = {topic for topic, count in Counter(topic for topic, _ in set(places)).items() if count > 1}
        return {
            (topic, at): f"{topic} at {self._addresses.get(at or '', NO_CLUSTER)}" if topic in several else topic
            for topic, at in places
        }


def _in_order_of_names(addresses: str) -> str:
    return ",".join(sorted(addresses.split(",")))


class ChainMember(Struct, frozen=True):
    """A target of the fleet, with what the configuration says of it."""

    name: str
    snapshot: Snapshot | None
    topic: str | None = None
    """The topic that it is; None: a job."""
    bootstrap: str | None = None
    """The cluster of the topic, or of those that it reads, as given; None: not known."""
    cluster: str | None = None
    """The id that the cluster gives itself; None: not known."""
    points: Sequence[HistoryPoint] = ()
    lost: str | None = None
    reads: Sequence[str] = ()
    writes: Sequence[str] | None = None
    """As configured; None: not said."""
    is_timed: bool = False
    """The configuration says where a topic's records have their event time."""


class Ways(Struct, frozen=True):
    """A member's topics, as they are called in the chain: the one that it is, and those that it reads and writes."""

    topic: str | None
    reads: dict[str, Edge]
    writes: dict[str, Edge]


def ways_of(members: Sequence[ChainMember]) -> dict[str, Ways]:
    """The topics of each member: of the same name on two clusters they are two."""
    configured = [topic for member in members for topic in (*member.reads, *(member.writes or ()))]
    addressed = [(bootstrap, None) for bootstrap, _ in map(_parts, configured)]
    clusters = Clusters([*((member.bootstrap, member.cluster) for member in members), *addressed])
    watched = {member.name: _place(member.topic, member, clusters) for member in members if member.topic is not None}
    reads = {member.name: _placed(member.reads, member, clusters, "configured") for member in members}
    writes = {member.name: _placed(member.writes or (), member, clusters, "configured") for member in members}
    named = {*watched.values(), *(place for each in (*reads.values(), *writes.values()) for place in each)}
    for member in members:
        if (snapshot := member.snapshot) is not None:
            here = clusters.find(member.bootstrap)
            known = {topic for topic, cluster in named if cluster == here}
            target = snapshot.target
            read = target.topics_read(snapshot.source, snapshot.channels, known)
            reads[member.name] |= _placed(read, member, clusters, "reported")
            writes[member.name] |= _placed(target.topics_written, member, clusters, "reported")
    names = clusters.names({*named, *(place for each in (*reads.values(), *writes.values()) for place in each)})
    return {
        member.name: Ways(
            names[watched[member.name]] if member.name in watched else None,
            {names[place]: edge for place, edge in reads[member.name].items()},
            {names[place]: edge for place, edge in writes[member.name].items()},
        )
        for member in members
    }


def _placed(topics: Iterable[str], member: ChainMember, clusters: Clusters, edge: Edge) -> dict[Place, Edge]:
    return {_place(topic, member, clusters): edge for topic in topics}


def _place(topic: str, member: ChainMember, clusters: Clusters) -> Place:
    """A topic of a member: on its own cluster, unless it is given as an address."""
    bootstrap, name = _parts(topic)
    return name, clusters.find(bootstrap or member.bootstrap)


def _parts(topic: str) -> tuple[str | None, str]:
    """The cluster's addresses (None: not said) and the name of a topic, `orders` or `kafka://broker:9092/orders`."""
    found = _ADDRESS.fullmatch(topic)
    return (None, topic) if found is None else (found[1], found[2])


class Station(Struct, frozen=True, kw_only=True):
    """A topic or a job at one moment, with what joins it to others."""

    hop: Hop
    """What is known of it alone: neither its inputs nor its loss."""
    reads: Mapping[str, Edge] = {}
    """A job's topics (as `Clusters.names` calls them), and how they are known."""
    writes: Mapping[str, Edge] = {}
    verdict: Verdict | None = None
    """The verdict on its target; None: no target watches it."""
    guess: str | None = None
    """The job that perhaps writes a topic whose writer is not known (`guessed_writer`)."""

    @property
    def node(self) -> "_Node":
        """What identifies it in the chain."""
        return self.hop.kind, self.hop.name


def chain_of(stations: Sequence[Station]) -> Chain:
    """The chain of jobs and topics; a topic that only a job names is added, with nothing known of it."""
    nodes = {station.node: station for station in stations}
    for station in stations:
        for topic in (*station.reads, *station.writes):
            nodes.setdefault(("topic", topic), Station(hop=Hop(kind="topic", name=topic, target=None)))
    edges = _edges(nodes.values())
    order, looping = _in_order(edges)
    numbers = {node: number for number, node in enumerate(order)}
    hops: list[Hop] = []
    for node in order:
        inputs: dict[int, Edge] = {numbers[source]: edge for source, edge in edges[node].items()}
        hops.append(_hop(nodes[node], inputs, hops, looping=node in looping))
    chain = _with_way(hops)
    guesses = {place: numbers.get(("job", nodes[node].guess or "")) for place, node in enumerate(order)}
    for place, writer in guesses.items():
        if writer is not None and not hops[place].inputs:
            hops[place] = replace(hops[place], inputs=[writer], edge="guessed")
            if writer == chain.way[-1]:  # perhaps the way continues
                chain = replace(chain, behind_at_least=chain.behind_ms is not None)
    # The worst: a hop behind one that is stalled gets no records, so its own verdict alone may sound harmless.
    verdicts = [verdict for number in chain.joined if (verdict := nodes[order[number]].verdict) is not None]
    worst = min(verdicts, key=lambda one: WORST_FIRST.index(one.verdict), default=Verdict())
    return replace(chain, verdict=worst)


_Node = tuple[HopKind, str]


def _edges(stations: Iterable[Station]) -> dict[_Node, dict[_Node, Edge]]:
    """For each station the stations that it takes from."""
    found = list(stations)
    edges: dict[_Node, dict[_Node, Edge]] = {station.node: {} for station in found}
    for station in found:
        for topic, edge in station.reads.items():
            edges[station.node]["topic", topic] = edge
        for topic, edge in station.writes.items():
            edges["topic", topic][station.node] = edge
    return edges


def _in_order(edges: Mapping[_Node, Mapping[_Node, Edge]]) -> tuple[list[_Node], set[_Node]]:
    """The stations, inputs first, and those that are in a loop or behind one, which come last."""
    order: list[_Node] = []
    left = dict(edges)
    while ready := sorted(node for node, inputs in left.items() if not inputs.keys() & left.keys()):
        order += ready
        left = {node: inputs for node, inputs in left.items() if node not in ready}
    return [*order, *sorted(left)], set(left)


def _hop(station: Station, inputs: Mapping[int, Edge], before: Sequence[Hop], *, looping: bool) -> Hop:
    hop = replace(
        station.hop,
        inputs=sorted(inputs),
        edge=max(inputs.values(), key=get_args(Edge).index, default=None),
        looping=looping,
        verdict=None if station.verdict is None else station.verdict.verdict,
    )
    if looping or hop.own_ms is None:
        return hop
    at_input, includes = _at_input(hop, before)
    if at_input is None:
        return hop
    lost = replace(hop, loss_ms=at_input - hop.own_ms, includes=includes)
    return replace(lost, cause="lateness", channel=None) if _is_by_lateness(lost) else lost


def _is_by_lateness(hop: Hop) -> bool:
    """Whether at least half of the loss is its lateness, and nothing else says why: what is stalled has a cause."""
    is_most = hop.loss_ms is not None and 0 < hop.loss_ms <= 2 * (hop.lateness_ms or 0)
    return is_most and hop.cause != "lateness_raised" and hop.verdict != "stalled"


def _at_input(hop: Hop, before: Sequence[Hop]) -> tuple[int | None, list[int]]:
    """The event time that reaches a hop, and the hops without one of their own that it comes through.

    A job waits for the lowest of its inputs; the newest record of a topic is from the writer that is furthest.
    None if one that decides is not known.
    """
    found = [_sent(number, before) for number in hop.inputs]
    times = [ms for ms, _ in found if ms is not None]
    if not times or len(times) < len(found):
        return None, []
    decides = min(times) if hop.kind == "job" else max(times)
    return decides, next(includes for ms, includes in found if ms == decides)


def _sent(number: int, before: Sequence[Hop]) -> tuple[int | None, list[int]]:
    """The event time that a hop passes on: its own, else what reaches it."""
    hop = before[number]
    if hop.looping:
        return None, []
    if hop.own_ms is not None:
        return hop.own_ms, []
    at_input, includes = _at_input(hop, before)
    return at_input, [*includes, number]


def _with_way(hops: list[Hop]) -> Chain:
    """The way to the last hop that is most behind the first one on it."""
    read = {number for hop in hops for number in hop.inputs}
    ways = [_way(number, hops) for number, hop in enumerate(hops) if number not in read and not hop.looping]
    if not ways:
        return Chain(hops, [])
    way = max(ways, key=lambda way: (_behind_ms(way, hops) or 0, len(way)))
    losing = [number for number in way if (hops[number].loss_ms or 0) > 0]
    worst = max(losing, key=lambda number: hops[number].loss_ms or 0, default=None)
    is_open = any(
        hop.looping or hop.may_write or (hop.own_ms is None and not (hop.inputs and number in read))
        for number, hop in enumerate(hops)
    )
    return Chain(hops, way, behind := _behind_ms(way, hops), is_open and behind is not None, worst)


def _way(last: int, hops: Sequence[Hop]) -> list[int]:
    """The hops to `last`, by the inputs that decide: of a job's an unknown one or the lowest, as in `_at_input`."""
    way = [last]
    while inputs := hops[way[0]].inputs:
        sent = {number: _sent(number, hops)[0] for number in inputs}
        choose = max if hops[way[0]].kind == "topic" else min
        way.insert(0, choose(inputs, key=lambda number: (sent[number] is not None, sent[number] or 0, -number)))
    return way


def _behind_ms(way: Sequence[int], hops: Sequence[Hop]) -> int | None:
    """How far its last known event time is behind its first one; None if fewer than two are known."""
    known = [ms for number in way if (ms := hops[number].own_ms) is not None]
    return known[0] - known[-1] if len(known) > 1 else None


MIN_STEPS = 3
"""A topic's advances on which a guess rests, at least."""
_SHARPNESS = 4
"""The constant of a guess is known to this part of the topic's shortest step."""


def guessed_writer(topic: Sequence[tuple[int, int]], jobs: Mapping[str, Sequence[tuple[int, int]]]) -> str | None:
    """The only job whose watermark passed a constant beyond each new event time of a topic just when it came.

    All are looks as wall clock and event time, the oldest first. None: no job or several, or the topic advances at
    every look, which proves nothing: event time advances everywhere.
    """
    fitting = [name for name, watermarks in jobs.items() if _follows(topic, watermarks)]
    return fitting[0] if len(fitting) == 1 else None


def _follows(topic: Sequence[tuple[int, int]], watermarks: Sequence[tuple[int, int]]) -> bool:
    steps = [(before, after) for before, after in pairwise(topic) if after[1] > before[1]]
    still = sum(after[1] > before[1] for before, after in pairwise(watermarks)) - len(steps)
    if len(steps) < MIN_STEPS or still < len(steps):
        return False
    # Targets are not looked at together: the job's look after the record's has its watermark of then at least.
    between = [(_before(watermarks, before[0]), _after(watermarks, after[0]), after[1]) for before, after in steps]
    lows = [low - event_ms for low, _, event_ms in between if low is not None]
    highs = [high - event_ms for _, high, event_ms in between if high is not None]
    if min(len(lows), len(highs)) < MIN_STEPS:
        return False
    least, most = max(lows), min(highs)
    shortest = min(after[1] - before[1] for before, after in steps)
    return most >= 0 and 0 < most - least <= shortest / _SHARPNESS


def _before(looks: Sequence[tuple[int, int]], wall_ms: int) -> int | None:
    place = bisect_right(looks, wall_ms, key=lambda look: look[0])
    return looks[place - 1][1] if place else None


def _after(looks: Sequence[tuple[int, int]], wall_ms: int) -> int | None:
    place = bisect_left(looks, wall_ms, key=lambda look: look[0])
    return looks[place][1] if place < len(looks) else None
