"""No false alarm: whatever a healthy stream looks like, and all through a real one that is set up well."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from wmtop.engine.core.doctor import Finding, diagnose
from wmtop.engine.core.doctor.costs import LatenessTooSmall
from wmtop.engine.core.history import HistoryPoint
from wmtop.engine.core.snapshot import Level, Snapshot, Totals
from wmtop.engine.feed.recording import RecordingReader

from tests.tui import canned

from .patients import LATENESS, NOW, SECOND, before, channel, found, healthy

FLIGHTS = Path(__file__).parent


@st.composite
def streams(draw: st.DrawFn) -> tuple[Snapshot, list[HistoryPoint]]:
    """Channels a few seconds apart, some idle, some late records, a backlog now and then, batches of up to a second."""
    count = draw(st.integers(1, 12))
    behind = draw(st.lists(st.integers(0, 12 * SECOND), min_size=count, max_size=count))
    views = [channel(f"c{place}", ms, quiet_ms=200 + place, late=draw(st.integers(0, 900)))
             for place, ms in enumerate(behind)]  # fmt: skip
    idle = draw(st.sets(st.integers(1, count), max_size=count - 1))
    views = [replace(view, state="idle", flaps=2, quiet_ms=900 * SECOND) if place in idle else view
             for place, view in enumerate(views)]  # fmt: skip
    snapshot = healthy(views, totals=Totals(records=200_000, late=draw(st.integers(0, 4_000))))
    lag = draw(st.integers(0, 9 * SECOND))
    rounds = draw(st.lists(st.tuples(*(st.integers(0, most) for most in (850, 4, 900))), min_size=1, max_size=9))

    def at(ago: int, field: int) -> int:
        return rounds[ago % len(rounds)][field]

    return snapshot, before(
        snapshot,
        behind_fastest_ms=lambda ago: lag,
        batch_ms=lambda ago: 150 + at(ago, 0),
        open_windows=lambda ago: at(ago, 1),
        backlog=lambda ago: at(ago, 2),
    )


@given(streams())
def test_a_healthy_stream_has_no_findings(stream: tuple[Snapshot, list[HistoryPoint]]) -> None:
    assert diagnose(*stream) == []


@pytest.mark.parametrize("build", [canned.live, canned.many, canned.one, canned.instances, canned.empty, canned.ended])
def test_nor_have_the_canned_ones(build: object) -> None:
    snapshot: Snapshot = build()  # type: ignore[operator]
    assert found(snapshot, canned.lags()) == {}


def test_nor_has_a_query_of_others_of_which_little_is_known() -> None:
    unknown = Totals(None, None, None, None, None, None)
    snapshot = healthy([], totals=unknown, whatif=None, whatif_idle=None, origin={"level": "checkpoint"}, source=None)
    level = Level(NOW - LATENESS, None, LATENESS)
    settings = replace(snapshot.settings, lateness_ms=None, window=None, idle_after_ms=None)
    assert found(replace(snapshot, level=level, settings=settings)) == {}


def told(path: Path) -> Iterator[list[Finding]]:
    """What the doctor says at each snapshot of a recording."""
    with RecordingReader(path) as recording:
        for number, snapshot in enumerate(recording, 1):
            past = [point for point in recording.points[:number] if point is not None]
            yield diagnose(snapshot, past)


def test_a_day_of_real_flights_with_the_lateness_that_they_need_has_no_findings() -> None:
    said = list(told(FLIGHTS / "flights-lateness-3h.rec"))
    assert len(said) == 40
    assert [finding for findings in said for finding in findings] == []


def test_with_too_little_lateness_that_is_all_that_is_wrong() -> None:
    said = [finding for findings in told(FLIGHTS / "flights-lateness-30m.rec") for finding in findings]
    assert {type(finding) for finding in said} == {LatenessTooSmall}
    last = said[-1]
    assert isinstance(last, LatenessTooSmall)
    assert last.needed_ms == 3 * canned.HOUR
