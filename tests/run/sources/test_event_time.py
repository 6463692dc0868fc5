"""Both converters agree with the table, and so with each other."""

import re
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from wmtop.engine.run.sources.base import untyped_to_ms_sql
from wmtop.engine.system.event_time import holds_times, to_ms, untyped_to_ms

from .time_cases import CASES, LAST, UNTYPED, Case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_arrow_converts(case: Case) -> None:
    assert to_ms(pa.array(case.values, case.kind), case.unit).to_pylist() == case.expected


def test_arrow_converts_untyped_text() -> None:
    texts, expected = zip(*UNTYPED, strict=True)
    assert untyped_to_ms(pa.array(texts, pa.string()), "ms").to_pylist() == list(expected)


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
    got = frame.selectExpr(f"{untyped_to_ms_sql('text', 'ms')} as ms").toArrow()["ms"].to_pylist()
    assert dict(zip(texts, got, strict=True)) == dict(zip(texts, expected, strict=True))
