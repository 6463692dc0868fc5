"""The engine process: connects source, Spark and monitor with the stream of snapshots and the commands."""

import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..feed.host import Host, Subject
from ..feed.messages import Change, Reply
from ..feed.run_directory import Claim
from ..snapshot import Condition, Note, OwnRun, Snapshot
from ..system import clock
from ..system.errors import RunError, how_it_ended
from ..system.files import Existing, PrivateDirectory, existing, own_outputs
from ..targets.clock import set_note
from ..targets.target import Looks
from ..targets.watch_engine import WatchOptions
from ..verdict.monitor_snapshot import snapshot_of
from ..verdict.verdict import verdict_of
from ..watermarks.channels import Unread
from ..watermarks.counts import RateMeter
from ..watermarks.monitor import Monitor
from ..watermarks.settings import Settings
from .durable_state import StateDirectory
from .jvm import SILENT_AFTER_S, JvmWatch, SparkError, killed_if_stuck, spark_errors
from .observe import RunNotes
from .query import Run
from .row_groups import ship_custom
from .session import ask_jvm, build_session, jvm_process, stop_session
from .sources.base import Source
from .tasks import is_local_master, prepare_executors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEAT_S = 0.1
"""How often the main loop polls between batches, and the ticker ticks."""
SNAPSHOT_EVERY_S = 1.0
JVM_DIES_WITHIN_S = 2.0
MAX_WAITING = 32
"""Snapshots of batches that may wait for the main loop, at most; beyond that the oldest are dropped."""


class EngineOptions(WatchOptions, frozen=True, kw_only=True):
    """Options of an engine besides its settings and source."""

    state_dir: Path | None = None
    """The state directory; None: a temporary one."""
    firings: Path | None = None
    late_output: str | None = None
    """A directory, or a URI that Spark can write to."""
    master: str | None = None
    conf: dict[str, str] = {}  # noqa: RUF012 (a struct copies it)
    packages: list[str] = []  # noqa: RUF012
    jars: list[str] = []  # noqa: RUF012


class Engine:
    """One run; `say` gets lines for the user, `on_snapshot` each snapshot and whether it is the last.

    `on_note` gets each note of the source as it comes.

    Three threads: the main loop publishes and checks for the end, and never waits; `JvmWatch` makes all calls that wait
    for the JVM, including the ticker's; Spark calls `Run` with each batch.
    """

    def __init__(
        self,
        claim: Claim,
        source: Source,
        settings: Settings,
        options: EngineOptions,
        log: Path,
        say: Callable[[str], None],
        on_snapshot: Callable[[Snapshot, bool], None],
        on_note: Callable[[Note], None],
    ) -> None:
        self._source = source
        self._settings = settings
        self._options = options
        self._log = log
        self._say = say
        self._notes = RunNotes(source, settings.max_channels, on_note)
        self._rates = RateMeter()
        self._news = threading.Event()
        self._waiting: deque[Snapshot] = deque(maxlen=MAX_WAITING)
        self._last: Snapshot | None = None
        self._run: Run | None = None
        self._spark: SparkSession | None = None
        self._progress_at = 0.0
        self._host = Host(
            claim,
            Subject(settings, OwnRun(), source.describe, self._notes.now),
            on_change=self._change,
            on_snapshot=on_snapshot,
            say=say,
        )

    def run(self) -> int:
        """Run until the end, a stop or a signal; returns the exit code. The caller prints UsageError and RunError."""
        with ExitStack() as closing:  # the rest still closes if one fails
            closing.callback(self._host.close)
            closing.callback(self._source.close)
            try:
                return self._run_all()
            except Exception as error:
                self._host.fail(error)
                if isinstance(error, SparkError):
                    raise RunError(f"{error} (log: {self._log})") from error
                raise

    def _run_all(self) -> int:
        self._host.begin(stop_on_eof=self._options.stop_on_eof, on_alert=self._options.on_alert)
        with ExitStack() as closing:
            directory = self._options.state_dir
            if directory is None:
                temporary = PrivateDirectory("wmtop-state-")
                closing.callback(temporary.remove)
                directory = temporary.path
            state = StateDirectory(directory)
            state.lock()
            closing.callback(state.unlock)
            closing.callback(self._stop)
            run = self._run = self._prepare(state)
            if not run.monitor.ended:
                with spark_errors():
                    self._start_spark(state)
                    self._follow(run)
            return self._finish(run)

    def _prepare(self, state: StateDirectory) -> Run:
        run = self._open_run(state)
        run.monitor.history.verdict_after_ms = self._options.verdict_after_ms
        if run.resumed:
            self._say_resumed(run.monitor.settings)
        if not run.monitor.ended:
            with self._host.step(f"reading {self._source.describe().description}"):
                self._source.prepare(self._host.report)
            if self._source.rows_in_all is not None and run.monitor.rows >= self._source.rows_in_all:
                run.end()
        return run

    def _open_run(self, state: StateDirectory) -> Run:
        """Open the run and its output files; those that it wrote before are continued."""
        options, own = self._options, own_outputs(state.path)
        outputs = [path for path in (options.record, options.firings) if path is not None]
        treatment: dict[Path, Existing] = {path: existing(path, force=options.force, own=own) for path in outputs}
        firings: Existing = "refuse" if options.firings is None else treatment[options.firings]
        run = Run(
            self._source,
            self._settings,
            state,
            options.firings,
            self._batch_applied,
            firings,
            options.late_output,
            options.force,
        )
        state.note_outputs(outputs)
        if options.record is not None:
            self._host.record(options.record, options.record_bounds, treatment[options.record])
        return run

    def _start_spark(self, state: StateDirectory) -> None:
        with self._host.step("starting Spark (a JVM)"):
            options = self._options
            self._spark = build_session(
                master=options.master or "local[*]",
                app_name=f"wmtop {self._host.name}",
                conf=options.conf,
                packages=options.packages,
                jars=options.jars,
                log=self._log,
            )
            state.note_jvm(jvm_process(self._spark).pid)
            if self._settings.factory is not None:
                ship_custom(self._spark, self._settings.factory)
        self._host.take_signals()  # only now: Spark sets handlers of its own

    def _start_query(self) -> None:
        assert self._run is not None
        assert self._spark is not None
        if not is_local_master(str(self._spark.sparkContext.master)):
            with self._host.step(f"waiting for executors of {self._options.master}"):
                prepare_executors(self._spark, self._run.in_tasks(self._spark), self._say)
        with self._host.step("warming up"):
            self._run.load(self._spark)
        with self._host.step("starting the query"):
            self._run.start()
        self._host.open_step("waiting for the first batch")

    def _beat(self) -> bool:
        """Do the work that waits for the JVM, every `BEAT_S`; False once the source has been read to its end."""
        run = self._run
        assert run is not None
        run.check()
        if run.exhausted:
            run.end()
            return False
        run.tick()
        if time.monotonic() - self._progress_at >= SNAPSHOT_EVERY_S:
            self._progress_at = time.monotonic()
            run.update_progress()
        return True

    def _follow(self, run: Run) -> None:
        """The main loop: pass snapshots on, check for the end."""
        watch = JvmWatch(self._start_query, self._beat, BEAT_S)
        try:
            last = time.monotonic()
            looks = Looks()
            while not self._host.stopping.is_set():
                if gap_ms := looks.note(clock.now_ms(), BEAT_S):
                    run.note_suspended(gap_ms)
                ended = watch.done
                error = watch.error
                if self._drain(0 if ended or error else BEAT_S):
                    last = time.monotonic()
                self._raise_unless_stopping(error)
                if ended or self._host.stopping.is_set():
                    return
                if watch.began and time.monotonic() - last >= SNAPSHOT_EVERY_S:
                    last = time.monotonic()
                    if run.monitor.channels:
                        self._publish_between_batches(run, watch.silent_s)
                    else:
                        hung_ms = _hung_ms(watch.silent_s)
                        self._host.show_start(*self._jvm_notes(hung_ms), condition=self._condition(hung_ms))
        finally:
            watch.stop()

    def _raise_unless_stopping(self, error: Exception | None) -> None:
        """Raise `error`, or that the JVM died; nothing while stopping: a signal to the whole process group has ended
        the JVM as well.
        """
        try:
            self._raise_if_jvm_died(error)
            if error is not None:
                raise error
        except Exception:
            if not self._host.stopping.is_set():
                raise

    def _publish_between_batches(self, run: Run, silent_s: float) -> None:
        """Publish a snapshot, which may be old (a batch is running), with what the source reports now."""
        self._host.started()
        snapshot = self._snapshot_now(timeout_s=0)
        if snapshot is None and self._last is not None:
            snapshot = replace(self._last, points=[])  # these were sent with it
        if snapshot is None or self._waiting:  # a batch has added a newer one
            return
        hung_ms = _hung_ms(silent_s)
        snapshot = replace(snapshot, condition=self._condition(hung_ms))
        if hung_ms is not None or self._is_silent(self._unread()):
            snapshot = replace(snapshot, state="stale")
        notes = [*set_note(run.machine_ahead_ms, run.wall_ms), *self._notes.now(), *self._jvm_notes(hung_ms)]
        self._host.publish(replace(snapshot, verdict=verdict_of(snapshot), wall_ms=run.wall_ms, notes=notes))

    def _finish(self, run: Run) -> int:
        """Publish the last snapshot; without `--once` an ended engine stays until it is stopped."""
        if not run.monitor.ended:
            if self._last is not None:
                self._host.show_stopping(self._last)
            self._stop()  # first: a running batch may still be applied
            self._drain(0)
        last = self._snapshot_now(timeout_s=SNAPSHOT_EVERY_S) or self._last
        if last is not None:
            self._host.publish(last, last=True)
        if run.monitor.ended and not self._options.once and not self._host.stopping.is_set():
            self._stop()
            while not self._host.stopping.wait(SNAPSHOT_EVERY_S):
                pass
        return self._host.exit_code

    def _drain(self, timeout_s: float) -> bool:
        """Publish the snapshots queued by batches, if there are any; wait at most `timeout_s` for the first."""
        has_news = self._news.wait(timeout_s)
        self._news.clear()
        while self._waiting:
            self._host.publish(self._waiting.popleft())
        return has_news

    def _queue_snapshot(self) -> None:
        """Leave the snapshot of this moment to the main loop."""
        if (snapshot := self._snapshot_now()) is not None:
            self._waiting.append(snapshot)
            self._news.set()

    def _batch_applied(self) -> None:
        self._host.started()
        self._queue_snapshot()

    def _jvm_notes(self, hung_ms: int | None) -> list[Note]:
        """The note on a JVM that has not answered for `hung_ms`; empty if it answers."""
        if hung_ms is None:
            return []
        return [Note(clock.now_ms(), "jvm_silent", {"pid": self._jvm().pid, "silent_ms": hung_ms})]

    def _condition(self, hung_ms: int | None = None) -> Condition:
        """The state of engine and source; `hung_ms`: for how long the JVM has not answered."""
        return Condition(
            jvm_silent_ms=hung_ms, one_batch=self._notes.one_batch, directory_lost=self._source.lost_directory
        )

    def _snapshot_now(self, timeout_s: float = -1) -> Snapshot | None:
        """The snapshot of this moment; None if a batch keeps the monitor for longer than `timeout_s`."""
        assert self._run is not None
        with self._run.looking(timeout_s) as monitor:
            if monitor is None:
                return None
            self._last = self._take(self._run, monitor)
            return self._last

    def _take(self, run: Run, monitor: Monitor) -> Snapshot:
        """The snapshot of this moment; the monitor is locked."""
        source, late, ended = self._source, run.late_output, monitor.ended
        unread = None if ended else self._unread()
        silent = not ended and self._is_silent(unread)
        self._notes.see(monitor, source.describe().kind)
        rates = self._rates.rates(time.monotonic(), {name: counts.records for name, counts in monitor.counts.items()})
        snapshot = snapshot_of(
            monitor,
            name=self._host.name,
            state="ended" if ended else "stale" if silent else "live",
            wall_ms=run.wall_ms,
            now_ms=monitor.now_ms if ended else run.now_ms(),
            source=replace(source.describe(), rows=source.rows_in_all, rows_read=monitor.rows),
            spark=run.progress.view(source, rates),
            rates=rates,
            unread=unread,
            notes=[*set_note(run.machine_ahead_ms, run.wall_ms), *self._notes.now()],
            points=monitor.take_points(),
            late_output=None if late is None else late.where,
            late_sample=None if late is None else late.sample,
        )
        return run.judged(replace(snapshot, condition=self._condition()), unread)

    def _unread(self) -> Unread | None:
        progress = self._source.progress
        return None if progress is None else progress.unread()

    def _is_silent(self, unread: Unread | None) -> bool:
        """Whether what has come to the source is not known."""
        return self._source.is_lost or (unread is not None and unread.records is None)

    def _change(self, command: Change) -> Reply:
        if self._run is None:
            return Reply(id=command.id, ok=False, text="the engine is still starting; try again")
        try:
            self._run.change(command.lateness_ms, command.idle_after_ms, command.who)
        except ValueError as error:
            return Reply(id=command.id, ok=False, text=str(error))
        if self._host.has_started:
            self._queue_snapshot()
        return Reply(id=command.id, ok=True, text="takes effect at the next emit")

    def _say_resumed(self, in_force: Settings) -> None:
        """One line if settings changed in an earlier run replace those of the command line."""
        changed = [
            f"{name.removesuffix('_ms').replace('_', '-')} {'off' if value is None else f'{value}ms'}"
            for name in ("lateness_ms", "idle_after_ms")
            if (value := getattr(in_force, name)) != getattr(self._settings, name)
        ]
        if changed:
            self._say(f"resuming with the settings that were changed while it ran: {', '.join(changed)}")

    def _jvm(self) -> "subprocess.Popen[bytes]":
        assert self._spark is not None
        return jvm_process(self._spark)

    def _raise_if_jvm_died(self, error: Exception | None) -> None:
        """RunError if the JVM has died, which is the true reason of `error`; gives a dying JVM a moment."""
        process = self._jvm()
        try:
            code = process.poll() if error is None else process.wait(JVM_DIES_WITHIN_S)
        except subprocess.TimeoutExpired:
            return
        if code is not None and not self._host.stopping.is_set():
            raise RunError(f"the JVM died: {how_it_ended(code)}; its log is {self._log}") from error

    def _stop(self) -> None:
        """Stop the query and Spark; a JVM that does not answer, or takes too long, is killed."""
        run, spark = self._run, self._spark
        if spark is None:
            if run is not None:
                run.stop()
            return
        with killed_if_stuck(self._jvm(), lambda: ask_jvm(spark)), ExitStack() as closing:
            self._spark = None
            closing.callback(stop_session, spark)
            if run is not None:
                run.stop()


def _hung_ms(silent_s: float) -> int | None:
    """For how long (ms) the JVM has not answered; None: it was heard not too long ago."""
    return int(silent_s * 1_000) if silent_s > SILENT_AFTER_S else None
