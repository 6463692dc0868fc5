"""The screen as pictures that were looked at and accepted: after a change, look again, then `--snapshot-update`."""

from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot
from wmtop.engine.snapshot import Snapshot
from wmtop.tui.screens.app import WmtopApp

from .. import canned
from ..canned import CannedClient, Clock, reported

Compare = Callable[..., bool]
SMALL, DRAWN, LARGE = (80, 24), (120, 36), (200, 50)


def shown(snapshot: Snapshot, *keys: str) -> dict[str, Any]:
    """An app that got `snapshot`, and the keys to press once it shows it."""
    client = CannedClient(*reported(snapshot))

    async def before(pilot: "Pilot[Any]") -> None:
        while not client.drained():
            await pilot.pause(0.01)
        await pilot.pause(0.1)
        await pilot.press(*keys)
        before, now = "", pilot.app.export_screenshot()
        while now != before:  # drawn at the app's own pace
            await pilot.pause(0.2)
            before, now = now, pilot.app.export_screenshot()

    return {"app": WmtopApp(client, on_quit="ask", clock=Clock()), "run_before": before}


PICTURES = {
    "live_small_preview": (canned.live, SMALL, ("plus", "plus")),
    "live_drawn": (canned.live, DRAWN, ()),
    "live_drawn_light_typed": (canned.live, DRAWN, ("c", "equals_sign", "5", "2", "m")),
    "many_large": (canned.many, LARGE, ("right", "right")),
    "many_small_light_log": (canned.many, SMALL, ("c", "x")),
    "starting_small": (canned.starting, SMALL, ()),
    "failed_drawn": (canned.failed, DRAWN, ()),
    "hostile_small": (canned.hostile, SMALL, ()),
    "help_drawn": (canned.live, DRAWN, ("question_mark",)),
}


@pytest.mark.parametrize("name", PICTURES)
def test_picture(name: str, snap_compare: Compare) -> None:
    build, size, keys = PICTURES[name]
    assert snap_compare(**shown(build(), *keys), terminal_size=size)


@pytest.mark.parametrize(
    ("build", "size", "keys"),
    [(canned.live, DRAWN, ("right", "plus")), (canned.many, SMALL, ("slash", "9", "9"))],
    ids=["live_drawn", "many_small"],
)
def test_picture_without_colours(
    build: Callable[[], Snapshot],
    size: tuple[int, int],
    keys: tuple[str, ...],
    snap_compare: Compare,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(**shown(build(), *keys), terminal_size=size)
