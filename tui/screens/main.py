"""The main screen: whether event time moves, what holds it back, why, for how long, and the cost."""

from collections.abc import Callable
from typing import ClassVar

from msgspec.structs import replace
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.events import DescendantFocus, Resize, ScreenResume

from ...engine.snapshot import Snapshot
from ...engine.text import formatting as f
from ...engine.verdict.blame import holding_channel
from ..widgets.barrel import Barrel
from ..widgets.canvas import Picked, bindings
from ..widgets.charts import HeatMap, HolderSpan, HolderStrip
from ..widgets.clocks import ClockLines
from ..widgets.lines import Heading, HeadingLine, Headings, KeyLine, Prompt, TopLines
from ..widgets.rows import SortedBy
from ..widgets.tables import ChannelTable, WindowTable
from ..words.channels import next_sort, stave_of
from ..words.kinds import presenter_of
from ..words.main_screen import Shown, hints, link_hints
from ..words.progress import Playback
from ..words.recent import Recent
from ..words.spans import Top
from ..words.state import Lost
from ..words.texts import Chosen, TableRecords, filter_of
from ..words.windows import WindowGroup, key_of
from .base_app import allowed, app_of, has_widgets
from .target_screen import DetailScreen, TargetScreen, loaded

_FILTERS = {"filter": "pattern", "filter windows": "windows_pattern"}
"""The purposes of a filter's prompt, with the field of the view that each one sets."""


class MainScreen(TargetScreen):
    """Shows snapshots; Esc with nothing to close leaves the target."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("main")

    def __init__(
        self, snapshot: Snapshot, recent: Recent, clock: Callable[[], float], *, denied: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(Shown(snapshot, recent, clock), denied)

    def compose(self) -> ComposeResult:
        yield TopLines()
        yield HolderStrip(id="holders")
        yield HeadingLine("┌┐", id="top")
        yield Barrel(self.shown, id="barrel")
        yield HeatMap(self.shown, id="heat")
        yield ClockLines(self.shown, id="clocks")
        yield HeadingLine("├┤", id="middle")
        with Horizontal(id="tables"):
            yield ChannelTable(self.shown, id="channels")
            yield WindowTable(self.shown, id="windows")
        yield HeadingLine("└┘", id="bottom")
        yield from app_of(self).bars()
        yield KeyLine(id="keys")
        yield Prompt(id="prompt")

    def on_mount(self) -> None:
        self.query_one(ChannelTable).focus()
        self.set_interval(1.0, self._repaint_lines)
        self.adopt()
        self._show_chain()

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self._paint_rules)

    def on_screen_resume(self, event: ScreenResume) -> None:
        if has_widgets(self):
            self._arrange()
            self._show_chain()

    def _show_chain(self) -> None:
        """Where hops take the place of channels, their staircase is what this screen is for other targets."""
        if self.shown.snapshot.target.has_hops and app_of(self).screen is self:
            app_of(self).push_screen(loaded("fleet:TargetChainScreen")(self.shown))

    def take(self, snapshot: Snapshot, recent: Recent) -> None:
        """Show `snapshot`; while the picture is frozen only remember it."""
        self.shown.take(snapshot, recent)
        if has_widgets(self) and not self.shown.view.frozen:
            self.adopt()

    def lose(self, lost: Lost) -> None:
        """Show that no more will come, and why."""
        self.shown.lose(lost)
        if has_widgets(self):
            self.paint()

    def play(self, playback: Playback) -> None:
        """Show the position in a recording."""
        changed, self.shown.playback = playback != self.shown.playback, playback
        if changed:
            self._repaint_lines()

    def record(self, on: bool) -> None:
        """Show whether the stream is being recorded."""
        self.shown.recording = on
        self._repaint_lines()

    @property
    def _detail(self) -> DetailScreen | None:
        """The further screen that covers this one."""
        stack = reversed(app_of(self).screen_stack)
        return next((screen for screen in stack if isinstance(screen, DetailScreen)), None)

    # What is shown

    def adopt(self) -> None:
        self.shown.adopt()
        self._arrange()

    def _arrange(self) -> None:
        """Sort and filter the channels, unless another screen covers them."""
        if self._detail is None:
            self.shown.arrange()
        self.paint()

    def paint(self) -> None:
        shown = self.shown
        if (detail := self._detail) is not None:
            detail.paint()
            return
        shown.update_preview()
        top = shown.top
        self._paint_lines(top)
        strip = self.query_one(HolderStrip)
        strip.show(self._held())
        strip.set_class(shown.snapshot.one_clock, "-one-clock")  # with one clock no channel holds it back
        # A preview's lines come and go with a key: below the tuning line they would move everything under them.
        head = [line for line in (top.now, top.from_start) if line]
        picture = self._picture
        for widget in self.query("Barrel, HeatMap, ClockLines"):
            widget.display = widget is picture
        picture.draw_state(head)
        self.query_one(ChannelTable).show()
        self.query_one(WindowTable).show_windows()
        self._paint_rules()

    @property
    def _picture(self) -> Barrel | HeatMap | ClockLines:
        """The widget that draws the channels: a target without a watermark of its own is not a barrel."""
        if not self.shown.snapshot.target.has_watermark:
            return self.query_one(ClockLines)
        return self.query_one(HeatMap) if self.shown.view.heat else self.query_one(Barrel)

    def _held(self) -> HolderSpan:
        """The holder strip's content, as far back as the points reach."""
        snapshot, recent = self.shown.snapshot, self.shown.recent
        points, level = recent.until(snapshot), snapshot.level
        if not points or snapshot.one_clock or level.watermark_ms is None:
            return HolderSpan()
        holder = level.holder.channel if level.holder else None
        return HolderSpan(recent.holds(snapshot), points[0].now_ms, points[-1].now_ms, holder)

    def _repaint_lines(self) -> None:
        if has_widgets(self):
            self._paint_lines(self.shown.top)

    def _paint_lines(self, top: Top) -> None:
        """Paint the lines that change also without a new snapshot."""
        if (detail := self._detail) is not None:
            detail.paint_top(top)
            return
        shown = self.shown
        self.query_one(TopLines).show(replace(top, now=(), from_start=()))
        links = link_hints(shown.snapshot, len(shown.findings))
        on_windows, gone = self.focused is self.query_one(WindowTable), shown.lost is not None
        keys = hints(
            shown.snapshot, shown.view, shown.preview, links, replay=shown.is_replay, gone=gone, on_windows=on_windows
        )
        self.query_one("#keys", KeyLine).show(allowed(keys, self.denied))

    def _paint_rules(self) -> None:
        channels, windows = self.query_one(ChannelTable), self.query_one(WindowTable)
        split = windows.region.x if windows.display else 0
        headings: list[Heading] = [channels.heading(focused=bool(split) and self.focused is channels)]
        if split:
            headings.append(windows.heading(focused=self.focused is windows))
        picture = self._picture if isinstance(self._picture, ClockLines) else self.query_one(Barrel)
        self.query_one("#top", HeadingLine).show(Headings([picture.heading()]))
        self.query_one("#middle", HeadingLine).show(Headings(headings, split, "┬"))
        self.query_one("#bottom", HeadingLine).show(Headings((), split, "┴"))

    # Looking

    def action_filter(self) -> None:
        """Ask for a filter of the table that has the focus."""
        purpose = "filter windows" if self.focused is self.query_one(WindowTable) else "filter"
        pattern = getattr(self.shown.view, _FILTERS[purpose])
        self.ask(purpose, "/", pattern.text if pattern else "")

    def take_typed(self, purpose: str, text: str, *, done: bool) -> str | None:
        """Filter channels or windows by the typed text, or preview the lateness; what is wrong changes nothing."""
        if purpose not in _FILTERS:
            return super().take_typed(purpose, text, done=done)
        try:
            pattern = filter_of(text)
        except ValueError as error:
            return str(error)
        self.shown.look(**{_FILTERS[purpose]: pattern})
        self._arrange()
        return None

    def action_sort(self) -> None:
        """Sort the channels by the next order."""
        self.shown.look(sort=next_sort(self.shown.view.sort), reverse=False)
        self._arrange()

    def action_reverse(self) -> None:
        """Reverse the order of the channels."""
        self.shown.look(reverse=not self.shown.view.reverse)
        self._arrange()

    def on_sorted_by(self, event: SortedBy) -> None:
        if event.title == self.shown.view.sort:
            self.action_reverse()
        else:
            self.shown.look(sort=event.title, reverse=False)
            self._arrange()

    def action_axis(self) -> None:
        """Switch the axis: event time, or the distance behind the fastest channel."""
        if self._compares():
            self.shown.look(logarithmic=not self.shown.view.logarithmic)
            self.paint()

    def action_heat(self) -> None:
        """Switch between the heat map and the barrel."""
        if self._compares():
            self.shown.look(heat=not self.shown.view.heat)
            self.paint()

    def _compares(self) -> bool:
        """Whether there is a watermark to compare the channels with; a notice says if not."""
        compares = self.shown.snapshot.target.has_watermark
        if not compares:
            self.report(presenter_of(self.shown.snapshot).no("holders"))
        return compares

    def action_open(self) -> None:
        """Open the selected (else the holding, else the first) stave: the channels inside it, or the channel's page.

        With the focus on the windows: the selected window's page; for a group of windows, the list.
        """
        snapshot, view = self.shown.snapshot, self.shown.view
        if self.focused is (windows := self.query_one(WindowTable)):
            self._open_windows(windows.chosen)
        elif snapshot.instances and view.inside is None:
            holder = snapshot.level.holder
            key = stave_of(snapshot, view) or (holder.channel if holder else None)
            chosen = next((i for i in snapshot.instances if i.channel == key), snapshot.instances[0])
            self.shown.look(inside=chosen.instance)
            self._arrange()
        elif self.shown.entries:
            known = [entry.view.channel for entry in self.shown.entries]
            wanted = (view.selected, holding_channel(snapshot), known[0])
            self.open_channel(next(channel for channel in wanted if channel in known))

    def _open_windows(self, group: WindowGroup | None) -> None:
        if group is None or len(group.windows) > 1:
            self.action_detail("Windows")
        else:
            self.open_window(key_of(group.first))

    def action_back(self) -> None:
        """Leave the prompt, the instance or the filter: one step."""
        if purpose := self.asked:
            self.close_prompt()
            if purpose in _FILTERS:
                self.take_typed(purpose, "", done=True)
        elif self.drop_result():
            return
        elif self.shown.view.inside is not None:
            self.shown.look(inside=None)
            self._arrange()
        elif self.shown.view.pattern is not None:
            self.take_typed("filter", "", done=True)
        elif self.shown.view.windows_pattern is not None:
            self.take_typed("filter windows", "", done=True)
        else:
            app_of(self).leave_target()

    def action_stave(self, step: int) -> None:
        """Select the next stave."""
        keys = self.query_one(Barrel).keys
        if not keys:
            return
        holder = self.shown.snapshot.level.holder
        here = stave_of(self.shown.snapshot, self.shown.view)
        if here in keys:
            self._select_stave(keys[max(min(keys.index(here) + step, len(keys) - 1), 0)])
        else:
            self._select_stave(holder.channel if holder and holder.channel in keys else keys[0])

    def on_picked(self, event: Picked) -> None:
        match event.control:
            case HolderStrip():
                self.action_detail("History")
            case Barrel():
                self._select_stave(event.value)
            case HeatMap() | ChannelTable() | ClockLines():
                self._select(event.value)
            case _:
                pass

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        self.call_after_refresh(self._paint_focus)

    def _paint_focus(self) -> None:
        if self.is_attached and self._detail is None:
            self._paint_lines(self.shown.top)
            self._paint_rules()

    # Copying and saving

    def chosen(self) -> Chosen | None:
        """The selected row: of the channels, or of the windows if these have the focus."""
        windows, table = self.query_one(WindowTable), self.query_one(ChannelTable)
        if self.focused is windows and windows.cursor is not None:
            line = windows.line(windows.cursor)
            return Chosen(line.partition("  ")[0], line)
        known = [entry.view.channel for entry in self.shown.entries]
        wanted = (self.shown.view.selected, holding_channel(self.shown.snapshot), *known[:1])  # as Enter opens
        channel = next((channel for channel in wanted if channel in known), None)
        line = None if channel is None else table.line(channel)
        return None if channel is None or line is None else Chosen(f.clean(channel), line)

    def records(self) -> TableRecords:
        """The channels as filtered and sorted, or the open windows if these have the focus."""
        if self.focused is self.query_one(WindowTable):
            return TableRecords("windows", self.shown.snapshot.windows.open)
        return TableRecords("channels", [entry.view for entry in self.shown.entries])

    def _select_stave(self, key: str) -> None:
        """Select the channel of a stave; for an instance the first channel inside, in the table's order."""
        snapshot = self.shown.snapshot
        instance = next((i.instance for i in snapshot.instances or () if i.channel == key), None)
        if instance is None or self.shown.view.inside is not None:
            self._select(key)
            return
        inside = (e.view.channel for e in self.shown.entries if e.view.instance == instance)
        if (first := next(inside, None)) is not None:
            self._select(first)

    def _select(self, channel: str) -> None:
        self.shown.look(selected=channel)
        self.paint()
