"""What every engine process has around its work: the stream, the recording, the steps of its start, its signals."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..core.settings import Settings
from ..core.snapshot import EngineState, Snapshot, SourceView, Step
from ..errors import RunError
from .messages import Change, Header, Reply, ToEngine
from .publisher import Publisher
from .recording import RecordingWriter
from .ring import Bounds
from .rundir import Claim

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Host:
    """One engine process; `say` gets lines for the user, `on_snapshot` each snapshot and whether it is the last.

    `describe` and `notes` are asked for the snapshots of the start. `on_change` runs on a thread of its own; an order
    to stop sets `stopping`, as signals do once `take_signals` was called.
    """

    def __init__(
        self,
        claim: Claim,
        settings: Settings,
        *,
        describe: Callable[[], SourceView],
        notes: Callable[[], list[str]],
        on_change: Callable[[Change], Reply],
        on_snapshot: Callable[[Snapshot, bool], None],
        say: Callable[[str], None],
    ) -> None:
        run = claim.run
        self.name = run.name
        self.stopping = threading.Event()
        self._log = run.log
        self._settings = settings
        self._describe = describe
        self._notes = notes
        self._on_change = on_change
        self._on_snapshot = on_snapshot
        self._say = say
        self._steps: list[Step] = []
        self._signal: int | None = None
        self._takes_signals = False
        self._recording: RecordingWriter | None = None
        self._header = Header(
            name=run.name, pid=os.getpid(), started_ms=run.started_ms, source=describe(), settings=settings
        )
        self._publisher = Publisher(run.socket, self._header, self._command)

    def begin(self, *, record: Path | None, bounds: Bounds, stop_on_eof: bool) -> None:
        """Begin the recording, and leave at once on a signal: until `take_signals` there is nothing to finish."""
        for number in SIGNALS:
            signal.signal(number, _exit_at_once)
        if stop_on_eof:
            threading.Thread(target=_stop_at_eof, name="wmtop-parent", daemon=True).start()
        if record is not None:
            self._recording = RecordingWriter(record, self._header, bounds)

    def take_signals(self) -> None:
        """From here on signals set `stopping`."""

        def on_signal(number: int, _frame: Any) -> None:
            self._signal = number
            self.stopping.set()

        for number in SIGNALS:
            signal.signal(number, on_signal)
        self._takes_signals = True

    @property
    def exit_code(self) -> int:
        """What the process ends with when it was not an error."""
        return 128 + self._signal if self._signal else 0

    def publish(self, snapshot: Snapshot, *, last: bool = False) -> None:
        """Show a snapshot to everybody: viewers, the recording, who reads its output."""
        self._publisher.publish(snapshot)
        if snapshot.state != "starting":
            self._record(snapshot)
            self._on_snapshot(snapshot, last)

    def fail(self, error: Exception) -> None:
        """Publish that the engine has failed, and why in one line."""
        self.publish(self._bare("failed", error=str(error).splitlines()[0] if str(error) else repr(error)))

    @contextmanager
    def step(self, name: str) -> Generator[None]:
        """A step of the start: shown while it runs, with its seconds once it is done."""
        began = time.monotonic()
        self.open_step(name)
        yield
        self._steps = [*self._steps[:-1], Step(name, time.monotonic() - began)]

    def open_step(self, name: str) -> None:
        """A step of the start that ends with the start itself."""
        self._steps = [*self._steps, Step(name)]
        self.publish(self._bare("starting"))

    def report(self, text: str) -> None:
        """What the step that runs is at."""
        self._steps = [*self._steps[:-1], Step(text)]
        self.publish(self._bare("starting"))

    def started(self) -> None:
        """The start is over: its steps are shown no more."""
        self._steps = []

    def close(self) -> None:
        """End the recording and hang up on the viewers."""
        if self._recording is not None:
            with suppress(RunError):  # a full disk: what was written before is there
                self._recording.close()
        self._publisher.close()

    def _record(self, snapshot: Snapshot) -> None:
        """Where a recording cannot go on, the run does."""
        if self._recording is not None:
            try:
                self._recording.append(snapshot)
            except RunError as error:
                self._recording = None
                self._say(f"{error}; the run goes on without it")

    def _bare(self, state: EngineState, *, error: str | None = None) -> Snapshot:
        """A snapshot before there is a picture, or without trusting it."""
        return Snapshot(
            name=self.name,
            state=state,
            wall_ms=time.time_ns() // 1_000_000,
            settings=self._settings,
            source=self._describe(),
            steps=list(self._steps),
            error=error,
            notes=self._notes(),
            log=self._log,
        )

    def _command(self, command: ToEngine) -> Reply:
        if isinstance(command, Change):
            return self._on_change(command)
        self.stopping.set()
        if not self._takes_signals:  # still starting: nobody looks at `stopping` yet
            os.kill(os.getpid(), signal.SIGTERM)
        return Reply(id=command.id, ok=True, text="stopping")


def _exit_at_once(number: int, _frame: Any) -> None:
    raise SystemExit(128 + number)


def _stop_at_eof() -> None:
    while sys.stdin.buffer.read(4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
