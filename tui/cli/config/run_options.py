"""The options of `wmtop run` that a configuration file may give a default to, read as the command line reads them."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_type_hints

import typer

from ..arguments import EngineArguments

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
