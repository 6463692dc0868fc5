"""The main screen: is event time moving, who holds it, why, for how long, and what does that cost?"""

import re
from collections.abc import Callable
from datetime import UTC, tzinfo
from typing import Any, ClassVar

from msgspec.structs import replace
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.events import Resize
from textual.message import Message
from textual.screen import Screen

from ...engine.core.snapshot import Snapshot
from ...engine.feed.messages import Change
from .. import formatting as f
from .. import preview as what_if
from ..preview import Preview
from ..recent import Recent
from ..replay import Playback
from ..widgets.barrel import Barrel
from ..widgets.channels import SORTS, ChannelTable, Entry, entries, name_cells
from ..widgets.line import part
from ..widgets.lines import SPARK_CELL_MS, SPARK_CELLS, Heading, KeyLine, LevelLine, Rule, Story, TextLine
from ..widgets.prompt import Prompt
from ..widgets.rows import Rows
from ..widgets.staves import Stave, staves
from ..widgets.windows import WindowTable
from ..wording import Condition, condition, holder_parts, level_parts, replay_condition, status_parts, tuning_parts
from . import picture
from .picture import View, Wish

_HOW_TO_TYPE = "like 45m · Enter applies · Esc drops"
_HOW_TO_FILTER = "Enter keeps it · Esc clears it"


class MainScreen(Screen[None]):
    """Shows the snapshots it is given; says `ApplyWanted` when a preview is to become the engine's setting."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("plus", "lateness(1)", "more lateness"),
        Binding("minus", "lateness(-1)", "less lateness"),
        Binding("equals_sign", "type_lateness", "type a lateness"),
        Binding("left_square_bracket", "idle(-1)", "shorter idle timeout"),
        Binding("right_square_bracket", "idle(1)", "longer idle timeout"),
        Binding("enter", "apply", "apply", priority=True),
        Binding("escape", "drop", "drop", priority=True),
        Binding("enter", "open", "open the channels inside"),
        Binding("escape", "back", "back"),
        Binding("left", "stave(-1)", "the stave to the left"),
        Binding("right", "stave(1)", "the stave to the right"),
        Binding("s", "sort", "sort"),
        Binding("slash", "filter", "filter"),
        Binding("x", "axis", "linear or log"),
        Binding("p", "freeze", "freeze"),
        Binding("T", "zone", "UTC or local"),
    ]

    class ApplyWanted(Message):
        """A preview is to be applied; `words` names it, the change's id is still 0."""

        def __init__(self, change: Change, words: str) -> None:
            self.change, self.words = change, words
            super().__init__()

    def __init__(self, snapshot: Snapshot, recent: Recent, clock: Callable[[], float], *, plain: bool = False) -> None:
        super().__init__()
        self._plain = plain
        self._clock = clock
        self._newest = self._shown = snapshot
        self._recent = recent
        self._heard_s = clock()
        self._lost: str | None = None
        self._playback: Playback | None = None
        self._recording = False
        self._view = View()
        self._preview: Preview | None = None
        self._staves: list[Stave] = []
        self._entries: list[Entry] = []
        self._name_cells = 0
        self._lags: list[int | None] = []
        self._now_share: float | None = None

    def compose(self) -> ComposeResult:
        yield TextLine(id="status")
        yield LevelLine(id="level")
        yield TextLine(id="tuning")
        yield TextLine(id="banner")
        yield TextLine(id="log")
        yield Rule("┌┐", id="top")
        yield Barrel(plain=self._plain, id="barrel")
        yield Rule("├┤", id="middle")
        with Horizontal(id="tables"):
            yield ChannelTable(id="channels")
            yield WindowTable(id="windows")
        yield Rule("└┘", id="bottom")
        yield KeyLine(id="keys")
        yield Prompt(id="prompt")

    def on_mount(self) -> None:
        self.query_one(ChannelTable).focus()
        self.set_interval(1.0, self._paint_lines)
        self._adopt()

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self._paint_rules)

    def take(self, snapshot: Snapshot, recent: Recent) -> None:
        """Show `snapshot`; while the picture is frozen only remember it."""
        self._newest, self._recent, self._heard_s = snapshot, recent, self._clock()
        if self._view.frozen or not self.is_mounted:
            return
        self._adopt()

    def lose(self, reason: str) -> None:
        """Show that no more will come, and why."""
        self._lost = reason
        if self.is_mounted:
            self._paint_lines()

    def play(self, playback: Playback) -> None:
        """What is shown is a recording, and here it is."""
        changed, self._playback = playback != self._playback, playback
        if changed and self.is_mounted:
            self._paint_lines()

    def record(self, on: bool) -> None:
        """Show whether what comes is recorded."""
        self._recording = on
        if self.is_mounted:
            self._paint_lines()

    @property
    def zone(self) -> tzinfo | None:
        """The zone of the times: UTC, or None for the local one."""
        return self._view.zone

    def commands(self) -> list[tuple[str, str, str]]:
        """What the command palette offers here: title, help, action."""
        freeze = ("Freeze or go on", "Data keeps coming, the picture stands", "freeze")
        return [
            ("Type a lateness", "Preview a lateness, then apply it", "type_lateness"),
            ("Filter the channels", "By a regular expression", "filter"),
            ("Sort the channels", "The next order", "sort"),
            ("Linear or log axis", "Event time, or distance behind the fastest channel", "axis"),
            *([freeze] if self._playback is None else []),
            ("UTC or local time", "How times are shown", "zone"),
        ]

    # What is shown

    def _adopt(self) -> None:
        """Make the newest snapshot the one that is shown."""
        snapshot, before = self._newest, self._shown
        self._shown = snapshot
        self._lags = self._recent.lags(SPARK_CELLS, SPARK_CELL_MS)
        self._now_share = self._recent.late_share()
        if not self._name_cells or len(snapshot.channels) != len(before.channels):
            self._name_cells = name_cells(snapshot)
        self._arrange()

    def _arrange(self) -> None:
        """Find and sort what the barrel and the table show."""
        view = self._view
        self._staves = staves(self._shown, view.inside)
        self._entries = entries(self._shown, view.inside, view.pattern, view.sort)
        self._paint()

    def _look(self, **changes: Any) -> None:
        """Look at it in another way."""
        self._view = replace(self._view, **changes)

    def _paint(self) -> None:
        snapshot, view = self._shown, self._view
        self._preview = picture.preview_of(snapshot, view.wish)
        self._paint_lines()
        scene = picture.scene(snapshot, view, self._preview, self._staves)
        self.query_one(Barrel).show(scene, self._clock())
        self.query_one(ChannelTable).show(picture.table(snapshot, view, self._entries, self._name_cells))
        self.query_one(WindowTable).show(picture.open_windows(snapshot, view))
        self._paint_rules()

    def _paint_lines(self) -> None:
        """The lines that also change without a new snapshot."""
        snapshot, view = self._shown, self._view
        now = self._condition()
        self.query_one("#status", TextLine).show(status_parts(snapshot, now, view.zone))
        story = Story(level_parts(snapshot, view.zone), holder_parts(snapshot), self._lags)
        self.query_one(LevelLine).show(story)
        self.query_one("#tuning", TextLine).show(tuning_parts(snapshot, self._preview, self._now_share))
        self._notice("#banner", now.note, now.ink)
        self._notice("#log", f"log {snapshot.log}" if now.ink == "bad" and snapshot.log is not None else None, "text")
        keys = picture.keys(snapshot, view, self._preview, replay=self._playback is not None)
        self.query_one("#keys", KeyLine).show(keys)

    def _condition(self) -> Condition:
        if self._playback is not None:
            return replay_condition(self._shown, self._playback)
        silent_s = self._clock() - self._heard_s
        now = condition(self._shown, frozen=self._view.frozen, silent_s=silent_s, lost=self._lost)
        return replace(now, word=f"{now.word} · REC") if self._recording else now

    def _notice(self, selector: str, text: str | None, ink: str) -> None:
        """Show a line that is there only when it says something."""
        line = self.query_one(selector, TextLine)
        line.show([part((" " + f.clean(text or ""), ink))])
        line.display = text is not None

    def _paint_rules(self) -> None:
        snapshot, view = self._shown, self._view
        barrel, windows = self.query_one(Barrel), self.query_one(WindowTable)
        top = picture.barrel_heading(snapshot, view, self._preview, self._staves, barrel.prefix)
        headings: list[Heading] = [picture.channel_heading(snapshot, view, self._entries)]
        split = windows.region.x if windows.display else 0
        if split:
            headings.append(picture.window_heading(snapshot, split, windows.region.width))
        self.query_one("#top", Rule).show([top], {})
        self.query_one("#middle", Rule).show(headings, {split: "┬"} if split else {})
        self.query_one("#bottom", Rule).show([], {split: "┴"} if split else {})

    # Tuning

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("apply", "drop"):
            return self._preview is not None
        return action != "freeze" or self._playback is None

    def action_lateness(self, direction: int) -> None:
        """Move the previewed lateness to the next value for which the answer is exact."""
        snapshot, wish = self._shown, self._view.wish
        if not self._tunable():
            return
        if not snapshot.whatif:
            self._say("this stream carries no what-if: type a lateness with =")
            return
        here = wish.value_ms if wish and not wish.idle else snapshot.settings.lateness_ms
        there = what_if.step_lateness(snapshot, here or 0, direction)
        if there is not None:
            self._want(Wish(False, there))

    def action_idle(self, direction: int) -> None:
        """Move the previewed idle timeout along its ladder."""
        snapshot, wish = self._shown, self._view.wish
        if not snapshot.whatif_idle:
            self._say("this stream carries no what-if for the idle timeout")
            return
        here = wish.value_ms if wish and wish.idle else snapshot.settings.idle_after_ms
        found, there = what_if.step_idle(snapshot, here, direction)
        if found:
            self._want(Wish(True, there))

    def action_type_lateness(self) -> None:
        """Ask for a lateness."""
        if self._tunable():
            self._ask("lateness", "lateness", "", _HOW_TO_TYPE)

    def action_apply(self) -> None:
        """Send the previewed setting to the engine."""
        wish = self._view.wish
        if wish is None:
            return
        if wish.idle:
            change = Change(id=0, idle_after_ms=wish.value_ms, who="screen")
        else:
            change = Change(id=0, lateness_ms=wish.value_ms or 0, who="screen")
        self.post_message(self.ApplyWanted(change, wish.words()))
        self.action_drop()

    def action_drop(self) -> None:
        """Drop the preview."""
        if self.query_one(Prompt).purpose == "lateness":
            self._close_prompt()
        self._want(None)

    def _want(self, wish: Wish | None) -> None:
        settings = self._shown.settings
        if wish is not None and wish.value_ms == (settings.idle_after_ms if wish.idle else settings.lateness_ms):
            wish = None
        self._look(wish=wish)
        self._paint()

    def _tunable(self) -> bool:
        settings = self._shown.settings
        if not settings.tunable:
            self._say(what_if.untunable(settings.strategy))
        return settings.tunable

    def _say(self, text: str) -> None:
        self.notify(text, markup=False, timeout=5)

    # The prompt

    def _ask(self, purpose: str, label: str, text: str, note: str) -> None:
        self.query_one("#keys").display = False
        self.query_one(Prompt).open(purpose, label, text, note)

    def _close_prompt(self) -> None:
        self.query_one(Prompt).close()
        self.query_one("#keys").display = True
        self.query_one(ChannelTable).focus()

    def on_prompt_typed(self, event: Prompt.Typed) -> None:
        prompt = self.query_one(Prompt)
        if event.purpose == "filter":
            if (error := self._filter_by(event.text)) is None:
                prompt.say(_HOW_TO_FILTER)
            else:
                prompt.say(error, error=True)
            return
        try:
            self._want(Wish(False, f.parse_duration(event.text)))
        except ValueError:
            self._want(None)
        prompt.say(_HOW_TO_TYPE)

    def on_prompt_done(self, event: Prompt.Done) -> None:
        prompt = self.query_one(Prompt)
        error = self._filter_by(event.text) if event.purpose == "filter" else _wrong_duration(event.text)
        if error is None:
            self._close_prompt()
        else:
            prompt.say(error, error=True)

    def _filter_by(self, text: str) -> str | None:
        """Filter by what was typed; a bad expression changes nothing: what is wrong with it, in one line."""
        try:
            pattern = re.compile(text, re.IGNORECASE) if text else None
        except (re.error, OverflowError, RecursionError) as error:
            return f"not a regular expression: {f.first_line(str(error))}"
        self._look(pattern=pattern)
        self._arrange()
        return None

    # Looking

    def action_filter(self) -> None:
        """Ask for a filter."""
        pattern = self._view.pattern
        self._ask("filter", "/", pattern.pattern if pattern else "", _HOW_TO_FILTER)

    def action_sort(self) -> None:
        """Sort the channels in the next order."""
        self._look(sort=SORTS[(SORTS.index(self._view.sort) + 1) % len(SORTS)])
        self._arrange()

    def action_axis(self) -> None:
        """Event time, or the distance behind the fastest channel."""
        self._look(logarithmic=not self._view.logarithmic)
        self._paint()

    def action_freeze(self) -> None:
        """Let the picture stand, or go on with the newest."""
        self._look(frozen=not self._view.frozen)
        self._adopt() if not self._view.frozen else self._paint()

    def action_zone(self) -> None:
        """UTC or local time."""
        self._look(zone=None if self._view.zone else UTC)
        self._paint()

    def action_open(self) -> None:
        """Open the channels inside the selected (else the holding, else the first) source instance."""
        snapshot, view = self._shown, self._view
        if not snapshot.instances or view.inside is not None:
            return
        holder = snapshot.level.holder
        key = picture.stave_of(snapshot, view) or (holder.channel if holder else None)
        chosen = next((i for i in snapshot.instances if i.channel == key), snapshot.instances[0])
        self._look(inside=chosen.instance)
        self._arrange()

    def action_back(self) -> None:
        """Out of the prompt, the instance, the filter: one step."""
        if purpose := self.query_one(Prompt).purpose:
            self._close_prompt()
            if purpose == "filter":
                self._filter_by("")
        elif self._view.inside is not None:
            self._look(inside=None)
            self._arrange()
        elif self._view.pattern is not None:
            self._filter_by("")

    def action_stave(self, step: int) -> None:
        """Select the next stave."""
        keys = self.query_one(Barrel).keys
        if not keys:
            return
        holder = self._shown.level.holder
        here = picture.stave_of(self._shown, self._view)
        if here in keys:
            self._select_stave(keys[max(min(keys.index(here) + step, len(keys) - 1), 0)])
        else:
            self._select_stave(holder.channel if holder and holder.channel in keys else keys[0])

    def on_barrel_picked(self, event: Barrel.Picked) -> None:
        self._select_stave(event.key)

    def on_rows_clicked(self, event: Rows.Clicked) -> None:
        if isinstance(event.rows, ChannelTable) and (channel := event.rows.channel(event.row)) is not None:
            self._select(channel)

    def on_channel_table_moved(self, event: ChannelTable.Moved) -> None:
        self._select(event.channel)

    async def on_key_line_pressed(self, event: KeyLine.Pressed) -> None:
        await self.run_action(event.action)

    def _select_stave(self, key: str) -> None:
        """Select the channel of a stave; of an instance the first one inside, as the table is sorted."""
        snapshot = self._shown
        instance = next((i.instance for i in snapshot.instances or () if i.channel == key), None)
        if instance is None or self._view.inside is not None:
            self._select(key)
            return
        inside = (e.view.channel for e in self._entries if e.view.instance == instance)
        if (first := next(inside, None)) is not None:
            self._select(first)

    def _select(self, channel: str) -> None:
        self._look(selected=channel)
        self._paint()


def _wrong_duration(text: str) -> str | None:
    try:
        f.parse_duration(text)
    except ValueError as error:
        return str(error)
    return None
