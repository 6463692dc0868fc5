"""Who is late: the planted cause comes first, chance does not, and what is bounded says so."""

import random
from collections import Counter

import msgspec
import pytest
from wmtop.engine.core import explain
from wmtop.engine.core.explain import Delays, Explain, SeenValue
from wmtop.engine.core.snapshot import ExplainedColumn


def counted(late: dict[str, tuple[int, int]]) -> ExplainedColumn:
    """One batch of values with (late, records)."""
    it = Explain.of(["device"])
    seen = [SeenValue(0, name, records, late) for name, (late, records) in late.items()]
    it.add(seen, sum(value.records for value in seen), sum(value.late for value in seen))
    return it.view()[0]


def test_the_cause_comes_before_values_that_are_late_by_chance_or_only_frequent() -> None:
    r = random.Random(1)
    for _ in range(30):
        late, records = Counter[str](), Counter[str]()
        for number in range(20_000):
            name = "cause" if r.random() < 0.02 else "usual" if r.random() < 0.5 else f"rare-{number // 3}"
            records[name] += 1
            late[name] += r.random() < (0.3 if name == "cause" else 0.01)
        (first, *_) = counted({name: (late[name], records[name]) for name in records}).values
        assert first.value == "cause"
        assert first.low is not None
        assert first.low > 5


def test_lift_and_its_interval() -> None:
    value, rest = counted({"a": (30, 100), "b": (10, 300)}).values
    assert value.value == "a"
    assert (value.late, value.records, value.lift) == (30, 100, pytest.approx(3))
    assert rest.lift is not None
    assert abs(rest.lift - (10 / 40) / (300 / 400)) < 1e-12
    assert value.low is not None
    assert value.high is not None
    assert 1 < value.low < 3 < value.high
    assert [each.lift for each in counted({"a": (0, 5)}).values] == [None]


def test_what_is_bounded_keeps_all_counts_and_says_so() -> None:
    it = Explain.of(["id", "x"])
    for batch in range(8):
        seen = [SeenValue(0, f"{batch}-{n}", 1, int(n < 10)) for n in range(400)]
        it.add([*seen, SeenValue(0, "hot", 600, 60), SeenValue(1, "y", 1_000, 70)], 1_000, 70)
    ids, other = it.view()
    assert len(it.columns[0].values) <= explain.MOST_VALUES
    assert ids.values[0].value == "hot"
    assert (ids.values[0].late, ids.values[0].records) == (480, 4_800)
    assert ids.approximate
    kept = it.columns[0].values.values()
    assert sum(value.records for value in kept) + ids.other_records == 8_000
    assert sum(value.late for value in kept) + ids.other_late == 560
    assert (other.approximate, other.other_records, other.values[0].late) == (False, 0, 560)
    assert msgspec.json.decode(msgspec.json.encode(it), type=Explain) == it


def offsets(*of: tuple[str, float, float]) -> dict[str, bool]:
    """What is found after five batches of 100 records a value: (name, median delay, spread) in s."""
    it = Explain.of(["producer"])
    for _ in range(5):
        seen = [
            SeenValue(0, name, 100, 0, Delays((at - wide / 2) * 1e3, at * 1e3, (at + wide / 2) * 1e3))
            for name, at, wide in of
        ]
        it.add(seen, 100 * len(of), 0)
    return {offset.value: offset.stable for offset in it.view()[0].offsets}


def test_a_clock_that_is_off_is_told_apart_from_slow_delivery() -> None:
    usual = [(f"p{n}", 5.0, 20.0) for n in range(6)]
    assert offsets(*usual) == {}
    assert offsets(*usual, ("ahead", -3_595.0, 20.0)) == {"ahead": True}
    assert offsets(*usual, ("behind", 3_605.0, 25.0)) == {"behind": True}
    assert offsets(*usual, ("slow", 1_800.0, 3_500.0)) == {"slow": False}
    wide = [(f"p{n}", 600.0 * n, 1_800.0) for n in range(7)]
    assert set(offsets(*wide, ("q", 5_400.0, 1_800.0)).values()) == {False}
