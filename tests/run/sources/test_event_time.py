"""Both converters agree with the table, and so with each other."""

import random
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from wmtop.engine.run.sources.arrow_times import holds_times, json_to_ms, text_to_ms, to_ms
from wmtop.engine.run.sources.event_time_sql import text_to_ms_sql
from wmtop.engine.system.json_values import TimeUnit, formats_of

from .time_cases import CASES, LAST, UNTYPED, Case
from .time_truth import BOUNDS, some, time_of, whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_arrow_converts(case: Case) -> None:
    assert to_ms(pa.array(case.values, case.kind), case.unit).to_pylist() == case.expected


def test_arrow_converts_untyped_text() -> None:
    texts, expected = zip(*UNTYPED, strict=True)
    assert text_to_ms(pa.array(texts, pa.string()), "ms").to_pylist() == list(expected)


@pytest.mark.parametrize(
    ("kind", "value", "unit", "expected"),
    [
        (pa.timestamp("ns"), -1, "ms", -1),
        (pa.timestamp("ns", "Europe/Berlin"), 1_999_999, "ms", 1),
        (pa.timestamp("ms"), LAST + 1, "ms", None),
        (pa.timestamp("s"), 2**62, "ms", None),
        (pa.date64(), 86_400_000, "ms", 86_400_000),
        (pa.uint64(), 2**64 - 1, "ns", None),
        (pa.uint8(), 255, "s", 255_000),
        (pa.large_string(), "2013-02-08", "ms", 1_360_281_600_000),
        (pa.dictionary(pa.int32(), pa.string()), "2013-02-08", "ms", 1_360_281_600_000),
        (pa.null(), None, "ms", None),
        (pa.decimal256(67, 3), Decimal("1360333930.123"), "s", 1_360_333_930_123),
        (pa.decimal256(67, 57), Decimal("0." + 57 * "9"), "s", 999),
        (pa.decimal256(67, 0), Decimal("9" * 67), "s", None),
    ],
    ids=str,
)
def test_arrow_converts_types_that_spark_has_not(kind: pa.DataType, value: object, unit: str, expected: int) -> None:
    if pa.types.is_timestamp(kind) or pa.types.is_date64(kind):
        values = pa.array([value], pa.int64()).cast(kind)
    else:
        values = pa.array([value], kind)
    assert to_ms(values, unit).to_pylist() == [expected]


@pytest.mark.parametrize(
    "kind", [pa.bool_(), pa.time32("s"), pa.binary(), pa.list_(pa.int64()), pa.duration("s")], ids=str
)
def test_other_types_hold_no_time(kind: pa.DataType) -> None:
    with pytest.raises(TypeError, match=re.escape(str(kind))):
        to_ms(pa.array([], kind), "ms")


@pytest.mark.parametrize(
    "kind",
    [pa.decimal128(10, -3), pa.decimal128(5, 40), pa.decimal256(68, 3), pa.decimal256(67, 58), pa.decimal256(76, -70)],
    ids=str,
)
def test_decimals_out_of_range_hold_no_time(kind: pa.DataType) -> None:
    assert not holds_times(kind)
    with pytest.raises(TypeError):
        to_ms(pa.array([None], kind), "s")


def test_chunks_are_one_column() -> None:
    assert to_ms(pa.chunked_array([[1], [], [2]], pa.int64()), "s").to_pylist() == [1_000, 2_000]
    assert to_ms(pa.chunked_array([], pa.int64()), "s").to_pylist() == []


def test_spark_converts_untyped_text(spark: "SparkSession") -> None:
    texts, expected = zip(*UNTYPED, strict=True)
    frame = spark.createDataFrame(pa.table({"text": pa.array(texts, pa.string())}))
    got = frame.selectExpr(f"{text_to_ms_sql('text', 'ms')} as ms").toArrow()["ms"].to_pylist()
    assert dict(zip(texts, got, strict=True)) == dict(zip(texts, expected, strict=True))


def test_mixed_values_are_read_by_their_size() -> None:
    r = random.Random(29)
    values = [some(r) for _ in range(20_000)]
    assert json_to_ms([*values, True, [1], {"a": 1}, 10**30], "auto").to_pylist() == [
        *map(time_of, values),
        *[None] * 4,
    ]
    texts = [None if value is None else str(value) for value in values]
    for got in (text_to_ms(pa.array(texts), "auto"), to_ms(pa.array(texts), "auto")):
        assert dict(zip(texts, got.to_pylist(), strict=True)) == {text: time_of(text) for text in texts}


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64(), pa.float64(), pa.decimal128(38, 6)], ids=str)
def test_mixed_columns_of_numbers_are_read_by_their_size(kind: pa.DataType) -> None:
    r = random.Random(7)
    values: list[Any] = [None, *(whole(r) for _ in range(20_000))]
    if kind == pa.uint64():
        values = [value and abs(value) for value in values] + [2**63, 2**64 - 1]
    if kind == pa.float64():
        values = [value and value / r.choice((1, 7, 1_000)) for value in values] + [float("nan"), float("-inf"), 1e300]
    if kind == pa.decimal128(38, 6):
        values = [value and Decimal(value) + Decimal("0.000999") for value in values if abs(value or 0) < 10**18]
        values += [Decimal(f"{sign}{bound - 1}.999999") for bound in BOUNDS for sign in ("", "-")]
    assert to_ms(pa.array(values, kind), "auto").to_pylist() == [time_of(value) for value in values]


def test_no_unit_applies_to_times_by_type() -> None:
    for unit in ("auto", "s", "ns"):
        assert to_ms(pa.array([1_700_000_000], pa.int64()).cast(pa.timestamp("s")), unit).to_pylist() == [
            1_700_000_000_000
        ]
        assert to_ms(pa.array([1], pa.int32()).cast(pa.date32()), unit).to_pylist() == [86_400_000]


def test_what_was_read_as_what() -> None:
    def read_as(values: list[Any], unit: TimeUnit = "auto") -> str | None:
        return formats_of(values, json_to_ms(values, unit).to_pylist(), unit)

    assert read_as([1_700_000_000.25, "1700000000", None, "never", 1_700_000_000_000, "2013-02-08"]) == (
        "epoch s, epoch ms, ISO 8601 (recognised)"
    )
    assert read_as([1_700_000_000, "2013-02-08"], "ms") == "epoch ms, ISO 8601"
    assert read_as([None, "never", True, 1e300]) is None


def test_spark_reads_mixed_texts_by_their_size(spark: "SparkSession") -> None:
    r = random.Random(3)
    texts = [None if (value := some(r)) is None else str(value) for _ in range(20_000)]
    frame = spark.createDataFrame(pa.table({"text": pa.array(texts, pa.string())}))
    got = frame.selectExpr(f"{text_to_ms_sql('text', 'auto')} as ms").toArrow()["ms"].to_pylist()
    assert dict(zip(texts, got, strict=True)) == {text: time_of(text) for text in texts}
