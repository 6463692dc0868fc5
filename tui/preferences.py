"""What the screen remembers for its user: the theme, in a file of the user's state directory."""

from contextlib import suppress
from pathlib import Path

import msgspec
import platformdirs
from msgspec import Struct


class Preferences(Struct, frozen=True):
    """What was chosen; None: nothing."""

    theme: str | None = None


def preferences_file() -> Path:
    """Where it is kept for this user."""
    return platformdirs.user_state_path("wmtop", appauthor=False) / "screen.json"


def read(path: Path) -> Preferences:
    """What was remembered; a file that is missing, unreadable or damaged is as if nothing had been."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Preferences)
    except (OSError, msgspec.MsgspecError):
        return Preferences()


def write(path: Path, preferences: Preferences) -> None:
    """Remember; where that cannot be written (a full disk, a read-only home) nothing happens."""
    beside = path.with_suffix(".new")
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside.write_bytes(msgspec.json.encode(preferences))
        beside.replace(path)
