"""`wmtop attach` on the event log of an ended application: it opens like a recording."""

import sys
import tempfile
import time
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
from .targets import is_log

if TYPE_CHECKING:  # a tap is imported by the command that uses it
    from ...engine.targets.spark.event_log import EventLogFacts


def read_log(path: Path) -> "EventLogFacts | None":
    """The facts of an event log; None for anything else."""
    from ...engine.targets.spark.event_log import check
    from ...engine.targets.spark.post_mortem import look

    if not is_log(path):
        return None
    check(path)
    with _progress("reading the event log") as step:
        return look(path, step)


def finished_log(path: Path) -> "EventLogFacts | None":
    """The facts of an event log whose application has ended or must have died; None for anything else."""
    facts = read_log(path)
    return facts if facts is not None and has_finished(facts) else None


def has_finished(facts: "EventLogFacts") -> bool:
    """Whether the application has ended or must have died."""
    from ...engine.targets.spark.post_mortem import is_finished

    return is_finished(facts, time.time_ns() // 1_000_000)


def show_post_mortem(
    path: Path,
    facts: "EventLogFacts",
    wanted: str | None,
    name: str | None,
    record: Path | None,
    *,
    once: bool,
    json: bool,
    force: bool,
) -> None:
    """Make a recording of the log (kept as `record` if that is given), and show or print it."""
    check_outputs({"--record": record}, inputs=[path], force=force)
    if not (once or json) and not has_terminal():
        raise UsageError("the screen needs a terminal; without one, use --once or --json")
    with recorded(path, facts, wanted, name, record, force=force) as reader:
        if once and not json and (end_ms := reader.at(len(reader) - 1).now_ms) is not None:
            print(f"as of {stamp(end_ms, None)}, the end of the log; times are relative to it")
        if once or json:
            print_snapshots(reader, record or path, once=once, json=json)
        else:
            play(reader, 1.0, reader.at(len(reader) - 1).now_ms, playing=False)  # opened at the end: the error is there


@contextmanager
def recorded(
    path: Path,
    facts: "EventLogFacts",
    wanted: str | None,
    name: str | None = None,
    out: Path | None = None,
    *,
    force: bool = False,
) -> Generator[RecordingReader]:
    """The log as a recording, kept as `out` if that is given; UsageError where it has no batch of the query."""
    from ...engine.targets.spark.post_mortem import record as write
    from ...engine.targets.spark.reports import choose

    with tempfile.TemporaryDirectory(prefix="wmtop-") as directory:
        place = out or Path(directory) / "post-mortem.rec"
        with _progress("replaying the query") as step:
            snapshots = write(path, facts, place, wanted, name, step, force=force)
        if not snapshots:
            meant = choose(facts.queries, wanted, None)
            if meant is not None and meant.continuous:
                raise UsageError(f"{path}: Spark reports no batches of continuous processing; attach to the checkpoint")
            raise UsageError(f"{path} has no batch of the query; choose another event log or --query")
        with RecordingReader(place) as reader:
            yield reader


@contextmanager
def _progress(label: str) -> Generator[Callable[[int], object]]:
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
