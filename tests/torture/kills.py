"""(a) KILL, TERM and STOP at random moments and at fault points; after each all is as if nothing had happened.

Most rounds are of processes without a JVM; one of ten is a run, whose engine, JVM or worker is hit.
"""

import fcntl
import os
import pty
import random
import re
import select
import signal
import struct
import subprocess
import termios
import time
import zipfile
from collections import Counter
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from wmtop.engine.feed.recording_reader import RecordingReader

from .blows import drawn, emptied, struck
from .killed_runs import Runs
from .processes import ENDS_WITHIN_S, WMTOP, Command, home
from .record_all import snapshots_of
from .rounds import RUN_EVERY, Attack, attack, expect

HERE = Path(__file__).parent
SOURCE = HERE.parent / "doctor" / "flights-lateness-30m.rec"
LOG = HERE / "corpus" / "spark event log" / "0"
RECORD_ALL = HERE.joinpath("record_all.py").read_text()
READERS = {
    "check": "check REC",
    "check --json": "check REC --json",
    "replay --once": "replay REC --once",
    "replay --once --json": "replay REC --once --json",
    "replay --json": "replay REC --json --speed max",
    "export": "export REC --json --once",
    "advise": "advise REC",
    "preview": "preview REC --lateness 1h --json",
}
WRITERS = {"report": "report REC -o OUT.zip", "redact": "replay REC --redact OUT.rec"}


class Torture:
    """What an undisturbed command gives, each once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._undisturbed: dict[str, tuple[int | None, str]] = {}
        self._runs: Runs | None = None
        self._snapshots = snapshots_of(SOURCE)[1]

    def close(self) -> None:
        """Nothing is left: each round ends what it started."""

    def round(self, chance: random.Random, counts: Counter[str]) -> None:
        """One command and its blows."""
        attacks: dict[str, tuple[int, Attack]] = {
            "recording writer": (6, self.record),
            "reader": (4, self._read),
            "writer of a file": (4, self._write),
            "screen": (2, self._show),
            "attach": (2, self._attach),
        }
        attack(chance, counts, attacks, self.run, RUN_EVERY)

    def run(self, chance: random.Random, counts: Counter[str]) -> None:
        """A run with Spark, hit once or more."""
        self._runs = self._runs or Runs(self._directory / "runs")
        self._runs.round(chance, counts)

    def record(self, chance: random.Random, counts: Counter[str]) -> None:
        """The recording writer, killed and continued once or more."""
        directory = emptied(self._directory / "round")
        environment, path = home(directory), directory / "killed.rec"
        size = chance.choice([0, 40_000, 90_000])
        first, blows = 0, list[str]()
        what = f"recording of {size} bytes"
        for _ in range(chance.randint(1, 3)):
            blow = drawn(chance, 2.0, 300)
            command, fell = struck(
                blow, directory, [SOURCE, path, first, size], environment, program=RECORD_ALL, then=RECORD_ALL
            )
            blows.append(str(blow))
            what = f"recording of {size} bytes from {first}, {'; '.join(blows)}"
            counts[f"{blow.kind.name}{'' if fell else ' came too late'}"] += 1
            printed = command.out.read_text().split()[1:]
            acknowledged = int(printed[-1]) if printed else first - 1
            first = self._expect_recorded(path, acknowledged, size, what)
            ended = command.code == 0
            expect(ended or (fell and blow.kind != signal.SIGSTOP), f"{what}: {command.said()[-1_500:]}")
        done = len(self._snapshots) - 1
        command = Command(directory, [SOURCE, path, first, size], environment, RECORD_ALL)
        expect(command.wait(ENDS_WITHIN_S), f"{what}: hangs")
        expect(command.code == 0, f"{what}: {command.said()[-1_500:]}")
        expect(self._expect_recorded(path, done, size, what) == done + 1, f"{what}: not all")
        with RecordingReader(path) as reader:
            expect(not reader.truncated, f"{what}: closed, and called truncated")
        expect(not path.with_name(path.name + ".shorter").exists(), f"{what}: a copy is left")

    def _expect_recorded(self, path: Path, acknowledged: int, size: int, what: str) -> int:
        """All that was acknowledged is there, and nothing else than what was to be recorded; the next number."""
        if not path.exists() or not path.stat().st_size:
            expect(acknowledged < 0, f"{what}: the recording is gone, {acknowledged} was acknowledged")
            return 0
        with RecordingReader(path) as reader:
            recorded = list(reader)
        numbers = [snapshot.batch for snapshot in recorded]
        expect(all(b == a + 1 for a, b in pairwise(numbers)), f"{what}: {numbers}")  # type: ignore[operator]
        last = -1 if not numbers else int(numbers[-1] or 0)
        expect(acknowledged <= last <= acknowledged + 1, f"{what}: {acknowledged} acknowledged, {last} is the last")
        expect(size or not numbers or numbers[0] == 0, f"{what}: begins with {numbers[:1]}")
        wrong = [n for n in numbers if n is not None and recorded[n - numbers[0]] != self._snapshots[n]]  # type: ignore[operator]
        expect(not wrong, f"{what}: snapshots {wrong} differ")
        return last + 1

    def _result(self, name: str, words: list[str], directory: Path) -> tuple[int | None, str]:
        """Exit code and output of an undisturbed command, without the moment of it."""
        command = Command(directory, words, home(directory))
        expect(command.wait(ENDS_WITHIN_S), f"{name}: hangs")
        return command.code, normal(command.out.read_text())

    def _read(self, chance: random.Random, counts: Counter[str]) -> None:
        directory = emptied(self._directory / "round")
        recording = directory / "source.rec"
        recording.write_bytes(SOURCE.read_bytes())
        name = chance.choice(sorted(READERS))
        words = READERS[name].replace("REC", str(recording)).split()
        if name not in self._undisturbed:
            self._undisturbed[name] = self._result(name, words, directory)
            expect(self._undisturbed[name][0] in (0, 1, 3), f"{name}: {self._undisturbed[name]}")
        blow = drawn(chance, 2.0, 0)
        command, fell = struck(blow, directory, words, home(directory))
        what = f"{name}, {blow}"
        counts[f"{blow.kind.name}{'' if fell else ' came too late'}"] += 1
        if not fell or blow.kind == signal.SIGSTOP:
            same = (command.code, normal(command.out.read_text())) == self._undisturbed[name]
            expect(same, f"{what}: {command.code} {command.said()[-1_500:]}")
        expect("Traceback" not in command.said(), f"{what}: {command.said()[-1_500:]}")
        expect(recording.read_bytes() == SOURCE.read_bytes(), f"{what}: the recording has changed")
        again = self._result(name, words, directory)
        expect(again == self._undisturbed[name], f"{what}: another result afterwards: {again}")
        left = sorted(path.name for path in (directory / "tmp").iterdir())
        expect(not left, f"{what}: {left} is left")

    def _write(self, chance: random.Random, counts: Counter[str]) -> None:
        directory = emptied(self._directory / "round")
        name = chance.choice(sorted(WRITERS))
        words = WRITERS[name].replace("REC", str(SOURCE)).replace("OUT", str(directory / "out")).split()
        out = Path(words[-1])
        force = chance.random() < 0.4
        if force:
            out.write_bytes(b"before")
            words.append("--force")
        blow = drawn(chance, 4.0, 12 if name == "report" else 150)
        command, fell = struck(blow, directory, words, home(directory))
        what = f"{name}{' --force' if force else ''}, {blow}"
        counts[f"{blow.kind.name}{'' if fell else ' came too late'}"] += 1
        if not fell or blow.kind == signal.SIGSTOP:
            expect(command.code == 0, f"{what}: {command.code} {command.said()[-1_500:]}")
        expect("Traceback" not in command.said(), f"{what}: {command.said()[-1_500:]}")
        if out.exists() and not (force and out.read_bytes() == b"before"):
            self._expect_whole(out, f"{what}: killed")
        else:
            code, said = self._result(name, words, directory)
            expect(code == 0, f"{what}: the same again: {code} {said}")
            self._expect_whole(out, f"{what}: again")
        left = sorted(path.name for path in directory.iterdir() if path.name.startswith("out") and path != out)
        expect(not left, f"{what}: {left} is left")

    def _expect_whole(self, out: Path, what: str) -> None:
        try:
            if out.suffix == ".rec":
                with RecordingReader(out) as reader:
                    expect(not reader.truncated and len(reader) == len(self._snapshots) // 4, f"{what}: a part of it")
            else:
                with zipfile.ZipFile(out) as archive:
                    expect(archive.testzip() is None and len(archive.namelist()) >= 4, f"{what}: {archive.namelist()}")
        except (zipfile.BadZipFile, AssertionError) as error:
            expect(False, f"{what}: {out.name} is not whole: {error}")

    def _attach(self, chance: random.Random, counts: Counter[str]) -> None:
        """An event log that grows while it is recorded."""
        directory = emptied(self._directory / "round")
        log, path = directory / "log", directory / "attached.rec"
        lines = LOG.read_bytes().splitlines(keepends=True)
        log.write_bytes(b"".join(lines[:6]))
        words = ["attach", log, "--headless", "--record", path, "--name", "job"]
        left = lines[6:]

        def grow() -> None:
            if left and chance.random() < 0.05:
                with log.open("ab") as file:
                    file.write(left.pop(0))

        blow = drawn(chance, 4.0, 40)
        command, fell = struck(blow, directory, words, home(directory), meanwhile=grow, ended_after_s=6)
        what = f"attach, {blow}"
        counts[f"{blow.kind.name}{'' if fell else ' came too late'}"] += 1
        expect("Traceback" not in command.said(), f"{what}: {command.said()[-1_500:]}")
        if path.exists() and path.stat().st_size:
            with RecordingReader(path) as reader:
                list(reader)
        log.write_bytes(b"".join(lines))
        again = Command(directory, [*words[:2], "--once", "--json"], home(directory))
        expect(again.wait(ENDS_WITHIN_S), f"{what}: hangs")
        seen = (again.code, normal(again.out.read_text()))
        first = self._undisturbed.setdefault("attach", seen)
        expect(seen == first, f"{what}: another result afterwards\n{again.said()[-1_500:]}")
        code, said = self._result("runs", ["runs"], directory)
        expect(code == 0 and "job" not in said, f"{what}: a dead one is listed: {said}")

    def _show(self, chance: random.Random, counts: Counter[str]) -> None:
        """The screen on a recording, in a terminal."""
        directory = emptied(self._directory / "round")
        blow = drawn(chance, 5.0, 0)
        screen = Screen(directory, ["replay", str(SOURCE)])
        what = f"screen, {blow}"
        try:
            screen.read_for(blow.after_s or 0)
            fell = screen.process.poll() is None
            expect(fell, f"{what}: it has ended: {screen.shown[-500:]!r}")
            screen.process.send_signal(blow.kind)
            if blow.kind == signal.SIGSTOP:
                time.sleep(blow.stopped_s)
                screen.process.send_signal(signal.SIGCONT)
                screen.quit(what)
                expect(screen.process.returncode == 0, f"{what}: exit code {screen.process.returncode}")
            else:
                expect(screen.ends_within(ENDS_WITHIN_S), f"{what}: it does not end")
        finally:
            screen.close()
        counts[blow.kind.name] += 1
        expect(b"Traceback" not in screen.shown, f"{what}: {screen.shown[-1_500:]!r}")
        if blow.kind != signal.SIGKILL and b"\x1b[?1049h" in screen.shown:
            left = screen.shown.rfind(b"\x1b[?1049l") > screen.shown.rfind(b"\x1b[?1049h")
            expect(left, f"{what}: the terminal is left as it was: {screen.shown[-300:]!r}")


class Screen:
    """A command in a terminal of its own."""

    def __init__(self, directory: Path, words: list[str]) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.shown = bytearray()
        self.process = subprocess.Popen(
            [*WMTOP, *words], stdin=slave, stdout=slave, stderr=slave, cwd=directory,
            env=home(directory), start_new_session=True,
        )  # fmt: skip
        os.close(slave)

    def read_for(self, seconds: float) -> None:
        """Read what it shows for that time, or until it ends."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and self.process.poll() is None:
            self._read(min(left, 0.05))

    def _read(self, wait_s: float) -> None:
        if select.select([self._master], [], [], wait_s)[0]:
            with suppress(OSError):  # the other end is closed
                self.shown += os.read(self._master, 1 << 20)

    def ends_within(self, seconds: float) -> bool:
        """Whether it ends by itself."""
        self.read_for(seconds)
        return self.process.poll() is not None

    def quit(self, what: str) -> None:
        """Press `q` until it ends: what is typed before it listens is lost."""
        for _ in range(int(ENDS_WITHIN_S)):
            with suppress(OSError):
                os.write(self._master, b"q")
            if self.ends_within(1.0):
                return
        expect(False, f"{what}: q does not end it: {self.shown[-500:]!r}")

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for _ in range(64):  # what it has left in the terminal
            self._read(0)
        os.close(self._master)


def normal(text: str) -> str:
    """Output without the moment at which it was made, and how old a recording was then."""
    return re.sub(r'"(wall_ms|age_ms)":\d+', "", text)
