"""The time screen: its keys, one channel or all, recordings, and queries of others."""

import re
from pathlib import Path

from wmtop.engine.feed.recording_reader import RecordingReader
from wmtop.engine.snapshot import Snapshot, TimePoint
from wmtop.engine.text.formatting import ELSEWHERE
from wmtop.tui.screens.main import MainScreen
from wmtop.tui.widgets.charts import TimeCanvas
from wmtop.tui.words.kinds import presenter_of
from wmtop.tui.words.recent import Recent
from wmtop.tui.words.texts import not_in_sample, sample_of
from wmtop.tui.words.time_plot import PlotFrame

from tests.snapshots import replace

from .. import canned
from ..canned import LEVEL, MINUTE, NOW, attached, channel, live
from ..drive import Driven, drive
from ..recorded import record, replay, timeline


def sample() -> list[TimePoint]:
    """Two hours of records of three channels, one in twenty late."""
    return [
        TimePoint(NOW - n * MINUTE, NOW - (n + n * 13 % 50) * MINUTE, ("UA", "F9", "EV")[n % 3], late=n % 20 == 0)
        for n in range(120, 0, -1)
    ]


def reported() -> list[object]:
    return [replace(canned.header(canned.lags()), points=sample()), live()]


def frame(it: Driven) -> PlotFrame:
    found = it.app.screen.query_one(TimeCanvas).frame
    assert found is not None
    return found


def test_the_picture_and_what_its_signs_mean() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("t")
        top = it.said("#top")
        assert sample_of(120, 6) in top
        assert "× late" in top
        said = it.said("TimeCanvas")
        assert "×" in said
        assert "─" in said
        assert any("⠀" < char < "⣿" for char in said)
        await it.press("escape")
        assert isinstance(it.app.screen, MainScreen)

    drive(scenario, *reported())


def test_zoom_move_and_follow_again() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("t")
        first = frame(it)
        await it.press("z")
        assert frame(it).cell_ms < first.cell_ms
        assert frame(it).x_high - NOW < first.cell_ms
        await it.press("left")
        moved = frame(it)
        assert moved.x_high < NOW
        await it.says(" ago", "#top")
        await it.says("End follow", "#keys")
        await it.press("up", "down", "pagedown", "end")
        assert frame(it) == first
        assert "End follow" not in it.said("#keys")

    drive(scenario, *reported())


def test_home_shows_all_that_is_kept() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("t", "z", "z", "z", "home")
        assert frame(it).x_low <= NOW - 300_000
        assert frame(it).x_high >= NOW

    drive(scenario, *reported())


def test_the_records_of_one_channel() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("t", "tab")
        await it.says(not_in_sample("9E"), "TimeCanvas")
        await it.press("tab", "tab", "tab", "tab", "tab", "tab", "shift+tab")
        await it.says(sample_of(40, 2), "#top")
        await it.press("a")
        await it.says(sample_of(120, 6), "#top")

    drive(scenario, *reported())


def test_the_channel_selected_on_the_main_screen_is_the_first_one_shown() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("right", "right", "t", "tab")
        await it.says(it.app.screen.shown.view.selected, "#top")  # type: ignore[attr-defined]

    drive(scenario, *reported())


def test_a_previewed_lateness_is_a_line_of_its_own() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("t", "plus")
        await it.says("╌", "TimeCanvas")
        await it.says("╌ previewed", "#top")

    drive(scenario, *reported(), size=(160, 40))


def test_new_records_come_in() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("t")
        await it.push(live(wall_ms=canned.WALL + 1_000, points=[TimePoint(NOW, NOW - MINUTE, "UA")]))
        await it.shows("#top", " 121 ")

    drive(scenario, *reported())


def watched(second: int) -> Snapshot:
    views = [channel("orders-0", 0, max_event_ms=LEVEL + second * 1_000), channel("orders-1", 0, max_event_ms=LEVEL)]
    return replace(attached(), channels=views, now_ms=NOW + second * 1_000, wall_ms=NOW + second * 1_000)


def test_of_a_query_that_others_run_the_greatest_times_of_channels_are_its_records() -> None:
    recent = Recent()
    for second in range(3):
        recent.add(watched(second))
    assert [(point.channel, point.event_ms - LEVEL) for point in recent.sample] == [
        ("orders-0", 0), ("orders-1", 0), ("orders-0", 1_000), ("orders-0", 2_000),
    ]  # fmt: skip


def test_whether_they_were_late_is_not_known() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("t")
        await it.shows("#top", ELSEWHERE)
        assert "× late" not in it.said("#top")

    drive(scenario, canned.header(), watched(0), watched(1))


def test_without_channels_there_is_the_level_and_a_word_about_the_records() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("t")
        await it.says(presenter_of(attached()).no("records"), "TimeCanvas")

    drive(scenario, *canned.reported(attached()))


def pointed(number: int) -> Snapshot:
    now = NOW + number * MINUTE
    return replace(
        timeline(number), points=[TimePoint(now, now - MINUTE, "UA"), TimePoint(now, now - MINUTE, "F9", True)]
    )


def test_a_recording_that_is_jumped_into_brings_the_records_before(tmp_path: Path) -> None:
    path = record(tmp_path / "run.rec", *(pointed(number) for number in range(150)))

    async def scenario(it: Driven) -> None:
        await it.press("t", "n", "n")
        await it.until(lambda: re.search(r"\d+ late|late \d+", it.said("#top")) is not None)
        number = int(it.said("ReplayBar Timeline").split(" of 150")[0].split()[-1])
        assert number > 30
        await it.says(sample_of(2 * number, number), "#top")

    replay(scenario, path, (140, 36))


def test_the_sample_of_a_stretch_of_a_recording(tmp_path: Path) -> None:
    path = record(tmp_path / "run.rec", *(pointed(number) for number in range(150)))
    with RecordingReader(path) as reader:
        found = reader.sample(50, 130)
        assert [point.now_ms for point in found[::2]] == [NOW + number * MINUTE for number in range(50, 130)]
        assert reader.sample(0, 0) == []
        assert len(reader.sample(0, 150)) == 300
