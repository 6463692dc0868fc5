"""Facts of taps in, a snapshot out: what is not known is null, and a checkpoint is made to say no more than it does."""

from typing import Any

import msgspec
import pytest
from wmtop.engine.doctor import diagnose
from wmtop.engine.feed.messages import encode
from wmtop.engine.snapshot import (
    STATE_SCHEMA,
    Note,
    Snapshot,
    SourcePosition,
    SourceView,
    StatefulOperator,
    WatermarkNode,
    WindowsUnknown,
)
from wmtop.engine.targets.spark.checkpoint import CheckpointFacts, RecordedBatch, WatermarkDelay
from wmtop.engine.targets.spark.facts import BatchProgress, QueryFacts, QueryRun, Report, StateFacts
from wmtop.engine.targets.spark.files import SourceOffsets
from wmtop.engine.targets.spark.open_windows import OpenWindows, StoredWindow
from wmtop.engine.targets.spark.operators import operators_of
from wmtop.engine.targets.spark.plan import PlanFacts
from wmtop.engine.targets.spark.query_snapshot import STALE_AFTER_MS, snapshot_of_query, state_of
from wmtop.engine.targets.spark.watch import past_of
from wmtop.engine.targets.topic import PartitionFacts, TopicFacts
from wmtop.engine.watermarks.settings import Tumbling

from tests.judging import Judge
from tests.snapshots import replace

NOW = 1_700_000_000_000
LEVEL = NOW - 60_000
WHEN = NOW - 1_000 + STALE_AFTER_MS + 1
DELAY = WatermarkDelay(30_000, "window", windowed=True, operator=0)


def marks(*levels: int | None, every_ms: int = 2_000) -> tuple[RecordedBatch, ...]:
    """Batches 1, 2, … of which the last began a second ago."""
    began = [NOW - 1_000 - every_ms * back for back in range(len(levels) - 1, -1, -1)]
    return tuple(RecordedBatch(n, at, level) for n, (at, level) in enumerate(zip(began, levels, strict=True), 1))


def test_the_first_batch_of_real_time_mode_is_not_stale_while_the_second_runs() -> None:
    """Its offsets are written at its end, five minutes after it began; the next file comes five minutes later."""
    began = NOW - 500_000
    only = RecordedBatch(0, began, None, end_ms=began + 300_000)
    seen = facts(batch=0, committed=0, batch_timestamp_ms=began, history=(only,))
    assert picture(seen).state == "live"
    paused = picture(replace(seen, history=(replace(only, end_ms=began + 500),)))
    assert (paused.state, paused.notes[0]) == ("partial", Note(NOW, "pause_unknown", {"silent_ms": 500_000}))


@pytest.mark.parametrize(
    ("began_s", "alive", "state"), [(25, True, "live"), (100, True, "live"), (400, True, "stale"), (100, None, "stale")]
)
def test_the_first_report_of_real_time_mode_comes_at_the_end_of_its_first_batch(
    began_s: int, alive: bool | None, state: str
) -> None:
    """Its checkpoint has the offsets of that batch a moment before."""
    began = NOW - 1_000 * began_s
    run = QueryRun(
        id="q", run_id="r", name="orders", last_event_ms=began, idle_ms=None, ended=False, error=None,
        running=None, progress=None, plan=None, watermark_policy=None, max_event_ms=None, dropped_at_least=0,
        history=(), inputs=(),
    )  # fmt: skip
    report = Report(tap="publish", run=run, alive=alive, trouble=None)
    first = RecordedBatch(0, began, None)
    batch = facts(batch=0, in_flight=True, committed=None, batch_timestamp_ms=began, history=(first,))
    for checkpoint in (None, batch):
        assert state_of(QueryFacts(checkpoint=checkpoint, report=report), NOW).state == state


def test_a_store_out_of_reach_and_a_newer_format_are_said() -> None:
    lost = picture(facts(trouble="s3://lake/orders: access denied", out_of_reach=True, in_flight=True))
    assert (lost.state, lost.notes[0].code) == ("stale", "unreadable")
    later = replace(lost, wall_ms=NOW + 3_600_000, now_ms=NOW + 3_600_000)
    assert "hung-batch" not in [finding.code for finding in diagnose(later, [])]
    [finding] = [finding for finding in diagnose(later, []) if finding.code == "query-stale"]
    assert ("access denied" in finding.cause, "hangs" in finding.cause) == (True, False)
    assert picture(facts(newer_format="v3")).notes[0] == Note(NOW, "newer_format", {"version": "v3"})


def facts(**more: Any) -> CheckpointFacts:
    """A query of one node whose third batch has been committed."""
    known: dict[str, Any] = {
        "query_id": "q",
        "batch": 3,
        "in_flight": False,
        "committed": 3,
        "batch_timestamp_ms": NOW - 1_000,
        "watermark_ms": LEVEL - 2_000,
        "next_watermark_ms": LEVEL,
        "conf": {"spark.sql.streaming.multipleWatermarkPolicy": "min"},
        "delays": (DELAY,),
        "history": marks(LEVEL - 6_000, LEVEL - 4_000, LEVEL - 2_000),
    }
    return CheckpointFacts(**known | more)


def picture(
    checkpoint: CheckpointFacts,
    windows: tuple[OpenWindows, ...] | None = (),
    *,
    now_ms: int = NOW,
    before: Snapshot | None = None,
) -> Snapshot:
    source = SourceView("checkpoint", "/q")
    together = QueryFacts(checkpoint=checkpoint, windows=windows, window=Tumbling(10_000))
    return snapshot_of_query(together, name="q", source=source, now_ms=now_ms, before=before)


def codes(shown: Snapshot) -> list[str]:
    return [note.code for note in shown.notes]


def test_the_level_is_what_the_next_batch_will_use() -> None:
    shown = picture(facts())
    assert (shown.state, shown.batch, codes(shown)) == ("live", 3, ["windows_unknown"])
    assert (shown.level.watermark_ms, shown.level.behind_clock_ms) == (LEVEL, 60_000)
    assert (shown.spark.watermark_ms, shown.spark.batch_watermark_ms) == (LEVEL, LEVEL - 2_000)
    assert shown.level.at_zero_lateness_ms == LEVEL + 30_000
    assert shown.spark.nodes == [WatermarkNode(None, 30_000, LEVEL)]
    assert shown.spark.policy == "min"
    assert (shown.settings.strategy, shown.settings.lateness_ms, shown.settings.idle_after_ms) == (
        "spark",
        30_000,
        None,
    )


def test_in_flight_the_level_is_the_one_in_force() -> None:
    shown = picture(facts(in_flight=True, committed=2, next_watermark_ms=None))
    assert shown.level.watermark_ms == shown.spark.batch_watermark_ms == LEVEL - 2_000
    assert shown.spark.in_flight is True


def test_what_no_tap_reports_is_null_and_never_0() -> None:
    reported = msgspec.json.decode(encode(picture(CheckpointFacts(query_id="q"), None)))
    assert set(reported["totals"].values()) == {None}
    assert {reported["windows"][name] for name in ("open_count", "fired", "late_firings")} == {None}
    unknown = ("watermark_ms", "behind_fastest_ms", "behind_clock_ms", "holder", "moved_ms", "at_zero_lateness_ms")
    assert {reported["level"][name] for name in unknown} == {None}
    assert {reported[name] for name in ("batch", "whatif", "whatif_idle", "instances")} == {None}
    assert (reported["settings"]["lateness_ms"], reported["spark"]["nodes"], reported["spark"]["in_flight"]) == (
        None,
        None,
        None,
    )
    assert "lateness" not in reported["origin"]
    assert "windows" not in reported["origin"]


@pytest.mark.parametrize(
    ("levels", "moved_ago_ms"),
    [
        ((LEVEL - 2, LEVEL - 1, LEVEL - 1), 1_000),  # the third batch's end made it
        ((LEVEL - 1, LEVEL - 1, LEVEL), 3_000),  # the second one's
        ((LEVEL - 1, LEVEL, LEVEL), 5_000),
        ((LEVEL, LEVEL, LEVEL), 5_000),  # longer than is on record: at least so long
        ((), None),
    ],
)
def test_since_when_the_watermark_is_frozen(levels: tuple[int, ...], moved_ago_ms: int | None) -> None:
    since = picture(facts(history=marks(*levels))).level.moved_ms
    assert since == (None if moved_ago_ms is None else NOW - moved_ago_ms)


def test_what_has_dropped_off_the_record_is_remembered() -> None:
    first = picture(facts(history=marks(LEVEL - 1, LEVEL, LEVEL)))
    later = picture(facts(history=marks(LEVEL, LEVEL)), before=first)
    assert later.level.moved_ms == first.level.moved_ms
    moved = picture(facts(next_watermark_ms=LEVEL + 5, history=marks(LEVEL, LEVEL)), before=later)
    assert moved.level.moved_ms == NOW - 1_000


def test_a_query_whose_batch_does_not_end_is_stale() -> None:
    running = facts(in_flight=True)
    limit = NOW - 1_000 + STALE_AFTER_MS
    assert picture(running, now_ms=limit).state == "live"
    stale = picture(running, now_ms=limit + 1)
    assert (stale.state, stale.notes[0]) == ("stale", Note(WHEN, "batch_unfinished", {"batch": 3}))


@pytest.mark.parametrize("later_ms", [STALE_AFTER_MS, 3_600_000, 30 * 24 * 3_600_000])
def test_by_a_checkpoint_alone_a_query_without_a_batch_is_not_known_to_be_stuck(later_ms: int) -> None:
    """An idle query writes nothing, as one that has ended or died."""
    shown = picture(facts(), now_ms=NOW + later_ms)
    judge = Judge()
    judge.recall(past_of(QueryFacts(checkpoint=facts()), LEVEL, NOW + later_ms), shown)
    judged = judge.see(replace(shown, wall_ms=shown.now_ms))
    assert [one.code for one in diagnose(judged, []) if one.severity == "critical"] == []
    if later_ms > STALE_AFTER_MS:
        assert (shown.state, shown.notes[0].code) == ("stale", "no_new_batch")
        assert judged.verdict.verdict == "unknown"


def test_unread_records_and_no_batch_are_stale() -> None:
    """With the broker the checkpoint is not alone: a query with unread records is not idle."""
    orders = kafka({"orders/0": 4})

    def shown(end: int, later_ms: int) -> Snapshot:
        topics = TopicFacts(partitions=(PartitionFacts("orders", 0, end, LEVEL, NOW, 4, LEVEL),))
        seen = QueryFacts(checkpoint=facts(sources=(orders,)), topics=topics)
        return snapshot_of_query(seen, name="q", source=SourceView("checkpoint", "/q"), now_ms=NOW + later_ms)

    def severity(end: int) -> str:
        [stale] = [one for one in diagnose(shown(end, 60_000), []) if one.code == "query-stale"]
        return stale.severity

    assert (severity(9), severity(4)) == ("critical", "warning")


def test_slow_triggers_are_not_stale() -> None:
    slow = facts(history=marks(1, 2, 3, every_ms=600_000))
    assert picture(slow, now_ms=NOW + 1_700_000).state == "live"
    assert picture(slow, now_ms=NOW + 1_900_000).state == "stale"
    stop = [RecordedBatch(n, NOW - 90_000_000 + 1_000 * n, 1) for n in range(9)]
    stop += [RecordedBatch(n, NOW - 250_000 + 1_000 * n, 1) for n in range(9, 20)]
    stopped = picture(facts(history=tuple(stop), batch_timestamp_ms=NOW - 230_000))
    assert (stopped.state, stopped.notes[0].code) == ("stale", "no_new_batch")  # a restart is not a pace


def test_the_first_pauses_may_be_a_slow_trigger_s() -> None:
    """The first batch begins at once, the next at a multiple of the interval: two say little of the third."""
    began = (NOW - 250_000, NOW - 240_000)
    two = tuple(RecordedBatch(n, at, 1) for n, at in enumerate(began))
    assert picture(facts(history=two, batch_timestamp_ms=began[-1])).state == "partial"
    began = (NOW - 1_060_000, NOW - 1_050_000, NOW - 750_000, NOW - 450_000, NOW - 250_000)
    bursts = tuple(
        RecordedBatch(n, at, 1) for n, at in enumerate([*began, *(NOW - 249_000 + 500 * n for n in range(9))])
    )
    assert picture(facts(history=bursts, batch_timestamp_ms=NOW - 245_000)).state == "partial"


def test_before_the_first_batch_and_with_trouble() -> None:
    assert picture(CheckpointFacts(query_id="q")).notes[0].code == "no_batch"
    broken = picture(facts(trouble="offsets/3: unknown format"))
    assert (broken.state, broken.notes[0]) == ("partial", Note(NOW, "unreadable", {"why": "offsets/3: unknown format"}))


def test_several_delays_are_nodes_and_no_lateness() -> None:
    two = (
        WatermarkDelay(30_000, "a", windowed=False, operator=0),
        WatermarkDelay(60_000, "b", windowed=False, operator=0),
    )
    shown = picture(facts(delays=two))
    assert (shown.settings.lateness_ms, (shown.origin or {})["lateness"]) == (None, STATE_SCHEMA)
    assert shown.spark.nodes == [WatermarkNode("a", 30_000), WatermarkNode("b", 60_000)]
    named = WatermarkDelay(30_000, "ts", windowed=False, operator=1)
    assert picture(facts(delays=(DELAY, named))).spark.nodes == [WatermarkNode("ts", 30_000, LEVEL)]


def window(start_s: int, records: int | None = 7) -> StoredWindow:
    start = LEVEL + start_s * 1_000
    return StoredWindow(start, start + 10_000, keys=3, records=records)


def test_windows_close_when_the_level_reaches_their_end() -> None:
    found = OpenWindows(operator=0, batch=3, windows=(window(-10), window(0), window(10, None)), open=5, keys=9)
    windows = picture(facts(), (found,)).windows
    assert [w.short_ms for w in windows.open] == [0, 10_000, 20_000]
    assert [w.records for w in windows.open] == [7, 7, None]
    assert {w.waits_for for w in windows.open} == {w.operator for w in windows.open} == {None}
    assert (windows.open_count, windows.fired, windows.late_firings, windows.unknown) == (5, None, None, None)


@pytest.mark.parametrize(
    ("numbers", "rows"), [((0, 1), [5, 7]), ((None, None), [5, 7]), ((1, 0), [7, 5]), ((None, 1), [None, 7])]
)
def test_the_rows_of_operators_by_their_numbers_else_by_their_order(
    numbers: tuple[int | None, ...], rows: list[int | None]
) -> None:
    """Drivers of Spark 4.0 and older show plans without numbers (seen on 3.5.7)."""
    operators = tuple(StatefulOperator(operator=number, kind="aggregation") for number in numbers)
    progress = BatchProgress("i", "r", 3, states=(StateFacts("a", 5), StateFacts("b", 7)))
    found = operators_of(PlanFacts(operators=operators), progress, None)
    assert [operator.rows for operator in found or ()] == rows


def test_windows_of_several_operators_by_end_and_why_others_are_not_there() -> None:
    read = OpenWindows(operator=1, batch=3, windows=(window(0),), open=1, keys=1)
    also = OpenWindows(
        operator=2, batch=2, windows=(window(-5),), open=1, keys=1, reason=WindowsUnknown("vanished", {"why": "0/1"})
    )
    join = OpenWindows(operator=0, reason=WindowsUnknown("no_windows", {"kind": "join"}))
    shown = picture(facts(), (join, read, also))
    assert [w.operator for w in shown.windows.open] == [2, 1]
    assert shown.windows.open_count == 2
    assert (shown.windows.unknown, shown.windows.unknown_args) == ("no_windows", {"kind": "join", "operator": 0})
    assert shown.origin is not None
    assert shown.origin["windows"] == "state files"
    nothing = picture(facts(), (join,))
    assert (nothing.windows.open_count, nothing.windows.unknown) == (None, "no_windows")
    assert nothing.notes == [Note(NOW, "windows_unknown", {"code": "no_windows", "kind": "join"})]


def kafka(offsets: dict[str, int], number: str = "0") -> SourceOffsets:
    return SourceOffsets(number, "kafka", "{}", offsets)


def test_sources_say_their_position() -> None:
    orders = kafka({"orders/0": 5, "orders/1": 7})
    shown = picture(facts(sources=(orders,), rows_per_second=12.0))
    assert shown.sources == [SourcePosition("kafka orders, 2 partitions", {"orders/0": 5, "orders/1": 7})]
    assert shown.spark.input_rows_per_second == 12.0
    assert (
        picture(facts(sources=(orders,), rows_per_second=12.0), now_ms=NOW + 600_000).spark.input_rows_per_second
        is None
    )
    files = SourceOffsets("1", "files", '{"logOffset":3}', {"logOffset": 3})
    own = SourceOffsets("2", "json", '{"at":1}')
    none = SourceOffsets("3", "nothing", "-")
    shown = picture(facts(sources=(orders, files, own, none)))
    assert shown.sources is not None
    assert [(s.description, s.offsets) for s in shown.sources[1:]] == [
        ("source 1: files", 3),
        ("source 2: offsets of its own form", '{"at":1}'),
        ("source 3: nothing read yet", None),
    ]


def test_an_unknown_policy_is_not_passed_on() -> None:
    odd = replace(facts(), conf={"spark.sql.streaming.multipleWatermarkPolicy": "median"})
    assert picture(odd).spark.policy is None


def test_partitions_that_a_broker_knows_are_channels() -> None:
    def partition(number: int, event_ms: int | None, position: int | None, end: int) -> PartitionFacts:
        return PartitionFacts("orders", number, end, LEVEL + 50_000, NOW, position, event_ms)

    topics = TopicFacts(
        partitions=(partition(0, LEVEL + 31_000, 9, 9), partition(1, LEVEL - 5_000, 4, 9), partition(2, None, None, 0))
    )
    orders = kafka({"orders/0": 9, "orders/1": 4})

    def shown(topics: TopicFacts) -> Snapshot:
        together = QueryFacts(checkpoint=facts(sources=(orders,)), topics=topics)
        return snapshot_of_query(together, name="q", source=SourceView("checkpoint", "/q"), now_ms=NOW)

    picture = shown(topics)
    assert [(v.channel, v.watermark_ms, v.state, v.backlog, v.behind_end_ms) for v in picture.channels] == [
        ("0", LEVEL + 1_000, "active", 0, 19_000),
        ("1", LEVEL - 35_000, "active", 5, 55_000),  # below the watermark: Spark's one clock does not wait for it
        ("2", None, "never_seen", None, None),
    ]
    assert {view.records for view in picture.channels} == {None}
    assert (picture.level.watermark_ms, picture.level.behind_fastest_ms) == (LEVEL, 1_000)
    assert [source.backlog for source in picture.sources or []] == [5]
    silent = shown(replace(topics, trouble="no broker answers"))
    assert (silent.state, silent.notes[0]) == ("partial", Note(NOW, "broker_silent", {"why": "no broker answers"}))
    assert {view.backlog for view in silent.channels} == {None}
    assert [source.backlog for source in silent.sources or []] == [None]


def test_a_partition_whose_records_are_deleted_is_not_called_one_that_never_had_any() -> None:
    """After the topic's retention its event time is not known: it does not keep the barrel empty."""
    read = PartitionFacts("orders", 0, 9, LEVEL + 50_000, NOW, 9, LEVEL + 31_000)
    deleted = PartitionFacts("orders", 1, 9, None, None, 9, None, first=9)
    topics = TopicFacts(partitions=(read, deleted))
    together = QueryFacts(checkpoint=facts(sources=(kafka({"orders/0": 9, "orders/1": 9}),)), topics=topics)
    picture = snapshot_of_query(together, name="q", source=SourceView("checkpoint", "/q"), now_ms=NOW)
    assert [(view.max_event_ms, view.state, view.backlog) for view in picture.channels] == [
        (LEVEL + 31_000, "active", 0), (None, "active", 0)
    ]  # fmt: skip
    assert picture.barrel is not None
    assert (picture.barrel.watermark_ms, picture.barrel.holder) == (None, None)
