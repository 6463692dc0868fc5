"""`wmtop serve`: the same screen in a browser, on this machine and read-only unless told otherwise."""

import shlex
import socket
import sys
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from ...engine.errors import RunError, UsageError
from ...engine.feed.recording import RecordingReader
from .attach import socket_of
from .targets import is_published, nothing_there

LOOPBACK = "127.0.0.1"


def serve(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="what attach takes, or a recording")],
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="where to listen")] = LOOPBACK,
    port: Annotated[int, typer.Option(metavar="N", help="which port")] = 8080,
    allow_changes: Annotated[
        bool, typer.Option("--allow-changes", help="let the browser change settings of the engine")
    ] = False,
) -> None:
    """Show the screen in a browser."""
    command = _screen_command(target, allow_changes)
    _check_address(host, port)
    print(
        f"wmtop is at http://{host}:{port} ({'it can change settings' if allow_changes else 'read-only'}); ctrl+c ends"
    )
    if host not in (LOOPBACK, "localhost", "::1"):
        print("wmtop: whoever reaches this address sees this screen: there is no password", file=sys.stderr)
    _server(shlex.join(command), host, port).serve()


def _screen_command(target: str, allow_changes: bool) -> list[str]:
    """The command that each browser tab runs."""
    wmtop = [sys.executable, "-m", "wmtop.tui.cli"]
    path = Path(target)
    if path.is_file() and _is_recording(path):
        return [*wmtop, "replay", str(path.absolute())]
    if not path.exists() and "://" not in target and socket_of(target) is None and not is_published(target):
        raise UsageError(nothing_there(target))
    whole = str(path.absolute()) if path.exists() else target
    return [*wmtop, "attach", whole, *([] if allow_changes else ["--read-only"])]


def _is_recording(path: Path) -> bool:
    try:
        RecordingReader(path).close()
    except (UsageError, RunError):
        return False
    return True


def _check_address(host: str, port: int) -> None:
    """UsageError where nobody can listen there."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
    except (OSError, OverflowError) as error:
        raise UsageError(f"cannot listen at {host} port {port}: {error}; choose another by --host or --port") from None


def _server(command: str, host: str, port: int) -> Any:
    from aiohttp import web
    from textual_serve.server import Server

    class ScreenServer(Server):
        """Answers only pages of its own: another site in the same browser must not open the socket."""

        def initialize_logging(self) -> None:
            """Nothing is logged."""

        async def on_startup(self, app: web.Application) -> None:
            """The address was told already."""

        async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
            origin = request.headers.get("Origin")
            if origin is not None and urlsplit(origin).netloc != request.host:
                raise web.HTTPForbidden(text="another site may not look at this")
            return await super().handle_websocket(request)

        async def handle_index(self, request: web.Request) -> Any:
            # The browser may know us by another name than the one that we listen at.
            self.public_url = f"{request.scheme}://{request.host}"
            return await super().handle_index(request)

    try:
        return ScreenServer(command, host=host, port=port, title="wmtop")
    except OSError as error:
        raise RunError(str(error)) from None
