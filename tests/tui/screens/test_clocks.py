"""The screens of a Kafka Streams application: clocks side by side, never a barrel, at every size and number."""

import pytest
from wmtop.tui.screens.main import MainScreen

from ..attached import streams
from ..canned import reported
from ..drive import Driven, drive


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 36), (200, 50)], ids=str)
@pytest.mark.parametrize("tasks", [1, 8, 500])
def test_the_stuck_clock_is_on_the_main_screen(size: tuple[int, int], tasks: int) -> None:
    """Its verdict, age, partition and the record that frees it; no barrel beside the clocks."""
    last = tasks - 1

    async def scenario(driven: Driven) -> None:
        await driven.shows("#verdict", f"0_{last}", f"orders-{last} has no data", "12m")
        await driven.shows("#level", f"13:47:42 or later in orders-{last}")
        await driven.shows("ClockLines", "WAITING", "Sub-topology 0", "downstream")
        assert not driven.app.screen.query_one("Barrel").display
        assert not driven.app.screen.query_one("HeatMap").display

    drive(scenario, *reported(streams(tasks=tasks)), size=size)


def test_faces_give_way_to_signs_and_every_clock_has_one() -> None:
    async def scenario(driven: Driven) -> None:
        await driven.until(lambda: driven.said("ClockLines").count("·") == 37)
        assert driven.said("ClockLines").count("w") >= 3

    drive(scenario, *reported(streams(tasks=20, stuck=3)), size=(80, 24))


@pytest.mark.parametrize("key", ["l", "t", "o", "b", "h", "x", "m"])
def test_what_is_not_known_from_commits_is_said_in_a_line(key: str) -> None:
    async def scenario(driven: Driven) -> None:
        await driven.press(key)
        await driven.until(lambda: len(driven.toasts()) == 1)
        assert driven.app.screen.query("ClockLines")

    drive(scenario, *reported(streams()))


def test_windows_need_the_options_and_name_them() -> None:
    async def scenario(driven: Driven) -> None:
        await driven.press("w")
        await driven.until(lambda: len(driven.toasts()) == 1)
        assert "--window" in driven.toasts()[0]

    drive(scenario, *reported(streams(window_ms=None)))


def test_the_record_that_frees_a_window_is_copied_as_a_command() -> None:
    async def scenario(driven: Driven) -> None:
        await driven.press("w")
        await driven.shows("Sheet", "0_2", "4 windows wait", "13:47:42 or later in orders-2")
        await driven.press("y")
        copied = driven.app.clipboard
        assert copied.startswith("echo ")
        assert "kafka-console-producer --bootstrap-server localhost:9092 --topic orders " in copied
        await driven.shows("Prose", "partition 2 of orders", "13:47:42")

    drive(scenario, *reported(streams()))


def test_a_partition_s_page_says_that_it_is_quiet_and_for_how_long() -> None:
    async def scenario(driven: Driven) -> None:
        await driven.press("enter")
        await driven.shows("Prose", "orders-2", "quiet 12m")
        await driven.shows("FactList", "stream time", "13:47:30")
        assert "watermark" not in driven.said("Prose, FactList, TextLine")

    drive(scenario, *reported(streams()))


def test_a_click_on_a_clock_selects_its_partition() -> None:
    async def scenario(driven: Driven) -> None:
        clocks = driven.app.screen.query_one("ClockLines")
        lines = [clocks.render_line(y).text for y in range(clocks.size.height)]
        y = next(number for number, line in enumerate(lines) if "0_1" in line)
        await driven.pilot.click(clocks, offset=(lines[y].index("0_1") + 1, y))
        screen = driven.app.screen
        assert isinstance(screen, MainScreen)
        await driven.until(lambda: screen.shown.view.selected == "orders-1")

    drive(scenario, *reported(streams()))
