"""Text is selected by dragging the mouse over it, and copied; a drag is not a click."""

import pytest
from textual.widget import Widget
from wmtop.tui.screens.history import HistoryScreen
from wmtop.tui.screens.main import MainScreen
from wmtop.tui.widgets.lines import KeyLine, TextLine
from wmtop.tui.widgets.tables import ChannelTable

from ..canned import live, reported
from ..drive import Driven, drive


def main(it: Driven) -> MainScreen:
    screen = it.app.screen
    assert isinstance(screen, MainScreen)
    return screen


async def drag(it: Driven, widget: type[Widget], start: tuple[int, int], end: tuple[int, int]) -> None:
    await it.pilot.mouse_down(widget, offset=start)
    await it.pilot.hover(widget, offset=end)
    await it.pilot.mouse_up(widget, offset=end)
    await it.pilot.pause()


def test_a_drag_copies_what_is_under_it_and_selects_no_row() -> None:
    async def scenario(it: Driven) -> None:
        await it.says("HOLDS", "ChannelTable")
        before = it.said("ChannelTable").splitlines()
        await drag(it, ChannelTable, (1, 2), (10, 3))
        copied = it.app.clipboard.splitlines()
        assert [line.strip() for line in copied] == [before[2].strip(), before[3][:10].strip()]
        assert main(it).shown.view.selected is None
        await it.press("escape")  # only the selection goes
        assert not it.app.screen.selections
        await drag(it, KeyLine, (1, 0), (12, 0))
        assert it.app.clipboard.splitlines() == copied, "keys are buttons, not text"

    drive(scenario, *reported(live()))


@pytest.mark.parametrize("key", ["y", "ctrl+c"])
def test_a_key_copies_the_selection_again(key: str) -> None:
    async def scenario(it: Driven) -> None:
        await it.press("h")
        await it.until(lambda: isinstance(it.app.screen, HistoryScreen) and bool(it.app.screen.sheet.cursor))
        await drag(it, TextLine, (1, 0), (6, 0))
        assert it.app.clipboard == "wmtop"
        it.app.copy_to_clipboard("other")
        await it.press(key)
        assert it.app.clipboard == "wmtop"
        assert isinstance(it.app.screen, HistoryScreen)

    drive(scenario, *reported(live()))
