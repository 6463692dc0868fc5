"""Finds the line of a key in a TOML file, which `tomllib` does not report. Pure."""

import re
import tomllib
from typing import Any

_HEADER = re.compile(r"\s*\[\[?([^\[\]]+)\]\]?\s*(?:#.*)?")
_KEY = re.compile(r"""\s*((?:[A-Za-z0-9_.-]|"[^"]*"|'[^']*')+?)\s*=""")

Path = tuple[str, ...]
"""The names that lead to a key: `("targets", "orders", "attach")`."""


def line_of(text: str, path: Path) -> int:
    """The line (from 1) of the key or table `path`, else of the nearest table around it."""
    places = _places(text)
    while path and path not in places:
        path = path[:-1]
    return places.get(path, 1)


def _places(text: str) -> dict[Path, int]:
    places: dict[Path, int] = {}
    table: Path = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.fullmatch(line):
            table = _names(header[1])
            _note(places, table, number)
        elif key := _KEY.match(line):
            _note(places, (*table, *_names(key[1])), number)
    return places


def _note(places: dict[Path, int], path: Path, number: int) -> None:
    """Tables that a dotted name opens on the way are on its line, too."""
    for length in range(1, len(path) + 1):
        places.setdefault(path[:length], number)


def _names(dotted: str) -> Path:
    """The parts of a TOML key, quotes removed."""
    try:
        table: Any = tomllib.loads(f"{dotted} = 0")
    except tomllib.TOMLDecodeError:
        return (dotted,)
    names: list[str] = []
    while table != 0:
        [(name, table)] = table.items()
        names.append(name)
    return tuple(names)
