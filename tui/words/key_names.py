"""Names of keys: a configuration has `+` or `plus`, Textual needs `plus`, people read `+`. Pure."""

import re
import unicodedata

_TEXTUAL = {
    "solidus": "slash", "reverse_solidus": "backslash", "commercial_at": "at", "hyphen_minus": "minus",
    "plus_sign": "plus", "low_line": "underscore",
}  # fmt: skip
"""Textual's names that are shorter than Unicode's."""
_UNICODE = {short: long for long, short in _TEXTUAL.items()}
_SPECIAL = {
    "up": "↑", "down": "↓", "left": "←", "right": "→", "enter": "Enter", "escape": "Esc", "space": "Space",
    "tab": "Tab", "home": "Home", "end": "End", "pageup": "PgUp", "pagedown": "PgDn", "insert": "Ins",
    "delete": "Del", "backspace": "Backspace", **{f"f{number}": f"F{number}" for number in range(1, 13)},
}  # fmt: skip
_MODIFIED = re.compile(r"(?:(?:ctrl|shift|alt)\+)+")


def key_name(key: str) -> str:
    """Textual's name of a key given by its character or name; ValueError for anything else."""
    prefix = match[0] if (match := _MODIFIED.match(key)) else ""
    rest = key[len(prefix) :]
    if len(rest) == 1:
        return prefix + (rest if rest.isalnum() else _of_character(rest))
    if rest in _SPECIAL or _character(rest) is not None:
        return prefix + rest
    raise ValueError(f"'{key}' is not a key, e.g. x, +, f2, ctrl+r, space")


def key_label(name: str) -> str:
    """The label of a key, given Textual's name, for footers and help."""
    prefix = match[0] if (match := _MODIFIED.match(name)) else ""
    rest = name[len(prefix) :]
    return prefix + (_SPECIAL.get(rest) or _character(rest) or rest)


def _of_character(character: str) -> str:
    name = re.sub(r"[ -]", "_", unicodedata.name(character, "").lower())
    return _TEXTUAL.get(name, name)


def _character(name: str) -> str | None:
    if len(name) == 1:
        return name
    long = _UNICODE.get(name, name).replace("hyphen_minus", "hyphen-minus").replace("less_than", "less-than")
    try:
        return unicodedata.lookup(long.replace("greater_than", "greater-than").replace("_", " ").upper())
    except KeyError:
        return None
