"""Rules about attached Spark queries: pinned nodes, a watermark that never moved or is frozen, state without one."""

from typing import Any

import pytest
from wmtop.engine.snapshot import (
    ChannelView,
    Level,
    Note,
    OperatorKind,
    Reason,
    SiblingQuery,
    Snapshot,
    SourcePosition,
    SparkProgress,
    StatefulOperator,
    Totals,
    Verdict,
    WatermarkNode,
)

from tests.snapshots import replace

from .patients import HOUR, MINUTE, NOW, SECOND, SETTINGS, before, channel, found, healthy, judged, said

UNKNOWN = Totals(None, None, None, None, None, None)
MOVING = Level(NOW - 10 * SECOND, None, 10 * SECOND)
AT_1970 = Level(0, None, NOW)
JOIN = StatefulOperator(operator=0, kind="join", evicts=True)


def query(level: Level = MOVING, **spark: Any) -> Snapshot:
    """An attached query of which nothing but the plan and the progress is known."""
    settings = replace(
        SETTINGS, strategy="spark", lateness_ms=30 * SECOND, idle_after_ms=None, future_guard_ms=None, window=None
    )
    known: dict[str, Any] = {"batch_ms": 300, "nodes": [WatermarkNode("ts", 30 * SECOND)], "has_watermark": True}
    return healthy(
        [], totals=UNKNOWN, whatif=None, whatif_idle=None, origin={"spark": "event log"}, settings=settings,
        level=level, spark=SparkProgress(**(known | spark)),
    )  # fmt: skip


def two(pinned: str) -> list[WatermarkNode]:
    return [WatermarkNode("ts", 0, NOW), WatermarkNode("other", 5, None, holds=True, pinned=pinned)]  # type: ignore[arg-type]


def test_a_join_input_without_data_keeps_the_query_at_1970() -> None:
    nodes = two("no_input")
    kinds = found(query(AT_1970, nodes=nodes, policy="min", operators=[JOIN], never_moved=True))
    assert kinds["node-without-data"].title.startswith("1 watermark node (other) without a row")
    assert kinds["node-without-data"].severity == "critical"
    assert "watermark-never-moved" not in kinds


def test_a_watermark_above_its_own_output_can_never_advance() -> None:
    kinds = found(query(AT_1970, nodes=two("own_output"), policy="min", never_moved=True))
    assert kinds["watermark-pinned"].severity == "critical"
    assert kinds["watermark-pinned"].title.startswith("The watermark of other waits")
    assert "watermark-never-moved" not in kinds


def test_a_watermark_that_never_moved_though_rows_came() -> None:
    assert found(query(AT_1970, never_moved=True))["watermark-never-moved"].severity == "critical"


@pytest.mark.parametrize(
    ("reason", "fix"),
    [
        ("no_event_time", "fill-event-time"),
        ("before_1970", "event-time-after-1970"),
        ("delay_too_long", "shorten-delay"),
    ],
)
def test_one_watermark_that_never_moved_is_not_blamed_on_another_input(reason: Any, fix: str) -> None:
    kinds = found(query(AT_1970, never_moved=True, unmoved=reason, dropped_at_least=6))
    assert [one.code for one in kinds["watermark-never-moved"].fixes] == [fix]
    assert "dropped" not in kinds  # a longer delay would not help
    alone = found(query(AT_1970, never_moved=True))["watermark-never-moved"]
    assert [one.code for one in alone.fixes] == ["fill-event-time"]


@pytest.mark.parametrize("state", ["live", "ended"])
def test_a_watermark_ahead_of_the_clock_is_critical_though_no_channel_is_known(state: Any) -> None:
    ahead = query(Level(watermark_ms=NOW + 2 * HOUR, behind_clock_ms=-2 * HOUR), dropped_at_least=4)
    kinds = found(replace(ahead, state=state, wall_ms=NOW + 9 * HOUR))  # a post-mortem is at the end of its log
    finding = kinds["future-timestamps"]
    assert (finding.severity, finding.channels) == ("critical", ())
    assert finding.title == "Event time is 2h ahead of the clock"
    assert [one.code for one in finding.fixes] == ["drop-future-rows", "check-record"]
    assert "dropped" not in kinds
    now = query(Level(watermark_ms=NOW + SECOND, behind_clock_ms=-SECOND))
    assert "future-timestamps" not in found(now)


def test_a_restart_with_a_longer_delay_freezes_the_watermark() -> None:
    raised = Verdict("waiting", NOW, reason=Reason("lateness_raised", ms=2 * HOUR))
    finding = found(replace(query(frozen_ms=2 * HOUR), verdict=raised))["frozen-by-lateness"]
    assert (finding.size, finding.severity) == (2 * HOUR, "warning")
    assert "frozen-by-lateness" not in found(query(frozen_ms=2 * HOUR)), "before patience is over"


def test_state_without_a_watermark_is_never_released() -> None:
    snapshot = query(Level(), has_watermark=False, nodes=None, operators=[JOIN], state_rows=9_000)
    assert found(snapshot)["no-watermark"].evidence == ["9,000 rows in state"]
    complete = query(Level(), has_watermark=False, nodes=None, operators=[JOIN], output_mode="complete")
    assert "no-watermark" not in found(complete)


@pytest.mark.parametrize(("mode", "grows"), [("append", True), ("update", False), ("complete", False)])
def test_modes_that_keep_what_they_emitted_may_grow(mode: str, grows: bool) -> None:
    snapshot = query(output_mode=mode, state_rows=900_000)
    past = before(snapshot, state_rows=lambda ago: 900_000 - 2_500 * ago, watermark_ms=lambda ago: NOW - MINUTE)
    assert ("state-grows" in found(snapshot, past)) is grows


OWN_STATE = ("map_groups_with_state", "transform_with_state", "limit")


@pytest.mark.parametrize("kind", OWN_STATE)
def test_state_that_the_query_s_own_code_removes_needs_no_watermark(kind: OperatorKind) -> None:
    own = StatefulOperator(operator=0, kind=kind, output_mode="append")
    bare: dict[str, Any] = {"has_watermark": False, "nodes": [], "state_rows": 900_000}
    snapshot = query(Level(), operators=[own], **bare)
    assert "no-watermark" not in found(snapshot)
    past = before(snapshot, state_rows=lambda ago: 900_000 - 2_500 * ago, watermark_ms=lambda ago: None)
    assert "state-grows" not in found(snapshot, past)
    both = [own, StatefulOperator(operator=1, kind="dedup")]
    assert found(query(Level(), operators=both, **bare))["no-watermark"].severity == "warning"


def test_state_without_a_watermark_may_be_that_of_complete_mode_where_the_mode_is_not_known() -> None:
    windows = StatefulOperator(operator=0, kind="aggregation", windowed=True, evicts=False)
    alone: dict[str, Any] = {"has_watermark": None, "nodes": None, "operators": [windows]}
    finding = found(query(Level(), **alone))["state-never-removed"]
    assert (finding.severity, finding.fixes[0].code) == ("info", "add-watermark")
    moved = found(query(MOVING, **alone))["state-never-removed"]  # it has a watermark, which its keys do not carry
    assert (moved.severity, moved.cause) == ("warning", "Its keys carry no watermark.")


def test_totals_by_key_without_a_watermark_are_often_meant() -> None:
    totals = StatefulOperator(operator=0, kind="aggregation", windowed=False, output_mode="update", evicts=False)
    windows = replace(totals, windowed=True)
    severities = [
        found(query(Level(), operators=[one], has_watermark=False, nodes=[]))["no-watermark"].severity
        for one in (totals, windows)
    ]
    assert severities == ["info", "warning"]


def test_a_query_without_a_watermark_is_not_asked_to_wait() -> None:
    unknown = judged("unknown", 3 * MINUTE)
    bare = replace(query(Level(), has_watermark=False, nodes=[], operators=[]), verdict=unknown)
    finding = found(bare)["cannot-tell-yet"]
    assert finding.fixes[0].code == "tap-events"
    known = found(replace(bare, spark=replace(bare.spark, has_watermark=True)))["cannot-tell-yet"]
    assert known.fixes[0].code == "wait"


def test_rows_dropped_of_a_channel_that_is_left_behind_are_explained_by_it() -> None:
    slow = [channel("a"), channel("c", 2 * HOUR, late=None, quiet_ms=0)]
    snapshot = query(dropped_at_least=40)
    assert "dropped" in found(snapshot)
    assert found(replace(snapshot, channels=slow)).keys() & {"dropped", "left-behind"} == {"left-behind"}
    totals = StatefulOperator(operator=0, kind="aggregation", output_mode="complete")
    distinct = StatefulOperator(operator=1, kind="dedup")
    for operators, is_lost in (([totals], False), ([], False), ([totals, distinct], True)):
        shown = replace(query(output_mode="complete", operators=operators), channels=slow)
        assert ("left-behind" in found(shown), shown.spark.drops_late) == (is_lost, is_lost)


@pytest.mark.parametrize(
    ("kind", "passed", "how"),
    [
        ("dedup", "their time", "in known batches"),
        ("join", "their time", "on both sides of a join"),
        ("transform_with_state", "their time", "in known batches"),
        ("aggregation", "the end of their window", "after partial aggregation"),
    ],
)
def test_rows_are_dropped_by_the_end_of_their_window_or_by_their_own_time(
    kind: OperatorKind, passed: str, how: str
) -> None:
    own = StatefulOperator(operator=0, kind=kind)
    finding = found(query(dropped_at_least=40, operators=[own]))["dropped"]
    assert finding.cause.endswith(f"passed {passed}.")
    assert f"dropped, {how}: a lower bound" in said(finding)
    assert [fix.code for fix in finding.fixes] == ["tap-input"]


def test_a_tap_is_not_asked_for_where_there_is_one() -> None:
    counted = query(dropped_at_least=40)
    (fix,) = found(replace(counted, whatif=[]))["dropped"].fixes
    assert fix.code == "see-late-records"


def test_a_delay_of_zero_of_any_node() -> None:
    nodes = [WatermarkNode("ts", 0, NOW), WatermarkNode("other", 5_000, NOW)]
    finding = found(query(nodes=nodes))["zero-delay"]
    assert (finding.evidence[0], finding.severity) == ("Delay of column ts: 0s", "warning")
    windows = [StatefulOperator(operator=0, kind="aggregation", windowed=True, evicts=True)]
    assert "once its window has ended" in found(query(nodes=nodes, operators=windows))["zero-delay"].impact


def test_a_delay_of_zero_says_how_many_rows_were_dropped_for_an_equal_time() -> None:
    nodes, dedup = [WatermarkNode("ts", 0, NOW)], [StatefulOperator(operator=0, kind="dedup", evicts=True)]
    counted: dict[str, Any] = {"dropped_at_least": 40, "dropped_exact": True, "dropped_at_watermark": 25}
    finding = found(query(nodes=nodes, operators=dedup, **counted))["zero-delay"]
    assert "\n40 rows dropped so far, at least 25 of them" in said(finding)
    assert "zero-delay" not in found(query(nodes=nodes, operators=[]))  # without state nothing is dropped


def test_batches_of_real_time_mode_are_not_slow() -> None:
    assert "slow-batches" in found(query(batch_ms=300_000))
    assert "slow-batches" not in found(query(batch_ms=300_000, real_time_ms=300_000))


def test_another_query_of_the_application_failed() -> None:
    siblings = [SiblingQuery("clicks", "1", "failed", "boom"), SiblingQuery("views", "2", "running")]
    assert found(replace(query(), siblings=siblings))["sibling-failed"].title.startswith("clicks of the same")


@pytest.mark.parametrize(
    "snapshot",
    [
        query(),
        query(nodes=[WatermarkNode("ts", 30_000, NOW), WatermarkNode("other", 5_000, NOW)], policy="min"),
        query(frozen_ms=0),
        replace(query(), siblings=[SiblingQuery("views", "2", "stopped")]),
    ],
)
def test_a_query_that_is_well_has_no_findings(snapshot: Snapshot) -> None:
    assert found(snapshot) == {}


@pytest.mark.parametrize(
    ("verdict", "gain", "severity"),
    [
        ("moving", 10 * MINUTE, "warning"),
        ("stalled", 10 * MINUTE, "critical"),
        ("stalled", 50 * SECOND, "critical"),  # however little it is behind: nothing else holds it back
        ("moving", 50 * SECOND, None),
    ],
)
def test_an_input_that_holds_the_others_back_is_named(verdict: Any, gain: int, severity: str | None) -> None:
    level = NOW - 20 * MINUTE
    nodes = [
        WatermarkNode("ts", 10 * SECOND, level + gain, sources=[0]),
        WatermarkNode("ts", 20 * SECOND, level, holds=True, sources=[1]),
    ]
    of = query(Level(level, None, NOW - level), nodes=nodes, policy="min", operators=[JOIN])
    of = replace(
        of,
        verdict=judged(verdict, 2 * MINUTE if verdict == "stalled" else 0),
        sources=[SourcePosition("views", None), SourcePosition("clicks", None)],
    )
    finding = found(of).get("input-holds-back")
    if severity is None:
        assert finding is None
        return
    assert finding.code == "input-holds-back"
    assert (finding.severity, finding.size) == (severity, gain)
    assert "(delay 20s)" in finding.title
    assert "It reads clicks" in said(finding)
    assert "input-holds-back" in found(replace(of, state="ended")), "after its end as well"
    unknown = [nodes[1], replace(nodes[0], watermark_ms=None)]
    assert "input-holds-back" not in found(replace(of, spark=replace(of.spark, nodes=unknown)))
    least = [nodes[1], replace(nodes[0], watermark_ms=None, at_least_ms=nodes[0].watermark_ms)]
    assert "input-holds-back" in found(replace(of, spark=replace(of.spark, nodes=least)))
    assert "input-holds-back" not in found(replace(of, spark=replace(of.spark, policy="max")))


def test_dropped_rows_need_a_delay_that_covers_the_earliest_of_them() -> None:
    finding = found(query(dropped_at_least=9, dropped_behind_ms=394 * SECOND))["dropped"]
    assert finding.code == "dropped"
    assert [(one.code, one.value_ms) for one in finding.fixes] == [
        ("lengthen-lateness", 400 * SECOND), ("tap-input", None),
    ]  # fmt: skip
    wrong = found(query(dropped_at_least=9, dropped_behind_ms=9_000 * HOUR))["dropped"]
    assert wrong.fixes[0].value_ms is None, "those rows are wrong, not late"


@pytest.mark.parametrize("known", [{"frozen_ms": 2 * HOUR}, {"dropped_behind_ms": 20 * SECOND}])
def test_rows_dropped_since_a_restart_need_no_longer_delay(known: dict[str, int]) -> None:
    """The delay in force (30 s) would have kept them: the watermark is still that of the shorter one before."""
    finding = found(query(dropped_at_least=9, **known))["dropped"]
    assert finding.code == "dropped"
    assert "before the restart" in finding.cause
    assert [one.code for one in finding.fixes] == ["wait"]


def test_no_delay_is_proposed_where_which_one_is_too_short_is_not_known() -> None:
    """As by a driver: of two inputs, or where the watermark may still be that of the delay before a restart."""
    moved = replace(MOVING, moved_ms=NOW - 10 * SECOND)
    nodes = [WatermarkNode("ts", 10 * SECOND), WatermarkNode("ts", 30 * SECOND)]
    fix = found(query(moved, dropped_at_least=9, nodes=nodes))["dropped"].fixes[0]
    assert (fix.code, "withWatermark" in fix.text) == ("lengthen-lateness", False)
    assert "withWatermark" in found(query(moved, dropped_at_least=9))["dropped"].fixes[0].text
    still = found(query(dropped_at_least=9))["dropped"]
    assert [one.code for one in still.fixes] == ["tap-input"]
    assert "has not moved in the batches that are known" in said(still)


def test_a_query_that_its_driver_shows_as_running_is_not_said_to_have_died() -> None:
    for args, worst in (({"alive": 1}, "is stuck in its source"), ({}, "has ended or died")):
        note = Note(NOW, "pause_unknown", {"silent_ms": MINUTE, **args})
        pause = found(replace(query(), state="partial", notes=[note], verdict=judged("unknown", MINUTE)))[
            "pause-unknown"
        ]
        assert worst in pause.cause
        stale = found(replace(query(), state="stale", notes=[Note(NOW, "batch_unfinished", {"batch": 5, **args})]))
        for finding in (pause, stale["query-stale"]):
            assert ("is its process running" in finding.fixes[0].text) == (not args)
        assert ("died" in stale["query-stale"].cause) == (not args)


def test_the_keys_of_dropped_duplicates_need_the_time() -> None:
    keys = StatefulOperator(operator=0, kind="dedup", evicts=False, watermarks=[0], rows=30)
    finding = found(query(operators=[keys]))["state-never-removed"]
    assert finding.code == "state-never-removed"
    assert finding.fixes[0].code == "dedup-with-time"


def test_rows_that_are_no_newer_than_those_before_do_not_need_time() -> None:
    frozen = Level(NOW - 10 * MINUTE, None, 10 * MINUTE, moved_ms=NOW - 3 * MINUTE)
    seen: dict[str, Any] = {
        "max_event_ms": NOW - 10 * MINUTE + 30 * SECOND, "input_rows_per_second": 4.0,
        "batch_timestamp_ms": NOW - SECOND,
    }  # fmt: skip
    unknown = judged("unknown", 3 * MINUTE)
    of = replace(query(frozen, **seen), verdict=unknown)
    assert list(found(of)) == ["event-time-stuck"]
    last = replace(of, spark=replace(of.spark, batch_timestamp_ms=NOW - 170 * SECOND))
    assert "event-time-stuck" not in found(last), "its last batch may be the one that moved the watermark"
    assert "event-time-stuck" not in found(replace(of, spark=replace(of.spark, input_rows_per_second=0.0)))
    assert "event-time-stuck" not in found(replace(of, spark=replace(of.spark, max_event_ms=NOW))), "it moves on"


def stuck(**more: Any) -> Snapshot:
    """A query that reads, and whose newest record is ten minutes old: the watermark has not moved for three minutes."""
    frozen = Level(NOW - 10 * MINUTE, None, 10 * MINUTE, moved_ms=NOW - 3 * MINUTE)
    known: dict[str, Any] = {
        "max_event_ms": NOW - 10 * MINUTE + 30 * SECOND, "input_rows_per_second": 4.0, "batches_unmoved": 40,
        "in_flight": True, "batch_timestamp_ms": NOW - SECOND,
    }  # fmt: skip
    unknown = judged("unknown", 3 * MINUTE)
    return replace(query(frozen, **(known | more)), verdict=unknown)


def at(name: str, behind_ms: int = 0, quiet_ms: int = SECOND) -> ChannelView:
    return channel(name, max_event_ms=NOW - 10 * MINUTE + 30 * SECOND - behind_ms, late=None, quiet_ms=quiet_ms)


@pytest.mark.parametrize(
    ("channels", "named", "evidence"),
    [
        ([at("a")], ("a",), "All channels with data: a"),
        ([at("a"), at("b")], ("a", "b"), "All channels with data: a and b"),
        ([at("a"), at("b", 5 * SECOND)], ("a",), "1 other channel with data: older event times"),
        (
            [at("a", quiet_ms=3 * MINUTE), at("b", 5 * SECOND)],
            (),
            "No data now from a, which had the newest event time",
        ),
    ],
)
def test_channels_that_repeat_their_times_are_named(
    channels: list[ChannelView], named: tuple[str, ...], evidence: str
) -> None:
    finding = found(replace(stuck(), channels=channels))["event-time-stuck"]
    assert (finding.channels, finding.evidence[-1]) == (named, evidence)
    idle = replace(stuck(), channels=channels, notes=[Note(NOW, "query_idle")])
    assert "event-time-stuck" not in found(idle), "its rate is that of its last batch"
    few = replace(stuck(batches_unmoved=2), channels=channels)
    assert "event-time-stuck" not in found(few), "the watermark may advance after the batch in flight"


def test_a_timestamp_in_the_future_is_named_instead_of_the_records_behind_it() -> None:
    ahead = Level(NOW + 2 * HOUR, None, -2 * HOUR, moved_ms=NOW - 3 * MINUTE)
    of = replace(stuck(max_event_ms=NOW + 2 * HOUR + 30 * SECOND), level=ahead)
    kinds = found(of)
    assert "future-timestamps" in kinds
    assert not kinds.keys() & {"event-time-stuck", "watermark-not-advancing", "cannot-tell-yet"}


def test_several_inputs_that_repeat_their_times() -> None:
    level = NOW - 10 * MINUTE
    nodes = [WatermarkNode("ts", SECOND, level, holds=True), WatermarkNode("other", SECOND, level + 9 * SECOND)]
    of = stuck(nodes=nodes, policy="min", operators=[JOIN], max_event_ms=None)
    assert list(found(of)) == ["event-time-stuck"]
    going = [nodes[0], replace(nodes[1], watermark_ms=level + 100 * SECOND)]
    assert "event-time-stuck" not in found(replace(of, spark=replace(of.spark, nodes=going))), "one input advances"
    ahead = [nodes[0], replace(nodes[1], watermark_ms=level + 20 * MINUTE)]
    kinds = found(replace(of, spark=replace(of.spark, nodes=ahead)))
    assert "input-holds-back" in kinds
    assert "event-time-stuck" not in kinds


def test_a_checkpoint_shows_that_batches_read_and_the_watermark_does_not_advance() -> None:
    """What it does not show is why: no event times, and which input is behind."""
    bare: dict[str, Any] = {"max_event_ms": None, "input_rows_per_second": None, "nodes": [WatermarkNode("ts", 5_000)]}
    sources = [SourcePosition("views", 40, batches_unmoved=40), SourcePosition("clicks", 9, batches_unmoved=0)]
    of = replace(stuck(**bare), sources=sources, origin={"batch": "checkpoint"})
    [finding] = found(of).values()
    assert finding.code == "watermark-not-advancing"
    assert (finding.severity, finding.size, finding.channels) == ("warning", 3 * MINUTE, ())
    assert "in at least 40 batches since\nNo new input in them from clicks" in said(finding)
    assert "cannot-tell-yet" in found(replace(of, spark=replace(of.spark, batches_unmoved=2)))
    assert "cannot-tell-yet" in found(replace(of, spark=replace(of.spark, batches_unmoved=None)))
    pause = [Note(NOW, "pause_unknown")]
    assert "watermark-not-advancing" not in found(replace(of, state="partial", notes=pause)), (
        "its newest may have come first"
    )
    soon = replace(of.level, moved_ms=NOW - 40 * SECOND)
    assert "cannot-tell-yet" in found(replace(of, level=soon, verdict=judged("unknown", 40 * SECOND)))
    moving = judged("moving", 0)
    assert "watermark-not-advancing" not in found(replace(of, verdict=moving))


@pytest.mark.parametrize(
    ("quiet", "patience", "left"), [(9, MINUTE, True), (40, MINUTE, False), (40, 10 * MINUTE, True)]
)
def test_a_channel_that_can_only_be_late_is_named_between_batches_too(quiet: int, patience: int, left: bool) -> None:
    """With a trigger of a minute its newest record is often older than ten seconds."""
    slow = [channel("a"), channel("c", 2 * HOUR, late=None, quiet_ms=quiet * SECOND)]
    moving = judged("moving", 0, patience)
    assert ("left-behind" in found(replace(query(), channels=slow, verdict=moving))) is left
