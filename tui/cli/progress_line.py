"""How far a replay has been read, on standard error: one line that is redrawn, or a line now and then."""

import time
from collections.abc import Callable

from ...engine.snapshot import Snapshot
from ...engine.watermarks.counts import RateMeter
from ..words.progress import bar, progress

REDRAW_S = 0.2
LINE_EVERY_S = 10.0
_CLEAR = b"\r\x1b[K"


class ProgressLine:
    """Follows a run's snapshots; on a terminal what else is written there must go through `above`."""

    def __init__(
        self, write: Callable[[bytes], None], *, terminal: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._write = write
        self._terminal = terminal
        self._clock = clock
        self._rates = RateMeter()
        self._every_s = REDRAW_S if terminal else LINE_EVERY_S
        self._drawn_s = clock() - (REDRAW_S if terminal else 0.0)
        self._drawn = b""

    def show(self, snapshot: Snapshot, last: bool) -> None:
        """Draw how far the source has been read; with the last snapshot the line goes away."""
        source, now = snapshot.source, self._clock()
        if last:
            self._draw(b"")
            return
        if source is None or source.rows_read is None:
            return
        rate = self._rates.rates(now, {"rows": source.rows_read}).get("rows")
        text = progress(source, rate)
        if text is None or now - self._drawn_s < self._every_s:
            return
        self._drawn_s = now
        if self._terminal:
            self._draw(f"{bar(source)} {text}".encode())
        else:
            self._write(f"wmtop: {text}\n".encode())

    def above(self, line: bytes) -> None:
        """Write a line of something else; the progress is drawn again with the next snapshot."""
        self._draw(b"")
        self._write(line)

    def _draw(self, line: bytes) -> None:
        before, self._drawn = self._drawn, line
        if line != before:
            self._write(_CLEAR + line)
