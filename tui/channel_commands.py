"""The command palette's way to a channel: type a part of its name."""

from heapq import nsmallest
from typing import TYPE_CHECKING, Any

from textual.command import Hit, Hits, Provider
from textual.screen import Screen

from .present.formatting import clean

if TYPE_CHECKING:  # imported by the first search: the first paint needs neither
    from .screens.main import MainScreen

_MOST = 50
_WHOLE = 1_000.0
"""The score of a channel whose whole name was typed: above all commands that have the same letters."""


class ChannelCommands(Provider):
    """Offers the page of each channel whose name contains what was typed, also as `Channel NAME`; at most `_MOST`."""

    async def search(self, query: str) -> Hits:
        main, wanted = self._main, query.casefold()
        if main is None or not wanted:
            return
        names = (view.channel for view in main.seen.snapshot.channels)
        parts = (wanted, wanted.removeprefix("channel "))  # as the label has it
        found = [name for name in names if any(part in name.casefold() for part in parts)]
        matcher = self.matcher(query)
        for name in nsmallest(_MOST, found, key=len):  # the fewer other letters, the nearer
            whole = name.casefold() in parts
            yield Hit(
                _WHOLE if whole else matcher.match(_label(name)),
                _label(name).replace("[", "\\["),
                lambda name=name: main.open_channel(name),
                text=_label(name),
                help="Its page",
            )

    @property
    def _main(self) -> "MainScreen | None":
        """The main screen that the palette was opened over, or below that screen."""
        from .screens.detail import DetailScreen
        from .screens.main import MainScreen

        stack: list[Screen[Any]] = self.app.screen_stack  # pyright: ignore[reportUnknownMemberType]
        over = isinstance(self.screen, MainScreen | DetailScreen)
        return next((screen for screen in stack if over and isinstance(screen, MainScreen)), None)


def _label(name: str) -> str:
    """What the palette shows of a channel."""
    return f"Channel {clean(name)}"
