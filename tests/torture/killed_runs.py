"""A run with Spark whose engine, JVM or worker is killed, ended or stopped; the same command again ends it."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from wmtop.engine.feed.recording_reader import RecordingReader

from ..run.test_recovery import BATCHES, Outcome, applied, command, finish, records
from .blows import KINDS, STOPPED_S, Blow, emptied, fault_program, state_of
from .rounds import expect

POINTS = 80
"""An undisturbed run has 90 to 100 fault points; the last are at its end."""
STARTS_WITHIN_S = 900.0
VICTIMS = ("group", "engine", "JVM", "worker")


class Runs:
    """The undisturbed run, once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.file = emptied(directory / "source") / "records.parquet"
        records(self.file)
        run = emptied(directory / "undisturbed")
        self._expected: Outcome = finish(self.file, run)
        self._batches = applied_results(run / "run.rec")

    def round(self, chance: random.Random, counts: Counter[str]) -> None:
        """One or two blows, then the end."""
        run = emptied(self._directory / "round")
        said = list[str]()
        for _ in range(chance.randint(1, 2)):
            said.append(self._strike(chance, run, counts))
        self.expect_as_undisturbed(run, "; ".join(said))

    def expect_as_undisturbed(self, run: Path, what: str, *, recorded: bool = True) -> None:
        """Run the same command to its end: everything is as in the undisturbed run; not `recorded`: it had to stop
        recording, and the recording is as it should be up to there.
        """
        try:
            outcome = finish(self.file, run)
        except AssertionError as error:
            expect(False, f"run, {what}: {error}")
            raise
        self.expect_same(outcome, run, f"run, {what}", recorded=recorded)

    def expect_same(self, outcome: Outcome, run: Path, what: str, *, recorded: bool = True) -> None:
        """Results, and the recording of a run that has ended, are as in the undisturbed one."""
        expect(outcome == self._expected, f"{what}: {difference(outcome, self._expected)}")
        results = applied_results(run / "run.rec")
        wrong = [batch for batch, result in results.items() if result != self._batches.get(batch, result)]
        ended = BATCHES - 1 in results or not recorded
        expect(ended and not wrong, f"{what}: batches {wrong} of {sorted(results)} differ")

    def _strike(self, chance: random.Random, run: Path, counts: Counter[str]) -> str:
        """Start the run, strike once, and wait until it has ended; what was done."""
        kind = chance.choices(KINDS, (6, 2, 2))[0]
        at_point = chance.random() < 0.5
        victim = "engine" if at_point else chance.choice(VICTIMS)
        nth, before, whole = chance.randint(1, POINTS), chance.random() < 0.5, chance.random() < 0.5
        after = (applied(run) + 1) + chance.randrange(max(BATCHES - 3 - applied(run), 1)), chance.uniform(0, 0.6)
        stopped_s = chance.uniform(0, STOPPED_S)
        what = f"{kind.name} of {victim} " + (
            f"{'before' if before else 'after'} fault point {nth}{', the whole group' if whole else ''}"
            if at_point
            else f"{after[1]:.2f} s after batch {after[0]}"
        )
        arguments = command(self.file, run)
        reached = run / "reached"
        reached.unlink(missing_ok=True)
        if at_point:
            group = whole and kind == signal.SIGKILL
            arm = Blow(kind, None, nth, before, stopped_s).arming(reached, whole_group=group)
            arguments = [sys.executable, "-c", fault_program(arm), *arguments[3:]]
        with (run / "stderr").open("wb") as err:
            process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=err, start_new_session=True)
        try:
            if at_point:
                fell = wait_at_point(process, reached, kind, stopped_s)
            else:
                fell = strike_after(process, run, after, victim, kind, stopped_s)
            ended = ends(process)
        finally:
            end_group(process)
        said = (run / "stderr").read_text()
        expect(ended, f"run, {what}: it does not end\n{said[-1_500:]}")
        expect("Traceback" not in said, f"run, {what}: {said[-1_500:]}")
        died = fell and victim != "worker" and kind != signal.SIGSTOP  # a task whose worker dies is tried again
        if not died:
            expect(process.returncode == 0, f"run, {what}: exit code {process.returncode}\n{said[-1_500:]}")
        counts[
            f"run: {kind.name} of {victim}{' at a fault point' if at_point else ''}{'' if fell else ' came too late'}"
        ] += 1
        return what


def strike_after(
    process: "subprocess.Popen[bytes]", run: Path, after: tuple[int, float], victim: str, kind: int, stopped_s: float
) -> bool:
    """Signal the victim after a batch was applied; False if the run had ended before."""
    while applied(run) < after[0]:
        if process.poll() is not None:
            return False
        time.sleep(0.005)
    time.sleep(after[1])
    pids = [process.pid] if victim in ("engine", "group") else children(process.pid, victim)
    if process.poll() is not None or not pids:
        return False
    for number in (kind, signal.SIGCONT) if kind == signal.SIGSTOP else (kind,):
        for pid in pids:
            try:
                os.killpg(pid, number) if victim == "group" else os.kill(pid, number)
            except ProcessLookupError:
                return False
        time.sleep(stopped_s)
    return True


def wait_at_point(process: "subprocess.Popen[bytes]", reached: Path, kind: int, stopped_s: float) -> bool:
    """Wait until it was struck, and let it go on if it was stopped; whether it was struck."""
    until = time.monotonic() + STARTS_WITHIN_S
    while process.poll() is None and not reached.exists() and time.monotonic() < until:
        time.sleep(0.01)
    if kind == signal.SIGSTOP and reached.exists():
        while process.poll() is None and state_of(process.pid) != "T" and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(stopped_s)
        process.send_signal(signal.SIGCONT)
    return reached.exists()


def children(engine: int, victim: str) -> list[int]:
    """The JVM of an engine, or the Python processes below it."""
    jvm = [pid for pid in below(engine) if "java" in name_of(pid)]
    if victim == "JVM":
        return jvm
    return [pid for parent in jvm for pid in all_below(parent) if "python" in name_of(pid)]


def below(pid: int) -> list[int]:
    """A process's children, of all its threads."""
    found = list[int]()
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, file.read_text().split())
        except OSError:
            continue
    return found


def all_below(pid: int) -> list[int]:
    return [found for child in below(pid) for found in (child, *all_below(child))]


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def ends(process: "subprocess.Popen[bytes]") -> bool:
    """Whether it ends by itself."""
    try:
        process.wait(STARTS_WITHIN_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def end_group(process: "subprocess.Popen[bytes]") -> None:
    """Kill what is left of it, if it has not ended; a JVM without an engine ends by itself, and the next run waits."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def applied_results(path: Path) -> dict[int, Any]:
    """What a recording has of each batch at its first snapshot after it."""
    results = dict[int, Any]()
    with RecordingReader(path) as recording:
        for snapshot in recording:
            if snapshot.batch is not None and snapshot.state == "live":
                level = snapshot.level
                results.setdefault(snapshot.batch, (snapshot.totals, level.watermark_ms, level.holder))
    return results


def difference(outcome: Outcome, expected: Outcome) -> str:
    """The parts that differ, as text."""
    parts = [
        f"{name}: {outcome[0][name]} instead of {value}"
        for name, value in expected[0].items()
        if outcome[0][name] != value
    ]
    if outcome[1] != expected[1]:
        parts.append(f"firings and late records: {len(outcome[1])} instead of {len(expected[1])}")
    return "; ".join(parts)[:2_000]
