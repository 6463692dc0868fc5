"""One table of keys: no two that clash, and all of them work."""

import re
from pathlib import Path

import pytest
from textual.binding import Binding
from wmtop.tui.replay.app import ReplayApp
from wmtop.tui.screens.app import WmtopApp
from wmtop.tui.screens.base_app import CHANGES_ENGINE, WRITES_FILES, denied_to
from wmtop.tui.screens.main import MainScreen
from wmtop.tui.screens.target_screen import FURTHER, loaded
from wmtop.tui.words.keys import ROWS, binds, rows

from ..attached import query
from ..canned import live, reported
from ..drive import Driven, drive

README = Path(__file__).parents[3] / "README.md"


def test_names_are_unique_and_no_two_keys_of_a_screen_clash() -> None:
    names = [bind.name for row in ROWS for bind in row.binds]
    assert len(names) == len(set(names))
    for place in ("main", "app", "replay", *FURTHER):
        found = [key for bind in binds(place) if not bind.priority for key in bind.key.split(",")]  # type: ignore[arg-type]
        assert len(found) == len(set(found)), place


def test_every_action_is_there() -> None:
    owners = {"main": (MainScreen,), "app": (WmtopApp,), "replay": (ReplayApp,)}
    further = {name: loaded(place) for name, place in FURTHER.items()}
    owners |= {name: (kind,) for name, kind in further.items()}
    owners["detail"] = tuple(further.values())
    assert all(name == kind.NAME for name, kind in further.items())
    for place, kinds in owners.items():
        for bind in binds(place):  # type: ignore[arg-type]
            assert all(hasattr(kind, f"action_{bind.action.split('(')[0]}") for kind in kinds), bind


def test_every_binding_can_be_given_another_key() -> None:
    for kind in (MainScreen, WmtopApp, ReplayApp, *map(loaded, FURTHER.values())):
        for binding in kind.__dict__.get("BINDINGS", ()):
            assert isinstance(binding, Binding)
            assert binding.id


@pytest.mark.parametrize("snapshot", [live(), query()], ids=["own", "attached"])
def test_at_80_columns_the_footer_keeps_what_a_newcomer_needs(snapshot: object) -> None:
    async def scenario(it: Driven) -> None:
        footer = it.said("KeyLine")
        assert re.search(r"d doctor", footer)
        assert "R record" in footer
        assert "? help" in footer
        assert "q quit" in footer

    drive(scenario, *reported(snapshot), size=(80, 24))  # type: ignore[arg-type]


def test_every_action_that_writes_can_be_denied_to_a_screen() -> None:
    for row in rows("main", "app", denied=denied_to(served=True, read_only=True)):
        assert (WRITES_FILES | CHANGES_ENGINE).isdisjoint(bind.action for bind in row.binds)
