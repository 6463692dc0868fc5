"""What the targets of a fleet tell about the hops of a chain."""

import pytest
from wmtop.engine.snapshot import FlinkJob, Note, Snapshot, SparkProgress
from wmtop.engine.verdict.chain import NO_CLUSTER, ChainMember, Station, chain_of
from wmtop.engine.verdict.history import history_point
from wmtop.tui.words.chain import headline
from wmtop.tui.words.stations import NO_ANSWER, NOT_SET, stations_of

from tests.snapshots import replace
from tests.stations import station as a_station

from ..attached import group, query

NOW_MS = 1_767_268_800_000


def at(snapshot: Snapshot, wall_ms: int, **changes: object) -> Snapshot:
    return replace(snapshot, wall_ms=wall_ms, now_ms=wall_ms, **changes)


def member(name: str, *snapshots: Snapshot, **more: object) -> ChainMember:
    points = [point for snapshot in snapshots if (point := history_point(snapshot)) is not None]
    return ChainMember(name, snapshots[-1] if snapshots else None, points=points, **more)  # type: ignore[arg-type]


def topic(name: str, *, bootstrap: str = "a:9092", wall_ms: int = NOW_MS, is_timed: bool = True) -> ChainMember:
    shown = at(group("topic"), wall_ms)
    return member(name, shown, topic=name, bootstrap=bootstrap, is_timed=is_timed)


def station(name: str, *members: ChainMember) -> Station:
    return next(one for one in stations_of(members)[0] if one.hop.target == name)


def test_a_topic_has_its_newest_event_time_only_where_its_time_is_configured() -> None:
    newest = max(view.max_event_ms or 0 for view in group("topic").channels)
    assert station("orders", topic("orders")).hop.event_ms == newest
    untimed = station("orders", topic("orders", is_timed=False))
    assert (untimed.hop.event_ms, untimed.hop.partition, untimed.hop.trouble) == (None, None, NOT_SET)


def test_a_topic_on_two_clusters_is_two_hops_and_each_job_is_joined_to_that_of_its_own() -> None:
    """The mirror is configured as such: what it writes is on the other cluster."""
    [name] = set(station("g", member("g", at(group(), NOW_MS), bootstrap="a:9092"), topic("x")).reads)
    here, there = topic(name), replace(topic(name, bootstrap="b:9092"), name="there")
    mirror = member("m", at(group(), NOW_MS), bootstrap="a:9092", writes=[f"kafka://b:9092/{name}"])
    reader = member("r", at(group(), NOW_MS), bootstrap="b:9092")
    chain = chain_of(stations_of([here, there, mirror, reader])[0])
    inputs = {hop.name: [chain.hops[number].name for number in hop.inputs] for hop in chain.hops}
    at_a, at_b = f"{name} at a:9092", f"{name} at b:9092"
    assert inputs == {at_a: [], "m": [at_a], at_b: ["m"], "r": [at_b]}
    assert all(hop.own_ms is not None for hop in chain.hops)
    assert chain.holder_in(replace(chain.hops[1], channel="3")) == f"{name}-3"


def test_a_topic_that_no_target_watches_does_not_join_two_clusters() -> None:
    writer = member("w", at(group(), NOW_MS), bootstrap="a:9092", writes=["middle"])
    reader = member("r", at(group(), NOW_MS), bootstrap="b:9092", reads=["middle"])
    assert set(station("w", writer, reader).writes) == {"middle at a:9092"}
    assert "middle at b:9092" in station("r", writer, reader).reads


def test_the_cluster_of_spark_s_sink_is_that_of_its_address_if_a_target_has_it() -> None:
    """A job may know a cluster by an address of its own network: that is not another cluster."""
    shown = replace(query(), spark=SparkProgress(writes=["kafka://b:9092/out"]))
    job = member("j", at(shown, NOW_MS), bootstrap="a:9092")
    out = {place: replace(topic("out", bootstrap=place), name=place) for place in ("a:9092", "b:9092")}
    assert set(station("j", job, out["a:9092"]).writes) == {"out"}
    assert set(station("j", job, *out.values()).writes) == {"out at b:9092"}
    assert set(station("j", job, out["a:9092"], topic("x", bootstrap="c:9092")).writes) == {f"out at {NO_CLUSTER}"}


def test_of_a_job_that_died_it_is_said_so_and_since_when() -> None:
    note = Note(NOW_MS, "application_gone", {"silent_ms": 7_200_000})
    dead = station("j", member("j", at(query(state="stale", notes=[note]), NOW_MS)), topic("orders"))
    assert dead.hop.trouble == "The query's application has ended; its last report was 2h ago"
    assert station("j", member("j", at(group(), NOW_MS - 60_000)), topic("orders")).hop.trouble == NO_ANSWER


def test_a_group_on_another_cluster_does_not_read_the_watched_topic() -> None:
    read = set(station("g", member("g", at(group(), NOW_MS), bootstrap="a:9092"), topic("x")).reads)
    [name] = read
    watched = topic(name, bootstrap="a:9092")
    same = station("g", member("g", at(group(), NOW_MS), bootstrap="a:9092"), watched)
    other = station("g", member("g", at(group(), NOW_MS), bootstrap="b:9092"), watched)
    assert (set(same.reads), set(other.reads)) == ({name}, {f"{name} at b:9092"})


def test_one_cluster_under_two_addresses_is_one_and_two_with_the_same_topic_are_two() -> None:
    """Its own id says which cluster it is, however it is addressed; an address that leads to a known one has its id."""
    [name] = set(station("g", member("g", at(group(), NOW_MS), bootstrap="a:9092"), topic("x")).reads)
    watched = replace(topic(name, bootstrap="a:9092"), cluster="one")
    reader = member("g", at(group(), NOW_MS), bootstrap="b:9092", cluster="one")
    assert set(station("g", reader, watched).reads) == {name}
    assert set(station("g", replace(reader, bootstrap="a:9092", cluster=None), watched).reads) == {name}
    assert set(station("g", replace(reader, cluster="two"), watched).reads) == {f"{name} at b:9092"}
    twin = replace(watched, name="twin", bootstrap="c:9092")
    assert {one.hop.name for one in stations_of([watched, twin])[0]} == {name}
    assert {one.hop.name for one in stations_of([watched, replace(twin, cluster="two")])[0]} == {
        f"{name} at a:9092", f"{name} at c:9092",
    }  # fmt: skip


def test_the_order_of_brokers_is_no_difference_between_clusters() -> None:
    [name] = set(station("g", member("g", at(group(), NOW_MS), bootstrap="a:9092"), topic("x")).reads)
    reader = member("g", at(group(), NOW_MS), bootstrap="b:9092,a:9092")
    assert set(station("g", reader, topic(name, bootstrap="a:9092,b:9092")).reads) == {name}


def test_a_job_of_no_known_cluster_reads_no_watched_topic_where_there_are_several_clusters() -> None:
    """It may read the topic of that name on the other one."""
    job = FlinkJob("c" * 32, "orders", "RUNNING", None, [], topics=["orders"])
    reader = member("j", at(replace(group(), flink=job), NOW_MS))
    assert set(station("j", reader, topic("orders"), topic("x")).reads) == {"orders"}
    elsewhere = topic("x", bootstrap="b:9092")
    assert set(station("j", reader, topic("orders"), elsewhere).reads) == {f"orders at {NO_CLUSTER}"}
    here = replace(reader, bootstrap="a:9092")
    assert set(station("j", here, topic("orders"), elsewhere).reads) == {"orders"}


@pytest.mark.parametrize(("writes", "is_open"), [(None, True), ((), False), (("out",), False)])
def test_a_flink_job_of_which_nothing_says_what_it_writes_perhaps_continues_the_way(
    writes: tuple[str, ...] | None, is_open: bool
) -> None:
    level = replace(group().level, watermark_ms=1_000)
    shown = at(
        replace(group(), level=level, flink=FlinkJob("c" * 32, "j", "RUNNING", None, [], topics=["orders"])), NOW_MS
    )
    members = [topic("orders"), member("j", shown, writes=writes), topic("out")]
    chain = chain_of(stations_of(members)[0])
    assert chain.behind_ms is not None
    assert chain.behind_at_least == is_open
    assert next(hop for hop in chain.hops if hop.name == "j").may_write == is_open


def test_a_flink_metric_name_is_the_one_configured_topic_that_it_can_mean() -> None:
    job = FlinkJob("c" * 32, "orders", "RUNNING", None, [], topics=["orders_eu"])
    shown = at(replace(group(), flink=job), NOW_MS)
    assert set(station("j", member("j", shown), topic("orders.eu")).reads) == {"orders.eu"}
    both = station("j", member("j", shown), topic("orders.eu"), topic("orders_eu"))
    assert set(both.reads) == {"orders.eu or orders_eu"}


def test_all_stations_are_of_one_moment() -> None:
    early, late = (replace(group().level, watermark_ms=ms) for ms in (1_000, 2_000))
    job = member("j", at(group(), NOW_MS, level=early), at(group(), NOW_MS + 2_000, level=late))
    stations, at_ms = stations_of([job, topic("orders", wall_ms=NOW_MS + 500)])
    assert at_ms == NOW_MS + 500
    assert stations[0].hop.own_ms == 1_000


@pytest.mark.parametrize("silent", ["lost", "stale", "old"])
def test_a_target_that_does_not_answer_has_no_event_time(silent: str) -> None:
    shown = at(group(), NOW_MS - (60_000 if silent == "old" else 0), state="stale" if silent == "stale" else "live")
    job = member("j", shown, lost="no answer" if silent == "lost" else None)
    found = station("j", job, topic("orders"))
    assert found.hop.own_ms is None
    assert found.hop.channel is None
    assert found.hop.trouble


def test_a_loss_that_may_be_an_unknown_hop_s_blames_neither_alone() -> None:
    orders = a_station(kind="topic", name="orders", target="orders", event_ms=NOW_MS)
    lost = a_station(
        kind="job", name="enrich", target="enrich", reads={"orders": "reported"}, writes={"out": "configured"}
    )
    out = a_station(kind="topic", name="out", target="out", event_ms=NOW_MS - 7_200_000)
    report = a_station(
        kind="job", name="report", target="report", event_ms=NOW_MS - 7_200_000, channel="0", cause="quiet",
        reads={"out": "reported"},
    )  # fmt: skip
    assert headline(chain_of([orders, lost, out, report])) == "behind 2h: 2h are lost in enrich or topic out"
    later = replace(report, hop=replace(report.hop, watermark_ms=NOW_MS - 9_000_000))
    alone = chain_of([orders, replace(lost, reads={}, writes={}), out, later])
    assert headline(alone) == "behind ≥ 30m: 30m are lost in report (held back by out-0: no data); enrich is not known"
    through = headline(chain_of([orders, lost, a_station(kind="topic", name="out", target="out"), report]))
    assert through == "behind 2h: 2h are lost in enrich or topic out or report"
