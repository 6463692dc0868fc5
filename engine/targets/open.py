"""The one way from what a user names to a target: what a name means, kinds in the order in which an address is tried,
then plug-ins; and what is there to be named: Spark's checkpoints and event logs, names like a wrong one.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from msgspec import Struct

from ..feed import run_directory
from ..system.errors import UsageError, one_line
from .own import WHAT, check_address, is_path, is_recording, known_as, own_run, running_engine, scheme_of
from .plugin import open_plugin, plugins
from .spark.kind import SPARK
from .target import NO_OPTIONS, Kind, NothingThereError, NotReadyError, OpenedTarget, TargetOptions

READY_WITHIN_S, ASK_AGAIN_S = 15.0, 0.5
"""Seconds for which a target that starts is waited for (a History Server looks for logs every 10 s), between tries."""
DEPTH = 6
WITHIN_S = 1.5
_SKIPPED = {"node_modules", "site-packages", "dist-packages", "__pycache__", "spark-warehouse"}
_OURS = {"state.json", "lock", "checkpoint"}
"""Files in the state directory of a wmtop engine, which is better attached to by its stream."""


def _flink(address: str, options: TargetOptions) -> OpenedTarget:
    from .flink.watch import open_job

    return open_job(address, options)


def _spark_over_http(address: str, options: TargetOptions) -> OpenedTarget:
    from .spark.kind import open_over_http

    return open_over_http(address, options)


def _topic(address: str, options: TargetOptions) -> OpenedTarget:
    if "/" not in address.removeprefix("kafka://").rstrip("/"):
        from .streams.watch import open_group

        return open_group(address, options)
    from .topic.consumer import open_topic

    return open_topic(address, options)


KINDS = (
    Kind(
        "flink",
        lambda address: address.startswith(("flink://", "http://", "https://")),
        _flink,
        reads=("operator", "ca_file", "client_cert", "auth_file", "bootstrap", "time", "kafka_config"),
        where="for flink://",
        joined="for a Flink job",
    ),
    Kind(
        "spark",
        lambda address: address.startswith(("spark+http://", "spark+https://")),
        _spark_over_http,
        reads=("ca_file", "client_cert", "auth_file", "query"),
        where="for spark+http://",
    ),
    Kind(
        "topic",
        lambda address: address.startswith("kafka://"),
        _topic,
        reads=("group", "lateness", "idle_after", "window", "grace", "time", "kafka_config"),
        where="for kafka://",
    ),
)
"""What an address that is not a run's or a recording's may be, in order; else it is a plug-in's, else a Spark query."""


def open_target(
    address: str,
    options: TargetOptions = NO_OPTIONS,
    configured: TargetOptions = NO_OPTIONS,
    *,
    runs: bool = True,
    say: Callable[[str], object] = lambda line: None,
) -> OpenedTarget:
    """What an address leads to: a running engine (with `runs`), a recording, or a target of another program.

    Options that are not given are those `configured`. A target that starts is waited for, and `say` gets a line
    about it. UsageError or RunError if there is no such target, it cannot be reached, or an option has no effect on it.
    """
    if (own := own_run(check_address(address), runs=runs)) is not None:
        return own
    kind = next((kind for kind in KINDS if kind.has(address)), None)
    scheme = scheme_of(address) if kind is None else None
    plugin = None if scheme is None else plugins().get(scheme)
    options = options.over(configured)
    if plugin is not None:
        return open_plugin(plugin, address, options)
    kind = kind or SPARK
    options.only(kind.reads, kind.where, kind.joined)
    until, has_said = time.monotonic() + READY_WITHIN_S, False
    while True:
        try:
            return kind.open(address, options)
        except NotReadyError as error:
            if time.monotonic() >= until:
                raise
            if not has_said:
                say(f"{error}; waiting up to {READY_WITHIN_S:g}s")
            has_said = True
            time.sleep(ASK_AGAIN_S)
        except NothingThereError:
            raise UsageError(nothing_there(address)) from None


def kind_at(address: str) -> str:
    """The word for the kind of a target, as far as its address shows it."""
    if is_recording(address):
        return "recording"
    return next((kind.name for kind in KINDS if kind.has(address)), "")


def address_of(target: str, *, runs: bool = True) -> str:
    """The address of what a user names: a running engine (with `runs`) or a published query, else a path.

    UsageError where a name is that of both.
    """
    from .spark.reports import list_published

    path = Path(target)
    if is_path(target) or not path.exists():
        return target
    engine = running_engine(target) if runs else None
    if engine is not None:
        what, other = "a running engine", f"{engine.socket} for the engine"
    elif any(job.publication.alive and target in job.names for job in list_published()):
        what, other = "a published query", "another directory to run this in for the query"
    else:
        return f"./{target}"
    kind = "directory" if path.is_dir() else "file"
    raise UsageError(
        f"{one_line(target)} is {what} and a {kind} here: give ./{one_line(target)} for the {kind}, {other}"
    )


def nothing_there(address: str) -> str:
    """The error for a target that does not exist, with similar ones."""
    from .spark.reports import list_published

    path = Path(address)
    runs = {run.name: run.name for run in run_directory.list_runs()}
    published = {name: name for job in list_published() for name in job.names}
    try:
        beside = {entry.name: str(path.parent / entry.name) for entry in path.parent.iterdir()}
    except OSError:
        beside = {}
    found = {known_as(one.path): str(one.path) for one in discover([Path.cwd()])}
    known = beside if "/" in address else {**beside, **found, **published, **runs}
    near = [one_line(known[name]) for name in get_close_matches(path.name, known, 3)]
    hint = f"did you mean {' or '.join(near)}?" if near else f"give {WHAT}; 'wmtop attach' lists what can be watched"
    return f"there is no {'' if '/' in address else 'run, '}file or directory {one_line(address)}: {hint}"


class Found(Struct, frozen=True):
    """A checkpoint or event log, and when (epoch ms) it last changed."""

    kind: Literal["checkpoint", "event log"]
    path: Path
    changed_ms: int


def discover(roots: Iterable[Path], *, depth: int = DEPTH, within_s: float = WITHIN_S) -> list[Found]:
    """The checkpoints and event logs in `roots` and at most `depth` directories below, the last changed first; only
    those found in `within_s`.

    Hidden directories and links are left out.
    """
    until = time.monotonic() + within_s
    found: dict[Path, Found] = {}
    waiting = deque((root.resolve(), 0) for root in roots)
    seen: set[Path] = set()
    while waiting and time.monotonic() < until:
        directory, level = waiting.popleft()
        if directory in seen:
            continue
        seen.add(directory)
        found |= {one.path: one for one in _look_at(directory)}
        if directory not in found and level < depth:
            waiting.extend((below, level + 1) for below in _below(directory))
    return sorted(found.values(), key=lambda one: -one.changed_ms)


def _look_at(directory: Path) -> Iterator[Found]:
    """The directory itself, or the event logs that are plain files in it."""
    from .spark.checkpoint import is_checkpoint
    from .spark.event_log import EVENT_LOG_NAME, is_log_file
    from .spark.files import written_ms

    inside = _names(directory)
    offsets = directory / "offsets"
    if is_checkpoint(directory) and (
        # Written by a query: many packages have a directory called offsets.
        not {"metadata", "commits"}.isdisjoint(inside) or any(map(str.isdecimal, _names(offsets)))
    ):
        yield Found("checkpoint", directory, written_ms(offsets) or 0)
        return
    # Not by its name alone: Spark's workers have directories called app-20261122-0001.
    if EVENT_LOG_NAME.fullmatch(directory.name) and any(name.startswith(("events_", "appstatus_")) for name in inside):
        yield Found("event log", directory, max(written_ms(directory / name) or 0 for name in inside))
        return
    for path in (directory / name for name in inside if EVENT_LOG_NAME.fullmatch(name)):
        if path.is_file() and is_log_file(path):
            yield Found("event log", path, written_ms(path) or 0)


def _below(directory: Path) -> Iterator[Path]:
    try:
        with os.scandir(directory) as entries:
            inside = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return
    if set(_names(directory)) >= _OURS:
        return
    for entry in inside:
        if not entry.name.startswith(".") and entry.name not in _SKIPPED:
            yield Path(entry.path)


def _names(directory: Path) -> list[str]:
    from .spark.files import UnreadableError, names

    try:
        return names(directory)
    except UnreadableError:
        return []
