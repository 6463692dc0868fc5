"""The history: lanes and rows of who held the watermark, and the strip on the main screen."""

import re
from pathlib import Path

from msgspec.structs import replace
from wmtop.engine.snapshot import Holder
from wmtop.engine.text.codes import CAUSES
from wmtop.tui.screens.channels import ChannelScreen
from wmtop.tui.screens.history import HistoryScreen
from wmtop.tui.widgets.rows import Sheet
from wmtop.tui.words.kinds import presenter_of

from .. import canned
from ..canned import MINUTE, NOW, SETTINGS, WALL, header, held, live
from ..drive import Driven, drive
from ..recorded import record, replay


def test_strip_with_room_names_the_holders() -> None:
    async def scenario(it: Driven) -> None:
        await it.pilot.click("#holders")
        assert isinstance(it.app.screen, HistoryScreen)
        await it.press("escape")
        assert re.search(r"holders ├MQ─+├YV─+├MQ─+·+├F9─+ 3h", it.said("#holders"))
        await it.pilot.resize_terminal(120, 35)
        await it.pilot.pause()
        assert not it.app.screen.query_one("#holders").display

    drive(scenario, header(held()), live())


def test_strip_without_history_is_empty() -> None:
    async def scenario(it: Driven) -> None:
        assert it.said("#holders").strip() == ""

    drive(scenario, header(), canned.empty())


def test_history_lanes_by_time_held_rows_newest_first() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("h")
        await it.says("4 takeovers in 3h", "#top")
        lanes = it.said("#lanes").splitlines()
        assert re.search(r"F9 +│ +[░▒▓]?█+│ +1h21m +45\.0 % +1×", lanes[0])
        assert re.search(r"MQ +│█+[░▒▓]? +[░▒▓]?█+[░▒▓]? +│ +1h +33\.3 % +2×", lanes[1])
        rows = it.said("#history").splitlines()
        assert re.search(
            rf"13:11:10 +F9 +≥1h21m +\+27m +≤43m +{CAUSES['behind'].short}.*{CAUSES['quiet'].short}", rows[1]
        )
        assert re.search(r"12:41:10 +MQ +18m +\+6m +≤26m +lagging", rows[2])
        await it.press("down", "enter")
        assert isinstance(it.app.screen, ChannelScreen)
        await it.press("escape")
        assert isinstance(it.app.screen, HistoryScreen)

    drive(scenario, header(held()), live())


def test_history_follows_snapshots_unless_frozen() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("h")
        later = live(now_ms=NOW + 30 * MINUTE, wall_ms=WALL + 30_000)
        level = replace(later.level, holder=Holder("UA", NOW + 20 * MINUTE, "behind"))
        await it.press("p")
        await it.push(replace(later, level=level))
        assert "UA" not in it.said("#history")
        await it.press("p")
        rows = it.said("#history").splitlines()
        assert re.search(r"14:52:10 +UA +≥10m ", rows[1])
        assert re.search(r"13:11:10 +F9 +1h41m  ", rows[2])
        await it.push(header(), replace(later, wall_ms=WALL + 31_000))  # another session
        await it.says("1 takeover in", "#top")

    drive(scenario, header(held()), live())


def test_history_without_holders_says_why() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("h")
        await it.says(presenter_of(canned.empty()).no("holders"), "#lanes")
        assert "Enter" not in it.said("#keys")
        await it.push(header(), canned.attached())
        await it.says(presenter_of(canned.attached()).no("holders"), "#lanes")
        spark = replace(canned.empty(), settings=replace(SETTINGS, strategy="spark"))
        await it.push(header(), spark)
        await it.shows("#lanes", presenter_of(spark).no("holders")[:60])

    drive(scenario, header(), canned.empty())


def test_history_of_a_replay_ends_at_its_position(tmp_path: Path) -> None:
    async def scenario(it: Driven) -> None:
        await it.press("h", "n")
        await it.until(lambda: "F9" in it.said("#history"))
        rows = it.said("#history").splitlines()
        assert "F9" in rows[1]
        assert "MQ" in rows[2]

    replay(scenario, record(tmp_path / "x.rec"))


def test_history_click_on_a_title_sorts_then_reverses() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("h")
        await it.until(lambda: isinstance(it.app.screen, HistoryScreen))
        sheet = it.app.screen.query_one("#history", Sheet)
        lines = it.said("#history").splitlines()
        top = next(place for place, line in enumerate(lines) if line.lstrip().startswith("since"))

        def channels() -> list[str]:
            shown = it.said("#history").splitlines()[top + 1 :]
            return [line.split()[1] for line in shown if line.strip()]

        before = channels()
        await it.pilot.click(sheet, offset=(lines[top].index("channel") + 1, top))
        await it.until(lambda: channels() == sorted(before))
        await it.pilot.click(sheet, offset=(lines[top].index("channel") + 1, top))
        await it.until(lambda: channels() == sorted(before, reverse=True))
        assert len(set(before)) > 1

    drive(scenario, header(held()), live())
