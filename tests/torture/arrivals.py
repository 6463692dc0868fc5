"""(h) Files come as writers leave them, and the run is killed meanwhile: each row counts once, or its file is named.

Most rounds are of the watch and its plan alone, by a clock of the test; one of ten is a run with Spark that is killed.
"""

import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from wmtop.engine.run.sources.base import SourceNotes
from wmtop.engine.run.sources.directory_watch import NAMED_AFTER_S, REST_S, DirectoryWatch, FileState
from wmtop.engine.run.sources.file_plan import FilePlan, PlannedBatch
from wmtop.engine.snapshot import Note

from ..run.test_arriving_files import DAY_S, Engine, command, notes, rows
from .blows import emptied
from .rounds import RUN_EVERY, Attack, attack, expect

START_NS = 1_700_000_000_000_000_000
ROW = b"{}\n"
SETTLED_S = NAMED_AFTER_S + 3 * REST_S

Writer = Iterator[float]
"""Acts, and yields how long (s) it waits until its next act."""


class World:
    """A directory, a clock, the writers, and what a watch has read of it over several lives."""

    def __init__(self, directory: Path, chance: random.Random) -> None:
        self.directory = directory / "in"
        self.directory.mkdir()
        self.away = directory / "away"
        self.plan_file = directory / "files.log"
        self.chance = chance
        self.now_s = 0.0
        self.batch = 0
        self.read: dict[str, list[int]] = {}
        """The sizes that a file had when it was read, each time."""
        self.seen: set[str] = set()
        """The files that were there at a look of this life."""
        self.said: list[Note] = []
        self.watch: DirectoryWatch
        self.plan: FilePlan

    def begin(self) -> None:
        """The run starts, or starts again: batches from `self.batch` on were not applied."""
        self.seen.clear()
        source_notes = SourceNotes()
        source_notes.subscribe(self.said.append)
        self.plan = FilePlan(self.plan_file)
        self.plan.resume(self.batch - 1 if self.batch else None)
        self.watch = DirectoryWatch(
            self.directory, "json", source_notes, any_name=False, once=False,
            clock_s=lambda: self.now_s, wall_ns=lambda: START_NS + int(self.now_s * 1e9),
        )  # fmt: skip
        self.watch.begin(self.plan.files())

    def look(self, *, is_applied: bool) -> None:
        """One look, and the batch that it makes; unless `is_applied` the run is killed before it counts."""
        if self.directory.exists():
            self.seen |= {str(file.relative_to(self.directory)) for file in self.directory.rglob("*.jsonl")}
        ready = self.watch.look()
        if ready:
            self.plan.add(PlannedBatch(self.batch, ready))
            self.watch.take(ready)
            if is_applied:
                self.count(ready)
                self.batch += 1
        if not is_applied:
            self.begin()

    def count(self, files: list[tuple[str, FileState]]) -> None:
        for path, _ in files:
            self.read.setdefault(path, []).append((self.directory / path).stat().st_size)

    def write(self, path: Path, content: bytes, *, age_s: float = 0.0, mode: str = "wb") -> None:
        with path.open(mode) as file:
            file.write(content)
        stamp = START_NS + int((self.now_s - age_s) * 1e9)
        os.utime(path, ns=(stamp, stamp))

    def writer(self, number: int) -> Writer:
        """One file, and all that happens to it."""
        chance, name = self.chance, f"{'d/' if self.chance.random() < 0.2 else ''}{number}.jsonl"
        path = self.directory / name
        yield chance.uniform(0, 20)
        path.parent.mkdir(exist_ok=True)
        kind = chance.choice(["moved", "slow", "stalling", "empty", "old", "replaced", "deleted"])
        if kind == "moved":
            self.write(path.with_suffix(".jsonl.tmp"), ROW * 9, age_s=chance.uniform(0, 3))
            yield chance.uniform(0, 30)
            path.with_suffix(".jsonl.tmp").rename(path)
        elif kind == "old":
            self.write(path, ROW * 9, age_s=chance.uniform(2, 400 * DAY_S))
        else:
            yield from self._in_place(path, kind)

    def _in_place(self, path: Path, kind: str) -> Writer:
        chance = self.chance
        self.write(path, b"" if kind == "empty" else ROW)
        if kind == "empty":
            yield chance.uniform(0, 30)
        longest = 3 * REST_S if kind == "stalling" else 0.9 * REST_S
        for _ in range(chance.randint(1, 8)):
            yield chance.uniform(0.01, longest)
            self.write(path, ROW, mode="ab")
        if kind == "replaced":
            yield chance.uniform(0, 5)
            self.write(path.with_name(f"{path.name}.tmp"), ROW * chance.randint(1, 12))
            path.with_name(f"{path.name}.tmp").replace(path)
        if kind == "deleted":
            yield chance.uniform(0, 2)
            path.unlink()

    def mover(self) -> Writer:
        """Takes the directory away, and brings it back."""
        yield self.chance.uniform(1, 20)
        self.directory.rename(self.away)
        yield self.chance.uniform(0.5, 5)
        self.away.rename(self.directory)


class Torture:
    """Rounds of the watch, and runs."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def close(self) -> None:
        """Nothing is left: each round ends what it started."""

    def round(self, chance: random.Random, counts: Counter[str]) -> None:
        """One directory, with all that comes into it."""
        attacks: dict[str, tuple[int, Attack]] = {"watch": (1, self.watch)}
        attack(chance, counts, attacks, self.run, RUN_EVERY)

    def watch(self, chance: random.Random, counts: Counter[str]) -> None:
        """A watch that looks at random moments, and is killed before a batch counts."""
        world = World(emptied(self._directory / "round"), chance)
        world.begin()
        writers = [world.writer(number) for number in range(chance.randint(1, 30))]
        if chance.random() < 0.5:
            writers = [world.mover()]  # while it is away nobody writes
            for number in range(5):
                world.write(world.directory / f"{number}.jsonl", ROW * 3, age_s=number)
        due = [(0.0, writer) for writer in writers]
        settled_s = SETTLED_S
        while due or settled_s > 0:
            step = chance.uniform(0.05, 0.5)
            world.now_s += step
            settled_s -= 0 if due else step
            due = [left for at, writer in due if (left := _acted(at, writer, world)) is not None]
            killed = bool(due) and chance.random() < 0.05
            world.look(is_applied=not killed)
            counts["killed before a batch counted"] += killed
            lost = not world.directory.exists()
            expect(world.watch.is_lost == lost or killed, f"the directory is {'away' if lost else 'there'}")
        self._expect_counted(world, counts)

    def _expect_counted(self, world: World, counts: Counter[str]) -> None:
        named = {str(note.args["file"]) for note in world.said if "file" in note.args}
        for path in world.seen | world.read.keys():
            sizes = world.read.get(path, [])
            expect(len(sizes) <= 1, f"{path} was read {len(sizes)} times")
            file = world.directory / path
            is_whole = file.exists() and sizes == [file.stat().st_size]
            expect(is_whole or path in named or not file.exists(), f"{path}: {sizes} bytes read, and nothing said")
            if not file.exists() and not sizes:
                expect(path in named, f"{path} was seen and deleted unread, and nothing said")
            counts["files read whole" if is_whole else "files that changed, named"] += 1

    def run(self, chance: random.Random, counts: Counter[str]) -> None:
        """A run that is killed while files come; in the end each row of each file was counted once."""
        directory = emptied(self._directory / "run")
        files = directory / "in"
        files.mkdir()
        (files / "first.jsonl").write_text(rows(0, 10))
        expected, lives = 10, chance.randint(1, 3)
        for life in range(lives + 1):
            running = Engine(command(files, directory / "state"), directory / "errors")
            try:
                for number in range(chance.randint(3, 8)):
                    expected += _arrive(files / f"{life}-{number}.jsonl", chance)
                if life < lives:
                    _until(lambda: (directory / "state/state.json").exists(), chance.uniform(0, 6))
                    os.kill(running.process.pid, signal.SIGKILL)
                    counts["run: KILL of engine"] += 1
                    continue
                running.read(expected)
                time.sleep(3 * REST_S)
                line: dict[str, Any] = running.read(expected)
                expect(line["totals"]["records"] == expected, f"{line['totals']} of {expected}: {notes(line)}")
            finally:
                running.kill()
        shutil.rmtree(directory)


def _acted(at_s: float, writer: Writer, world: World) -> tuple[float, Writer] | None:
    """The writer with the time of its next act; None: it has done all."""
    while at_s <= world.now_s:
        pause_s = next(writer, None)
        if pause_s is None:
            return None
        at_s = world.now_s + pause_s
    return at_s, writer


def _arrive(path: Path, chance: random.Random) -> int:
    """A file comes in one of the ways that count; the number of its rows."""
    count, way = chance.randint(1, 200), chance.choice(["moved", "slow", "empty", "old"])
    if way == "moved":
        path.with_suffix(".tmp").write_text(rows(0, count))
        path.with_suffix(".tmp").rename(path)
    elif way == "old":
        path.write_text(rows(0, count))
        os.utime(path, (1, 1))
    elif way == "empty":
        path.touch()
        time.sleep(chance.uniform(0, 2))
        path.write_text(rows(0, count))
    else:
        with path.open("w") as file:
            for number in range(count):
                file.write(rows(number, 1))
                if number % 50 == 0:
                    file.flush()
                    time.sleep(0.2)
    return count


def _until(holds: Callable[[], bool], more_s: float) -> None:
    """Wait until it holds, and some more."""
    deadline = time.monotonic() + 180
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(more_s)
