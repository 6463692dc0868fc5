"""The windows: what the list and a window's page say."""

import re
from datetime import UTC

from msgspec.structs import replace
from wmtop.engine.snapshot import Windows
from wmtop.engine.text.codes import unknown_text
from wmtop.tui.screens.channels import ChannelScreen
from wmtop.tui.screens.windows import WindowsScreen
from wmtop.tui.widgets.rows import Sheet
from wmtop.tui.words.closing import closing
from wmtop.tui.words.spans import text_of
from wmtop.tui.words.texts import (
    FIRED_LONG_AGO,
    FIRED_UNKNOWN,
    NO_FIRED_WINDOW,
    NO_OPEN_WINDOW,
    OPEN_UNKNOWN,
    windows_wait_for,
)

from .. import canned
from ..canned import SETTINGS, live, many, reported
from ..drive import Driven, drive


def test_windows_open_show_who_they_wait_for_fired_show_late() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("w")
        await it.says("3 open · 212 fired · 41 late firings", "#top")
        lines = it.said("#windows").splitlines()
        assert re.search(r"13:00–14:00  1,204  ▇+▒+ +12m  .*\b1h34m\b.*\bYV\b", lines[1])
        assert re.search(r" F9, YV   UA 301, B6 200, F9 150, .*\b10 ", lines[2])
        assert re.search(r"11:00–12:00  1,987  12:37:00 +37m +3 +41  closed", it.said("#windows"))
        await it.shows("#why", " F9", " 12m ")
        await it.press("end")
        await it.shows("#why", " 10:37:00", " 37m ", "1,872")

    drive(scenario, *reported(live()))


def test_why_a_window_is_open_is_a_whole_sentence_also_at_60_columns() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("w")
        for _ in live().windows.open:
            await it.until(lambda: it.said("#why").rstrip().endswith("."))
            assert "…" not in it.said("#why")
            await it.press("enter")
            await it.until(lambda: it.said("#explanation").rstrip().endswith("."))
            await it.press("escape", "down")

    drive(scenario, *reported(live()), size=(60, 20))


def test_windows_moved_cursor_follows_a_window_that_fires() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("w", "down", "up")
        snapshot = live()
        window = snapshot.windows.open[0]
        gone = canned.FiredWindow(window.start_ms, window.end_ms, 1_300, canned.NOW)
        fired = replace(snapshot.windows, open=snapshot.windows.open[1:], last_fired=[gone])
        await it.push(replace(snapshot, windows=fired))
        await it.shows("#why", " 14:32:10.000", " 32m ", "1,300")

    drive(scenario, *reported(live()))


def test_windows_unmoved_cursor_is_on_the_next_to_close() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("w")
        windows = live().windows
        await it.push(live(windows=replace(windows, open=windows.open[1:])))
        await it.shows("#why", " F9", " 1h12m ")

    drive(scenario, *reported(live()))


def test_windows_that_never_close_say_never() -> None:
    stuck = live(settings=replace(SETTINGS, idle_after_ms=None))

    async def scenario(it: Driven) -> None:
        await it.press("w")
        closes = closing(stuck, stuck.windows.open[0], None, UTC)
        assert closes.kind == "never"
        await it.says(closes.brief, "#windows")
        assert " ".join(text_of(closes.why).split()) in " ".join(it.said("#why").split())

    drive(scenario, *reported(stuck))


def test_window_page_lists_blockers_and_rows_by_channel() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("w", "enter")
        await it.says("rows 1,204 of 16 channels", "#top")
        lines = it.said("#window").splitlines()
        assert re.search(r"F9 +13:47:59 +12m  26m +HOLDS", lines[1])
        assert re.search(r"YV +13:56:59 +3m  4m +active", lines[2])
        assert re.search(r"UA +301  ▇{24}", it.said("#window"))
        assert re.search(r"8 more, with \d+ rows", it.said("#window"))
        await it.press("down", "enter")
        assert isinstance(it.app.screen, ChannelScreen)
        await it.says("main › Windows › 13:00–14:00 › ", "#top")
        await it.press("escape", "escape")
        assert isinstance(it.app.screen, WindowsScreen)

    drive(scenario, *reported(live()))


def test_window_page_of_an_unknown_window_says_so() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("w", "enter")
        await it.push(live(windows=Windows()))
        await it.until(lambda: FIRED_LONG_AGO in " ".join(it.said("#explanation").split()))

    drive(scenario, *reported(live()))


def test_window_page_of_many_channels_lists_some() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("w", "down", "enter")
        await it.press("end")
        assert re.search(r"603 more, with \d+ rows", it.said("#window"))
        await it.press(*["up"] * 8)
        assert re.search(r"and \d+ more", it.said("#window"))

    drive(scenario, *reported(many()))


def test_windows_empty_or_unknown_say_which() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("w")
        await it.says(NO_OPEN_WINDOW, "#windows")
        await it.says(NO_FIRED_WINDOW, "#windows")
        await it.push(canned.attached())
        await it.says(FIRED_UNKNOWN, "#windows")
        await it.says("13:00–14:00", "#windows")
        unknown = Windows(open_count=None, fired=None, late_firings=None, unknown="state_not_read")
        await it.push(replace(canned.attached(), windows=unknown))
        await it.says(unknown_text("state_not_read", {}) or "", "#windows")
        await it.says(OPEN_UNKNOWN, "#windows")
        assert "Enter" not in it.said("#keys")

    drive(scenario, *reported(canned.empty()))


def test_windows_click_on_a_title_sorts_without_groups() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("w")
        sheet = it.app.screen.query_one("#windows", Sheet)
        titles = it.said("#windows").splitlines()[0]

        def starts() -> list[str]:
            shown = it.said("#windows").split("fired at")[0]
            return re.findall(r"^ (\d\d:00)–", shown, re.MULTILINE)

        await it.says(windows_wait_for(2), "#windows")
        assert starts() == ["13:00", "14:00", "15:00"]
        await it.pilot.click(sheet, offset=(titles.index("rows") + 1, 0))
        await it.until(lambda: starts() == ["15:00", "14:00", "13:00"])
        assert windows_wait_for(2) not in it.said("#windows")
        await it.pilot.click(sheet, offset=(titles.index("rows") + 1, 0))
        await it.until(lambda: starts() == ["13:00", "14:00", "15:00"])

    drive(scenario, *reported(live()))
