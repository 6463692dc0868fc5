"""Actions that a screen does not offer: a served one writes no files, a read-only one changes no engine."""

from collections.abc import Iterable

from .present.keys import Hint

WRITES_FILES = frozenset({"save_svg", "save_csv", "save_json", "record", "export_incident"})
"""Actions that write into wmtop's start directory; add new ones here."""
CHANGES_ENGINE = frozenset({"apply", "undo"})
"""Actions that change a setting of the engine; for an attached query `apply` only copies a line."""
READ_ONLY = "this screen is read-only: nothing was changed"


def denied_to(*, served: bool, read_only: bool) -> frozenset[str]:
    """The actions that a screen does not have."""
    nothing = frozenset[str]()
    return (WRITES_FILES if served else nothing) | (CHANGES_ENGINE if read_only else nothing)


def allowed(keys: Iterable[Hint], denied: frozenset[str]) -> list[Hint]:
    """The hints whose action the screen has."""
    return [key for key in keys if key.action.removeprefix("app.") not in denied]
