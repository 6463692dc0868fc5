"""The lateness screen: what it draws, how it is read, and how a preview comes of it."""

import re

import pytest
from msgspec.structs import replace
from wmtop.tui.screens.lateness import LatenessScreen
from wmtop.tui.widgets.lateness_plot import LatenessPlot
from wmtop.tui.words.kinds import presenter_of
from wmtop.tui.words.preview import UNTUNABLE
from wmtop.tui.words.texts import ALL_SO_FAR, NO_RECORD, NONE_IN_THIS_TIME, OF_ITS_RECORDS, SHARE_BEHIND, SINCE_START

from .. import canned
from ..canned import HOUR, MINUTE, SETTINGS, live, recent, reported
from ..drive import Driven, drive


def test_it_shows_the_recommendation_mean_and_deviation_and_what_the_lateness_in_force_costs() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("l")
        await it.shows("#recommended", " 1h ", "99.9 %", "16 of 30,000", "last 1h")
        await it.shows("#moments", "≈ 3m07s", "≈ 21m", "1h08m")
        await it.shows("#reading", "Now 30m: 1.0 %", "(686 of 69,000; 95 %: 0.9–1.1 %)", "with 1h: 0.5 %", "30m later")
        picture = it.said("#plot")
        signs = ("▲ now 30m", "◆ recommended 1h", "100 %", "≤0.01 %", "5h12m", "7,156")
        axes = ("records by how late", "late share", "result delay", "lateness ")
        assert all(sign in picture for sign in (*signs, *axes))

    drive(scenario, *reported(live(whatif_recent=recent())))


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 36), (200, 50)])
def test_in_every_size_the_reason_is_whole_and_both_axes_are_named(size: tuple[int, int]) -> None:
    async def scenario(it: Driven) -> None:
        await it.press("l")
        await it.shows("#plot", "records", "late share", "result delay", "lateness ")
        said = " ".join(it.said("#recommended").split())
        assert "recommended lateness: none 113 of 69,000 records are late at any lateness" in said
        assert "…" not in it.said("#reading")

    drive(scenario, *reported(live()), size=size)


def test_the_cursor_reads_the_curve_and_enter_makes_it_the_preview() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("l", "right")
        await it.shows("#reading", "with 45m: 0.7 % late", "(508 of 69,000; 95 %: 0.7–0.8 %)", "results 15m later")
        assert "▸" not in it.said("#tuning")
        await it.press("enter")
        await it.says("▸ 45m?", "#tuning")
        await it.says("▸ 45m?", "#plot")
        await it.press("right")
        await it.says("▸ 1h?", "#tuning")
        await it.says("with 1h", "#reading")
        await it.press("minus")
        await it.says("with 45m", "#reading")
        await it.press("left")  # to 30m, which is in force: no preview
        assert "▸" not in it.said("#tuning")
        await it.press("r", "enter", "enter")
        assert [change.lateness_ms for change in it.client.sent] == [HOUR]  # type: ignore[union-attr]
        assert isinstance(it.app.screen, LatenessScreen)

    drive(scenario, *reported(live(whatif_recent=recent())))


def test_the_cursor_stays_within_what_is_drawn() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("l", "home", "left")
        await it.says("with 0s", "#reading")
        await it.press("end", "right")
        await it.says("with 5h", "#reading")
        x = it.said("#plot").splitlines()[-1].index("10m")
        await it.pilot.click(LatenessPlot, offset=(x + 1, 8))
        await it.says("with 10m", "#reading")

    drive(scenario, *reported(live()))


def test_channels_have_a_curve_of_their_own() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("l", "down", "down")
        await it.says("channel B6", "#top")
        await it.says(OF_ITS_RECORDS, "#reading")
        await it.says(SHARE_BEHIND, "#plot")
        await it.push(live(lateness_by_channel=[]))
        await it.says("all channels", "#top")
        await it.press("up")
        await it.says("all channels", "#top")

    drive(scenario, *reported(live()))


def test_a_key_switches_between_horizons() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("l")
        await it.says(f"{SINCE_START}, 69,000 records", "#top")
        await it.press("H")
        await it.says("last 15m, 0 records", "#top")
        await it.says(NONE_IN_THIS_TIME, "#moments")
        await it.press("H")
        await it.says("last 1h, 30,000 records", "#top")
        await it.says("last 1h", "#plot")
        await it.shows("#recommended", " 1h ", "last 1h")
        await it.press("r")
        await it.shows("#reading", "with 1h: 0.05 %", "0.03–0.09 %", "30m later")
        await it.press("down")
        await it.says(SINCE_START, "#top")
        await it.press("up", "H")
        await it.shows("#top", "24h", "69,000", ALL_SO_FAR)
        await it.press("H")
        await it.shows("#top", f"{SINCE_START}, 69,000 records")

    drive(scenario, *reported(live(whatif_recent=recent())))


def test_of_an_idle_timeout_a_horizon_is_not_known() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("l", "i")
        assert "instead" in it.said("#why") or "in force" in it.said("#why")
        await it.press("H")
        await it.says("idle timeout · last 15m", "#top")
        await it.until(lambda: "6" not in it.said("#why"))
        assert re.search(r"1h +13:50:59 +\+3m +HA +– +–$", it.said("#lateness").splitlines()[2].rstrip())

    drive(scenario, *reported(live(whatif_recent=recent())))


def test_without_horizons_the_key_says_so() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("l", "H")
        assert len(it.toasts()) == 1
        assert "horizon" not in it.said("KeyLine")

    drive(scenario, *reported(live()))


def test_a_lateness_between_two_edges_is_marked_where_it_is() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("l")
        await it.says("▲ now 25m", "#plot")
        await it.says("Now 25m: 1.0–1.3 % late,", "#reading")

    drive(scenario, *reported(live(settings=replace(SETTINGS, lateness_ms=25 * MINUTE))))


def test_session_windows_say_that_it_is_an_upper_bound() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("l")
        await it.says("upper bounds (session windows)", "#recommended")
        await it.says("≤ 1.0 %", "#reading")

    drive(scenario, *reported(live(whatif_upper_bound=True)))


def test_the_idle_timeout_has_a_ladder_and_a_preview() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("l", "i")
        lines = it.said("#lateness").splitlines()
        assert re.search(r"15m +13:59:59 +\+12m +MQ +41 +▇{16} +≈ 2\.8 %", lines[1])
        assert re.search(r"2h +▲ now +13:47:59 +\+0s +F9 +6 ", lines[3])
        assert re.search(r"off +02-04 13:47 +−4d +OO +0 +0\.02 %", lines[5])
        await it.shows("#why", "F9", " 6 ")
        await it.press("up")
        await it.says("3m ahead", "#why")
        await it.shows("#why", "HA", " 12 ", " 6", "1,400")
        await it.press("enter")
        await it.says("idle after 2h ▸ 1h?", "#tuning")
        await it.press("up")
        await it.says("idle after 2h ▸ 15m?", "#tuning")
        await it.press("right_square_bracket", "enter")
        assert [change.idle_after_ms for change in it.client.sent] == [HOUR]  # type: ignore[union-attr]
        await it.press("tab")
        await it.says("Now 30m", "#reading")

    drive(scenario, *reported(live()))


def test_it_opens_on_what_is_previewed() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("left_square_bracket", "l")
        await it.says("idle timeout", "#top")
        await it.shows("#why", " 1h ")
        await it.press("escape", "escape", "plus", "l")
        await it.says("with 45m", "#reading")

    drive(scenario, *reported(live()))


def test_lateness_empty_or_unknown_says_which() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("l")
        await it.says(NO_RECORD, "#plot")
        await it.press("right", "down", "r", "enter", "i")
        await it.says(NO_RECORD, "#lateness")
        await it.press("enter")
        await it.push(canned.attached())
        await it.says(presenter_of(canned.attached()).no("idle timeouts"), "#lateness")
        await it.press("i")
        await it.says(presenter_of(canned.attached()).no("lateness"), "#plot")
        marked = live(settings=replace(SETTINGS, strategy="punctuated", lateness_ms=None), whatif=None)
        await it.push(marked)
        await it.says(UNTUNABLE["punctuated"], "#plot")

    drive(scenario, *reported(canned.empty()))
