"""Paths into JSON values: what is refused is one short line."""

import pytest
from wmtop.engine.kafka.cluster import Record, TopicPartition, time_in, why_none_in
from wmtop.engine.system.errors import UsageError
from wmtop.engine.system.json_values import MAX_STEPS, JsonPath, parse_json_path

from .refusals import refused


def test_steps() -> None:
    assert parse_json_path("$.a.b[0]['c d']", "--time").steps == ("a", "b", 0, "c d")
    assert parse_json_path("$[999999999]", "--time").steps == (999_999_999,)


@pytest.mark.parametrize("digits", [10, 30, 5_000])
def test_an_index_that_spark_cannot_read(digits: int) -> None:
    with pytest.raises(UsageError) as caught:
        parse_json_path(f"$.a[{'9' * digits}]", "--time")
    said = str(caught.value)
    assert said.startswith("--time ")
    assert f"{digits} digits" in said
    assert "\n" not in said
    assert len(said) < 200


@pytest.mark.parametrize("steps", [MAX_STEPS + 1, 100_000])
def test_a_path_too_deep_for_a_recursive_parser(steps: int) -> None:
    assert len(parse_json_path("$" + ".a" * MAX_STEPS, "--time").steps) == MAX_STEPS
    with refused(UsageError, "", steps, MAX_STEPS):
        parse_json_path("$" + ".a" * steps, "--time")


def test_a_path_with_a_line_break_is_refused_in_one_line() -> None:
    with refused(UsageError, "", "--time"):
        parse_json_path("a b\nc", "--time")


@pytest.mark.parametrize(
    "value", [b'{"ts\xf6": 1}', b'{"ts": ' * 5_000, b'{"ts": ' + b"[" * 5_000, b"\0\0\0\0\0{", b"\xff"]
)
def test_a_record_that_is_no_json_has_no_time(value: bytes) -> None:
    """Neither bytes that are not text nor a nesting without end is an error of the command."""
    record, path = Record(TopicPartition("orders", 0), 7, 0, None, value), JsonPath(("ts",))
    assert time_in(record, path) is None
    assert why_none_in(record, path)[1] == "not_json"
