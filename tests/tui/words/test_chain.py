"""The chain of links that hold back the watermark, and the rows of their inputs."""

from datetime import UTC

from wmtop.engine.snapshot import Holder, Level, Snapshot, SourcePosition, SparkProgress, WatermarkNode
from wmtop.tui.words.barrel import STATES
from wmtop.tui.words.channels import by_name
from wmtop.tui.words.kinds import presenter_of
from wmtop.tui.words.operators import Stage, rows

from tests.snapshots import replace

from .. import canned
from ..attached import tapped
from ..canned import LEVEL, MINUTE, NOW, SETTINGS, attached, channel, instances, live


def chain(snapshot: Snapshot) -> dict[str, Stage]:
    return {stage.name: stage for stage in presenter_of(snapshot).stages(UTC)}


def test_each_link_holds_something_back_and_all_of_it_is_the_lag() -> None:
    views = [channel("a", 9 * MINUTE), channel("b", 0), channel("c", 4 * MINUTE)]
    snapshot = live(views)
    by_name = chain(snapshot)
    assert list(by_name) == ["clock", "source", "generators", "valve", "windows"]
    assert by_name["source"].time_ms == LEVEL + 39 * MINUTE + 1
    assert (by_name["generators"].held_ms, by_name["generators"].why) == (30 * MINUTE + 1, "lateness 30m")
    assert by_name["generators"].what == "bounded, one a channel; the fastest is a"
    assert (by_name["valve"].held_ms, by_name["valve"].holds) == (9 * MINUTE, True)
    assert by_name["valve"].why.startswith("held back by a: no data")
    held = sum(stage.held_ms or 0 for stage in by_name.values())
    assert held == snapshot.level.behind_clock_ms == NOW - LEVEL


def test_the_windows_say_what_is_next() -> None:
    windows = chain(live())["windows"]
    assert windows.what == "1h, 3 open, 212 fired, 41 late firings, 1,242 late drops"
    assert windows.why == "13:00–14:00 is 12m of event time short"


def test_source_instances_are_a_link_of_their_own() -> None:
    by_name = chain(instances())
    assert list(by_name) == ["clock", "source", "generators", "instances", "valve", "windows"]
    assert by_name["instances"].held_ms == 10 * MINUTE
    assert by_name["valve"].what == "minimum of 4 inputs"


def test_idle_inputs_are_left_out_of_the_minimum() -> None:
    assert chain(live())["valve"].what == "minimum of 16 inputs; 2 idle, 1 realigning left out"


def test_sparks_one_clock_has_no_valve() -> None:
    by_name = chain(live(settings=replace(SETTINGS, strategy="spark"), level=Level(LEVEL)))
    assert "valve" not in by_name
    assert by_name["one clock"].why == "it follows the fastest channel"


def test_a_channel_has_the_same_state_as_on_the_main_screen_also_under_one_clock() -> None:
    shown = {row.view.channel: STATES[row.kind] for row in by_name(tapped(), None)}
    assert {row.key: row.words for row in rows(tapped(), frozenset())} == shown
    assert "lagging" in shown.values()


def test_the_end_and_the_beginning_are_words() -> None:
    assert (chain(canned.ended())["valve"].time_ms, chain(canned.ended())["valve"].instead) == (None, "ended")
    assert chain(canned.empty())["generators"].instead == "no data yet"


def test_a_query_that_others_run() -> None:
    snapshot = replace(
        attached(),
        spark=SparkProgress(
            watermark_ms=LEVEL,
            batch_watermark_ms=LEVEL - MINUTE,
            nodes=[WatermarkNode("ts", 30_000, LEVEL), WatermarkNode(None, None)],
            policy="min",
            state_rows=123_456,
            state_bytes=34_000_000,
            dropped_at_least=41,
        ),
        sources=[SourcePosition("kafka orders", {"orders/0": 4_117}, 3_204), SourcePosition("files /in", 7)],
    )
    found = presenter_of(snapshot).stages(UTC)
    assert [stage.name for stage in found] == [
        "clock", "source", "source", "watermark node", "watermark node", "watermark", "state", "windows",
    ]  # fmt: skip
    assert found[1].what == "kafka orders, backlog 3,204 records"
    assert found[2].what == "files /in, backlog not known from here"
    assert (found[3].what, found[3].why, found[3].time_ms) == ("column ts", "delay 30s", LEVEL)
    assert (found[4].what, found[4].why) == ("an unknown column", "delay not known from here")
    assert found[5].why == "behind the clock; the minimum of 2 nodes"
    assert found[5].what == "of the query, for the next batch; batch 88 used 13:46:59"
    assert found[6].what == "123,456 rows, 32.4 MiB of memory, dropped ≥ 41 rows"


def test_what_no_tap_reports_is_not_known_from_here() -> None:
    by_name = chain(replace(attached(), sources=None, spark=SparkProgress()))
    assert by_name["source"].instead == "not known from here"
    assert by_name["state"].instead == "not known from here"
    assert by_name["windows"].what == "size not known from here, 2 open"


def test_the_inputs_are_ordered_by_how_far_they_are_behind() -> None:
    found = rows(live(), frozenset())
    assert [row.key for row in found[:3]] == ["F9", "YV", "MQ"]
    assert (found[0].behind_ms, found[0].words) == (43 * MINUTE, "HOLDS, 9m behind the next")
    assert [row.key for row in found[-3:]] == ["HA", "OO", "AS"]


def test_an_instance_opens() -> None:
    closed, opened = rows(instances(), frozenset()), rows(instances(), frozenset({"#2"}))
    assert [row.key for row in closed] == ["#2", "#3", "#0", "#1"]
    assert [row.key for row in opened][:5] == ["#2", "F9", "MQ", "FL", "WN"]
    assert (opened[0].channels, opened[1].channels, opened[1].inside) == (4, None, True)


def test_the_holder_of_an_instance_is_named_by_its_number() -> None:
    snapshot = instances()
    level = replace(snapshot.level, holder=Holder("F9", NOW, "quiet", instance=2))
    found = rows(replace(snapshot, level=level), frozenset({"#2"}))
    assert [row.key for row in found if row.kind == "holder"] == ["#2", "F9"]


def test_the_watermark_that_a_batch_of_old_data_used_has_its_time_of_day() -> None:
    spark = SparkProgress(watermark_ms=LEVEL, batch_watermark_ms=LEVEL - MINUTE)
    old = replace(attached(), now_ms=NOW + 12 * 365 * canned.DAY, spark=spark)
    assert "used 13:46:59" in " ".join(stage.what + stage.why for stage in chain(old).values())
