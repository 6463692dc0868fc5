"""Finds what can be attached to: what a name means, Spark's checkpoints and event logs, and names like a wrong one."""

import os
import time
from collections import deque
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from msgspec import Struct

from ..feed import run_directory
from ..system.errors import UsageError, one_line
from .own import WHAT, is_path, known_as, running_engine
from .spark.checkpoint import is_checkpoint
from .spark.event_log import EVENT_LOG_NAME, is_log_file
from .spark.files import UnreadableError, names, written_ms
from .spark.reports import list_published

DEPTH = 6
WITHIN_S = 1.5
_SKIPPED = {"node_modules", "site-packages", "dist-packages", "__pycache__", "spark-warehouse"}
_OURS = {"state.json", "lock", "checkpoint"}
"""Files in the state directory of a wmtop engine, which is better attached to by its stream."""


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


def address_of(target: str, *, runs: bool = True) -> str:
    """The address of what a user names: a running engine (with `runs`) or a published query, else a path.

    UsageError where a name is that of both.
    """
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


def _look_at(directory: Path) -> Iterator[Found]:
    """The directory itself, or the event logs that are plain files in it."""
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
    try:
        return names(directory)
    except UnreadableError:
        return []
