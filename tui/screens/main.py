"""The main screen: is event time moving, what holds it back, why, for how long, and what does that cost?"""

from collections.abc import Callable, Sequence
from datetime import UTC, tzinfo
from typing import Any, ClassVar

from msgspec.structs import replace
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.events import DescendantFocus, Resize, ScreenResume
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget

from ...engine.core.doctor import Finding, diagnose
from ...engine.core.job_line import line_in_job
from ...engine.core.judgement.applied_now import AppliedNow
from ...engine.core.snapshot import Snapshot
from ...engine.feed.messages import Change
from ..bindings import bindings
from ..permissions import CHANGES_ENGINE, READ_ONLY, allowed
from ..present import formatting as f
from ..present import preview as what_if
from ..present.applied import Applied
from ..present.attached import restart_words
from ..present.autopilot import auto_refusal, next_target, target_words
from ..present.blockers import WindowGroup
from ..present.channel_order import Entry, entries, next_sort
from ..present.condition import Lost, condition, replay_condition
from ..present.keys import LINKS, hint
from ..present.line import Part
from ..present.playback import Playback
from ..present.presenter import presenter_of
from ..present.preview import Preview
from ..present.preview_words import from_start_parts, now_parts
from ..present.recent import Recent
from ..present.staves import Stave, holding, staves
from ..present.table import HOW_TO_FILTER, HOW_TO_PREVIEW, Chosen, Records, pattern_of
from ..present.target import target_of
from ..present.verdict import Offer, offer_of, verdict_parts
from ..present.wish import Wish
from ..present.wording import Condition, status_parts, watermark_parts
from ..widgets.barrel import Barrel
from ..widgets.channels import ChannelTable, name_cells
from ..widgets.heat_map import HeatMap
from ..widgets.holds import HolderStrip
from ..widgets.lines import SPARK_CELL_MS, SPARK_CELLS, Heading, KeyLine, Rule, Story
from ..widgets.prompt import Prompt
from ..widgets.rows import Rows
from ..widgets.top import Top, TopLines
from ..widgets.windows import WindowTable
from . import picture
from .channel import ChannelScreen
from .detail import DetailScreen, Seen, app_of, bars_of, link_hints
from .further import FURTHER
from .history import HistoryScreen
from .picture import View
from .window import WindowScreen, key_of
from .windows import WindowsScreen


class MainScreen(Screen[None]):
    """Shows the snapshots it is given; says `ApplyWanted` when a preview is to become the engine's setting."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("main")

    class ApplyWanted(Message):
        """A preview is to be applied; `words` names it, the change's id is still 0."""

        def __init__(self, change: Change, words: str) -> None:
            self.change, self.words = change, words
            super().__init__()

    class Left(Message):
        """There is nothing to go back from here, but the target itself."""

    def __init__(
        self,
        snapshot: Snapshot,
        recent: Recent,
        clock: Callable[[], float],
        *,
        plain: bool = False,
        denied: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__()
        self._denied = denied
        self._plain = plain
        self._clock = clock
        self._newest = self._shown = snapshot
        self._recent = recent
        self._heard_s = clock()
        self._lost: Lost | None = None
        self._playback: Playback | None = None
        self._recording = False
        self._view = View()
        self._preview: Preview | None = None
        self._staves: list[Stave] = []
        self._entries: list[Entry] = []
        self._name_cells = 0
        self._lags: list[int | None] = []
        self._now_share: float | None = None
        self._findings: Sequence[Finding] = ()
        self._offer: Offer | None = None
        self._applied: Applied | None = None
        self._now: AppliedNow | None = None
        self._focused_before: Widget | None = None

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
        self.set_interval(1.0, self._paint_lines)
        self._adopt()

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self._paint_rules)

    def on_screen_resume(self, event: ScreenResume) -> None:
        if self.is_mounted:
            self._arrange()

    def take(self, snapshot: Snapshot, recent: Recent) -> None:
        """Show `snapshot`; while the picture is frozen only remember it."""
        self._newest, self._recent, self._heard_s = snapshot, recent, self._clock()
        if self._view.frozen or not self.is_mounted:
            return
        self._adopt()

    def lose(self, lost: Lost) -> None:
        """Show that no more will come, and why."""
        self._lost = lost
        if self.is_mounted:
            self._count_findings()
            self._paint()

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

    def use_zone(self, zone: tzinfo | None) -> None:
        """Show times in this zone (None: local) until the user changes it; before the first paint."""
        self._view = replace(self._view, zone=zone)

    @property
    def _lost_text(self) -> str | None:
        return None if self._lost is None else self._lost.text

    @property
    def zone(self) -> tzinfo | None:
        """The zone of the times: UTC, or None for the local one."""
        return self._view.zone

    def commands(self) -> list[tuple[str, str, str]]:
        """What the command palette offers here: title, help, action."""
        freeze = ("Freeze or resume", "Data keeps coming, the picture is frozen", "freeze")
        return [
            ("Type a lateness", "Preview a lateness, then apply it", "type_lateness"),
            ("Filter the channels", "By a regular expression", "filter"),
            ("Sort the channels", "The next order", "sort"),
            ("Linear or log axis", "Event time, or distance behind the fastest channel", "axis"),
            *([freeze] if self._playback is None else []),
            ("Heat map or barrel", "How far each channel was behind, over time", "heat"),
            ("UTC or local time", "How times are shown", "zone"),
            *((link.name, link.about, f"detail('{link.name}')") for link in LINKS if link.name in FURTHER),
        ]

    @property
    def seen(self) -> Seen:
        """What is shown at the moment, for the further screens."""
        replay = self._playback is not None
        top, silent_ms = self._top_lines(), self._silent_ms
        seen = (self._shown, self._recent, self._view, self._preview, top, replay, self._lost_text, silent_ms)
        return Seen(*seen, self._cannot)

    @property
    def _silent_ms(self) -> int | None:
        """How long no snapshot has come; None: of a recording."""
        return None if self._playback is not None else round(1_000 * (self._clock() - self._heard_s))

    def open_detail(self, name: str) -> None:
        """Open a further screen; one that is open already is gone back to."""
        if name in FURTHER:
            self._open(FURTHER[name])

    def open_channel(self, channel: str) -> None:
        """Open a channel's page."""
        self._look(selected=channel)
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
        """Make the newest snapshot the one that is shown."""
        snapshot, before = self._newest, self._shown
        self._shown = snapshot
        self._lags = self._recent.lags(SPARK_CELLS, SPARK_CELL_MS)
        self._now_share = self._recent.late_share()
        self._count_findings()
        if not self._name_cells or len(snapshot.channels) != len(before.channels):
            self._name_cells = name_cells(snapshot)
        self._arrange()

    def _count_findings(self) -> None:
        past = self._recent.until(self._shown)
        self._findings = diagnose(self._shown, past, lost=self._lost_text)
        self._offer = offer_of(self._shown, self._findings)
        if self._applied is not None:
            self._applied = self._applied.seen(self._shown)

    def _arrange(self) -> None:
        """Find and sort what the barrel and the table show, unless something covers them."""
        view = self._view
        if self._detail is not None:
            self._paint()
            return
        self._staves = staves(self._shown, view.inside)
        self._entries = entries(self._shown, view.inside, view.pattern, view.sort, reverse=view.reverse)
        self._paint()

    def _look(self, **changes: Any) -> None:
        """Look at it in another way."""
        self._view = replace(self._view, **changes)

    def _paint(self) -> None:
        snapshot, view = self._shown, self._view
        self._preview = picture.preview_of(snapshot, view.wish)
        self._now = None if view.wish is None or self._preview is None else what_if.now(snapshot, view.wish)
        if (detail := self._detail) is not None:
            detail.take(self.seen)
            return
        self._paint_lines()
        strip = self.query_one(HolderStrip)
        strip.show(picture.held(snapshot, self._recent))
        strip.set_class(target_of(snapshot).one_clock, "-nobody")  # no channel holds back one clock
        if view.heat:
            self.query_one(HeatMap).show(picture.heat(snapshot, view, self._recent, self._entries), self._clock())
        else:
            scene = picture.scene(snapshot, view, self._preview, self._staves)
            self.query_one(Barrel).show(scene, self._clock())
        self.query_one(ChannelTable).show(picture.table(snapshot, view, self._entries, self._name_cells))
        self.query_one(WindowTable).show(picture.open_windows(snapshot, view))
        self._paint_rules()

    def _paint_lines(self) -> None:
        """The lines that also change without a new snapshot."""
        if (detail := self._detail) is not None:
            detail.take_top(self._top_lines())
            return
        self.query_one(TopLines).show(self._top_lines())
        replay = self._playback is not None
        links = link_hints(FURTHER, len(self._findings))
        on_windows = self.focused is self.query_one(WindowTable)
        hints = picture.hints(self._shown, self._view, self._preview, links, replay=replay, on_windows=on_windows)
        self.query_one("#keys", KeyLine).show(allowed(hints, self._cannot))

    @property
    def _cannot(self) -> frozenset[str]:
        """The actions that this screen does not have; for an attached query `apply` only copies a line."""
        return self._denied - CHANGES_ENGINE if target_of(self._shown).is_attached else self._denied

    def _top_lines(self) -> Top:
        snapshot, view = self._shown, self._view
        now, words = self._condition(), presenter_of(snapshot)
        return Top(
            status=status_parts(snapshot, now, view.zone),
            verdict=verdict_parts(
                snapshot,
                self._findings,
                offer=self._offer,
                lost=self._lost_text,
                silent_ms=self._silent_ms,
                key=hint("verdict-fix").keys,
            ),
            story=Story(watermark_parts(snapshot, view.zone), words.holder(view.zone), self._lags),
            tuning=words.tuning(self._preview, self._now_share),
            now=self._now_line(words.can_apply),
            from_start=from_start_parts(snapshot, self._preview) if self._preview and words.can_apply else (),
            banner=None if now.note is None else (now.note, now.ink),
            log=snapshot.log if now.ink == "bad" else None,
        )

    def _now_line(self, can_apply: bool) -> Sequence[Part]:
        if self._preview is not None:
            return now_parts(self._shown, self._now, can_apply=can_apply)
        return () if self._applied is None else self._applied.parts(self._shown)

    def _condition(self) -> Condition:
        if self._playback is not None:
            return replay_condition(self._shown, self._playback)
        silent_s = self._clock() - self._heard_s
        now = condition(self._shown, frozen=self._view.frozen, silent_s=silent_s, lost=self._lost)
        return replace(now, word=f"{now.word} · REC") if self._recording else now

    def _paint_rules(self) -> None:
        snapshot, view = self._shown, self._view
        barrel, windows = self.query_one(Barrel), self.query_one(WindowTable)
        top = picture.barrel_heading(snapshot, view, self._preview, self._staves, barrel.prefix)
        split = windows.region.x if windows.display else 0
        on_channels = bool(split) and self.focused is self.query_one(ChannelTable)
        headings: list[Heading] = [picture.channel_heading(snapshot, view, self._entries, focused=on_channels)]
        if split:
            on_windows = self.focused is windows
            headings.append(picture.window_heading(snapshot, split, windows.region.width, focused=on_windows))
        self.query_one("#top", Rule).show([top], {})
        self.query_one("#middle", Rule).show(headings, {split: "┬"} if split else {})
        self.query_one("#bottom", Rule).show([], {split: "┴"} if split else {})

    # Tuning

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("apply", "drop"):
            return self._preview is not None
        return action not in ("freeze", "auto") or self._playback is None

    def action_lateness(self, direction: int) -> None:
        """Move the previewed lateness to the next value for which the answer is exact."""
        snapshot, wish = self._shown, self._view.wish
        if not self._tunable():
            return
        here = wish.value_ms if wish and not wish.idle else snapshot.settings.lateness_ms
        there = what_if.step_lateness(snapshot, here or 0, direction)
        if there is not None:
            self.want(Wish(False, there))
        elif not snapshot.whatif:
            self._say(presenter_of(snapshot).no_steps())

    def action_idle(self, direction: int) -> None:
        """Move the previewed idle timeout along its ladder."""
        snapshot, wish = self._shown, self._view.wish
        here = wish.value_ms if wish and wish.idle else snapshot.settings.idle_after_ms
        found, there = what_if.step_idle(snapshot, here, direction)
        if found:
            self.want(Wish(True, there))
        elif not snapshot.whatif_idle:
            self._say(presenter_of(snapshot).no_steps())

    def action_fix(self) -> None:
        """Preview the setting that the verdict's line names."""
        if self._offer is None:
            self._say(f"No setting fixes this: the doctor ({hint('doctor').keys}) says what does")
        else:
            self.want(self._offer.wish)

    def action_type_lateness(self) -> None:
        """Ask for a lateness."""
        if self._tunable():
            self._ask("lateness", "lateness", "", self._how_to_type)

    @property
    def _how_to_type(self) -> str:
        if self._playback is not None:
            return HOW_TO_PREVIEW
        return presenter_of(self._shown).how_to_type

    def action_apply(self) -> None:
        """Send the previewed setting to the engine; of others' query copy the line to change in its job."""
        wish = self._view.wish
        if wish is None:
            return
        if "apply" in self._cannot:
            self._say(READ_ONLY)
            return
        if (line := line_in_job(self._shown, wish.value_ms, idle=wish.idle)) is not None:
            app_of(self).copy_to_clipboard(line)
            then = restart_words(self._shown, wish.value_ms)
            self.notify(f"Change this line in the job (copied)\n{line}{then}", markup=False, timeout=15)
            self.action_drop()
            return
        self._change(wish)
        self.action_drop()

    def _change(self, wish: Wish) -> None:
        """Have the engine change a setting, and remember what it was."""
        settings = self._shown.settings
        before = Wish(wish.idle, settings.idle_after_ms if wish.idle else settings.lateness_ms)
        self._applied = Applied(wish, before, settings.version)
        if wish.idle:
            change = Change(id=0, idle_after_ms=wish.value_ms, who="screen")
        else:
            change = Change(id=0, lateness_ms=wish.value_ms or 0, who="screen")
        self.post_message(self.ApplyWanted(change, wish.words()))

    def action_auto(self) -> None:
        """Switch the autopilot on or off."""
        why = READ_ONLY if "auto" in self._cannot else auto_refusal(self._shown)
        if why is not None:
            self._say(why)
            return
        target = next_target(self._shown)
        self.post_message(self.ApplyWanted(Change(id=0, auto_lateness=target, who="screen"), target_words(target)))

    def action_undo(self) -> None:
        """Undo the last change that this screen made."""
        if "undo" in self._cannot:
            self._say(READ_ONLY)
        elif self._applied is None or not self._applied.in_force(self._shown):
            self._say("Nothing to undo: this screen has changed no setting that is still in force")
        else:
            self._change(self._applied.before)

    def action_drop(self) -> None:
        """Drop the preview."""
        if self.query_one(Prompt).purpose == "lateness":
            self._close_prompt()
        self.want(None)

    def want(self, wish: Wish | None) -> None:
        """Preview a setting, or none."""
        settings = self._shown.settings
        if wish is not None and wish.value_ms == (settings.idle_after_ms if wish.idle else settings.lateness_ms):
            wish = None
        self._look(wish=wish)
        self._paint()

    def _tunable(self) -> bool:
        why = presenter_of(self._shown).untunable()
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
        if event.purpose == "filter":
            if (error := self._filter_by(event.text)) is None:
                prompt.say(HOW_TO_FILTER)
            else:
                prompt.say(error, error=True)
            return
        try:
            self.want(Wish(False, f.parse_duration(event.text)))
        except ValueError:
            self.want(None)
        prompt.say(self._how_to_type)

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
            pattern = pattern_of(text)
        except ValueError as error:
            return str(error)
        self._look(pattern=pattern)
        self._arrange()
        return None

    # Looking

    def action_filter(self) -> None:
        """Ask for a filter."""
        pattern = self._view.pattern
        self._ask("filter", "/", pattern.pattern if pattern else "", HOW_TO_FILTER)

    def action_sort(self) -> None:
        """Sort the channels in the next order."""
        self._look(sort=next_sort(self._view.sort), reverse=False)
        self._arrange()

    def action_reverse(self) -> None:
        """Sort the channels the other way round."""
        self._look(reverse=not self._view.reverse)
        self._arrange()

    def on_channel_table_sort_wanted(self, event: ChannelTable.SortWanted) -> None:
        if event.sort == self._view.sort:
            self.action_reverse()
        else:
            self._look(sort=event.sort, reverse=False)
            self._arrange()

    def action_axis(self) -> None:
        """Event time, or the distance behind the fastest channel."""
        self._look(logarithmic=not self._view.logarithmic)
        self._paint()

    def action_heat(self) -> None:
        """The heat map in the barrel's place, or the barrel again."""
        self._look(heat=not self._view.heat)
        self.query_one(Barrel).display = not self._view.heat
        self.query_one(HeatMap).display = self._view.heat
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
        """Open the selected (else the holding, else the first) stave: the channels inside it, or the channel's page.

        With the focus on the windows: the selected window's page, of several that wait alike the list.
        """
        snapshot, view = self._shown, self._view
        if self.focused is (windows := self.query_one(WindowTable)):
            self._open_windows(windows.chosen)
        elif snapshot.instances and view.inside is None:
            holder = snapshot.level.holder
            key = picture.stave_of(snapshot, view) or (holder.channel if holder else None)
            chosen = next((i for i in snapshot.instances if i.channel == key), snapshot.instances[0])
            self._look(inside=chosen.instance)
            self._arrange()
        elif self._entries:
            known = [entry.view.channel for entry in self._entries]
            wanted = (view.selected, holding(snapshot), known[0])
            self.open_channel(next(channel for channel in wanted if channel in known))

    def _open_windows(self, group: WindowGroup | None) -> None:
        if group is None or len(group.windows) > 1:
            self.open_detail(WindowsScreen.NAME)
        else:
            app_of(self).push_screen(WindowScreen(self, key_of(group.first)))

    def action_detail(self, name: str) -> None:
        """Open a further screen."""
        self.open_detail(name)

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
        else:
            self.post_message(self.Left())

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

    def on_holder_strip_picked(self, event: HolderStrip.Picked) -> None:
        self.open_detail(HistoryScreen.NAME)

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
            self._paint_lines()
            self._paint_rules()

    def on_channel_table_moved(self, event: ChannelTable.Moved) -> None:
        self._select(event.channel)

    # What it gives away

    def chosen(self) -> Chosen | None:
        """The selected row: of the channels, or with the focus there of the windows."""
        windows, table = self.query_one(WindowTable), self.query_one(ChannelTable)
        if self.focused is windows and windows.chosen is not None:
            return Chosen(windows.chosen_line.partition("  ")[0], windows.chosen_line)
        channel = self._view.selected or holding(self._shown)
        line = None if channel is None else table.line(channel)
        return None if channel is None or line is None else Chosen(f.clean(channel), line)

    def records(self) -> Records:
        """The channels as they are filtered and sorted, or with the focus there the open windows."""
        if self.focused is self.query_one(WindowTable):
            return Records("windows", self._shown.windows.open)
        return Records("channels", [entry.view for entry in self._entries])

    def on_heat_map_picked(self, event: HeatMap.Picked) -> None:
        self._select(event.key)

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
