"""Event times and channels of any column type as Spark's expressions; `system.event_time` does the same with Arrow."""

from collections.abc import Callable

from ...system.event_time import BELOW, FLOAT, INTEGER, ISO_8601, PER_SECOND, TimeUnit, usable_range
from ...watermarks.times import FIRST_USABLE_MS, LAST_USABLE_MS


def untyped_to_ms_sql(column: str, unit: TimeUnit) -> str:
    """Times in text of a file without types (CSV): a number counts units, all else is ISO 8601."""
    text = f"trim({column})"
    integers = _integers(f"try_cast({text} as bigint)", unit)
    return _of_text(text, integers, _floats(f"try_cast({text} as double)", unit))


def recognised_to_ms_sql(column: str) -> str:
    """Times in text that need no unit: ISO 8601, or a number whose size shows its unit.

    Each value is recognised alone, so the same record always gives the same time: a magnitude below 1e11 is seconds
    (until the year 5138), below 1e14 milliseconds (1973 to 5138), below 1e17 microseconds, else nanoseconds.
    """
    text = f"trim({column})"
    integers = _by_magnitude(f"try_cast({text} as bigint)", _integers)
    return _of_text(text, integers, _by_magnitude(f"try_cast({text} as double)", _floats))


def text_literal(text: str) -> str:
    """`text` as an SQL string."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _of_text(text: str, integers: str, floats: str) -> str:
    """The times in trimmed text, given those of its integers and of its floats."""
    return (
        f"case when {text} rlike {_raw(INTEGER)} then {integers} "
        f"when {text} rlike {_raw(FLOAT)} then {floats} else {_iso_8601(text)} end"
    )


def _by_magnitude(number: str, to_ms: Callable[[str, TimeUnit], str]) -> str:
    cases = " ".join(f"when abs({number}) < {limit} then {to_ms(number, unit)}" for unit, limit in BELOW.items())
    return f"case {cases} else {to_ms(number, 'ns')} end"


def _integers(number: str, unit: TimeUnit) -> str:
    first, last = usable_range(unit)
    rate = PER_SECOND[unit]
    ms = f"{number} * 1000L" if rate == 1 else _floor_div(number, rate // 1_000)
    return f"case when {number} between {first}L and {last}L then {ms} end"


def _floats(number: str, unit: TimeUnit) -> str:
    rate = PER_SECOND[unit]
    micros = f"rint({number} * {1_000_000 // rate}D)" if rate <= 1_000_000 else f"rint({number} / 1000D)"
    return _usable(f"case when abs({micros}) < {2.0**62!r}D then {_floor_div(f'cast({micros} as bigint)', 1_000)} end")


def _iso_8601(text: str) -> str:
    with_seconds = f"regexp_replace({text}, r'^(.{{16}})(Z|[+-])', '$1:00$2')"  # Spark takes no zone without seconds
    times = _timestamps(f"try_cast({with_seconds} as timestamp)")
    return f"case when {text} rlike {_raw(ISO_8601)} then {times} end"


def _timestamps(timestamp: str) -> str:
    first, last = usable_range("us")
    return f"case when unix_micros({timestamp}) between {first}L and {last}L then unix_millis({timestamp}) end"


def _usable(ms: str) -> str:
    return f"case when {ms} between {FIRST_USABLE_MS}L and {LAST_USABLE_MS}L then {ms} end"


def _floor_div(number: str, divisor: int) -> str:
    if divisor == 1:
        return number
    return f"({number} div {divisor}L - if({number} % {divisor}L < 0L, 1L, 0L))"


def _raw(pattern: str) -> str:
    assert "'" not in pattern
    return f"r'{pattern}'"
