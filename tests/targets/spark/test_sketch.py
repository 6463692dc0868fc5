"""Tuple sketches: what Spark put in comes out, keys are found by their hash, damage is refused."""

import contextlib
import struct
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wmtop.engine.targets.spark.files import UnreadableError
from wmtop.engine.targets.spark.tapped import Sketch, decode_sketch, key_of, key_of_long

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

MANY = 20_000


def sketch(spark: "SparkSession", rows: list[tuple[Any, float]], kind: str, mode: str) -> Sketch:
    from pyspark.sql import functions as F

    aggregate: Column = F.tuple_sketch_agg_double("key", "value", 12, mode)
    [row] = spark.createDataFrame(rows, f"key {kind}, value double").repartition(3).agg(aggregate).collect()
    return decode_sketch(bytes(row[0]))


def test_strings_of_every_length(spark: "SparkSession") -> None:
    texts = [("channel ∆ 𝄞 " * 5)[:length] for length in range(1, 60)]
    rows = [(text, float(n + 1000 * again)) for n, text in enumerate(texts) for again in range(3)]
    found = sketch(spark, rows, "string", "max")
    assert found.theta == 2**63
    assert found.values == {key_of(text): 2000.0 + n for n, text in enumerate(texts)}


def test_longs_are_counted(spark: "SparkSession") -> None:
    longs = [0, 1, -1, 1_700_000_000_000, -(2**63), 2**63 - 1, *range(-1000, 1000, 7)]
    found = sketch(spark, [(number, 1.0) for number in longs for _ in range(1 + number % 5)], "long", "sum")
    keys = [key_of_long(number) for number in sorted(set(longs))]
    times = {number: (1 + number % 5) * longs.count(number) for number in set(longs)}
    assert found.values == dict(zip(keys, [float(times[number]) for number in sorted(set(longs))], strict=True))


def test_too_many_keys_are_a_sample_that_is_exact_itself(spark: "SparkSession") -> None:
    values = {f"key {n}": float(n % 97) for n in range(MANY)}
    found = sketch(spark, list(values.items()), "string", "max")
    assert found.theta < 2**63
    assert 0 < found.share < 0.5
    assert len(found.values) / found.share == pytest.approx(MANY, rel=0.1)
    by_key = {key_of(key): value for key, value in values.items()}
    assert found.values == {key: value for key, value in by_key.items() if key < found.theta}


def test_none_and_one(spark: "SparkSession") -> None:
    assert sketch(spark, [(None, 1.0)], "string", "sum") == Sketch({})
    assert sketch(spark, [("x", 1.5), ("x", 2.0)], "string", "sum") == Sketch({key_of("x"): 3.5})


def compact(values: dict[int, float], theta: int | None = None) -> bytes:
    """The form as Spark writes it."""
    longs = 3 if theta else 2 if len(values) != 1 else 1
    head = struct.pack("<BBBBxBH", longs if values or theta else 1, 3, 9, 1, 0x0A if values or theta else 0x0E, 37836)
    if not values and not theta:
        return head
    count = struct.pack("<i4x", len(values)) if longs > 1 else b""
    sample = struct.pack("<q", theta) if theta else b""
    return head + count + sample + b"".join(struct.pack("<QdB", *entry, 2) for entry in values.items())


@given(
    values=st.dictionaries(st.integers(0, 2**63 - 1), st.floats(allow_nan=False), max_size=20),
    theta=st.none() | st.integers(1, 2**63 - 1),
)
def test_what_was_written_is_read(values: dict[int, float], theta: int | None) -> None:
    found = decode_sketch(compact(values, theta))
    assert found.values == values
    assert found.theta == (theta or 2**63)


WHOLE = compact({n << 50: float(n) for n in range(9)}, 2**62)


@settings(max_examples=300)
@given(data=st.data())
def test_damage_is_refused_in_one_way_only(data: st.DataObject) -> None:
    content = bytearray(WHOLE)
    at = data.draw(st.integers(0, len(content)))
    content[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    refused(bytes(content))


@given(content=st.binary(max_size=60))
def test_noise_is_refused_in_one_way_only(content: bytes) -> None:
    refused(content)
    refused(WHOLE[:8] + content)


def refused(content: bytes) -> None:
    """It is a sketch, or one line says why not."""
    with contextlib.suppress(UnreadableError):
        decode_sketch(content)


def test_what_was_cut_is_refused() -> None:
    for size in range(len(WHOLE)):
        with pytest.raises(UnreadableError):
            decode_sketch(WHOLE[:size])


@pytest.mark.parametrize(
    ("at", "byte", "why"),
    [(1, 2, "not a compact tuple"), (2, 3, "not a compact tuple"), (3, 0, "not a compact"), (6, 0, "seed")],
)
def test_other_sketches_are_recognised(at: int, byte: int, why: str) -> None:
    content = bytearray(WHOLE)
    content[at] = byte
    with pytest.raises(UnreadableError, match=why):
        decode_sketch(bytes(content))
