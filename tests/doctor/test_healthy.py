"""No false alarm: whatever a healthy stream looks like, and all through a real one that is set up well."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wmtop.engine.doctor import Finding, diagnose
from wmtop.engine.feed.recording_reader import RecordingReader
from wmtop.engine.snapshot import Level, Reason, Snapshot, Totals, Verdict, VerdictName
from wmtop.engine.verdict.history import HistoryPoint

from tests.snapshots import replace

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


def test_nor_has_an_attached_query_of_which_little_is_known() -> None:
    unknown = Totals(None, None, None, None, None, None)
    snapshot = healthy([], totals=unknown, whatif=None, whatif_idle=None, origin={"level": "checkpoint"}, source=None)
    level = Level(NOW - LATENESS, None, LATENESS)
    settings = replace(snapshot.settings, lateness_ms=None, window=None, idle_after_ms=None)
    assert found(replace(snapshot, level=level, settings=settings)) == {}


@pytest.mark.parametrize("verdict", ["stalled", "slow", "unknown"])
@given(streams())
def test_no_bad_verdict_is_an_all_clear(verdict: VerdictName, stream: tuple[Snapshot, list[HistoryPoint]]) -> None:
    snapshot, past = stream
    judged = replace(snapshot, verdict=Verdict(verdict, reason=Reason("too_short")))
    assert diagnose(judged, past)
    assert diagnose(judged, [])


def diagnosed(path: Path) -> Iterator[tuple[VerdictName, list[Finding]]]:
    """Verdict and findings at each snapshot of a recording; only before the first advance it cannot be told."""
    with RecordingReader(path) as recording:
        for number, snapshot in enumerate(recording, 1):
            past = [point for point in recording.points[:number] if point is not None]
            verdict, found = snapshot.verdict.verdict, diagnose(snapshot, past)
            assert (verdict == "unknown") == (number == 1) == any(one.code == "cannot-tell-yet" for one in found)
            yield verdict, [finding for finding in found if finding.code != "cannot-tell-yet"]


def test_a_day_of_real_flights_with_the_lateness_that_they_need_has_the_findings_of_its_night_alone() -> None:
    """A channel that stops holds the watermark back for the idle timeout of 2h; at night the others stop as well."""
    said = list(diagnosed(FLIGHTS / "flights-lateness-3h.rec"))
    assert len(said) == 40
    bad = [(verdict, [finding.code for finding in findings]) for verdict, findings in said if findings]
    assert bad == [("stalled", ["silent-channels"]), *[("slow", ["watermark-slow"])] * 5]


def test_with_too_little_lateness_that_is_all_that_is_wrong_while_it_moves() -> None:
    said = list(diagnosed(FLIGHTS / "flights-lateness-30m.rec"))
    moving = [finding for verdict, findings in said for finding in findings if verdict == "moving"]
    assert {finding.code for finding in moving} == {"lateness-too-small"}
    assert {verdict for verdict, _ in said} == {"unknown", "moving", "slow"}
    last = moving[-1]
    assert last.code == "lateness-too-small"
    [fix] = last.fixes
    assert fix.value_ms is None  # of hundreds of records no lateness for 99.9 % can be read
    assert "3,838" in fix.text
