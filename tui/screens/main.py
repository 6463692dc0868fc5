"""The main screen: whether event time moves, what holds it back, why, for how long, and the cost."""

from collections.abc import Callable
from datetime import UTC, tzinfo
from typing import ClassVar

from msgspec.structs import replace
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.events import DescendantFocus, Resize, ScreenResume
from textual.message import Message

from ...engine.snapshot import Snapshot
from ...engine.text import formatting as f
from ..widgets.barrel import Barrel
from ..widgets.bindings import bindings
from ..widgets.channels import ChannelTable, name_cells
from ..widgets.charts import HeatMap
from ..widgets.holds import HolderStrip
from ..widgets.lines import Heading, KeyLine, Prompt, Rule, TopLines
from ..widgets.rows import Rows
from ..widgets.windows import WindowTable
from ..words.barrel import holding
from ..words.channels import next_sort, stave_of
from ..words.keys import main_commands
from ..words.lists import Chosen, TableRecords
from ..words.presenter import Lost
from ..words.progress import Playback
from ..words.recent import Recent
from ..words.shown import Shown, hints, link_hints
from ..words.spans import Top
from ..words.windows import WindowGroup
from . import picture
from .detail import DetailScreen
from .further import FURTHER
from .host import Seen, app_of, bars_of, has_widgets
from .preferences import allowed
from .tuning import TuningScreen


class MainScreen(TuningScreen):
    """Shows snapshots; posts `Left` if Esc has nothing to close."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("main")

    class Left(Message):
        """Esc had nothing to close: the target itself is left."""

    def __init__(
        self,
        snapshot: Snapshot,
        recent: Recent,
        clock: Callable[[], float],
        *,
        plain: bool = False,
        denied: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(Shown(snapshot, recent, clock), denied)
        self._plain = plain
        self._clock = clock
        self._name_cells = 0

    def compose(self) -> ComposeResult:
        yield TopLines()
        yield HolderStrip(id="holders")
        yield Rule("┌┐", id="top")
        yield Barrel(plain=self._plain, id="barrel")
        yield HeatMap(id="heat")
        yield Rule("├┤", id="middle")
        with Horizontal(id="tables"):
            yield ChannelTable(id="channels")
            yield WindowTable(id="windows")
        yield Rule("└┘", id="bottom")
        yield from bars_of(self)
        yield KeyLine(id="keys")
        yield Prompt(id="prompt")

    def on_mount(self) -> None:
        self.query_one(ChannelTable).focus()
        self.set_interval(1.0, self._repaint_lines)
        self._adopt()

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self._paint_rules)

    def on_screen_resume(self, event: ScreenResume) -> None:
        if has_widgets(self):
            self._arrange()

    def take(self, snapshot: Snapshot, recent: Recent) -> None:
        """Show `snapshot`; while the picture is frozen only remember it."""
        self._shown.take(snapshot, recent)
        if has_widgets(self) and not self._shown.view.frozen:
            self._adopt()

    def lose(self, lost: Lost) -> None:
        """Show that no more will come, and why."""
        if has_widgets(self):
            self._shown.lose(lost)
            self._paint()
        else:
            self._shown.lost = lost

    def play(self, playback: Playback) -> None:
        """Show the position in a recording."""
        changed, self._shown.playback = playback != self._shown.playback, playback
        if changed:
            self._repaint_lines()

    def record(self, on: bool) -> None:
        """Show whether the stream is being recorded."""
        self._shown.recording = on
        self._repaint_lines()

    def use_zone(self, zone: tzinfo | None) -> None:
        """Show times in this zone (None: local) until the user changes it; before the first paint."""
        self._shown.look(zone=zone)

    @property
    def zone(self) -> tzinfo | None:
        """The zone of the times: UTC, or None for the local one."""
        return self._shown.view.zone

    def commands(self) -> list[tuple[str, str, str]]:
        """What the command palette offers here: title, help, action."""
        return main_commands(FURTHER, replay=self._shown.is_replay)

    @property
    def seen(self) -> Seen:
        """The present content, for the further screens."""
        shown = self._shown
        return Seen(
            snapshot=shown.snapshot,
            recent=shown.recent,
            view=shown.view,
            preview=shown.preview,
            top=shown.top,
            replay=shown.is_replay,
            lost=shown.lost_text,
            silent_ms=shown.silent_ms,
            denied=self._cannot,
        )

    def action_detail(self, name: str) -> None:
        """Open a further screen, or return to it if it is open."""
        if name in FURTHER:
            self._open(FURTHER[name])

    def open_channel(self, channel: str) -> None:
        """Open a channel's page."""
        self._shown.look(selected=channel)
        from .channel import ChannelScreen

        self._open(ChannelScreen)

    def _open(self, kind: type[DetailScreen]) -> None:
        app = app_of(self)
        if not any(isinstance(screen, kind) for screen in app.screen_stack):
            app.push_screen(kind(self))
            return
        while not isinstance(app.screen, kind):
            app.pop_screen()
        self._paint()

    @property
    def _detail(self) -> DetailScreen | None:
        """The further screen that covers this one."""
        stack = reversed(app_of(self).screen_stack)
        return next((screen for screen in stack if isinstance(screen, DetailScreen)), None)

    # What is shown

    def _adopt(self) -> None:
        """Show the newest snapshot."""
        before = len(self._shown.snapshot.channels)
        self._shown.adopt()
        if not self._name_cells or len(self._shown.snapshot.channels) != before:
            self._name_cells = name_cells(self._shown.snapshot)
        self._arrange()

    def _arrange(self) -> None:
        """Filter and sort the barrel and the table, unless another screen covers them."""
        if self._detail is None:
            self._shown.arrange()
        self._paint()

    def _reorder(self) -> None:
        """Filter and sort the table: the barrel stays."""
        if self._detail is None:
            self._shown.order()
        self._paint()

    def _paint(self) -> None:
        shown = self._shown
        shown.update_preview()
        if (detail := self._detail) is not None:
            detail.take(self.seen)
            return
        top = shown.top
        self._paint_lines(top)
        strip = self.query_one(HolderStrip)
        snapshot, view = shown.snapshot, shown.view
        strip.show(picture.held(snapshot, shown.recent))
        strip.set_class(snapshot.one_clock, "-one-clock")  # with one clock no channel holds it back
        # A preview's lines come and go with a key: below the tuning line they would move everything under them.
        head = [line for line in (top.now, top.from_start) if line]
        if view.heat:
            heat = picture.heat(snapshot, view, shown.recent, shown.entries)
            self.query_one(HeatMap).show(heat, self._clock(), head)
        else:
            scene = picture.scene(snapshot, view, shown.preview, shown.staves)
            self.query_one(Barrel).show(scene, self._clock(), head)
        self.query_one(ChannelTable).show(picture.table(snapshot, view, shown.entries, self._name_cells))
        self.query_one(WindowTable).show(picture.open_windows(snapshot, view))
        self._paint_rules()

    def _repaint_lines(self) -> None:
        if has_widgets(self):
            self._paint_lines(self._shown.top)

    def _paint_lines(self, top: Top) -> None:
        """Paint the lines that change also without a new snapshot."""
        if (detail := self._detail) is not None:
            detail.take_top(top)
            return
        shown = self._shown
        self.query_one(TopLines).show(replace(top, now=(), from_start=()))
        links = link_hints(FURTHER, len(shown.findings))
        on_windows, gone = self.focused is self.query_one(WindowTable), shown.lost is not None
        found = hints(
            shown.snapshot, shown.view, shown.preview, links, replay=shown.is_replay, gone=gone, on_windows=on_windows
        )
        self.query_one("#keys", KeyLine).show(allowed(found, self._cannot))

    def _paint_rules(self) -> None:
        shown = self._shown
        snapshot, view = shown.snapshot, shown.view
        barrel, windows = self.query_one(Barrel), self.query_one(WindowTable)
        top = picture.barrel_heading(snapshot, view, shown.preview, shown.staves, barrel.prefix)
        split = windows.region.x if windows.display else 0
        on_channels = bool(split) and self.focused is self.query_one(ChannelTable)
        headings: list[Heading] = [picture.channel_heading(snapshot, view, shown.entries, focused=on_channels)]
        if split:
            on_windows = self.focused is windows
            headings.append(picture.window_heading(snapshot, view, split, windows.region.width, focused=on_windows))
        self.query_one("#top", Rule).show([top], {})
        self.query_one("#middle", Rule).show(headings, {split: "┬"} if split else {})
        self.query_one("#bottom", Rule).show([], {split: "┴"} if split else {})

    # Looking

    def action_sort(self) -> None:
        """Sort the channels by the next order."""
        self._shown.look(sort=next_sort(self._shown.view.sort), reverse=False)
        self._reorder()

    def action_reverse(self) -> None:
        """Reverse the order of the channels."""
        self._shown.look(reverse=not self._shown.view.reverse)
        self._reorder()

    def on_channel_table_sort_wanted(self, event: ChannelTable.SortWanted) -> None:
        if event.sort == self._shown.view.sort:
            self.action_reverse()
        else:
            self._shown.look(sort=event.sort, reverse=False)
            self._reorder()

    def action_axis(self) -> None:
        """Switch the axis: event time, or the distance behind the fastest channel."""
        self._shown.look(logarithmic=not self._shown.view.logarithmic)
        self._paint()

    def action_heat(self) -> None:
        """Switch between the heat map and the barrel."""
        self._shown.look(heat=not self._shown.view.heat)
        self.query_one(Barrel).display = not self._shown.view.heat
        self.query_one(HeatMap).display = self._shown.view.heat
        self._paint()

    def action_freeze(self) -> None:
        """Freeze the picture, or resume with the newest."""
        self._shown.look(frozen=not self._shown.view.frozen)
        self._adopt() if not self._shown.view.frozen else self._paint()

    def action_zone(self) -> None:
        """UTC or local time."""
        self._shown.look(zone=None if self._shown.view.zone else UTC)
        self._paint()

    def action_open(self) -> None:
        """Open the selected (else the holding, else the first) stave: the channels inside it, or the channel's page.

        With the focus on the windows: the selected window's page; for a group of windows, the list.
        """
        snapshot, view = self._shown.snapshot, self._shown.view
        if self.focused is (windows := self.query_one(WindowTable)):
            self._open_windows(windows.chosen)
        elif snapshot.instances and view.inside is None:
            holder = snapshot.level.holder
            key = stave_of(snapshot, view) or (holder.channel if holder else None)
            chosen = next((i for i in snapshot.instances if i.channel == key), snapshot.instances[0])
            self._shown.look(inside=chosen.instance)
            self._arrange()
        elif self._shown.entries:
            known = [entry.view.channel for entry in self._shown.entries]
            wanted = (view.selected, holding(snapshot), known[0])
            self.open_channel(next(channel for channel in wanted if channel in known))

    def _open_windows(self, group: WindowGroup | None) -> None:
        if group is None or len(group.windows) > 1:
            self.action_detail("Windows")
        else:
            from .windows import WindowScreen, key_of

            app_of(self).push_screen(WindowScreen(self, key_of(group.first)))

    def action_back(self) -> None:
        """Leave the prompt, the instance or the filter: one step."""
        if purpose := self.query_one(Prompt).purpose:
            self._close_prompt()
            if purpose.startswith("filter"):
                self._filter_by("", purpose)
        elif self._shown.view.inside is not None:
            self._shown.look(inside=None)
            self._arrange()
        elif self._shown.view.pattern is not None:
            self._filter_by("", "filter")
        elif self._shown.view.windows_pattern is not None:
            self._filter_by("", "filter windows")
        else:
            self.post_message(self.Left())

    def action_stave(self, step: int) -> None:
        """Select the next stave."""
        keys = self.query_one(Barrel).keys
        if not keys:
            return
        holder = self._shown.snapshot.level.holder
        here = stave_of(self._shown.snapshot, self._shown.view)
        if here in keys:
            self._select_stave(keys[max(min(keys.index(here) + step, len(keys) - 1), 0)])
        else:
            self._select_stave(holder.channel if holder and holder.channel in keys else keys[0])

    def on_holder_strip_picked(self, event: HolderStrip.Picked) -> None:
        self.action_detail("History")

    def on_barrel_picked(self, event: Barrel.Picked) -> None:
        self._select_stave(event.key)

    def on_rows_clicked(self, event: Rows.Clicked) -> None:
        if isinstance(event.rows, ChannelTable) and (channel := event.rows.channel(event.row)) is not None:
            self._select(channel)
        elif isinstance(event.rows, WindowTable):
            event.rows.select(event.row // 2)

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        self.call_after_refresh(self._paint_focus)

    def _paint_focus(self) -> None:
        if self.is_attached and self._detail is None:
            self._paint_lines(self._shown.top)
            self._paint_rules()

    def on_channel_table_moved(self, event: ChannelTable.Moved) -> None:
        self._select(event.channel)

    # Copying and saving

    def chosen(self) -> Chosen | None:
        """The selected row: of the channels, or of the windows if these have the focus."""
        windows, table = self.query_one(WindowTable), self.query_one(ChannelTable)
        if self.focused is windows and windows.chosen is not None:
            return Chosen(windows.chosen_line.partition("  ")[0], windows.chosen_line)
        known = [entry.view.channel for entry in self._shown.entries]
        wanted = (self._shown.view.selected, holding(self._shown.snapshot), *known[:1])  # as Enter opens
        channel = next((channel for channel in wanted if channel in known), None)
        line = None if channel is None else table.line(channel)
        return None if channel is None or line is None else Chosen(f.clean(channel), line)

    def records(self) -> TableRecords:
        """The channels as filtered and sorted, or the open windows if these have the focus."""
        if self.focused is self.query_one(WindowTable):
            return TableRecords("windows", self._shown.snapshot.windows.open)
        return TableRecords("channels", [entry.view for entry in self._shown.entries])

    def on_heat_map_picked(self, event: HeatMap.Picked) -> None:
        self._select(event.key)

    async def on_key_line_pressed(self, event: KeyLine.Pressed) -> None:
        await self.run_action(event.action)

    def _select_stave(self, key: str) -> None:
        """Select the channel of a stave; for an instance the first channel inside, in the table's order."""
        snapshot = self._shown.snapshot
        instance = next((i.instance for i in snapshot.instances or () if i.channel == key), None)
        if instance is None or self._shown.view.inside is not None:
            self._select(key)
            return
        inside = (e.view.channel for e in self._shown.entries if e.view.instance == instance)
        if (first := next(inside, None)) is not None:
            self._select(first)

    def _select(self, channel: str) -> None:
        self._shown.look(selected=channel)
        self._paint()
