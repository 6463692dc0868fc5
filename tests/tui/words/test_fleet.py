"""A row of the fleet: a verdict that is not good has a reason, and the target a kind."""

from collections.abc import Callable

import pytest
from wmtop.engine.snapshot import Reason, Snapshot, Verdict
from wmtop.tui.words.fleet import fleet_row, kind_of, layout, ordered
from wmtop.tui.words.spans import cells, row_line

from tests.snapshots import replace

from .. import attached, canned


@pytest.mark.parametrize("build", [canned.live, canned.failed, canned.stalled, attached.stale, attached.tapped])
def test_a_verdict_that_is_not_good_has_a_reason(build: Callable[[], Snapshot]) -> None:
    row = fleet_row("orders", "", build(), (), None)
    assert bool(row.reason) == (row.verdict not in ("moving", "waiting", "ended")), row


def test_what_is_lost_is_worse_than_what_has_been_watched_for_too_short_a_time() -> None:
    young = fleet_row(
        "a",
        "",
        replace(canned.live(), verdict=Verdict(patience_ms=60_000, reason=Reason("too_short", ms=5_000))),
        (),
        None,
    )
    assert "5s" in young.reason
    rows = ordered([young, fleet_row("b", "", None, (), "no broker answers")])
    assert [(row.target, row.verdict) for row in rows] == [("b", "unknown"), ("a", "unknown")]


def test_the_kind_is_the_sources_where_the_address_does_not_say_it() -> None:
    assert kind_of("", canned.live()) == "run"
    assert kind_of("recording", canned.live()) == "recording"
    tapped = attached.tapped()
    assert tapped.source is not None
    assert kind_of("", tapped) == tapped.source.kind


@pytest.mark.parametrize("width", [80, 120])
def test_a_reason_without_room_ends_after_a_clause_and_keeps_the_name(width: int) -> None:
    row = fleet_row("gone", "", None, (), "there is no directory /data/checkpoints/orders: " + "give another, " * 20)
    line = row_line(layout([row], width), row)
    assert line[-1][0] == "there is no directory …/orders"
    assert cells(line) <= width
