"""The frame of the further screens: the main screen's lines on top, a body, the keys that work, a way back.

A new one is a file with a `NAME`, a text on how to read it, and its `items` (a list) or its `body` and `show`; the rest
is optional. `SCREENS` in the table of keys says which key opens it.
"""

from collections.abc import Sequence
from datetime import tzinfo
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import Resize, ScreenResume

from ...engine.snapshot import Snapshot
from ...engine.text import formatting as f
from ..widgets.canvas import Picked, bindings
from ..widgets.lines import Heading, Headings, KeyLine, Prompt, Rule, TopLines
from ..widgets.rows import Item, Sheet, SortedBy
from ..words.keys import LINKS, LISTS, Hint, hint
from ..words.late_records import About
from ..words.lists import Chosen
from ..words.presenter import takes_changes
from ..words.preview import Preview
from ..words.recent import Recent
from ..words.shown import apply_words
from ..words.spans import Span, Top
from .base_app import app_of, has_widgets
from .preferences import allowed
from .target_screen import TargetScreen, loaded


class DetailScreen(TargetScreen):
    """A further screen; Esc leads back to where it was opened."""

    NAME: ClassVar[str]
    """In the trail, in the help, and as the place of its own keys in the table of keys: `Windows`."""
    READING: ClassVar[str]
    """How to read it, for its help."""
    OPEN: ClassVar[str] = ""
    """The key, by its name in the table of keys, that opens the row under the cursor."""
    BINDINGS: ClassVar[list[BindingType]] = bindings("detail")

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

    @property
    def filtered(self) -> bool:
        """Whether a filter is in force."""
        return self.pattern is not None

    @property
    def hides_records(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.filtered

    def knows(self, channel: str | None) -> bool:
        """Whether there is such a channel."""
        return any(view.channel == channel for view in self.snapshot.channels)

    def open_known(self, channel: str) -> None:
        """Open a channel's page, if there is such a channel."""
        if self.knows(channel):
            self.open_channel(channel)

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
        yield Rule("┌┐", id="top")
        with Vertical(id="body"):
            yield from self.body()
        yield Rule("└┘", id="bottom")
        yield from self.bars()
        yield KeyLine(id="keys")
        if self.NAME in LISTS:
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
        snapshot = self.snapshot
        title = [*self._trail(), *self.heading(snapshot), *self._filter_words()]
        self.query_one("#top", Rule).show(Headings([Heading(0, title, self.legend(snapshot))]))
        self.query_one("#bottom", Rule).show(Headings())
        self.query_one("#keys", KeyLine).show(self._all_keys())

    def _trail(self) -> list[Span]:
        stack = [screen for screen in app_of(self).screen_stack if isinstance(screen, DetailScreen)]
        above = stack[: stack.index(self)] if self in stack else stack
        names = ["main", *(screen.crumb for screen in above)]
        return [(" › ".join(names) + " › ", "dim"), (self.crumb, "title")]

    def _all_keys(self) -> Sequence[Hint]:
        view, replay = self.shown.view, self.shown.is_replay
        freeze = hint("freeze", "resume" if view.frozen else None, 0 if view.frozen else 6)
        can_filter = self.NAME in LISTS and not self.filtered and bool(self.sheet.shares[1])
        hints = [
            *self._tuning_keys(),
            *self.keys(self.snapshot),
            *([hint("filter", rank=8)] if can_filter else []),
            *([] if replay else [freeze]),
            hint("zone", "local" if view.zone else "UTC", 10),
            hint("help"),
            hint("quit", rank=7),
        ]
        return allowed(hints, self.denied)

    def _tuning_keys(self) -> list[Hint]:
        preview, snapshot, shown = self.preview, self.snapshot, self.shown
        back = hint("back", "clear filter" if self.filtered else None)
        out = [back if preview is None else hint("drop", "drop")]
        if preview is not None and takes_changes(snapshot, replay=shown.is_replay, gone=shown.lost is not None):
            out.insert(0, hint("apply", apply_words(snapshot, preview)))
        rank = 9 if preview is None else 1
        if snapshot.settings.tunable and snapshot.whatif:
            out.append(hint("lateness-longer", rank=rank))
        if snapshot.whatif_idle:
            out.append(hint("idle-longer", rank=rank + 1))
        return out

    def on_picked(self, event: Picked) -> None:
        if isinstance(event.control, Sheet) and not event.again and has_widgets(self):
            self.moved()

    def on_sorted_by(self, event: SortedBy) -> None:
        self.repaint()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "detail":
            return parameters[0] != self.NAME
        return super().check_action(action, parameters)

    def commands(self) -> list[tuple[str, str, str]]:
        others = [(link.name, link.about, f"detail('{link.name}')") for link in LINKS if link.name != self.NAME]
        return [("Back", "To where this screen was opened", "back"), *others]

    # The filter and copying

    def chosen(self) -> Chosen | None:
        """The row under the cursor."""
        for sheet in self.query(Sheet):
            if sheet.display and (item := sheet.item) is not None and item.key is not None:
                return Chosen(f.clean(item.name or item.key), sheet.line(item.key))
        return None

    def action_open(self) -> None:
        """Open the row under the cursor."""
        if (item := self.sheet.item) is not None and item.opens is not None:
            item.opens()

    def use_pattern(self) -> None:
        self.sheet.filter(self.pattern)
        self.repaint()

    def _filter_words(self) -> list[Span]:
        if self.pattern is None:
            return []
        left, all_ = self.sheet.shares
        return [(" ─ ", "frame"), (f"/{f.cut(f.clean(self.pattern.pattern), 20)}", "accent"),
                (f"  {left:,} of {all_:,}", "dim")]  # fmt: skip

    def action_back(self) -> None:
        """Leave the prompt, the filter or the screen: one step."""
        asked = self.asked
        if asked:
            self.close_prompt()
        if asked or self.filtered:
            self.take_typed("filter", "", done=True)
        else:
            self.leave()
