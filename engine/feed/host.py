"""The services of every engine process: stream, recording, the steps of its start, signals."""

import os
import signal
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..snapshot import EngineState, Note, Reason, Snapshot, SourceView, Step, TargetPart, Verdict
from ..system import clock
from ..system.errors import RunError, first_line
from ..system.files import Existing
from ..verdict.verdict import verdict_of
from ..watermarks.settings import Settings
from .alert_command import AlertCommand
from .messages import Change, Header, Reply, ToEngine
from .publisher import Publisher
from .recording_writer import BackgroundWriter, Bounds, RecordingWriter
from .run_directory import Claim

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
STEP_STALE_AFTER_S = 60.0
"""Time (s) without progress of a start step after which the run is shown as stale."""
_PULSE_S = 1.0


class Subject(Struct, frozen=True):
    """What an engine follows, as far as it is known without data: during the start, and after a failure."""

    settings: Settings
    empty: TargetPart
    """The part of its kind of target of which nothing is known."""
    describe: Callable[[], SourceView]
    notes: Callable[[], list[Note]]


class Host:
    """One engine process; `say` gets lines for the user, `on_snapshot` each snapshot and whether it is the last.

    `subject` is used for the snapshots of the start. `on_change` runs on a thread of its own. A Stop
    command sets `stopping`, as do signals after `take_signals`. `say` and `on_snapshot` must return at once, even if no
    program reads their output.
    """

    def __init__(
        self,
        claim: Claim,
        subject: Subject,
        *,
        on_change: Callable[[Change], Reply],
        on_snapshot: Callable[[Snapshot, bool], None],
        say: Callable[[str], None],
    ) -> None:
        run = claim.run
        self.name = run.name
        self.stopping = threading.Event()
        self._log = run.log
        self._subject = subject
        self._on_change = on_change
        self._on_snapshot = on_snapshot
        self._say = say
        self._steps: list[Step] = []
        self._progress_s: float | None = None
        """When the running step last showed progress (monotonic s); None: no step has to."""
        self._start_over = threading.Event()
        self._signal: int | None = None
        self._takes_signals = False
        self._recording: BackgroundWriter | None = None
        self._alerts: AlertCommand | None = None
        self._last_state: EngineState = "starting"
        self._header = Header(
            name=run.name,
            pid=run.pid,
            started_ms=run.started_ms,
            id=run.id,
            source=subject.describe(),
            settings=subject.settings,
        )
        self._publisher = Publisher(run.socket, self._header, self._command)

    def begin(self, *, stop_on_eof: bool, on_alert: list[str] | None) -> None:
        """Begin the start; until `take_signals` a signal ends the process at once, since there is nothing to finish.

        From now on the command `on_alert` runs for each alert.
        """
        for number in SIGNALS:
            signal.signal(number, _exit_at_once)
        if stop_on_eof:
            threading.Thread(target=_stop_at_eof, name="wmtop-parent", daemon=True).start()
        threading.Thread(target=self._watch_start, name="wmtop-start", daemon=True).start()
        if on_alert is not None:
            self._alerts = AlertCommand(on_alert, self.name, self._say)

    def record(self, path: Path, bounds: Bounds, existing: Existing) -> None:
        """Record the snapshots published from now on; UsageError or RunError if the recording cannot be opened."""
        self._recording = BackgroundWriter(RecordingWriter(path, self._header, bounds, existing=existing))

    def take_signals(self) -> None:
        """From now on signals set `stopping`."""

        def on_signal(number: int, _frame: Any) -> None:
            self._signal = number
            self.stopping.set()

        for number in SIGNALS:
            signal.signal(number, on_signal)
        self._takes_signals = True

    @property
    def exit_code(self) -> int:
        """The exit code of a process without an error: 0, or 128 + the signal that stopped it."""
        return 128 + self._signal if self._signal else 0

    def publish(self, snapshot: Snapshot, *, last: bool = False) -> None:
        """Pass a snapshot to the viewers, the recording and the output."""
        self._last_state = snapshot.state
        if self._alerts is not None and snapshot.state != "starting":
            self._alerts.see(snapshot)
            if self._alerts.note is not None:
                snapshot = replace(snapshot, notes=[*snapshot.notes, self._alerts.note])
        self._publisher.publish(_as_stopping(snapshot) if last and snapshot.state == "live" else snapshot)
        if snapshot.state != "starting":
            self._record(snapshot)
        if snapshot.state != "starting" or last:
            self._on_snapshot(snapshot, last)

    def fail(self, error: Exception) -> None:
        """Publish that the engine has failed, with the reason in one line."""
        self._start_over.set()
        self.publish(self._bare("failed", error=first_line(error)))

    @contextmanager
    def step(self, name: str) -> Generator[None]:
        """Run a step of the start: shown while it runs, afterwards with its duration (s)."""
        began = self._progress_s = time.monotonic()
        self._show_steps([*self._steps, Step(name)])
        try:
            yield
        finally:
            self._progress_s = None
        self._steps = [*self._steps[:-1], Step(name, time.monotonic() - began)]

    def open_step(self, name: str) -> None:
        """Begin a step that lasts until the end of the start, for any length of time."""
        self._show_steps([*self._steps, Step(name)])

    def report(self, text: str) -> None:
        """Replace the text of the running step, which counts as progress."""
        self._progress_s = time.monotonic()
        self._show_steps([*self._steps[:-1], Step(text)])

    def show_start(self, *stuck: Note) -> None:
        """Publish the steps again; as stale if a note says why the start is stuck."""
        if not self._start_over.is_set():
            state: EngineState = "stale" if stuck else "starting"
            self._publisher.publish(replace(self._bare(state), notes=[*self._subject.notes(), *stuck]))

    def show_stopping(self, last: Snapshot) -> None:
        """Show viewers that nothing new comes: stopping takes as long as a batch that still runs."""
        self._publisher.publish(replace(_as_stopping(last), points=[]))

    @property
    def has_started(self) -> bool:
        """Whether the start is over."""
        return self._start_over.is_set()

    def started(self) -> None:
        """End the start: its steps are no longer shown."""
        self._start_over.set()
        self._steps = []

    def close(self) -> None:
        """End the alerts, the recording and the stream."""
        self._start_over.set()
        recording, self._recording = self._recording, None
        try:
            if self._alerts is not None:
                self._alerts.close()
            if recording is not None:
                recording.close()
        except RunError as error:
            self._say(str(error))
        finally:
            last = self._last_state
            self._publisher.close(reason=last if last in ("ended", "failed") else "stopped")

    def _show_steps(self, steps: list[Step]) -> None:
        self._steps = steps
        self.publish(self._bare("starting"))

    def _watch_start(self) -> None:
        """Watch the start, on a thread of its own: the main thread may wait for a JVM that hangs."""
        while not self._start_over.wait(_PULSE_S):
            since, steps = self._progress_s, self._steps
            stuck_s = 0.0 if since is None else time.monotonic() - since
            if stuck_s > STEP_STALE_AFTER_S:
                wall_ms, silent_ms = clock.now_ms(), int(stuck_s * 1_000)
                self.show_start(Note(wall_ms, "start_stuck", {"step": steps[-1].name, "silent_ms": silent_ms}))

    def _record(self, snapshot: Snapshot) -> None:
        """Record a snapshot; if that fails, the run continues without a recording."""
        if self._recording is not None:
            try:
                self._recording.append(snapshot)
            except RunError as error:
                self._recording = None
                self._say(f"{error}; the run continues without recording")

    def _bare(self, state: EngineState, *, error: str | None = None) -> Snapshot:
        """A snapshot without data: during the start, or after a failure."""
        return Snapshot(
            name=self.name,
            state=state,
            wall_ms=clock.now_ms(),
            settings=self._subject.settings,
            verdict=Verdict(reason=Reason("failed" if state == "failed" else "starting")),
            source=self._subject.describe(),
            target=self._subject.empty,
            steps=list(self._steps),
            error=error,
            notes=self._subject.notes(),
            log=self._log,
        )

    def _command(self, command: ToEngine) -> Reply:
        if isinstance(command, Change):
            return self._on_change(command)
        self.stopping.set()
        if not self._takes_signals:  # still starting: `stopping` is not read yet
            os.kill(os.getpid(), signal.SIGTERM)
        return Reply(id=command.id, ok=True, text="stopping")


def _as_stopping(last: Snapshot) -> Snapshot:
    """The last snapshot for viewers, to whom the engine is no longer fine although nothing is wrong with its data."""
    wall_ms = max(clock.now_ms(), last.wall_ms or 0)
    last = replace(last, state="stale", wall_ms=wall_ms, notes=[*last.notes, Note(wall_ms, "engine_stopping")])
    return replace(last, verdict=verdict_of(last))


def _exit_at_once(number: int, _frame: Any) -> None:
    raise SystemExit(128 + number)


def _stop_at_eof() -> None:
    while os.read(0, 4096):  # sys.stdin's lock, held by this thread, would abort the interpreter's shutdown
        pass
    os.kill(os.getpid(), signal.SIGTERM)
