"""`wmtop watch`: a target in plain lines, for screen readers, logs and pipes; nothing is drawn or overwritten."""

import sys
import time as clock
from typing import Annotated

import typer

from ...engine.doctor import explain
from ...engine.snapshot import Snapshot
from ...engine.targets.own import is_recording, local_path
from ...engine.targets.target import NO_OPTIONS, TargetOptions
from ...engine.text.formatting import DAY, MINUTE, clean, stamp
from ..words.check import BAD
from ..words.fleet import held_back_by
from ..words.recent import Recent
from ..words.verdict import verdict_line
from .check import CANNOT_TELL, FINE, MET
from .options import OF_CHECKS, duration_option, target_argument, with_target_options
from .targets import Look, look_at, member_of, recording_at

FOR_EVER_MS = 3_650 * DAY


class Lines:
    """Prints a line at each change of verdict, of the holder or of the findings, and now and then."""

    def __init__(self, every_ms: int) -> None:
        self._every_ms = every_ms
        self._state: tuple[object, ...] | None = None
        self._titles: dict[str, str] = {}
        self._printed_ms = 0

    def see(self, look: Look) -> bool:
        """Print the newest snapshot's line if one is due; False: there is always more to see."""
        given = look.given()
        snapshot, said = given.snapshot, [explain(finding, given.snapshot, None) for finding in given.findings]
        titles = {one.code: one.title for one in said}
        holder, wall_ms = held_back_by(snapshot), _wall_ms(snapshot)
        state = (given.verdict, holder, *sorted(titles))
        if state == self._state and wall_ms - self._printed_ms < self._every_ms:
            return False
        line = verdict_line(snapshot, given.findings, lost=look.lost, headline=said[0].title if said else None)
        parts = [line, f"held back by {holder}" if holder is not None and holder not in line else ""]
        parts += [*(f"new: {titles[code]}" for code in titles if code not in self._titles)]
        parts += [f"over: {title}" for code, title in self._titles.items() if code not in titles]
        time = stamp(wall_ms if snapshot.now_ms is None else snapshot.now_ms, None)
        print(f"{time}  {clean(' · '.join(part for part in parts if part))}", flush=True)
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
        look = look_at(member, lines.see, watch_for, None, options)
    if look.lost is not None:
        print(f"wmtop: {clean(target)} is lost: {look.lost}", file=sys.stderr)
        raise typer.Exit(CANNOT_TELL)
    verdict = look.given().verdict
    raise typer.Exit(MET if verdict in BAD else CANNOT_TELL if verdict == "unknown" else FINE)


def _wall_ms(snapshot: Snapshot) -> int:
    return clock.time_ns() // 1_000_000 if snapshot.wall_ms is None else snapshot.wall_ms
