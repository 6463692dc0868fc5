"""`wmtop attach` on the event log of an ended application: it opens like a recording."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ...engine.feed.recording_reader import RecordingReader
from ...engine.system.errors import UsageError
from ...engine.system.files import check_outputs
from ...engine.text.formatting import stamp
from .replay import play, print_snapshots
from .running import has_terminal

if TYPE_CHECKING:  # a tap is imported by the command that uses it
    from ...engine.targets.spark.kind import FinishedLog


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
def log_progress(label: str) -> Generator[Callable[[int], object]]:
    """Shows a progress bar while a long log is read, if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield lambda left: None
        return
    bar = None
    whole = 0

    def step(left: int) -> None:
        nonlocal bar, whole
        if bar is None:
            if not left:
                return
            whole, bar = left, typer.progressbar(length=left, label=label, file=sys.stderr)
            bar.__enter__()
        bar.update(max(whole - left - bar.pos, 0))

    try:
        yield step
    finally:
        if bar is not None:
            bar.__exit__(None, None, None)
