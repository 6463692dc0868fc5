"""JSON values: the path to a field (`$.a.b[0]`, `a.b`, `a->b`, `$['a b'].c`), and times as epoch ms.

The rules of times, which `arrow_times` applies by column and `untyped_to_ms_sql` inside Spark: integers, floats and
decimals, also as text, count `unit` since the epoch (`auto`: each number the unit that its size shows); a time without
zone is UTC; other text is ISO 8601; fractions of a millisecond are floored, also before 1970; anything that is not a
time within the years 1 to 9999 is null. Floats are taken to the microsecond first, so that 0.001 s is 1 ms although the
float is a hair below it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from difflib import get_close_matches
from typing import Any, Literal, cast

from msgspec import Struct

from ..watermarks.observation import WhyNoTime
from ..watermarks.times import FIRST_USABLE_MS, LAST_USABLE_MS
from .errors import UsageError, one_line

Unit = Literal["s", "ms", "us", "ns"]
TimeUnit = Unit | Literal["auto"]
PER_SECOND: dict[Unit, int] = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
"""Units per second."""
BELOW: dict[Unit, int] = {"s": 10**11, "ms": 10**14, "us": 10**17}
"""The unit of a number with `auto`: the first one whose bound is above its size (s until the year 5138, ms from 1973),
else nanoseconds. Each value is recognised alone, so the same record always gives the same time.
"""

ISO_8601 = (
    r"^\d{4}-\d{2}-\d{2}"
    r"(?:[T ](?:[01]\d|2[0-3]):\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-](?:0\d|1[0-7])(?::?[0-5]\d)?|[+-]18(?::?00)?)?)?\z"
)
"""Pattern of ISO 8601 text (RE2 and Java); it does not check that the date exists."""
INTEGER = r"^-?\d{1,19}\z"
"""Pattern of text that is a whole number of units; numbers with more digits are never usable times."""
FLOAT = r"^-?\d+(?:\.\d+(?:[eE][+-]?\d{1,2})?|[eE][+-]?\d{1,2})\z"
"""Pattern of text that is a number of units with a fraction."""

_EPOCH, _MS = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)
INT64_MAX = 2**63 - 1
_IS_INTEGER, _IS_FLOAT, _IS_ISO_8601 = (
    re.compile(pattern.removesuffix(r"\z"), re.ASCII).fullmatch for pattern in (INTEGER, FLOAT, ISO_8601)
)


def time_of(value: Any, unit: TimeUnit) -> int | None:
    """The time (ms) in a JSON value; None for anything that is not a number or a text with a time."""
    if type(value) is str:
        text = value.strip(" ")
        if _IS_INTEGER(text):
            value = int(text)
        elif _IS_FLOAT(text):
            value = float(text)
        else:
            return _usable(iso_ms(text)) if _IS_ISO_8601(text) else None
    if type(value) is int:
        return _integer_ms(value, unit_of(value, unit))
    return _float_ms(value, unit_of(value, unit)) if type(value) is float else None


def unit_of(number: float, unit: TimeUnit) -> Unit:
    """The unit of a number: with `auto` the one that its size shows."""
    if unit != "auto":
        return unit
    for name, below in BELOW.items():
        if abs(number) < below:
            return name
    return "ns"


def _integer_ms(number: int, unit: Unit) -> int | None:
    first, last = usable_range(unit)
    return number * 1_000 // PER_SECOND[unit] if first <= number <= last else None


def _float_ms(number: float, unit: Unit) -> int | None:
    rate = PER_SECOND[unit]
    micros = number * (1_000_000 // rate) if rate <= 1_000_000 else number / 1_000
    if not abs(micros) < 2.0**62:  # also NaN
        return None
    return _usable(round(micros) // 1_000)


def _usable(ms: int | None) -> int | None:
    return ms if ms is not None and FIRST_USABLE_MS <= ms <= LAST_USABLE_MS else None


def formats_of(values: Sequence[Any], times: Iterable[int | None], unit: TimeUnit) -> str | None:
    """As what numbers and texts are read, the most frequent first, given their times; None if none is a time."""
    found = Counter(_format_of(value, unit) for value, ms in zip(values, times, strict=True) if ms is not None)
    named = ", ".join(name for name, _ in found.most_common())
    return f"{named} (recognised)" if named and unit == "auto" else named or None


def _format_of(value: Any, unit: TimeUnit) -> str:
    try:
        return f"epoch {unit_of(float(value), unit)}"
    except ValueError:
        return "ISO 8601"


def why_no_time(value: Any) -> WhyNoTime:
    """Why a value, of any type, was not read as a time."""
    if value is None or value == "":
        return "missing"
    is_number = not isinstance(value, bool) and re.fullmatch(r" *-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)? *", str(value))
    return "out_of_range" if is_number or isinstance(value, date) else "no_time"


def usable_range(unit: Unit) -> tuple[int, int]:
    """The first and the last usable time in `unit`."""
    rate = PER_SECOND[unit]
    first, last = FIRST_USABLE_MS * rate // 1_000, ((LAST_USABLE_MS + 1) * rate - 1) // 1_000
    return max(first, -INT64_MAX), min(last, INT64_MAX)


def iso_ms(text: str) -> int | None:
    """A time that the pattern has matched, as ms; None if it does not exist, as 2023-02-30."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return ((time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH) // _MS


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
                array = cast("list[Any]", value) if isinstance(value, list) else []
                value = array[step] if step < len(array) else None
            else:
                value = cast("dict[str, Any]", value).get(step) if isinstance(value, dict) else None
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
    fields = cast("dict[str, Any]", value)
    return [found for name, inner in fields.items() for found in _paths(inner, f"{prefix}.{name}", depth - 1)]
