"""Runs the app without a terminal on a canned client, and reads what it shows."""

import asyncio
from collections.abc import Awaitable, Callable

from textual.pilot import Pilot
from textual.widget import Widget
from wmtop.engine.feed.messages import FromEngine
from wmtop.tui.screens.app import OnQuit, WmtopApp

from .canned import CannedClient, Clock


class Driven:
    """A running app, its client and its clock."""

    def __init__(self, app: WmtopApp, pilot: "Pilot[object]", client: CannedClient, clock: Clock) -> None:
        self.app, self.pilot, self.client, self.clock = app, pilot, client, clock

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def type(self, *keys: str) -> None:
        """Press keys without waiting after each: for what does not look in between."""
        for key in keys:
            self.app.simulate_key(key)
        await self.pilot.pause()

    async def until(self, true: Callable[[], bool]) -> None:
        """Let the app work until something is so."""
        for _ in range(500):
            if true():
                return
            await self.pilot.pause(0.01)
        raise AssertionError("it never came to be so; the screen says:\n" + self.said())

    async def push(self, *messages: FromEngine) -> None:
        """Let messages come, and the app show them."""
        for message in messages:
            self.client.push(message)
        await self.until(self.client.drained)
        await self.pilot.pause(0.05)

    def said(self, selector: str = "Canvas, Rows") -> str:
        """The text of the widgets that draw themselves."""
        widgets: list[Widget] = [widget for widget in self.app.screen.query(selector) if widget.display]
        lines = (widget.render_line(y).text for widget in widgets for y in range(widget.size.height))
        return "\n".join(lines)

    async def says(self, text: str, selector: str = "Canvas, Rows") -> None:
        """Wait until the widgets say it: some of them draw at the next tick of the app's clock."""
        await self.until(lambda: text in self.said(selector))

    async def shows(self, selector: str, *facts: str) -> None:
        """Wait until the widgets show each of these names and figures, in whatever words."""
        await self.until(lambda: all(fact in self.said(selector) for fact in facts))

    def toasts(self) -> list[str]:
        """The notices shown."""
        return [notice.message for notice in self.app._notifications]


def drive(
    scenario: Callable[[Driven], Awaitable[None]],
    *messages: FromEngine,
    size: tuple[int, int] = (120, 36),
    on_quit: OnQuit = "leave",
    denied: frozenset[str] = frozenset(),
) -> WmtopApp:
    """Run `scenario` on an app that got `messages`."""

    async def run() -> WmtopApp:
        clock, client = Clock(), CannedClient(*messages)
        app = WmtopApp(client, on_quit=on_quit, clock=clock, denied=denied)
        async with app.run_test(size=size) as pilot:
            driven = Driven(app, pilot, client, clock)
            await driven.push()
            await scenario(driven)
        assert client.closed
        return app

    return asyncio.run(run())
