"""Samples of arbitrary values from a small grid, so that every comparison meets equality: conclusions are sound."""

from random import Random

from wmtop.engine.targets.flink.attribution import Attribution
from wmtop.engine.targets.flink.samples import Edge, JobSample, SampledSplit, Subtask, Vertex, VertexSample
from wmtop.engine.watermarks.times import MAX, MIN

from .attributed import attributed

START_MS = 1_700_000_000_000
JOBS = 3_000
IN_MINIMUM = ("active", "never_seen")


class ArbitraryJob:
    """Source subtasks, perhaps a task behind each, and a window; a value often stays from one sample to the next."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice
        self.splits = [dice.choice([0, 1, 2, 3]) for _ in range(dice.choice([1, 2, 3]))]
        self.has_task_between = dice.random() < 0.3
        self.step_ms = dice.choice([1, 500, 2_500])
        self.stays = dice.choice([0.2, 0.6, 0.9])
        self.last: dict[object, int | None] = {}

    def mark(self, key: object, near: int | None = None) -> int | None:
        """A watermark for a metric: its last one, the given one, or another."""
        if key not in self.last or self.dice.random() > self.stays:
            grid = START_MS + self.step_ms * self.dice.randint(0, 8)
            mark = self.dice.choices([grid, MIN, MAX, None], [30, 2, 1, 1])[0]
            self.last[key] = near if near is not None and self.dice.random() < 0.4 else mark
        return self.last[key]

    def sample(self, at_ms: int) -> JobSample:
        """A dump of the metrics."""
        dice, count = self.dice, len(self.splits)
        source = Vertex("s", "Source: in", count, "RUNNING")
        between = Vertex("e", "Map", count, "RUNNING", (Edge("s", forward=True),))
        subtasks: list[Subtask] = []
        for index, splits in enumerate(self.splits):
            own = tuple(self.split(f"{index}-{number}") for number in range(splits))
            near = next((split.watermark for split in own), None)
            idle_ms, drift_ms = dice.choice([None, 0, 0, 5_000]), dice.choice([None, None, None, 0, 1])
            output = self.mark(("sent", index), near)
            subtasks.append(Subtask(index, output=output, splits=own, source_idle_ms=idle_ms, drift_ms=drift_ms))
        vertices = [VertexSample(source, tuple(subtasks))]
        if self.has_task_between:
            marks = [(task.output, self.mark(("between", task.index), task.output)) for task in subtasks]
            subtasks = [Subtask(index, input=taken, output=sent) for index, (taken, sent) in enumerate(marks)]
            vertices.append(VertexSample(between, tuple(subtasks)))
        sent = [task.output for task in subtasks if task.output is not None]
        edge = Edge("e" if self.has_task_between else "s", forward=False)
        window = Subtask(0, input=self.mark("window", min(sent, default=None)), late={"w": 0})
        vertices.append(VertexSample(Vertex("w", "Window", 1, "RUNNING", (edge,)), (window,), windowed=True))
        return JobSample(at_ms, tuple(vertices))

    def split(self, id: str) -> SampledSplit:
        """The metrics of a split."""
        dice = self.dice
        return SampledSplit(
            id,
            self.mark(id),
            idle_ms=dice.choice([0, 5_000, 10_000]),
            idle_share=dice.choice([None, 0.0, 0.0, 0.4, 1.0]),
            paused_ms=dice.choice([0, 0, 0, 5_000]),
            paused_share=dice.choice([None, 0.0, 0.0, 0.0, 1.0]),
            offset=dice.choice([None, 1, 2]),
        )


def test_arbitrary_samples_lead_to_sound_conclusions() -> None:
    for seed in range(JOBS):
        dice = Random(seed)
        job = ArbitraryJob(dice)
        before = job.sample(START_MS) if dice.random() < 0.8 else None
        now = job.sample(START_MS + dice.choice([500, 4_999, 5_000, 20_000]))
        attribution = attributed(now, before)
        own = now.vertices[-1].subtasks[0].input
        assert_is_consistent(attribution, own, seed)
        assert_blames_if_it_can(attribution, own, seed)


def assert_is_consistent(attribution: Attribution, own: int | None, seed: int) -> None:
    """The watermark is the operator's own; a cause has a channel in the minimum, and only such."""
    assert attribution.watermark_ms == (None if own in (None, MIN, MAX) else own), seed
    assert (attribution.ended or attribution.is_ahead_of_the_end) == (own == MAX), seed
    for channel, cause in zip(attribution.channels, attribution.causes, strict=True):
        assert (cause is not None) == (channel.state in IN_MINIMUM), seed
        assert channel.watermark_ms not in (MIN, MAX), seed
    holder = attribution.held_back_by
    if holder is not None and holder.instance is not None:
        pairs = zip(attribution.channels, attribution.causes, strict=True)
        named = [pair for pair in pairs if (pair[0].channel, pair[0].instance) == (holder.channel, holder.instance)]
        [(channel, cause)] = named
        assert (cause, channel.state in IN_MINIMUM) == (holder.cause, True), seed
        assert attribution.subtasks[holder.instance].state == "active", seed


def assert_blames_if_it_can(attribution: Attribution, own: int | None, seed: int) -> None:
    """No false all-clear: a lowest input with a cause is blamed, and what is not known is no empty list of steps. Where
    it is not known whether a channel is idle, nobody need be blamed.
    """
    holder = attribution.held_back_by
    assert attribution.ended or holder is not None or attribution.blockers is None, seed
    sent = [(task.watermark_ms, place) for place, task in enumerate(attribution.subtasks) if task.state == "active"]
    known = [(watermark_ms, place) for watermark_ms, place in sent if watermark_ms is not None]
    if own in (None, MAX) or len(known) < len(sent):
        return  # the lowest input may be missing
    _, lowest = min(known, default=(0, -1))
    pairs = zip(attribution.channels, attribution.causes, strict=True)
    if any(channel.instance == lowest and cause is not None for channel, cause in pairs):
        assert holder is not None or not attribution.is_sure, seed
