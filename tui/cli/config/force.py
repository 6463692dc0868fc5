"""The configuration in force: the file, overridden by the environment; and the origin of each value."""

import os
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

import platformdirs
from msgspec import Struct

from ....engine.system.errors import UsageError
from ....engine.text.formatting import clean
from ....engine.watermarks.settings import TUNABLE
from ...words.lists import Appearance
from .file import UI_KEYS, Config, ConfigError, ConfiguredTarget, Read, parse_config
from .run_options import RUN_OPTIONS, option_names

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
