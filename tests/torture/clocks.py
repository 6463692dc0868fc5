"""(j) Clocks: a driver's that is ahead, behind or set, ours that is set, gaps in the watching, all in virtual time; and
the documented liveness probe, as a command, beside a driver with such a clock.

A dead query is not moving for longer than its patience, a live one is never stale, no age is negative, no patience
grows from a gap, and a note names both clocks where they differ.
"""

import random
import shlex
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
from wmtop.engine.snapshot import Snapshot

from ..targets.spark.driver_bench import HOUR, MINUTE, SECOND, Bench
from .blows import emptied
from .processes import ENDS_WITHIN_S, Command, home
from .rounds import Attack, attack, expect

SETTLES_MS = 30 * SECOND
"""How long after a step of a clock, or a gap, until two new batches have been seen."""
MAX_PATIENCE_MS = 3 * MINUTE
PROBE = 'check {} --fail-if "state == stale" --for 5s'
"""As docs/operating.md has it."""


class Torture:
    """Checkpoints in a directory of their own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def close(self) -> None:
        """Nothing is left."""

    def round(self, chance: random.Random, counts: Counter[str]) -> None:
        """One watch of a query in virtual time, or one probe."""
        attacks: dict[str, tuple[int, Attack]] = {"watch in virtual time": (4, self._watch)}
        attack(chance, counts, attacks, self._probe, 5)

    def _watch(self, chance: random.Random, counts: Counter[str]) -> None:
        """Minutes of a query, looked at each second; then it dies."""
        with pytest.MonkeyPatch.context() as patch:
            watch = _Watched(Bench(emptied(self._directory / "round") / "ckpt", patch, drawn_skew(chance)), chance)
            watch.bench.pass_time(chance.randint(30, 180) * SECOND, alive=True)
            watch.live(chance.randint(10, 60) * SECOND)
            for _ in range(chance.randint(1, 4)):
                watch.disturb(counts)
                watch.live(chance.randint(60, 240) * SECOND)
            if chance.random() < 0.5:
                watch.disturb(counts)
            watch.die(chance.randint(120, 300) * SECOND)
            counts["looks"] += watch.looks

    def _probe(self, chance: random.Random, counts: Counter[str]) -> None:
        """The liveness probe at a query that lives, or has been dead for minutes: only the second one is restarted."""
        directory, skew_ms = emptied(self._directory / "round"), drawn_skew(chance)
        lives = chance.random() < 0.5
        with pytest.MonkeyPatch.context() as patch:
            bench = Bench(directory / "ckpt", patch, skew_ms)
            dead_ms = 0 if lives else chance.randint(2, 30) * MINUTE
            bench.now_ms = (time.time_ns() // 1_000_000 - dead_ms) // 5_000 * 5_000 - 2 * MINUTE
            bench.pass_time(2 * MINUTE, alive=True)
        command = Command(directory, shlex.split(PROBE.format(directory / "ckpt")), home(directory))
        try:
            expect(command.wait(ENDS_WITHIN_S), f"{PROBE}, clock {skew_ms} ms ahead: does not end")
        finally:
            command.end()
        said = f"{PROBE}, clock {skew_ms} ms ahead, dead for {dead_ms} ms: {command.code}\n{command.said()[-1_500:]}"
        expect((command.code == 1) == (not lives), said)
        counts["probes of a live query" if lives else "probes of a dead query"] += 1


class _Step(NamedTuple):
    """What happened last to the clocks or to the watching."""

    name: str
    at_ms: int


class _Watched:
    """A bench that is looked at each second, and what must hold at each look."""

    def __init__(self, bench: Bench, chance: random.Random) -> None:
        self.bench = bench
        self._chance = chance
        self._step = _Step(f"a clock {bench.skew_ms} ms ahead", 0)
        self._died_ms: int | None = None
        self.looks = 0

    def disturb(self, counts: Counter[str]) -> None:
        """Set a clock, or do not look for a while."""
        bench, chance = self.bench, self._chance
        name = chance.choice(["driver's clock set", "our clock set", "gap", "nothing"])
        if name == "driver's clock set":
            bench.skew_ms = drawn_skew(chance)
        elif name == "our clock set":
            bench.set_by_ms = drawn_skew(chance)
        elif name == "gap":
            bench.pass_time(chance.randint(20, 600) * SECOND, alive=True)
        self._step = _Step(name, bench.now_ms)
        counts[f"disturbed: {name}"] += 1

    def live(self, ms: int) -> None:
        """Let the query live."""
        self.bench.pass_time(ms, alive=True, look=self._see)

    def die(self, ms: int) -> None:
        """Let it be dead."""
        self._died_ms = self.bench.now_ms
        self.bench.pass_time(ms, alive=False, look=self._see)

    def _see(self, seen: Snapshot) -> None:
        bench, verdict = self.bench, seen.verdict
        self.looks += 1
        what = (
            f"after {self._step.name} ({bench.now_ms - self._step.at_ms} ms ago), driver {bench.skew_ms} ms, "
            f"we set by {bench.set_by_ms} ms, dead since {self._died_ms}, now {bench.now_ms}: {seen.state}, {verdict}"
        )
        expect((verdict.age_ms or 0) >= 0, f"a negative age {what}")
        if bench.now_ms - self._step.at_ms < SETTLES_MS:
            return  # before two batches are known, patience is an hour
        expect((verdict.patience_ms or 0) <= MAX_PATIENCE_MS, f"patience {what}")
        if self._died_ms is None:
            expect((seen.state, verdict.verdict) == ("live", "moving"), f"a live query {what}")
            clocks = [note.args["offset_ms"] for note in seen.notes if note.code == "clock_offset"]
            expect(len(clocks) == bool(bench.skew_ms), f"no note, or one without a reason, {what}")
        elif bench.now_ms - max(self._died_ms, self._step.at_ms) > (verdict.patience_ms or 0) + SETTLES_MS:
            expect(verdict.verdict != "moving", f"a dead query {what}")


def drawn_skew(chance: random.Random) -> int:
    """No difference, or 40 s to an hour in either direction."""
    return chance.choice([0, 1, -1]) * chance.choice([40 * SECOND, chance.randrange(40 * SECOND, HOUR), HOUR])
