"""`wmtop report`: an incident as Markdown, a picture and a recording, from a recording or a target's present state."""

import sys
import time as clock
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from ...engine.system.errors import UsageError
from ...engine.targets.own import is_recording, is_remote, known_as, local_path, name_of
from ...engine.targets.target import NO_OPTIONS, TargetOptions
from ...engine.text.formatting import clean, counted, stamp
from ...engine.verdict.history import history_point
from ...engine.verdict.verdict import verdict_of
from .options import OF_CHECKS, AtTime, Force, duration_option, flag, target_argument, with_target_options
from .replay import progress_bar
from .targets import Look, follow, member_of, recording_at

if TYPE_CHECKING:  # it draws with Textual: only imported once it is needed
    from ..screens.incident_report import Incident

DEFAULT_FOR_MS = 30_000
MIN_MS = 5_000
"""Shortest observation (ms) of a running target, so that there is a recording."""


@with_target_options(*OF_CHECKS)
def report(
    target: Annotated[
        str, target_argument("a recording, a run, or anything that 'wmtop attach' takes", "TARGET|RECORDING")
    ],
    out: Annotated[
        Path, typer.Option("-o", "--out", metavar="FILE.zip", help="where to: a .zip, or a directory of another name")
    ],
    redact: Annotated[bool, flag("--redact", "no names of channels, files and columns, in no part of it")] = False,
    at: AtTime = None,
    look_for: Annotated[
        int, duration_option("a target: how long to wait for a verdict (30s)", "--for")
    ] = DEFAULT_FOR_MS,
    force: Force = False,
    options: TargetOptions = NO_OPTIONS,
) -> None:
    """Write an incident report: Markdown, a picture of the main screen, and the last minutes as a recording."""
    from ..screens.incident_report import check_target, redacted, write_incident

    member = member_of(target)
    target = member.target
    path = Path(target)
    inputs = [one for one in (path, options.kafka_config) if one is not None and one.exists()]
    check_target(out, inputs, force=force)
    try:
        if is_recording(target):
            options.refuse(OF_CHECKS, "for a recording")
            incident = _recorded(local_path(target), at)
        elif at is not None:
            raise UsageError(f"--at is for a recording, and {clean(target)} is not one")
        else:
            incident = _looked_at(target, look_for, options, member.options)
        if redact:
            _say("redacting")
            incident = redacted(incident)
        write_incident(incident, out, force=force, step=_say)
    finally:
        _say("")
    last = incident.snapshots[-1]
    moment = "" if last.now_ms is None else f", {stamp(last.now_ms, None)}"
    print(f"{out}: {verdict_of(last).verdict.upper()}{moment}, {counted(len(incident.snapshots), 'snapshot')}")


def _say(step: str) -> None:
    """Show the present step, on one line of standard error if that is a terminal; "": none."""
    if sys.stderr.isatty():
        print("\r\x1b[K" + (f"{step} …" if step else ""), end="", file=sys.stderr, flush=True)


def _recorded(path: Path, at: str | None) -> "Incident":
    from ..screens.incident_report import incident_of

    with recording_at(path, at) as (reader, number):
        return incident_of(reader, number)


def _looked_at(target: str, for_ms: int, options: TargetOptions, configured: TargetOptions) -> "Incident":
    """The target's present state; `options` were given, missing ones come from `configured` targets."""
    from ...engine.targets.open import open_target
    from ...engine.targets.own import RunningEngine
    from ...engine.targets.spark.kind import FinishedLog
    from ...engine.targets.target import header_of
    from ..screens.incident_report import Incident

    progress = None if is_remote(target) else progress_bar
    opened = open_target(target, replace(options.over(configured), log_progress=progress))
    if isinstance(opened, RunningEngine):
        options.refuse(OF_CHECKS, "for a running engine")
    elif isinstance(opened, FinishedLog):
        options.refuse(("bootstrap", "time", "group", "kafka_config"), "for a finished event log")
        with opened.recorded() as recording:
            return _recorded(recording, None)
    began = clock.monotonic()

    def enough(look: Look) -> bool:
        """Whether there is a verdict, and a few seconds for the recording."""
        snapshot, passed_ms = look.snapshot, 1_000 * (clock.monotonic() - began)
        if snapshot.state == "starting":
            return False
        verdict = verdict_of(snapshot).verdict
        _say(f"looking at {clean(snapshot.name)}: {verdict}, {passed_ms / 1_000:.0f} of at most {for_ms / 1_000:g} s")
        if snapshot.state in ("failed", "ended"):
            return True
        return verdict != "unknown" and passed_ms >= min(MIN_MS, for_ms)

    path = Path(target)
    name = name_of(known_as(path) if path.exists() else target.rpartition("/")[2])
    look = follow(opened, name, enough, for_ms, gone="The engine stopped while it was looked at", all_seen=True)
    seen = [snapshot for snapshot in look.seen if snapshot.state != "starting"]
    if not seen:
        why = look.lost or f"it sent no snapshot within {for_ms / 1_000:g} s: is it still starting?"
        raise UsageError(f"there is nothing to report of the engine {opened.name} yet: {why}")
    header = look.header or header_of(seen[-1], started_ms=seen[0].wall_ms)
    points = [*header.history, *(point for one in seen if (point := history_point(one)) is not None)]
    return Incident(header=header, snapshots=seen, points=points, lost=look.lost)
