"""What all further screens share: how they are reached and left, frozen, tuned, explained."""

import asyncio
from pathlib import Path

import pytest
from textual.driver import Driver
from textual.widgets import OptionList
from wmtop.tui.screens.base_app import BaseApp
from wmtop.tui.screens.help import HelpScreen
from wmtop.tui.screens.lateness import LateRecordsScreen
from wmtop.tui.screens.main import MainScreen
from wmtop.tui.screens.target_screen import FURTHER, DetailScreen, loaded
from wmtop.tui.screens.windows import WindowScreen, WindowsScreen
from wmtop.tui.words.keys import LINKS

from tests.snapshots import replace

from .. import canned
from ..canned import HOUR, MINUTE, empty, flights, late_burst, live, reported
from ..drive import Driven, drive
from ..recorded import record, replay

SIZES = ((80, 24), (120, 36), (200, 50), (20, 5))


def test_detail_key_opens_it_and_escape_returns() -> None:
    async def scenario(it: Driven) -> None:
        for link in LINKS:
            if link.name in FURTHER:
                await it.press(link.key)
                assert isinstance(it.app.screen, loaded(FURTHER[link.name]))
                await it.says(f"main › {link.name}", "#top")
                await it.says("Esc back", "#keys")
                await it.says("● LIVE", "#status")
                await it.press("escape")
                assert isinstance(it.app.screen, MainScreen)

    drive(scenario, *reported(live()))


def test_detail_any_snapshot_at_any_size_is_drawn() -> None:
    builders = (canned.empty, canned.attached, canned.never_seen, canned.stalled, canned.ended, canned.failed,
                canned.hostile, canned.instances, canned.many, canned.one)  # fmt: skip

    by_size = sorted(zip(SIZES * len(builders), builders, strict=False), key=lambda pair: pair[0])  # few resizes

    async def scenario(it: Driven) -> None:
        for link in LINKS:
            if link.name in FURTHER:
                await it.press(link.key)
                for size, build in by_size:
                    if it.app.size != size:
                        await it.pilot.resize_terminal(*size)
                    await it.push(build())
                    await it.type("down", "end", "T")
                    said = it.said()
                    assert "9223372036854775" not in said
                    assert "\x1b" not in said
                await it.pilot.resize_terminal(120, 36)
                await it.press("escape")
                await it.push(live())

    drive(scenario, *reported(live()))


def test_detail_already_open_is_returned_to() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("w", "enter")
        assert isinstance(it.app.screen, WindowScreen)
        await it.says("main › Windows › 13:00–14:00", "#top")
        await it.press("w")
        assert isinstance(it.app.screen, WindowsScreen)
        assert [type(screen) for screen in it.app.screen_stack[1:]] == [MainScreen, WindowsScreen]
        await it.press("w")
        assert isinstance(it.app.screen, WindowsScreen)
        await it.press("escape")
        assert isinstance(it.app.screen, MainScreen)

    drive(scenario, *reported(live()))


def test_detail_screen_key_replaces_what_is_shown() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("w", "enter", "b")
        await it.says("main › Blockers ", "#top")
        assert len(it.app.screen_stack) == 3
        await it.press(str(1 + [link.name for link in LINKS].index("Operators")))
        await it.says("main › Operators ", "#top")
        await it.press("escape")
        assert isinstance(it.app.screen, MainScreen)

    drive(scenario, *reported(live()))


def test_dead_key_says_where_it_works() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("G")
        assert "in a replay" in it.toasts()[-1]
        await it.press("w", "m")
        assert "on the main screen" in it.toasts()[-1]
        await it.press("percent_sign")
        assert it.toasts()[-1].startswith("% ")
        await it.press("escape", "L")
        assert "(late records)" in it.toasts()[-1], "in words, not by the key's name in a configuration"
        kept = "recording to /srv/incidents/of/this/week/wmtop-flights.rec; press R to stop"
        it.app.notify(f"{kept}, {'or go on for long ' * 9}", markup=False)
        await it.until(lambda: it.toasts() == [kept])

    drive(scenario, *reported(live()))


def test_a_notice_is_seen_after_another_was_cleared() -> None:
    async def scenario() -> None:
        app = BaseApp[None](None)
        async with app.run_test(size=(60, 20), notifications=True) as pilot:
            app.notify("first", timeout=60)
            while not app.screen.query("Toast"):
                await pilot.pause(0.01)
            app.clear_notifications()
            app.notify("second", timeout=60)
            while [toast.region.x for toast in app.screen.query("Toast")] != [2]:
                await pilot.pause(0.01)

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_all_is_drawn_again_after_a_suspension(monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal has forgotten what was on it, and widgets draw what has changed only."""
    drawn: list[bool] = []

    async def scenario(it: Driven) -> None:
        it.clock.now += 60
        monkeypatch.setattr(type(it.app), "refresh", lambda self, **how: drawn.append(True))
        it.app.post_message(Driver.SignalResume())
        await it.until(lambda: bool(drawn))
        monkeypatch.undo()
        await it.push()
        assert "STALE" not in it.said("#status")

    drive(scenario, *reported(live()))


def test_a_notice_is_fitted_again_when_the_terminal_shrinks() -> None:
    async def scenario() -> None:
        app = BaseApp[None](None)
        async with app.run_test(size=(140, 20), notifications=True) as pilot:
            for name in ("older", "newest"):
                app.notify(f"recording to /srv/incidents/{name}.rec; press R to stop", timeout=60)
            while len(app.screen.query("Toast")) < 2:
                await pilot.pause(0.01)
            await pilot.resize_terminal(60, 20)
            while [str(toast.render()) for toast in app.screen.query("Toast")] != [
                "recording to …/newest.rec; press R to stop"
            ]:
                await pilot.pause(0.01)

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_blockers_of_an_old_recording_name_who_holds_back_the_watermark() -> None:
    """Its snapshots have no staircase, but they have the holder."""

    async def scenario(it: Driven) -> None:
        await it.press("b")
        await it.says("held back by F9 for 26m: no data for 26m")
        assert "The steps after it and what frees them: not known from here" in it.said()

    drive(scenario, *reported(live(blockers=None)))


def test_what_frees_a_blocker_is_whole_clauses_in_little_room() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("b")
        await it.says("frees: ")
        frees = [line.strip(" │") for line in it.said("Sheet").splitlines() if "frees: " in line]
        assert frees
        assert not [line for line in frees if "…" in line]

    silent = [replace(view, quiet_ms=2 * HOUR - 95_000, timer_ms=2 * HOUR - 95_000) for view in flights()]
    drive(scenario, *reported(live(silent)), size=(60, 20))


def test_blockers_before_the_first_record_claim_nothing() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("b")
        await it.says("no channel yet")

    drive(scenario, *reported(empty()))


def test_lateness_is_typed_on_any_screen() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("g", "equals_sign", *"45m")
        await it.says("▸ 45m?", "#tuning")
        await it.press("enter")
        assert [change.lateness_ms for change in it.client.sent] == [45 * MINUTE]  # type: ignore[union-attr]
        assert not it.app.screen.query_one("#prompt").display

    drive(scenario, *reported(live()))


def test_filter_with_an_exclamation_mark_leaves_out_what_it_finds() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("slash", *"F9")
        await it.says("/F9  1 of", "#middle")
        await it.press("home", "exclamation_mark")
        await it.says("/!F9  ", "#middle")
        assert "F9" not in it.said("ChannelTable")
        await it.press("enter", "escape")
        assert "F9" in it.said("ChannelTable")

    drive(scenario, *reported(live()))


def test_palette_has_the_keys_and_the_most_used_first(tmp_path: Path) -> None:
    async def scenario(it: Driven) -> None:
        async def offered() -> list[str]:
            await it.press("colon")
            await it.until(lambda: len(it.app.screen.query("CommandList")) == 1)
            options = it.app.screen.query_one(OptionList)
            await it.until(lambda: bool(options.option_count))
            return [str(option.prompt) for option in options.options]

        before = await offered()
        assert any(prompt.startswith("Windows") and "\nw  " in prompt for prompt in before)
        names = [link.name for link in LINKS]
        assert not any(f"{name}: " in prompt for name in names for prompt in before)  # said once
        assert [prompt.split("\n")[0] for prompt in before[: len(names)]] == names
        assert not before[0].startswith("Windows")
        await it.press(*"windows")
        await it.until(lambda: it.app.screen.query_one(OptionList).option_count == 1)
        await it.press("enter")
        await it.until(lambda: isinstance(it.app.screen, WindowsScreen))
        await it.press("escape")
        assert (await offered())[0].startswith("Windows")

    drive(scenario, *reported(live()))


def test_detail_new_snapshot_is_shown_and_later_by_main() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("w")
        await it.push(late_burst())
        await it.says("batch 240", "#status")
        await it.press("escape")
        await it.says("late 8.1 % (6,100)", "#tuning")
        await it.says("F9", "Barrel")

    drive(scenario, *reported(live()))


def test_detail_freeze_freezes_all_screens() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("w", "p")
        await it.says("● FROZEN", "#status")
        await it.says("p resume", "#keys")
        before = it.said()
        await it.push(late_burst())
        assert it.said() == before
        await it.press("escape")
        await it.says("● FROZEN", "#status")
        await it.press("w", "p")
        await it.says("batch 240", "#status")

    drive(scenario, *reported(live()))


def test_detail_preview_is_changed_applied_and_dropped() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("plus", "w")
        await it.says("▸ 45m?", "#tuning")
        await it.says("Enter apply 45m", "#keys")
        await it.says("Esc drop", "#keys")
        await it.press("plus", "enter")
        assert isinstance(it.app.screen, WindowsScreen)
        assert [change.lateness_ms for change in it.client.sent] == [60 * MINUTE]  # type: ignore[union-attr]
        await it.press("left_square_bracket")
        await it.says("idle after 2h ▸ 1h?", "#tuning")
        await it.press("escape")
        assert "▸" not in it.said("#tuning")
        assert isinstance(it.app.screen, WindowsScreen)

    drive(scenario, *reported(live()))


def test_detail_zone_changes_on_all_screens() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("w")
        await it.says("T local", "#keys")
        await it.press("T", "escape", "b")
        await it.says("T UTC", "#keys")

    drive(scenario, *reported(live()), size=(240, 50))


def test_help_over_a_detail_explains_it() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("w", "question_mark")
        assert isinstance(it.app.screen, HelpScreen)
        words = "\n".join(str(part.render()) for part in it.app.screen.query("Static"))
        assert "Reading Windows" in words
        assert "Reading the barrel" not in words
        await it.press("escape")
        assert isinstance(it.app.screen, WindowsScreen)

    drive(scenario, *reported(live()))


def test_help_at_any_width_keeps_words_beside_keys() -> None:
    async def scenario(it: Driven) -> None:
        def words() -> str:
            return "\n".join(str(part.render()) for part in it.app.screen.query("Static"))

        line = "  w        Windows: Open and fired windows, and why one does not fire\n"
        await it.press("g", "question_mark")
        assert line in words()
        assert "Progress\n" not in words().replace("Reading Progress\n", "")
        await it.pilot.resize_terminal(60, 24)
        await it.until(lambda: "\n           why one does not fire\n" in words())
        assert "  w        Windows: Open and fired windows, and\n           why one does not fire\n" in words()

    drive(scenario, *reported(live()))


def test_detail_has_a_text_for_its_help() -> None:
    for screen in (*map(loaded, FURTHER.values()), WindowScreen, LateRecordsScreen):
        assert issubclass(screen, DetailScreen)
        assert len(screen.READING) > 40


def test_palette_offers_what_the_keys_do_on_a_detail() -> None:
    async def scenario(it: Driven) -> None:
        main = {command.title for command in it.app.get_system_commands(it.app.screen)}
        assert {link.name for link in LINKS} <= main
        await it.press("w")
        there = {command.title for command in it.app.get_system_commands(it.app.screen)}
        assert "Back" in there
        assert "Windows" not in there

    drive(scenario, *reported(live()))


def test_detail_of_a_replay_has_the_timeline(tmp_path: Path) -> None:
    async def scenario(it: Driven) -> None:
        await it.press("w")
        await it.until(lambda: bool(it.app.screen.query("ReplayBar")))
        await it.says("REPLAY PAUSED", "#status")
        assert "p freeze" not in it.said("#keys")
        await it.press("full_stop", "full_stop")
        await it.until(lambda: "batch 2" in it.said("#status"))
        await it.press("p")
        await it.until(lambda: "REPLAY ▶" in it.said("#status"))

    replay(scenario, record(tmp_path / "x.rec"))
