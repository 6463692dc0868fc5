"""The saved choices of a user: the theme, in a file of the user's state directory."""

from contextlib import suppress
from pathlib import Path

import msgspec
import platformdirs
from msgspec import Struct


class Preferences(Struct, frozen=True):
    """The user's choices; None: no choice."""

    theme: str | None = None


def preferences_file() -> Path:
    """The path of the file for this user."""
    return platformdirs.user_state_path("wmtop", appauthor=False) / "screen.json"


def read(path: Path) -> Preferences:
    """The saved choices; a missing, unreadable or damaged file counts as empty."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Preferences)
    except (OSError, msgspec.MsgspecError):
        return Preferences()


def write(path: Path, preferences: Preferences) -> None:
    """Save the choices; does nothing if that fails (a full disk, a read-only home)."""
    beside = path.with_suffix(".new")
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside.write_bytes(msgspec.json.encode(preferences))
        beside.replace(path)
