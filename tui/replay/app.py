"""The app on a recording: the same screens, a timeline below them, the keys that move on it, and what plays it."""

import asyncio
import time
from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any, ClassVar

from msgspec.structs import replace
from textual.app import ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import Input

from ...engine.feed.messages import Change, FromEngine, Header, Reply, ToEngine
from ...engine.feed.recording_reader import RecordingReader
from ...engine.snapshot import Snapshot
from ...engine.system.errors import RunError
from ...engine.text.formatting import MOMENT_HOW, first_line, parse_moment
from ...engine.verdict.history import KEEP_MS, HistoryPoint
from ...engine.watermarks.counts import PointSample
from ..screens.app import FromFeed, WmtopApp
from ..screens.help import commands
from ..screens.incident_report import Incident, incident_of
from ..screens.main import MainScreen
from ..widgets.canvas import Picked, bindings
from ..widgets.lines import Prompt
from ..words.history import log_of
from ..words.progress import Playback
from ..words.recent import Recent
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


SPEEDS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
MAX_WAIT_MS = 5_000
"""A gap in the recording is shortened to at most this."""
FRAME_S = 0.05
"""At most one snapshot is shown in this time: at high speed most are skipped."""
REFUSED = "A recording cannot be changed"
TRUNCATED = "Not closed: it ends at its last complete snapshot (still being written, or killed)"


class Player:
    """Plays `recording`, from snapshot `number` on, `speed` times as fast as it was; belongs to one event loop.

    It yields the messages of a client; after skipped snapshots, a header with the history of the last minutes comes
    first.
    """

    def __init__(
        self,
        recording: RecordingReader,
        *,
        speed: float = 1.0,
        number: int = 0,
        playing: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._recording = recording
        self._clock = clock
        self._speed = speed
        self._number = number
        self._playing = playing
        self._began_s = clock()
        self._began_ms = 0.0
        self._replies: list[Reply] = []
        self._fault: str | None = None
        self._changed = asyncio.Event()
        self._closed = False
        self.play_ms = play_times(recording.points)
        self._anchor()

    @property
    def playback(self) -> Playback:
        """The current position."""
        note = self._fault or (TRUNCATED if self._recording.truncated else None)
        return Playback(self._number, len(self.play_ms), self._playing, self._speed, note)

    def before(self, number: int, most: int) -> list[Snapshot]:
        """At most `most` readable snapshots before number `number`."""
        out: list[Snapshot] = []
        with suppress(RunError):  # reading the snapshot itself reports the damage
            out.extend(self._recording.at(place) for place in range(max(number - most, 0), number))
        return out

    async def messages(self) -> AsyncIterator[FromEngine]:
        """A header, then the snapshots as they are due, until `close`."""
        shown: int | None = None
        while not self._closed:
            self._changed.clear()
            while self._replies:
                yield self._replies.pop(0)
            number = self._advance()
            if number != shown:
                if shown is None or number != shown + 1:
                    yield self._header(number)
                shown = number
                try:
                    self._fault = None
                    yield self._recording.at(number)
                except RunError as error:
                    self._fault = first_line(str(error))
            await self._pause()

    async def send(self, command: ToEngine) -> None:
        """Refuse a change: a recording cannot be changed."""
        if isinstance(command, Change):
            self._replies.append(Reply(id=command.id, ok=False, text=REFUSED))
            self._changed.set()

    async def close(self) -> None:
        """Stop; `messages` ends."""
        self._closed = True
        self._changed.set()

    # The controls

    def toggle(self) -> None:
        """Play or pause; at the end, play it again."""
        self._advance()
        self._playing = not self._playing
        if self._playing and self._number + 1 == len(self.play_ms):
            self._number = 0
        self._anchor()

    def faster(self, direction: int) -> None:
        """The next speed up (1) or down (-1)."""
        self._advance()
        steps = SPEEDS if direction > 0 else SPEEDS[::-1]
        self._speed = next((step for step in steps if (step - self._speed) * direction > 0), self._speed)
        self._anchor()

    def step(self, by: int) -> None:
        """Move by `by` snapshots, and pause there."""
        self._playing = False
        self.go_to(self._number + by)

    def scrub(self, share: float) -> None:
        """Move by a share of the whole recording, by at least one snapshot."""
        here = self.play_ms[self._number]
        there = self.number_at(here + share * self.play_ms[-1])
        least = self._number + (1 if share > 0 else -1)
        self.go_to(max(there, least) if share > 0 else min(there, least))

    def go_to(self, number: int) -> None:
        """Move to a snapshot, or to the nearest one."""
        self._number = min(max(number, 0), len(self.play_ms) - 1)
        self._anchor()

    def number_at(self, play_ms: float) -> int:
        """The snapshot that is shown after `play_ms` of playing at speed 1."""
        return max(bisect_right(self.play_ms, play_ms) - 1, 0)

    def _anchor(self) -> None:
        """Count time from now on, at the present position."""
        self._began_s, self._began_ms = self._clock(), self.play_ms[self._number]
        self._changed.set()

    def _advance(self) -> int:
        """The snapshot that is due."""
        if self._playing:
            played = (self._clock() - self._began_s) * 1000 * self._speed
            self._number = max(self.number_at(self._began_ms + played), self._number)
            self._playing = self._number + 1 < len(self.play_ms)
        return self._number

    async def _pause(self) -> None:
        """Wait for the next snapshot, or for a control."""
        wait_s: float | None = None
        if self._playing:
            due_s = (self.play_ms[self._number + 1] - self._began_ms) / 1000 / self._speed
            wait_s = max(due_s - (self._clock() - self._began_s), FRAME_S)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), wait_s)

    def _header(self, number: int) -> Header:
        """The recording's own header, with the history of the minutes before a snapshot."""
        first = bisect_left(self.play_ms, self.play_ms[number] - KEEP_MS)
        try:
            sample = PointSample(self._recording.sample(first, number)).points
        except RunError:  # reading the snapshot itself reports the damage
            sample = []
        here = self._recording.points[number]
        history = [
            point
            for point in self._recording.points[first:number]
            if point is not None and here is not None and here.wall_ms - KEEP_MS <= point.wall_ms <= here.wall_ms
        ]
        return replace(self._recording.header, history=history, points=sample)


def play_times(points: Sequence[HistoryPoint | None]) -> list[int]:
    """When each snapshot is shown at speed 1 (ms from the first); no two at once, and no long wait."""
    out: list[int] = []
    now = 0
    before: int | None = None
    for number, point in enumerate(points):
        wait = 0 if point is None or before is None else point.wall_ms - before
        now += min(max(wait, 1), MAX_WAIT_MS) if number else 0
        before = before if point is None else point.wall_ms
        out.append(now)
    return out
