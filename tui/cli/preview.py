"""`wmtop preview`: what another lateness or idle timeout would do now, and what it would have given from the start."""

import json as std_json
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from msgspec import UNSET, UnsetType

from ...engine.feed import run_directory
from ...engine.feed.client import first_snapshot
from ...engine.snapshot import Snapshot
from ...engine.system.errors import RunError, UsageError
from ...engine.text.formatting import NO_DATA, clean, duration, stamp
from ...engine.verdict.preview import AppliedNow, applied_now
from ..words import preview as from_start
from .complete import target_names
from .look import recording_at
from .members import member_of
from .options import parse_duration, parse_duration_or_off, parse_time, parsed


def preview(
    target: Annotated[
        str, typer.Argument(metavar="TARGET", autocompletion=target_names, help="a running engine, or a recording")
    ],
    lateness: Annotated[
        int | None, typer.Option(parser=parsed(parse_duration), metavar="D", help="another max out-of-orderness")
    ] = None,
    idle_after: Annotated[str | None, typer.Option(metavar="D|off", help="another idle timeout")] = None,
    at: Annotated[
        int | None, typer.Option(parser=parsed(parse_time), metavar="TIME", help="a recording: that moment (its end)")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Show what a change of a setting would do at the next emit; nothing is changed."""
    if lateness is not None and idle_after is not None:
        raise UsageError("--lateness and --idle-after: preview one setting at a time")
    if lateness is None and idle_after is None:
        raise UsageError("preview what? Give --lateness D or --idle-after D|off, e.g. --idle-after 2h")
    target = member_of(target).target
    snapshot = _snapshot(target, at)
    idle: int | UnsetType | None = UNSET
    if idle_after is not None:
        try:
            idle = parse_duration_or_off(idle_after)
        except ValueError as error:
            raise UsageError(f"--idle-after: {error}") from None
    try:
        now = applied_now(snapshot, lateness_ms=UNSET if lateness is None else lateness, idle_after_ms=idle)
    except ValueError as error:
        raise UsageError(f"{clean(target)}: {error}") from None
    if now is None:
        raise RunError(
            f"{clean(target)} does not contain what the next emit depends on: its valve or its delay is not known"
        )
    then = None
    if isinstance(idle, UnsetType):
        assert lateness is not None
        then = from_start.lateness(snapshot, lateness)
    else:
        then = from_start.idle(snapshot, idle)
    print(std_json.dumps(_as_json(now, then)) if json else _line(snapshot, now))


def _snapshot(target: str, at: int | None) -> Snapshot:
    """A recording's snapshot at a time, its last one, or the newest of a running engine."""
    if not Path(target).is_file():
        if "/" in target:
            raise UsageError(
                f"there is no recording {clean(target)}; preview takes one, or the name of a running engine"
            )
        if at is not None:
            raise UsageError(f"--at is for a recording, and {clean(target)} is not one")
        run = run_directory.find_run(target)
        return first_snapshot(run.socket, run_id=run.id)
    with recording_at(Path(target), at) as (reader, number):
        return reader.at(number)


def _as_json(now: AppliedNow, then: from_start.Preview | None) -> dict[str, Any]:
    return {**msgspec.to_builtins(now), "from_start": None if then is None else msgspec.to_builtins(then)}


def _line(snapshot: Snapshot, now: AppliedNow) -> str:
    level, reached = snapshot.level.watermark_ms, now.watermark_ms
    moved = "" if level is None or reached is None else f" (+{duration(reached - level)})"
    holder = "" if now.holder is None else f", held back by {clean(now.holder)}"
    frozen = f", frozen for {duration(now.frozen_ms)} of event time" if now.frozen_ms else ""
    many = "at least " if now.fires_more else ""
    return (
        f"watermark {NO_DATA if reached is None else stamp(reached, None)}{moved}{holder}{frozen}; "
        f"{many}{now.fires} windows fire"
    )
