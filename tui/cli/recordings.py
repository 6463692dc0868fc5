"""`wmtop replay`: a recording, or an ended application's event log, shown or printed; `wmtop report`: an incident."""

import sys
import time as clock
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec.structs import replace

from ...engine.feed.messages import encode
from ...engine.feed.recording_reader import RecordingReader
from ...engine.feed.redaction import redact as write_redacted
from ...engine.system.errors import UsageError
from ...engine.system.files import check_outputs
from ...engine.targets.own import is_recording, is_remote, known_as, local_path, name_of
from ...engine.targets.target import NO_OPTIONS, TargetOptions
from ...engine.text.formatting import clean, counted, stamp
from ...engine.verdict.history import history_point
from ...engine.verdict.verdict import verdict_of
from .names import target_argument
from .options import (
    OF_CHECKS,
    AtTime,
    Force,
    checked_moment,
    duration_option,
    flag,
    option,
    parse_speed,
    place_option,
    with_target_options,
)  # fmt: skip
from .process import inform
from .running import has_terminal, show_app
from .targets import Look, follow, member_of, moment_in, number_at, recording_at, recording_path

if TYPE_CHECKING:  # what draws or taps is imported by the command that uses it
    from ...engine.targets.spark.kind import FinishedLog
    from ..screens.incident_report import Incident

DEFAULT_FOR_MS = 30_000
MIN_MS = 5_000
"""Shortest observation (ms) of a running target, so that there is a recording."""


def replay(
    recording: Annotated[str, target_argument("a file written by --record or R", "RECORDING")],
    speed: Annotated[
        float | None, option("X|max", "replay speed multiplier (1)", parse=parse_speed, show_default=False)
    ] = 1.0,
    at: Annotated[
        str | None,
        option(
            "TIME", "start paused at this time (14:30, +10m); with --once: the moment to print", parse=checked_moment
        ),
    ] = None,
    once: Annotated[bool, flag("--once", "print the summary of one snapshot: the last, or the one at --at")] = False,
    json: Annotated[bool, flag("--json", "print every snapshot (with --once: one) as a JSON line")] = False,
    redact: Annotated[
        Path | None, place_option("OUT", "write a redacted copy: no names of channels, files and columns")
    ] = None,
    force: Force = False,
) -> None:
    """Replay a recording, without a JVM."""
    if redact is not None and (once or json):
        raise UsageError("--redact writes a copy and prints nothing else; leave out --once and --json")
    if at is not None and json and not once:
        raise UsageError("--at with --json prints one snapshot; add --once")
    path = recording_path(member_of(recording))
    with RecordingReader(path) as reader:
        if not len(reader):
            raise UsageError(f"{path} has no snapshots")
        if redact is not None:
            check_outputs({"--redact": redact}, inputs=[path], force=force)
            _say_truncated(reader, path)
            with progress_bar("snapshots") as step:
                step(len(reader))
                channels = write_redacted(reader, redact, lambda number: step(len(reader) - number), force=force)
            print(f"{redact}: {counted(len(reader), 'snapshot')}, {counted(channels, 'channel')} renamed")
        elif once or json:
            print_snapshots(reader, path, once=once, json=json, at=at)
        elif not has_terminal():
            raise UsageError("the screen needs a terminal; without one, use --json, --once or --redact OUT")
        else:
            play(reader, speed, None if at is None else moment_in(reader, at), playing=at is None)


def play(
    reader: RecordingReader, speed: float | None, at_ms: int | None, *, playing: bool, of_fleet: bool = False
) -> str | None:
    """The screen on a recording, from `at_ms` on; "fleet" where the user goes back there (only with `of_fleet`)."""
    from ..replay.app import SPEEDS, ReplayApp

    number = 0 if at_ms is None else reader.seek(at_ms)
    app = partial(ReplayApp, reader, speed=speed or SPEEDS[-1], number=number, playing=playing)
    return show_app(app, read_only=False, of_fleet=of_fleet)


def print_snapshots(reader: RecordingReader, path: Path, *, once: bool, json: bool, at: str | None = None) -> None:
    """Print every snapshot, or with `once` the last one at or before `at` (None: the end); as JSON or a summary.

    UsageError if the recording starts later.
    """
    _say_truncated(reader, path)
    number = number_at(reader, path, at)
    if not json:
        from ..words.summary import summary

        print(summary(reader.at(number)))
        return
    for snapshot in [reader.at(number)] if once else reader:
        sys.stdout.write(encode(snapshot).decode() + "\n")
    sys.stdout.flush()


def _say_truncated(reader: RecordingReader, path: Path) -> None:
    if reader.truncated:
        last = next((point for point in reversed(reader.points) if point is not None), None)
        end = "" if last is None else f", {stamp(last.now_ms, None)}"
        why = "was not closed (its writer was killed or is still writing)"
        inform(f"{path} {why}; its last complete snapshot is {len(reader):,}{end}")


def show_post_mortem(
    log: "FinishedLog", name: str | None, record: Path | None, *, once: bool, json: bool, force: bool
) -> None:
    """Make a recording of the log (kept as `record` if that is given), and show or print it."""
    check_outputs({"--record": record}, inputs=[log.path], force=force)
    if not (once or json) and not has_terminal():
        raise UsageError("the screen needs a terminal; without one, use --once or --json")
    with log.recorded(name, record, force=force) as recording, RecordingReader(recording) as reader:
        if once and not json and (end_ms := reader.at(len(reader) - 1).now_ms) is not None:
            print(f"as of {stamp(end_ms, None)}, the end of the log; times are relative to it")
        if once or json:
            print_snapshots(reader, record or log.path, once=once, json=json)
        else:
            play(reader, 1.0, reader.at(len(reader) - 1).now_ms, playing=False)  # opened at the end: the error is there


@contextmanager
def progress_bar(label: str) -> Generator[Callable[[int], object]]:
    """A progress bar, if standard error is a terminal; its step takes how much is left."""
    if not sys.stderr.isatty():
        yield lambda left: None
        return
    with ExitStack() as stack:
        bars: list[Any] = []

        def step(left: int) -> None:
            if left and not bars:
                bars.append(stack.enter_context(typer.progressbar(length=left, label=label, file=sys.stderr)))
            for bar in bars:
                bar.update(max(bar.length - left - bar.pos, 0))

        yield step


@with_target_options(*OF_CHECKS)
def report(
    target: Annotated[
        str, target_argument("a recording, a run, or anything that 'wmtop attach' takes", "TARGET|RECORDING")
    ],
    out: Annotated[Path, place_option("FILE.zip", "where to: a .zip, or a directory of another name", "-o", "--out")],
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
