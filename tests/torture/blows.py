"""A signal at a random moment of a command, or at a fault point inside it."""

import random
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from .canaries import RUN
from .processes import ENDS_WITHIN_S, Command
from .rounds import expect

IN_CHILD = Path(__file__).with_name("in_child.py").read_text()
KINDS = (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP)
STOPPED_S = 0.5
"""How long a process stays stopped, at most."""


class Blow(NamedTuple):
    """Which signal, and when: `after_s` its start, or around the n-th fault point."""

    kind: signal.Signals
    after_s: float | None
    nth: int
    before: bool
    stopped_s: float

    def arming(self, reached: Path, *, whole_group: bool = False) -> str:
        """The call that arms it in a process, which makes the file `reached` first."""
        group = f"whole_group={whole_group}, reached={str(reached)!r}"
        return f"kill_at({self.nth}, before={self.before}, kind={int(self.kind)}, {group})"

    def __str__(self) -> str:
        where = f"{'before' if self.before else 'after'} fault point {self.nth}"
        return f"{self.kind.name} {where if self.after_s is None else f'after {self.after_s:.2f} s'}"


def drawn(chance: random.Random, within_s: float, points: int) -> Blow:
    """Any of these; a moment `within_s`, or one of so many `points` (0: it has none)."""
    moment = chance.uniform(0, within_s)
    at_point = points and chance.random() < 0.6
    return Blow(
        kind=chance.choices(KINDS, (6, 3, 2))[0],
        after_s=None if at_point else moment,
        nth=chance.randint(1, max(points, 1)),
        before=chance.random() < 0.5,
        stopped_s=chance.uniform(0, STOPPED_S),
    )


def state_of(pid: int) -> str:
    """The letter of a process's state; an empty text if there is none."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def fault_program(call: str, then: str = RUN) -> str:
    """The text of a program that arms one of `in_child` and goes on."""
    return f"{IN_CHILD}\n{call}\n{then}"


def struck(
    blow: Blow, directory: Path, arguments: Sequence[object], environment: Mapping[str, str], *,
    program: str | None = None, then: str = RUN, meanwhile: Callable[[], object] = lambda: None,
    ended_after_s: float | None = None,
) -> tuple[Command, bool]:  # fmt: skip
    """Run a command under a blow until it has ended; and whether the blow fell before its end.

    After STOP comes CONT. `ended_after_s`: it does not end by itself, and gets a TERM so long after. TortureError if it
    goes on after all that.
    """
    reached = directory / "reached"
    reached.unlink(missing_ok=True)
    if blow.after_s is None:
        program = fault_program(blow.arming(reached), then)
    command = Command(directory, arguments, environment, program)
    try:
        fell = (
            _at_point(command, blow, reached, meanwhile, ended_after_s)
            if blow.after_s is None
            else _at_moment(command, blow, meanwhile)
        )

        def go_on() -> None:
            """After STOP comes CONT, also if the fault point is reached later than was waited for."""
            meanwhile()
            if blow.kind == signal.SIGSTOP and state_of(command.process.pid) == "T":
                command.process.send_signal(signal.SIGCONT)

        if ended_after_s is not None and not command.wait(ended_after_s, go_on):
            command.process.send_signal(signal.SIGTERM)
        ended = command.wait(ENDS_WITHIN_S, go_on)
        fell = fell or reached.exists()
        expect(ended, f"{command}: it does not end after {blow}\n{command.said()[-1_500:]}")
    finally:
        command.end()
    return command, fell


def _at_moment(command: Command, blow: Blow, meanwhile: Callable[[], object]) -> bool:
    assert blow.after_s is not None
    if command.wait(blow.after_s, meanwhile):
        return False
    command.process.send_signal(blow.kind)
    if blow.kind == signal.SIGSTOP:
        time.sleep(blow.stopped_s)
        command.process.send_signal(signal.SIGCONT)
    return True


def _at_point(
    command: Command, blow: Blow, reached: Path, meanwhile: Callable[[], object], within_s: float | None
) -> bool:
    until = time.monotonic() + (within_s or ENDS_WITHIN_S)
    while command.code is None and not reached.exists() and time.monotonic() < until:
        meanwhile()
        time.sleep(0.01)
    if blow.kind == signal.SIGSTOP and reached.exists():
        while command.code is None and state_of(command.process.pid) != "T" and time.monotonic() < until:
            time.sleep(0.01)
        if command.code is None:
            time.sleep(blow.stopped_s)
            command.process.send_signal(signal.SIGCONT)
    return reached.exists()


def emptied(directory: Path) -> Path:
    """The directory, made again."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return directory
