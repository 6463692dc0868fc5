"""`wmtop replay`: a recording on the screen, as JSON or a summary, or as a redacted copy."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from ...engine.feed.recording_reader import RecordingReader
from ...engine.feed.redaction import redact
from ...engine.snapshot.wire import encode
from ...engine.system.errors import UsageError
from ...engine.system.files import check_outputs
from ...engine.text.formatting import count, stamp
from ..screens.preferences import denied_to
from .look import number_at
from .options import FORCE_HELP, parse_speed, parse_time, parsed
from .running import apply_configuration, has_terminal, is_served


def replay(
    recording: Annotated[Path, typer.Argument(metavar="RECORDING", help="a file written by --record or R")],
    speed: Annotated[
        float | None,
        typer.Option(parser=parsed(parse_speed), metavar="X|max", help="replay speed multiplier", show_default="1"),
    ] = 1.0,
    at: Annotated[
        int | None,
        typer.Option(
            parser=parsed(parse_time),
            metavar="TIME",
            help="start paused at this time; with --once: the moment to print",
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="print the summary of one snapshot: the last, or the one at --at")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="print every snapshot (with --once: one) as a JSON line")
    ] = False,
    redact: Annotated[
        Path | None, typer.Option(metavar="OUT", help="write a redacted copy: no names of channels, files and columns")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help=FORCE_HELP)] = False,
) -> None:
    """Replay a recording, without a JVM."""
    if redact is not None and (once or json):
        raise UsageError("--redact writes a copy and prints nothing else; leave out --once and --json")
    if at is not None and json and not once:
        raise UsageError("--at with --json prints one snapshot; add --once")
    with RecordingReader(recording) as reader:
        if not len(reader):
            raise UsageError(f"{recording} has no snapshots")
        if redact is not None:
            check_outputs({"--redact": redact}, inputs=[recording], force=force)
            _redact(reader, recording, redact, force=force)
        elif once or json:
            print_snapshots(reader, recording, once=once, json=json, at_ms=at)
        elif not has_terminal():
            raise UsageError("the screen needs a terminal; without one, use --json, --once or --redact OUT")
        else:
            play(reader, speed, at, playing=at is None)


def play(
    reader: RecordingReader, speed: float | None, at_ms: int | None, *, playing: bool, of_fleet: bool = False
) -> str | None:
    """The screen on a recording, from `at_ms` on; "fleet" where the user goes back there (only with `of_fleet`)."""
    from ..replay.app import SPEEDS, ReplayApp
    from ..screens.preferences import preferences_file

    number = 0 if at_ms is None else reader.seek(at_ms)
    denied = denied_to(served=is_served(), read_only=False)
    remembered = None if is_served() else preferences_file()
    app = ReplayApp(
        reader, speed=speed or SPEEDS[-1], number=number, playing=playing, denied=denied, preferences_file=remembered
    )
    apply_configuration(app)
    if of_fleet:
        app.return_to_fleet()
    return app.run()


def print_snapshots(reader: RecordingReader, path: Path, *, once: bool, json: bool, at_ms: int | None = None) -> None:
    """Print every snapshot, or with `once` the last one at or before `at_ms` (None: the end); as JSON or a summary.

    UsageError if the recording starts after `at_ms`.
    """
    _say_truncated(reader, path)
    number = len(reader) - 1 if at_ms is None else number_at(reader, path, at_ms)
    if not json:
        from .summary import summary

        print(summary(reader.at(number)))
        return
    for snapshot in [reader.at(number)] if once else reader:
        sys.stdout.write(encode(snapshot).decode() + "\n")
    sys.stdout.flush()


def _redact(reader: RecordingReader, path: Path, out: Path, *, force: bool) -> None:
    _say_truncated(reader, path)
    with _progress(len(reader)) as step:
        channels = redact(reader, out, step, force=force)
    print(f"{out}: {count(len(reader))} snapshots, {count(channels)} channels renamed")


@contextmanager
def _progress(count: int) -> Generator[Callable[[int], object]]:
    """A progress bar, if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield lambda number: None
        return
    with typer.progressbar(length=count, label="snapshots", file=sys.stderr) as bar:
        yield lambda number: bar.update(1)


def _say_truncated(reader: RecordingReader, path: Path) -> None:
    if reader.truncated:
        last = next((point for point in reversed(reader.points) if point is not None), None)
        end = "" if last is None else f", {stamp(last.now_ms, None)}"
        why = "was not closed (its writer was killed or is still writing)"
        print(f"wmtop: {path} {why}; its last complete snapshot is {len(reader):,}{end}", file=sys.stderr)
