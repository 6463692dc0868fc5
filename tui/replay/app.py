"""The app on a recording: the same screens, a timeline below them, and the keys that move on it."""

import time
from collections.abc import Callable, Iterable
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any, ClassVar

from textual.app import ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import Input

from ...engine.feed.messages import Header
from ...engine.feed.recording_reader import RecordingReader
from ...engine.snapshot import Snapshot
from ...engine.text.formatting import MOMENT_HOW, parse_moment
from ..screens.app import FromFeed, WmtopApp
from ..screens.help import commands
from ..screens.incident_report import Incident, incident_of
from ..screens.main import MainScreen
from ..widgets.canvas import Picked, bindings
from ..widgets.lines import Prompt
from ..words.history import log_of
from ..words.recent import Recent
from .player import Player
from .timeline import ReplayBar, Timeline, marks_of

_HOW_TO_TYPE = "14:30 · 02-08 14:30 · +10m · Esc stays"


class GoToScreen(ModalScreen[int | None]):
    """Asks for a time, read at `now_ms` in `zone`, of a recording from the first to the last ms of `within`; dismissed
    with it (epoch ms), or with None to stay.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "stay")]

    def __init__(self, now_ms: int, zone: tzinfo | None, within: tuple[int, int]) -> None:
        super().__init__()
        self._now_ms, self._zone, self._within = now_ms, zone, within

    def compose(self) -> ComposeResult:
        yield Prompt()

    def on_mount(self) -> None:
        self.query_one(Prompt).open("time", "go to", "", _HOW_TO_TYPE)

    def on_input_changed(self, event: Input.Changed) -> None:
        self.query_one(Prompt).say(None)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        try:
            self.dismiss(parse_moment(event.value, self._now_ms, self._zone, self._within))
        except ValueError as error:
            self.query_one(Prompt).say(str(error) if event.value.strip() else MOMENT_HOW)


_NEAR_MS, _READ = 60_000, 60
"""A jump farther than this (ms) reads this many snapshots before it, for the channels' past states."""
SCRUB = 0.05
"""The share of the recording that one key press scrubs over."""


class ReplayApp(WmtopApp):
    """Shows `recording`, which has a snapshot at least, from snapshot `number` on."""

    REPLAYS = True
    BINDINGS: ClassVar[list[BindingType]] = bindings("replay")

    def __init__(
        self,
        recording: RecordingReader,
        *,
        speed: float = 1.0,
        number: int = 0,
        playing: bool = True,
        clock: Callable[[], float] = time.monotonic,
        denied: frozenset[str] = frozenset(),
        preferences_file: Path | None = None,
    ) -> None:
        self._replay = replay = Player(recording, speed=speed, number=number, playing=playing, clock=clock)
        super().__init__(replay, on_quit="leave", clock=clock, denied=denied, preferences_file=preferences_file)
        self._recording = recording
        self._whole_log = log_of(recording.points, recording.at(len(recording) - 1))
        self._marks = marks_of(recording.points, replay.play_ms)
        self._main = MainScreen(recording.at(number), Recent(log=self._whole_log), clock, denied=denied)

    def get_default_screen(self) -> Screen[Any]:
        assert self._main is not None
        return self._main

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        yield from super().get_system_commands(screen)
        yield from commands(self, "replay")

    def on_mount(self) -> None:
        self.screen_change_signal.subscribe(self, self._changed_to)  # pyright: ignore[reportUnknownMemberType]
        self.set_interval(0.25, self._show)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return False if action == "record" else super().check_action(action, parameters)

    def _recent_of(self, header: Header) -> Recent:
        """The history at a jump: each jump brings a header; the channels' past is kept, or read again."""
        recent = Recent(header.history, header.points, self._whole_log)
        number = self._replay.playback.number
        point, last_ms = self._recording.points[number], self._recent.past.last_wall_ms
        if point is not None and last_ms is not None and 0 <= point.wall_ms - last_ms <= _NEAR_MS:
            recent.past = self._recent.past
        else:
            for snapshot in self._replay.before(number, _READ):
                recent.past.add(snapshot)
        return recent

    def on_from_feed(self, event: FromFeed) -> None:
        if isinstance(event.content, Snapshot):
            self._show()

    async def _incident(self) -> Incident | None:
        return incident_of(self._recording, self._replay.playback.number)

    def _look_for_silence(self) -> None:
        """Never: a paused recording is not lost."""

    def show_moment(self, wall_ms: int) -> None:
        """Go to the moment of an event, and pause there."""
        points = self._recording.points
        after = (n for n, point in enumerate(points) if point is not None and point.wall_ms >= wall_ms)
        self._replay.step(next(after, len(points) - 1) - self._replay.playback.number)
        self._show()

    def on_picked(self, event: Picked) -> None:
        if isinstance(event.control, Timeline):
            self._replay.go_to(self._replay.number_at(event.value))
            self._show()

    def action_play(self) -> None:
        """Play or pause."""
        self._replay.toggle()
        self._show()

    def action_step(self, by: int) -> None:
        """Go one snapshot forward or back."""
        self._replay.step(by)
        self._show()

    def action_speed(self, direction: int) -> None:
        """Faster or slower."""
        self._replay.faster(direction)
        self._show()

    def action_scrub(self, direction: int) -> None:
        """Scrub forward or back."""
        self._replay.scrub(direction * SCRUB)
        self._show()

    def action_mark(self, direction: int) -> None:
        """Go to the next or previous mark, and pause there."""
        here = self._replay.playback.number
        starts = [mark.start for mark in self._marks if (mark.start - here) * direction > 0]
        if starts:
            self._replay.step((min(starts) if direction > 0 else max(starts)) - here)
        self._show()

    def action_go_to(self) -> None:
        """Ask for a time, and go there."""
        point, within = self._recording.points[self._replay.playback.number], self._recording.span_ms
        if point is not None and within is not None and not isinstance(self.screen, GoToScreen):
            self.push_screen(GoToScreen(point.now_ms, self._zone, within), self._go_to)

    def _go_to(self, now_ms: int | None) -> None:
        if now_ms is not None:
            self._replay.go_to(self._recording.seek(now_ms))
            self._show()

    @property
    def _zone(self) -> tzinfo | None:
        return self._main.shown.view.zone if self._main is not None else UTC

    def _changed_to(self, screen: Screen[Any]) -> None:
        screen.call_after_refresh(self._show)

    def bars(self) -> Iterable[Widget]:
        """The timeline, which is above the footer of every screen that is not a dialog."""
        yield ReplayBar(self._recording.points, self._replay.play_ms, self._marks)

    def _show(self) -> None:
        """Show the position in the main screen and the bars."""
        playback = self._replay.playback
        if self._main is not None:
            self._main.play(playback)
        for screen in self.screen_stack:
            for bar in screen.query(ReplayBar):
                bar.show(playback.number, playback.playing, self._zone)
