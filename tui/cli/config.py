"""The configuration in force, where each value comes from, and `wmtop config`, which prints it."""

import json as std_json
import os
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import platformdirs
import typer
from msgspec import Struct

from ...engine.system.errors import UsageError
from ...engine.text.formatting import clean, setting
from ...engine.watermarks.settings import TUNABLE
from ..words.keys import binds_by_name, chosen_keys, key_label, use_keys
from ..words.texts import Appearance
from .config_file import (
    RUN_OPTIONS,
    UI_KEYS,
    Config,
    ConfigError,
    ConfiguredTarget,
    Read,
    line_of,
    option_names,
    parse_config,
)

FILE_VARIABLE = "WMTOP_CONFIG"
Origin = Literal["file", "environment", "default"]

_DISPLACED: dict[str, tuple[str, ...]] = {
    "--session": ("window", "slide", "offset"),
    "--window": ("session",),
    "--slide": ("session",),
    "--strategy": ("marker", "smooth", "watermark"),
}
"""Defaults that give way if an option of the command line contradicts them."""


class InForce(Struct, frozen=True):
    """A value of `ui` or `run`, and its origin."""

    value: Any
    origin: Origin


def config_path() -> tuple[Path, bool]:
    """The path of the file, and whether the user set it (`--config`, WMTOP_CONFIG): then the file must exist."""
    if named := os.environ.get(FILE_VARIABLE):
        return Path(named).expanduser().absolute(), True
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
        return parse_config(path.read_text(encoding="utf-8"), path)
    except ConfigError as error:
        raise UsageError(str(error)) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UsageError(f"cannot read the configuration {clean(str(path))}: {reason}") from None


def configured(name: str) -> ConfiguredTarget | None:
    """The target of that name; None: the file has none."""
    return config().targets.get(name)


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
    return _over(config().run, RUN_OPTIONS, {})


def defaults_for_run(arguments: list[str]) -> dict[str, Any]:
    """The defaults by parameter, without those that the command line's `arguments` contradict."""
    names = option_names()
    given = {argument.split("=")[0] for argument in arguments}
    gone = {name for option in given for name in _DISPLACED.get(option, ())}
    if "--strategy" in given and not set(arguments) & set(TUNABLE):
        gone.add("lateness")
    return {names[name]: each.value for name, each in run_defaults().items() if name not in gone}


def default_map() -> dict[str, Any]:
    """For the command line: each command of `run` with its defaults."""
    defaults = defaults_for_run(sys.argv)
    return {"run": dict.fromkeys(("replay", "files", "kafka", "rate"), defaults)}


def _over(file: Mapping[str, Any], known: Mapping[str, Read], defaults: dict[str, Any]) -> dict[str, InForce]:
    found = {key: InForce(value, "default") for key, value in defaults.items()}
    found |= {key: InForce(value, "file") for key, value in file.items()}
    for key, read in known.items():
        text = os.environ.get(variable_of(key))
        if text:
            found[key] = InForce(_from_environment(key, text, read), "environment")
    return found


def variable_of(key: str) -> str:
    """The environment variable of a key: `WMTOP_IDLE_AFTER`."""
    return f"WMTOP_{key.replace('-', '_').upper()}"


def _from_environment(key: str, text: str, read: Read) -> Any:
    """A variable's text as a value of the file: numbers, booleans and lists are tried, too."""
    tries: list[Any] = [text]
    if text.isdigit():
        tries.append(int(text))
    if text in ("true", "false"):
        tries.append(text == "true")
    if "," in text:
        tries.append(text.split(","))
    failed: ValueError | None = None
    for value in tries:
        try:
            return read(value)
        except ValueError as error:
            failed = failed or error
    raise UsageError(f"{variable_of(key)}: {key} {failed}")


def config_command(
    keys: Annotated[bool, typer.Option("--keys", help="list the actions and their keys, for [keys]")] = False,
    json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Show the configuration in force, and where each value comes from."""
    content = config()
    if keys:
        use_keys(content.keys)
        chosen = chosen_keys()
        for name, bind in binds_by_name().items():
            shown = " ".join(key_label(key) for key in chosen.get(name, bind.key).split(","))
            print(f"{name:<22} {shown:<12} {bind.help}{'  (configured)' * (name in chosen)}")
        return
    path, _ = config_path()
    print(std_json.dumps(_as_json(path, content)) if json else "\n".join(_lines(path, content)))


def _as_json(path: Path, content: Config) -> dict[str, Any]:
    return {
        "file": str(path) if path.exists() else None,
        "targets": {name: _target(target) for name, target in content.targets.items()},
        "ui": {key: {"value": each.value, "from": each.origin} for key, each in ui().items()},
        "keys": content.keys,
        "defaults": {"run": {key: {"value": each.value, "from": each.origin} for key, each in run_defaults().items()}},
    }


def _lines(path: Path, content: Config) -> Iterator[str]:
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    yield f"# {path}" if path.exists() else f"# no configuration file; it would be {path}"
    for name, target in content.targets.items():
        yield f"\n[targets.{name}]"
        for key, value in _target(target).items():
            yield _line(key, value, f"line {line_of(text, ('targets', name, key))}")
    yield "\n[ui]"
    for key, each in ui().items():
        yield _line(key, _ui_value(key, each.value), _from(key, each, line_of(text, ("ui", key))))
    if content.keys:
        yield "\n[keys]"
        for key, value in content.keys.items():
            yield _line(key, value, f"line {line_of(text, ('keys', key))}")
    if defaults := run_defaults():
        yield "\n[defaults.run]"
        for key, each in defaults.items():
            yield _line(key, each.value, _from(key, each, line_of(text, ("defaults", "run", key))))


def _target(target: ConfiguredTarget) -> dict[str, Any]:
    """A target as in the file, without defaults."""
    shown: dict[str, Any] = {"attach": target.attach}
    for key, value in target.options.items():
        is_duration = key in ("lateness", "idle_after")
        shown[key.replace("_", "-")] = setting(None if value < 0 else value) if is_duration else str(value)
    return shown if target.fail_if is None else {**shown, "fail-if": target.fail_if}


def _ui_value(key: str, value: Any) -> Any:
    if key == "refresh":
        return setting(value)
    if key == "alerts":
        return list(value) or "off"
    return "the one chosen last" if value is None else value


def _from(key: str, each: InForce, line: int) -> str:
    return {"file": f"line {line}", "environment": variable_of(key), "default": "default"}[each.origin]


def _line(key: str, value: Any, origin: str) -> str:
    return f"{f'{key} = {std_json.dumps(value, ensure_ascii=False)}':<50} # {origin}"
