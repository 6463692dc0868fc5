"""The screens on one target: what the main screen and the further ones share, and the frame of the further ones.

A new further one is a class with a `NAME`, a text on how to read it, and its `items` (a list) or its `body` and `show`;
the rest is optional. `SCREENS` in the table of keys says which key opens it.
"""

from abc import abstractmethod
from collections.abc import Sequence
from datetime import UTC, tzinfo
from importlib import import_module
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import Resize, ScreenResume

from ...engine.feed.messages import Change
from ...engine.snapshot import Snapshot
from ...engine.text import formatting as f
from ...engine.text.job_lines import line_in_job
from ...engine.verdict.preview import ProposedSetting
from ..widgets.canvas import Picked, bindings
from ..widgets.lines import Heading, HeadingLine, Headings, KeyLine, Prompt, TopLines
from ..widgets.rows import Item, Sheet, SortedBy
from ..words import preview as what_if
from ..words.keys import LISTS, SCREENS, Hint, hint
from ..words.kinds import presenter_of
from ..words.late_records import About
from ..words.main_screen import Shown, detail_hints
from ..words.preview import Preview
from ..words.recent import Recent
from ..words.spans import Span, Top
from ..words.texts import HOW_TO_PREVIEW
from .base_app import CHANGES_ENGINE, READ_ONLY, PromptScreen, allowed, app_of, has_widgets

FURTHER = {link.name: link.screen for link in SCREENS}
"""The places of the further screens by name."""
FRAME_CELLS = 4
"""Cells left and right of the text that a further screen's frame takes."""


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

    def adopt(self) -> None:
        """Show the newest snapshot."""
        self.shown.adopt()
        self.paint()

    @property
    def denied(self) -> frozenset[str]:
        """The actions that this screen does not offer; where settings cannot be changed `apply` only copies a line."""
        return self._denied if self.shown.snapshot.target.can_apply else self._denied - CHANGES_ENGINE

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("apply", "drop"):
            return self.shown.preview is not None
        return action != "freeze" or not self.shown.is_replay

    # Other screens

    def action_detail(self, name: str) -> None:
        """Show a further screen instead of those that are open, or return to it."""
        app, kind = app_of(self), loaded(FURTHER[name])
        while isinstance(app.screen, DetailScreen) and not isinstance(app.screen, kind):
            app.pop_screen()
        self._open(kind)

    def open_further(self, name: str) -> None:
        """Open a further screen over this one: Esc returns here."""
        self._open(loaded(FURTHER[name]))

    def open_channel(self, channel: str) -> None:
        """Open a channel's page."""
        self.shown.look(selected=channel)
        self._open(loaded("channels:ChannelScreen"))

    def open_window(self, key: str) -> None:
        """Open a window's page; `key` as of `key_of`."""
        app_of(self).push_screen(loaded("windows:WindowScreen")(self.shown, self._denied, key))

    def _open(self, kind: type[Any]) -> None:
        app, why = app_of(self), presenter_of(self.shown.snapshot).not_here(kind.NAME)
        if why is not None:
            self.report(why)
            return
        if not any(isinstance(screen, kind) for screen in app.screen_stack):
            app.push_screen(kind(self.shown, self._denied))
            return
        while not isinstance(app.screen, kind):
            app.pop_screen()
        self.paint()  # it may be this one, for another channel

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
        if not self.tunable():
            return
        here = proposed.value_ms if proposed and not proposed.idle else snapshot.settings.lateness_ms
        there = what_if.step_lateness(snapshot, here or 0, direction)
        if there is not None:
            self.want(ProposedSetting(False, there))
        elif not snapshot.whatif:
            self.report(presenter_of(snapshot).no("what-if"))

    def action_type_lateness(self) -> None:
        """Ask for a lateness."""
        if self.tunable():
            how = HOW_TO_PREVIEW if self.shown.is_replay else presenter_of(self.shown.snapshot).how_to_type
            self.ask("lateness", "lateness", "", how)

    def take_typed(self, purpose: str, text: str, *, done: bool) -> str | None:
        """Preview the typed lateness, or filter; what is wrong changes nothing."""
        if purpose != "lateness":
            return super().take_typed(purpose, text, done=done)
        try:
            lateness_ms = f.parse_duration(text)
        except ValueError as error:
            if done:
                return str(error)
            self.want(None)
        else:
            if not done:
                self.want(ProposedSetting(False, lateness_ms))
        return None

    def action_idle(self, direction: int) -> None:
        """Move the previewed idle timeout along its ladder."""
        snapshot, proposed = self.shown.snapshot, self.shown.view.proposed
        here = proposed.value_ms if proposed and proposed.idle else snapshot.settings.idle_after_ms
        known, there = what_if.step_idle(snapshot, here, direction)
        if known:
            self.want(ProposedSetting(True, there))
        elif not snapshot.whatif_idle:
            self.report(presenter_of(snapshot).no("what-if"))

    def action_fix(self) -> None:
        """Preview the setting that the verdict's line names."""
        if self.shown.offer is None:
            self.report(f"No setting fixes this: the doctor ({hint('doctor').keys}) says what does")
        else:
            self.want(self.shown.offer.proposed)

    def action_apply(self) -> None:
        """Send the previewed setting to the engine; for an attached query, copy the line to change in its job."""
        snapshot, proposed = self.shown.snapshot, self.shown.view.proposed
        if proposed is None:
            return
        if self.shown.is_replay and self.asked:  # Enter ends the typing: the preview stays
            self.close_prompt()
            return
        if "apply" in self.denied:
            self.report(READ_ONLY)
            return
        self.action_drop()
        if (line := line_in_job(snapshot, proposed.value_ms, idle=proposed.idle)) is not None:
            app_of(self).copy_to_clipboard(line)
            self.shown.for_job = (line, presenter_of(snapshot).after_restart(proposed.value_ms))
            self.paint()
        else:
            self._change(proposed)

    def action_undo(self) -> None:
        """Undo the last change that this screen made."""
        applied = self.shown.applied
        if "undo" in self.denied:
            self.report(READ_ONLY)
        elif applied is None or not applied.in_force(self.shown.snapshot):
            self.report("Nothing to undo: this screen has changed no setting that is still in force")
        else:
            self._change(applied.before, undoes=not applied.undoes)

    def action_drop(self) -> None:
        """Drop the preview."""
        if self.asked == "lateness":
            self.close_prompt()
        self.want(None)

    def drop_result(self) -> bool:
        """Drop what the mouse has selected, else the line about the last change; whether there was one."""
        if self.selections:
            self.clear_selection()
            return True
        if shown := self.shown.hide_result():
            self.paint()
        return shown

    def report(self, text: str) -> None:
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
        app.call_later(app.send_change, change, proposed.words())

    def tunable(self) -> bool:
        """Whether the lateness can be changed; a notice says why not."""
        if (why := presenter_of(self.shown.snapshot).untunable()) is not None:
            self.report(why)
        return why is None


class DetailScreen(TargetScreen):
    """A further screen; Esc leads back to where Enter opened it, else to the main screen."""

    NAME: ClassVar[str]
    """In the trail, in the help, and as the place of its own keys in the table of keys: `Windows`."""
    READING: ClassVar[str]
    """How to read it, for its help."""
    OPEN: ClassVar[str] = ""
    """The key, by its name in the table of keys, that opens the row under the cursor."""
    BINDINGS: ClassVar[list[BindingType]] = bindings("detail")
    AUTO_FOCUS = "Rows"
    hides_records = True

    def __init_subclass__(cls, **more: Any) -> None:
        """Bind its own keys; Enter and Esc belong to an open preview, even if the screen uses them itself."""
        own = [binding for binding in bindings(cls.NAME) if isinstance(binding, Binding)]
        taken = {key for binding in own for key in binding.key.split(",")}
        firsts = [b for b in DetailScreen.BINDINGS if isinstance(b, Binding) and b.priority and b.key in taken]
        cls.BINDINGS = [*firsts, *own]  # pyright: ignore[reportConstantRedefinition]
        super().__init_subclass__(**more)

    # Provided by each further screen

    def body(self) -> ComposeResult:
        """The widgets between the rules, from top to bottom; a list, which has the screen's name as its id."""
        yield Sheet(id=self.NAME.lower().replace(" ", "-"))

    def items(self, snapshot: Snapshot) -> Sequence[Item]:
        """The lines of the list."""
        return ()

    def update(self, snapshot: Snapshot) -> None:
        """Compute what is too expensive to compute for every key; called before `show` when the content has changed."""

    def show(self, snapshot: Snapshot) -> None:
        """Draw `snapshot`; also called when the zone, the preview or the screen itself has changed."""
        self.sheet.show(self.items(snapshot))

    def moved(self) -> None:
        """The cursor is on another row of the list."""
        self._paint_rules()

    def keys(self, snapshot: Snapshot) -> Sequence[Hint]:
        """The screen's own keys that have an effect now, for the footer."""
        item = self.sheet.item if self.OPEN and self.preview is None else None
        return () if item is None or item.opens is None else (hint(self.OPEN, item.word),)

    def heading(self, snapshot: Snapshot) -> Sequence[Span]:
        """The text after the trail in the upper rule."""
        return ()

    def legend(self, snapshot: Snapshot) -> Sequence[Span]:
        """The text at the right end of the upper rule."""
        return ()

    @property
    def crumb(self) -> str:
        """The screen's name in the trail."""
        return self.NAME

    def leave(self) -> None:
        """Return to where it was opened."""
        self.dismiss(None)

    # What it can use

    @property
    def snapshot(self) -> Snapshot:
        """The shown snapshot."""
        return self.shown.snapshot

    @property
    def recent(self) -> Recent:
        """What came before it."""
        return self.shown.recent

    @property
    def zone(self) -> tzinfo | None:
        """The zone of the times: UTC, or None for the local one."""
        return self.shown.view.zone

    @property
    def preview(self) -> Preview | None:
        """The previewed setting."""
        return self.shown.preview

    @property
    def sheet(self) -> Sheet:
        """The list."""
        return self.query_one(Sheet)

    def open_late_records(self, about: About) -> None:
        """Open the last late records, of a channel or a window."""
        app_of(self).push_screen(loaded("lateness:LateRecordsScreen")(self.shown, self._denied, about))

    def repaint(self) -> None:
        """Draw everything again: the screen itself has changed."""
        self.show(self.snapshot)
        self.paint_top(self.shown.top)
        self._paint_rules()

    # The frame

    def compose(self) -> ComposeResult:
        yield TopLines()
        yield HeadingLine("┌┐", id="top")
        with Vertical(id="body"):
            yield from self.body()
        yield HeadingLine("└┘", id="bottom")
        yield from app_of(self).bars()
        yield KeyLine(id="keys")
        yield Prompt(id="prompt")

    def on_mount(self) -> None:
        self.paint()

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self.paint)

    def on_screen_resume(self, event: ScreenResume) -> None:
        self.paint()

    def paint(self) -> None:
        if has_widgets(self):
            self.shown.update_preview()
            self.update(self.snapshot)
            self.repaint()

    def paint_top(self, top: Top) -> None:
        """Show other lines on top, which change also without a new snapshot."""
        if has_widgets(self):
            self.query_one(TopLines).show(top)

    def _paint_rules(self) -> None:
        snapshot, pattern = self.snapshot, self.pattern
        stack = [screen for screen in app_of(self).screen_stack if isinstance(screen, DetailScreen)]
        above = stack[: stack.index(self)] if self in stack else stack
        trail = " › ".join(["main", *(screen.crumb for screen in above), ""])
        title = [(trail, "dim"), (self.crumb, "title"), *self.heading(snapshot)]
        title += [] if pattern is None else pattern.spans(*self.sheet.shares)
        self.query_one("#top", HeadingLine).show(Headings([Heading(0, title, self.legend(snapshot))]))
        self.query_one("#bottom", HeadingLine).show(Headings())
        can_filter = self.NAME in LISTS and pattern is None and bool(self.sheet.shares[1])
        own = [*self.keys(snapshot), *([hint("filter", rank=8)] if can_filter else [])]
        keys = detail_hints(self.shown, own, filtered=pattern is not None)
        self.query_one("#keys", KeyLine).show(allowed(keys, self.denied))

    def on_picked(self, event: Picked) -> None:
        if isinstance(event.control, Sheet) and not event.again and has_widgets(self):
            self.moved()

    def on_sorted_by(self, event: SortedBy) -> None:
        self.repaint()

    # The filter

    def action_open(self) -> None:
        """Open the row under the cursor."""
        if (item := self.sheet.item) is not None and item.opens is not None:
            item.opens()

    def use_pattern(self) -> None:
        self.sheet.filter(self.pattern)
        self.repaint()

    def action_back(self) -> None:
        """Leave the prompt, the filter or the screen: one step."""
        if asked := self.asked:
            self.close_prompt()
        if asked or self.pattern:
            self.take_typed("filter", "", done=True)
        elif not self.drop_result():
            self.leave()
