"""`wmtop report`: an incident as Markdown, a picture and a recording, from a recording or a target's present state."""

import sys
import time as clock
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from ...engine.feed.messages import Header
from ...engine.snapshot import Snapshot
from ...engine.system.errors import RunError, UsageError, first_line
from ...engine.targets.own import is_recording, is_remote, known_as, local_path, name_of
from ...engine.targets.target import NO_OPTIONS, Pace, TargetOptions
from ...engine.text.formatting import clean, stamp
from ...engine.verdict.history import history_point
from ...engine.verdict.verdict import verdict_of
from .complete import target_names
from .look import recording_at
from .members import member_of
from .options import FORCE_HELP, parse_duration, parse_time, parsed
from .post_mortem import log_progress
from .target_options import OF_CHECKS, with_target_options

if TYPE_CHECKING:  # it draws with Textual: only imported once it is needed
    from ..screens.exports import Incident

DEFAULT_FOR_MS = 30_000
MIN_MS = 5_000
"""Shortest observation (ms) of a running target, so that there is a recording."""


@with_target_options(*OF_CHECKS)
def report(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET|RECORDING",
            autocompletion=target_names,
            help="a recording, a run, or anything that 'wmtop attach' takes",
        ),
    ],
    out: Annotated[
        Path, typer.Option("-o", "--out", metavar="FILE.zip", help="where to: a .zip, or a directory of another name")
    ],
    redact: Annotated[
        bool, typer.Option("--redact", help="no names of channels, files and columns, in no part of it")
    ] = False,
    at: Annotated[
        int | None, typer.Option(parser=parsed(parse_time), metavar="TIME", help="a recording: that moment (its end)")
    ] = None,
    look_for: Annotated[
        int,
        typer.Option(
            "--for",
            parser=parsed(parse_duration),
            metavar="D",
            help="a target: how long to wait for a verdict (30s)",
            show_default=False,
        ),
    ] = DEFAULT_FOR_MS,
    force: Annotated[bool, typer.Option("--force", help=FORCE_HELP)] = False,
    options: TargetOptions = NO_OPTIONS,
) -> None:
    """Write an incident report: Markdown, a picture of the main screen, and the last minutes as a recording."""
    from ..screens.exports import check_target, redacted, write_incident

    member = member_of(target)
    target = member.target
    path = Path(target)
    inputs = [one for one in (path, options.kafka_config) if one is not None and one.exists()]
    check_target(out, inputs, force=force)
    with _Progress() as progress:
        if is_recording(target):
            options.refuse(OF_CHECKS, "for a recording")
            incident = _recorded(local_path(target), at)
        elif at is not None:
            raise UsageError(f"--at is for a recording, and {clean(target)} is not one")
        else:
            incident = _looked_at(target, look_for, options, member.options, progress.say)
        if redact:
            progress.say("redacting")
            incident = redacted(incident)
        write_incident(incident, out, force=force, step=progress.say)
    last = incident.snapshots[-1]
    moment = "" if last.now_ms is None else f", {stamp(last.now_ms, None)}"
    print(f"{out}: {verdict_of(last).verdict.upper()}{moment}, {len(incident.snapshots):,} snapshots")


class _Progress:
    """The present step, on one line of standard error if that is a terminal."""

    def __enter__(self) -> "_Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """Show it instead of what was there."""
        if sys.stderr.isatty():
            print(f"\r\x1b[K{text} …", end="", file=sys.stderr, flush=True)


def _recorded(path: Path, at: int | None) -> "Incident":
    from ..screens.exports import incident_of

    with recording_at(path, at) as (reader, number):
        return incident_of(reader, number)


def _looked_at(
    target: str, for_ms: int, options: TargetOptions, configured: TargetOptions, say: Callable[[str], None]
) -> "Incident":
    """The target's present state; `options` were given, missing ones come from `configured` targets."""
    from ...engine.targets.follow import header_of
    from ...engine.targets.open import open_target
    from ...engine.targets.own import RunningEngine
    from ...engine.targets.spark.kind import FinishedLog
    from ..screens.exports import Incident

    progress = None if is_remote(target) else log_progress
    opened = open_target(target, replace(options.over(configured), log_progress=progress))
    if isinstance(opened, RunningEngine):
        options.refuse(OF_CHECKS, "for a running engine")
    elif isinstance(opened, FinishedLog):
        options.refuse(("bootstrap", "time", "group", "kafka_config"), "for a finished event log")
        with opened.recorded() as recording:
            return _recorded(recording, None)
    header: Header | None = None
    seen: list[Snapshot] = []
    lost: str | None = None
    began, pace = clock.monotonic(), Pace(for_s=for_ms / 1_000)
    try:
        with closing(opened.follow(_name_of(target), pace)) as messages:
            for message in messages:
                if isinstance(message, Header):
                    header = message
                elif message.state != "starting":
                    seen.append(message)
                    if _enough(message, began, for_ms, say):
                        break
            else:
                lost = None if pace.is_over else "The engine stopped while it was looked at"
    except RunError as error:
        lost = first_line(error)
    if not seen:
        why = lost or f"it sent no snapshot within {for_ms / 1_000:g} s: is it still starting?"
        raise UsageError(f"there is nothing to report of the engine {opened.name} yet: {why}")
    header = header or header_of(seen[-1], started_ms=seen[0].wall_ms)
    points = [*header.history, *(point for one in seen if (point := history_point(one)) is not None)]
    return Incident(header=header, snapshots=seen, points=points, lost=lost)


def _name_of(target: str) -> str:
    path = Path(target)
    return name_of(known_as(path) if path.exists() else target.rpartition("/")[2])


def _enough(snapshot: Snapshot, began_s: float, for_ms: int, say: Callable[[str], None]) -> bool:
    """Whether there is a verdict, and a few seconds for the recording."""
    passed_ms = 1_000 * (clock.monotonic() - began_s)
    verdict = verdict_of(snapshot).verdict
    say(f"looking at {clean(snapshot.name)}: {verdict}, {passed_ms / 1_000:.0f} of at most {for_ms / 1_000:g} s")
    if snapshot.state in ("failed", "ended"):
        return True
    return verdict != "unknown" and passed_ms >= min(MIN_MS, for_ms)
