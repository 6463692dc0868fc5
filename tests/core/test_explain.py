"""Who is late: the planted cause comes first, chance does not, and what is bounded says so."""

import random
from collections import Counter

import msgspec
import numpy as np
import pytest
from wmtop.engine.core import explain
from wmtop.engine.core.explain import Explain, SeenChannel, SeenValue, SeenValues
from wmtop.engine.core.explain_clocks import DelayPoint
from wmtop.engine.core.snapshot import ExplainedColumn


def counted(late: dict[str, tuple[int, int]]) -> ExplainedColumn:
    """One batch of values with (late, records)."""
    it = Explain.of(["device"])
    seen = [SeenValue(0, name, records, late) for name, (late, records) in late.items()]
    it.add(SeenValues(seen), sum(value.records for value in seen), sum(value.late for value in seen))
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
    for batch in range(8):
        seen = [SeenValue(0, f"{batch}-{n}", 1, int(n < 10)) for n in range(400)]
        it.add(SeenValues([*seen, SeenValue(0, "hot", 600, 60), SeenValue(1, "y", 1_000, 70)]), 1_000, 70)
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


def test_what_can_be_missing_of_a_value_counts_against_its_lift() -> None:
    """A value that is late in one batch and was left out of the others may have been in each of them."""
    it = Explain.of(["id"])
    for _ in range(9):
        it.add(SeenValues([SeenValue(0, "hot", 900, 9)], unreported=[40]), 10_000, 100)
    it.add(SeenValues([SeenValue(0, "once", 40, 30), SeenValue(0, "hot", 900, 9)]), 10_000, 100)
    once = next(value for value in it.view()[0].values if value.value == "once")
    assert (once.late, once.records) == (30, 40)
    assert once.lift == pytest.approx(75)
    assert once.low is not None
    assert once.low < 7.5  # 30 of 400 records
    assert once.sure


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


def test_channels_with_most_late_records_are_explained_alone() -> None:
    it = Explain.of(["fw"])
    assert it.focus().channels is None
    of = {
        f"c{n}": SeenChannel(100, n, SeenValues([SeenValue(0, "x", 90, 0), SeenValue(0, "y", 10, n)])) for n in range(8)
    }
    it.add(SeenValues([SeenValue(0, "x", 720, 0), SeenValue(0, "y", 80, 28)], channels=of), 800, 28)
    it.choose_channels({f"c{n}": n for n in range(8)})
    assert it.focus().channels == [f"c{n}" for n in range(8)]
    shown = it.view()[0].channels
    assert [(channel.channel, channel.late, channel.values[0].value) for channel in shown[:2]] == [
        ("c7", 7, "y"),
        ("c6", 6, "y"),
    ]
    assert all(channel.records == 100 for channel in shown)
    it.choose_channels({**{f"c{n}": n for n in range(8)}, "late": 5, "latest": 11})
    assert set(it.focus().channels or ()) == {*(f"c{n}" for n in range(2, 8)), "latest", "late"}


def test_histograms_follow_the_values_that_lateness_depends_on() -> None:
    it = Explain.of(["fw"])
    for batch in range(3):
        seen = [SeenValue(0, f"v{n}", 100, n, behind={n: 2}) for n in range(12)]
        it.add(SeenValues(seen), 1_200, 66)
        assert it.focus().values[0][0] == "v11", batch
    values = it.view()[0].values
    assert (values[0].behind, values[0].behind_of) == ([*[0] * 11, 6], 300)
    assert [value.value for value in values if value.behind is None] == ["v3", "v2", "v1", "v0"]


def offsets(*of: tuple[str, float, float], drift_s: float = 0) -> dict[str, bool]:
    """What is found after 20 batches of 100 records a value: (name, median delay, spread) in s; the last one drifts."""
    it = Explain.of(["producer"])
    r = random.Random(3)
    for batch in range(20):
        seen: list[SeenValue] = []
        for number, (name, at, wide) in enumerate(of):
            at += r.uniform(-1, 1) + (drift_s * batch if number == len(of) - 1 else 0)
            point = DelayPoint(batch * 60_000, 100, (at - wide / 2) * 1e3, at * 1e3, (at + wide / 2) * 1e3)
            seen.append(SeenValue(0, name, 100, 0, (point,)))
        it.add(SeenValues(seen), 100 * len(of), 0)
        it = msgspec.json.decode(msgspec.json.encode(it), type=Explain)
    return {offset.value: offset.stable for offset in it.view()[0].offsets}


def test_a_clock_that_is_off_is_told_apart_from_slow_delivery() -> None:
    usual = [(f"p{n}", 5.0, 20.0) for n in range(6)]
    assert offsets(*usual) == {}
    assert offsets(*usual, ("ahead", -3_595.0, 20.0)) == {"ahead": True}
    assert offsets(*usual, ("behind", 3_605.0, 25.0)) == {"behind": True}
    assert offsets(*usual, ("slow", 1_800.0, 3_500.0)) == {"slow": False}
    wide = [(f"p{n}", 600.0 * n, 1_800.0) for n in range(7)]
    assert set(offsets(*wide, ("q", 5_400.0, 1_800.0)).values()) == {False}


def test_a_clock_that_drifts() -> None:
    usual = [(f"p{n}", 5.0, 120.0) for n in range(6)]
    assert offsets(*usual, ("behind", 5.0, 120.0), drift_s=2) == {"behind": True}
    assert offsets(*usual, ("ahead", 5.0, 120.0), drift_s=-2) == {"ahead": True}
    assert offsets(*usual, ("fine", 5.0, 120.0), drift_s=0.2) == {}


def test_single_records_show_their_spread_over_time() -> None:
    """A value with one record a batch: each has no spread, but they lie far apart."""
    it = Explain.of(["producer"])
    r = random.Random(4)
    for batch in range(300):
        rare = r.uniform(0, 3_600_000)
        points = [DelayPoint(batch, 100, -9_000, 0, 9_000), DelayPoint(batch, 1, rare, rare, rare)]
        it.add(
            SeenValues([SeenValue(0, "usual", 100, 0, (points[0],)), SeenValue(0, "rare", 1, 0, (points[1],))]), 101, 0
        )
    assert [(offset.value, offset.stable) for offset in it.view()[0].offsets] == [("rare", False)]
