"""`wmtop watch`: plain lines for screen readers, logs and pipes; nothing is drawn or overwritten."""

import threading
import time as clock
from typing import Annotated

import typer

from ...engine.feed.messages import Header
from ...engine.snapshot import Snapshot
from ...engine.targets.own import is_recording, local_path
from ...engine.targets.target import NO_OPTIONS, TargetOptions
from ...engine.text.formatting import DAY, MINUTE, clean, duration, stamp
from ...engine.verdict.history import LOST_AFTER_MS
from ..words.check import BAD
from ..words.fleet import held_back_by
from ..words.recent import Recent
from ..words.verdict import verdict_line
from .check import CANNOT_TELL, FINE, MET
from .options import OF_CHECKS, duration_option, target_argument, with_target_options
from .process import say
from .targets import Look, look_at, member_of, recording_at

FOR_EVER_MS = 3_650 * DAY
FIRST_MS = 2_000
"""How long (ms) the first answer may take before a line says that it is waited for."""


class Lines:
    """Prints a line at each change of verdict, of the holder or of the findings, and now and then."""

    def __init__(self, every_ms: int) -> None:
        self._every_ms = every_ms
        self._state: tuple[object, ...] | None = None
        self._titles: dict[str, str] = {}
        self._printed_ms = 0
        self._heard_s = clock.monotonic()
        self._is_silent = False

    def greet(self, header: Header) -> None:
        """Print that the engine is connected."""
        self._say(_wall_ms(), f"connected to {header.name}, waiting for its first snapshot")
        self._heard_s = clock.monotonic()

    def note_silence(self, target: str) -> None:
        """Print once that nothing comes: what was printed last may no longer be so."""
        silent_ms = (clock.monotonic() - self._heard_s) * 1_000
        if self._is_silent or silent_ms < (LOST_AFTER_MS if self._state else FIRST_MS):
            return
        self._is_silent = True
        since = f"UNKNOWN  {target} has sent nothing for {duration(silent_ms)}"
        self._say(_wall_ms(), since if self._state else f"waiting for the first answer of {target}")

    @staticmethod
    def _say(at_ms: int, words: str) -> None:
        print(f"{stamp(at_ms, None)}  {clean(words)}", flush=True)

    def see(self, look: Look) -> bool:
        """Print the newest snapshot's line if one is due; False: there is always more to see."""
        given = look.given()
        snapshot, titles = given.snapshot, {finding.code: finding.title for finding in given.findings}
        holder, wall_ms = held_back_by(snapshot), _wall_ms(snapshot)
        state, was_silent = (given.verdict, holder, *sorted(titles)), self._is_silent
        self._heard_s, self._is_silent = clock.monotonic(), False
        if state == self._state and not was_silent and wall_ms - self._printed_ms < self._every_ms:
            return False
        line = verdict_line(snapshot, given.findings, lost=look.lost, headline=next(iter(titles.values()), None))
        parts = [line, f"held back by {holder}" if holder is not None and holder not in line else ""]
        parts += [*(f"new: {titles[code]}" for code in titles if code not in self._titles)]
        parts += [f"over: {title}" for code, title in self._titles.items() if code not in titles]
        at_ms = wall_ms if snapshot.now_ms is None else snapshot.now_ms
        self._say(at_ms, " · ".join(part for part in parts if part))
        self._state, self._titles, self._printed_ms = state, titles, wall_ms
        return False


@with_target_options(*OF_CHECKS)
def watch(
    target: Annotated[str, target_argument("a run, a recording, or anything that 'wmtop attach' takes", "TARGET")],
    every: Annotated[int, duration_option("also print a line after D without a change (1m)")] = MINUTE,
    watch_for: Annotated[int, duration_option("stop after D; without it: never", "--for")] = FOR_EVER_MS,
    options: TargetOptions = NO_OPTIONS,
) -> None:
    """Print a line at each change of a target's verdict, holder or findings: for screen readers and logs.

    Exit 0 if it was fine at the end, 1 slow or stalled, 2 unusable input, 3 lost or cannot tell.
    """
    member, lines = member_of(target), Lines(every)
    if is_recording(member.target):
        look = Look(Recent())
        with recording_at(local_path(member.target), None) as (reader, last):
            for number in range(last + 1):
                look.seen = [reader.at(number)]
                look.recent.add(look.snapshot)
                lines.see(look)
    else:
        over = threading.Event()
        threading.Thread(target=_note_silence, args=(lines, target, over), daemon=True).start()
        try:
            look = look_at(member, lines.see, watch_for, None, options, lines.greet)
        finally:
            over.set()
    if look.lost is not None:
        raise typer.Exit(say(f"{target} is lost: {look.lost}", CANNOT_TELL))
    verdict = look.given().verdict
    raise typer.Exit(MET if verdict in BAD else CANNOT_TELL if verdict == "unknown" else FINE)


def _note_silence(lines: Lines, target: str, over: threading.Event) -> None:
    while not over.wait(1):
        lines.note_silence(target)


def _wall_ms(snapshot: Snapshot | None = None) -> int:
    known = None if snapshot is None else snapshot.wall_ms
    return clock.time_ns() // 1_000_000 if known is None else known
