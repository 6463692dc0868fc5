"""`wmtop replay`: a recording on the screen, as lines, or as a copy without names."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from ...engine.errors import UsageError
from ...engine.feed.recording import RecordingReader
from ...engine.feed.redaction import redact
from ..formatting import count, stamp
from .arguments import parsed
from .options import parse_speed, parse_time
from .running import has_terminal
from .summary import summary


def replay(
    recording: Annotated[Path, typer.Argument(metavar="RECORDING", help="what --record or R has written")],
    speed: Annotated[
        float | None, typer.Option(parser=parsed(parse_speed), metavar="X", help="how many times as fast (1)")
    ] = 1.0,
    at: Annotated[int | None, typer.Option(parser=parsed(parse_time), metavar="TIME", help="pause there")] = None,
    once: Annotated[bool, typer.Option("--once", help="print the summary of the last snapshot")] = False,
    json: Annotated[bool, typer.Option("--json", help="print all snapshots (with --once: the last) as JSON")] = False,
    redact: Annotated[
        Path | None, typer.Option(metavar="OUT", help="write a copy without names of channels, files and columns")
    ] = None,
) -> None:
    """Replay a recording, without a JVM."""
    if redact is not None and (once or json):
        raise UsageError("--redact writes a copy and prints nothing else: leave out --once and --json")
    with RecordingReader(recording) as reader:
        if not len(reader):
            raise UsageError(f"{recording} holds no snapshot")
        if redact is not None:
            _redact(reader, recording, redact)
        elif once or json:
            print_snapshots(reader, recording, once=once, json=json)
        elif not has_terminal():
            raise UsageError("the screen needs a terminal; without one: --json, --once or --redact OUT")
        else:
            play(reader, speed, at, playing=at is None)


def play(reader: RecordingReader, speed: float | None, at_ms: int | None, *, playing: bool) -> None:
    """The screen on a recording, from `at_ms` on."""
    from ..replay import SPEEDS
    from ..replay_app import ReplayApp

    number = 0 if at_ms is None else reader.seek(at_ms)
    ReplayApp(reader, speed=speed or SPEEDS[-1], number=number, playing=playing).run()


def print_snapshots(reader: RecordingReader, path: Path, *, once: bool, json: bool) -> None:
    """All snapshots as lines, or the last one (`once`), as JSON or as a summary."""
    _say_truncated(reader, path)
    if not json:
        print(summary(reader.at(len(reader) - 1)))
        return
    for snapshot in [reader.at(len(reader) - 1)] if once else reader:
        sys.stdout.write(msgspec.json.encode(snapshot).decode() + "\n")
    sys.stdout.flush()


def _redact(reader: RecordingReader, path: Path, out: Path) -> None:
    _say_truncated(reader, path)
    with _progress(len(reader)) as step:
        channels = redact(reader, out, step)
    print(f"{out}: {count(len(reader))} snapshots, {count(channels)} channels renamed")


@contextmanager
def _progress(count: int) -> Generator[Callable[[int], object]]:
    """Shows how far it is, where somebody looks."""
    if not sys.stderr.isatty():
        yield lambda number: None
        return
    with typer.progressbar(length=count, label="snapshots", file=sys.stderr) as bar:
        yield lambda number: bar.update(1)


def _say_truncated(reader: RecordingReader, path: Path) -> None:
    if reader.truncated:
        last = next((point for point in reversed(reader.points) if point is not None), None)
        end = "" if last is None else f", {stamp(last.now_ms, None)}"
        why = "was not closed (its writer was killed, or still writes)"
        print(f"wmtop: {path} {why}: it ends with snapshot {len(reader):,}{end}", file=sys.stderr)
