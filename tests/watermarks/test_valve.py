"""The valve against the reference's, op by op: more channels than the runs have, finishing and removing too."""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from wmtop.engine.watermarks.valve import Round, Status, Valve, ValveOutput

from ..reference.valve import Valve as ReferenceValve
from .examples import examples

Step = tuple[str, int, int]

STEPS = st.tuples(
    st.sampled_from(["w", "w", "w", "all", "idle", "idle", "active", "active", "add", "finish", "remove"]),
    st.integers(0, 11),
    st.integers(0, 20),
)


def reported(output: ValveOutput | None) -> list[tuple[Any, ...]]:
    """What the valve emitted, in order: awake before the watermark, idle after it."""
    if output is None:
        return []
    watermark = [] if output.watermark is None else [("w", output.watermark)]
    if output.idle is None:
        return watermark
    return [*watermark, ("idle",)] if output.idle else [("active",), *watermark]


class Pair:
    """Both valves, numbered alike."""

    def __init__(self, channels: int) -> None:
        self.ours, self.theirs = Valve(), ReferenceValve()
        for _ in range(channels):
            self.add()

    def add(self) -> None:
        """One more channel."""
        number = len(self.ours.watermarks)
        assert reported(self.ours.add_channel(0)) == self.theirs.add(number)

    def step(self, kind: str, channel: int, value: int, now: int) -> None:
        """One op on both."""
        alive = [c for c, status in enumerate(self.ours.statuses) if status != Status.REMOVED]
        if kind == "add":
            self.add()
        elif kind == "all":
            watermarks = {c: value + (c * channel) % 7 for c in alive}
            self.ours.input_watermarks(watermarks, now)
            for c, watermark in watermarks.items():
                self.theirs.input(c, watermark)
        elif channel in alive:
            ours, theirs = {
                "w": lambda: (self.ours.input_watermark(channel, value, now), self.theirs.input(channel, value)),
                "idle": lambda: (self.ours.mark_idle(channel), self.theirs.mark_idle(channel)),
                "active": lambda: (self.ours.mark_active(channel), self.theirs.mark_active(channel)),
                "finish": lambda: (self.ours.finish(channel), self.theirs.finish(channel)),
                "remove": lambda: (self.ours.remove(channel), self.theirs.remove(channel)),
            }[kind]()
            assert reported(ours) == theirs

    def compare(self) -> None:
        ours, theirs = self.ours, self.theirs
        assert (ours.last_output, ours.idle) == (theirs.output, theirs.idle)
        assert {c: ours.watermarks[c] for c in theirs.status} == theirs.watermark
        assert {c: ours.aligned[c] for c in theirs.status} == theirs.aligned
        aligned: list[int] = [c for c in theirs.status if theirs.aligned[c]]
        aligned.sort(key=lambda c: (ours.watermarks[c], ours.since[c], c))
        assert ours.holder() == (aligned[0] if aligned else None)


@examples(150)
@given(st.integers(0, 12), st.lists(STEPS, min_size=12, max_size=40))
@example(0, [("all", 0, 0)])
def test_the_valve_is_the_references(channels: int, steps: list[Step]) -> None:
    pair = Pair(channels)
    for now, (kind, channel, value) in enumerate(steps):
        pair.step(kind, channel, value, now)
        pair.compare()


@examples(100)
@given(st.integers(1, 6), st.lists(st.tuples(STEPS, st.integers(0, 2)), min_size=12, max_size=40))
def test_a_round_into_several_valves_is_a_round_into_each(channels: int, steps: list[tuple[Step, int]]) -> None:
    """Statuses differ between them, as with the idle timeouts of the what-if; channels come and go in all."""
    pairs = [Pair(channels) for _ in range(3)]
    for now, ((kind, channel, value), place) in enumerate(steps):
        if kind == "all":
            alive = [c for c in pairs[0].theirs.status if c % 3 != value % 4]
            round_ = Round({c: value + (c * channel) % 7 for c in alive}, now)
            for pair in pairs:
                round_.send(pair.ours)
                for c, watermark in round_.watermarks.items():
                    pair.theirs.input(c, watermark)
        elif kind in ("idle", "active"):
            pairs[place].step(kind, channel, value, now)
        else:
            for pair in pairs:
                pair.step(kind, channel, value, now)
        for pair in pairs:
            pair.compare()
