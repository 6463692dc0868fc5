"""What the main screen and the further ones share: the target that is shown, and the keys that change its view."""

from abc import abstractmethod
from collections.abc import Iterable
from datetime import UTC
from importlib import import_module
from typing import Any

from textual.widget import Widget

from ...engine.feed.messages import Change
from ...engine.text.formatting import parse_duration
from ...engine.verdict.preview import ProposedSetting, line_in_job
from ..words import preview as what_if
from ..words.attached import restart_words
from ..words.keys import SCREENS, hint
from ..words.lists import HOW_TO_PREVIEW
from ..words.presenter import presenter_of
from ..words.shown import Shown
from .base_app import BaseApp, PromptScreen, app_of
from .preferences import CHANGES_ENGINE, READ_ONLY

FURTHER = {link.name: link.screen for link in SCREENS}
"""The places of the further screens by name."""


def loaded(place: str) -> type[Any]:
    """The `DetailScreen` class `module:name` of this package: the first paint needs no other screen."""
    module, _, attribute = place.partition(":")
    return getattr(import_module(f".{module}", __package__), attribute)


class TargetScreen(PromptScreen):
    """A screen on one target; all of them have the same `Shown`, and each paints its part of it."""

    def __init__(self, shown: Shown, denied: frozenset[str]) -> None:
        super().__init__()
        self.shown = shown
        self._denied = denied

    @abstractmethod
    def paint(self) -> None:
        """Paint again: the snapshot, the view or the preview has changed."""

    @abstractmethod
    def commands(self) -> list[tuple[str, str, str]]:
        """What the command palette offers here: title, help, action."""

    def adopt(self) -> None:
        """Show the newest snapshot."""
        self.shown.adopt()
        self.paint()

    @property
    def denied(self) -> frozenset[str]:
        """The actions that this screen does not offer; for an attached query `apply` only copies a line."""
        return self._denied - CHANGES_ENGINE if self.shown.snapshot.is_attached else self._denied

    def bars(self) -> Iterable[Widget]:
        """The app's own widgets above the footer."""
        app = app_of(self)
        return app.bars() if isinstance(app, BaseApp) else ()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("apply", "drop"):
            return self.shown.preview is not None
        return action != "freeze" or not self.shown.is_replay

    # Other screens

    def action_detail(self, name: str) -> None:
        """Open a further screen, or return to it if it is open."""
        if name in FURTHER:
            self._open(loaded(FURTHER[name]))

    def open_channel(self, channel: str) -> None:
        """Open a channel's page."""
        self.shown.look(selected=channel)
        self._open(loaded("channel:ChannelScreen"))

    def open_window(self, key: str) -> None:
        """Open a window's page; `key` as of `windows.key_of`."""
        app_of(self).push_screen(loaded("windows:WindowScreen")(self.shown, self._denied, key))

    def _open(self, kind: type[Any]) -> None:
        app = app_of(self)
        if not any(isinstance(screen, kind) for screen in app.screen_stack):
            app.push_screen(kind(self.shown, self._denied))
            return
        while not isinstance(app.screen, kind):
            app.pop_screen()
        screen = app.screen
        assert isinstance(screen, TargetScreen)
        screen.paint()

    # The view

    def action_freeze(self) -> None:
        """Freeze the picture, or resume with the newest."""
        self.shown.look(frozen=not self.shown.view.frozen)
        self.paint() if self.shown.view.frozen else self.adopt()

    def action_zone(self) -> None:
        """UTC or local time."""
        self.shown.look(zone=None if self.shown.view.zone else UTC)
        self.paint()

    # The preview of a setting

    def want(self, proposed: ProposedSetting | None) -> None:
        """Preview a setting, or none."""
        self.shown.wants(proposed)
        self.paint()

    def action_lateness(self, direction: int) -> None:
        """Move the previewed lateness to the next value for which the answer is exact."""
        snapshot, proposed = self.shown.snapshot, self.shown.view.proposed
        if not self._tunable():
            return
        here = proposed.value_ms if proposed and not proposed.idle else snapshot.settings.lateness_ms
        there = what_if.step_lateness(snapshot, here or 0, direction)
        if there is not None:
            self.want(ProposedSetting(False, there))
        elif not snapshot.whatif:
            self.tell(presenter_of(snapshot).no_steps())

    def action_idle(self, direction: int) -> None:
        """Move the previewed idle timeout along its ladder."""
        snapshot, proposed = self.shown.snapshot, self.shown.view.proposed
        here = proposed.value_ms if proposed and proposed.idle else snapshot.settings.idle_after_ms
        known, there = what_if.step_idle(snapshot, here, direction)
        if known:
            self.want(ProposedSetting(True, there))
        elif not snapshot.whatif_idle:
            self.tell(presenter_of(snapshot).no_steps())

    def action_fix(self) -> None:
        """Preview the setting that the verdict's line names."""
        if self.shown.offer is None:
            self.tell(f"No setting fixes this: the doctor ({hint('doctor').keys}) says what does")
        else:
            self.want(self.shown.offer.proposed)

    def action_type_lateness(self) -> None:
        """Ask for a lateness."""
        if self._tunable():
            how = HOW_TO_PREVIEW if self.shown.is_replay else presenter_of(self.shown.snapshot).how_to_type
            self.ask("lateness", "lateness", "", how)

    def take_lateness(self, text: str, *, done: bool) -> str | None:
        """Preview the typed lateness, as `take_typed`."""
        try:
            lateness_ms = parse_duration(text)
        except ValueError as error:
            if done:
                return str(error)
            self.want(None)
        else:
            if not done:
                self.want(ProposedSetting(False, lateness_ms))
        return None

    def action_apply(self) -> None:
        """Send the previewed setting to the engine; for an attached query, copy the line to change in its job."""
        snapshot, proposed = self.shown.snapshot, self.shown.view.proposed
        if proposed is None:
            return
        if self.shown.is_replay and self.asked:  # Enter ends the typing: the preview stays
            self.close_prompt()
            return
        if "apply" in self.denied:
            self.tell(READ_ONLY)
            return
        if (line := line_in_job(snapshot, proposed.value_ms, idle=proposed.idle)) is not None:
            app_of(self).copy_to_clipboard(line)
            then = restart_words(snapshot, proposed.value_ms)
            self.notify(f"Change this line in the job (copied)\n{line}{then}", markup=False, timeout=15)
        else:
            self._change(proposed)
        self.action_drop()

    def action_undo(self) -> None:
        """Undo the last change that this screen made."""
        applied = self.shown.applied
        if "undo" in self.denied:
            self.tell(READ_ONLY)
        elif applied is None or not applied.in_force(self.shown.snapshot):
            self.tell("Nothing to undo: this screen has changed no setting that is still in force")
        else:
            self._change(applied.before, undoes=not applied.undoes)

    def action_drop(self) -> None:
        """Drop the preview."""
        if self.asked == "lateness":
            self.close_prompt()
        self.want(None)

    def tell(self, text: str) -> None:
        """Show a notice."""
        self.notify(text, markup=False, timeout=5)

    def _change(self, proposed: ProposedSetting, *, undoes: bool = False) -> None:
        """Have the engine change a setting, and store the old value."""
        self.shown.apply(proposed, undoes=undoes)
        if proposed.idle:
            change = Change(id=0, idle_after_ms=proposed.value_ms, who="screen")
        else:
            change = Change(id=0, lateness_ms=proposed.value_ms or 0, who="screen")
        app = app_of(self)
        if isinstance(app, BaseApp):
            app.call_later(app.send_change, change, proposed.words())

    def _tunable(self) -> bool:
        why = presenter_of(self.shown.snapshot).untunable()
        if why is not None:
            self.tell(why)
        return why is None
