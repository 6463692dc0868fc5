"""The monitor against the reference: random runs in lockstep, to the record and the line."""

from hypothesis import given
from hypothesis import strategies as st
from wmtop.engine.watermarks.settings import Settings

from ..reference.ops import Op, in_batches, in_replay_order
from . import scripts
from .examples import examples
from .lockstep import Lockstep, compare

Run = tuple[Settings, list[Op]]


@examples(250)
@given(scripts.runs(["bounded"]))
def test_bounded(run: Run) -> None:
    check(run)


@examples(120)
@given(scripts.runs(["bounded-legacy", "smoothed"]))
def test_other_strategies_with_a_lateness(run: Run) -> None:
    check(run)


@examples(80)
@given(scripts.runs(["spark"]))
def test_spark(run: Run) -> None:
    check(run)


@examples(200)
@given(scripts.runs(["monotonous", "punctuated", "source", "none"]))
def test_strategies_without_a_lateness(run: Run) -> None:
    check(run)


@examples(120)
@given(scripts.runs(["bounded"], scripts.windows(["session"])))
def test_sessions(run: Run) -> None:
    check(run)


@st.composite
def files(draw: st.DrawFn) -> tuple[Settings, list[Op]]:
    """A file in replay order, and `--batch-rows`."""
    of = draw(scripts.settings([*scripts.TUNABLE, *scripts.FIXED], scripts.windows()))
    arrivals = sorted(draw(st.lists(st.integers(0, 40), max_size=30)))
    rows = [scripts.row(draw, of.strategy, arrival) for arrival in arrivals]
    return of, in_batches(in_replay_order(rows), draw(st.integers(1, 9)))


@examples(150)
@given(files())
def test_reproducible_runs(run: Run) -> None:
    check(run)


def check(run: Run) -> None:
    """Both agree after every op, and what they agree on adds up."""
    both = compare(*run)
    totals = both.driver.snapshot().totals
    lines = [line for op in both.reference.firings for line in op]
    assert sum(line["records"] for line in lines if line["kind"] == "late") == totals.late
    assert sum(line["firings"] for line in lines if line["kind"] == "late_fire") == both.reference.late_firings
    assert totals.records + totals.malformed == both.rows == both.driver.monitor.rows
    assert_nothing_lost(both)


def assert_nothing_lost(both: Lockstep) -> None:
    """Where a record is in one window only, each is in the last content of its window, late, or in none."""
    spec = both.reference.settings.window
    if getattr(spec, "size_ms", 0) > getattr(spec, "slide_ms", 0) or both.reference.windows.allowed:
        return
    totals = both.driver.snapshot().totals
    fired = [line for op in both.reference.firings for line in op if line["kind"] == "fire"]
    assert sum(line["records"] for line in fired) + totals.late + totals.no_window == totals.records
