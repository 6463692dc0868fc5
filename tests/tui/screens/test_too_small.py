"""A terminal that is too small: it says so, with the most important lines, until it has grown."""

import pytest
from wmtop.engine.text.formatting import NO_DATA
from wmtop.tui.screens.base_app import TooSmallScreen
from wmtop.tui.screens.main import MainScreen
from wmtop.tui.screens.windows import WindowsScreen

from ..canned import live, reported
from ..drive import Driven, drive


@pytest.mark.parametrize("size", [(40, 10), (59, 40), (120, 14)])
def test_too_small_terminal_shows_needed_size_and_verdict(size: tuple[int, int]) -> None:
    async def scenario(it: Driven) -> None:
        await it.until(lambda: isinstance(it.app.screen, TooSmallScreen))
        await it.says(f"{size[0]}×{size[1]}", "#needed")
        it.clock.now += 5
        await it.says("WATERMARK 13:47:59")
        assert NO_DATA not in it.said()

    drive(scenario, *reported(live()), size=size)


def test_too_small_terminal_that_grows_shows_the_open_screen_again() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("w")
        await it.pilot.resize_terminal(50, 12)
        await it.until(lambda: isinstance(it.app.screen, TooSmallScreen))
        await it.says("STALLED", "#verdict")
        await it.pilot.resize_terminal(100, 30)
        await it.until(lambda: isinstance(it.app.screen, WindowsScreen))
        await it.press("escape")
        assert isinstance(it.app.screen, MainScreen)

    drive(scenario, *reported(live()))


def test_too_small_refresh_while_closing_is_ignored() -> None:
    async def scenario(it: Driven) -> None:
        await it.until(lambda: isinstance(it.app.screen, MainScreen))

    app = drive(scenario, *reported(live()))
    assert app.screen_stack == []
    app._fit()
