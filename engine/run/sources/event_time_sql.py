"""Event times in texts and numbers as epoch ms, in Spark's SQL."""

from collections.abc import Callable

from ...system.json_values import BELOW, FLOAT, INTEGER, ISO_8601, PER_SECOND, TimeUnit, Unit, usable_range
from ...watermarks.times import FIRST_USABLE_MS, LAST_USABLE_MS


def text_to_ms_sql(column: str, unit: TimeUnit) -> str:
    """`json_values.time_of` in Spark."""
    text = f"trim({column})"
    integers = _by_size(f"try_cast({text} as bigint)", unit, _integers)
    floats = _by_size(f"try_cast({text} as double)", unit, _floats)
    return (
        f"case when {text} rlike {_raw(INTEGER)} then {integers} "
        f"when {text} rlike {_raw(FLOAT)} then {floats} else {_iso_8601(text)} end"
    )


def _by_size(number: str, unit: TimeUnit, to_ms: Callable[[str, Unit], str]) -> str:
    if unit != "auto":
        return to_ms(number, unit)
    # Not by `abs`, which has none for the least bigint.
    cases = " ".join(
        f"when {number} > -{bound}L and {number} < {bound}L then {to_ms(number, name)}" for name, bound in BELOW.items()
    )
    return f"case {cases} else {to_ms(number, 'ns')} end"


def _integers(number: str, unit: Unit) -> str:
    first, last = usable_range(unit)
    rate = PER_SECOND[unit]
    ms = f"{number} * 1000L" if rate == 1 else _floor_div(number, rate // 1_000)
    return f"case when {number} between {first}L and {last}L then {ms} end"


def _floats(number: str, unit: Unit) -> str:
    rate = PER_SECOND[unit]
    micros = f"rint({number} * {1_000_000 // rate}D)" if rate <= 1_000_000 else f"rint({number} / 1000D)"
    ms = f"case when abs({micros}) < {2.0**62!r}D then {_floor_div(f'cast({micros} as bigint)', 1_000)} end"
    return f"case when {ms} between {FIRST_USABLE_MS}L and {LAST_USABLE_MS}L then {ms} end"


def _iso_8601(text: str) -> str:
    with_seconds = f"regexp_replace({text}, r'^(.{{16}})(Z|[+-])', '$1:00$2')"  # Spark takes no zone without seconds
    time = f"try_cast({with_seconds} as timestamp)"
    first, last = usable_range("us")
    ms = f"case when unix_micros({time}) between {first}L and {last}L then unix_millis({time}) end"
    return f"case when {text} rlike {_raw(ISO_8601)} then {ms} end"


def _floor_div(number: str, divisor: int) -> str:
    if divisor == 1:
        return number
    return f"({number} div {divisor}L - if({number} % {divisor}L < 0L, 1L, 0L))"


def _raw(pattern: str) -> str:
    assert "'" not in pattern
    return f"r'{pattern}'"
