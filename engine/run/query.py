"""The Spark query of one run: each micro-batch goes through the monitor and is durable before Spark commits it.

One lock covers reading the watermark, the Spark action, applying and saving; ticks and commands wait for it.
"""

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import UnsetType
from py4j.protocol import Py4JError  # pyright: ignore[reportMissingTypeStubs]

from ..kafka.log_guard import LogCutError
from ..snapshot import Snapshot
from ..system.errors import RunError
from ..system.files import Existing
from ..verdict.evidence import Evidence
from ..verdict.verdict import judged, lost_state
from ..watermarks.channels import Unread
from ..watermarks.monitor import Monitor, new_monitor
from ..watermarks.observation import BatchObservation
from ..watermarks.settings import Settings
from ..watermarks.window_operator import Firing
from . import observe, row_groups
from .durable_state import FiringsFile, SavedState, StateDirectory
from .groups import Levels
from .jvm import QueryFailures, SparkError, reason_of
from .late_output import late_output_of
from .observe import Observer, RunProgress, SourceChannels, explained_from
from .run_clock import RunClock
from .session import forget_sockets
from .sources.base import Batch, Source
from .sources.kafka_progress import rewound
from .tasks import TaskNeeds, local_uri

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

STOPPING = "the engine is stopping"
_POLL_MS = 50
"""Time (ms) between two looks at whether rows of a replay have arrived."""
_FORGET_EVERY = 1_000
"""Batches after which the JVM forgets their sockets."""
STOP_WITHIN_S = 10.0
"""Longest time (s) that a running batch may take to end once the run is to stop."""


class Run:
    """The monitor of one run, its state directory, and the Spark query that feeds it."""

    def __init__(
        self,
        source: Source,
        asked: Settings,
        state: StateDirectory,
        firings: Path | None,
        on_batch: Callable[[], None],
        existing: Existing = "refuse",
        late_output: str | None = None,
        force: bool = False,
    ) -> None:
        """Resume from the (locked) state directory, or start a new run; UsageError if it does not fit.

        `existing`: what to do if the file `firings` exists; `force`: replace another run's `late_output`.
        """
        self._source = source
        self._state = state
        self._asked = asked
        self._on_batch = on_batch
        saved = state.load(source.identity(), asked)
        self.resumed = saved is not None
        self.monitor = _monitor_of(source, asked, saved)
        self._digest = saved.offsets_digest if saved else None
        known_bytes = saved.firings_bytes if saved else 0
        self._firings = FiringsFile(firings, known_bytes, existing) if firings else None
        from_kafka = source.describe().kind == "kafka"
        self.late_output = late_output_of(late_output, state.path, saved, force=force, from_kafka=from_kafka)
        self._clock = RunClock()
        if source.planner is not None:
            source.planner.resume(self.monitor.batch)
        self._lock = threading.RLock()
        self._stopping = False
        self._observer: Observer | None = None
        self._query: StreamingQuery | None = None
        self.failure: BaseException | None = None
        self._failures = QueryFailures(source.retry_after_s, state.checkpoint)
        self._channels = SourceChannels(source, self.monitor)
        self.progress = RunProgress()
        self._was_waiting = False
        """Whether the last trigger found no data, when last checked: the main loop must not wait for the JVM."""

    def in_tasks(self, spark: "SparkSession") -> TaskNeeds:
        """What the tasks of this run need where they run."""
        needs = self._source.in_tasks(spark)
        if self._asked.factory is not None:
            needs = needs._replace(modules=(*needs.modules, row_groups.__name__))
        if self._source.more.explain:
            needs = needs._replace(modules=(*needs.modules, observe.__name__))
        if self.late_output is not None and self.late_output.marker is not None:
            needs = needs._replace(paths=(*needs.paths, self.late_output.marker))
        return needs

    def load(self, spark: "SparkSession") -> None:
        """Make the query's plan; meanwhile, and until the first batch, Spark compiles the code of every batch."""
        self._observer = Observer(spark, self._source, self.monitor, self.late_output)
        if self.late_output is not None:
            self.late_output.open(spark, self._source, self.monitor.settings)

    def start(self) -> None:
        """Start the loaded query from the saved state."""
        source = self._source
        monitor = self.monitor
        if source.clock is not None:
            source.clock.resume(monitor.rows, monitor.now_ms)
        elif monitor.now_ms is not None:
            self._clock.resume(monitor.now_ms)
            # Downtime is paused time: it must not make a channel idle.
            now = self._clock_ms()
            monitor.exclude(max(0, now - monitor.now_ms), now)
            monitor.history.restart()
            monitor.history.begin(now, monitor.history.level)
            monitor.resume()
        if source.progress is not None and monitor.batch is not None:
            source.progress.resumed(self._state.source_offsets(monitor.batch))
            self._rewind(keep_planned=True)
        if source.clock is None:
            self._channels.begin(self._clock_ms())
        self._channels.balance()
        source.starting()
        self._start_query()

    def _start_query(self) -> None:
        assert self._observer is not None
        writer = self._observer.frame.writeStream.foreachBatch(self._apply_unless_stopping)
        writer = writer.option("checkpointLocation", local_uri(self._state.checkpoint)).trigger(
            **self._source.trigger()
        )
        self._query = writer.start()

    @property
    def exhausted(self) -> bool:
        """Whether a bounded source has been read to its end."""
        if not self._source.bounded:
            return False
        if self._source.rows_in_all is not None:
            return self.monitor.rows >= self._source.rows_in_all
        if self._source.planner is not None:
            return self._source.planner.ended
        return self._query is not None and not self._query.isActive and self._query.exception() is None

    def update_progress(self) -> None:
        """Fetch Spark's report of the last batch, and whether the query waits for data (waits for the JVM)."""
        try:
            self._is_waiting()
            # As JSON: PySpark's own object makes a call for each field.
            query: Any = self._query
            report = None if query is None else query._jsq.lastProgress()
            self.progress.take(None if report is None else report.json())
        except (Py4JError, OSError):  # the JVM died: the main loop will see it
            pass

    def check(self) -> None:
        """Raise RunError if the query has failed for good; start it again if its source says that this may help."""
        self._raise_failure()
        progress = self._source.progress
        if progress is not None and progress.is_rewind_due and not self._stopping:
            self._begin_again()
            return
        error = self._query.exception() if self._query else None
        if error is None or self._stopping:
            return
        if self._failures.is_restart_due(error):
            self._rewind()
            self._start_query()

    def _begin_again(self) -> None:
        """Stop the query, whose logs were cut, and start it where they continue."""
        query = self._query
        self._query = None
        if query is not None:
            query.stop()  # without the lock: a batch may have it, and ends with an error
        with self._lock:
            self._failures.forget()
            self._rewind()
            if not self._stopping:
                self._start_query()

    def _rewind(self, *, keep_planned: bool = False) -> None:
        """Let the stopped query continue where its logs were cut, and plan again what it had planned but not applied.

        `keep_planned`: unless no log was cut.
        """
        progress = self._source.progress
        batch = self.monitor.batch
        if progress is None:
            return
        try:
            cuts, states = progress.cut()
        except RunError:  # the cluster does not answer: the query will fail, or the probe sees the cut later
            return
        if cuts and batch is not None:
            self._digest = self._state.plan_rewind(batch, lambda line: rewound(line, cuts))
            self._save([])
            self._state.finish_rewind(self._digest)
        elif not keep_planned:
            self._state.drop_planned(batch)
        progress.rewound(cuts, states, again=batch is not None)

    def _raise_failure(self) -> None:
        if isinstance(self.failure, RunError):
            raise self.failure
        if self.failure is not None:
            raise SparkError(reason_of(self.failure))

    def tick(self) -> None:
        """Do the emits owed by processing time, if the source has nothing unread."""
        if not self._source.ticks or self.monitor.ended or self._stopping:
            return
        with self.looking(0) as monitor:
            if monitor is None or self.failure is not None:
                return  # a batch runs, or has failed and may be half applied: none of it is saved
            self._clock.leave_out_suspended(monitor)
            now = self._owed_until()
            if now is None:
                return
            before = monitor.durable_fingerprint()
            self._channels.register(now)
            firings = monitor.tick_until(now) + self._channels.retire(now, self.progress)
            self._channels.balance()
            if firings or before != monitor.durable_fingerprint():
                self._save(firings)

    def _owed_until(self) -> int | None:
        """Until when (processing time, ms) emits are owed; None while the source may have unread records."""
        if not self._source.ticks or (self._source.clock is None and not self._is_waiting()):
            return None
        now = self._read_until()
        progress = self._source.progress
        self._channels.keep_timers(now, None if progress is None else progress.unread())
        return now

    def now_ms(self) -> int | None:
        """Processing time (ms): for a source with ticks now, limited by what has been read."""
        if not self._source.ticks or self.monitor.now_ms is None:
            return self.monitor.now_ms
        return max(self.monitor.now_ms, self._read_until())

    def _read_until(self) -> int:
        """Now, or just before the arrival of the first unread row: everything before it is known."""
        replay = self._source.clock
        limit = None if replay is None else replay.tick_limit_ms(self.monitor.rows)
        return self._clock_ms() if limit is None else min(self._clock_ms(), limit - 1)

    def _clock_ms(self) -> int:
        """Processing time now (epoch ms): the source's own clock, else the wall clock."""
        replay = self._source.clock
        return self.wall_ms if replay is None else replay.now_ms()

    @property
    def wall_ms(self) -> int:
        """The wall clock of this run (epoch ms): it never goes back, and jumps at no step of the machine's."""
        return self._clock.now_ms

    @property
    def machine_ahead_ms(self) -> int:
        """How far (ms) the machine's clock is ahead of `wall_ms`, since it was set or the state was saved."""
        return self._clock.machine_ahead_ms

    def note_suspended(self, ms: int) -> None:
        """Note that the process did nothing for `ms`: a stop, for the idle timers and the verdict."""
        if self._source.clock is None:
            self._clock.note_suspended(ms)

    def judged(self, snapshot: Snapshot, unread: Unread | None) -> Snapshot:
        """The snapshot with its verdict, given the unread records (None: there never are any, or not known) and, by its
        state, whether the source does not answer; does not wait for the JVM.
        """
        self._clock.leave_out_suspended(self.monitor)
        # A source that does not count its records: 0 if nothing is unread, None if that is not known.
        planner = self._source.planner
        waits = self._was_waiting and (planner is None or planner.all_read)
        is_all_read = 0 if self._source.clock is not None or waits else None
        evidence = Evidence(
            unread=unread.records if unread is not None else is_all_read,
            record_ms=self.monitor.history.record_ms,
            bounded_backlog=self._source.clock is None and self._source.bounded,
            lost=lost_state(snapshot),
        )
        return judged(snapshot, self.monitor.history, evidence)

    def change(self, lateness_ms: int | UnsetType, idle_after_ms: int | UnsetType | None, who: str) -> None:
        """Change settings from the next emit on, after the emits owed until now.

        ValueError if the strategy has no such setting, or after the end.
        """
        with self._lock:
            if self._stopping:
                raise ValueError(STOPPING)
            if self.failure is not None:
                raise ValueError("the run has failed")
            if self.monitor.ended:
                raise ValueError("the run has ended; nothing more is emitted")
            wall_ms = self.wall_ms
            firings = self.monitor.change(
                lateness_ms=lateness_ms, idle_after_ms=idle_after_ms, who=who, wall_ms=wall_ms, now=self._owed_until()
            )
            self._save(firings)

    def end(self) -> None:
        """The end-of-stream step: all open windows fire. RunError if a batch failed in the meantime."""
        with self._lock:
            self._raise_failure()
            if not self.monitor.ended:
                self._save(self.monitor.end())

    @contextmanager
    def looking(self, timeout_s: float = -1) -> Generator[Monitor | None]:
        """The locked monitor; None if a batch keeps it for longer than `timeout_s` (negative: wait)."""
        if not self._lock.acquire(timeout=timeout_s):
            yield None
            return
        try:
            yield self.monitor
        finally:
            self._lock.release()

    def stop(self) -> None:
        """Stop the query between two batches, or abandon one that takes too long; applied batches are saved already."""
        self._stopping = True
        if self._observer is not None:
            self._observer.warmed_up()
        if self._lock.acquire(timeout=STOP_WITHIN_S):
            self._lock.release()
        elif self._observer is not None:
            with suppress(Py4JError, OSError):
                self._observer.frame.sparkSession.sparkContext.cancelAllJobs()
        query = self._query
        self._query = None
        if query is not None:
            with suppress(Py4JError, OSError):  # a JVM that died has stopped it
                query.stop()
        if self._firings is not None:
            self._firings.close()

    def _finish_channels(self, now: int | None) -> None:
        """Finish channels at their end by Spark's report of the last batch: they no longer hold back the next one."""
        if self._source.bounded and self._source.channel_of_part is not None:
            self.update_progress()
            firings = self._channels.retire(now, self.progress)
            if firings:  # saved separately: the batch may fail, and run again
                self._save(firings)

    def _is_waiting(self) -> bool:
        """Whether the last trigger found no data (waits for the JVM), or the next batch waits for its rows."""
        if self._source.planner is not None:
            return self._was_waiting
        status = self._query.status if self._query else {}
        self._was_waiting = not (status.get("isDataAvailable", True) or status.get("isTriggerActive", True))
        return self._was_waiting

    def _apply_unless_stopping(self, frame: "DataFrame", batch: int) -> None:
        try:
            self._apply(frame, batch)
        except Exception:
            if not self._stopping:
                raise
            # Short: Spark compares the text of an interrupted call, which has the JVM's stack, with a pattern that
            # overflows its thread's stack.
            raise RuntimeError(STOPPING) from None

    def _apply(self, frame: "DataFrame", batch: int) -> None:
        if self.monitor.batch is not None and batch <= self.monitor.batch:
            return  # applied and saved before a crash, not yet committed by Spark
        try:
            planned = self._planned_end(frame, batch)
        except RunError as error:
            self.failure = error
            raise
        with self._lock:
            self._was_waiting = False
            if self._stopping:
                # Returning would let Spark commit a batch that was not applied.
                raise RuntimeError(STOPPING)
            if self.monitor.ended:
                self.failure = RunError("records came from channels that their source had reported as read to the end")
                raise self.failure
            try:
                time_ms = self._batch_time(batch)
                ends = self._state.source_offsets(batch) if planned is None else [str(planned)]
                observation = self._read(frame, batch, time_ms, ends)
                self._keep_timers(time_ms, ends)
                self._save_applied(observation, ends)
            except Exception as error:
                self.failure = None if self._stopping or error is self._failures.read_error else error
                raise
            self.update_progress()
            if batch % _FORGET_EVERY == 0:
                forget_sockets(frame.sparkSession)
            self._on_batch()

    def _read(self, frame: "DataFrame", batch: int, time_ms: int | None, ends: list[str]) -> BatchObservation:
        """What is in a batch up to `ends`, at the watermark it begins with; nothing of it is applied."""
        self._clock.leave_out_suspended(self.monitor)
        self._finish_channels(time_ms)
        ahead_ms = max(0, self.machine_ahead_ms)
        levels = Levels(self.monitor.window_level, self.monitor.window_w0, time_ms, ahead_ms)
        observation = self._observe(frame, batch, levels, ends)
        self._confirm(observation, ends)
        return observation

    def _keep_timers(self, time_ms: int | None, ends: list[str]) -> None:
        """A channel of which records stay unread is not quiet; nothing in a replay, where `time_ms` is None."""
        if time_ms is None:
            return
        progress = self._source.progress
        self._channels.keep_timers(time_ms, None if progress is None else progress.unread_after(ends, time_ms))
        self._channels.register(time_ms)

    def _save_applied(self, observation: BatchObservation, ends: list[str]) -> None:
        """Let the monitor, and what counts along, see a batch that was read; it is durable then."""
        before = self.monitor.rows
        firings = self.monitor.apply(observation)
        self.progress.note_rows(observation.batch, self.monitor.rows - before)
        if self._source.progress is not None:
            self._source.progress.applied(ends)
        firings += self._channels.retire(self.monitor.now_ms, self.progress)
        self._channels.balance()
        self._failures.batch_applied()
        self._digest = self._state.offsets_digest(observation.batch)
        self._save(firings)

    def _planned_end(self, frame: "DataFrame", batch: int) -> int | None:
        """Where the next batch of a `BatchPlanner` ends, once it has something to read; None: Spark planned it."""
        planner = self._source.planner
        if planner is None:
            return None
        began = time.monotonic()
        while (end := planner.plan(batch, self.monitor.rows)) is None:
            self._was_waiting = True
            # In the JVM, where Spark interrupts it as soon as the query is to stop.
            frame.sparkSession._jvm.java.lang.Thread.sleep(_POLL_MS)  # pyright: ignore
        self.progress.note_wait(batch, round((time.monotonic() - began) * 1_000))
        return end

    def _observe(self, frame: "DataFrame", number: int, levels: Levels, ends: list[str]) -> BatchObservation:
        """Read a batch before anything of it is applied: its source may fail, and the query start again."""
        assert self._observer is not None
        try:
            # Where it begins: nothing for the run's first, None if Spark's log does not say.
            begins = (self._state.source_offsets(number - 1) or None) if number else []
            return self._observer.observe(Batch(frame, self.monitor.rows, ends, begins), number, levels)
        except RunError:
            raise
        except Exception as error:
            self._failures.read_error = error
            raise

    def _confirm(self, observation: BatchObservation, ends: list[str]) -> None:
        """See whether what was read is what the source has; else it is read again."""
        if self._source.progress is None:
            return
        try:
            self._source.progress.confirm(ends, sum(group.records for group in observation.groups))
        except (RunError, LogCutError) as error:
            self._failures.read_error = error
            raise

    def _batch_time(self, batch: int) -> int | None:
        """Processing time of a batch: when its input was fixed; None in a replay, where the records have it."""
        if self._source.clock is not None:
            return None
        if self._source.planner is not None:
            return self._clock_ms()
        now_ms = self._clock_ms()
        fixed_ms = self._state.batch_time_ms(batch)  # by the JVM, on the machine's clock
        return now_ms if fixed_ms is None else min(fixed_ms - self.machine_ahead_ms, now_ms)

    def _save(self, firings: list[Firing]) -> None:
        if self._firings is not None:
            self._firings.append(firings)
        self._state.save(
            SavedState(
                source=self._source.identity(),
                asked=self._asked,
                query_id=self._state.query_id(),
                offsets_digest=self._digest,
                firings_bytes=self._firings.size if self._firings else 0,
                monitor=self.monitor,
            )
        )


def _monitor_of(source: Source, asked: Settings, saved: SavedState | None) -> Monitor:
    """The saved monitor, or a new one, with what does not come from the state."""
    monitor = saved.monitor if saved else new_monitor(asked)
    monitor.explain = explained_from(monitor, source.more.explain, resumed=saved is not None)
    monitor.history.beat_of = "run" if source.clock is None else "replay"
    return monitor
