"""Times of any column type as epoch ms, computed by Arrow, with the rules of `json_values`."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# (pyarrow is only partly typed.)

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...system.json_values import (
    BELOW,
    FLOAT,
    INT64_MAX,
    INTEGER,
    ISO_8601,
    PER_SECOND,
    TimeUnit,
    Unit,
    iso_ms,
    time_of,
    usable_range,
)
from ...watermarks.times import FIRST_USABLE_MS, LAST_USABLE_MS

_DECIMAL_DIGITS, _DECIMAL_SCALE = 67, 57
"""Digits and scale for decimals: within Arrow's limit of 76 digits they leave room for the factor 1000 and for the
digits of an int64.
"""


def to_ms(values: Any, unit: TimeUnit) -> Any:
    """The times of an Arrow array or chunked array as int64 ms; TypeError for a type that cannot hold times."""
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    kind = values.type
    if pa.types.is_dictionary(kind):
        return pc.take(to_ms(values.dictionary, unit), values.indices)
    if pa.types.is_null(kind):
        return pa.nulls(len(values), pa.int64())
    if pa.types.is_integer(kind):
        return _integers(values, unit)
    if pa.types.is_timestamp(kind):
        return _integers(values.cast(pa.int64()), kind.unit)
    if pa.types.is_date32(kind):
        return _integers(pc.multiply(values.cast(pa.int32()).cast(pa.int64()), 86_400), "s")
    if pa.types.is_date64(kind):
        return _integers(values.cast(pa.int64()), "ms")
    if pa.types.is_floating(kind):
        return _floats(values, unit)
    if pa.types.is_decimal(kind) and _in_range(kind):
        return _decimals(values, unit)
    if is_text(kind):
        return text_to_ms(values.cast(pa.string()), unit)
    raise TypeError(f"{kind} is not a time")


def text_to_ms(values: Any, unit: TimeUnit) -> Any:
    """Times in text: a number counts units, other text is ISO 8601."""
    text = pc.utf8_trim(values, characters=" ")
    is_integer, is_float = pc.match_substring_regex(text, INTEGER), pc.match_substring_regex(text, FLOAT)
    ms = pa.nulls(len(text), pa.int64())
    if pc.any(is_integer).as_py():
        ms = pc.coalesce(ms, _decimals(_only(text, is_integer).cast(pa.decimal128(19, 0)), unit))
    if pc.any(is_float).as_py():
        ms = pc.coalesce(ms, _floats(_only(text, is_float).cast(pa.float64()), unit))
    return ms if ms.null_count == text.null_count else pc.coalesce(ms, _iso_8601(text))


def json_to_ms(values: list[Any], unit: TimeUnit) -> Any:
    """Times in JSON values: numbers and strings, anything else is null."""
    return pa.array([time_of(value, unit) for value in values], pa.int64())


def holds_times(kind: Any) -> bool:
    """Whether a column of this Arrow type can hold times."""
    try:
        to_ms(pa.array([], kind), "ms")
    except TypeError:
        return False
    return True


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is text."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def is_number(kind: Any) -> bool:
    """Whether a column of this Arrow type counts units."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def _by_size(values: Any, sizes: Any, unit: TimeUnit, in_ms: Callable[[Any, Unit], Any]) -> Any:
    """`in_ms` of the values in `unit`; `auto`: of each in the unit that its size shows."""
    if unit != "auto":
        return in_ms(values, unit)
    numbers, _ = _numpy(sizes)
    bands = np.zeros(len(numbers), np.int8)
    for bound in BELOW.values():
        bands += (numbers >= bound).view(np.int8)
    units: list[Unit] = [*BELOW, "ns"]
    present = [number for number in range(len(units)) if (bands == number).any()]
    if len(present) < 2:
        return in_ms(values, units[present[0] if present else 0])
    return pc.coalesce(*[in_ms(_only(values, pa.array(bands == number)), units[number]) for number in present])


def _integers(values: Any, unit: TimeUnit) -> Any:
    if pa.types.is_uint64(values.type):
        values = _only(values, pc.less_equal(values, pa.scalar(INT64_MAX, values.type)))
    values = values.cast(pa.int64())
    return _by_size(values, pc.abs(values), unit, _integers_in)


def _integers_in(values: Any, unit: Unit) -> Any:
    first, last = usable_range(unit)
    rate = PER_SECOND[unit]
    if not values.null_count and len(values):
        bounds: Any = pc.min_max(values).as_py()
        if first <= bounds["min"] and bounds["max"] <= last:  # as nearly always: no test of each value
            return values if rate == 1_000 else pa.array(_in_ms(values.to_numpy(), rate))
    usable = pc.and_(pc.greater_equal(values, pa.scalar(first)), pc.less_equal(values, pa.scalar(last)))
    numbers, valid = _numpy(_only(values, usable))
    return _arrow(_in_ms(numbers, rate), valid)


def _in_ms(numbers: "NDArray[np.int64]", rate: int) -> "NDArray[np.int64]":
    return numbers * 1_000 if rate == 1 else numbers // (rate // 1_000)


def _floats(values: Any, unit: TimeUnit) -> Any:
    values = values.cast(pa.float64())
    return _by_size(values, pc.abs(values), unit, _floats_in)


def _floats_in(values: Any, unit: Unit) -> Any:
    numbers, valid = _numpy(values)
    rate = PER_SECOND[unit]
    with np.errstate(over="ignore", invalid="ignore"):
        micros = np.rint(numbers * (1_000_000 // rate) if rate <= 1_000_000 else numbers / 1_000)
        valid &= np.abs(micros) < 2.0**62
    return _usable(np.where(valid, micros, 0).astype(np.int64) // 1_000, valid)


def _in_range(kind: Any) -> bool:
    return 0 <= kind.scale <= min(kind.precision, _DECIMAL_SCALE) and kind.precision <= _DECIMAL_DIGITS


def _decimals(values: Any, unit: TimeUnit) -> Any:
    values = values.cast(pa.decimal256(values.type.precision + 4, values.type.scale))
    size = pc.floor(pc.abs(values))
    sizes = _only(size, pc.less_equal(size, pa.scalar(INT64_MAX))).cast(pa.int64())
    return _by_size(values, sizes, unit, _decimals_in)


def _decimals_in(values: Any, unit: Unit) -> Any:
    """Decimals in ms, exact: floor(value * 1000), or the floor of the value and then the same way as integers."""
    counted: Unit = "ms" if unit == "s" else unit
    whole = pc.floor(pc.multiply(values, pa.scalar(1_000 if unit == "s" else 1, pa.decimal256(4, 0))))
    first, last = usable_range(counted)
    usable = pc.and_(pc.greater_equal(whole, pa.scalar(first)), pc.less_equal(whole, pa.scalar(last)))
    return _integers_in(_only(whole, usable).cast(pa.int64()), counted)


def _iso_8601(text: Any) -> Any:
    """ISO 8601 text in ms; each distinct text is parsed once."""
    text = pc.utf8_trim(text, characters=" ")
    text = _only(text, pc.match_substring_regex(text, ISO_8601)).dictionary_encode()
    distinct = pa.array(map(iso_ms, text.dictionary.to_pylist()), pa.int64())
    return _usable(*_numpy(pc.take(distinct, text.indices)))


def _only(values: Any, keep: Any) -> Any:
    return pc.if_else(keep, values, pa.scalar(None, values.type))


def _usable(ms: "NDArray[np.int64]", valid: "NDArray[np.bool_]") -> Any:
    return _arrow(ms, valid & (ms >= FIRST_USABLE_MS) & (ms <= LAST_USABLE_MS))


def _arrow(numbers: "NDArray[np.int64]", valid: "NDArray[np.bool_]") -> Any:
    return pa.array(numbers, pa.int64(), mask=~valid)


def _numpy(values: Any) -> "tuple[NDArray[Any], NDArray[np.bool_]]":
    """The values (0 for null), and which of them are not null."""
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    return values.fill_null(0).to_numpy(zero_copy_only=False), valid
