"""Prints an engine's output on separate threads, so that a reader that stops reading does not block the engine.

Also how far a replay has been read: on standard error, one line that is redrawn, or a line now and then.
"""

import os
import select
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from ...engine.feed.messages import encode
from ...engine.snapshot import Snapshot
from ...engine.text.formatting import counted
from ...engine.watermarks.counts import RateMeter
from ..words.progress import bar, progress

LIMIT_BYTES = 16 * 1024 * 1024
"""Bytes that may wait for a reader, at most; beyond that the oldest lines are dropped."""
PATIENCE_S = 2.0
"""Longest wait (s) at the end for a reader that has stopped reading."""
_CHUNK_BYTES = 64 * 1024
REDRAW_S = 0.2
LINE_EVERY_S = 10.0
_CLEAR = b"\r\x1b[K"


class LineWriter:
    """Writes lines to a file descriptor; `write` returns at once.

    Lines wait for a slow reader up to `limit_bytes`, then the oldest of them are dropped, never the newest.
    `on_error` is called once, on the writing thread, when writing has failed (a closed pipe: BrokenPipeError); from
    then on every line is dropped.
    """

    def __init__(
        self,
        descriptor: int,
        *,
        limit_bytes: int = LIMIT_BYTES,
        on_error: Callable[[OSError], None] = lambda error: None,
    ) -> None:
        self.dropped = 0
        """How many lines were dropped because of a slow reader."""
        self._descriptor = descriptor
        self._limit_bytes = limit_bytes
        self._on_error = on_error
        self._changed = threading.Condition()  # guards everything below
        self._lines: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._written_bytes = 0
        self._writing = self._failed = False
        self._thread: threading.Thread | None = None

    def write(self, line: bytes) -> None:
        """Write one line, its newline included, when its turn comes."""
        with self._changed:
            if self._failed:
                return
            self._lines.append(line)
            self._waiting_bytes += len(line)
            while self._waiting_bytes > self._limit_bytes and len(self._lines) > 1:
                self._waiting_bytes -= len(self._lines.popleft())
                self.dropped += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="wmtop-output", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, patience_s: float | None = PATIENCE_S) -> bool:
        """Wait until all is written; False if the reader took nothing for `patience_s` (None: wait for ever)."""
        with self._changed:
            while (self._lines or self._writing) and not self._failed:
                before = self._written_bytes
                if not self._changed.wait(patience_s) and self._written_bytes == before:
                    return False
            return not self._failed

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._lines:
                    self._changed.wait()
                line = self._lines.popleft()
                self._waiting_bytes -= len(line)
                self._writing = True
            try:
                self._write_out(line)
            except OSError as error:
                with self._changed:
                    self._failed = True
                    self._lines.clear()
                    self._changed.notify_all()
                self._on_error(error)
                return
            with self._changed:
                self._writing = False
                self._changed.notify_all()

    def _write_out(self, line: bytes) -> None:
        left = memoryview(line)
        while left:
            try:
                size = os.write(self._descriptor, left[:_CHUNK_BYTES])
            except BlockingIOError:  # the parent process has made the descriptor non-blocking
                select.select([], [self._descriptor], [])
                continue
            left = left[size:]
            with self._changed:
                self._written_bytes += size
                self._changed.notify_all()


def redirect_output(log: Path) -> LineWriter:
    """Redirect standard error of this process and its children to the log; returns a writer to the original."""
    real = os.dup(2)
    os.set_inheritable(real, False)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    return LineWriter(real)


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


class SnapshotPrinter:
    """Prints an engine's snapshots on standard output: each as a line of JSON, or only the last, as JSON or as text.

    A reader that stops reading holds nothing back: of a live engine it misses the oldest lines beyond `LIMIT_BYTES`,
    and what it has not taken when the engine has ended and `PATIENCE_S` have passed. With `once` the one line waits
    until it is read. When the reader is gone (`| head -1`) the engine stops in good order.
    """

    def __init__(self, *, json: bool, once: bool) -> None:
        self._json = json
        self._once = once
        self._last = False
        self._error: OSError | None = None
        self._progress: ProgressLine | None = None
        self._errors: LineWriter | None = None
        self._writer = LineWriter(1, on_error=self._give_up)

    def show_progress(self, errors: LineWriter, *, terminal: bool) -> Callable[[bytes], None]:
        """With `once`: write how far the source has been read as well, with `--json` to a terminal only.

        Returns what other lines for the same reader must be written with.
        """
        if not self._once or (self._json and not terminal):
            return errors.write
        self._progress, self._errors = ProgressLine(errors.write, terminal=terminal), errors
        return self._progress.above

    def show(self, snapshot: Snapshot, last: bool) -> None:
        """Print a snapshot, if it is one to be printed; returns at once."""
        self._last = last
        if self._progress is not None:
            self._progress.show(snapshot, last)
            if last and self._errors is not None:
                self._errors.flush()  # both may be one terminal: the progress goes before the summary comes
        if self._json and (last or not self._once):
            self._writer.write(encode(snapshot) + b"\n")
        elif last and not self._json:
            from ..words.summary import summary

            self._writer.write(f"{summary(snapshot)}\n".encode())

    def close(self, say: Callable[[str], None]) -> int:
        """Wait for the reader of the remaining lines; 0, or 1 if they were not printed (`say` gets the reason)."""
        if self._once:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)  # the engine is gone: a signal ends the waiting
            self._writer.flush(None)
        else:
            self._writer.flush()
        if self._writer.dropped:
            say(f"--json: the reader was too slow; not printed: {counted(self._writer.dropped, 'snapshot')}")
        if self._error is not None and not isinstance(self._error, BrokenPipeError):
            say(f"cannot write standard output: {self._error.strerror}; free some space, or print elsewhere")
            return 1
        return 0

    def _give_up(self, error: OSError) -> None:
        self._error = error
        if not self._last:
            os.kill(os.getpid(), signal.SIGTERM)
