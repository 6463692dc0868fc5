"""Operators: the chain with what each link holds back, the valve's inputs, and a query of others."""

from wmtop.tui.screens.channels import ChannelScreen, OperatorsScreen
from wmtop.tui.screens.main import MainScreen
from wmtop.tui.widgets.rows import Sheet
from wmtop.tui.words.texts import TAP_SHOWS_CHANNELS, more_less_behind

from .. import canned
from ..canned import NOW, attached, instances, live
from ..drive import Driven, drive


def test_operators_enter_opens_channels_then_the_page() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("o")
        await it.until(lambda: "Enter" in it.said("#keys"))
        await it.press("enter")
        await it.says("F9", "Sheet")
        await it.says("Enter close", "#keys")
        await it.press("down", "enter")
        assert isinstance(it.app.screen, ChannelScreen)
        await it.press("escape", "up", "enter")
        assert "F9" not in it.said("Sheet")
        await it.press("escape")
        assert isinstance(it.app.screen, MainScreen)

    drive(scenario, *canned.reported(instances()), size=(80, 30))


def test_operators_attached_says_how_to_see_channels() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("o", "enter")
        await it.says(TAP_SHOWS_CHANNELS, "Sheet")
        assert isinstance(it.app.screen, OperatorsScreen)

    drive(scenario, *canned.reported(attached()))


def test_operators_many_channels_lists_the_most_behind() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("o", "end")
        await it.says(more_less_behind(700), "Sheet")

    drive(scenario, *canned.reported(canned.many()))


def test_operators_click_on_a_title_keeps_channels_below_their_subtask() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("o", "enter")
        sheet = it.app.screen.query_one("#operators", Sheet)
        lines = it.said("#operators").splitlines()
        top = next(place for place, line in enumerate(lines) if line.startswith(" input"))

        def names() -> list[str]:
            return [line.split()[0] for line in it.said("#operators").splitlines()[top + 1 :] if line.strip()]

        outer = sorted(name for name in names() if name.startswith("instance"))
        before = names()
        for reverse in (False, True):
            await it.pilot.click(sheet, offset=(lines[top].index("input") + 1, top))
            await it.until(lambda: [n for n in names() if n in outer] == sorted(outer, reverse=reverse))  # noqa: B023
            place = names().index(before[0])
            assert names()[place : place + 3] == before[:3]  # the channels of an opened one stay below it

    drive(scenario, *canned.reported(instances()))


def test_operators_old_data_shows_the_time_of_day() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("o")
        await it.says("13:47:59", "#operators")
        inputs = it.said("#operators").split(" input ")[1]
        assert "13:47:59" in inputs
        await it.press("escape", "b")
        await it.says("watermark 13:47:59", "#blockers")

    drive(scenario, *canned.reported(live(now_ms=NOW + 12 * 365 * canned.DAY)))
