"""`wmtop replay`: a recording, or the event log of an ended application, on the screen, as JSON, or as a summary."""

import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...engine.feed.messages import encode
from ...engine.feed.recording_reader import RecordingReader
from ...engine.feed.redaction import redact as write_redacted
from ...engine.system.errors import UsageError
from ...engine.system.files import check_outputs
from ...engine.text.formatting import counted, stamp
from .options import Force, checked_moment, flag, option, parse_speed, target_argument
from .process import inform
from .running import has_terminal, show_app
from .targets import member_of, moment_in, number_at, recording_path

if TYPE_CHECKING:  # a tap is imported by the command that uses it
    from ...engine.targets.spark.kind import FinishedLog


def replay(
    recording: Annotated[str, target_argument("a file written by --record or R", "RECORDING")],
    speed: Annotated[
        float | None, option("X|max", "replay speed multiplier", parse=parse_speed, show_default="1")
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
        Path | None, option("OUT", "write a redacted copy: no names of channels, files and columns")
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
