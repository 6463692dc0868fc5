"""Verdict, moved_ms, timers and blockers of random runs, against a reading of section 11 that shares no code."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from wmtop.engine.verdict.verdict import Judge, judge_monitor
from wmtop.engine.watermarks.settings import Session, Settings
from wmtop.engine.watermarks.times import MIN

from ..reference.ops import Batch, Finished, Gone, Known, Op, Tick
from ..reference.run import Reference
from ..watermarks import scripts
from ..watermarks.examples import examples
from ..watermarks.lockstep import Driver, Lockstep
from .judgement_reference import Moment, VerdictReference, expected_blockers

Run = tuple[Settings, list[Op]]


def window_of(settings: Settings) -> int:
    spec = settings.window
    return spec.gap_ms if isinstance(spec, Session) else spec.size_ms  # type: ignore[union-attr]


def moment_of(reference: Reference, batches: int, now: int, unread: int | None) -> Moment:
    clock = reference.clock
    return Moment(
        now=now,
        level=None if clock.level == MIN else clock.level,
        batches=batches,
        # A channel that comes back after it had finished or was removed is a new one.
        event_times={
            f"{c.name} {c.came}": c.generator.greatest for c in clock.in_order() if c.generator.greatest is not None
        },
        records=reference.totals.records,
        unread=unread,
        ended=reference.ended is not None,
    )


HORIZONS: list[tuple[int | None, int | None]] = [(4, None), (7, None), (12, None), (None, 5), (None, None), (1, None)]


@examples(300)
@given(
    scripts.runs([*scripts.TUNABLE, *scripts.FIXED]),
    st.sampled_from(HORIZONS),
    st.lists(st.sampled_from([0, 0, 3, None])),
)
def test_the_verdict(run: Run, horizon: tuple[int | None, int | None], unread: list[int | None]) -> None:
    settings, ops = run
    driver, reference = Driver(settings), Reference(settings)
    driver.monitor.history.horizon_ms, driver.monitor.history.least_ms = horizon
    verdicts = VerdictReference(window_of(settings), *horizon)
    judge, batches = Judge(), 0
    now: int | None = None
    for place, op in enumerate(ops):
        driver.apply(op)
        reference.apply(op)
        batches += isinstance(op, Batch)
        now = getattr(op, "now", now)
        if not verdicts.moments and not (isinstance(op, Batch | Tick) or (isinstance(op, Known) and op.names)):
            continue  # nothing to observe yet
        assert now is not None
        left = unread[place % len(unread)] if unread else 0
        found = judge_monitor(judge, driver.monitor, now, unread=left)
        assert (found.verdict, found.since_ms) == verdicts.see(moment_of(reference, batches, now, left)), (place, op)


@examples(300)
@given(scripts.runs([*scripts.TUNABLE, *scripts.FIXED]))
def test_the_blockers(run: Run) -> None:
    settings, ops = run
    both, recombined = Lockstep(settings), True
    for op in ops:
        both.apply(op)
        # An instance that a split has left recombines at the next emit: until then its holder is the one of before.
        if isinstance(op, Batch | Tick | Finished | Gone):
            recombined = settings.subtasks is None or isinstance(op, Batch | Tick)
        snapshot = both.driver.snapshot()
        if settings.strategy == "spark":
            assert snapshot.blockers is None
            continue
        if snapshot.ended or snapshot.now_ms is None:
            continue
        if settings.subtasks is None:
            steps = expected_blockers(both.reference.clock, both.reference.clock.level, MIN)
            shown = [
                (b.channels, b.gain_ms, MIN if b.watermark_ms is None else b.watermark_ms) for b in snapshot.blockers
            ]
            assert shown == steps
        if recombined and snapshot.level.holder is not None and snapshot.blockers:
            assert snapshot.level.holder.channel in snapshot.blockers[0].channels
        check_windows(both, snapshot)


def check_windows(both: Lockstep, snapshot: Any) -> None:
    clock = both.reference.clock
    for window in snapshot.windows.open:
        if both.reference.settings.subtasks is None:
            short = {n for n, w in clock.valve.watermark.items() if clock.valve.aligned[n] and w < window.end_ms - 1}
            assert set(window.blockers) == short
        assert window.blocker_count == len(window.blockers)


@examples(150)
@given(scripts.runs([*scripts.TUNABLE, *scripts.FIXED]))
def test_timers_and_when_the_level_moved(run: Run) -> None:
    settings, ops = run
    both = Lockstep(settings)
    moved: int | None = None
    level = MIN
    for op in ops:
        both.apply(op)
        if both.reference.ended:
            break
        if both.reference.clock.level > level:
            level, moved = both.reference.clock.level, getattr(op, "now", None)
        snapshot = both.driver.snapshot()
        assert snapshot.level.moved_ms == (moved if level != MIN else None)
        for view in snapshot.channels:
            timer = both.reference.clock.channels[view.channel].timer
            running = view.state != "finished" and timer.quiet_from is not None and not timer.active_since_tick
            now = snapshot.now_ms or 0
            assert view.timer_ms == (max(0, now - timer.quiet_from) if running else None)
