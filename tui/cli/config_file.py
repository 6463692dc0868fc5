"""The configuration file: its tables, their types, and which options of `run` it may have."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import Any, cast, get_args, get_type_hints

import typer
from msgspec import Struct

from ...engine.text.formatting import clean
from ..words.keys import BIND_NAMES, check_keys
from ..words.texts import ALERTS, THEMES, ZONES
from .options import EngineArguments, parse_condition, parse_duration, parse_duration_or_off

_HEADER = re.compile(r"\s*\[\[?([^\[\]]+)\]\]?\s*(?:#.*)?")
_KEY = re.compile(r"""\s*((?:[A-Za-z0-9_.-]|"[^"]*"|'[^']*')+?)\s*=""")

KeyPath = tuple[str, ...]
"""The names that lead to a key: `("targets", "orders", "attach")`."""


def line_of(text: str, path: KeyPath) -> int:
    """The line (from 1) of the key or table `path`, else of the nearest table around it."""
    places = _places(text)
    while path and path not in places:
        path = path[:-1]
    return places.get(path, 1)


def _places(text: str) -> dict[KeyPath, int]:
    places: dict[KeyPath, int] = {}
    table: KeyPath = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.fullmatch(line):
            table = _names(header[1])
            _note(places, table, number)
        elif key := _KEY.match(line):
            _note(places, (*table, *_names(key[1])), number)
    return places


def _note(places: dict[KeyPath, int], path: KeyPath, number: int) -> None:
    """Tables that a dotted name opens on the way are on its line, too."""
    for length in range(1, len(path) + 1):
        places.setdefault(path[:length], number)


def _names(dotted: str) -> KeyPath:
    """The parts of a TOML key, quotes removed."""
    import tomllib

    try:
        table: Any = tomllib.loads(f"{dotted} = 0")
    except tomllib.TOMLDecodeError:
        return (dotted,)
    names: list[str] = []
    while table != 0:
        [(name, table)] = table.items()
        names.append(name)
    return tuple(names)


_OF_ONE_RUN = ("name", "state_dir", "force", "record", "firings", "late_output", "once")
"""Options of a single run, for which a default makes no sense."""


def option_names() -> dict[str, str]:
    """The parameter of each option, by the option's name."""
    names = [field.name for field in fields(EngineArguments) if field.name not in _OF_ONE_RUN]
    return {name.replace("_", "-"): name for name in names}


def _reader(hint: Any) -> Callable[[Any], Any]:
    """A checker for an option's value in the file; it returns the text for the command line."""
    kind, option = get_args(hint)[:2]
    kinds = [each for each in (get_args(kind) if isinstance(kind, UnionType) else (kind,)) if each is not type(None)]
    [plain] = kinds
    parse = getattr(option, "parser", None)

    def read(value: Any) -> Any:
        if plain is bool:
            return _typed(value, bool, "true or false")
        if parse is not None:
            text = _typed(value, str, 'a text, e.g. "30m"')
            try:
                parse(text)
            except typer.BadParameter as error:
                raise ValueError(error.message) from None
            return text
        if plain is int:
            return _typed(value, int, "a whole number")
        if plain in (str, Path):
            return _typed(value, str, "a text")
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):  # pyright: ignore
            raise ValueError("needs a text or a list of texts")
        return texts  # pyright: ignore[reportUnknownVariableType]

    return read


def _typed(value: Any, kind: type, words: str) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"needs {words}")
    return value


_HINTS = get_type_hints(EngineArguments, include_extras=True)
RUN_OPTIONS: dict[str, Callable[[Any], Any]] = {name: _reader(_HINTS[field]) for name, field in option_names().items()}
"""The checkers by option name (without `--`)."""


_SECRET_IN_ADDRESS = re.compile(r"^[a-z0-9+.-]+://[^/@]*:[^/@]*@", re.IGNORECASE)
_SECRET_NAME = re.compile(r"passw|secret|token|credential|access.?key", re.IGNORECASE)
_AT_LINE = re.compile(r" \(at (?:line (?P<line>\d+), column \d+|end of document)\)$")
"""What the parser of TOML ends its errors with."""
READERS = ("none", "files", "spark")


MIN_REFRESH_MS = 100
"""Shortest refresh (ms): below it, the fleet would only read and draw."""


class ConfigError(Exception):
    """One line: the place in the file, the value there, and what to write instead."""


class ConfiguredTarget(Struct, frozen=True):
    """A target by its name in the file: what `wmtop attach` takes, and its options by parameter (ms, -1: off)."""

    name: str
    attach: str
    options: dict[str, Any] = {}
    fail_if: str | None = None


class Config(Struct, frozen=True):
    """A file's content: `ui` (refresh in ms), `keys` by `Bind.name`, `run` as the command line would have it."""

    targets: dict[str, ConfiguredTarget] = {}
    ui: dict[str, Any] = {}
    keys: dict[str, str] = {}
    run: dict[str, Any] = {}


Read = Callable[[Any], Any]
"""Converts a value of the file; ValueError with the problem and an example."""


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError('needs a text, e.g. "orders"')
    return value


def _duration(value: Any) -> int:
    return parse_duration(_text_for(value, "45s"))


def _duration_or_off(value: Any) -> int:
    ms = parse_duration_or_off(_text_for(value, "2h"))
    return -1 if ms is None else ms


def _refresh(value: Any) -> int:
    ms = _duration(value)
    if ms < MIN_REFRESH_MS:
        raise ValueError(f"is {_shown(value)}; use {MIN_REFRESH_MS}ms or longer")
    return ms


def _text_for(value: Any, example: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f'needs a text, e.g. "{example}"')
    return value


def _one_of(*allowed: str) -> Read:
    def read(value: Any) -> str:
        if value not in allowed:
            raise ValueError(f"is {_shown(value)}; use {_or(allowed)}")
        return value

    return read


def _some_of(*allowed: str) -> Read:
    def read(value: Any) -> tuple[str, ...]:
        if value == "off":
            return ()
        values = cast(list[Any], value) if isinstance(value, list) else [value]
        if wrong := [each for each in values if each not in allowed]:
            raise ValueError(f'is {", ".join(map(_shown, wrong))}; use "off" or a list of {_or(allowed)}')
        return tuple(values)

    return read


def _condition(value: Any) -> str:
    text = _text_for(value, "stalled_for > 5m")
    parse_condition(text)
    return text


def _address(value: Any) -> str:
    text = _text(value)
    if _SECRET_IN_ADDRESS.match(text):
        raise ValueError("has a password in it: keep secrets out of this file; name a file or an environment variable")
    return text


TARGET_KEYS: dict[str, Read] = {
    "attach": _address,
    "bootstrap": _text,
    "time": _text,
    "group": _text,
    "kafka-config": _text,
    "query": _text,
    "operator": _text,
    "ca-file": _text,
    "client-cert": _text,
    "auth-file": _text,
    "state-reader": _one_of(*READERS),
    "lateness": _duration,
    "idle-after": _duration_or_off,
    "fail-if": _condition,
}
"""The options of `wmtop attach` that a target may set, and the condition for `check`."""
_FILES = ("kafka-config", "ca-file", "client-cert", "auth-file")
UI_KEYS: dict[str, Read] = {
    "theme": _one_of(*THEMES),
    "zone": _one_of(*ZONES),
    "alerts": _some_of(*ALERTS),
    "refresh": _refresh,
}
_LISTED_BY: dict[tuple[str, ...], str] = {
    ("keys",): "wmtop config --keys lists all",
    ("defaults", "run"): "see wmtop run rate --help",
}
"""The command that lists the keys of a long section."""
SECTIONS = ("targets", "ui", "keys", "defaults")


def parse_config(text: str, path: Path) -> Config:
    """The content of a file; ConfigError names file, line, and near names. `path` is what relative paths start from."""
    return _Reader(text, path).config()


def check_target_name(name: str) -> None:
    """ValueError for a name that looks like a path or an address."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise ValueError("a target's name has letters, digits, '.', '_' and '-' only, e.g. [targets.orders]")


class _Reader:
    def __init__(self, text: str, path: Path) -> None:
        self._text, self._path = text, path

    def config(self) -> Config:
        import tomllib

        try:
            content = tomllib.loads(self._text)
        except tomllib.TOMLDecodeError as error:
            at = _AT_LINE.search(str(error))
            line = at["line"] if at is not None and at["line"] else max(len(self._text.splitlines()), 1)
            raise ConfigError(f"{self._path}:{line}: not TOML: {_AT_LINE.sub('', str(error))}") from None
        self._known((), content, SECTIONS)
        defaults = self._table(("defaults",), content.get("defaults", {}))
        self._known(("defaults",), defaults, ("run",))
        targets = self._table(("targets",), content.get("targets", {}))
        return Config(
            targets={name: self._target(name, value) for name, value in targets.items()},
            ui=self._values(("ui",), content.get("ui", {}), UI_KEYS),
            keys=self._keys(content.get("keys", {})),
            run=self._values(("defaults", "run"), defaults.get("run", {}), RUN_OPTIONS),
        )

    def _target(self, name: str, value: Any) -> ConfiguredTarget:
        where = ("targets", name)
        try:
            check_target_name(name)
        except ValueError as error:
            raise self._error(where, str(error)) from None
        values = self._values(where, value, TARGET_KEYS)
        if "attach" not in values:
            raise self._error(where, f'target {clean(name)} needs attach = "…", what wmtop attach would take')
        for key in _FILES:
            if key in values:
                values[key] = self._beside(values[key])
        attach = str(values["attach"])
        if "://" not in attach and ("/" in attach or attach.startswith("~")):
            values["attach"] = str(self._beside(attach))
        address, fail_if = values.pop("attach"), values.pop("fail-if", None)
        options = {key.replace("-", "_"): values[key] for key in TARGET_KEYS if key in values}
        return ConfiguredTarget(name, address, options, fail_if)

    def _beside(self, path: str) -> Path:
        """A path relative to the file's directory."""
        return self._path.parent / Path(path).expanduser()

    def _keys(self, value: Any) -> dict[str, str]:
        keys = self._values(("keys",), value, dict.fromkeys(BIND_NAMES, _text))
        for name in keys:
            try:
                check_keys({name: keys[name]}, among=keys)
            except ValueError as error:
                raise self._error(("keys", name), str(error)) from None
        return keys

    def _values(self, where: tuple[str, ...], value: Any, known: Mapping[str, Read]) -> dict[str, Any]:
        table = self._table(where, value)
        self._known(where, table, known)
        out: dict[str, Any] = {}
        for key, raw in table.items():
            try:
                out[key] = known[key](raw)
            except ValueError as error:
                raise self._error((*where, key), f"{key} {error}") from None
        return out

    def _table(self, where: tuple[str, ...], value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._error(where, f"{'.'.join(where)} is a table: write [{'.'.join(where)}]")
        return value  # pyright: ignore[reportUnknownVariableType]

    def _known(self, where: tuple[str, ...], table: dict[str, Any], known: Iterable[str]) -> None:
        """ConfigError for the first key that is not among `known`."""
        names = list(known)
        for key in table:
            if key in names:
                continue
            kind = "section" if not where else "key"
            place = f" in [{'.'.join(where)}]" if where else ""
            if _SECRET_NAME.search(key):
                hint = "keep secrets out of this file; name a file (kafka-config, auth-file) or an environment variable"
            elif near := get_close_matches(key.replace("_", "-"), names, 2):
                hint = f"did you mean {_or(near)}?"
            else:
                hint = _LISTED_BY.get(where) or f"use {_or(names)}"
            raise self._error((*where, key), f"unknown {kind} '{clean(key)}'{place}; {hint}")

    def _error(self, where: tuple[str, ...], words: str) -> ConfigError:

        return ConfigError(f"{self._path}:{line_of(self._text, where)}: {words}")


def _shown(value: Any) -> str:
    return f"'{clean(value)}'" if isinstance(value, str) else str(value).lower()


def _or(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last
