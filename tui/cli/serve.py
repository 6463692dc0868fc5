"""`wmtop serve`: the screen in a browser, on this machine and read-only by default."""

import shlex
import socket
import sys
from pathlib import Path
from typing import Annotated

from ...engine.system.errors import RunError, UsageError, require
from ...engine.targets.own import is_path, is_recording, is_remote, known_as, local_path
from .hosts import LOOPBACK, LOOPBACK_NAMES
from .names import target_argument
from .options import flag, option
from .targets import existing, member_of


def serve(
    target: Annotated[str, target_argument("a target of 'wmtop attach', or a recording")],
    host: Annotated[str, option("ADDRESS", "address to listen on")] = LOOPBACK,
    port: Annotated[int, option("N", "port to listen on")] = 8080,
    allow_host: Annotated[
        list[str] | None, option("NAME", "a further host name under which browsers may open it; may be repeated")
    ] = None,
    allow_changes: Annotated[bool, flag("--allow-changes", "let the browser change settings of the engine")] = False,
) -> None:
    """Show the screen in a browser, read-only."""
    require("serve", "wmtop serve")
    command = _screen_command(target, allow_changes)
    _check_address(host, port)
    address = f"[{host}]" if ":" in host else host
    mode = "can change settings" if allow_changes else "read-only"
    print(f"wmtop is at http://{address}:{port} ({mode}); press ctrl+c to stop", flush=True)
    if host not in LOOPBACK_NAMES:
        print("wmtop: no password is set; anyone who can reach this address can see this screen", file=sys.stderr)
    from .browser import ScreenServer

    path = Path(target)
    title = f"wmtop {known_as(path) if path.is_dir() else path.name if path.exists() else target}"
    try:
        server = ScreenServer(shlex.join(command), host=host, port=port, title=title, allowed=allow_host or [])
    except OSError as error:
        raise RunError(str(error)) from None
    server.serve()


def _screen_command(target: str, allow_changes: bool) -> list[str]:
    """The command that each browser tab runs."""
    wmtop = [sys.executable, "-m", "wmtop.tui.cli"]
    mode = [] if allow_changes else ["--read-only"]
    member = existing(member_of(target))
    address = member.target
    if member.forgiving:
        return [*wmtop, "attach", target, *mode]
    if is_recording(address):
        return [*wmtop, "replay", str(local_path(address).absolute())]
    if is_path(address) and not is_remote(address):
        address = str(local_path(address).absolute())
    return [*wmtop, "attach", address, *mode]


def _check_address(host: str, port: int) -> None:
    """UsageError where this process cannot listen there."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address[0], port, *address[2:]))  # getaddrinfo takes a port of more than 16 bits
    except (OSError, OverflowError) as error:
        why = str(error).rstrip(".")
        raise UsageError(f"cannot listen on {host} port {port}: {why}; choose another --host or --port") from None
