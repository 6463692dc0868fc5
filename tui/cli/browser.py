"""The web server of `wmtop serve`: which hosts may open the page and its websocket, and what the page may load.

Any web page can make a browser send requests to this server. Two checks keep other sites out: the request must be made
to an allowed host name (else a site could point its own name at this address: DNS rebinding), and a page that opens the
websocket must come from that same host. The page loads nothing from elsewhere, so it works without the internet.
"""

import ipaddress
import re
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web
from textual_serve.server import Server

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_TEMPLATES = Path(__file__).parent.parent / "browser"
_HOST = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::\d+)?")


def is_allowed(host: str, listening: str, further: Collection[str]) -> bool:
    """Whether a request with the header `Host: {host}` may be answered by a server that listens on `listening`.

    Allowed are the loopback names, `listening` and the `further` names. A server that listens on all addresses also
    takes any literal address: a name that a site points here is not one.
    """
    found = _HOST.fullmatch(host)
    if found is None:
        return False
    name = (found["six"] or found["name"]).lower()
    if name in {*LOOPBACK_NAMES, listening.lower(), *(one.lower() for one in further)}:
        return True
    everywhere = _is_address(listening) and ipaddress.ip_address(listening).is_unspecified
    return everywhere and _is_address(name)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


class ScreenServer(Server):
    """Runs `command` for each browser tab; `allowed` are further host names under which it may be opened."""

    def __init__(self, command: str, *, host: str, port: int, title: str, allowed: Collection[str]) -> None:
        super().__init__(  # pyright: ignore[reportUnknownMemberType]
            command, host=host, port=port, title=title, templates_path=str(_TEMPLATES)
        )
        self._allowed = allowed

    def initialize_logging(self) -> None:
        """Nothing is logged."""

    async def on_startup(self, app: web.Application) -> None:
        """Nothing to do: the command has printed the address."""

    async def _make_app(self) -> web.Application:
        app = await super()._make_app()
        app.middlewares.append(self._guard)
        return app

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Answer only requests to our own names and from our own page."""
        if not is_allowed(request.host, self.host, self._allowed):
            raise web.HTTPForbidden(text="this host name is not allowed; start wmtop serve with --allow-host NAME")
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != request.host:
            raise web.HTTPForbidden(text="another site may not open this")
        return await handler(request)

    async def handle_index(self, request: web.Request) -> Any:
        self.public_url = f"{request.scheme}://{request.host}"  # the name by which the browser knows this server
        response = await super().handle_index(request)
        response.headers["Content-Security-Policy"] = (
            "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
            f"connect-src 'self' ws://{request.host} wss://{request.host}; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        return response
