"""The lateness that one value's records need, against counting their distances."""

import bisect
import random

from msgspec.structs import replace
from wmtop.engine.core.judgement.advice_of_value import ValueAdvice, advice_of_value
from wmtop.engine.core.settings import Settings
from wmtop.engine.core.snapshot import ExplainedColumn, ExplainedValue, Snapshot, Totals, WhatIf

EDGES = [0, 60_000, 300_000, 3_600_000, 86_400_000]


def snapshot(slow: list[int], others: list[int]) -> Snapshot:
    every = [*slow, *others]
    counts = [0] * len(EDGES)
    for distance in slow:
        if distance >= 0:
            counts[bisect.bisect_right(EDGES, distance) - 1] += 1
    value = ExplainedValue("old", 10, len(slow), 9.0, behind=counts, behind_of=len(slow))
    rows = [WhatIf(edge, 0, None, None, sum(distance >= edge for distance in every)) for edge in EDGES]
    column = ExplainedColumn("device", [value], late=10, records=len(every))
    return Snapshot(
        name="a", state="live", settings=Settings(), totals=Totals(records=len(every)), whatif=rows, explain=[column]
    )


def test_the_lateness_of_a_value_and_of_all_others() -> None:
    r = random.Random(1)
    slow = [r.randrange(-10_000, 3_000_000) for _ in range(2_000)]
    others = [r.randrange(-200_000, 250_000) for _ in range(8_000)]
    given = snapshot(slow, others)
    assert advice_of_value(given, "device", "old", 0.99) == ValueAdvice(3_600_000, 300_000)
    assert sum(distance >= 300_000 for distance in slow) > 20
    assert advice_of_value(given, "device", "new", 0.99) is None
    assert advice_of_value(given, "version", "old", 0.99) is None


def test_what_is_not_counted_from_the_start_says_nothing_of_the_others() -> None:
    given = snapshot([400_000] * 100, [0] * 900)
    column = (given.explain or [])[0]
    later = replace(column, values=[replace(column.values[0], records=150)])
    assert advice_of_value(replace(given, explain=[later]), "device", "old", 0.99) == ValueAdvice(3_600_000, None)
    unknown = replace(column, values=[replace(column.values[0], behind=None, behind_of=None)])
    assert advice_of_value(replace(given, explain=[unknown]), "device", "old", 0.99) is None
