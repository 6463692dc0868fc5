"""The one recommendation against a brute force that shares no code with it, over random histograms."""

from math import sqrt
from random import Random

import pytest
from wmtop.engine.snapshot import Note, RecentLateness, RecentRow, Snapshot, Totals, WhatIf
from wmtop.engine.snapshot.recommendation import Recommendation, recommendation
from wmtop.engine.text.codes import recommended_line
from wmtop.engine.watermarks.settings import Settings

from tests.snapshots import replace

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
HORIZONS = (15 * MINUTE, HOUR, DAY, None)
TARGETS = (0.5, 0.9, 0.977, 0.99, 0.999, 0.9999)
Counts = dict[int, int]
"""Late records by lateness (ms)."""


def upper_bound(late: int, records: int) -> float:
    """The greatest share p for which `late` is still within 1.96 standard errors of the expectation: the score test
    that Wilson's interval inverts, solved by bisection.
    """
    z, low, high = 1.959963984540054, late / records, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        if middle - late / records <= z * sqrt(middle * (1 - middle) / records):
            low = middle
        else:
            high = middle
    return low


def best(counts: Counts, records: int, target: float, in_force: int) -> int | None:
    """The least edge that is enough; None: none, or less than is in force on fewer than 1,000 records."""
    enough = sorted(edge for edge, late in counts.items() if upper_bound(late, records) <= 1 - target)
    return None if not enough or (records < 1_000 and enough[0] < in_force) else enough[0]


def random_counts(dice: Random) -> tuple[int, Counts]:
    """Records of a horizon, and how many are late at each edge: ever fewer, or none at all from some edge on."""
    records = dice.choice([0, 1, 44, 300, 999, 1_000, 3_837, 3_838, 20_000, 1_000_000])
    late, counts = dice.randrange(records + 1), Counts()
    for edge in sorted({0, 7 * MINUTE, *dice.sample(range(1, 3 * DAY), 12)}):
        counts[edge] = late
        late = int(late * dice.choice([0, 0.02, 0.3, 0.7, 1]))
    return records, counts


def recent(horizon_ms: int | None, records: int, counts: Counts) -> RecentLateness:
    rows = [
        RecentRow(edge, late, late / records if records else None, None, None, late) for edge, late in counts.items()
    ]
    return RecentLateness(horizon_ms, records, rows)


def snapshot(horizons: dict[int | None, tuple[int, Counts]], in_force: int = 7 * MINUTE) -> Snapshot:
    records, counts = horizons[None]
    return Snapshot(
        name="a",
        state="live",
        settings=Settings(lateness_ms=in_force),
        totals=Totals(records=records),
        whatif=[WhatIf(edge, late, None, 1_000.0 + edge, late) for edge, late in counts.items()],
        whatif_recent=[recent(horizon, *horizons[horizon]) for horizon in HORIZONS if horizon in horizons],
    )


@pytest.mark.parametrize("seed", range(300))
def test_it_is_what_trying_every_edge_of_every_horizon_gives(seed: int) -> None:
    dice = Random(seed)
    horizons = {horizon: random_counts(dice) for horizon in HORIZONS}
    in_force, target = dice.choice([0, 7 * MINUTE, *horizons[None][1]]), dice.choice(TARGETS)
    seen = snapshot(horizons, in_force)
    tried = {
        horizon: best(counts, records, target, in_force) for horizon, (records, counts) in horizons.items() if records
    }
    given = next(((horizon, edge) for horizon, edge in tried.items() if edge is not None), None)
    found = recommendation(seen, target)
    if given is None:
        assert found.lateness_ms is None
        assert found.reason is not None
    else:
        records, counts = horizons[given[0]]
        assert (found.horizon_ms, found.lateness_ms) == given
        assert (found.records, found.late, found.reason) == (records, counts[given[1]], None)
        assert found.high == pytest.approx(upper_bound(counts[given[1]], records))
    for horizon in HORIZONS:  # the asked one decides alone
        assert recommendation(seen, target, horizon).lateness_ms == tried.get(horizon)


def test_too_few_records_say_how_many_it_takes_even_without_a_late_one() -> None:
    for target in TARGETS:
        needs = next(n for n in range(1, 10**6) if n > 1 / (1 - target) and upper_bound(0, n) <= 1 - target)
        short = recommendation(snapshot({None: (needs - 1, {0: 0})}, 0), target)
        assert (short.lateness_ms, short.reason, short.needs, short.late) == (None, "too_few", needs, 0)
        if needs >= 1_000:
            assert recommendation(snapshot({None: (needs, {0: 0})}, 0), target).lateness_ms == 0
    line = recommended_line(recommendation(snapshot({None: (45, {0: 0})})))
    assert "45 records are too few: 99.9 % needs 3,838" in line


def test_less_than_is_in_force_needs_a_thousand_records() -> None:
    few = recommendation(snapshot({None: (999, {0: 0, 7 * MINUTE: 0})}), 0.99)
    assert (few.lateness_ms, few.reason, few.needs) == (None, "too_few_for_less", 1_000)
    assert recommendation(snapshot({None: (1_000, {0: 0, 7 * MINUTE: 0})}), 0.99).lateness_ms == 0
    longer = recommendation(snapshot({HOUR: (999, {0: 0}), None: (5_000, {0: 0})}), 0.99)
    assert (longer.horizon_ms, longer.lateness_ms) == (None, 0)


def test_where_no_edge_is_enough_it_says_how_many_are_late_at_the_greatest() -> None:
    found = recommendation(snapshot({None: (10_000, {0: 900, DAY: 40})}))
    assert (found.lateness_ms, found.reason, found.late) == (None, "too_late", 40)
    assert "40 of 10,000 records are late at any lateness" in recommended_line(found)


def test_what_is_not_known_is_not_recommended() -> None:
    bare = Snapshot(name="a", state="live", settings=Settings(lateness_ms=0))
    assert recommendation(bare) == Recommendation(0.999, reason="not_counted")
    one_batch = replace(snapshot({None: (10_000, {0: 0})}), notes=[Note(0, "one_batch", {"source": "files"})])
    assert (recommendation(one_batch).lateness_ms, recommendation(one_batch).reason) == (None, "one_batch")
