"""The chain as pictures that were looked at and accepted, and what its keys do."""

import asyncio
from collections.abc import Callable

import pytest
from textual.pilot import Pilot
from wmtop.engine.verdict.chain import Chain, chain_of
from wmtop.tui.screens.fleet import ChainScreen, FleetApp
from wmtop.tui.widgets.rows import Sheet
from wmtop.tui.words.chain import hop_line
from wmtop.tui.words.texts import Appearance

from tests.stations import station

HOUR, NOON_MS = 3_600_000, 1_767_268_800_000


def chain() -> Chain:
    """Two topics and two jobs in a row, a topic that nobody watches, a job that is lost, and a loop."""
    return chain_of(
        [
            station(kind="topic", name="orders", target="orders", event_ms=NOON_MS),
            station(
                kind="job",
                name="enrich",
                target="enrich",
                event_ms=NOON_MS - HOUR * 7 // 4,
                channel="3",
                cause="quiet",
                reads={"orders": "reported"},
                writes={"enriched": "configured", "audit": "configured"},
            ),
            station(kind="topic", name="enriched", target="enriched", event_ms=NOON_MS - HOUR * 7 // 4 - 30_000),
            station(
                kind="job",
                name="report",
                target="report",
                event_ms=NOON_MS - 2 * HOUR,
                channel="0",
                cause="backlog",
                reads={"enriched": "reported"},
                writes={"hourly": "configured"},
            ),
            station(kind="topic", name="hourly", target="hourly", trouble="no time is configured"),
            station(
                kind="job", name="billing", target="billing", reads={"enriched": "configured"}, trouble="no answer"
            ),
            station(
                kind="job",
                name="retry",
                target="retry",
                event_ms=0,
                reads={"r": "reported"},
                writes={"r": "configured"},
            ),
        ]
    )


def app(shown: Callable[[], Chain] = chain) -> FleetApp:
    return FleetApp(list, Appearance(refresh_ms=100), chain=shown)


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 36)], ids=["least", "small", "drawn"])
def test_picture(size: tuple[int, int], snap_compare: Callable[..., bool]) -> None:
    async def press(pilot: "Pilot[str]") -> None:
        await pilot.press("C")
        await pilot.pause(0.3)

    assert snap_compare(app(), run_before=press, terminal_size=size)


@pytest.mark.parametrize("cells", [60, 80, 120])
def test_a_reason_longer_than_its_line_is_cut_and_not_left_out(cells: int) -> None:
    """Seen in the demo: without it a hop was only `?`."""
    trouble = "the run directory /tmp/reach/run is not private; run chmod 700 /tmp/reach/run, or set another one"
    lost = station(kind="job", name="enrich", target="enrich", reads={"r": "configured"}, trouble=trouble)
    line = "".join(text for text, _ in hop_line(chain_of([lost]), 1, None, cells))
    assert "the run directory" in line
    assert len(line) <= cells


def test_enter_opens_the_target_of_the_hop_and_escape_returns_to_the_fleet() -> None:
    async def scenario(*keys: str) -> tuple[object, object]:
        shown = app()
        async with shown.run_test(size=(120, 36)) as pilot:
            await pilot.press("C", *keys)
            await pilot.pause()
            return shown.return_value, type(shown.screen)

    assert asyncio.run(scenario("down", "enter"))[0] == "enrich"
    assert asyncio.run(scenario())[1] is ChainScreen
    assert asyncio.run(scenario("escape"))[1] is not ChainScreen


def test_a_hop_that_no_target_watches_is_not_opened() -> None:
    async def scenario() -> None:
        shown = app()
        async with shown.run_test(size=(120, 36)) as pilot:
            await pilot.press("C")
            await pilot.pause()
            sheet = shown.screen.query_one(Sheet)
            sheet.go_to(str(next(number for number, hop in enumerate(chain().hops) if hop.name == "audit")))
            await pilot.press("enter")
            await pilot.pause()
            assert isinstance(shown.screen, ChainScreen)

    asyncio.run(scenario())


class Demo:
    """What a demo holds, by the keys of the screen."""

    def __init__(self) -> None:
        self.toggled: list[str] = []

    def toggle(self, name: str) -> str:
        self.toggled.append(name)
        return f"held: {name}"

    def status(self) -> str:
        return "starting Spark and Flink"


def test_in_a_demo_h_holds_the_selected_hop_and_l_raises_the_lateness() -> None:
    async def scenario(demo: Demo) -> tuple[str, list[str]]:
        shown = FleetApp(list, Appearance(refresh_ms=100), chain=chain, on_chain=True, holds=demo)
        async with shown.run_test(size=(120, 36)) as pilot:
            await pilot.pause()
            await pilot.press("h", "down", "h", "l")
            await pilot.pause()
            return str(shown.export_screenshot()), [notice.message for notice in shown._notifications]  # pyright: ignore[reportPrivateUsage]

    demo = Demo()
    picture, said = asyncio.run(scenario(demo))
    assert demo.toggled == ["orders", "enrich", "lateness"]
    assert "starting Spark and Flink" in picture.replace("&#160;", " ")
    assert said == ["held: orders", "held: enrich", "held: lateness"]


def test_outside_a_demo_nothing_is_held() -> None:
    async def scenario() -> list[str]:
        shown = app()
        async with shown.run_test(size=(120, 36)) as pilot:
            await pilot.press("C", "h")
            await pilot.pause()
            return [notice.message for notice in shown._notifications]  # pyright: ignore[reportPrivateUsage]

    [said] = asyncio.run(scenario())
    assert "wmtop demo --chain" in said


def test_without_a_hop_it_says_how_to_name_one() -> None:
    async def scenario() -> None:
        shown = app(lambda: Chain([], []))
        async with shown.run_test(size=(60, 20)) as pilot:
            await pilot.press("C")
            await pilot.pause()
            assert "[targets.orders]" in str(shown.export_screenshot())

    asyncio.run(scenario())
