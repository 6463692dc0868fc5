"""Rules about lateness go by recent records where enough of them came, and say so."""

import pytest
from msgspec.structs import replace
from wmtop.engine.snapshot.recommendation import recommendation
from wmtop.engine.watermarks.settings import Settings, Tumbling

from .streams import HOUR, MINUTE, SECOND, SETTINGS, Record, Stream, traffic

pytestmark = pytest.mark.hours

QUARTER = 15 * MINUTE


def test_a_burst_has_a_fix_that_the_last_quarter_of_an_hour_supports() -> None:
    stream = Stream().run(1_200, traffic("abcd", each=6))

    def burst(now: int) -> list[Record]:
        return [*traffic("abcd", each=3)(now), *(("b", now - 5 * MINUTE) for _ in range(12))]

    [found] = stream.run(120, burst).findings()
    assert found.code == "lateness-too-small"
    assert stream.snapshot is not None
    [fix] = found.fixes
    advised = recommendation(stream.snapshot)
    assert (fix.code, fix.value_ms, fix.horizon_ms) == ("set-lateness", advised.lateness_ms, QUARTER)
    [quarter] = [part for part in stream.snapshot.whatif_recent or () if part.horizon_ms == QUARTER]
    late = {row.lateness_ms: row.late for row in quarter.rows}
    assert late[fix.value_ms or 0] * 1_000 <= quarter.records


def test_what_only_older_records_needed_is_too_large_now() -> None:
    """A lateness of an hour that a bad first quarter needed, and the last day no longer does."""
    settings = Settings(lateness_ms=HOUR, idle_after_ms=2 * HOUR, window=Tumbling(MINUTE))
    bad = traffic("abcd", each=5, disorder=50 * MINUTE)
    stream = Stream(settings).run(200, bad, by=30 * SECOND)
    stream.run(800, traffic("abcd", each=5), by=2 * MINUTE)
    [found] = [one for one in stream.findings() if one.code == "lateness-too-large"]
    assert found.fixes[0].horizon_ms == 24 * HOUR
    assert found.fixes[0].value_ms is not None
    assert found.fixes[0].value_ms <= 10 * SECOND
    assert stream.snapshot is not None
    older = replace(stream.snapshot, whatif_recent=None)
    stream.snapshot = older
    assert not [one for one in stream.findings() if one.code == "lateness-too-large"]


def test_without_recent_figures_it_goes_by_all_records() -> None:
    stream = Stream(replace(SETTINGS, lateness_ms=0)).run(300, traffic("abcd", each=5, disorder=20 * SECOND))
    assert stream.snapshot is not None
    stream.snapshot = replace(stream.snapshot, whatif_recent=None)
    [found] = stream.findings()
    assert found.code == "lateness-too-small"
    assert (found.fixes[0].code, found.fixes[0].horizon_ms) == ("set-lateness", None)
