"""Random jobs with splits that pause, lag and come back, simulated here by Flink's rules, against what is said of them.

The simulation shares no code with the tap. It knows which splits and subtasks are idle at each moment; the tap sees
only the metrics, of which idle times are up to 5 s old, and each task's from another moment of the last second. A split
may come back with records as old as where it stopped.
"""

from collections import Counter, deque
from random import Random

import pytest
from msgspec import Struct, field
from wmtop.engine.targets.flink.attribution import Attribution
from wmtop.engine.targets.flink.facts import kept
from wmtop.engine.targets.flink.samples import Edge, JobSample, Rates, SampledSplit, Subtask, Vertex, VertexSample
from wmtop.engine.watermarks.times import MIN

from .attributed import attributed_by

DUMP_TICKS = 6
"""The number of emits from the oldest to the newest value in a dump: a second."""
EMIT_MS, STEP_MS, RUN_MS, FIRST_MS = 200, 5_000, 180_000, 5_000
START_MS = 1_700_000_000_000
JOBS = 40


class FakeSplit(Struct):
    """A split that sends in `phases`, `lag_ms` behind the clock; watermarks in epoch ms."""

    id: str
    lag_ms: int
    every_ms: int
    phases: list[tuple[int, int]]
    greatest: int = MIN
    watermark: int = MIN
    idle: bool = False
    record_ms: int = START_MS
    returns_old: bool = False
    """After a pause it goes on where it stopped."""
    offset: int | None = None
    idle_ms: int = 0
    last_minute: list[bool] = field(default_factory=list)
    reported: tuple[int, float] = (0, 0.0)
    """The idle time and its share of the last minute, as Flink's metrics have them."""

    def tick(self, now: int, delay_ms: int, idle_after_ms: int) -> None:
        """One emit of its watermark generator."""
        if now % self.every_ms == 0 and any(begin <= now < end for begin, end in self.phases):
            if self.returns_old and self.idle:
                self.lag_ms = max(self.lag_ms, now - self.record_ms)
            self.greatest = max(self.greatest, now - self.lag_ms)
            self.offset = None if self.offset is None else self.offset + 1
            self.record_ms, self.idle = now, False
        if not self.idle and self.greatest != MIN:
            self.watermark = max(self.watermark, self.greatest - delay_ms - 1)
        if idle_after_ms and now - self.record_ms > idle_after_ms:
            self.idle = True
        self.idle_ms += EMIT_MS * self.idle
        self.last_minute = [*self.last_minute[-299:], self.idle]
        if now % STEP_MS == 0:
            self.reported = self.idle_ms, sum(self.last_minute) / len(self.last_minute)

    def sampled(self) -> SampledSplit:
        """Its metrics."""
        idle_ms, share = self.reported
        return SampledSplit(
            self.id, self.watermark, idle_ms=idle_ms, idle_share=share, paused_ms=0, paused_share=0.0,
            offset=self.offset or None,
        )  # fmt: skip


class FakeSubtask(Struct):
    """A source subtask (Flink's `WatermarkOutputMultiplexer`), and what the valve of the operator below has of it."""

    splits: list[FakeSplit]
    sent: int = MIN
    idle: bool = False
    aligned: bool = True


class FakeJob:
    """Source subtasks and the valve of the operator that reads all of them."""

    def __init__(self, dice: Random) -> None:
        self.delay_ms, self.idle_after_ms = (
            dice.choice([0, 1_000, 5_000]),
            dice.choice([0, 5_000, 5_000, 10_000, 30_000]),
        )
        count = dice.choice([1, 2, 3])
        self.subtasks = [
            FakeSubtask([fake_split(dice, f"{task}-{number}") for number in range(count)])
            for task in range(dice.choice([1, 2, 3]))
        ]
        self.level = self.shown = MIN
        self.dice = dice
        self.lately: deque[tuple[int, list[Subtask], set[str]]] = deque(maxlen=DUMP_TICKS)
        """The watermark of the operator, the source's metrics and the holders in the last second, the newest last."""

    def tick(self, now: int) -> None:
        """One emit of all splits, then of the valve."""
        for task in self.subtasks:
            for split in task.splits:
                split.tick(now, self.delay_ms, self.idle_after_ms)
            active = [split.watermark for split in task.splits if not split.idle]
            task.sent = max(task.sent, min(active) if active else max(split.watermark for split in task.splits))
            if task.idle and active:
                task.aligned = task.sent >= self.level
            task.idle = not active
            task.aligned = not task.idle and (task.aligned or task.sent >= self.level)
        part = [task.sent for task in self.subtasks if task.aligned]
        if all(task.idle for task in self.subtasks):
            part = [max(task.sent for task in self.subtasks)]
        self.level = max(self.level, min(part, default=MIN))
        self.lately.append((self.level, [
            Subtask(number, output=task.sent, splits=tuple(split.sampled() for split in task.splits))
            for number, task in enumerate(self.subtasks)
        ], self.holders()))  # fmt: skip

    def holders(self) -> set[str]:
        """The active splits with the lowest watermark of the subtasks that the level is equal to."""
        lowest = [task for task in self.subtasks if task.aligned and task.sent == self.level]
        active = [[split for split in task.splits if not split.idle] for task in lowest]
        low = [min(split.watermark for split in splits) for splits in active]
        return {one.id for splits, mark in zip(active, low, strict=True) for one in splits if one.watermark == mark}

    def sample(self, now: int) -> JobSample:
        """A dump of the metrics, which is not taken at one moment."""
        source = Vertex("s", "Source: in", len(self.subtasks), "RUNNING")
        window = Vertex("w", "Window", 1, "RUNNING", (Edge("s", forward=False),))
        tasks = tuple(self.dice.choice(self.lately)[1][number] for number in range(len(self.subtasks)))
        self.shown = self.dice.choice(self.lately)[0]
        reader = (Subtask(0, input=self.shown, output=self.shown, late={"w": 0}),)
        return JobSample(
            now, (VertexSample(source, tasks, rates=Rates(10.0, 10.0)), VertexSample(window, reader, True))
        )


def fake_split(dice: Random, id: str) -> FakeSplit:
    """A split that sends for a while and pauses for a while; one in ten never sends."""
    phases: list[tuple[int, int]] = []
    at = START_MS + dice.choice([0, 0, 0, 0, 60_000])
    while at < START_MS + RUN_MS:
        end = at + dice.choice([5, 20, 60, 300]) * 1_000
        phases.append((at, end))
        at = end + dice.choice([0, 0, 3, 15, 40, 100]) * 1_000
    lag_ms = dice.choice([0, 0, 0, 2, 5, 30, 120]) * 1_000
    every_ms, sends = dice.choice([200, 200, 1_000, 2_000]), dice.random() < 0.9
    offset, returns_old = dice.choice([None, 0]), dice.random() < 0.4
    return FakeSplit(id, lag_ms, every_ms, phases if sends else [], offset=offset, returns_old=returns_old)


@pytest.mark.parametrize("every_ms", [2_000, 10_000])
def test_random_jobs_are_seen_as_they_are(every_ms: int) -> None:
    """Hardly ever is a split blamed that does not hold the watermark back, and the watermark is always Flink's own."""
    seen, alone = Counter[str](), Counter[str]()
    for seed in range(JOBS):
        job, samples = FakeJob(Random(seed)), ()
        for now in range(START_MS, START_MS + RUN_MS, EMIT_MS):
            job.tick(now)
            if now % every_ms or now < START_MS + FIRST_MS:
                continue
            samples = kept(samples, job.sample(now))
            seen += judged(job, attributed_by(samples))
            alone += judged(job, attributed_by(samples[-1:]))
    assert seen["looks"] > JOBS * (RUN_MS - FIRST_MS) // every_ms - JOBS
    assert seen["right"] > 0.85 * seen["looks"], seen
    assert seen["wrong"] < 0.005 * seen["looks"], seen
    assert alone["right"] > 0.5 * seen["looks"], alone
    assert alone["wrong"] < 0.01 * seen["looks"], alone
    assert not seen["other level"] + alone["other level"]


def judged(job: FakeJob, found: Attribution) -> Counter[str]:
    """One look: `right`, `wrong` or neither, where there is a holder; and whether the watermark is another one."""
    out = Counter(["looks"])
    level, holders = None if job.shown == MIN else job.shown, set[str]().union(*(each[2] for each in job.lately))
    if found.watermark_ms != level:
        out["other level"] += 1
    if found.held_back_by is not None and holders:
        out["right" if found.held_back_by.channel in holders else "wrong"] += 1
    return out
