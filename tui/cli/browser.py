"""The web server of `wmtop serve`: which hosts may open the page and its websocket, and what the page may load.

Any web page can make a browser send requests to this server. Two checks keep other sites out: the request must be made
to an allowed host name (else a site could point its own name at this address: DNS rebinding), and a page that opens the
websocket must come from that same host. The page loads nothing from elsewhere, so it works without the internet.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from aiohttp import WSCloseCode, web
from textual_serve.app_service import AppService
from textual_serve.server import Server, to_int

from .hosts import is_allowed
from .process import SERVED_VARIABLE

_TEMPLATES = Path(__file__).parent.parent / "browser"
MAX_SCREENS = 16
"""Browser tabs at once, at most: each is a process of about 100 MB."""
MAX_SIZE = 600, 200
"""The largest screen (columns, rows) that a browser gets, whatever size it names."""
_MAX_MESSAGE = 64 * 1024
"""The longest message (bytes) that a browser may send."""
_QUITS_WITHIN_S = 2.0
"""How long a screen whose tab was closed may take to quit, until it is killed."""
_STOPS_WITHIN_S = 0.5
_WRONG_SHAPE = (ValueError, ArithmeticError, AssertionError, LookupError, TypeError, AttributeError, RecursionError)
"""What textual-serve raises for a message that is not one of its own."""


class _Screen(AppService):
    """The process of one browser tab; none of it is left when the tab or this server has gone."""

    def _build_environment(self, width: int = 80, height: int = 24) -> dict[str, str]:
        return super()._build_environment(width, height) | {SERVED_VARIABLE: "1"}

    async def start(self, width: int, height: int) -> None:
        await super().start(*_within(width, height))

    async def set_terminal_size(self, width: int, height: int) -> None:
        await super().set_terminal_size(*_within(width, height))

    async def stop(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_QUITS_WITHIN_S):
                await super().stop()
        self.kill()

    def kill(self) -> None:
        """End the process at once, if it runs."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()


def _within(width: int, height: int) -> tuple[int, int]:
    return min(max(1, int(width)), MAX_SIZE[0]), min(max(1, int(height)), MAX_SIZE[1])


class ScreenServer(Server):
    """Runs `command` for each browser tab; `allowed` are further host names under which it may be opened."""

    def __init__(self, command: str, *, host: str, port: int, title: str, allowed: Collection[str]) -> None:
        super().__init__(  # pyright: ignore[reportUnknownMemberType]
            f"exec {command}", host=host, port=port, title=title, templates_path=str(_TEMPLATES)
        )
        self._allowed = allowed
        self._screens: set[_Screen] = set()

    async def on_startup(self, app: web.Application) -> None:
        """Nothing to do: the command has printed the address."""

    async def on_shutdown(self, app: web.Application) -> None:
        """Leave no screen behind."""
        for screen in self._screens:
            screen.kill()

    def serve(self, debug: bool = False) -> None:
        """Serve until SIGINT or SIGTERM."""
        web.run_app(self._make_app(), host=self.host, port=self.port, print=None, shutdown_timeout=_STOPS_WITHIN_S)

    async def _make_app(self) -> web.Application:
        app = await super()._make_app()
        app.middlewares.append(self._guard)
        app.router["static"]._show_index = False  # pyright: ignore # no listing of files
        return app

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """The screen of one browser tab, until either ends."""
        if len(self._screens) >= MAX_SCREENS:
            raise web.HTTPServiceUnavailable(text=f"{MAX_SCREENS} screens are open; close one of them first")
        websocket = web.WebSocketResponse(heartbeat=15, max_msg_size=_MAX_MESSAGE)
        screen = _Screen(
            self.command,
            write_bytes=websocket.send_bytes,
            write_str=websocket.send_str,
            close=websocket.close,  # pyright: ignore[reportArgumentType] # its answer is not used
            download_manager=self.download_manager,
        )
        self._screens.add(screen)
        try:
            await websocket.prepare(request)
            await screen.start(to_int(request.query.get("width", ""), 80), to_int(request.query.get("height", ""), 24))
            await self._process_messages(websocket, screen)
        except _WRONG_SHAPE:
            await websocket.close(code=WSCloseCode.UNSUPPORTED_DATA)
        finally:
            await screen.stop()
            self._screens.discard(screen)
        return websocket

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
