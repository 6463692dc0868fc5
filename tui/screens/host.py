"""The interface between a further screen and its host, the main screen."""

from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct
from textual.app import App
from textual.screen import Screen
from textual.widget import Widget

from ...engine.snapshot import Snapshot
from ...engine.verdict.preview import ProposedSetting
from ..words.channels import View
from ..words.lists import Chosen, TableRecords
from ..words.preview import Preview
from ..words.recent import Recent
from ..words.spans import Top


class Help(Struct, frozen=True):
    """How to read a screen, for its help."""

    reading: str = ""


class Seen(Struct, frozen=True):
    """The present content: the snapshot, the view of it, and the lines on top."""

    snapshot: Snapshot
    recent: Recent
    view: View
    preview: Preview | None
    top: Top
    replay: bool
    """Whether it is a recording: nothing can be applied or frozen."""
    lost: str | None = None
    """Why no further snapshot will come."""
    silent_ms: int | None = None
    """Time since the last snapshot; None: a recording."""
    denied: frozenset[str] = frozenset()
    """The actions that this screen does not offer."""


class ScreenHost(Protocol):
    """The main screen, as further screens use it."""

    @property
    def seen(self) -> Seen:
        """The present content."""
        ...

    def want(self, proposed: ProposedSetting | None) -> None:
        """Preview a setting, or none."""
        ...

    def action_detail(self, name: str) -> None:
        """Open a further screen, or go back to it."""
        ...

    def open_channel(self, channel: str) -> None:
        """Open a channel's page."""
        ...

    def action_lateness(self, direction: int) -> None:
        """Preview a longer (1) or shorter (-1) lateness."""
        ...

    def action_idle(self, direction: int) -> None:
        """Preview a longer (1) or shorter (-1) idle timeout."""
        ...

    def action_fix(self) -> None:
        """Preview the fix that the verdict names."""
        ...

    def action_apply(self) -> None:
        """Apply the preview."""
        ...

    def action_undo(self) -> None:
        """Undo the last change of a setting."""
        ...

    def action_freeze(self) -> None:
        """Freeze the picture, or resume with the newest."""
        ...

    def action_zone(self) -> None:
        """UTC or local time."""
        ...


def app_of(screen: Screen[None]) -> App[Any]:
    """The app that a screen belongs to."""
    return screen.app  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def has_widgets(screen: Screen[None]) -> bool:
    """Whether its widgets can be painted: not before it is mounted, nor when the app ends."""
    return screen.is_mounted and screen.is_attached and app_of(screen).is_running


def bars_of(screen: Screen[None]) -> Iterable[Widget]:
    """The app's widgets above the footer of each screen: a recording's timeline."""
    app = app_of(screen)
    return app.bars() if isinstance(app, HasBars) else ()


@runtime_checkable
class HasRows(Protocol):
    """A screen with rows to copy and to save."""

    def chosen(self) -> Chosen | None:
        """The selected row."""
        ...

    def records(self) -> TableRecords | None:
        """The screen's table, None if it has none."""
        ...


@runtime_checkable
class HasBars(Protocol):
    """An app with widgets of its own on every screen."""

    def bars(self) -> Iterable[Widget]:
        """New widgets for a screen."""
        ...
