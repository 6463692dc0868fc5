"""Further screens as pictures that were looked at: after a change, look again, then `--snapshot-update`."""

from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot
from wmtop.engine.snapshot import Snapshot
from wmtop.tui.screens.app import WmtopApp

from .. import canned
from ..canned import CannedClient, Clock, header, held

Compare = Callable[..., bool]
SMALL, DRAWN = (80, 24), (120, 36)


def shown(snapshot: Snapshot, *keys: str) -> dict[str, Any]:
    """An app that got a history of holders and `snapshot`, and the keys to press once it shows it."""
    client = CannedClient(header(held()), snapshot)

    async def before(pilot: "Pilot[Any]") -> None:
        while not client.drained():
            await pilot.pause(0.01)
        await pilot.pause(0.1)
        await pilot.press(*keys)
        await pilot.pause(0.1)

    return {"app": WmtopApp(client, on_quit="ask", clock=Clock()), "run_before": before}


PICTURES = {
    "windows_small": (canned.live, SMALL, ("w", "down")),
    "windows_drawn_light": (canned.live, DRAWN, ("w", "c", "end")),
    "windows_attached_small": (canned.attached, SMALL, ("w",)),
    "window_drawn": (canned.live, DRAWN, ("w", "down", "enter")),
    "window_many_small": (canned.many, SMALL, ("w", "enter")),
    "lateness_small_preview": (canned.live, SMALL, ("l", "right", "enter", "right")),
    "lateness_drawn": (canned.live, DRAWN, ("l",)),
    "lateness_channel_drawn_light": (canned.live, DRAWN, ("c", "l", "down", "down", "2")),
    "lateness_empty_small": (canned.empty, SMALL, ("l",)),
    "idle_small": (canned.live, SMALL, ("l", "i", "up")),
    "idle_drawn_preview": (canned.live, DRAWN, ("l", "i", "down", "enter")),
    "history_small": (canned.live, SMALL, ("h",)),
    "history_drawn": (canned.live, DRAWN, ("h", "down")),
    "channel_small": (canned.live, SMALL, ("enter", "right")),
    "channel_drawn": (canned.live, DRAWN, ("enter",)),
    "help_small": (canned.live, SMALL, ("l", "question_mark")),
    "strip_drawn": (canned.live, DRAWN, ()),
}


@pytest.mark.parametrize("name", PICTURES)
def test_picture(name: str, snap_compare: Compare) -> None:
    build, size, keys = PICTURES[name]
    assert snap_compare(**shown(build(), *keys), terminal_size=size)


@pytest.mark.parametrize(
    ("keys", "size"),
    [(("w",), SMALL), (("l", "left"), DRAWN), (("h",), SMALL)],
    ids=["windows_small", "lateness_drawn", "history_small"],
)
def test_picture_without_colours(
    keys: tuple[str, ...], size: tuple[int, int], snap_compare: Compare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(**shown(canned.live(), *keys), terminal_size=size)
