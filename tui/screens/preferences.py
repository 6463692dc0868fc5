"""What a user chose, saved in a file of the user's state directory; and which actions a screen does not offer."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec
import platformdirs
from msgspec import Struct

from ..words.keys import Hint

WRITES_FILES = frozenset({"save_svg", "save_csv", "save_json", "record", "export_incident"})
"""Actions that write into wmtop's start directory; add new ones here."""
CHANGES_ENGINE = frozenset({"apply", "undo"})
"""Actions that change a setting of the engine; for an attached query `apply` only copies a line."""
READ_ONLY = "this screen is read-only: nothing was changed"


def denied_to(*, served: bool, read_only: bool) -> frozenset[str]:
    """The actions that a screen does not have."""
    nothing = frozenset[str]()
    runs = frozenset({"user_command"}) if served or read_only else nothing
    return (WRITES_FILES if served else nothing) | (CHANGES_ENGINE if read_only else nothing) | runs


def allowed(keys: Iterable[Hint], denied: frozenset[str]) -> list[Hint]:
    """The hints whose action the screen has."""
    return [key for key in keys if key.action.removeprefix("app.").partition("(")[0] not in denied]


class Preferences(Struct, frozen=True):
    """The user's choices; None: no choice."""

    theme: str | None = None
    used: dict[str, int] = {}
    """How often each command of the palette was run, by its title."""


def preferences_file() -> Path:
    """The path of the file for this user."""
    return platformdirs.user_state_path("wmtop", appauthor=False) / "screen.json"


def read_preferences(path: Path) -> Preferences:
    """The saved choices; a missing, unreadable or damaged file counts as empty."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Preferences)
    except (OSError, msgspec.MsgspecError):
        return Preferences()


def write_preferences(path: Path, preferences: Preferences) -> None:
    """Save the choices; does nothing if that fails (a full disk, a read-only home)."""
    beside = path.with_suffix(".new")
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside.write_bytes(msgspec.json.encode(preferences))
        beside.replace(path)
