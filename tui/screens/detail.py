"""What all further screens have in common: the main screen's lines on top, a body, the keys that work, a way back.

A further screen gives itself a `NAME`, a `ABOUT`, a `body()` and a `show()`; the rest is optional. It keeps a snapshot
only until the next one, and only its host, the main screen, changes the view.
"""

import re
from abc import abstractmethod
from collections.abc import Sequence
from datetime import tzinfo
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import Resize, ScreenResume
from textual.screen import Screen
from textual.widget import Widget

from ...engine.snapshot import Snapshot
from ...engine.text import formatting as f
from ..widgets.bindings import bindings
from ..widgets.lines import Heading, KeyLine, Prompt, Rule, TopLines
from ..widgets.rows import Sheet
from ..words.keys import LINKS, LISTS, Hint, Place, hint
from ..words.lists import HOW_TO_FILTER, Chosen, TableRecords, pattern_of
from ..words.presenter import takes_changes
from ..words.preview import Preview
from ..words.recent import Recent
from ..words.shown import apply_words
from ..words.spans import Span, Top
from .host import Help, ScreenHost, Seen, app_of, bars_of, has_widgets
from .preferences import allowed


class DetailScreen(Screen[None]):
    """A further screen; Esc leads back to where it was opened."""

    NAME: ClassVar[str]
    """In the trail and in the help: `Windows`."""
    PLACE: ClassVar[Place]
    """Where its own keys are in the table of keys."""
    ABOUT: ClassVar[Help] = Help()
    BINDINGS: ClassVar[list[BindingType]] = bindings("detail")

    def __init_subclass__(cls, **more: Any) -> None:
        """Give Enter and Esc to an open preview, even if the screen uses these keys itself."""
        own = [binding for binding in cls.__dict__.get("BINDINGS", ()) if isinstance(binding, Binding)]
        taken = {key for binding in own for key in binding.key.split(",")}
        firsts = [b for b in DetailScreen.BINDINGS if isinstance(b, Binding) and b.priority and b.key in taken]
        cls.BINDINGS = [*firsts, *own]  # pyright: ignore[reportConstantRedefinition]
        super().__init_subclass__(**more)

    def __init__(self, host: ScreenHost) -> None:
        super().__init__()
        self.host = host
        self._seen = host.seen
        self._pattern: re.Pattern[str] | None = None
        self._focused_before: Widget | None = None

    # Provided by each further screen

    @abstractmethod
    def body(self) -> ComposeResult:
        """The widgets between the rules, from top to bottom."""

    @abstractmethod
    def show(self, snapshot: Snapshot) -> None:
        """Draw `snapshot`; also called again with the same one when the zone or the preview changed."""

    def show_history(self, recent: Recent) -> None:
        """Draw the history; called before `show` with each snapshot."""

    def keys(self, snapshot: Snapshot) -> Sequence[Hint]:
        """The screen's own keys that have an effect now, for the footer."""
        return ()

    def heading(self, snapshot: Snapshot) -> Sequence[Span]:
        """The text after the trail in the upper rule."""
        return ()

    def legend(self, snapshot: Snapshot) -> Sequence[Span]:
        """The text at the right end of the upper rule."""
        return ()

    def commands(self) -> list[tuple[str, str, str]]:
        """The screen's commands in the palette: title, help, action."""
        others = [(link.name, link.about, f"detail('{link.name}')") for link in LINKS if link.name != self.NAME]
        return [("Back", "To where this screen was opened", "back"), *others]

    def records(self) -> TableRecords | None:
        """The screen's table, to be saved; None if it has none."""
        return None

    def name_of(self, key: str) -> str:
        """The name of the row with a key, to be copied."""
        return key

    @property
    def crumb(self) -> str:
        """The screen's name in the trail."""
        return self.NAME

    # Requests to the host

    @property
    def seen(self) -> Seen:
        """The present content."""
        return self._seen

    @property
    def zone(self) -> tzinfo | None:
        """The zone of the times: UTC, or None for the local one."""
        return self._seen.view.zone

    @property
    def preview(self) -> Preview | None:
        """The previewed setting."""
        return self._seen.preview

    def repaint(self) -> None:
        """Draw everything again: the screen itself has changed."""
        self.show(self._seen.snapshot)
        self._paint_frame()

    # The machinery

    def compose(self) -> ComposeResult:
        yield TopLines()
        yield Rule("┌┐", id="top")
        with Vertical(id="body"):
            yield from self.body()
        yield Rule("└┘", id="bottom")
        yield from bars_of(self)
        yield KeyLine(id="keys")
        if self.PLACE in LISTS:
            yield Prompt(id="prompt")

    def on_mount(self) -> None:
        self.take(self.host.seen)

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self._paint_frame)

    def on_screen_resume(self, event: ScreenResume) -> None:
        if has_widgets(self):
            self.take(self.host.seen)

    def take(self, seen: Seen) -> None:
        """Show `seen`."""
        if not has_widgets(self):
            return
        self._seen = seen
        self.show_history(seen.recent)
        self.show(seen.snapshot)
        self._paint_frame()

    def take_top(self, top: Top) -> None:
        """Show other lines on top, which change also without a new snapshot."""
        if has_widgets(self):
            self.query_one(TopLines).show(top)

    def _paint_frame(self) -> None:
        if not has_widgets(self):
            return
        seen = self._seen
        self.take_top(seen.top)
        title = [*self._trail(), *self.heading(seen.snapshot), *self._filter_words()]
        self.query_one("#top", Rule).show([Heading(0, title, self.legend(seen.snapshot))], {})
        self.query_one("#bottom", Rule).show([], {})
        self.query_one("#keys", KeyLine).show(self._all_keys())

    def _trail(self) -> list[Span]:
        stack = [screen for screen in app_of(self).screen_stack if isinstance(screen, DetailScreen)]
        above = stack[: stack.index(self)] if self in stack else stack
        names = ["main", *(screen.crumb for screen in above)]
        return [(" › ".join(names) + " › ", "dim"), (self.crumb, "title")]

    def _all_keys(self) -> Sequence[Hint]:
        snapshot, view, replay = self._seen.snapshot, self._seen.view, self._seen.replay
        freeze = hint("freeze", "resume" if view.frozen else None, 0 if view.frozen else 6)
        hints = [
            *self._tuning_keys(),
            *self.keys(snapshot),
            *([hint("filter", rank=8)] if self._pattern is None and self._lists else []),
            *([] if replay else [freeze]),
            hint("zone", "local" if view.zone else "UTC", 10),
            hint("help"),
            hint("quit", rank=7),
        ]
        return allowed(hints, self._seen.denied)

    def _tuning_keys(self) -> list[Hint]:
        preview, snapshot = self._seen.preview, self._seen.snapshot
        back = hint("back") if self._pattern is None else hint("back", "clear filter")
        out = [back if preview is None else hint("drop", "drop")]
        if preview is not None and takes_changes(snapshot, replay=self._seen.replay, gone=self._seen.lost is not None):
            out.insert(0, hint("apply", apply_words(snapshot, preview)))
        rank = 9 if preview is None else 1
        if snapshot.settings.tunable and snapshot.whatif:
            out.append(hint("lateness-longer", rank=rank))
        if snapshot.whatif_idle:
            out.append(hint("idle-longer", rank=rank + 1))
        return out

    # The filter, copying and saving

    @property
    def _lists(self) -> bool:
        """Whether there is a list to filter."""
        return self.PLACE in LISTS and bool(self.query_one(Sheet).shares[1])

    @property
    def filtered(self) -> bool:
        """Whether a filter is in force."""
        return self._pattern is not None

    def chosen(self) -> Chosen | None:
        """The row under the cursor."""
        for sheet in self.query(Sheet):
            if sheet.display and sheet.cursor is not None:
                return Chosen(f.clean(self.name_of(sheet.cursor)), sheet.line(sheet.cursor))
        return None

    def action_filter(self) -> None:
        """Ask for a filter."""
        prompt = self.query_one(Prompt)
        if not prompt.purpose:
            self._focused_before = self.focused
            self.query_one("#keys").display = False
            prompt.open("filter", "/", self._pattern.pattern if self._pattern else "", HOW_TO_FILTER)

    def on_prompt_typed(self, event: Prompt.Typed) -> None:
        error = self._filter_by(event.text)
        self.query_one(Prompt).say(error or HOW_TO_FILTER, error=error is not None)

    def on_prompt_done(self, event: Prompt.Done) -> None:
        if (error := self._filter_by(event.text)) is None:
            self._close_prompt()
        else:
            self.query_one(Prompt).say(error, error=True)

    def _close_prompt(self) -> None:
        self.query_one(Prompt).close()
        self.query_one("#keys").display = True
        self.set_focus(self._focused_before)

    def _filter_by(self, text: str) -> str | None:
        """Filter by the typed text; for a wrong expression nothing changes, and the problem is returned in one line."""
        try:
            self._pattern = pattern_of(text)
        except ValueError as error:
            return str(error)
        self.query_one(Sheet).filter(self._pattern)
        self.repaint()
        return None

    def _filter_words(self) -> list[Span]:
        if self._pattern is None:
            return []
        left, all_ = self.query_one(Sheet).shares
        return [(" ─ ", "frame"), (f"/{f.cut(f.clean(self._pattern.pattern), 20)}", "accent"),
                (f"  {left:,} of {all_:,}", "dim")]  # fmt: skip

    def action_back(self) -> None:
        """Leave the prompt, the filter or the screen: one step."""
        if any(prompt.purpose for prompt in self.query(Prompt)):
            self._close_prompt()
            self._filter_by("")
        elif self._pattern is not None:
            self._filter_by("")
        else:
            self.leave()

    def leave(self) -> None:
        """Return to where it was opened."""
        self.dismiss(None)

    async def on_key_line_pressed(self, event: KeyLine.Pressed) -> None:
        await self.run_action(event.action)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("apply", "drop"):
            return self._seen.preview is not None
        if action == "detail":
            return parameters[0] != self.NAME
        return action != "freeze" or not self._seen.replay

    def action_detail(self, name: str) -> None:
        """Open another further screen."""
        self.host.action_detail(name)

    def action_lateness(self, direction: int) -> None:
        """Preview another lateness."""
        self.host.action_lateness(direction)

    def action_idle(self, direction: int) -> None:
        """Preview another idle timeout."""
        self.host.action_idle(direction)

    def action_fix(self) -> None:
        """Preview the fix that the verdict names."""
        self.host.action_fix()

    def action_apply(self) -> None:
        """Apply the preview."""
        self.host.action_apply()

    def action_undo(self) -> None:
        """Undo the last change of a setting."""
        self.host.action_undo()

    def action_drop(self) -> None:
        """Drop the preview."""
        self.host.want(None)

    def action_freeze(self) -> None:
        """Freeze the picture, or resume."""
        self.host.action_freeze()

    def action_zone(self) -> None:
        """UTC or local time."""
        self.host.action_zone()
