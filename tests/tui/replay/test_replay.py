"""A recording on the screen: playing, stepping, scrubbing, going to times and marks, and what is refused."""

import re
from pathlib import Path

import pytest
from msgspec.structs import replace
from wmtop.engine.text.formatting import MOMENT_HOW
from wmtop.engine.verdict.history import history_point
from wmtop.tui.replay.app import REFUSED, TRUNCATED, GoToScreen, play_times
from wmtop.tui.replay.timeline import Timeline
from wmtop.tui.screens.help import HelpScreen
from wmtop.tui.screens.main import MainScreen
from wmtop.tui.widgets.lines import Prompt
from wmtop.tui.words.keys import rows
from wmtop.tui.words.texts import NO_CHANNEL_MATCHES, refused

from ..canned import ended, failed, live
from ..drive import Driven
from ..recorded import COUNT, STALL, record, replay, timeline


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return record(tmp_path / "flights.rec")


async def shows(it: Driven, number: int) -> None:
    """Wait until snapshot `number` is the one on the screen, and the timeline is there as well."""
    await it.until(lambda: f"batch {number} " in it.said("#status"))
    await it.until(lambda: f" {number + 1} of " in it.said("Timeline"))


def test_it_plays_as_fast_as_it_was_recorded_and_pauses(path: Path) -> None:
    async def scenario(it: Driven) -> None:
        await shows(it, 0)
        await it.says("● REPLAY ▶ ×1", "#status")
        it.clock.now += 7.2
        await shows(it, 7)
        await it.says("2013-02-08 14:39:10 UTC", "#status")  # the recording's time
        await it.press("space")
        await it.says("● REPLAY PAUSED", "#status")
        it.clock.now += 100
        await it.press("full_stop")
        await shows(it, 8)
        await it.press("p")
        it.clock.now += 2
        await shows(it, 10)
        assert "STALE" not in it.said("#status")

    replay(scenario, path, playing=True)


def test_its_speed_changes_while_it_plays_and_while_it_does_not(path: Path) -> None:
    async def scenario(it: Driven) -> None:
        it.clock.now += 3
        await shows(it, 3)
        await it.press("greater_than_sign", "greater_than_sign")
        await it.says("● REPLAY ▶ ×5", "#status")
        it.clock.now += 2
        await shows(it, 13)
        await it.press("less_than_sign", "less_than_sign", "less_than_sign", "space")
        it.clock.now += 9
        await it.press("space")
        await it.says("● REPLAY ▶ ×0.5", "#status")
        it.clock.now += 4
        await shows(it, 15)

    replay(scenario, path, playing=True)


def test_at_the_end_it_stops_and_begins_again(path: Path) -> None:
    async def scenario(it: Driven) -> None:
        it.clock.now += 10
        await shows(it, COUNT - 1)
        await it.says("● REPLAY END", "#status")
        await it.press("full_stop")
        await shows(it, COUNT - 1)
        await it.press("space")
        await shows(it, 0)
        await it.says("● REPLAY ▶ ×1000", "#status")

    replay(scenario, path, playing=True, speed=1000.0)


def test_steps_go_both_ways_and_stop_at_the_ends(path: Path) -> None:
    async def scenario(it: Driven) -> None:
        await it.press("comma")
        await shows(it, 0)
        await it.press("full_stop", "full_stop", "full_stop", "comma")
        await shows(it, 2)
        await it.says("● REPLAY PAUSED", "#status")

    replay(scenario, path, playing=True)


def test_scrubbing_by_key_and_by_mouse(path: Path) -> None:
    async def scenario(it: Driven) -> None:
        await it.press("right_curly_bracket")
        await shows(it, 7)
        await it.press("shift+right", "left_curly_bracket")
        await shows(it, 6)
        await it.press("left_curly_bracket", "left_curly_bracket")
        await shows(it, 0)
        await it.until(lambda: it.app.screen.query_one(Timeline).size.width > 0)
        track = it.said("Timeline").splitlines()[0]
        start, end = track.index("┃"), track.rindex(" ", 0, -2)
        await it.pilot.click(Timeline, offset=(start + (end - start) // 2, 0))
        await it.until(lambda: re.search(r" 7\d of 150", it.said("Timeline")) is not None)
        await it.pilot.click(Timeline, offset=(end + 5, 1))
        await shows(it, COUNT - 1)
        await it.pilot.click(Timeline, offset=(0, 0))
        await shows(it, 0)

    replay(scenario, path)


def test_a_typed_time_is_gone_to_and_a_bad_one_is_one_line(path: Path) -> None:
    async def scenario(it: Driven) -> None:
        await it.press("G", *"14:50", "enter")
        await shows(it, 17)
        await it.press("G", *"+1h", "enter")
        await shows(it, 77)
        await it.press("G", "x", "enter")
        assert isinstance(it.app.screen, GoToScreen)
        note = it.app.screen.query_one("#prompt-note")
        assert str(note.render()) == MOMENT_HOW
        await it.press("escape")
        await shows(it, 77)

    replay(scenario, path)


def test_enter_keeps_the_preview_of_a_typed_lateness(path: Path) -> None:
    async def scenario(it: Driven) -> None:
        await it.press("equals_sign", *"50m", "enter")
        await it.says("▸ 50m?", "#tuning")
        assert not it.app.screen.query_one(Prompt).purpose
        await it.press("escape")
        await it.until(lambda: "▸ 50m?" not in it.said("#tuning"))
        assert it.toasts() == []

    replay(scenario, path)


def test_the_marks_are_gone_to_one_after_the_other(path: Path) -> None:
    async def scenario(it: Driven) -> None:
        await it.press("n")
        await shows(it, STALL.start)
        await it.shows("#level", " F9 ")
        await it.says("◆ F9 takes over", "ReplayBar TextLine")
        await it.press("n")
        await it.until(lambda: "! 20.4 %" in it.said("ReplayBar TextLine"))
        assert re.search(r"━{20,}", it.said("Timeline"))
        await it.press("n", "N")
        await shows(it, STALL.start)

    replay(scenario, path)


def test_the_minutes_before_are_there_after_a_jump(path: Path) -> None:
    async def scenario(it: Driven) -> None:
        await it.press("G", *"16:14", "enter")
        await shows(it, 101)
        assert re.search(r"lag [ ▁-█]{20,} ≤49m", it.said("#level"))
        await it.says("now 1.2 %", "#tuning")
        await it.press("comma")
        await it.until(lambda: "now 0.8 %" in it.said("#tuning"))

    replay(scenario, path)


def test_previews_work_and_applying_one_is_refused_in_one_line(path: Path) -> None:
    async def scenario(it: Driven) -> None:
        await it.press("plus")
        await it.says("lateness 30m ▸ 45m?", "#tuning")
        assert "Enter" not in it.said("#keys")
        await it.says("Esc drop", "#keys")
        await it.press("enter")
        await it.until(lambda: bool(it.toasts()))
        assert it.toasts() == [refused("lateness 45m", REFUSED)]
        await it.says("lateness 30m  ", "#tuning")

    replay(scenario, path)


def test_only_keys_that_work_are_offered(path: Path) -> None:
    async def scenario(it: Driven) -> None:
        assert not re.search(r" (p freeze|R record)", it.said("#keys"))
        await it.press("R")
        assert [toast.split()[0] for toast in it.toasts()] == ["R"]  # why nothing is recorded
        await it.press("p")
        await it.says("▶", "#status")
        titles = {command.title for command in it.app.get_system_commands(it.app.screen)}
        assert titles >= {"Play or pause", "Go to a time", "Type a lateness"}
        assert not titles & {"Freeze or resume", "Record or stop"}
        await it.press("question_mark")
        assert isinstance(it.app.screen, HelpScreen)
        reported = "\n".join(str(part.render()) for part in it.app.screen.query("Static"))
        assert [
            row.help for row in rows("replay") if row.shown in ("Space p", ", .") and row.help not in reported
        ] == []
        not_here = {row.help for row in rows("main", "app")} - {row.help for row in rows("main", "app", replay=True)}
        assert len(not_here) >= 2
        assert [words for words in not_here if words in reported] == []

    replay(scenario, path, size=(200, 50))


def test_the_keys_under_the_timeline_can_be_clicked(path: Path) -> None:
    async def scenario(it: Driven) -> None:
        await it.until(lambda: "play" in it.said("ReplayBar KeyLine"))
        keys = it.said("ReplayBar KeyLine")
        await it.pilot.click("ReplayBar KeyLine", offset=(keys.index("step"), 0))
        await shows(it, 1)

    replay(scenario, path)


def test_the_timeline_and_its_keys_are_on_every_screen(path: Path) -> None:
    async def scenario(it: Driven) -> None:
        await it.press("w")
        await it.press("full_stop", "n")
        await it.until(lambda: f" {STALL.start + 1} of 150" in it.said("Timeline"))
        await it.press("question_mark")
        assert not it.app.screen.query(Timeline)
        await it.press("escape")
        assert len(it.app.screen.query(Timeline)) == 1
        await it.press("escape")
        await shows(it, STALL.start)
        assert len(it.app.screen.query(Timeline)) == 1

    replay(scenario, path)


def test_the_other_keys_work_as_ever(path: Path) -> None:
    async def scenario(it: Driven) -> None:
        await it.press("right", "s", "slash", *"n,.")  # typed, not played
        await it.says("sort: name", "#middle")
        await it.says(NO_CHANNEL_MATCHES, "#channels")
        await shows(it, 0)
        await it.press("escape", "T")
        await it.says("UTC", "#status")

    replay(scenario, path)


def test_a_key_that_a_recording_does_not_have_is_refused_in_words(path: Path) -> None:
    async def scenario(it: Driven) -> None:
        await it.press("R")
        await it.until(lambda: it.toasts() == ["R (Record or stop) is not available in a replay"])

    replay(scenario, path)


def test_the_state_of_that_moment_is_shown_too(tmp_path: Path) -> None:
    async def scenario(it: Driven) -> None:
        await it.press("full_stop")
        await it.until(lambda: "● REPLAY PAUSED · FAILED" in it.said("#status"))
        await it.says("the JVM went away (exit 137): out of memory?", "#banner")
        await it.press("full_stop")
        await it.until(lambda: "● REPLAY END · ENDED" in it.said("#status"))

    replay(scenario, record(tmp_path / "a.rec", live(), failed(), ended()))


def test_a_recording_that_was_cut_off_is_played_to_its_end_and_says_so(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])

    async def scenario(it: Driven) -> None:
        await it.says(TRUNCATED, "#banner")
        it.clock.now += 1
        await it.until(lambda: "● REPLAY END" in it.said("#status"))
        await it.until(lambda: " of " in it.said("Timeline"))
        shown = re.search(r"(\d+) of (\d+)", it.said("Timeline"))
        assert shown is not None
        assert shown[1] == shown[2]
        assert COUNT / 3 < int(shown[1]) < COUNT

    replay(scenario, path, playing=True, speed=1000.0)


def test_damage_in_the_middle_is_one_line_and_the_rest_can_be_seen(path: Path) -> None:
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 500] = bytes(500)
    path.write_bytes(data)

    async def scenario(it: Driven) -> None:
        await it.press("G", *"+80m", "enter")
        await it.until(lambda: path.name in it.said("#banner"))
        await it.press("G", *"-80m", "enter")
        await shows(it, 0)
        assert not it.app.screen.query_one("#banner").display

    replay(scenario, path)


def test_a_single_snapshot_and_no_room_are_fine_too(tmp_path: Path) -> None:
    async def scenario(it: Driven) -> None:
        for width, height in ((20, 6), (40, 10), (71, 16), (300, 90)):
            await it.pilot.resize_terminal(width, height)
            await it.press("full_stop", "comma", "n", "N", "right_curly_bracket", "greater_than_sign", "space")
            await it.says("REPLAY" if width > 20 else "too small", "#status" if width > 20 else "#needed")

    replay(scenario, record(tmp_path / "a.rec", live()))


def test_a_screen_whose_app_has_ended_is_not_painted(tmp_path: Path) -> None:
    """A timer or a callback may still fire then."""
    screens: list[MainScreen] = []

    async def scenario(it: Driven) -> None:
        screens.extend(screen for screen in it.app.screen_stack if isinstance(screen, MainScreen))

    replay(scenario, record(tmp_path / "a.rec", live()))
    (main,) = screens
    assert main.is_mounted
    main.record(True)


def test_gaps_are_played_in_a_moment_and_no_two_snapshots_at_once() -> None:
    wall = [0, 1_000, 1_000, 90_000_000, 5, 805]
    points = [history_point(replace(timeline(0), wall_ms=ms)) for ms in wall]
    assert play_times(points) == [0, 1_000, 1_001, 6_001, 6_002, 6_802]
    assert play_times([None, points[0], None, points[1]]) == [0, 1, 2, 1_002]


def test_the_arrows_home_and_end_scrub_where_the_timeline_has_the_focus(path: Path) -> None:
    async def scenario(it: Driven) -> None:
        await it.press("right")
        await shows(it, 0)  # elsewhere they select a channel
        it.app.screen.query_one(Timeline).focus()
        await it.press("end")
        await shows(it, COUNT - 1)
        await it.press("home")
        await shows(it, 0)
        await it.press("right", "right")
        await shows(it, 14)
        await it.press("left")
        await shows(it, 6)

    replay(scenario, path)
