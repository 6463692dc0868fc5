"""What every lateness costs, as numbers."""

from math import isclose

from wmtop.engine.snapshot import ChannelLateness, Snapshot, Totals, WhatIf
from wmtop.engine.text.formatting import horizon_words
from wmtop.tui.words.lateness import Curve, curve_of, horizons_of, moments, place_of, shown

from tests.snapshots import replace

from ..canned import DAY, EDGES, HOUR, MINUTE, attached, empty, live, recent

ROWS = [
    WhatIf(0, 50, 0.05, 10.0, 100), WhatIf(10, 20, 0.02, 20.0, 60), WhatIf(20, 1, 0.001, None, 10),
    WhatIf(50, 0, 0.0, 60.0, 0),
]  # fmt: skip


def known() -> Snapshot:
    channels = [ChannelLateness("a", 200, [40, 0, 10]), ChannelLateness("b", 0, [])]
    return live(whatif=ROWS, totals=Totals(records=1_000, late=20), lateness_by_channel=channels)


def curve(channel: str | None = None) -> Curve:
    found = curve_of(known(), channel)
    assert found is not None
    return found


def test_a_bar_has_the_records_between_two_edges_and_the_rest_was_on_time() -> None:
    assert curve().counts == [40, 50, 10, 0]
    assert curve().on_time == 900
    assert list(curve().shares) == [0.05, 0.02, 0.001, 0.0]


def test_of_a_channel_the_share_is_that_behind_the_watermark() -> None:
    assert curve("a").counts == [40, 0, 10, 0]
    assert curve("a").late == [50, 10, 10, 0]
    assert curve("a").shares == [0.25, 0.05, 0.05, 0.0]
    assert curve("a").delays == curve().delays
    assert curve("b").shares == [None] * 4


def test_nothing_is_made_up() -> None:
    assert curve_of(known(), "nobody") is None
    assert curve_of(empty()) is curve_of(attached()) is None


def test_mean_and_deviation_are_over_all_records_those_on_time_included() -> None:
    found = moments(curve())
    assert found is not None
    mean = (40 * 5 + 50 * 15 + 10 * 35) / 1_000
    assert isclose(found[0], mean)
    assert isclose(found[1] ** 2, (40 * 25 + 50 * 225 + 10 * 1_225) / 1_000 - mean**2)
    assert moments(curve("b")) is None


def test_what_is_drawn_holds_all_bars_and_all_values_with_an_edge_to_spare() -> None:
    full = curve_of(live())
    assert full is not None
    few = replace(full, counts=[0] * 5 + [3, 4] + [0] * (len(EDGES) - 7))
    assert shown(few, []) == (4, 8)
    assert shown(few, [EDGES[10], None]) == (4, 11)
    assert shown(few, [EDGES[1] + 1]) == (4, 8)  # below the records every lateness costs the same
    assert shown(replace(few, counts=[0] * len(EDGES)), []) == (0, len(EDGES) - 1)


def test_a_lateness_between_two_edges_belongs_to_the_lower_one() -> None:
    assert [place_of((0, 10, 20), value) for value in (0, 9, 10, 25)] == [0, 0, 1, 2]


def test_a_horizon_has_a_curve_of_its_own_and_the_delays_since_the_start() -> None:
    snapshot = live(whatif_recent=recent())
    assert horizons_of(snapshot) == [None, 15 * MINUTE, HOUR, DAY]
    hour, whole = curve_of(snapshot, horizon_ms=HOUR), curve_of(snapshot)
    assert hour is not None
    assert whole is not None
    assert (hour.records, hour.late[0], hour.shares[0], hour.counts[0]) == (30_000, 100, 100 / 30_000, 14)
    assert hour.delays == whole.delays
    assert [horizon_words(horizon) for horizon in (None, HOUR, DAY)] == ["since the start", "last 1h", "last 24h"]


def test_what_a_horizon_does_not_know_is_not_made_up() -> None:
    assert horizons_of(live()) == [None]
    assert curve_of(live(), horizon_ms=HOUR) is None
