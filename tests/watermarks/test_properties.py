"""What must hold of every run, whatever it is."""

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from wmtop.engine.watermarks.settings import Session, Settings, StrategyName, Tumbling
from wmtop.engine.watermarks.times import MAX, MIN

from ..reference.ops import Batch, End, Finished, Gone, Known, Op, Paused, Row, SetIdle, SetLateness, Tick
from ..reference.result import same_lines
from ..reference.run import at_idle_after, at_lateness
from . import scripts
from .examples import examples
from .lockstep import Driver, drive, seen
from .steps import saved_and_read

Run = tuple[Settings, list[Op]]
ALL: list[StrategyName] = [*scripts.TUNABLE, *scripts.FIXED]


@examples(150)
@given(scripts.runs(ALL))
def test_the_level_never_goes_back_and_never_passes_an_active_aligned_channel(run: Run) -> None:
    driver = Driver(run[0])
    for op in run[1][:-1]:
        before = driver.monitor.level
        driver.apply(op)
        assert driver.monitor.level >= before
        if driver.monitor.level > before and run[0].strategy != "spark":
            snapshot = driver.snapshot()
            for view in snapshot.channels if snapshot.instances is None else snapshot.instances:
                if view.state == "active":
                    assert view.watermark_ms is not None
                    assert view.watermark_ms >= driver.monitor.level


# What-if


@examples(100)
@given(scripts.runs(["bounded", "bounded-legacy", "smoothed", "spark"]))
def test_the_what_if_is_a_real_run_at_that_lateness(run: Run) -> None:
    """Late and behind to the record, the delay to the millisecond, the watermark itself: W0 - L."""
    of, ops = run
    driver, _ = drive(ops, of)
    whatif = driver.snapshot().whatif
    assert whatif is not None
    for edge in whatif:
        if edge.lateness_ms > 300 and edge.lateness_ms != of.lateness_ms:
            continue  # the scripts live within some 250 ms
        real = at_lateness(ops, of, edge.lateness_ms)
        assert edge.behind_watermark == real.totals.behind_watermark
        records = real.totals.records
        if of.late_alone:
            assert edge.late == real.totals.late
        elif isinstance(of.window, Session):
            assert edge.late >= real.totals.late
            assert edge.late == sum(n for distance, n in real.own_late.items() if distance >= edge.lateness_ms)
        else:
            assert edge.late == real.totals.late
            assert edge.delay_ms == real.delay()
        assert edge.late_share == (edge.late / records if records else None)
        w0 = driver.monitor.w0
        assert real.level == (w0 if w0 in (MIN, MAX) else w0 - edge.lateness_ms)  # MAX: all are finished or gone


@examples(60)
@given(scripts.runs(ALL))
def test_every_idle_timeout_tried_is_a_real_run_with_it(run: Run) -> None:
    """In units of 5 s, so that the timeouts tried beside the run's own are met."""
    of, ops = slower(*run, 5_000)
    driver, _ = drive(ops, of)
    for rung in driver.snapshot().whatif_idle or []:
        real = at_idle_after(ops, of, rung.idle_after_ms)
        assert rung.watermark_ms == (None if real.level == MIN else real.level)
        assert rung.flaps == real.flaps
        if of.subtasks is None:
            assert rung.holder == real.holder
        if isinstance(of.window, Session):
            assert rung.late + rung.late_error >= real.totals.late
        else:
            assert rung.late <= real.totals.late <= rung.late + rung.late_error
        if rung.idle_after_ms == of.idle_after_ms and driver.monitor.settings.version == of.version:
            assert (rung.late, rung.late_error) == (real.totals.late, 0)


def test_the_run_itself_is_among_the_timeouts_tried() -> None:
    driver = Driver(Settings(idle_after_ms=123))
    assert {rung.idle_after_ms for rung in driver.snapshot().whatif_idle or []} >= {None, 123}


@examples(60)
@given(scripts.runs(["bounded"], scripts.windows(["tumbling", "sliding"])))
def test_delays_are_exact_or_unknown_when_too_many_windows_wait(run: Run) -> None:
    of, ops = run
    with patch("wmtop.engine.watermarks.lateness.MAX_PENDING_WINDOWS", 3):
        driver, _ = drive(ops, of)
    unknown = False
    for edge in driver.snapshot().whatif or []:
        real = at_lateness(ops, of, edge.lateness_ms).delay() if edge.lateness_ms <= 300 else None
        unknown = unknown or edge.delay_ms != real
        assert edge.delay_ms == (None if unknown else real)


def slower(of: Settings, ops: Sequence[Op], factor: int) -> Run:
    """The same run with every time multiplied."""

    def row(r: Row) -> Row:
        extra = r.extra if r.extra is None or isinstance(r.extra, bool) else r.extra * factor
        return Row(
            None if r.arrival is None else r.arrival * factor, r.channel, None if r.ts is None else r.ts * factor, extra
        )

    def op(o: Op) -> Op:
        match o:
            case Batch():
                return Batch(tuple(row(r) for r in o.rows), o.now * factor, o.own_arrival)
            case Tick() | End():
                return type(o)(o.now * factor)
            case Known() | Finished() | Gone():
                return type(o)(o.names, o.now * factor)
            case Paused():
                return Paused(o.duration * factor, o.names)
            case SetLateness():
                return SetLateness(o.lateness * factor)
            case SetIdle():
                return SetIdle(None if o.idle_after is None else o.idle_after * factor)

    durations = {
        name: value * factor
        for name in ("lateness_ms", "idle_after_ms", "future_guard_ms")
        if (value := getattr(of, name)) is not None
    }
    durations["allowed_lateness_ms"] = min(of.allowed_lateness_ms * factor, MAX)
    window = {name: value * factor for name, value in msgspec.structs.asdict(of.window).items()}
    return msgspec.structs.replace(of, **durations, window=type(of.window)(**window)), [op(o) for o in ops]


# Order, saving, ticks that are not needed


@examples(120)
@given(scripts.runs(ALL), st.permutations(scripts.CHANNELS))
def test_among_channels_that_are_never_idle_their_order_does_not_matter(run: Run, names: list[str]) -> None:
    of = msgspec.structs.replace(run[0], idle_after_ms=None, subtasks=None)
    # Channels that leave together leave one after the other: then their order does matter.
    ops = [type(op)(op.names[:1], op.now) if isinstance(op, Finished | Gone) else op for op in run[1]]
    ops = [op for op in ops if not isinstance(op, SetIdle)]
    other = dict(zip(scripts.CHANNELS, names, strict=True))
    ours, lines = drive(ops, of)
    theirs, renamed_lines = drive([renamed(op, other) for op in ops], of)
    for op_lines, op_renamed in zip(lines, renamed_lines, strict=True):
        back = [{**line, "channel": other.get(line["channel"], line["channel"])} for line in op_lines]
        assert same_lines(back, op_renamed)
    assert ours.monitor.level == theirs.monitor.level
    assert ours.snapshot().totals == theirs.snapshot().totals


def renamed(op: Op, names: dict[str, str]) -> Op:
    match op:
        case Batch():
            rows = tuple(row._replace(channel=row.channel and names[row.channel]) for row in op.rows)
            return Batch(rows, op.now, op.own_arrival)
        case Known() | Finished() | Gone():
            return type(op)(tuple(names[name] for name in op.names), op.now)
        case Paused():
            return Paused(op.duration, op.names and tuple(names[name] for name in op.names))
        case _:
            return op


@examples(150)
@given(scripts.runs(ALL), st.integers(0, 14))
def test_a_state_saved_and_loaded_anywhere_changes_nothing_that_follows(run: Run, at: int) -> None:
    of, ops = run
    undisturbed, resumed = Driver(of), Driver(of)
    for number, op in enumerate(ops):
        if number >= at % len(ops):
            resumed.monitor = saved_and_read(resumed.monitor)
        assert resumed.apply(op) == undisturbed.apply(op)
        assert whole(resumed) == whole(undisturbed)


def whole(driver: Driver) -> dict[str, Any]:
    """All that a reader could see."""
    return {**seen(driver), "snapshot": driver.snapshot()}


@examples(120)
@given(scripts.runs(ALL))
def test_ticks_that_are_said_to_change_nothing_change_nothing(run: Run) -> None:
    of, ops = run
    every, few = Driver(of), Driver(of)
    for op in ops:
        fired = every.apply(op)
        due = few.monitor.next_tick_ms()
        if isinstance(op, Tick) and (due is None or op.now < due):
            assert fired == []
        else:
            assert few.apply(op) == fired
        few.now = every.now
        assert seen(few) == seen(every)


# Changing lateness while running (section 8)


@examples(100)
@given(st.lists(st.tuples(st.integers(0, 60), scripts.lateness | st.none()), min_size=1, max_size=12), scripts.lateness)
def test_lateness_lowered_and_raised_while_running(steps: list[tuple[int, int | None]], lateness: int) -> None:
    """One channel: the watermark is the greatest `max - L - 1` of any emit so far, whatever L was set to in between."""
    driver = Driver(Settings(lateness_ms=lateness, idle_after_ms=None, window=Tumbling(10)))
    greatest, level = MIN, MIN
    for now, (ts, change) in enumerate(steps):
        if change is not None:
            driver.apply(SetLateness(change))
            lateness = change
            assert driver.monitor.level == level  # nothing before the next emit
        driver.apply(Batch((Row(now, "a", ts),), now))
        greatest = max(greatest, ts)
        level = max(level, greatest - lateness - 1)
        assert driver.monitor.level == level
