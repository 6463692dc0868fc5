"""The commands for running engines: `runs`, `stop`, `set`; what can be attached to; and the screen of an engine."""

import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

from msgspec import UNSET

from ...engine.feed import run_directory
from ...engine.feed.messages import Change, Stop
from ...engine.system.errors import RunError, UsageError
from ...engine.text.formatting import NO_DATA, clean, count, duration, stamp
from ..words.keys import use_keys
from ..words.user_commands import use_commands
from .config import appearance, config
from .names import RunName
from .options import duration_option, off_option, or_off
from .process import launched, loading

if TYPE_CHECKING:  # a tap, or the screen, is imported by the command that uses it
    from ...engine.targets.open import Found
    from ...engine.targets.spark.reports import Published
    from ..screens.app import SnapshotClient as StreamClient
    from ..screens.app import WmtopApp
    from ..screens.start import Answer

    class Feed(StreamClient, Protocol):
        """A stream for a screen."""

        read_only: bool


PUBLISHED = "published queries: wmtop attach NAME"
_MAX_LISTED = 20

LOOK_WITHIN_S = 2.0
"""Longest wait (s) for an engine's answer."""


def has_terminal() -> bool:
    """Whether a screen can be shown: in a terminal, or in a browser."""
    if launched() is not None:  # an engine, whose output is a log
        return False
    return sys.stdout.isatty() or is_served()


def is_served() -> bool:
    """Whether this process draws in a browser (`wmtop serve`): it must not write files on the server."""
    return "TEXTUAL_DRIVER" in os.environ


def runs() -> None:
    """List the running engines."""
    lines = lines_of_runs()
    print("\n".join(lines) or "no engine is running; start one with 'wmtop demo' or 'wmtop run'")


def lines_of_runs() -> list[str]:
    """The running engines, a line each: name, source, start time, watermark, state."""
    return [_line_of(run) for run in run_directory.list_runs()]


def _line_of(run: run_directory.RunInfo) -> str:
    from ..words.summary import judged_line
    from ..words.verdict_words import WORDS

    level: int | None = None
    try:
        from ...engine.feed.client import first_snapshot

        snapshot = first_snapshot(run.socket, LOOK_WITHIN_S, run_id=run.id)
        level, verdict = snapshot.level.watermark_ms, judged_line(snapshot)
    except RunError:
        verdict = f"{WORDS['unknown']}  {'no answer' if run.socket.exists() else 'starting'}"
    known = NO_DATA if level is None else stamp(level, None)
    started = f"since {stamp(run.started_ms, None)}"
    return f"{clean(run.name)}  {clean(run.description)}  {started}  watermark {known}  {verdict}"


def stop(name: RunName) -> None:
    """Stop a running engine."""
    run, _ = _ask(name, Stop(id=1))
    deadline = time.monotonic() + 60
    while any(other.id == run.id for other in run_directory.list_runs()):
        if time.monotonic() > deadline:
            raise RunError(f"the engine {name} (process {run.pid}) has not stopped within 60s; see its log {run.log}")
        time.sleep(0.1)
    print(f"stopped {name}")


def set_command(
    name: RunName,
    lateness: Annotated[int | None, duration_option("max out-of-orderness")] = None,
    idle_after: Annotated[
        int | None, off_option("idle timeout: a channel without records for D no longer holds back the watermark")
    ] = None,
) -> None:
    """Change settings of a running engine; they take effect at its next emit."""
    if lateness is None and idle_after is None:
        raise UsageError("nothing to set: give --lateness D or --idle-after D|off, e.g. --lateness 45m")
    idle = UNSET if idle_after is None else or_off(idle_after)
    change = Change(id=1, lateness_ms=UNSET if lateness is None else lateness, idle_after_ms=idle, who="wmtop set")
    _, said = _ask(name, change)
    print(f"{name}: {said}")


def _ask(name: str, command: Stop | Change) -> tuple[run_directory.RunInfo, str]:
    """Send a command to a running engine; returns the run and its answer. RunError if it refuses."""
    from ...engine.feed.client import request

    run = run_directory.find_run(name)
    reply = request(run.socket, command, run_id=run.id)
    if not reply.ok:
        raise RunError(reply.text)
    return run, reply.text


def list_all() -> None:
    """Running engines, published queries, and what is found on disk here and in the temporary directory."""
    from ...engine.targets.open import discover
    from ...engine.targets.own import WHAT
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
    from ...engine.targets.open import discover
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
    for kind, words in (("checkpoint", "checkpoints"), ("event log", "event logs")):
        of_kind = [one for one in found if one.kind == kind]
        if of_kind:
            print(f"Spark {words} {where}: wmtop attach PATH")
        for one in of_kind[:_MAX_LISTED]:
            age = duration(max(now_ms - one.changed_ms, 0))
            print(f"  {clean(shlex.quote(str(one.path)))}  changed {age} ago")
        if len(of_kind) > _MAX_LISTED:
            print(f"  and {len(of_kind) - _MAX_LISTED:,} older ones")


def _lines_of_job(job: "Published") -> list[str]:
    """The running and the failed queries of a job, a line each, with `gone` where its process has ended."""
    said = job.publication
    age_ms = None if said.written_ms is None else max(time.time_ns() // 1_000_000 - said.written_ms, 0)
    silent = "" if age_ms is None else f": last report {duration(age_ms)} ago"
    where = f"{said.app}, process {said.pid}{'' if said.alive else f', gone{silent}'}"
    last = {run.id: run for run in said.queries}.values()
    shown = [run for run in last if not run.ended or run.error] or list(said.queries[-1:])
    if not shown:
        return [f"  {clean(job.name)}  {clean(where)}  no query has started yet"]
    lines: list[str] = []
    for run in shown:
        name = job.name if run.name is None else run.name
        batch = "no batch yet" if run.progress is None else f"batch {count(run.progress.batch)}"
        end = f", failed: {clean(run.error)}" if run.error is not None else ", ended" if run.ended else ""
        lines.append(f"  {clean(name)}  {clean(where)}  {batch}{end}")
    return lines


def open_screen(client: "Feed", on_quit: Literal["ask", "stop", "leave"], *, of_fleet: bool = False) -> "Answer":
    """Show the engine until the user quits; returns what to do with the engine, or "fleet" (only with `of_fleet`)."""
    with loading():
        from ..screens.app import WmtopApp

        if on_quit == "leave":  # an engine that runs: its first picture is the main screen
            import_module("wmtop.tui.screens.main")

    app = partial(WmtopApp, client, on_quit=on_quit, alerts=appearance().alerts)
    return show_app(app, read_only=client.read_only, of_fleet=of_fleet) or "leave"


def show_app(app_of: Callable[..., "WmtopApp"], *, read_only: bool, of_fleet: bool) -> "Answer | None":
    """Show a screen as it is configured, without the keys that may not be used here; returns what it ends with."""
    from ..screens.base_app import denied_to, preferences_file

    denied = denied_to(served=is_served(), read_only=read_only)
    app = app_of(denied=denied, preferences_file=None if is_served() else preferences_file())
    use_keys(config().keys)
    use_commands(config().commands)
    app.apply_appearance(appearance())
    app.of_fleet = of_fleet
    return app.run()
