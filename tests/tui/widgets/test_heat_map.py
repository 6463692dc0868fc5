"""The heat map, and what is remembered of each channel for it."""

import re
from pathlib import Path

import pytest
from wmtop.engine.snapshot import Snapshot
from wmtop.tui.widgets.charts import SHADES, HeatMap
from wmtop.tui.words import recent as past_module
from wmtop.tui.words.recent import ChannelsPast, greatest
from wmtop.tui.words.texts import NO_CHANNEL_MATCHES, NONE_TAKES_PART, NOT_DRAWN

from tests.snapshots import replace

from ..canned import DAY, HOUR, LEVEL, MINUTE, NOW, WALL, channel, live, many, reported, stalled
from ..drive import Driven, drive
from ..recorded import record, replay


def at(minute: int, **ahead: int | None) -> Snapshot:
    """A snapshot of some channels, minutes ahead of the watermark."""
    views = [channel(name, None if ms is None else ms * MINUTE) for name, ms in ahead.items()]
    return live(views, now_ms=NOW + minute * MINUTE, wall_ms=WALL + minute * MINUTE)


def test_the_past_has_the_lags_of_each_channel_and_drops_what_is_old() -> None:
    past = ChannelsPast(keep_ms=3 * MINUTE)
    for minute, ahead in enumerate((5, 7, None, 9)):
        past.add(at(minute, a=0, b=ahead, c=10))
    moments = past.until(at(3, a=0))
    assert [moment.lag_ms("a") for moment in moments] == [10 * MINUTE] * 3
    assert [moment.lag_ms("b") for moment in moments] == [3 * MINUTE, None, MINUTE]
    assert [moment.lag_ms("other") for moment in moments] == [None] * 3
    assert greatest([moment.lag_ms("b") for moment in moments], 2) == [
        3 * MINUTE,
        MINUTE,
    ]  # the greatest of each stretch
    assert len(past.until(at(2, a=0))) == 2  # up to a frozen picture
    past.add(at(-5, a=0))  # another engine, or a jump back
    assert len(past.until(at(9, a=0))) == 1


def test_the_last_snapshot_of_a_slot_counts_and_very_many_channels_keep_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_module, "MAX_VALUES", 3_000)
    past = ChannelsPast(keep_ms=HOUR)
    past.add(at(0, a=0, b=1))
    past.add(at(0, a=0, b=2))
    assert [moment.lag_ms("a") for moment in past.until(at(0, a=0))] == [2 * MINUTE]
    wide = {f"c{place}": 0 for place in range(past_module.MAX_VALUES // 3)}
    for minute in range(1, 7):
        past.add(at(minute, **wide))
    assert len(past.until(at(9, a=0))) == 3


def test_heat_map_shows_the_most_behind_in_the_minimum() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("m")
        await it.says("Heat map", "#top")
        lines = it.said("HeatMap").splitlines()
        assert lines[0].split()[0] == "events-0"
        assert re.search(r"[·░▒▓█]{20,}", lines[0])
        assert re.search(rf"\+9\d\d {NOT_DRAWN}", lines[-1])
        await it.pilot.click(HeatMap, offset=(2, 2))
        await it.says(f" {lines[2].split()[0]} ", "#top")
        await it.press("m")
        await it.says("Barrel", "#top")

    drive(scenario, *reported(many()), size=(200, 50))


def test_heat_map_has_times_below_and_each_shade_in_its_colour() -> None:
    async def scenario(it: Driven) -> None:
        for minute in range(1, 4):
            it.app._recent.add(at(minute, a=0, b=20, c=40))
        await it.push(at(5, a=0, b=20, c=40))
        await it.press("m")
        lines = it.said("HeatMap").splitlines()
        assert re.fullmatch(r" a +█{60,} +40m *", lines[0])
        times = re.findall(r"\d\d:\d\d:\d\d", next(line for line in lines if re.match(r" +\d\d:", line)))
        assert (times[0], times[-1]) == ("14:32:10", "14:37:10")
        legend = {text.strip(): style for text, style in it.app.screen.query_one(HeatMap)._lines[-1]}
        assert [legend[shade] for shade in SHADES] == ["dim", "active", "stale", "holder", "bad"]

    drive(scenario, *reported(at(0, a=0, b=20, c=40)))


def test_heat_map_says_why_it_is_empty() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("m")
        await it.says(NONE_TAKES_PART, "HeatMap")
        await it.press("slash", "x", "x", "enter")
        await it.says(NO_CHANNEL_MATCHES, "HeatMap")

    drive(scenario, *reported(stalled()))


def test_heat_map_leaves_out_idle_channels() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("m")
        names = [line.split()[0] for line in it.said("HeatMap").splitlines() if line.strip()]
        assert "F9" in names
        assert not {"AS", "OO"} & set(names)

    drive(scenario, *reported(live()), size=(200, 50))


def test_a_jump_in_a_recording_reads_what_was_before(tmp_path: Path) -> None:
    async def scenario(it: Driven) -> None:
        it.app._replay.go_to(140)
        await it.press("m")
        await it.until(lambda: bool(re.search(r"F9 .*[·░▒▓█]{40,}", it.said("HeatMap"))))
        recent = it.app._recent
        assert len(recent.past.until(it.app._main.shown.snapshot)) > 5
        assert recent.past.until(it.app._main.shown.snapshot)[0].level_ms not in (None, LEVEL + DAY)

    replay(scenario, record(tmp_path / "a.rec"))


def test_heat_map_after_a_change_follows_the_newest_snapshot() -> None:
    snapshot = live()
    views = [replace(view, state="idle") if view.channel == "F9" else view for view in snapshot.channels]

    async def scenario(it: Driven) -> None:
        await it.press("m")
        await it.says("F9 ", "HeatMap")
        await it.push(replace(snapshot, channels=views, level=replace(snapshot.level, holder=None)))
        assert "F9 " not in it.said("HeatMap")

    drive(scenario, *reported(snapshot), size=(200, 50))
