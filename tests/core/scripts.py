"""Random runs for the property tests: small integers, so that ties and collisions are frequent."""

from typing import Any

from hypothesis import strategies as st

from tests.reference.run import Batch, End, Known, Op, Paused, Row, SetIdle, SetLateness, Tick
from wmtop.engine.core.settings import Session, Settings, Sliding, StrategyName, Tumbling, WindowSpec
from wmtop.engine.core.times import FIRST_USABLE_MS, LAST_USABLE_MS, MAX

TUNABLE: list[StrategyName] = ["bounded", "bounded-legacy", "smoothed", "spark"]
FIXED: list[StrategyName] = ["monotonous", "punctuated", "source", "none"]
CHANNELS = ["a", "b", "c", "d"]

small = st.integers(0, 8)
lateness = st.sampled_from([0, 0, 1, 2, 3, 4, 5, 7, 12])
idle_after = st.sampled_from([None, 0, 1, 2, 3, 5])


def sessions() -> st.SearchStrategy[WindowSpec]:
    """Session windows."""
    return st.builds(Session, st.integers(1, 6))


@st.composite
def windows(draw: st.DrawFn) -> WindowSpec:
    """A window of any kind; sliding ones overlap, fit, or leave gaps."""
    kind = draw(st.sampled_from(["tumbling", "sliding", "sliding", "session"]))
    if kind == "session":
        return Session(draw(st.integers(1, 6)))
    size, offset = draw(st.integers(1, 9)), draw(st.sampled_from([0, 0, 1, 2, 30]))
    return Tumbling(size, offset) if kind == "tumbling" else Sliding(size, draw(st.integers(1, 12)), offset)


@st.composite
def settings(draw: st.DrawFn, strategies: list[StrategyName], window: st.SearchStrategy[WindowSpec]) -> Settings:
    """Any settings of those strategies."""
    strategy = draw(st.sampled_from(strategies))
    return Settings(
        strategy=strategy,
        lateness_ms=draw(lateness) if strategy in TUNABLE else None,
        idle_after_ms=draw(idle_after),
        allowed_lateness_ms=draw(st.sampled_from([0, 0, 1, 3, 6, 20, MAX])),
        future_guard_ms=draw(st.sampled_from([None, None, 0, 3, 10])),
        emit_every_ms=draw(st.sampled_from([200] * 9 + [0])),
        subtasks=draw(st.sampled_from([None, None, 1, 2, 3])),
        window=draw(window),
        smooth=draw(st.sampled_from([1, 2, 3, 100])),
        marker="marker" if strategy == "punctuated" else None,
        watermark_column="source_watermark" if strategy == "source" else None,
    )


@st.composite
def rows(draw: st.DrawFn, strategy: StrategyName, around: int, arrival: int) -> Row:
    """A record near `around` (event time, ms); now and then malformed, far off or of the null channel."""
    odd = draw(st.integers(0, 39))
    ts: int | None = around + draw(st.integers(-12, 9))
    if odd < 4:
        ts = [None, FIRST_USABLE_MS - 1, LAST_USABLE_MS + 1, around + 200][odd]
    extra: Any = None
    if strategy == "punctuated":
        extra = draw(st.booleans())
    elif strategy == "source":
        extra = draw(st.none() | st.integers(around - 15, around + 5))
    channel = None if odd == 4 else draw(st.sampled_from(CHANNELS))
    return Row(None if odd == 5 else arrival, channel, ts, extra)


@st.composite
def batches(draw: st.DrawFn, strategy: StrategyName, now: int) -> Batch:
    """A micro-batch whose records arrived up to `now`."""
    count = draw(st.integers(0, 6))
    arrivals = sorted(now - draw(st.integers(0, 3)) for _ in range(count))
    made = [draw(rows(strategy, now, arrival)) for arrival in arrivals]
    return Batch(tuple(made), now, own_arrival=draw(st.booleans()))


@st.composite
def scripts(draw: st.DrawFn, of: Settings, *, changes: bool = True, ticks: bool = True) -> list[Op]:
    """Ops of a run: time goes on in small steps, sometimes not at all; the last one is the end."""
    start = draw(st.sampled_from([0, 3, 1000, -20]))
    now, ops = start, list[Op]()
    kinds = ["batch"] * 12 + ["tick"] * (8 * ticks) + ["change"] * (2 * changes) + ["known", "paused"] * ticks
    for _ in range(draw(st.integers(1, 14))):
        now += draw(st.sampled_from([0, 1, 1, 2, 3, 5]))
        kind = draw(st.sampled_from(kinds))
        if kind == "batch":
            ops.append(draw(batches(of.strategy, now)))
        elif kind == "tick":
            ops.append(Tick(now))
        elif kind == "known":
            ops.append(Known(tuple(draw(st.lists(st.sampled_from(CHANNELS), max_size=2))), now))
        elif kind == "paused":
            duration = draw(st.integers(0, 4))
            now += duration
            ops.append(Paused(duration))
        elif of.strategy == "spark" or (of.strategy in TUNABLE and draw(st.booleans())):
            ops.append(SetLateness(draw(lateness)))
        else:
            ops.append(SetIdle(draw(idle_after)))
    return [*ops, End(now)]


@st.composite
def runs(
    draw: st.DrawFn,
    strategies: list[StrategyName],
    window: st.SearchStrategy[WindowSpec] | None = None,
    *,
    changes: bool = True,
    ticks: bool = True,
) -> tuple[Settings, list[Op]]:
    """Settings, and a script for them."""
    of = draw(settings(strategies, windows() if window is None else window))
    return of, draw(scripts(of, changes=changes, ticks=ticks))
