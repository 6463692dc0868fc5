"""`wmtop report`: an incident as Markdown, a picture and a recording, from a recording or a target's present state."""

import asyncio
import os
import sys
import time as clock
from collections.abc import Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...engine.feed.messages import Header
from ...engine.feed.recording_reader import RecordingReader
from ...engine.snapshot import Snapshot
from ...engine.system.errors import RunError, UsageError, first_line
from ...engine.text.formatting import clean, stamp
from ...engine.verdict.history import history_point
from ...engine.verdict.verdict import verdict_of
from .arguments import FORCE_HELP, parsed
from .complete import target_names
from .look import is_recording, opened, pictures
from .moment import number_at
from .options import parse_duration, parse_time
from .targets import local_path

if TYPE_CHECKING:  # it draws with Textual: only imported once it is needed
    from ...engine.targets.spark.event_log import EventLogFacts
    from ..screens.incident_report import Incident
    from .attach import EngineAddress

DEFAULT_FOR_MS = 30_000
MIN_MS = 5_000
"""Shortest observation (ms) of a running target, so that there is a recording."""


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
    bootstrap: Annotated[str | None, typer.Option(metavar="B", help="a query: the Kafka cluster it reads from")] = None,
    time: Annotated[str | None, typer.Option(metavar="PATH", help="kafka: event time, a field of a JSON value")] = None,
    group: Annotated[str | None, typer.Option(metavar="G", help="kafka: the consumer group")] = None,
    kafka_config: Annotated[Path | None, typer.Option(metavar="FILE", help="kafka: client properties")] = None,
    query: Annotated[str | None, typer.Option(metavar="NAME", help="event log, published: which query")] = None,
) -> None:
    """Write an incident report: Markdown, a picture of the main screen, and the last minutes as a recording."""
    from ..screens.incident_report import check_target, redacted, write_incident
    from .fleet.members import member_of

    member = member_of(target)
    target = member.target
    path = Path(target)
    inputs = [one for one in (path, kafka_config) if one is not None and one.exists()]
    check_target(out, inputs, force=force)
    options = {"bootstrap": bootstrap, "time": time, "group": group, "kafka_config": kafka_config, "query": query}
    with _Progress() as progress:
        if is_recording(path):
            for option, value in options.items():
                if value is not None:
                    raise UsageError(f"--{option.replace('_', '-')} has no effect for a recording; leave it out")
            incident = _recorded(path, at)
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
    from ..screens.incident_report import incident_of

    with RecordingReader(path) as reader:
        if not len(reader):
            raise UsageError(f"{path} has no snapshots")
        return incident_of(reader, len(reader) - 1 if at is None else number_at(reader, path, at))


def _looked_at(
    target: str, for_ms: int, options: dict[str, Any], configured: Mapping[str, Any], say: Callable[[str], None]
) -> "Incident":
    """The target's present state; `options` were given, missing ones come from `configured` targets."""
    from .attach import engine_of

    if (engine := engine_of(target)) is not None:
        for option, value in options.items():
            if value is not None:
                raise UsageError(f"--{option.replace('_', '-')} has no effect for a running engine; leave it out")
        return asyncio.run(_engine(engine, for_ms, say))
    from .attach import watched_of
    from .post_mortem import finished_log

    is_here = "://" not in target.removeprefix("file://")
    if is_here and (log := finished_log(local_path(target))) is not None:
        for option in ("bootstrap", "time", "group", "kafka_config"):
            if options[option] is not None:
                raise UsageError(f"--{option.replace('_', '-')} has no effect for a finished event log; leave it out")
        return _ended(target, log, options["query"] or configured.get("query"))
    given = {option: value for option, value in options.items() if value is not None}
    watched = watched_of(target, {**configured, **given})
    began = clock.monotonic()
    seen: list[Snapshot] = []
    with opened(watched):
        for snapshot in pictures(watched, began + for_ms / 1_000, name=_name_of(target)):
            seen.append(snapshot)
            if _enough(snapshot, began, for_ms, say):
                break
    from ..screens.incident_report import Incident

    header = Header(
        name=seen[-1].name,
        pid=os.getpid(),
        started_ms=seen[0].wall_ms or 0,
        source=watched.describe(),
        settings=seen[-1].settings,
    )
    points = [point for one in seen if (point := history_point(one)) is not None]
    return Incident(header=header, snapshots=seen, points=points)


def _ended(target: str, log: "EventLogFacts", wanted: str | None) -> "Incident":
    """The incident at the end of a finished event log, with the log's times."""
    from ..screens.incident_report import incident_of
    from .post_mortem import recorded

    with recorded(local_path(target), log, wanted) as reader:
        return incident_of(reader, len(reader) - 1)


def _name_of(target: str) -> str:
    from .engines import name_of
    from .targets import known_as

    path = Path(target)
    return name_of(known_as(path) if path.exists() else target.rpartition("/")[2])


async def _engine(engine: "EngineAddress", for_ms: int, say: Callable[[str], None]) -> "Incident":
    """A running engine: its history, and its snapshots until there is a verdict."""
    from ..screens.incident_report import Incident

    header: Header | None = None
    seen: list[Snapshot] = []
    lost: str | None = None
    began = clock.monotonic()
    try:
        async with asyncio.timeout(for_ms / 1_000), aclosing(engine.client(read_only=True).messages()) as messages:
            async for message in messages:
                if isinstance(message, Header):
                    header = message
                elif isinstance(message, Snapshot) and message.state != "starting":
                    seen.append(message)
                    if _enough(message, began, for_ms, say):
                        break
            else:
                lost = "The engine stopped while it was looked at"
    except TimeoutError:
        pass
    except RunError as error:
        lost = first_line(str(error))
    if header is None or not seen:
        why = lost or f"it sent no snapshot within {for_ms / 1_000:g} s: is it still starting?"
        raise UsageError(f"there is nothing to report of the engine {engine.socket.stem} yet: {why}")
    points = [*header.history, *(point for one in seen if (point := history_point(one)) is not None)]
    return Incident(header=header, snapshots=seen, points=points, lost=lost)


def _enough(snapshot: Snapshot, began_s: float, for_ms: int, say: Callable[[str], None]) -> bool:
    """Whether there is a verdict, and a few seconds for the recording."""
    passed_ms = 1_000 * (clock.monotonic() - began_s)
    verdict = verdict_of(snapshot).verdict
    say(f"looking at {clean(snapshot.name)}: {verdict}, {passed_ms / 1_000:.0f} of at most {for_ms / 1_000:g} s")
    if snapshot.state in ("failed", "ended"):
        return True
    return verdict != "unknown" and passed_ms >= min(MIN_MS, for_ms)
