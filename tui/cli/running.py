"""What looks at engines that run already: `wmtop`, `runs`, `stop` and `set`."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import typer
from msgspec import UNSET, UnsetType

from ...engine.core.snapshot import Snapshot
from ...engine.errors import RunError, UsageError
from ...engine.feed import rundir
from ...engine.feed.client import Client, first_snapshot, request
from ...engine.feed.messages import Change, Stop
from ..formatting import NO_DATA, clean, stamp
from .arguments import parsed
from .options import parse_duration, parse_duration_or_off


def has_terminal() -> bool:
    """Whether there is something to draw on: a terminal, or the browser that serves this process."""
    return sys.stdout.isatty() or "TEXTUAL_DRIVER" in os.environ


def runs() -> None:
    """List the running engines."""
    lines = lines_of_runs()
    print("\n".join(lines) or "no engine is running; start one with 'wmtop demo' or 'wmtop run'")


def lines_of_runs() -> list[str]:
    """The running engines, a line each: name, source, since when, level, state."""
    lines: list[str] = []
    for run in rundir.list_runs():
        snapshot = _look(run.socket)
        level = snapshot.level.watermark_ms if snapshot else None
        known = NO_DATA if level is None else stamp(level, None)
        state = snapshot.state if snapshot else "starting"
        about = f"{clean(run.name)}  {clean(run.description)}"
        lines.append(f"{about}  since {stamp(run.started_ms, None)}  level {known}  {state}")
    return lines


def stop(name: Annotated[str, typer.Argument(metavar="NAME", help="as 'wmtop runs' lists it")]) -> None:
    """Stop a running engine."""
    run = rundir.find_run(name)
    reply = request(run.socket, Stop(id=1))
    if not reply.ok:
        raise RunError(reply.text)
    deadline = time.monotonic() + 60
    while any(other.pid == run.pid for other in rundir.list_runs()):
        if time.monotonic() > deadline:
            raise RunError(f"the engine {name} (process {run.pid}) does not stop; its log is {run.log}")
        time.sleep(0.1)
    print(f"stopped {name}")


def set_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="as 'wmtop runs' lists it")],
    lateness: Annotated[
        int | None, typer.Option(parser=parsed(parse_duration), metavar="D", help="how late records may be")
    ] = None,
    idle_after: Annotated[
        str | None, typer.Option(metavar="D|off", help="when a quiet channel stops holding the level")
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
    reply = request(rundir.find_run(name).socket, change)
    if not reply.ok:
        raise RunError(reply.text)
    print(f"{name}: {reply.text}")


def open_running() -> None:
    found = rundir.list_runs()
    if not found:
        print("no engine is running; start one: 'wmtop demo' (real flights) or 'wmtop run replay FILE --time COL'")
        return
    if len(found) > 1:
        name = _choose([run.name for run in found])
        found = [run for run in found if run.name == name]
    open_screen(found[0].socket, None, "leave")


def _choose(names: list[str]) -> str:
    if not sys.stdin.isatty():
        raise UsageError(f"several engines are running ({', '.join(names)}): run wmtop in a terminal to choose one")
    for number, name in enumerate(names, 1):
        print(f"{number}  {clean(name)}")
    answer = input("which engine? ").strip()
    if answer.isdigit() and 1 <= int(answer) <= len(names):
        return names[int(answer) - 1]
    if answer in names:
        return answer
    raise UsageError(f"'{answer}' is none of them: give a number from 1 to {len(names)} or a name")


def open_screen(
    path: Path,
    alive: Callable[[], str | None] | None,
    on_quit: Literal["ask", "stop", "leave"],
    *,
    read_only: bool = False,
) -> Literal["stop", "leave"]:
    """Show the engine until the user quits; what is to become of it."""
    from ..app import WmtopApp

    return (
        "stop" if WmtopApp(Client(path, alive=alive, read_only=read_only), on_quit=on_quit).run() == "stop" else "leave"
    )


def _look(path: Path) -> Snapshot | None:
    try:
        return first_snapshot(path, 2)
    except RunError:
        return None
