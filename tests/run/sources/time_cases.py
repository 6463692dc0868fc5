"""One table of times of every type, for the Arrow converter and for Spark's: what each is in ms (None: malformed)."""

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from msgspec import Struct
from wmtop.engine.system.json_values import TimeUnit

FIRST = -62_135_596_800_000
LAST = 253_402_300_799_999


class Case(Struct, frozen=True):
    """A column of one type, the unit of its numbers, and what it means."""

    name: str
    values: list[Any]
    kind: Any
    unit: TimeUnit
    expected: list[int | None]


def _case(name: str, kind: Any, unit: TimeUnit, pairs: list[tuple[Any, int | None]]) -> Case:
    return Case(name, [value for value, _ in pairs], kind, unit, [ms for _, ms in pairs])


TEXT = [
    ("2013-02-08T14:32:10Z", 1_360_333_930_000),
    ("2013-02-08 14:32:10", 1_360_333_930_000),
    ("2013-02-08T14:32:10.5", 1_360_333_930_500),
    ("2013-02-08T14:32:10.1239999999999999999", 1_360_333_930_123),
    ("2013-02-08T14:32:10.12+01:00", 1_360_330_330_120),
    ("2013-02-08T14:32:10-0530", 1_360_353_730_000),
    ("2013-02-08T14:32:10+02", 1_360_326_730_000),
    ("2013-02-08T14:32+18:00", 1_360_269_120_000),
    ("2013-02-08T14:32", 1_360_333_920_000),
    ("2013-02-08T14:32Z", 1_360_333_920_000),
    ("2013-02-08", 1_360_281_600_000),
    (" 2013-02-08 ", 1_360_281_600_000),
    ("2020-02-29", 1_582_934_400_000),
    ("2021-02-29", None),
    ("2021-02-30", None),
    ("2021-04-31T00:00:00Z", None),
    ("2021-13-01", None),
    ("2021-00-10", None),
    ("2021-01-00", None),
    ("2021-01-01T24:00:00", None),
    ("2021-01-01T23:60:00", None),
    ("2021-01-01T23:59:60", None),
    ("2021-01-01T10:00:00+19:00", None),
    ("2021-01-01T10:00:00+18:30", None),
    ("2021-01-01T10:00:00 UTC", None),
    ("2021-01-01T10:00:00 Europe/Berlin", None),
    ("2021-01-01T10:00:00.", None),
    ("2021-01-01T", None),
    ("2021-1-1", None),
    ("2021-01-01x", None),
    ("2021-01-01\n", None),
    ("20210101", 20_210_101),
    ("+2021-01-01", None),
    ("1969-12-31T23:59:59.9991Z", -1),
    ("1969-12-31T23:59:59.0009Z", -1_000),
    ("1900-03-01", -2_203_891_200_000),
    ("1582-10-10", -12_219_724_800_000),
    ("0001-01-01", FIRST),
    ("0001-01-01T00:00:00+00:01", None),
    ("0000-12-31", None),
    ("9999-12-31T23:59:59.9999", LAST),
    ("9999-12-31T23:59:59.999-00:01", None),
    ("later", None),
    ("", None),
    (None, None),
]
INTEGERS: list[tuple[Any, int | None]] = [(0, 0), (-1, -1), (1_360_333_930_123, 1_360_333_930_123), (None, None)]
INTEGERS += [(FIRST, FIRST), (FIRST - 1, None), (LAST, LAST), (LAST + 1, None), (2**63 - 1, None), (-(2**63), None)]
UTC = datetime.UTC
MICROS = [
    (datetime.datetime(2013, 2, 8, 14, 32, 10, 123_999), 1_360_333_930_123),
    (datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999), -1),
    (datetime.datetime(1, 1, 1), FIRST),
    (datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999), LAST),
    (None, None),
]

CASES = [
    _case("text", pa.string(), "ms", TEXT),
    _case("integers", pa.int64(), "ms", INTEGERS),
    _case(
        "seconds", pa.int64(), "s", [(1, 1_000), (-1, -1_000), (253_402_300_799, LAST - 999), (253_402_300_800, None)]
    ),
    _case("small seconds", pa.int16(), "s", [(1, 1_000), (-32_768, -32_768_000), (None, None)]),
    _case(
        "micros",
        pa.int64(),
        "us",
        [(1_999, 1), (-1, -1), (-1_000, -1), (-1_001, -2), (LAST * 1_000 + 999, LAST), (LAST * 1_000 + 1_000, None)],
    ),
    _case(
        "nanos",
        pa.int64(),
        "ns",
        [
            (1_360_333_930_123_999_999, 1_360_333_930_123),
            (-1, -1),
            (2**63 - 1, 9_223_372_036_854),
            (-(2**63) + 1, -9_223_372_036_855),
        ],
    ),
    _case(
        "floats",
        pa.float64(),
        "ms",
        [
            (1.0, 1),
            (1.9, 1),
            (-0.1, -1),
            (float("nan"), None),
            (float("inf"), None),
            (1e300, None),
            (-1e300, None),
            (None, None),
            (LAST + 1.0, None),
        ],
    ),
    _case(
        "float seconds",
        pa.float64(),
        "s",
        [(0.001, 1), (1_360_333_930.123, 1_360_333_930_123), (-0.0005, -1), (1.0000001, 1_000), (2.0005, 2_000)],
    ),
    _case("float nanos", pa.float64(), "ns", [(1.5e9, 1_500), (-1.0, 0), (-1_000.0, -1)]),
    _case("small floats", pa.float32(), "s", [(0.5, 500), (-0.5, -500)]),
    _case(
        "decimals",
        pa.decimal128(20, 4),
        "ms",
        [(Decimal("1.9999"), 1), (Decimal("-0.0001"), -1), (Decimal("253402300800000"), None), (None, None)],
    ),
    _case(
        "decimal seconds",
        pa.decimal128(20, 6),
        "s",
        [(Decimal("1360333930.123999"), 1_360_333_930_123), (Decimal("-0.000001"), -1)],
    ),
    _case(
        "decimal seconds of the greatest scale",
        pa.decimal128(38, 38),
        "s",
        [(Decimal("0." + 38 * "9"), 999), (Decimal("-0." + 37 * "0" + "1"), -1), (Decimal(0), 0), (None, None)],
    ),
    _case(
        "decimal seconds of the greatest precision",
        pa.decimal128(38, 0),
        "s",
        [(Decimal("9" * 38), None), (Decimal("-" + "9" * 38), None), (Decimal(1_360_333_930), 1_360_333_930_000)],
    ),
    _case(
        "decimal nanos",
        pa.decimal128(20, 0),
        "ns",
        [(Decimal(2**64 - 1), None), (Decimal(1_360_333_930_123_999_999), 1_360_333_930_123)],
    ),
    _case(
        "dates",
        pa.date32(),
        "ms",
        [
            (datetime.date(2013, 2, 8), 1_360_281_600_000),
            (datetime.date(1, 1, 1), FIRST),
            (datetime.date(9999, 12, 31), LAST - 86_399_999),
            (None, None),
        ],
    ),
    _case("timestamps", pa.timestamp("us", "UTC"), "s", [(at and at.replace(tzinfo=UTC), ms) for at, ms in MICROS]),
    _case("timestamps without zone", pa.timestamp("us"), "s", MICROS),
]

UNTYPED = [
    *TEXT,
    ("1360333930123", 1_360_333_930_123),
    ("-1", -1),
    (" 12 ", 12),
    ("00012", 12),
    ("9223372036854775808", None),
    ("99999999999999999999", None),
    (str(LAST + 1), None),
    ("1.5", 1),
    ("-0.5", -1),
    ("1.36e12", 1_360_000_000_000),
    ("1e99", None),
    ("1e999", None),
    ("+1", None),
    ("0x10", None),
    ("1_000", None),
    ("1,5", None),
    ("NaN", None),
]
"""What a CSV file may hold, numbers in ms."""
