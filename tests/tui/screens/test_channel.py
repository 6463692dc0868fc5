"""A channel's page: how it stands, what is counted of it, what it did while the page was open."""

import re

from wmtop.engine.snapshot import Snapshot
from wmtop.engine.text.formatting import ELSEWHERE
from wmtop.tui.screens.channels import ChannelScreen
from wmtop.tui.screens.main import MainScreen
from wmtop.tui.words.kinds import presenter_of
from wmtop.tui.words.texts import CHANNEL_GONE, MAX_LATE_ONLY, NOT_BEHIND, OF_THIS_CHANNEL

from tests.snapshots import replace

from .. import canned
from ..canned import MINUTE, NOW, WALL, instances, live, many, reported
from ..drive import Driven, drive


def with_channel(name: str, **more: object) -> Snapshot:
    """A snapshot in which that is said of the channel."""
    snapshot = live()
    views = [replace(view, **more) if view.channel == name else view for view in snapshot.channels]
    return replace(snapshot, channels=views)


def sentence(snapshot: Snapshot, name: str) -> str:
    view = next(view for view in snapshot.channels if view.channel == name)
    return "".join(text for text, _ in presenter_of(snapshot).channel_line(view))


def test_enter_opens_the_selected_channel_else_the_holder_and_arrows_go_to_the_others() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("enter")
        assert isinstance(it.app.screen, ChannelScreen)
        await it.says("main › F9", "#top")
        await it.says(sentence(live(), "F9"), "#explanation")
        await it.press("right")
        await it.says("main › YV", "#top")
        await it.says(sentence(live(), "YV"), "#explanation")
        await it.press("left", "left")
        await it.says("main › AS", "#top")
        await it.press("escape")
        assert isinstance(it.app.screen, MainScreen)
        await it.says("─  AS ", "#top")
        await it.press("home", "down", "enter")
        await it.says("main › YV", "#top")

    drive(scenario, *reported(live()))


def test_with_instances_enter_first_opens_the_channels_inside() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("enter")
        await it.says("inside #2", "#top")
        await it.press("enter")
        assert isinstance(it.app.screen, ChannelScreen)
        await it.press("escape", "escape")
        assert "inside" not in it.said("#top")

    drive(scenario, *reported(instances()))


def test_what_it_did_before_the_page_was_opened_is_drawn_too() -> None:
    def bars(it: Driven, line: str) -> str:
        return re.sub(r"([▁-█])\1+", r"\1", it.said(line))  # a value is several cells wide

    async def scenario(it: Driven) -> None:
        for minute in range(1, 9):
            quiet = 5 * (minute % 4) * MINUTE
            snapshot = with_channel("F9", quiet_ms=quiet)
            snapshot = replace(snapshot, now_ms=NOW + minute * MINUTE, wall_ms=WALL + minute * MINUTE)
            await it.push(replace(snapshot, level=replace(snapshot.level, watermark_ms=canned.LEVEL - minute * MINUTE)))
        await it.press("enter")
        assert re.search(r"ahead of watermark +▁▂▃▄▅▆▇█ ≤8m", bars(it, "#ahead"))
        assert re.search(r"no data for +█▂▃▅▁▂▃▅▁ ≤26m since 14:32:10", bars(it, "#quiet"))
        await it.press("right")
        assert re.search(r"no data for +█ ≤4m", bars(it, "#quiet"))

    drive(scenario, *reported(live()))


def test_its_lateness_is_drawn_where_it_is_named() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("enter")
        await it.says(OF_THIS_CHANNEL, "#plot")
        await it.pilot.resize_terminal(80, 24)
        await it.says("█", "#plot")
        await it.pilot.resize_terminal(120, 36)
        await it.push(live(lateness_by_channel=[]))
        await it.says(MAX_LATE_ONLY, "#plot")
        await it.push(replace(with_channel("F9", behind_watermark=0), lateness_by_channel=[]))
        await it.says(NOT_BEHIND, "#plot")

    drive(scenario, *reported(live()))


def test_a_channel_that_goes_says_so() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("enter")
        await it.push(canned.one())
        await it.says(CHANNEL_GONE, "#explanation")
        await it.press("right")
        await it.says("all is active", "#explanation")
        await it.push(canned.attached())
        await it.says(ELSEWHERE, "#explanation")

    drive(scenario, *reported(many()))
