"""The fleet as pictures that were looked at and accepted."""

from collections.abc import Callable, Sequence

import pytest
from textual.pilot import Pilot
from wmtop.tui.fleet_app import FleetApp
from wmtop.tui.present.appearance import Appearance
from wmtop.tui.present.fleet import FleetRow, aged, fleet_row

from . import attached, canned

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
    return [aged(row, 400) for row in found]


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
