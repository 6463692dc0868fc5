"""`wmtop config`: the values in force, and their origin."""

import json as std_json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from ....engine.text.formatting import setting
from ...words.key_names import key_label
from ...words.keys import binds_by_name, chosen_keys, use_keys
from .file import Config, ConfiguredTarget
from .force import InForce, config, config_path, run_defaults, ui, variable_of
from .lines import line_of


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
