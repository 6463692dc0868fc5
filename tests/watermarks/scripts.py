"""Random runs for the property tests: small integers, so that ties and collisions are frequent."""

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import strategies as st
from wmtop.engine.watermarks.settings import Session, Settings, Sliding, StrategyName, Tumbling, WindowSpec
from wmtop.engine.watermarks.times import FIRST_USABLE_MS, LAST_USABLE_MS, MAX

from ..reference.ops import Batch, End, Finished, Gone, Known, Op, Paused, Row, SetIdle, SetLateness, Tick

T = TypeVar("T")

TUNABLE: list[StrategyName] = ["bounded", "bounded-legacy", "smoothed", "spark"]
FIXED: list[StrategyName] = ["monotonous", "punctuated", "source", "none"]
CHANNELS = ["a", "b", "c", "d"]
LATENESS = [0, 1, 2, 3, 4, 5, 7, 12]
IDLE_AFTER = [1, 2, 3, 5, 7, None]

lateness = st.sampled_from(LATENESS)


_DICE = st.integers(0, 2**24 - 1)


class Dice:
    """One drawn integer taken apart into choices: quicker than a draw for each, and more even."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.rest = draw(_DICE)

    def pick(self, options: Sequence[T]) -> T:
        """One of the options; all are about as likely."""
        self.rest, index = divmod(self.rest, len(options))
        return options[index]


@st.composite
def windows(draw: st.DrawFn, kinds: Sequence[str] = ("tumbling", "sliding", "sliding", "session")) -> WindowSpec:
    """A window of any kind; sliding ones overlap, fit, or leave gaps."""
    dice = Dice(draw)
    kind = dice.pick(kinds)
    if kind == "session":
        return Session(dice.pick(range(1, 7)))
    size, offset = dice.pick(range(1, 10)), dice.pick([0, 0, 1, 2, 30])
    return Tumbling(size, offset) if kind == "tumbling" else Sliding(size, dice.pick(range(1, 13)), offset)


@st.composite
def settings(draw: st.DrawFn, strategies: list[StrategyName], window: st.SearchStrategy[WindowSpec]) -> Settings:
    """Any settings of those strategies."""
    dice = Dice(draw)
    strategy = dice.pick(strategies)
    return Settings(
        strategy=strategy,
        lateness_ms=dice.pick(LATENESS) if strategy in TUNABLE else None,
        idle_after_ms=dice.pick(IDLE_AFTER),
        allowed_lateness_ms=dice.pick([0, 0, 0, 0, 1, 3, 6, 20, MAX]),
        future_guard_ms=dice.pick([None, None, None, 0, 3, 10]),
        emit_every_ms=dice.pick([200] * 15 + [0]),
        subtasks=dice.pick([None, None, 1, 2, 3]),
        window=draw(window),
        smooth=dice.pick([1, 2, 3, 100]),
        marker="marker" if strategy == "punctuated" else None,
        watermark_column="source_watermark" if strategy == "source" else None,
    )


def row(draw: st.DrawFn, strategy: StrategyName, arrival: int) -> Row:
    """A record whose event time is near its arrival; now and then malformed, far off or of the null channel."""
    dice = Dice(draw)
    ts: int | None = arrival + dice.pick(range(-12, 6))
    odd = dice.pick(range(80))
    if odd >= 76:
        ts = [arrival + 200, None, FIRST_USABLE_MS - 1, LAST_USABLE_MS + 1][odd - 76]
    channel = None if odd == 75 else dice.pick(CHANNELS)
    extra: int | bool | None = None
    if strategy == "punctuated":
        extra = dice.pick([True, False])
    elif strategy == "source":
        extra = dice.pick([None, *range(arrival - 15, arrival + 5)])
    return Row(None if odd == 74 else arrival, channel, ts, extra)


def batch(draw: st.DrawFn, strategy: StrategyName, now: int) -> Batch:
    """A micro-batch whose records arrived up to `now`."""
    dice = Dice(draw)
    arrivals = sorted(now - dice.pick(range(4)) for _ in range(dice.pick([1, 2, 3, 4, 5, 6, 0])))
    own_arrival = dice.pick([True, False])
    return Batch(tuple(row(draw, strategy, arrival) for arrival in arrivals), now, own_arrival)


@st.composite
def scripts(draw: st.DrawFn, of: Settings, *, changes: bool = True) -> list[Op]:
    """Ops of a run: time goes on in small steps, sometimes not at all; the last one is the end."""
    dice = Dice(draw)
    now, ops = dice.pick([0, 3, 1000, -20]), list[Op]()
    for _ in range(dice.pick([*range(1, 7), *range(6, 20)])):
        dice = Dice(draw)
        now += dice.pick([1, 2, 1, 3, 5, 0])
        rare = ["known", "paused", "finished", "gone", "gone"]
        match dice.pick(["batch"] * 12 + ["tick"] * 8 + rare + ["lateness", "idle"] * changes):
            case "batch":
                ops.append(batch(draw, of.strategy, now))
            case "tick":
                ops.append(Tick(now))
            case "known":
                ops.append(Known((dice.pick(CHANNELS), dice.pick(CHANNELS)), now))
            case "paused":
                duration = dice.pick(range(5))
                now += duration
                known = sorted({name for op in ops if isinstance(op, Known) for name in op.names})
                ops.append(Paused(duration, dice.pick([None, tuple(known)])))
            case "finished":
                ops.append(Finished((dice.pick(CHANNELS), dice.pick(CHANNELS)), now))
            case "gone":
                ops.append(Gone((dice.pick(CHANNELS), dice.pick(CHANNELS)), now))
            case "lateness" if of.strategy in TUNABLE:
                ops.append(SetLateness(dice.pick(LATENESS)))
            case _ if of.strategy != "spark":
                ops.append(SetIdle(dice.pick(IDLE_AFTER)))
            case _:
                pass
    return [*ops, End(now)]


@st.composite
def runs(
    draw: st.DrawFn,
    strategies: list[StrategyName],
    window: st.SearchStrategy[WindowSpec] | None = None,
    *,
    changes: bool = True,
) -> tuple[Settings, list[Op]]:
    """Settings, and a script for them."""
    of = draw(settings(strategies, windows() if window is None else window))
    return of, draw(scripts(of, changes=changes))
