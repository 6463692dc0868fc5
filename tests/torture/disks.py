"""(b) Disks that are full, read-only, slow or fail; states cut at every byte, of other versions, prepared by others;
clocks that jump.

A failure is one line, with exit code 1 or 2; what was there before stays, and on a good disk the same command gives
what it gives undisturbed.
"""

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from wmtop.engine.feed.recording_reader import RecordingReader

from ..run.test_recovery import BATCHES, applied, command
from .blows import emptied, fault_program
from .canaries import RUN
from .cut_states import cut_everywhere
from .killed_runs import Runs, end_group, ends
from .kills import LOG, READERS, RECORD_ALL, SOURCE, normal
from .planted_states import plant
from .processes import ENDS_WITHIN_S, Command, home
from .record_all import snapshots_of
from .rounds import RUN_EVERY, Attack, attack, expect

ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT)
STEPS_S = (-86_400.0, -3_600.0, -1.0, 1.0, 3_600.0, 86_400.0, 400 * 86_400.0)


class Torture:
    """What an undisturbed command gives, each once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._runs: Runs | None = None
        self._snapshots = snapshots_of(SOURCE)[1]
        self._undisturbed: dict[str, tuple[int | None, str]] = {}

    def close(self) -> None:
        """Nothing is left: each round ends what it started."""

    def round(self, chance: random.Random, counts: Counter[str]) -> None:
        """One command on a bad disk, or with a bad clock."""
        attacks: dict[str, tuple[int, Attack]] = {
            "recording writer": (4, self._record),
            "report or redacted copy": (3, self._write),
            "attach": (2, self._attach),
            "state cut at every byte": (2, self._cut),
            "reader with a clock that jumps": (2, self._read),
        }
        attack(chance, counts, attacks, self.run, RUN_EVERY)

    def _record(self, chance: random.Random, counts: Counter[str]) -> None:
        """All that was acknowledged is there; after the failure the recording is continued."""
        directory = emptied(self._directory / "round")
        with disk(directory, chance, counts) as (place, fault, fails):
            path = place / "a.rec"
            command = Command(
                directory,
                [SOURCE, path, 0, chance.choice([0, 40_000])],
                home(directory),
                fault_program(fault, RECORD_ALL),
            )
            self._end(command, fault)
            said = command.said()
            failed = command.code != 0
            counts["failed" if failed else "did not fail"] += 1
            expect(fails or not failed, f"recording, {fault}: {said[-1_500:]}")
            printed = [int(word) for word in command.out.read_text().split() if word.isdecimal()]
            recorded = list[int]()
            if path.exists() and path.stat().st_size:
                with RecordingReader(path) as reader:
                    snapshots = list(reader)
                recorded = [int(snapshot.batch or 0) for snapshot in snapshots]
                same = all(s == self._snapshots[n] for s, n in zip(snapshots, recorded, strict=True))
                expect(same, f"recording, {fault}: snapshots differ")
            last = recorded[-1] if recorded else -1
            expect(
                not printed or last >= printed[-1], f"recording, {fault}: {printed[-1:]} acknowledged, {last} is there"
            )
            expect(not failed or "wmtop.engine.system.errors" in said, f"recording, {fault}: a foreign error\n{said}")
        # on a disk with space
        if not path.exists():
            return
        again = Command(directory, [SOURCE, path, last + 1, 0], home(directory), RECORD_ALL)
        self._end(again, fault)
        expect(again.code == 0, f"recording again after {fault}: {again.said()[-1_500:]}")
        with RecordingReader(path) as reader:
            numbers = [int(snapshot.batch or 0) for snapshot in reader]
        expected = list(range(numbers[0], len(self._snapshots)))
        expect(numbers == expected, f"recording again after {fault}: {numbers}")

    def _write(self, chance: random.Random, counts: Counter[str]) -> None:
        """A file is whole or not there."""
        directory = emptied(self._directory / "round")
        name = chance.choice(["report", "redact"])
        with disk(directory, chance, counts) as (place, fault, fails):
            out = place / ("out.zip" if name == "report" else "out.rec")
            words = ["report", SOURCE, "-o", out] if name == "report" else ["replay", SOURCE, "--redact", out]
            self._command(f"{name}, {fault}", words, directory, fault, counts, may_fail=fails)
            left = sorted(path.name for path in place.glob("out*") if path != out)
            expect(not left or "calls=" in fault, f"{name}, {fault}: {left} is left")
            if out.exists():
                self._expect_whole(out, f"{name}, {fault}")

    def _expect_whole(self, out: Path, what: str) -> None:
        try:
            if out.suffix == ".rec":
                with RecordingReader(out) as reader:
                    expect(not reader.truncated and len(reader) == len(self._snapshots) // 4, f"{what}: a part of it")
            else:
                with zipfile.ZipFile(out) as archive:
                    expect(archive.testzip() is None, f"{what}: damaged")
        except zipfile.BadZipFile as error:
            expect(False, f"{what}: {error}")

    def _attach(self, chance: random.Random, counts: Counter[str]) -> None:
        """A recording of an attached query ends with a line; the query is shown all the same."""
        directory = emptied(self._directory / "round")
        log = directory / "log"
        log.write_bytes(LOG.read_bytes())
        with disk(directory, chance, counts) as (place, fault, fails):
            words = ["attach", log, "--headless", "--record", place / "a.rec"]
            if chance.random() < 0.5 and fault != "pass":  # else the disk itself is bad
                fault, fails = f"step_clock({chance.randint(1, 60)}, {chance.choice(STEPS_S)})", False
            self._command(f"attach, {fault}", words, directory, fault, counts, may_fail=fails, ended_after_s=6)
            if (place / "a.rec").exists() and (place / "a.rec").stat().st_size:
                with RecordingReader(place / "a.rec") as reader:
                    list(reader)

    def _read(self, chance: random.Random, counts: Counter[str]) -> None:
        directory = emptied(self._directory / "round")
        name = chance.choice(sorted(READERS))
        words = READERS[name].replace("REC", str(SOURCE)).split()
        if name not in self._undisturbed:
            plain = Command(directory, words, home(directory))
            self._end(plain, "no fault")
            self._undisturbed[name] = plain.code, normal(plain.out.read_text())
        fault = f"step_clock({chance.randint(1, 40)}, {chance.choice(STEPS_S)})"
        command = Command(directory, words, home(directory), fault_program(fault))
        self._end(command, fault)
        same = (command.code, normal(command.out.read_text())) == self._undisturbed[name]
        expect(same, f"{name}, {fault}: another result\n{command.said()[-1_500:]}")

    def _command(
        self,
        what: str,
        words: list[object],
        directory: Path,
        fault: str,
        counts: Counter[str],
        *,
        may_fail: bool,
        ended_after_s: float | None = None,
    ) -> None:
        """Run a command under a fault, with a TERM `ended_after_s`: it succeeds, or says why not in one line."""
        command = Command(directory, words, home(directory), fault_program(fault))
        if ended_after_s is not None and not command.wait(ended_after_s):
            command.process.send_signal(signal.SIGTERM)
        self._end(command, fault)
        said = command.err.read_text()
        expect("Traceback" not in said, f"{what}: a stack trace\n{said[-1_500:]}")
        failed = command.code not in (0, 128 + signal.SIGTERM, -signal.SIGTERM)
        counts["failed" if failed else "did not fail"] += 1
        expect(may_fail or not failed, f"{what}: exit code {command.code}\n{said[-1_500:]}")
        if failed:
            errors = [line for line in said.splitlines() if line.startswith("wmtop: ")]
            expect(errors and command.code in (1, 2), f"{what}: exit code {command.code}\n{said[-1_500:]}")
            expect("unexpected" not in errors[-1], f"{what}: a foreign error\n{said[-1_500:]}")

    @staticmethod
    def _end(command: Command, fault: str) -> None:
        try:
            expect(command.wait(ENDS_WITHIN_S), f"{command}, {fault}: it does not end\n{command.said()[-1_500:]}")
        finally:
            command.end()

    def _cut(self, chance: random.Random, counts: Counter[str]) -> None:
        cut_everywhere(emptied(self._directory / "round"), chance, counts)
        plant(emptied(self._directory / "round"), chance, counts)

    def run(self, chance: random.Random, counts: Counter[str]) -> None:
        """A run with Spark: one fault, then the same command again."""
        self._runs = self._runs or Runs(self._directory / "runs")
        run = emptied(self._directory / "run")
        nth = chance.randint(1, 80)
        calls, error = chance.choice([1, 1_000_000]), chance.choice(ERRORS)
        fault = chance.choice(
            [
                f"fail_from({nth}, error={error}, calls={calls})",
                f"fill_at({chance.randint(200, 20_000)})",
                f"step_clock({chance.randint(1, 400)}, {chance.choice(STEPS_S)})",
                f"slow_down({chance.uniform(0, 0.2):.3f})",
            ]
        )
        arguments = command(self._runs.file, run)
        with (run / "stderr").open("wb") as err:
            process = subprocess.Popen(
                [sys.executable, "-c", fault_program(fault, RUN), *arguments[3:]],
                stdout=subprocess.DEVNULL, stderr=err, start_new_session=True,
            )  # fmt: skip
        try:
            ended = ends(process)
        finally:
            end_group(process)
        said = (run / "stderr").read_text()
        what = f"run, {fault}, exit code {process.returncode}"
        expect(ended, f"{what}: it does not end\n{said[-1_500:]}")
        expect("Traceback" not in said and "unexpected" not in said, f"{what}: a foreign error\n{said[-1_500:]}")
        harmless = fault.startswith(("step", "slow"))
        expect(process.returncode in ((0,) if harmless else (0, 1, 2)), f"{what}\n{said[-1_500:]}")
        counts[f"run: {fault.partition('(')[0]}{', failed' if process.returncode else ''}"] += 1
        if chance.random() < 0.3 and applied(run) < BATCHES - 1:
            self._cut_and_refuse(run, chance, f"{what}, cut", counts)
        gave_up = process.returncode == 0 and "continues without recording" in said
        self._runs.expect_as_undisturbed(run, what, recorded=not gave_up)

    def _cut_and_refuse(self, run: Path, chance: random.Random, what: str, counts: Counter[str]) -> None:
        """The state of a real run, cut: it is refused; then it is as it was again."""
        assert self._runs is not None
        state = run / "state" / "state.json"
        if not state.exists():
            return
        whole = state.read_bytes()
        state.write_bytes(whole[: chance.randrange(len(whole))])
        done = subprocess.run(command(self._runs.file, run), capture_output=True, text=True, timeout=300, check=False)
        expect(
            done.returncode == 2 and "cannot be continued" in done.stderr, f"{what}: {done.returncode} {done.stderr}"
        )
        state.write_bytes(whole)
        counts["run: cut state refused"] += 1


@contextmanager
def disk(directory: Path, chance: random.Random, counts: Counter[str]) -> Generator[tuple[Path, str, bool]]:
    """A directory on a bad disk, the call of `in_child` that makes it so, and whether it may fail a command."""
    place = directory / "disk"
    place.mkdir()
    kind = chance.choice(["full", "too large", "fails", "fails for ever", "slow", "read-only"])
    error = chance.choice(ERRORS)
    nth, size = chance.randint(1, 120), chance.randrange(0, 120_000)
    mounted = False
    fault = "pass"
    if kind == "full":
        mounted = mount(place, max(size, 4_096))
        if not mounted:
            fault = f"fill_at({size})"
    elif kind == "read-only":
        mounted = mount(place, 1 << 20)
        if mounted:
            subprocess.run(["mount", "-o", "remount,ro", place], check=True)
        else:
            place.chmod(0o500)
    elif kind == "too large":
        fault = f"fill_at({size})"
    elif kind == "slow":
        fault = f"slow_down({chance.uniform(0, 0.02):.3f})"
    else:
        calls = 1 if kind == "fails" else 1_000_000
        fault = f"fail_from({nth}, error={error}, calls={calls})"
    counts[f"disk: {kind}{' (mounted)' if mounted else ''}"] += 1
    try:
        yield place, fault, kind != "slow"
        if mounted:
            copy = directory / "copy"
            shutil.copytree(place, copy)
    finally:
        if mounted:
            subprocess.run(["umount", "-l", place], check=True)
        else:
            place.chmod(0o700)
    if mounted:
        shutil.copytree(copy, place, dirs_exist_ok=True)


def mount(place: Path, size: int) -> bool:
    """A disk of that size (bytes) at `place`; False where this user may not."""
    if os.geteuid() != 0:
        return False
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", place], capture_output=True, check=False
    )
    return done.returncode == 0
