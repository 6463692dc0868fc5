"""Paths into JSON values: what is refused is one short line."""

import pytest
from wmtop.engine.system.errors import UsageError
from wmtop.engine.system.json_path import MAX_STEPS, parse_json_path

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
