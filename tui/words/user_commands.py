"""The programs that a configuration binds to keys: how one is configured, and what it is given. Pure."""

import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, cast

import msgspec
from msgspec import Struct

from ...engine.text.formatting import clean
from .keys import BY_NAME, Hint, KeyRow, key_label, key_name
from .texts import Chosen

_FACT = re.compile(r"\{([a-z_]+)\}")
_KEYS = ("key", "run", "about")


class UserCommand(Struct, frozen=True):
    """A program (`run`: its argument vector, never for a shell) on a key, by Textual's name."""

    key: str
    run: tuple[str, ...]
    about: str = ""

    def arguments(self, facts: Mapping[str, str]) -> list[str]:
        """The argument vector with each `{fact}` replaced; ValueError for a fact that the row lacks."""
        if missing := [name for part in self.run for name in _FACT.findall(part) if name not in facts]:
            raise ValueError(f"this row has no {missing[0]}; it has {', '.join(facts)}")
        return [_FACT.sub(lambda found: facts[found[1]], part) for part in self.run]


def command_reader(keys: Mapping[str, str]) -> Callable[[Any], UserCommand]:
    """Reads the commands of one configuration, one after the other; `keys` are its keys by `Bind.name`.

    ValueError with what is wrong with one; also where its key has an action of wmtop, or runs an earlier command.
    """
    runs: dict[str, str] = {}
    for name, (_, bind) in BY_NAME.items():
        wanted = key_name(keys[name]) if name in keys else bind.key
        runs |= dict.fromkeys(wanted.split(","), f"has the action {name}")

    def read(value: Any) -> UserCommand:
        table = cast(dict[str, Any], value) if isinstance(value, dict) else {}
        for name in table:
            if name not in _KEYS:
                near = " or ".join(get_close_matches(name, _KEYS, 2)) or "key, run or about"
                raise ValueError(f"has an unknown key '{clean(name)}'; did you mean {near}?")
        typed, run = table.get("key"), table.get("run")
        words = cast(list[Any], run) if isinstance(run, list) else []
        if not isinstance(typed, str) or not words or not all(isinstance(word, str) for word in words):
            raise ValueError('needs a key and a program with its arguments: key = "K", run = ["kcat", "{channel}"]')
        key = key_name(typed)
        if key in runs:
            raise ValueError(f"wants '{key_label(key)}': that key already {runs[key]}; choose another")
        runs[key] = f"runs {clean(words[0])}"
        return UserCommand(key, tuple(words), str(table.get("about", "")))

    return read


def facts_of(target: str, chosen: Chosen | None, rows: Iterable[Struct]) -> dict[str, str]:
    """What a command is given: the target, the selected row's name, and the values of its record that are known."""
    facts = {"target": target}
    if chosen is None:
        return facts
    facts["name"] = chosen.name
    record = next((row for row in rows if chosen.name in (getattr(row, "channel", 0), getattr(row, "target", 0))), None)
    for name in () if record is None else record.__struct_fields__:
        if isinstance(value := msgspec.to_builtins(getattr(record, name)), str | int | float):
            facts[name] = str(value)
    return facts


_commands: dict[str, UserCommand] = {}


def use_commands(commands: Mapping[str, UserCommand]) -> None:
    """The commands of the configuration, by name: footers and help show them."""
    _commands.clear()
    _commands.update(commands)


def user_commands() -> dict[str, UserCommand]:
    """The commands in force."""
    return dict(_commands)


def command_hints() -> list[Hint]:
    """The commands for a footer."""
    return [Hint(key_label(each.key), name, f"app.user_command('{name}')", 8) for name, each in _commands.items()]


def command_rows() -> list[KeyRow]:
    """The commands for the help."""
    return [KeyRow(("app",), key_label(each.key), each.about or " ".join(each.run)) for each in _commands.values()]
