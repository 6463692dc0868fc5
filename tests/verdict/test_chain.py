"""The chain: its losses, its way and its worst hop, also against a plain recursion over random pipelines."""

import random
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from wmtop.engine.snapshot import Verdict, VerdictName
from wmtop.engine.verdict.chain import Chain, Station, chain_of, guessed_writer

from tests.stations import station

HOUR = 3_600_000


def topic(name: str, event_ms: int | None) -> Station:
    return station(kind="topic", name=name, target=name, event_ms=event_ms)


def job(name: str, watermark_ms: int | None, reads: str = "", writes: str = "", channel: str | None = None) -> Station:
    return station(
        kind="job",
        name=name,
        target=name,
        event_ms=watermark_ms,
        channel=channel,
        cause=None if channel is None else "quiet",
        reads=dict.fromkeys(reads.split(), "reported"),
        writes=dict.fromkeys(writes.split(), "configured"),
    )


def losses(chain: Chain) -> dict[str, int | None]:
    return {hop.name: hop.loss_ms for hop in chain.hops}


def names(chain: Chain) -> list[str]:
    return [chain.hops[number].name for number in chain.way]


def worst(chain: Chain) -> str | None:
    return None if chain.worst is None else chain.hops[chain.worst].name


FIVE = [
    topic("orders", 10 * HOUR),
    job("enrich", 8 * HOUR, "orders", "enriched", channel="orders-3"),
    topic("enriched", 8 * HOUR - 60_000),
    job("report", 7 * HOUR + 1_800_000, "enriched"),
]


def test_the_hop_that_loses_most_is_the_worst_with_its_channel() -> None:
    chain = chain_of(FIVE)
    assert names(chain) == ["orders", "enrich", "enriched", "report"]
    assert losses(chain) == {"orders": None, "enrich": 2 * HOUR, "enriched": 60_000, "report": 1_740_000}
    assert (chain.behind_ms, chain.behind_at_least) == (2 * HOUR + 1_800_000, False)
    assert chain.worst is not None
    found = chain.hops[chain.worst]
    assert (found.name, found.channel, found.cause) == ("enrich", "orders-3", "quiet")
    assert [hop.edge for hop in chain.hops] == [None, "reported", "configured", "reported"]


@pytest.mark.parametrize(
    ("verdict", "blamed"),
    [("moving", (None, "lateness")), ("stalled", ("orders-3", "quiet")), (None, (None, "lateness"))],
)
def test_a_loss_is_by_the_lateness_unless_the_job_is_stalled(
    verdict: VerdictName | None, blamed: tuple[str | None, str]
) -> None:
    slow = replace(
        FIVE[1], hop=replace(FIVE[1].hop, lateness_ms=HOUR), verdict=None if verdict is None else Verdict(verdict)
    )
    chain = chain_of([FIVE[0], slow])
    assert (chain.hops[1].channel, chain.hops[1].cause) == blamed


def test_a_topic_without_a_known_time_gives_its_loss_to_the_next_hop() -> None:
    chain = chain_of([FIVE[0], FIVE[1], FIVE[3]])
    assert losses(chain) == {"orders": None, "enrich": 2 * HOUR, "enriched": None, "report": 1_800_000}
    report = chain.hops[-1]
    assert [chain.hops[number].name for number in report.includes] == ["enriched"]
    assert chain.hops[report.includes[0]].target is None
    assert worst(chain) == "enrich"


def test_a_lost_job_gives_its_loss_to_the_next_hop_and_none_to_itself() -> None:
    chain = chain_of([FIVE[0], job("enrich", None, "orders", "enriched"), *FIVE[2:]])
    assert losses(chain) == {"orders": None, "enrich": None, "enriched": 2 * HOUR + 60_000, "report": 1_740_000}


def test_an_unknown_last_hop_makes_what_is_lost_a_lower_bound() -> None:
    chain = chain_of([*FIVE[:3], job("report", None, "enriched")])
    assert (chain.behind_ms, chain.behind_at_least) == (2 * HOUR + 60_000, True)
    assert losses(chain)["report"] is None


def test_a_job_of_two_topics_loses_only_against_the_older_one_and_the_way_is_by_it() -> None:
    chain = chain_of([topic("a", 10 * HOUR), topic("b", 4 * HOUR), job("join", 3 * HOUR, "a b")])
    assert losses(chain)["join"] == HOUR
    assert names(chain) == ["b", "join"]


def test_a_job_with_an_unknown_input_has_no_known_loss() -> None:
    chain = chain_of([topic("a", 10 * HOUR), topic("b", None), job("join", 3 * HOUR, "a b")])
    assert losses(chain)["join"] is None
    assert names(chain) == ["b", "join"]
    assert chain.behind_ms is None


def test_a_topic_that_two_jobs_write_is_compared_with_the_one_that_is_furthest() -> None:
    chain = chain_of([job("one", 5 * HOUR, "", "out"), job("two", 9 * HOUR, "", "out"), topic("out", 9 * HOUR - 1)])
    assert losses(chain)["out"] == 1


def test_the_way_to_a_topic_is_by_the_writer_that_is_furthest_and_never_by_an_unknown_one() -> None:
    """Seen: `behind ≥ 1ms`, although the other way was known to lose hours."""
    slow, dead = job("slow", HOUR, "orders", "enriched"), job("dead", None, "", "enriched")
    for twin in (slow, dead):
        chain = chain_of([*FIVE, twin])
        assert names(chain) == ["orders", "enrich", "enriched", "report"]
        assert (chain.behind_ms, chain.behind_at_least) == (2 * HOUR + 1_800_000, twin is dead)
        assert losses(chain)["enriched"] == (60_000 if twin is slow else None)


def test_hops_in_a_loop_have_no_loss_and_are_not_the_way() -> None:
    chain = chain_of([job("retry", HOUR, "again", "again"), job("other", HOUR, "again", "out"), *FIVE])
    looping = {hop.name for hop in chain.hops if hop.looping}
    assert looping == {"retry", "again", "other", "out"}
    assert all(hop.loss_ms is None for hop in chain.hops if hop.looping)
    assert names(chain) == ["orders", "enrich", "enriched", "report"]


def test_the_way_that_loses_most_is_shown() -> None:
    chain = chain_of([FIVE[0], job("fast", 10 * HOUR - 1, "orders"), job("slow", 5 * HOUR, "orders")])
    assert names(chain) == ["orders", "slow"]


def test_without_a_loss_no_hop_is_the_worst() -> None:
    chain = chain_of([topic("a", HOUR), job("j", HOUR + 5, "a")])
    assert (chain.worst, losses(chain)["j"]) == (None, -5)


def test_no_station_is_no_way() -> None:
    assert chain_of([]) == Chain([], [])


@st.composite
def pipelines(draw: st.DrawFn) -> list[Station]:
    """Jobs between topics in layers: each job reads topics of layers before it and writes into its own."""
    times = st.none() | st.integers(0, 50)
    stations = [topic(f"t0.{n}", draw(times)) for n in range(draw(st.integers(1, 3)))]
    for layer in range(1, draw(st.integers(1, 3)) + 1):
        before = [one.hop.name for one in stations if one.hop.kind == "topic"]
        for n in range(draw(st.integers(1, 2))):
            reads = draw(st.lists(st.sampled_from(before), min_size=1, max_size=2, unique=True))
            stations.append(job(f"j{layer}.{n}", draw(times), " ".join(reads), f"t{layer}.{n % 2}"))
        stations += [topic(name, draw(times)) for name in sorted({f"t{layer}.{n}" for n in (0, 1)})]
    return draw(st.permutations(stations))


def _event(name: str, stations: dict[str, Station]) -> int | None:
    """What a station passes on, by plain recursion."""
    return own if (own := stations[name].hop.own_ms) is not None else _input(name, stations)


def _input(name: str, stations: dict[str, Station]) -> int | None:
    here = stations[name]
    inputs = [*here.reads, *(other.hop.name for other in stations.values() if name in other.writes)]
    times = [_event(one, stations) for one in inputs]
    known = [time for time in times if time is not None]
    if not known or len(known) < len(times):
        return None
    return min(known) if here.hop.kind == "job" else max(known)


@given(pipelines())
def test_losses_equal_a_plain_recursion(stations: list[Station]) -> None:
    chain, by_name = chain_of(stations), {one.hop.name: one for one in stations}
    assert {hop.name for hop in chain.hops} == set(by_name)
    for number, hop in enumerate(chain.hops):
        assert all(before < number for before in hop.inputs)
        own, at_input = by_name[hop.name].hop.own_ms, _input(hop.name, by_name)
        assert hop.loss_ms == (None if own is None or at_input is None else at_input - own)
    way = [chain.hops[number] for number in chain.way]
    assert way[0].inputs == []
    assert all(chain.way[place] in hop.inputs for place, hop in enumerate(way[1:]))
    if chain.worst is not None:
        assert chain.hops[chain.worst].loss_ms == max(hop.loss_ms or 0 for hop in way)


def looks(of_second: list[int]) -> list[tuple[int, int]]:
    """A look each second, at event times in ms."""
    return [(1_000 * second, ms) for second, ms in enumerate(of_second)]


SECONDS = range(200)
WATERMARK = [1_000 * second - 7_000 for second in SECONDS]
REPORTS = [max(ms - ms % 30_000, 0) for ms in WATERMARK]
"""The ends of windows of 30 s, each written when the watermark passes it."""


def apart_reports() -> list[tuple[int, int]]:
    """The same, looked at 400 ms after each second."""
    return [(wall_ms + 400, (ms + 400) - (ms + 400) % 30_000) for wall_ms, ms in looks(WATERMARK) if ms > 0]


UNRELATED = list(accumulate(random.Random(7).choices([0, 9_000, 31_000], [90, 5, 5], k=200)))


def test_a_topic_that_gets_a_record_whenever_a_watermark_passes_it_by_a_constant_is_perhaps_its_output() -> None:
    jobs = {"report": looks(WATERMARK), "other": looks([ms + 13_000 + ms // 3 for ms in WATERMARK])}
    assert guessed_writer(looks(REPORTS), jobs) == "report"
    apart = [(wall_ms + 700, ms + 700) for wall_ms, ms in looks(WATERMARK)]  # a job is looked at by itself
    assert guessed_writer(looks(REPORTS), {"report": apart}) == "report"
    assert guessed_writer(apart_reports(), {"report": looks(WATERMARK)}) == "report"


def test_nothing_is_guessed_where_no_steps_distinguish_jobs() -> None:
    report = {"report": looks(WATERMARK)}
    assert guessed_writer(looks([ms - 5_000 for ms in WATERMARK]), report) is None  # event time advances everywhere
    assert guessed_writer(looks(REPORTS[:90]), {"report": looks(WATERMARK[:90])}) is None  # two steps
    assert guessed_writer(looks(UNRELATED), report) is None
    assert guessed_writer(looks(REPORTS), {**report, "twin": looks([ms + 500 for ms in WATERMARK])}) is None
    assert guessed_writer(looks(REPORTS), {}) is None


def test_a_guess_is_said_and_neither_loses_nor_joins_anything() -> None:
    before = chain_of(FIVE)
    orphan = station(kind="topic", name="hourly", target="hourly", event_ms=HOUR, guess="report")
    after = chain_of([*FIVE, orphan])
    assert (after.behind_ms, names(after), worst(after)) == (before.behind_ms, names(before), worst(before))
    guessed = next(hop for hop in after.hops if hop.name == "hourly")
    assert ([after.hops[number].name for number in guessed.inputs], guessed.edge) == (["report"], "guessed")
    assert (guessed.loss_ms, guessed.proven) == (None, [])
    # The way perhaps goes on: what is lost on it is a lower bound.
    assert (after.behind_ms, after.behind_at_least) == (chain_of(FIVE).behind_ms, True)
    assert {after.hops[number].name for number in after.joined} == {"orders", "enrich", "enriched", "report"}
