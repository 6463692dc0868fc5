"""The commands for running engines: `wmtop`, `runs`, `stop` and `set`."""

import os
import sys
import time
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

import typer
from msgspec import UNSET, UnsetType

from ...engine.feed import run_directory
from ...engine.feed.messages import Change, Stop
from ...engine.system.errors import RunError, UsageError
from ...engine.text.formatting import NO_DATA, clean, stamp
from ..words.keys import use_keys
from .complete import run_names
from .config import appearance, config
from .launch import launched
from .loading import loading
from .options import parse_duration, parse_duration_or_off, parsed

if TYPE_CHECKING:
    from ..screens.app import SnapshotClient as StreamClient
    from ..screens.app import WmtopApp

    class Feed(StreamClient, Protocol):
        """A stream for a screen."""

        read_only: bool


Answer = Literal["stop", "leave", "fleet"]

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
    from ..words.verdict import WORDS, verdict_line

    level: int | None = None
    try:
        from ...engine.feed.client import first_snapshot

        snapshot = first_snapshot(run.socket, LOOK_WITHIN_S, run_id=run.id)
        level, verdict = snapshot.level.watermark_ms, verdict_line(snapshot)
    except RunError:
        verdict = f"{WORDS['unknown']}  {'no answer' if run.socket.exists() else 'starting'}"
    known = NO_DATA if level is None else stamp(level, None)
    started = f"since {stamp(run.started_ms, None)}"
    return f"{clean(run.name)}  {clean(run.description)}  {started}  watermark {known}  {verdict}"


def stop(
    name: Annotated[str, typer.Argument(metavar="NAME", autocompletion=run_names, help="as 'wmtop runs' lists it")],
) -> None:
    """Stop a running engine."""
    run = run_directory.find_run(name)
    from ...engine.feed.client import request

    reply = request(run.socket, Stop(id=1), run_id=run.id)
    if not reply.ok:
        raise RunError(reply.text)
    deadline = time.monotonic() + 60
    while any(other.id == run.id for other in run_directory.list_runs()):
        if time.monotonic() > deadline:
            raise RunError(f"the engine {name} (process {run.pid}) has not stopped within 60s; see its log {run.log}")
        time.sleep(0.1)
    print(f"stopped {name}")


def set_command(
    name: Annotated[str, typer.Argument(metavar="NAME", autocompletion=run_names, help="as 'wmtop runs' lists it")],
    lateness: Annotated[
        int | None, typer.Option(parser=parsed(parse_duration), metavar="D", help="max out-of-orderness")
    ] = None,
    idle_after: Annotated[
        str | None,
        typer.Option(
            metavar="D|off", help="idle timeout: a channel without records for D no longer holds back the watermark"
        ),
    ] = None,
) -> None:
    """Change settings of a running engine; they take effect at its next emit."""
    if lateness is None and idle_after is None:
        raise UsageError("nothing to set: give --lateness D or --idle-after D|off, e.g. --lateness 45m")
    idle: int | UnsetType | None = UNSET
    if idle_after is not None:
        try:
            idle = parse_duration_or_off(idle_after)
        except ValueError as error:
            raise UsageError(f"--idle-after: {error}") from None
    change = Change(id=1, lateness_ms=UNSET if lateness is None else lateness, idle_after_ms=idle, who="wmtop set")
    run = run_directory.find_run(name)
    from ...engine.feed.client import request

    reply = request(run.socket, change, run_id=run.id)
    if not reply.ok:
        raise RunError(reply.text)
    print(f"{name}: {reply.text}")


def apply_configuration(app: "WmtopApp") -> None:
    """Apply the configured theme, zone and keys to the screen."""
    use_keys(config().keys)
    app.apply_appearance(appearance())


def open_screen(client: "Feed", on_quit: Literal["ask", "stop", "leave"], *, of_fleet: bool = False) -> Answer:
    """Show the engine until the user quits; returns what to do with the engine, or "fleet" (only with `of_fleet`)."""
    with loading():
        from ..screens.app import WmtopApp
        from ..screens.preferences import denied_to, preferences_file

        if on_quit == "leave":  # an engine that runs: its first picture is the main screen
            import_module("wmtop.tui.screens.main")

    denied = denied_to(served=is_served(), read_only=client.read_only)
    app = WmtopApp(
        client,
        on_quit=on_quit,
        denied=denied,
        preferences_file=None if is_served() else preferences_file(),
        alerts=appearance().alerts,
    )
    apply_configuration(app)
    if of_fleet:
        app.return_to_fleet()
    return app.run() or "leave"
