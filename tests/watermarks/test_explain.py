"""Who is late: the planted cause comes first, chance does not, and what is bounded says so."""

import random
from collections import Counter

import msgspec
import numpy as np
import pytest
from wmtop.engine.snapshot import ExplainedColumn
from wmtop.engine.watermarks import explain
from wmtop.engine.watermarks.explain import Count, Explain, Values, merged


def batch(values: dict[str, tuple[int, int]], uncounted: int = 0) -> Values:
    """Values with (late, records)."""
    return Values({name: Count(late, records) for name, (late, records) in values.items()}, uncounted)


def counted(values: dict[str, tuple[int, int]]) -> ExplainedColumn:
    """One batch of values with (late, records)."""
    it = Explain.of(["device"])
    it.add([batch(values)], sum(of for _, of in values.values()), sum(late for late, _ in values.values()))
    return it.view()[0]


def test_the_cause_comes_before_values_that_are_late_by_chance_or_only_frequent() -> None:
    r = random.Random(1)
    for _ in range(8):
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
    for number in range(8):
        ids = {f"{number}-{n}": (int(n < 10), 1) for n in range(400)}
        it.add([batch({**ids, "hot": (60, 600)}), batch({"y": (70, 1_000)})], 1_000, 70)
    ids, other = it.view()
    kept = it.columns["id"].counts
    assert len(kept) <= explain.MAX_VALUES
    assert ids.values[0].value == "hot"
    assert (ids.values[0].late, ids.values[0].records) == (480, 4_800)
    assert ids.approximate
    assert sum(value.records for value in kept.values()) + ids.other_records == 8_000
    assert sum(value.late for value in kept.values()) + ids.other_late == 560
    assert (other.approximate, other.other_records, other.values[0].late) == (False, 0, 560)
    assert msgspec.json.decode(msgspec.json.encode(it), type=Explain) == it


def test_a_dropped_value_that_comes_back_may_lack_as_many_records_as_it_had() -> None:
    values = batch({f"v{n}": (1, 2) for n in range(explain.MAX_VALUES)} | {"back": (0, 7)})
    values.add(Values())
    assert "back" not in values.counts
    values.add(batch({"back": (5, 5)}))
    assert values.counts["back"] == Count(5, 5, missed=7)
    values.add(batch({"other": (3, 3)}, uncounted=4))
    assert values.counts["back"].missed == 11


def test_what_can_be_missing_of_a_value_counts_against_its_lift() -> None:
    """A value that is late in one batch and was left out of the others may have been in each of them."""
    it = Explain.of(["id"])
    for _ in range(9):
        it.add([batch({"hot": (9, 900)}, uncounted=40)], 10_000, 100)
    it.add([batch({"once": (30, 40), "hot": (9, 900)})], 10_000, 100)
    once = next(value for value in it.view()[0].values if value.value == "once")
    assert (once.late, once.records) == (30, 40)
    assert once.lift == pytest.approx(75)
    assert once.low is not None
    assert once.low < 7.5  # 30 of 400 records
    assert once.sure


def test_reports_add_up_whatever_their_order() -> None:
    reports = [
        [Values({"a": Count(1, 5)}), Values({"x": Count(0, 2)}, 3)],
        [Values({"b": Count(0, 2)}), Values({"y": Count(2, 2)}, 1)],
    ]
    assert merged(reports, 2) == merged(reports[::-1], 2)
    assert merged(reports, 2) == [
        Values({"a": Count(1, 5), "b": Count(0, 2)}),
        Values({"x": Count(0, 2, missed=1), "y": Count(2, 2, missed=3)}, 4),
    ]


def test_no_value_is_sure_by_chance() -> None:
    """240 draws of a column that lateness does not depend on, and one that it does."""
    r = np.random.default_rng(7)
    named = 0
    for draw in range(240):
        size = (3, 30, 300)[draw % 3]
        values, late = r.integers(0, size, 5_000), r.random(5_000) < (0.2, 0.01)[draw % 2]
        names = {f"v{n}": (int(late[values == n].sum()), int((values == n).sum())) for n in range(size)}
        named += sum(value.sure for value in counted({name: of for name, of in names.items() if of[1]}).values)
    assert named <= 3  # one in a thousand is allowed
    assert counted({"a": (60, 500), "b": (60, 1_500), "c": (60, 1_500)}).values[0].sure


def test_values_that_are_never_late_make_no_other_one_sure() -> None:
    rest = {f"p{n}": (200 + n, 20_000) for n in range(7)}
    assert not any(value.sure for value in counted({**rest, "ahead": (0, 20_000)}).values)
    assert [value.value for value in counted({**rest, "cause": (400, 20_000)}).values if value.sure] == ["cause"]
