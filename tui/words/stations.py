"""What each target shows of its hop in the chain of a pipeline: event time, who holds it back, its verdict. Pure."""

from collections.abc import Sequence

from msgspec.structs import replace

from ...engine.doctor import Finding, accounts_for, diagnose
from ...engine.snapshot import Reason, Snapshot, Verdict
from ...engine.verdict.chain import ChainMember, Hop, Station, Ways, guessed_writer, ways_of
from ...engine.verdict.history import HistoryPoint
from ...engine.verdict.hop_blame import HopBlame, blame_of
from ...engine.verdict.verdict import verdict_of

NOT_SET = "no time is configured"
NO_ANSWER = "it does not answer"
SILENT_MS = 10_000
"""How old (ms) the last look at a target may be until it counts no longer."""
UNANSWERED = ("stale", "failed")
"""The states in which what was last seen counts no longer."""


def stations_of(members: Sequence[ChainMember]) -> tuple[list[Station], int | None]:
    """The stations at one moment, and that moment (epoch ms): the newest at which all that answer were looked at."""
    heard = {member.name: member.points[-1].wall_ms for member in members if member.points and member.lost is None}
    newest_ms = max(heard.values(), default=0)
    at_ms = min((wall_ms for wall_ms in heard.values() if wall_ms > newest_ms - SILENT_MS), default=None)
    hops = [member for member in members if member.snapshot is None or not member.snapshot.target.has_hops]
    ways = ways_of(hops)
    return _with_guesses([_station(member, at_ms, ways[member.name]) for member in hops], hops), at_ms


def _with_guesses(stations: Sequence[Station], members: Sequence[ChainMember]) -> list[Station]:
    """The same; a watched topic that no job is known to write has the job that seems to, of those that write none."""
    written = {topic for station in stations for topic in station.writes}
    looks = {
        member.name: [(point.wall_ms, ms) for point in member.points if (ms := point.watermark_ms) is not None]
        for member, station in zip(members, stations, strict=True)
        if station.hop.kind == "job" and not station.writes
    }
    guessed: list[Station] = []
    for member, station in zip(members, stations, strict=True):
        is_open = station.hop.event_ms is not None and station.hop.name not in written
        others = {one.hop.name for one in stations if station.hop.name in one.reads}
        jobs = {name: each for name, each in looks.items() if name not in others}
        newest = [(point.wall_ms, ms) for point in member.points if (ms := point.max_event_ms) is not None]
        guessed.append(replace(station, guess=guessed_writer(newest, jobs)) if is_open else station)
    return guessed


def _station(member: ChainMember, at_ms: int | None, ways: Ways) -> Station:
    snapshot = member.snapshot
    point = _point_at(member, at_ms)
    found = [] if snapshot is None else diagnose(snapshot, member.points, lost=member.lost)
    trouble = member.lost or ("no answer yet" if snapshot is None else _why_unknown(snapshot, point, found))
    hop = Hop(
        kind="job" if ways.topic is None else "topic",
        name=ways.topic or member.name,
        target=member.name,
        trouble=trouble,
        critical=[one.code for one in found if one.severity == "critical"],
    )
    if ways.topic is not None:
        return Station(hop=_of_topic(hop, member, point), verdict=_verdict(member, point))
    blame = HopBlame() if snapshot is None or point is None else blame_of(snapshot, member.points)
    # What a job's output has passed: Spark's next watermark shows in the output of the next batch only.
    emitted_ms = None if point is None else point.watermark_ms if point.emitted_ms is None else point.emitted_ms
    hop = replace(
        hop,
        watermark_ms=emitted_ms,
        lateness_ms=None if snapshot is None else snapshot.settings.lateness_ms,
        channel=blame.channel,
        cause=blame.cause,
        may_write=member.writes is None and snapshot is not None and snapshot.target.hides_writes,
    )
    return Station(hop=hop, reads=ways.reads, writes=ways.writes, verdict=_verdict(member, point))


def _of_topic(hop: Hop, member: ChainMember, point: HistoryPoint | None) -> Hop:
    """The hop of a topic, whose event time is known only where its place is configured."""
    if not member.is_timed:
        return replace(hop, trouble=member.lost or NOT_SET)
    if point is None or member.snapshot is None:
        return hop
    return replace(hop, event_ms=point.max_event_ms, partition=_newest(member.snapshot), trouble=None)


def _verdict(member: ChainMember, point: HistoryPoint | None) -> Verdict:
    """The target's own verdict; unknown if it does not answer now."""
    if member.snapshot is None:
        return Verdict("unknown", reason=Reason("starting"))
    silent = "engine_lost" if member.lost is not None else "source_silent" if point is None else None
    return verdict_of(member.snapshot, lost=silent)


def _why_unknown(snapshot: Snapshot, point: HistoryPoint | None, found: Sequence[Finding]) -> str | None:
    """Why its event time is not known; of a query that is stale or has failed, what its own findings say."""
    if point is None:
        own = (one.title for one in found if accounts_for(one, "unknown"))
        return next(own, NO_ANSWER) if snapshot.state in UNANSWERED else NO_ANSWER
    if not snapshot.target.has_watermark:
        return "each task has its own clock"
    return "no watermark yet" if point.watermark_ms is None else None


def _point_at(member: ChainMember, at_ms: int | None) -> HistoryPoint | None:
    """The last look at a target up to that moment; None for one that is lost or does not answer."""
    snapshot = member.snapshot
    if member.lost is not None or at_ms is None or snapshot is None or snapshot.state in UNANSWERED:
        return None
    point = next((point for point in reversed(member.points) if point.wall_ms <= at_ms), None)
    if point is None or point.wall_ms <= at_ms - SILENT_MS:
        return None
    # Without a watermark of the whole it is the time of one task, which perhaps has no data.
    return point if snapshot.target.has_watermark else replace(point, watermark_ms=None)


def _newest(snapshot: Snapshot) -> str | None:
    """The partition with the newest record."""
    timed = [view for view in snapshot.channels if view.max_event_ms is not None]
    return max(timed, key=lambda view: view.max_event_ms or 0).channel if timed else None
