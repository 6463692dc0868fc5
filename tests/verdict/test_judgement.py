"""Verdict, moved_ms, timers and blockers of random runs, against a reading of section 11 that shares no code."""

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wmtop.engine.verdict.evidence import Evidence
from wmtop.engine.verdict.verdict import judged
from wmtop.engine.watermarks.settings import Session, Settings, Tumbling
from wmtop.engine.watermarks.times import MIN
from wmtop.engine.watermarks.watermark_history import Beat, WatermarkHistory

from tests.snapshots import replace

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


def moment_of(reference: Reference, batches: int, now: int, unread: int | None, *, raised: bool) -> Moment:
    clock = reference.clock
    return Moment(
        now=now,
        level=None if clock.level == MIN else clock.level,
        batches=batches,
        event_times={},
        records=reference.totals.records,
        unread=unread,
        ended=reference.ended is not None,
        window=window_of(reference.settings),
        idle_after=reference.settings.idle_after_ms,
        raised=raised,
    )


def is_raised(driver: Driver, now: int, patience: int) -> bool:
    """Whether the least of max - L - 1 of those taking part is below the watermark, and its channel has data."""
    snapshot = driver.snapshot()
    lateness, level = snapshot.settings.lateness_ms, driver.monitor.level
    if lateness is None or level == MIN or snapshot.settings.strategy not in ("bounded", "bounded-legacy", "spark"):
        return False
    later = int(snapshot.settings.strategy in ("bounded",))
    parts = [view for view in snapshot.channels if view.max_event_ms is not None]
    if snapshot.settings.strategy != "spark":
        parts = [view for view in parts if view.aligned and view.state == "active"]
    if not parts:
        return False
    pick = max if snapshot.settings.strategy == "spark" else min
    view = pick(parts, key=lambda one: (one.max_event_ms, one.quiet_ms))
    assert view.quiet_ms is not None
    return view.max_event_ms - lateness - later < level and view.quiet_ms <= patience


AFTER = [4, 7, 12, 1, None]


@examples(300)
@given(
    scripts.runs(["bounded", "bounded-legacy", "monotonous", "none"]),
    st.sampled_from(AFTER),
    st.lists(st.sampled_from([0, 0, 3, None])),
)
def test_the_verdict(run: Run, after: int | None, unread: list[int | None]) -> None:
    settings, ops = run
    driver, reference = Driver(settings), Reference(settings)
    history = driver.monitor.history
    history.verdict_after_ms = after
    verdicts = VerdictReference(after)
    batches = 0
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
        evidence = Evidence(unread=left, record_ms=history.record_ms)
        snapshot = replace(driver.snapshot(), now_ms=now)
        found = judged(snapshot, history, evidence).verdict
        raised = is_raised(driver, now, found.patience_ms or 0)
        moment = moment_of(reference, batches, now, left, raised=raised)
        assert (found.verdict, found.since_ms, found.age_ms) == verdicts.see(moment), (place, op)
        assert (found.pace_ms, found.patience_ms) == (verdicts.pace(), verdicts.patience())


def advancing(dice: Random, seconds: int) -> Iterator[tuple[int, int]]:
    """Times (s) and watermarks (s) of a run that advances fast, slowly, in steps, or not at all."""
    now = level = 0
    while now < seconds:
        speed, every = dice.choice([(1.0, 1), (0.6, 2), (0.98, 30), (1.3, 5), (0.0, 100), (1.0, 300)])
        for _ in range(dice.randrange(1, 60)):
            now += every
            level += round(speed * every)
            yield now, level


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.matrix) for seed in range(8, 40))])
@pytest.mark.parametrize("kind", ["run", "replay"])
def test_pace_patience_and_slowness_of_long_runs(seed: int, kind: Beat) -> None:
    dice = Random(seed)
    settings = Settings(lateness_ms=0, idle_after_ms=dice.choice([None, 7_200_000]), window=Tumbling(60_000))
    history = WatermarkHistory(beat_of=kind)
    verdicts = VerdictReference(kind=kind)
    snapshot = driver_snapshot = Driver(settings).snapshot()
    seen = set[str]()
    for batches, (at, reached) in enumerate(advancing(dice, 20_000), 1):
        now, level = at * 1_000, reached * 1_000
        history.see_beat(now)
        history.see_level(now, level, settings)
        history.record_ms = now
        snapshot = replace(driver_snapshot, now_ms=now)
        found = judged(snapshot, history, Evidence(unread=0, record_ms=now)).verdict
        moment = Moment(now, level, batches, {}, batches, window=60_000, idle_after=settings.idle_after_ms)
        if batches % 7 == 0:
            assert (found.verdict, found.age_ms) == verdicts.see(moment)[::2]
            assert (found.pace_ms, found.patience_ms) == (verdicts.pace(), verdicts.patience())
        else:
            verdicts.moments.append(moment)
        seen.add(found.verdict)
    assert "moving" in seen


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
