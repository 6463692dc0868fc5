"""The values of facts: their types, lower bounds, and how they are shown. Pure."""

from typing import Literal

from ...engine.text import formatting as f

Kind = Literal["duration", "share", "count", "ratio", "word"]
Value = float | str | None


class AtLeast(float):
    """A fact of which only a lower bound is known."""


def bounded(value: int | None, *, is_part: bool) -> Value:
    """The value; a lower bound if only a part is known."""
    return AtLeast(value) if is_part and value is not None else value


def shown(value: Value, kind: Kind) -> str:
    """A fact's value with its unit."""
    if value is None or isinstance(value, str):
        return f.UNKNOWN if value is None else value
    if isinstance(value, AtLeast):
        return f"at least {shown(float(value), kind)}"
    if kind == "duration":
        return f.duration(value)
    if kind == "share":
        return f.share(value)
    return f"{value:.2f}" if kind == "ratio" else f.count(round(value))
