"""Lists what `wmtop attach` can attach to, a line each."""

import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...engine.text.formatting import clean, count, duration
from .running import lines_of_runs

PUBLISHED = "published queries: wmtop attach NAME"

if TYPE_CHECKING:  # a tap is imported by the command that uses it
    from ...engine.targets.discover import Found
    from ...engine.targets.spark.facts import QueryRun
    from ...engine.targets.spark.reports import Published

_MAX_LISTED = 20
_WORDS = {"checkpoint": "checkpoints", "event log": "event logs"}


def list_all() -> None:
    """Running engines, published queries, and what is found on disk here and in the temporary directory."""
    from ...engine.targets.discover import WHAT, discover
    from ...engine.targets.plugin import plugins
    from ...engine.targets.spark.reports import list_published

    lines = lines_of_runs()
    if lines:
        print("\n".join(["running engines: wmtop attach NAME", *(f"  {line}" for line in lines)]))
    published = [line for job in list_published() for line in _lines_of_job(job)]
    if published:
        print("\n".join([PUBLISHED, *published]))
    for scheme, plugin in sorted(plugins().items()):
        print(f"plug-in {clean(plugin.value)}: wmtop attach {clean(scheme)}://…")
    found = discover([Path.cwd(), Path("/tmp")])
    _print_found(found, "here and in /tmp")
    if not lines and not published and not found:
        print(f"no running engine, checkpoint or event log found (here and in /tmp); give {WHAT}")


def list_inside(path: Path) -> bool:
    """List the checkpoints and event logs in a directory that holds several; returns whether it does."""
    if not path.is_dir():
        return False
    from ...engine.targets.discover import discover
    from ...engine.targets.spark.checkpoint import is_checkpoint
    from ...engine.targets.spark.event_log import is_log

    if is_checkpoint(path) or is_log(path):
        return False
    found = discover([path])
    if len(found) > 1:
        _print_found(found, f"in {clean(str(path))}")
    return len(found) > 1


def _print_found(found: "Sequence[Found]", where: str) -> None:
    now_ms = time.time_ns() // 1_000_000
    for kind, words in _WORDS.items():
        of_kind = [one for one in found if one.kind == kind]
        if of_kind:
            print(f"Spark {words} {where}: wmtop attach PATH")
        for one in of_kind[:_MAX_LISTED]:
            age = duration(max(now_ms - one.changed_ms, 0))
            print(f"  {clean(shlex.quote(str(one.path)))}  changed {age} ago")
        if len(of_kind) > _MAX_LISTED:
            print(f"  and {len(of_kind) - _MAX_LISTED:,} older ones")


def _end(run: "QueryRun") -> str:
    if run.error is not None:
        return f", failed: {clean(run.error)}"
    return ", ended" if run.ended else ""


def _lines_of_job(job: "Published") -> list[str]:
    """The running and the failed queries of a job, a line each, with `gone` where its process has ended."""
    said = job.publication
    where = f"{said.app}, process {said.pid}{'' if said.alive else ', gone'}"
    last = {run.id: run for run in said.queries}.values()
    shown = [run for run in last if not run.ended or run.error] or list(said.queries[-1:])
    if not shown:
        return [f"  {clean(job.name)}  {clean(where)}  no query has started yet"]
    lines: list[str] = []
    for run in shown:
        name = job.name if run.name is None else run.name
        batch = "no batch yet" if run.progress is None else f"batch {count(run.progress.batch)}"
        lines.append(f"  {clean(name)}  {clean(where)}  {batch}{_end(run)}")
    return lines
