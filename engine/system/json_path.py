"""Paths to a field in a JSON value: `$.a.b[0]`, `a.b`, `a->b`, `$['a b'].c`."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (Decoded values can have any type.)

import re
from difflib import get_close_matches
from typing import Any

from msgspec import Struct

from .errors import UsageError, one_line

_STEP = re.compile(
    r"""(?:\.|->)?(?:(?P<name>[^.\[\]'"\s>-]+(?:-(?!>)[^.\[\]'"\s>-]*)*)"""
    r"""|\[(?:(?P<index>\d+)|'(?P<one>[^']+)'|"(?P<two>[^"]+)")\])"""
)
MAX_NEAR = 5
MAX_STEPS = 100
"""Steps of a path, at most: Spark parses paths recursively, and thousands of steps would overflow the JVM's stack."""
_INDEX_DIGITS = 9  # Spark reads an index as a 32-bit integer
_SHOWN = 60


class JsonPath(Struct, frozen=True):
    """The steps from the value to a field: names, and positions in arrays."""

    steps: tuple[str | int, ...]

    def __str__(self) -> str:
        return "$" + "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in self.steps)

    def sql(self) -> str:
        """The path as Spark's `get_json_object` takes it."""
        return "$" + "".join(f"[{s}]" if isinstance(s, int) else f"['{s}']" for s in self.steps)

    def of(self, value: Any) -> Any:
        """The field of a decoded value; None if it is missing."""
        for step in self.steps:
            if isinstance(step, int):
                value = value[step] if isinstance(value, list) and step < len(value) else None
            else:
                value = value.get(step) if isinstance(value, dict) else None
        return value


def parse_json_path(text: str, option: str) -> JsonPath:
    """The path of a user's text; UsageError if it is not a path."""
    rest = text.strip().removeprefix("$")
    steps: list[str | int] = []
    while rest:
        found = _STEP.match(rest)
        if found is None:
            raise UsageError(
                f"{option} '{_cut(text)}' is not a path into a JSON value; write it as in payload.created_at"
            )
        index = found["index"]
        if index is not None and len(index) > _INDEX_DIGITS:
            raise UsageError(
                f"{option} '{_cut(text)}': the array index has {len(index)} digits; it may have at most {_INDEX_DIGITS}"
            )
        name = found["name"] or found["one"] or found["two"]
        steps.append(name if index is None else int(index))
        rest = rest[found.end() :]
    if not steps:
        raise UsageError(f"{option} '{_cut(text)}' names no field; write it as in payload.created_at")
    if len(steps) > MAX_STEPS:
        raise UsageError(f"{option} '{_cut(text)}' has {len(steps)} steps; it may have at most {MAX_STEPS}")
    return JsonPath(tuple(steps))


def _cut(text: str) -> str:
    return one_line(text, _SHOWN)


def near_paths(path: JsonPath, values: list[Any]) -> list[str]:
    """Fields of the values with names like the path's last step, else some existing fields."""
    known = sorted({found for value in values for found in _paths(value, "", 4)})
    last = {text.rsplit(".", 1)[-1]: text for text in reversed(known)}
    near = get_close_matches(str(path.steps[-1]), last, 3)
    return [last[name] for name in near] or known[:MAX_NEAR]


def _paths(value: Any, prefix: str, depth: int) -> list[str]:
    if not isinstance(value, dict) or depth == 0:
        return [prefix.lstrip(".")] if prefix else []
    return [found for name, inner in value.items() for found in _paths(inner, f"{prefix}.{name}", depth - 1)]
