"""The engine process: source, Spark and monitor on one side, the stream of snapshots and the commands on the other."""

import queue
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from ..core.rates import RateMeter
from ..core.settings import Settings
from ..core.snapshot import Snapshot
from ..core.view import snapshot_of
from ..errors import RunError
from ..feed.host import Host
from ..feed.messages import Change, Reply
from ..feed.ring import Bounds
from ..feed.rundir import Claim
from .custom import ship_custom
from .durable import StateDirectory
from .progress import progress_of
from .query import Run
from .sources.base import Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEAT_S = 0.1
"""How often the main loop ticks and looks around between batches."""
SNAPSHOT_EVERY_S = 1.0
JVM_DIES_WITHIN_S = 2.0


class EngineOptions(Struct, frozen=True, kw_only=True):
    """How an engine runs, apart from its settings and source."""

    state_dir: Path | None = None
    """None: temporary."""
    firings: Path | None = None
    record: Path | None = None
    record_bounds: Bounds = Bounds()
    once: bool = False
    stop_on_eof: bool = False
    master: str | None = None
    conf: dict[str, str] = {}
    packages: list[str] = []
    jars: list[str] = []


class Engine:
    """One run; `say` gets lines for the user, `on_snapshot` each snapshot and whether it is the last."""

    def __init__(
        self,
        claim: Claim,
        source: Source,
        settings: Settings,
        options: EngineOptions,
        log: Path,
        say: Callable[[str], None],
        on_snapshot: Callable[[Snapshot, bool], None],
    ) -> None:
        self._source = source
        self._settings = settings
        self._options = options
        self._log = log
        self._say = say
        source.tell(say)
        self._snapshots: queue.SimpleQueue[Snapshot | None] = queue.SimpleQueue()
        self._last: Snapshot | None = None
        self._run: Run | None = None
        self._spark: SparkSession | None = None
        self._rates = RateMeter()
        self._temporary: Path | None = None
        self._host = Host(
            claim,
            settings,
            describe=source.describe,
            notes=source.notes,
            on_change=self._change,
            on_snapshot=on_snapshot,
            say=say,
        )

    def run(self) -> int:
        """Run until the end, a stop or a signal; the exit code. UsageError and RunError are the caller's to print."""
        try:
            return self._run_all()
        except Exception as error:
            self._host.fail(error)
            raise
        finally:
            self._close()

    def _run_all(self) -> int:
        options = self._options
        self._host.begin(record=options.record, bounds=options.record_bounds, stop_on_eof=options.stop_on_eof)
        state = StateDirectory(self._state_path())
        state.lock()
        try:
            run = self._run = self._prepare(state)
            if not run.monitor.ended:
                self._start_spark(state, run)
                self._follow(run)
            return self._finish(run)
        finally:
            if self._run is not None:
                self._run.stop()
            self._stop_spark()
            state.unlock()

    def _prepare(self, state: StateDirectory) -> Run:
        run = Run(self._source, self._settings, state, self._options.firings, self._batch_applied)
        if run.resumed:
            self._say_resumed(run.monitor.settings)
        if not run.monitor.ended:
            with self._host.step(f"reading {self._source.describe().description}"):
                self._source.prepare(self._host.report)
            if self._source.rows_in_all is not None and run.monitor.rows >= self._source.rows_in_all:
                run.end()
        return run

    def _start_spark(self, state: StateDirectory, run: Run) -> None:
        from .session import build_session, jvm_pid

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
            state.note_jvm(jvm_pid(self._spark))
            if self._settings.factory is not None:
                ship_custom(self._spark, self._settings.factory)
        self._host.take_signals()  # only now: Spark sets handlers of its own
        with self._host.step("warming up"):
            run.load(self._spark)
        with self._host.step("starting the query"):
            run.start()
        self._host.open_step("waiting for the first batch")

    def _follow(self, run: Run) -> None:
        """The main loop: pass snapshots on, tick, look for the end."""
        last = time.monotonic()
        while not self._host.stopping.is_set():
            batches = self._drain(BEAT_S)
            try:
                run.check()
                if run.exhausted:
                    run.end()
                    self._drain(0)
                    return
                run.tick()
            except Exception as error:
                self._raise_if_jvm_died(error)
                if self._host.stopping.is_set():  # a signal to the whole process group has ended the JVM as well
                    return
                raise
            self._raise_if_jvm_died(None)
            now = time.monotonic()
            if batches:
                last = now
            elif now - last >= SNAPSHOT_EVERY_S and run.monitor.channels:
                last = now
                self._host.started()
                picture = self._still() if run.busy else self._picture()
                if picture is not None and self._snapshots.empty():  # else a batch has left a newer one meanwhile
                    self._host.publish(picture)

    def _finish(self, run: Run) -> int:
        """Show the last picture; without `--once` an ended engine stays until it is stopped."""
        self._host.publish(self._picture(), last=True)
        if run.monitor.ended and not self._options.once and not self._host.stopping.is_set():
            run.stop()
            self._stop_spark()
            while not self._host.stopping.wait(SNAPSHOT_EVERY_S):
                pass
        return self._host.exit_code

    def _drain(self, timeout_s: float) -> int:
        """Publish the snapshots that batches have left; wait at most `timeout_s` for the first."""
        count = 0
        try:
            item = self._snapshots.get(timeout=timeout_s) if timeout_s else self._snapshots.get_nowait()
            while True:
                if item is not None:
                    self._host.publish(item)
                    count += 1
                item = self._snapshots.get_nowait()
        except queue.Empty:
            return count

    def _batch_applied(self) -> None:
        self._host.started()
        self._snapshots.put(self._picture())

    def _still(self) -> Snapshot | None:
        """While a batch runs: the last picture, with what is known of the source now."""
        if self._last is None:
            return None
        unread = self._source.unread()
        return replace(
            self._last,
            state="stale" if unread is not None and unread.records is None else self._last.state,
            wall_ms=time.time_ns() // 1_000_000,
            notes=self._source.notes(),
        )

    def _picture(self) -> Snapshot:
        self._last = self._drawn()
        return self._last

    def _drawn(self) -> Snapshot:
        assert self._run is not None
        run = self._run
        with run.looking() as monitor:
            records = {name: counts.records for name, counts in monitor.counts.items()}
            ended = monitor.ended
            unread = None if ended else self._source.unread()
            silent = unread is not None and unread.records is None
            rates = self._rates.rates(time.monotonic(), records)
            spark = progress_of(run.progress(), monitor.shown(monitor.level) if self._follows_spark else None)
            if not self._source.counted_by_spark:
                spark = replace(
                    spark, input_rows_per_second=sum(rates.values()) if rates else None, processed_rows_per_second=None
                )
            return snapshot_of(
                monitor,
                name=self._host.name,
                state="ended" if ended else "stale" if silent else "live",
                wall_ms=time.time_ns() // 1_000_000,
                now_ms=monitor.now_ms if ended else run.now_ms(),
                source=_with_rows(self._source, monitor.rows),
                spark=spark,
                rates=rates,
                unread=unread,
                notes=self._source.notes(),
                points=monitor.take_points(),
            )

    @property
    def _follows_spark(self) -> bool:
        return self._settings.strategy == "spark"

    def _change(self, command: Change) -> Reply:
        if self._run is None:
            return Reply(id=command.id, ok=False, text="the engine is still starting; try again")
        try:
            self._run.change(command.lateness_ms, command.idle_after_ms, command.who)
        except ValueError as error:
            return Reply(id=command.id, ok=False, text=str(error))
        self._snapshots.put(self._picture())
        return Reply(id=command.id, ok=True, text="takes effect at the next emit")

    def _say_resumed(self, in_force: Settings) -> None:
        """One line where settings that were changed while the run was up win over the command line."""
        changed = [
            f"{name.removesuffix('_ms').replace('_', '-')} {'off' if value is None else f'{value}ms'}"
            for name in ("lateness_ms", "idle_after_ms")
            if (value := getattr(in_force, name)) != getattr(self._settings, name)
        ]
        if changed:
            self._say(f"going on with the settings that were changed while it ran: {', '.join(changed)}")

    def _jvm(self) -> Any:
        assert self._spark is not None
        return self._spark.sparkContext._gateway.proc  # pyright: ignore

    def _raise_if_jvm_died(self, error: Exception | None) -> None:
        """The true reason for whatever else fails then; after an error the JVM gets a moment to be gone."""
        process = self._jvm()
        try:
            code = process.poll() if error is None else process.wait(JVM_DIES_WITHIN_S)
        except subprocess.TimeoutExpired:
            return
        if code is not None and not self._host.stopping.is_set():
            raise RunError(f"the JVM died (exit code {code}); its log is {self._log}") from error

    def _stop_spark(self) -> None:
        if self._spark is not None:
            from .session import stop_session

            spark, self._spark = self._spark, None
            stop_session(spark)

    def _state_path(self) -> Path:
        if self._options.state_dir is not None:
            return self._options.state_dir
        self._temporary = Path(tempfile.mkdtemp(prefix="wmtop-"))
        return self._temporary

    def _close(self) -> None:
        self._source.close()
        self._host.close()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)


def _with_rows(source: Source, rows: int) -> Any:
    return replace(source.describe(), rows=source.rows_in_all, rows_read=rows)
