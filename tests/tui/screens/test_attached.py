"""The screen on existing queries: what is seen is said, what is not is `not known from here`, and nothing is 0."""

from collections.abc import Callable
from typing import Any

import pytest
from wmtop.engine.feed.messages import Change, Reply, ToEngine
from wmtop.engine.snapshot import BarrelRule, Level, Note, Snapshot, StatefulOperator, WatermarkNode
from wmtop.engine.system.errors import RunError
from wmtop.engine.text.codes import unknown_text
from wmtop.engine.text.formatting import YEAR
from wmtop.tui.words.kinds.spark_query import restart_words
from wmtop.tui.words.notes import note_text

from tests.snapshots import replace

from ..attached import LEVEL, NOW, group, query, stale, tapped, two_nodes
from ..canned import MINUTE, header
from ..drive import Driven, drive
from .test_main_pictures import DRAWN, SMALL, shown

Scenario = Callable[[Driven], Any]


def show(snapshot: Snapshot, scenario: Scenario, size: tuple[int, int] = DRAWN) -> None:
    drive(scenario, header(), snapshot, size=size)


def test_one_clock_its_age_and_its_lag_are_in_the_barrel() -> None:
    async def scenario(it: Driven) -> None:
        barrel = it.said("Barrel")
        assert "one clock for the whole query; add one line to the job to see its channels" in barrel
        assert "the watermark moved 3s ago · 47s behind the clock" in barrel
        assert "13:59:13 ≈" in barrel
        await it.says("47s behind clock · moved 3s ago", "#level")
        await it.says("what holds it back is not known from here", "#level")
        assert "no data yet" not in it.said()

    show(query(), scenario)


def test_in_little_room_the_barrel_says_a_whole_clause() -> None:
    async def scenario(it: Driven) -> None:
        barrel = it.said("Barrel")
        assert "one clock for the whole query" in barrel
        assert "add one line" not in barrel

    show(query(), scenario, (60, 20))


def test_one_clock_is_measured_by_the_clock_alone() -> None:
    """It always follows the fastest channel: `falls behind` beside `0s behind fastest` would contradict itself."""

    async def scenario(it: Driven) -> None:
        await it.says("47s behind clock · moved 3s ago", "#level")
        assert "behind fastest" not in it.said("#level")

    show(tapped(), scenario)


def test_how_far_old_data_are_behind_the_clock_does_not_matter() -> None:
    old = query()
    behind = NOW + 13 * YEAR - LEVEL
    old = replace(
        old, now_ms=NOW + 13 * YEAR, level=replace(old.level, behind_clock_ms=behind, moved_ms=NOW + 13 * YEAR)
    )

    async def scenario(it: Driven) -> None:
        await it.says("WATERMARK 2013-02-08 13:59:13   moved just now", "#level")
        assert "behind" not in it.said("#level") + it.said("Barrel")
        assert "13:59:13 ≈" in it.said("Barrel")

    show(old, scenario)


def test_a_watermark_ahead_of_the_clock_is_not_behind_it_by_less_than_nothing() -> None:
    ahead = query()
    ahead = replace(ahead, level=replace(ahead.level, behind_clock_ms=-2 * 60 * MINUTE))

    async def scenario(it: Driven) -> None:
        await it.says("2h ahead of clock", "#level")
        assert "2h ahead of the clock" in it.said("Barrel")

    show(ahead, scenario)


@pytest.mark.parametrize(
    ("mode", "evicts", "words"),
    [("complete", None, "emitted by every batch"), ("update", False, "never removed"), ("append", True, "waits")],
)
def test_windows_that_no_watermark_closes_do_not_wait_for_it(mode: Any, evicts: bool | None, words: str) -> None:
    snapshot = query()
    operator = StatefulOperator(operator=0, kind="aggregation", windowed=True, evicts=evicts)
    snapshot = replace(
        snapshot,
        spark=replace(snapshot.spark, output_mode=mode, operators=[operator]),
        windows=replace(snapshot.windows, open=[replace(one, short_ms=None) for one in snapshot.windows.open]),
    )

    async def scenario(it: Driven) -> None:
        assert words in it.said("WindowTable")

    show(snapshot, scenario)


def test_what_is_not_known_is_said_and_never_0() -> None:
    async def scenario(it: Driven) -> None:
        assert it.said("#tuning").split("  ")[0].strip() == "watermark delay 30s as first started"
        await it.says("late not known from here", "#tuning")
        assert "0 %" not in it.said()
        await it.says("Windows ─ 3 open ─", "#middle")
        assert "idle" not in it.said("#tuning")
        await it.says("not known from here: one line before withWatermark shows them", "ChannelTable")
        await it.says('events = tap(events, "…", channel="…")', "ChannelTable")
        await it.says("source 0: kafka orders, 2 partitions at 1,234,567", "ChannelTable")
        await it.says('source 1: offsets of its own form at {"at":"yesterday"}', "ChannelTable")
        await it.says(" – rows", "WindowTable")
        await it.says("of event time short", "WindowTable")

    show(query(), scenario)


def test_every_watermark_node_is_named() -> None:
    async def scenario(it: Driven) -> None:
        table = it.said("ChannelTable")
        assert "2 watermarks; the min of them counts" in table
        assert "  ordered_at delay 30s" in table
        assert "  window delay 1m" in table
        await it.says("watermark delays 30s, 1m", "#tuning")

    show(two_nodes(), scenario)


def test_a_stale_query_says_since_when_and_what_that_may_mean() -> None:
    async def scenario(it: Driven) -> None:
        await it.says("STALE 12m", "#status")
        assert note_text(Note(NOW, "no_new_batch")) in it.said("#banner")
        assert str(unknown_text("state_store", {"name": "RocksDB"})) in " ".join(it.said("WindowTable").split())

    show(stale(), scenario)


def test_a_batch_that_takes_long_is_in_flight() -> None:
    async def scenario(it: Driven) -> None:
        await it.says("batch 214, in flight 3s", "#status")
        quick = replace(query().spark, in_flight=True, batch_timestamp_ms=NOW - 1_000)
        await it.push(query(spark=quick))
        assert "in flight" not in it.said("#status")

    show(query(spark=replace(query().spark, in_flight=True)), scenario)


def test_which_node_sets_the_watermark_or_that_there_is_none() -> None:
    nodes = [WatermarkNode("ordered_at", 30_000, LEVEL, holds=True), WatermarkNode("paid_at", 60_000, LEVEL + 9_000)]

    async def scenario(it: Driven) -> None:
        await it.says("the watermark on ordered_at (delay 30s) sets it", "#level")
        frozen = replace(query().spark, nodes=nodes, frozen_ms=90_000)
        await it.push(query(spark=frozen))
        await it.says("after the restart it advances again once its records have caught up", "#level")
        none = replace(query().spark, nodes=None, has_watermark=False)
        await it.push(query(spark=none, level=Level()))
        await it.says("WATERMARK none: this query has no withWatermark", "#level")
        assert "what holds it back" not in it.said()

    show(query(spark=replace(query().spark, nodes=nodes)), scenario)


def test_before_the_level_moves() -> None:
    async def scenario(it: Driven) -> None:
        assert "it has no watermark, or it has not moved yet" in it.said("Barrel")
        await it.says("no data yet", "#level")

    show(query(level=replace(query().level, watermark_ms=None, moved_ms=None, behind_clock_ms=None)), scenario)


def test_enter_gives_the_line_of_the_job_and_copies_it() -> None:
    line = 'withWatermark("ts", "45 seconds")'

    async def scenario(it: Driven) -> None:
        assert "+/-" not in it.said("KeyLine")
        await it.press("equals_sign", "4", "5", "s")
        await it.says("delay 30s ▸ 45s?", "#tuning")
        await it.says("▸ watermark −15s, late share not known from here", "#tuning")
        await it.says("┈", "Barrel")
        await it.press("enter")
        assert it.client.sent == []
        then = "after the restart its watermark is frozen, and rows are dropped, for 15s of event time"
        await it.says(f": {line}", "Barrel")
        await it.says(f" {then}", "Barrel")
        assert it.app.clipboard == line
        assert "?" not in it.said("#tuning")
        await it.press("escape")
        assert line not in it.said()

    show(query(), scenario)


def test_a_restart_drops_no_rows_of_a_query_that_only_aggregates_in_complete_mode() -> None:
    shown = query()
    totals = [StatefulOperator(operator=0, kind="aggregation", output_mode="complete")]
    complete = replace(shown, spark=replace(shown.spark, output_mode="complete", operators=totals))
    assert "rows are dropped" in restart_words(shown, 45_000)
    assert restart_words(complete, 45_000) == "after the restart its watermark is frozen for 15s of event time"


def test_both_rules_are_side_by_side_with_who_loses_rows() -> None:
    async def scenario(it: Driven) -> None:
        await it.says("by the slowest channel it would be 1m24s lower: shop-5", "#level")
        await it.says("3 channels behind Spark's watermark", "#level")
        await it.says("delay 30s", "#tuning")
        assert "first started" not in it.said("#tuning")
        await it.says("late ≥ 1,204 · ≤ 50.0 % by Spark's clock, ≤ 0 % by the slowest channel's", "#tuning")
        table = it.said("ChannelTable").splitlines()
        assert "event time" in table[0]
        assert [line.split()[-1] for line in table[1:7]] == ["lagging"] * 3 + ["active"] * 3
        assert "−54s" in table[1]
        barrel = it.said("Barrel")
        assert "▚" in barrel
        assert "╌" in barrel
        await it.says("▚ lagging   ╌ watermark by the slowest channel", "#top")

    show(tapped(), scenario)


def test_a_preview_shows_what_a_delay_does_to_both_rules() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("plus")
        await it.says("delay 30s ▸ 50s?", "#tuning")
        await it.says("▸ watermark −20s, ≤ 16.7 % late, ≤ 0 % by the slowest channel", "#tuning")
        await it.press("minus", "minus", "minus", "minus", "minus", "minus")
        await it.says("▸ watermark +29s, ≤ 74.1 % late, ≤ 5.6 % by the slowest channel", "#tuning")
        await it.press("enter")
        await it.says('withWatermark("ts", "1 second")', "Barrel")

    show(tapped(), scenario)


def test_where_the_slowest_is_not_known_nothing_is_guessed() -> None:
    barrel = BarrelRule(None, None, [])

    async def scenario(it: Driven) -> None:
        await it.says("the watermark by the slowest channel is not known from here", "#level")
        await it.says("no channel behind Spark's watermark", "#level")
        assert "╌" not in it.said("Barrel")

    show(replace(tapped(), barrel=barrel), scenario)


def test_a_consumer_group_shows_what_is_unread() -> None:
    async def scenario(it: Driven) -> None:
        await it.says("backlog of 13,161 records, 44s of event time", "#level")
        await it.says("lateness 0s assumed here", "#tuning")
        await it.says("backlog 13,164", "#tuning")
        table = it.said("ChannelTable")
        assert "backlog  event lag" in table
        assert "13,161        44s" in table
        assert "late" not in table
        assert str(unknown_text("not_in_broker", {})) in " ".join(it.said("WindowTable").split())
        await it.press("equals_sign", "1", "m", "enter")
        assert it.app.clipboard == "forBoundedOutOfOrderness(Duration.ofMinutes(1))"

    show(group(), scenario)


def test_where_no_job_is_known_the_engine_says_what_to_do() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("equals_sign", "1", "m", "enter")
        assert it.client.sent == [Change(id=1, lateness_ms=MINUTE, who="screen")]
        await it.push(Reply(id=1, ok=False, text="attach again with another --lateness"))
        assert it.toasts() == ["lateness 1m was refused: attach again with another --lateness"]

    show(group("topic"), scenario)


def test_a_screen_that_changes_nothing_says_so() -> None:
    async def refuse(command: ToEngine) -> None:
        raise RunError("this screen changes nothing: it was opened with --read-only")

    async def scenario(it: Driven) -> None:
        it.client.send = refuse  # type: ignore[method-assign]
        await it.press("equals_sign", "1", "m", "enter")
        assert it.toasts() == [
            "lateness 1m was not applied: this screen changes nothing: it was opened with --read-only"
        ]

    show(group("topic"), scenario)


def test_the_lag_behind_the_clock_is_the_sparkline() -> None:
    async def scenario(it: Driven) -> None:
        await it.push(
            query(now_ms=NOW + 60_000, wall_ms=NOW + 60_000, level=replace(query().level, watermark_ms=LEVEL))
        )
        await it.says("lag", "#level")
        await it.says("≤1m47s", "#level")

    show(query(), scenario, (200, 50))


PROMPT = "equals_sign"
"""In the place of the keys, which are others' business."""
PICTURES = {
    "query_small": (query, SMALL, (PROMPT,)),
    "query_drawn_typed": (query, DRAWN, (PROMPT, "4", "5", "s")),
    "stale_small_light": (stale, SMALL, ("c", PROMPT)),
    "group_drawn": (group, DRAWN, (PROMPT,)),
    "tapped_small_light": (tapped, SMALL, ("c", PROMPT)),
    "tapped_drawn_typed": (tapped, DRAWN, (PROMPT, "5", "0", "s")),
}


@pytest.mark.parametrize("name", PICTURES)
def test_picture(name: str, snap_compare: Callable[..., bool]) -> None:
    build, size, keys = PICTURES[name]
    assert snap_compare(**shown(build(), *keys), terminal_size=size)
