"""A recording in place of a client: the same messages as an engine's stream, at the replay's speed."""

import asyncio
import time
from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress

from msgspec.structs import replace

from ...engine.feed.messages import Change, FromEngine, Header, Reply, ToEngine
from ...engine.feed.recording_reader import RecordingReader
from ...engine.snapshot import Snapshot
from ...engine.system.errors import RunError
from ...engine.text.formatting import first_line
from ...engine.verdict.history import KEEP_MS, HistoryPoint
from ...engine.watermarks.counts import PointSample
from ..words.progress import Playback

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
