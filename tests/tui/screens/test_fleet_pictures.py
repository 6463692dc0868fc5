"""The fleet as pictures that were looked at and accepted."""

import asyncio
from collections.abc import Callable, Sequence

import pytest
from textual.pilot import Pilot
from wmtop.tui.screens.fleet import FleetApp, FleetTable
from wmtop.tui.words.fleet import FleetRow, aged, fleet_row
from wmtop.tui.words.texts import Appearance

from .. import attached, canned

Compare = Callable[..., bool]


def rows() -> Sequence[FleetRow]:
    """A target of each kind and verdict, one of them lost."""
    shown = {
        "flights": canned.live(),
        "orders": attached.tapped(),
        "clicks": canned.stalled(),
        "billing": attached.stale(),
    }
    found = [fleet_row(name, "", snapshot, (), None) for name, snapshot in shown.items()]
    found.append(
        fleet_row("returns", "", None, (), "s3a://lake/checkpoints/returns: access denied; check the credentials")
    )
    return [aged(row, 400, 10_000) for row in found]


@pytest.mark.parametrize(
    ("size", "keys"),
    [((80, 24), ()), ((120, 36), ()), ((120, 36), ("s", "r")), ((80, 24), ("slash", *"cli", "enter"))],
    ids=["small", "drawn", "sorted", "filtered"],
)
def test_picture(size: tuple[int, int], keys: tuple[str, ...], snap_compare: Compare) -> None:
    async def press(pilot: "Pilot[str]") -> None:
        await pilot.press(*keys)
        await pilot.pause(0.3)

    assert snap_compare(FleetApp(rows, Appearance(refresh_ms=100)), run_before=press, terminal_size=size)


def test_fleet_pictures_click_on_a_title_sorts_then_reverses() -> None:
    async def scenario() -> None:
        app = FleetApp(rows, Appearance(refresh_ms=100))
        async with app.run_test(size=(120, 36)) as pilot:
            await pilot.pause()
            table = app.screen.query_one(FleetTable)

            def lags() -> list[int]:
                shown = [row.lag_ms for row in table.rows]
                return [lag for lag in shown if lag is not None]

            x = "".join(text for text, _ in table.header(table.size.width)).index("lag") + 1
            await pilot.click(table, offset=(x, 0))
            await pilot.pause()
            first = lags()
            await pilot.click(table, offset=(x, 0))
            await pilot.pause()
            assert len(set(first)) > 1
            assert lags() == first[::-1] == sorted(first, reverse=first[0] < first[-1])

    asyncio.run(scenario())
