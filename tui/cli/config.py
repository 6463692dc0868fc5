"""The configuration: its file, what is in force and where that comes from, and `wmtop config`, which prints it."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from difflib import get_close_matches
from functools import cache, partial
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, cast, get_args, get_type_hints

import platformdirs
import typer
from msgspec import Struct

from ...engine.system.errors import LOGIN_IN_ADDRESS, UsageError
from ...engine.system.files import read_small
from ...engine.system.places import variable_path
from ...engine.text.formatting import clean, setting
from ...engine.watermarks.settings import TUNABLE
from ..words.keys import BY_NAME, check_keys, chosen_keys, key_label, use_keys
from ..words.texts import ALERTS, THEMES, ZONES, Appearance
from ..words.user_commands import UserCommand, command_reader
from .options import TARGET_OPTIONS, EngineArguments, any_of, flag, parse_condition, parse_duration

FILE_VARIABLE = "WMTOP_CONFIG"
MIN_REFRESH_MS = 100
"""Shortest refresh (ms): below it, the fleet would only read and draw."""
_SECRET_NAME = re.compile(r"passw|secret|token|credential|access.?key", re.IGNORECASE)
_AT_LINE = re.compile(r" \(at (?:line (?P<line>\d+), column \d+|end of document)\)$")
"""What the parser of TOML ends its errors with."""
_OF_ONE_RUN = ("name", "state_dir", "force", "record", "firings", "late_output", "once")
"""Options of a single run, for which a default makes no sense."""
_DISPLACED: dict[str, tuple[str, ...]] = {
    "--session": ("window", "slide", "offset"),
    "--window": ("session",),
    "--slide": ("session",),
    "--strategy": ("marker", "smooth", "watermark"),
}
"""Defaults that give way if an option of the command line contradicts them."""

KeyPath = tuple[str, ...]
"""The names that lead to a key: `("targets", "orders", "attach")`."""
Origin = Literal["file", "environment", "default"]
Read = Callable[[Any], Any]
"""Converts a value of the file; ValueError with the problem and an example."""


class ConfiguredTarget(Struct, frozen=True):
    """A target by its name in the file: what `wmtop attach` takes, and its options by parameter (ms, -1: off)."""

    name: str
    attach: str
    options: dict[str, Any] = {}
    fail_if: str | None = None
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] | None = None
    """The topics that it reads and writes, for `wmtop chain`; None: it is not said which it writes, if any."""


class Config(Struct, frozen=True):
    """A file's content: `ui` (refresh in ms), `keys` by `Bind.name`, `run` as the command line would have it."""

    targets: dict[str, ConfiguredTarget] = {}
    ui: dict[str, Any] = {}
    keys: dict[str, str] = {}
    commands: dict[str, UserCommand] = {}
    run: dict[str, Any] = {}


class InForce(Struct, frozen=True):
    """A value of `ui` or `run`, and its origin."""

    value: Any
    origin: Origin


class ConfigError(UsageError):
    """One line: the place in the file, the value there, and what to write instead."""


class _WrongKeyError(Exception):
    """The key, and what is wrong with it or its value."""

    def __init__(self, where: KeyPath, words: str) -> None:
        super().__init__(words)
        self.where = where


def _typed(value: Any, kind: type, words: str) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"needs {words}")
    return value


def _text(value: Any, example: str = "orders") -> str:
    return _typed(value if str(value).strip() else None, str, f'a text, e.g. "{example}"')


def _refresh(value: Any) -> int:
    ms = parse_duration(_text(value, "45s"))
    if ms < MIN_REFRESH_MS:
        raise ValueError(f"is {_quoted(value)}; use {MIN_REFRESH_MS}ms or longer")
    return ms


def _one_of(value: Any, *, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise ValueError(f"is {_quoted(value)}; use {any_of(allowed)}")
    return value


def _alerts(value: Any) -> tuple[str, ...]:
    if value == "off":
        return ()
    values = cast(list[Any], value) if isinstance(value, list) else str(value).split(",")
    if wrong := [each for each in values if each not in ALERTS]:
        raise ValueError(f'is {", ".join(map(_quoted, wrong))}; use "off" or a list of {any_of(ALERTS)}')
    return tuple(values)


def _condition(value: Any) -> str:
    parse_condition(_text(value, "stalled_for > 5m"))
    return value


def _topics(value: Any) -> tuple[str, ...]:
    return tuple(_address(topic) for topic in _typed(value, list, 'a list of topics, e.g. ["orders"]'))


def _address(value: Any) -> str:
    if LOGIN_IN_ADDRESS.search(_text(value)):
        raise ValueError("has a password in it: keep secrets out of this file; name a file or an environment variable")
    return value


def _option(hint: Any, value: Any, *, as_text: bool) -> Any:
    """A value for an option of the command line with that annotation, in the environment a text.

    `as_text`: what has a parser stays as it is.
    """
    kind, option = get_args(hint)[:2]
    [plain] = {*(get_args(kind) if isinstance(kind, UnionType) else (kind,))} - {type(None)}
    if plain is bool:
        return value == "true" if value in ("true", "false") else _typed(value, bool, "true or false")
    if option.parser is not None:
        try:
            read = option.parser(str(value) if type(value) is int else _typed(value, str, 'a text, e.g. "30m"'))
        except typer.BadParameter as error:
            raise ValueError(error.message) from None
        return value if as_text else read
    if plain is int:
        return _typed(int(value) if re.fullmatch("[0-9]{1,18}", str(value)) else value, int, "a whole number")
    if plain in (str, Path):
        return _text(value)
    texts = [value] if isinstance(value, str) else _typed(value, list, "a text or a list of texts")
    return [_typed(text, str, "a text or a list of texts") for text in texts]


_HINTS = get_type_hints(EngineArguments, include_extras=True)
RUN_PARAMETERS = {
    field.name.replace("_", "-"): field.name for field in fields(EngineArguments) if field.name not in _OF_ONE_RUN
}
"""The parameters of `wmtop run` that may have a default, by the name of the option (without `--`)."""
RUN_KEYS: dict[str, Read] = {
    name: partial(_option, _HINTS[parameter], as_text=True) for name, parameter in RUN_PARAMETERS.items()
}
TARGET_KEYS: dict[str, Read] = {
    "attach": _address,
    **{name.replace("_", "-"): partial(_option, hint, as_text=False) for name, hint in TARGET_OPTIONS.items()},
    "state-reader": partial(_one_of, allowed=("none", "files", "spark")),
    "fail-if": _condition,
    "reads": _topics,
    "writes": _topics,
}
"""The options of `wmtop attach` that a target may set, the condition for `check`, and topics for `chain`."""
UI_KEYS: dict[str, Read] = {
    "theme": partial(_one_of, allowed=THEMES),
    "zone": partial(_one_of, allowed=ZONES),
    "alerts": _alerts,
    "refresh": _refresh,
}
_LISTED_BY: dict[KeyPath, str] = {
    ("keys",): "wmtop config --keys lists all",
    ("defaults", "run"): "see wmtop run rate --help",
}
"""The command that lists the keys of a long section."""


def parse_config(text: str, path: Path) -> Config:
    """The content of a file; ConfigError names file, line, and near names. `path` is what relative paths start from."""
    import tomllib  # not at the start of a screen

    try:
        if any(line.count(".") > 200 for line in text.splitlines()):  # the parser's time is the square of a key's
            raise RecursionError
        content = tomllib.loads(text)
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply; the deepest is a list in [targets.NAME]") from None
    except tomllib.TOMLDecodeError as error:
        at = _AT_LINE.search(str(error))
        line = at["line"] if at is not None and at["line"] else max(len(text.splitlines()), 1)
        raise ConfigError(f"{path}:{line}: not TOML: {_AT_LINE.sub('', str(error))}") from None
    try:
        _check_names((), content, ("targets", "ui", "keys", "commands", "defaults"))
        defaults, commands = _table(("defaults",), content), _table(("commands",), content)
        _check_names(("defaults",), defaults, ("run",))
        targets = _table(("targets",), content)
        return Config(
            targets={name: _target(name, targets, path.parent) for name in targets},
            ui=_values(("ui",), content, UI_KEYS),
            keys=(keys := _keys(content)),
            commands=_values(("commands",), content, dict.fromkeys(commands, command_reader(keys))),
            run=_values(("defaults", "run"), defaults, RUN_KEYS),
        )
    except _WrongKeyError as error:
        raise ConfigError(f"{path}:{line_of(text, error.where)}: {error}") from None


def _target(name: str, targets: dict[str, Any], directory: Path) -> ConfiguredTarget:
    where = ("targets", name)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        words = "a target's name has letters, digits, '.', '_' and '-' only, e.g. [targets.orders]"
        raise _WrongKeyError(where, words)
    values = _values(where, targets, TARGET_KEYS)
    if "attach" not in values:
        raise _WrongKeyError(where, f'target {clean(name)} needs attach = "…", what wmtop attach would take')
    attach = values.pop("attach")
    others = {key.replace("-", "_"): values.pop(key) for key in ("fail-if", "reads", "writes") if key in values}
    if "://" not in attach and ("/" in attach or attach.startswith("~")):
        attach = str(directory / Path(attach).expanduser())
    options = {key.replace("-", "_"): value for key, value in values.items()}
    for key in options:
        if Path in get_args(get_args(TARGET_OPTIONS[key])[0]):
            options[key] = directory / Path(options[key]).expanduser()
    return ConfiguredTarget(name, attach, options, **others)


def _keys(content: dict[str, Any]) -> dict[str, str]:
    keys = _values(("keys",), content, dict.fromkeys(BY_NAME, _text))
    for name in keys:
        try:
            check_keys({name: keys[name]}, among=keys)
        except ValueError as error:
            raise _WrongKeyError(("keys", name), str(error)) from None
    return keys


def _values(where: KeyPath, parent: dict[str, Any], known: Mapping[str, Read]) -> dict[str, Any]:
    table = _table(where, parent)
    _check_names(where, table, known)
    out: dict[str, Any] = {}
    for key, raw in table.items():
        try:
            out[key] = known[key](raw)
        except ValueError as error:
            raise _WrongKeyError((*where, key), f"{key} {error}") from None
    return out


def _table(where: KeyPath, parent: dict[str, Any]) -> dict[str, Any]:
    """The table at `where`, from the table around it; empty if it is missing."""
    value: Any = parent.get(where[-1], {})
    if not isinstance(value, dict):
        raise _WrongKeyError(where, f"{'.'.join(where)} is a table: write [{'.'.join(where)}]")
    return cast(dict[str, Any], value)


def _check_names(where: KeyPath, table: Iterable[str], known: Iterable[str]) -> None:
    """_WrongKeyError for the first key that is not among `known`."""
    names = list(known)
    for key in table:
        if key in names:
            continue
        kind = "section" if not where else "key"
        place = f" in [{'.'.join(where)}]" if where else ""
        if _SECRET_NAME.search(key):
            hint = "keep secrets out of this file; name a file (kafka-config, auth-file) or an environment variable"
        elif near := get_close_matches(key.replace("_", "-"), names, 2):
            hint = f"did you mean {any_of(near)}?"
        else:
            hint = _LISTED_BY.get(where) or f"use {any_of(names)}"
        raise _WrongKeyError((*where, key), f"unknown {kind} '{clean(key)}'{place}; {hint}")


def _quoted(value: Any) -> str:
    return f"'{clean(value)}'" if isinstance(value, str) else str(value).lower()


def config_path() -> tuple[Path, bool]:
    """The path of the file, and whether the user set it (`--config`, WMTOP_CONFIG): then the file must exist."""
    if named := os.environ.get(FILE_VARIABLE):
        return variable_path(FILE_VARIABLE, named).expanduser().absolute(), True
    return platformdirs.user_config_path("wmtop", appauthor=False) / "config.toml", False


def config() -> Config:
    """The file's content; empty without a file. UsageError, one line, if it cannot be read or is wrong."""
    path, named = config_path()
    try:
        changed = path.stat().st_mtime_ns
    except OSError as error:
        if named:
            raise UsageError(f"cannot read the configuration {clean(str(path))}: {error.strerror}") from None
        return Config()
    return _read(path, changed)


@cache
def _read(path: Path, _changed_ns: int) -> Config:
    try:
        return parse_config(read_small(path).decode(), path)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UsageError(f"cannot read the configuration {clean(str(path))}: {reason}") from None


def ui() -> dict[str, InForce]:
    """The values of `[ui]` by key."""
    usual = Appearance()
    defaults = {"theme": usual.theme, "zone": usual.zone, "alerts": usual.alerts, "refresh": usual.refresh_ms}
    return _over(config().ui, UI_KEYS, defaults)


def appearance() -> Appearance:
    """The configured appearance of the screen."""
    values = {key: each.value for key, each in ui().items()}
    return Appearance(values["theme"], values["zone"], tuple(values["alerts"]), values["refresh"])


def run_defaults() -> dict[str, InForce]:
    """The defaults of `wmtop run`'s options that the file or the environment sets, by option."""
    return _over(config().run, RUN_KEYS, {})


def defaults_for_run(arguments: list[str]) -> dict[str, Any]:
    """The defaults by parameter, without those that the command line's `arguments` contradict."""
    given = {argument.split("=")[0] for argument in arguments}
    gone = {name for option in given for name in _DISPLACED.get(option, ())}
    if "--strategy" in given and not set(arguments) & set(TUNABLE):
        gone.add("lateness")
    return {RUN_PARAMETERS[name]: each.value for name, each in run_defaults().items() if name not in gone}


def default_map() -> dict[str, Any]:
    """For the command line: each command of `run` with its defaults."""
    return {"run": dict.fromkeys(("replay", "files", "kafka", "rate"), defaults_for_run(sys.argv))}


def _over(file: Mapping[str, Any], known: Mapping[str, Read], defaults: dict[str, Any]) -> dict[str, InForce]:
    found = {key: InForce(value, "default") for key, value in defaults.items()}
    found |= {key: InForce(value, "file") for key, value in file.items()}
    for key, read in known.items():
        text = os.environ.get(variable_of(key))
        if text:
            try:
                found[key] = InForce(read(text), "environment")
            except ValueError as error:
                raise UsageError(f"{variable_of(key)}: {key} {error}") from None
    return found


def variable_of(key: str) -> str:
    """The environment variable of a key: `WMTOP_IDLE_AFTER`."""
    return f"WMTOP_{key.replace('-', '_').upper()}"


def config_command(
    keys: Annotated[bool, flag("--keys", "list the actions and their keys, for [keys]")] = False,
) -> None:
    """Show the configuration in force, and where each value comes from."""
    content, (path, _) = config(), config_path()
    if keys:
        use_keys(content.keys)
        chosen = chosen_keys()
        for name, (row, bind) in BY_NAME.items():
            shown = " ".join(key_label(key) for key in chosen.get(name, bind.key).split(","))
            print(f"{name:<22} {shown:<12} {row.help}{'  (configured)' * (name in chosen)}")
    else:
        print("\n".join(_lines(path, content)))


def _lines(path: Path, content: Config) -> Iterator[str]:
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    yield f"# {path}" if path.exists() else f"# no configuration file; it would be {path}"
    sections: dict[KeyPath, dict[str, InForce]] = {
        ("targets", name): {key: InForce(value, "file") for key, value in _as_in_file(target).items()}
        for name, target in content.targets.items()
    }
    sections["ui",] = {key: InForce(_ui_value(key, each.value), each.origin) for key, each in ui().items()}
    sections["keys",] = {key: InForce(value, "file") for key, value in content.keys.items()}
    sections["defaults", "run"] = run_defaults()
    for where, values in sections.items():
        if values:
            yield f"\n[{'.'.join(where)}]"
        for key, each in values.items():
            line = f"line {line_of(text, (*where, key))}"
            origin = {"file": line, "environment": variable_of(key), "default": "default"}[each.origin]
            yield f"{f'{key} = {json.dumps(each.value, ensure_ascii=False)}':<50} # {origin}"


def _as_in_file(target: ConfiguredTarget) -> dict[str, Any]:
    """A target as in the file, without defaults."""
    shown: dict[str, Any] = {"attach": target.attach}
    for key, value in target.options.items():
        is_duration = key in ("lateness", "idle_after", "window", "grace")
        shown[key.replace("_", "-")] = setting(None if value < 0 else value) if is_duration else str(value)
    others = {"fail-if": target.fail_if, "reads": target.reads or None, "writes": target.writes}
    return {**shown, **{key: value for key, value in others.items() if value is not None}}


def _ui_value(key: str, value: Any) -> Any:
    if key == "refresh":
        return setting(value)
    if key == "alerts":
        return list(value) or "off"
    return "the one chosen last" if value is None else value


def line_of(text: str, path: KeyPath) -> int:
    """The line (from 1) of the key or table `path`, else of the nearest table around it."""
    places = _places(text)
    while path and path not in places:
        path = path[:-1]
    return places.get(path, 1)


@cache
def _places(text: str) -> dict[KeyPath, int]:
    """The line of each key and table: that at which the text begins to have it."""
    import tomllib  # not at the start of a screen

    places: dict[KeyPath, int] = {}
    lines, begun = text.splitlines(), 1

    def note(path: KeyPath, value: Any) -> None:
        places.setdefault(path, begun)
        if isinstance(value, dict):
            for key, inner in cast(dict[str, Any], value).items():
                note((*path, key), inner)

    for number in range(1, len(lines) + 1):
        try:
            note((), tomllib.loads("\n".join(lines[:number])))
        except tomllib.TOMLDecodeError:  # in a value of several lines
            continue
        begun = number + 1
    return places
