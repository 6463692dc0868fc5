"""The main screen as it is looked at: selection, sorting, filter, axis, freeze, zone, theme, help."""

import re
from pathlib import Path

import pytest
from wmtop.tui.screens.channels import ChannelScreen
from wmtop.tui.screens.help import ChannelCommands, HelpScreen
from wmtop.tui.screens.windows import WindowScreen, WindowsScreen
from wmtop.tui.widgets.barrel import Barrel
from wmtop.tui.widgets.tables import ChannelTable
from wmtop.tui.words.kinds import presenter_of
from wmtop.tui.words.texts import BY_DISTANCE, NO_CHANNEL_MATCHES, NO_WINDOW_MATCHES, OPEN_INSTANCE

from tests.snapshots import replace

from ..canned import CARRIERS, HOUR, MINUTE, channel, empty, hostile, instances, late_burst, live, many, one, reported
from ..drive import Driven, drive


def rows(it: Driven) -> list[str]:
    """The names in the table, from the top."""
    return [line.split()[0] for line in it.said("ChannelTable").splitlines()[1:] if line.strip()]


def test_it_says_who_holds_the_level_why_for_how_long_and_what_that_costs() -> None:
    async def scenario(it: Driven) -> None:
        assert re.search(r"wmtop  flights  ● LIVE  batch 214 · 0\.31 s · 5,402 rows/s", it.said("#status"))
        await it.says("2013-02-08 14:32:10 UTC  ×600", "#status")
        await it.shows("#level", " 13:47:59 ", " 43m ", " 44m ")
        await it.shows("#level", " F9 ", presenter_of(live()).cause())
        assert re.search(r"lag [ ▁-█]{20,} ≤43m", it.said("#level"))
        await it.says("late 1.8 % (1,242), now 4.4 %", "#tuning")
        await it.says("3 open · 212 fired", "#middle")
        await it.says("13:00–14:00  1,204 rows", "#windows")
        assert "until" not in it.said("#windows")  # its event time may be in the past of an open window
        await it.shows("#windows", " F9, YV ", "12m")
        assert re.search(r"F9 +13:47:59 +\+0s +0\.0 +0\.4 % +26m +HOLDS 26m", it.said("#channels"))
        picture = it.said("Barrel")
        assert all(sign in picture for sign in "█▓╱≈")
        assert "▼ 4d" in picture

    drive(scenario, *reported(live()))


def test_the_arrows_select_a_stave_and_its_row() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("right")
        await it.says("─  F9  13:47:59", "#top")
        await it.press("right", "right")
        await it.says("─  MQ  13:59:59", "#top")
        await it.press("left")
        await it.says("─  YV ", "#top")
        await it.press("down")
        await it.says("─  MQ ", "#top")
        await it.press("end")
        await it.says("─  AS ", "#top")
        assert "AS" in rows(it)  # it was scrolled into view
        await it.press("home", "up")
        await it.says("─  F9 ", "#top")

    drive(scenario, *reported(live()))


def test_a_click_selects_too() -> None:
    async def scenario(it: Driven) -> None:
        await it.pilot.click(ChannelTable, offset=(4, 2))
        await it.says("─  YV ", "#top")
        await it.pilot.click(ChannelTable, offset=(4, 0))  # the header is no row: it sorts
        await it.says("─  YV ", "#top")
        await it.says("sort: name ▾", "#middle")
        labels = it.said("Barrel").splitlines()[-1]
        await it.pilot.click(Barrel, offset=(1 + labels.index("UA"), 8))
        await it.says("─  UA ", "#top")
        await it.pilot.resize_terminal(200, 50)
        await it.says("sort", "KeyLine")  # the wider footer has room for it
        keys = it.said("KeyLine")
        await it.pilot.click("KeyLine", offset=(keys.index("sort"), 0))
        await it.says("sort: rate", "#middle")

    drive(scenario, *reported(live()))


def test_sorting_goes_round() -> None:
    async def scenario(it: Driven) -> None:
        firsts: list[str] = []
        for order in ("behind", "name", "rate", "late", "state", "behind"):
            await it.says(f"sort: {order} ▾", "#middle")
            firsts.append(rows(it)[0])
            await it.press("s")
        assert firsts == ["F9", "9E", "UA", "WN", "F9", "F9"]

    drive(scenario, *reported(live()))


def test_barrel_table_and_heat_map_have_one_order() -> None:
    async def scenario(it: Driven) -> None:
        for key in "ssrsss":
            await it.press(key)
            table = [row.view.channel for row in it.app._main.shown.entries]
            await it.until(lambda want=table: it.app._main.query_one(Barrel).keys == want)
            assert it.said("Barrel").splitlines()[-1].split() == table
            await it.press("m")
            left_out = {"AS", "OO"}
            heat = [line.split()[0] for line in it.said("HeatMap").splitlines()[:14]]
            assert heat == [name for name in table if name not in left_out]
            await it.press("m")

    drive(scenario, *reported(live()), size=(200, 50))


def test_idle_channels_far_below_are_one_group_that_says_how_far() -> None:
    idle = [channel(name, -(9 + place) * HOUR, state="idle") for place, name in enumerate(CARRIERS[:7])]
    active = [channel(name, place * MINUTE) for place, name in enumerate(CARRIERS[7:])]

    async def scenario(it: Driven) -> None:
        names = it.said("Barrel").splitlines()[-1]
        assert names.rstrip().endswith("7 idle, 9h to 15h behind")
        assert not {*CARRIERS[:7]} & {*names.split()}
        await it.pilot.click(Barrel, offset=(1 + names.index("7 idle"), 8))
        assert it.app._main.shown.view.selected in CARRIERS[:7]

    drive(scenario, *reported(live([*active, *idle])))


def test_a_click_on_a_title_sorts_and_again_reverses_what_is_not_known_stays_last() -> None:
    snapshot = live()
    unknown = [replace(view, late=None) if view.channel == "UA" else view for view in snapshot.channels]

    async def scenario(it: Driven) -> None:
        titles = it.said("ChannelTable").splitlines()[0]
        await it.pilot.click(ChannelTable, offset=(titles.index("late") + 1, 0))
        await it.says("sort: late ▾", "#middle")
        await it.says("▾late", "ChannelTable")
        first = rows(it)
        assert first[0] == "WN"
        assert first[-1] == "UA" or "UA" not in first
        await it.pilot.click(ChannelTable, offset=(titles.index("late") + 1, 0))
        await it.says("sort: late ▴", "#middle")
        assert rows(it)[0] != "WN"
        assert rows(it)[0] != "UA"
        await it.press("r")
        await it.says("sort: late ▾", "#middle")
        assert rows(it) == first

    drive(scenario, *reported(replace(snapshot, channels=unknown)))


def test_tab_goes_to_the_windows_and_enter_opens_the_selected_one() -> None:
    async def scenario(it: Driven) -> None:
        await it.says("▶ Channels", "#middle")
        await it.press("tab")
        await it.says("▶ Windows", "#middle")
        assert "▶ Channels" not in it.said("#middle")
        await it.says("Enter window", "#keys")
        await it.press("enter")
        assert isinstance(it.app.screen, WindowScreen)
        assert "13:00–14:00" in it.said("#top")
        await it.press("escape")
        await it.says("▶ Windows", "#middle")
        await it.press("j", "enter")
        assert isinstance(it.app.screen, WindowsScreen)  # several windows that wait alike

    drive(scenario, *reported(live()), size=(200, 50))


def test_j_and_k_move_in_a_list() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("right", "j")
        await it.says("─  YV ", "#top")
        await it.press("k")
        await it.says("─  F9 ", "#top")

    drive(scenario, *reported(live()))


def test_the_palette_jumps_to_a_channel() -> None:
    async def scenario(it: Driven) -> None:
        hits = [hit async for hit in ChannelCommands(it.app.screen).search("events-777")]
        assert [str(hit.text) for hit in hits] == ["Channel events-777"]
        score = hits[0].score
        hits = [hit async for hit in ChannelCommands(it.app.screen).search("Channel events-7")]
        assert str(hits[0].text) == "Channel events-7"  # though fifty others contain it
        assert hits[0].score == score > 10 * max(hit.score for hit in hits[1:])
        hits[0].command()
        await it.until(lambda: isinstance(it.app.screen, ChannelScreen))
        await it.says("› events-7 ", "#top")
        assert len([hit async for hit in ChannelCommands(it.app.screen).search("events")]) == 50

    drive(scenario, *reported(many()))


def test_with_the_focus_on_the_windows_the_filter_is_theirs() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("tab", "slash", *"nowhere", "enter")
        await it.says(NO_WINDOW_MATCHES, "#windows")
        await it.says("/nowhere  0 of 3", "#middle")
        await it.press("escape")
        await it.says("3 open", "#middle")

    drive(scenario, *reported(live()))


def test_the_heading_of_the_windows_has_whole_figures_only() -> None:
    """Whatever their widths are: also where one more cell would do."""

    async def scenario(it: Driven) -> None:
        for fired in (10**n for n in range(10)):
            await it.push(live(windows=replace(live().windows, fired=fired)))
            assert "…" not in it.said("#middle")

    drive(scenario, *reported(live()), size=(120, 36))


def test_the_filter_is_a_regular_expression_and_a_bad_one_changes_nothing() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("slash", *"^events-99")
        assert rows(it) == sorted(rows(it), key=rows(it).index)
        assert set(rows(it)) == {"events-99", *(f"events-99{n}" for n in range(10))}
        await it.says("11 of 1,000", "#middle")
        await it.press("left_square_bracket")
        note = it.app.screen.query_one("#prompt-note")
        assert "unterminated" in str(note.render())
        await it.press("enter")
        assert it.app.screen.query_one("Prompt").display
        assert len(rows(it)) == 11
        await it.press("backspace", "enter")
        assert not it.app.screen.query_one("Prompt").display
        assert len(rows(it)) == 11
        await it.press("escape")
        assert "of 1,000" not in it.said("#middle")
        await it.press("slash", *"nobody")
        await it.says(NO_CHANNEL_MATCHES, "#channels")

    drive(scenario, *reported(many()))


def test_a_thousand_channels_fold_into_a_strip_and_the_holder_is_alone() -> None:
    async def scenario(it: Driven) -> None:
        await it.shows("#top", "1,000 ", "events-…")
        assert re.search(r" 0 .* \+9\d\d, \d+ a cell", it.said("Barrel").splitlines()[-1])
        await it.says("▌▌▌▌", "Barrel")
        left = many()
        holder = replace(left.level, holder=replace(left.level.holder, channel="events-500"))
        await it.push(replace(left, level=holder))
        assert "500" in it.said("Barrel").splitlines()[-1]

    drive(scenario, *reported(many()))


def test_the_axis_is_event_time_or_distance() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("x")
        await it.says(BY_DISTANCE, "#top")
        assert re.search(r"−43m ≈", it.said("Barrel"))
        assert "▼" not in it.said("Barrel")
        await it.press("x")
        await it.says("13:47 ≈", "Barrel")

    drive(scenario, *reported(live()))


def test_frozen_the_picture_does_not_change_while_data_comes() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("p")
        await it.says("● FROZEN", "#status")
        before = it.said()
        await it.push(late_burst())
        assert it.said() == before
        await it.press("plus")
        await it.says("▸ 45m?", "#tuning")
        await it.press("p")
        await it.says("● LIVE  batch 240", "#status")
        await it.says("late 8.1 % (6,100), now 32.8 %", "#tuning")

    drive(scenario, *reported(live()))


def test_times_in_utc_or_local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    import time

    time.tzset()

    async def scenario(it: Driven) -> None:
        await it.press("T")
        await it.says("2013-02-08 20:02:10 IST", "#status")
        await it.says("WATERMARK 19:17:59", "#level")
        await it.says("18:30–19:30", "#windows")
        await it.press("T")
        await it.says("14:32:10 UTC", "#status")

    drive(scenario, *reported(live()))
    monkeypatch.undo()
    time.tzset()


def test_enter_opens_an_instance_and_escape_goes_back() -> None:
    async def scenario(it: Driven) -> None:
        await it.says("4 instances", "#top")
        await it.shows("#level", " #2 ", "26m")
        await it.says(OPEN_INSTANCE, "KeyLine")
        await it.press("enter")
        await it.says("4 channels inside #2", "#top")
        assert rows(it) == ["F9", "MQ", "FL", "WN"]
        await it.press("right", "escape")
        await it.says("4 instances ─  F9 ", "#top")
        assert len(rows(it)) > 4
        await it.press("right", "enter")
        assert "inside #2" not in it.said("#top")
        await it.says("inside #", "#top")

    drive(scenario, *reported(instances()))


def test_names_from_outside_are_text() -> None:
    async def scenario(it: Driven) -> None:
        said = it.said()
        assert not [char for char in said if (ord(char) < 32 and char != "\n") or 0x7F <= ord(char) < 0xA0]
        assert "[bold]markup[/bold]" in said
        assert "␛[31mred␛[0m" in said
        assert "(no name)" in said
        for line in it.said("#channels").splitlines():
            assert len(line) <= it.app.screen.query_one(ChannelTable).size.width

    drive(scenario, *reported(hostile()), size=(120, 36))


def test_help_opens_over_it_and_data_keeps_coming() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("question_mark")
        assert isinstance(it.app.screen, HelpScreen)
        await it.push(late_burst())
        await it.press("q")
        await it.says("batch 240", "#status")

    drive(scenario, *reported(live()))


def test_the_palette_offers_what_the_keys_do() -> None:
    async def scenario(it: Driven) -> None:
        titles = [command.title for command in it.app.get_system_commands(it.app.screen)]
        assert {"Type a lateness", "Freeze or resume", "Theme", "Save SVG", "Help", "Quit"} <= set(titles)
        await it.press("ctrl+p", *"freeze", "enter")
        await it.until(lambda: not it.app.screen.is_modal and "FROZEN" in it.said("#status"))

    drive(scenario, *reported(live()))


def test_the_other_theme_changes_colours_and_nothing_else() -> None:
    async def scenario(it: Driven) -> None:
        before, style = it.said(), it.app.screen.query_one(Barrel).render_line(10)
        await it.press("c")
        assert it.app.theme == "wmtop-light"
        assert it.said() == before
        assert it.app.screen.query_one(Barrel).render_line(10) != style
        await it.press("c", "c")
        assert it.app.screen.query_one(Barrel).render_line(10) == style

    drive(scenario, *reported(live()))


def test_the_screen_is_saved_and_it_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def scenario(it: Driven) -> None:
        for number in (1, 2):  # a notice is gone after some seconds
            await it.press("S")
            assert it.toasts()[-1:] == [f"saved {tmp_path}/wmtop-flights-{number}.svg"]

    drive(scenario, *reported(live()))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["wmtop-flights-1.svg", "wmtop-flights-2.svg"]
    picture = (tmp_path / "wmtop-flights-1.svg").read_text()
    assert picture.startswith("<svg")
    assert "@font-face" not in picture


def test_one_channel_and_no_room_are_fine_too() -> None:
    async def scenario(it: Driven) -> None:
        for width, height in ((20, 6), (40, 10), (71, 16), (71, 24), (300, 90)):
            await it.pilot.resize_terminal(width, height)
            await it.press("plus", "x", "right", "down")
            await it.says("LIVE", "#status")
            assert ("all" in it.said("ChannelTable")) == (height > 20)
            assert it.app.screen.scroll_offset.y == 0

    drive(scenario, *reported(one()))


def test_only_what_works_is_in_the_footer() -> None:
    async def scenario(it: Driven) -> None:
        keys = it.said("KeyLine")
        assert "[ ] idle" not in keys
        assert "Enter channel" in keys
        assert "w windows" in keys
        assert "? help" in keys
        await it.push(empty())
        keys = it.said("KeyLine")
        assert "Enter" not in keys
        assert "sort" not in keys

    drive(scenario, *reported(live(whatif_idle=None)), size=(200, 50))


def test_a_snapshot_that_changes_nothing_repaints_nothing() -> None:
    async def scenario(it: Driven) -> None:
        painted: list[object] = []
        for widget in it.app.screen.query("Canvas, Rows"):
            refresh = widget.refresh
            monkey = lambda *regions, refresh=refresh, **more: (painted.append(regions), refresh(*regions, **more))[1]  # noqa: E731
            widget.refresh = monkey  # type: ignore[method-assign]
        await it.push(live())
        assert painted == []
        await it.push(live(spark=replace(live().spark, batch_ms=320)))
        assert len(painted) == 1

    drive(scenario, live())


def test_an_hour_of_minutes_keeps_the_staves_in_view() -> None:
    async def scenario(it: Driven) -> None:
        for minute in range(0, 60, 5):
            later = live()
            views = [replace(v, watermark_ms=(v.watermark_ms or 0) + minute * MINUTE) for v in later.channels]
            level = replace(later.level, watermark_ms=(later.level.watermark_ms or 0) + minute * MINUTE)
            await it.push(replace(later, channels=views, level=level))
            await it.says("≈", "Barrel")
            assert "▲" not in it.said("Barrel")

    drive(scenario, *reported(live()))
