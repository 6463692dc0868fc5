"""The keys of the main screen that change something: a preview, a setting of the engine, the filter; its prompt."""

from abc import abstractmethod

from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget

from ...engine.feed.messages import Change
from ...engine.text import formatting as f
from ...engine.verdict.job_line import line_in_job
from ...engine.verdict.preview import ProposedSetting
from ..widgets.channels import ChannelTable
from ..widgets.lines import Prompt
from ..widgets.windows import WindowTable
from ..words import preview as what_if
from ..words.attached import restart_words
from ..words.keys import hint
from ..words.lists import HOW_TO_FILTER, HOW_TO_PREVIEW, pattern_of
from ..words.presenter import presenter_of
from ..words.shown import Shown
from .host import app_of
from .preferences import CHANGES_ENGINE, READ_ONLY

_FILTERS = {"filter": "pattern", "filter windows": "windows_pattern"}
"""The purposes of a filter's prompt, with the field of the view that each one sets."""


class TuningScreen(Screen[None]):
    """Posts `ApplyWanted` when a preview is to become the engine's setting."""

    class ApplyWanted(Message, namespace="main_screen"):
        """A preview is to be applied; `words` names it, the change's id is still 0."""

        def __init__(self, change: Change, words: str) -> None:
            self.change, self.words = change, words
            super().__init__()

    def __init__(self, shown: Shown, denied: frozenset[str]) -> None:
        super().__init__()
        self._shown = shown
        self._denied = denied
        self._focused_before: Widget | None = None

    @abstractmethod
    def _arrange(self) -> None:
        """Sort and paint again: another part of the snapshot is shown."""

    @abstractmethod
    def _paint(self) -> None:
        """Paint again: the view has changed."""

    @property
    def _cannot(self) -> frozenset[str]:
        """The actions that this screen does not offer; for an attached query `apply` only copies a line."""
        return self._denied - CHANGES_ENGINE if self._shown.snapshot.is_attached else self._denied

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("apply", "drop"):
            return self._shown.preview is not None
        return action != "freeze" or not self._shown.is_replay

    def action_lateness(self, direction: int) -> None:
        """Move the previewed lateness to the next value for which the answer is exact."""
        snapshot, proposed = self._shown.snapshot, self._shown.view.proposed
        if not self._tunable():
            return
        here = proposed.value_ms if proposed and not proposed.idle else snapshot.settings.lateness_ms
        there = what_if.step_lateness(snapshot, here or 0, direction)
        if there is not None:
            self.want(ProposedSetting(False, there))
        elif not snapshot.whatif:
            self._say(presenter_of(snapshot).no_steps())

    def action_idle(self, direction: int) -> None:
        """Move the previewed idle timeout along its ladder."""
        snapshot, proposed = self._shown.snapshot, self._shown.view.proposed
        here = proposed.value_ms if proposed and proposed.idle else snapshot.settings.idle_after_ms
        found, there = what_if.step_idle(snapshot, here, direction)
        if found:
            self.want(ProposedSetting(True, there))
        elif not snapshot.whatif_idle:
            self._say(presenter_of(snapshot).no_steps())

    def action_fix(self) -> None:
        """Preview the setting that the verdict's line names."""
        if self._shown.offer is None:
            self._say(f"No setting fixes this: the doctor ({hint('doctor').keys}) says what does")
        else:
            self.want(self._shown.offer.proposed)

    def action_type_lateness(self) -> None:
        """Ask for a lateness."""
        if self._tunable():
            self._ask("lateness", "lateness", "", self._how_to_type)

    @property
    def _how_to_type(self) -> str:
        return HOW_TO_PREVIEW if self._shown.is_replay else presenter_of(self._shown.snapshot).how_to_type

    def action_apply(self) -> None:
        """Send the previewed setting to the engine; for an attached query, copy the line to change in its job."""
        snapshot, proposed = self._shown.snapshot, self._shown.view.proposed
        if proposed is None:
            return
        if self._shown.is_replay and self.query_one(Prompt).purpose:  # Enter ends the typing: the preview stays
            self._close_prompt()
            return
        if "apply" in self._cannot:
            self._say(READ_ONLY)
            return
        if (line := line_in_job(snapshot, proposed.value_ms, idle=proposed.idle)) is not None:
            app_of(self).copy_to_clipboard(line)
            then = restart_words(snapshot, proposed.value_ms)
            self.notify(f"Change this line in the job (copied)\n{line}{then}", markup=False, timeout=15)
            self.action_drop()
            return
        self._change(proposed)
        self.action_drop()

    def _change(self, proposed: ProposedSetting, *, undoes: bool = False) -> None:
        """Have the engine change a setting, and store the old value."""
        self._shown.apply(proposed, undoes=undoes)
        if proposed.idle:
            change = Change(id=0, idle_after_ms=proposed.value_ms, who="screen")
        else:
            change = Change(id=0, lateness_ms=proposed.value_ms or 0, who="screen")
        self.post_message(self.ApplyWanted(change, proposed.words()))

    def action_undo(self) -> None:
        """Undo the last change that this screen made."""
        if "undo" in self._cannot:
            self._say(READ_ONLY)
        elif (applied := self._shown.applied) is None or not applied.in_force(self._shown.snapshot):
            self._say("Nothing to undo: this screen has changed no setting that is still in force")
        else:
            self._change(applied.before, undoes=not applied.undoes)

    def action_drop(self) -> None:
        """Drop the preview."""
        if self.query_one(Prompt).purpose == "lateness":
            self._close_prompt()
        self.want(None)

    def want(self, proposed: ProposedSetting | None) -> None:
        """Preview a setting, or none."""
        self._shown.wants(proposed)
        self._paint()

    def _tunable(self) -> bool:
        why = presenter_of(self._shown.snapshot).untunable()
        if why is not None:
            self._say(why)
        return why is None

    def _say(self, text: str) -> None:
        self.notify(text, markup=False, timeout=5)

    # The prompt

    def _ask(self, purpose: str, label: str, text: str, note: str) -> None:
        if not self.query_one(Prompt).purpose:
            self._focused_before = self.focused
        self.query_one("#keys").display = False
        self.query_one(Prompt).open(purpose, label, text, note)

    def _close_prompt(self) -> None:
        self.query_one(Prompt).close()
        self.query_one("#keys").display = True
        (self._focused_before or self.query_one(ChannelTable)).focus()

    def on_prompt_typed(self, event: Prompt.Typed) -> None:
        prompt = self.query_one(Prompt)
        if event.purpose in _FILTERS:
            if (error := self._filter_by(event.text, event.purpose)) is None:
                prompt.say(HOW_TO_FILTER)
            else:
                prompt.say(error, error=True)
            return
        try:
            self.want(ProposedSetting(False, f.parse_duration(event.text)))
        except ValueError:
            self.want(None)
        prompt.say(self._how_to_type)

    def on_prompt_done(self, event: Prompt.Done) -> None:
        prompt = self.query_one(Prompt)
        filters = event.purpose in _FILTERS
        error = self._filter_by(event.text, event.purpose) if filters else _wrong_duration(event.text)
        if error is None:
            self._close_prompt()
        else:
            prompt.say(error, error=True)

    def _filter_by(self, text: str, purpose: str) -> str | None:
        """Filter channels or windows by the typed text; for a wrong expression nothing changes, and the problem is
        returned.
        """
        try:
            pattern = pattern_of(text)
        except ValueError as error:
            return str(error)
        self._shown.look(**{_FILTERS[purpose]: pattern})
        self._arrange()
        return None

    def action_filter(self) -> None:
        """Ask for a filter of the table that has the focus."""
        on_windows = self.focused is self.query_one(WindowTable)
        view = self._shown.view
        pattern = view.windows_pattern if on_windows else view.pattern
        purpose = "filter windows" if on_windows else "filter"
        self._ask(purpose, "/", pattern.pattern if pattern else "", HOW_TO_FILTER)


def _wrong_duration(text: str) -> str | None:
    try:
        f.parse_duration(text)
    except ValueError as error:
        return str(error)
    return None
