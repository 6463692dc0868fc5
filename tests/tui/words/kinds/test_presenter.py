"""What is followed is decided in one place, and every kind has words for every state."""

import re
from pathlib import Path
from typing import get_args

import pytest
from wmtop.engine.snapshot import (
    Chain,
    ConsumerGroup,
    FlinkJob,
    Holder,
    KafkaStreams,
    KafkaTopic,
    Level,
    Other,
    OtherFact,
    OwnRun,
    Reason,
    Snapshot,
    SourcePosition,
    SparkQuery,
    TargetPart,
    Verdict,
    WatermarkNode,
)
from wmtop.engine.text.formatting import ELSEWHERE
from wmtop.engine.verdict.blame import is_close
from wmtop.engine.verdict.chain import chain_of
from wmtop.tui import words
from wmtop.tui.words.kinds import presenter_of
from wmtop.tui.words.operators import stages_of_query
from wmtop.tui.words.spans import lay
from wmtop.tui.words.state import condition
from wmtop.tui.words.watermark import late_drops

from tests.snapshots import replace
from tests.stations import station

from ...attached import group, query, stale, streams, tapped, two_nodes
from ...canned import empty, ended, live, stalled

JOB = FlinkJob("c" * 32, "orders", "RUNNING", None, [])
FLINK = replace(group(), origin={"level": "flink", "channels": "flink"}, flink=JOB)
PLUGIN = replace(group(), other=Other("gauges", [OtherFact("spread", 7, "ms"), OtherFact("lag", None)]))
CHAIN = replace(
    group(),
    channels=[],
    chain=chain_of(
        [
            station(kind="topic", name="orders", event_ms=7_200_000),
            station(kind="job", name="enrich", event_ms=3_600_000, reads={"orders": "reported"}),
        ]
    ),
)
OF: dict[type[TargetPart], Snapshot] = {
    OwnRun: live(),
    SparkQuery: query(),
    KafkaTopic: group("topic"),
    ConsumerGroup: group(),
    FlinkJob: FLINK,
    KafkaStreams: streams(),
    Other: PLUGIN,
    Chain: CHAIN,
}


def test_each_kind_is_recognised() -> None:
    assert {kind: type(snapshot.target) for kind, snapshot in OF.items()} == {kind: kind for kind in OF}
    assert set(OF) == set(get_args(TargetPart))
    assert [kind for kind, snapshot in OF.items() if not snapshot.is_attached] == [OwnRun]
    assert [snapshot.one_clock for snapshot in (live(), query(), tapped(), FLINK)] == [False, True, True, False]


@pytest.mark.parametrize("kind", OF)
def test_every_kind_has_words_for_every_state(kind: type[TargetPart]) -> None:
    snapshot = OF[kind]
    nothing = replace(snapshot, channels=[], level=Level(), barrel=None, sources=None)
    for one in (snapshot, nothing, replace(snapshot, level=Level(idle=True)), replace(snapshot, ended=True)):
        words = presenter_of(one)
        texts = [words.no("barrel"), words.no("channels"), words.no("windows"), words.no("holders"),
                 words.no("lateness"), words.no("idle timeouts"), words.no("records"), words.how_to_type]  # fmt: skip
        assert all(texts)
        assert words.stages(None)
        assert lay(words.tuning(None, None), 200)
        assert one.ended or lay(words.holder(None), 200)


def test_only_an_attached_target_has_a_status_of_its_own() -> None:
    assert presenter_of(stale()).state_override() is not None
    assert all(presenter_of(snapshot).state_override() is None for snapshot in (live(), stalled(), empty(), ended()))


def test_an_own_run_that_is_stale_or_partial_is_not_live() -> None:
    """A JVM that does not answer, and a snapshot that is too long, are reported by the engine itself."""
    for state in ("stale", "partial", "starting"):
        assert condition(live(state=state), frozen=False, silent_s=0.0, lost=None).word == state.upper()


def test_nothing_in_the_screen_asks_by_a_missing_value_what_is_followed() -> None:
    tui = Path(words.__file__).parent.parent
    asks = re.compile(r"snapshot\.(origin|flink) is |strategy [!=]= .spark.")
    found = {str(path.relative_to(tui)) for path in tui.rglob("*.py") if asks.search(path.read_text())}
    assert found == set()


def test_a_channel_within_the_lateness_does_not_hold_back_a_watermark_that_moves() -> None:
    """Its lag is the disorder that lateness allows; the line and the table say who is slowest, and no more."""
    healthy = in_front(10 * 60_000)
    assert is_close(healthy)
    assert "10m behind the fastest" in said(healthy)
    assert "held back" not in said(healthy)
    for other in (in_front(10**7), replace(healthy, verdict=replace(healthy.verdict, verdict="stalled"))):
        assert "held back by" in said(other)
    assert "held back by" in said(replace(healthy, level=replace(healthy.level, holder=Holder("F9", 0, "quiet"))))


def in_front(behind_ms: int) -> Snapshot:
    """F9 is so far behind the fastest channel, and the watermark moves."""
    snapshot = live(verdict=Verdict("moving", 0, age_ms=0, patience_ms=60_000, speed=1.0, reason=Reason("advancing")))
    level = replace(snapshot.level, behind_fastest_ms=behind_ms, holder=Holder("F9", 0, "behind"))
    return replace(snapshot, level=level)


def said(snapshot: Snapshot) -> str:
    """The line on the channel that holds back the watermark."""
    return "".join(text for text, _ in lay(presenter_of(snapshot).holder(None), 200))


@pytest.mark.parametrize(("dropped", "shown"), [(None, ELSEWHERE), (0, "0"), (3, "≥ 3")])
def test_drops_that_are_not_known_are_not_none(dropped: int | None, shown: str) -> None:
    """A query that fails in its first batch reports none: `late 0` would be an all-clear."""
    seen = replace(query(), spark=replace(query().spark, dropped_at_least=dropped))
    assert late_drops(seen) == shown
    assert ("dropped 0 rows" in str(stages_of_query(seen, None))) is (shown == "0")


@pytest.mark.parametrize(
    ("unread", "shown"), [((2, 3), "backlog 5"), ((2, None), "backlog ≥ 2"), ((0, None), None), ((None,), None)]
)
def test_a_part_of_the_backlog_is_shown_as_a_part(unread: tuple[int | None, ...], shown: str | None) -> None:
    seen = replace(query(), sources=[SourcePosition(f"kafka {n}", None, count) for n, count in enumerate(unread)])
    line = "".join(text for part in presenter_of(seen).tuning(None, None) for text, _ in part.spans)
    assert "backlog" not in line if shown is None else shown in line


def test_the_fastest_channel_does_not_set_the_watermark_of_several_inputs() -> None:
    """A join whose inputs are tapped: its watermark is that of its slower input."""
    nodes = [WatermarkNode("ordered_at", 30_000, holds=True), WatermarkNode("paid_at", 60_000)]
    join = replace(two_nodes(), channels=tapped().channels, barrel=tapped().barrel)
    join = replace(join, spark=replace(join.spark, nodes=nodes, policy="min"))
    words = presenter_of(join)
    said = [words.no("holders"), *(f"{stage.what} {stage.why}" for stage in words.stages(None))]
    assert not [text for text in said if "fastest" in text or "maximum" in text]
    assert "ordered_at" in said[0]
    assert [stage.holds for stage in words.stages(None) if stage.name == "watermark node"] == [True, False]
    assert "fastest" in presenter_of(tapped()).no("holders")


def test_what_a_narrow_line_keeps_of_the_barrel_s_rule_is_not_the_watermark_of_another() -> None:
    """`WATERMARK 14:05 by the slowest channel old` would say that it is that channel's."""
    first = presenter_of(tapped()).holder(None)[0]
    assert re.match(r" by the slowest channel it would be \S+ lower: shop-5", "".join(text for text, _ in first.spans))
    assert first.gap.isspace()


def test_a_group_is_called_so_once() -> None:
    assert presenter_of(group()).whole_identity().startswith("group billing on orders")
