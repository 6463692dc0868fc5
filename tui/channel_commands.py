"""The command palette's way to a channel: type a part of its name."""

from itertools import islice
from typing import Any

from textual.command import Hit, Hits, Provider
from textual.screen import Screen

from .present.formatting import clean
from .screens.detail import DetailScreen
from .screens.main import MainScreen

_MOST = 50


class ChannelCommands(Provider):
    """Offers the page of each channel whose name contains what was typed, at most `_MOST`."""

    async def search(self, query: str) -> Hits:
        main, wanted = self._main, query.casefold()
        if main is None or not wanted:
            return
        names = (view.channel for view in main.seen.snapshot.channels)
        for name in islice((name for name in names if wanted in name.casefold()), _MOST):
            exact = len(wanted) / max(len(name), 1)
            yield Hit(
                0.5 + exact / 2,
                f"Channel {clean(name)}".replace("[", "\\["),
                lambda name=name: main.open_channel(name),
                text=f"Channel {clean(name)}",
                help="Its page",
            )

    @property
    def _main(self) -> MainScreen | None:
        """The main screen that the palette was opened over, or below that screen."""
        stack: list[Screen[Any]] = self.app.screen_stack  # pyright: ignore[reportUnknownMemberType]
        over = isinstance(self.screen, MainScreen | DetailScreen)
        return next((screen for screen in stack if over and isinstance(screen, MainScreen)), None)
