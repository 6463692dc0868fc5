"""The Spark query of one run: each micro-batch through the monitor, durable before Spark commits it.

One lock covers reading the level, the Spark action, applying and saving; ticks and commands wait for it.
"""

import re
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import UnsetType
from msgspec.structs import replace
from py4j.protocol import Py4JError  # pyright: ignore[reportMissingTypeStubs]

from ..core.firing import Firing
from ..core.monitor import Monitor, new_monitor
from ..core.observation import BatchObservation
from ..core.settings import Settings
from ..core.snapshot import Offender
from ..core.ticker import tick_until
from ..core.unread import Unread
from ..errors import RunError
from .aggregate import Aggregation, Levels, levels_of
from .durable import SavedState, StateDirectory
from .firings import FiringsFile
from .sources.base import Source, canonical_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


STOP_WITHIN_S = 10.0
"""How long a batch that runs may take to end once the run is to stop."""
_REASON = re.compile(r"(?:Caused by: |: )?(?:[\w$]+\.)*[A-Z]\w*(?:Error|Exception|Timeout): (?P<reason>.+)")


class Run:
    """The monitor of one run, its state directory, and the Spark query that feeds it."""

    def __init__(
        self, source: Source, asked: Settings, state: StateDirectory, firings: Path | None, on_batch: Callable[[], None]
    ) -> None:
        """Continue what the (locked) state directory holds, or start anew; UsageError where it does not fit."""
        self._source = source
        self._state = state
        self._asked = asked
        self._on_batch = on_batch
        saved = state.load(source.identity(), asked)
        self.resumed = saved is not None
        self.monitor: Monitor = saved.monitor if saved else new_monitor(asked)
        self._digest = saved.offsets_digest if saved else None
        self._firings = FiringsFile(firings, saved.firings_bytes if saved else None) if firings else None
        self._lock = threading.RLock()
        self._stopping = False
        self._frame: DataFrame | None = None
        self._aggregation: Aggregation | None = None
        self._warming: threading.Thread | None = None
        self._query: StreamingQuery | None = None
        self.failure: BaseException | None = None
        self._read_failure: BaseException | None = None
        """What kept the last batch from being read: its source may say that trying again helps."""
        self._failures = 0
        """Of the query, since its last batch."""
        self._retry_at: float | None = None
        self._timers_ms: int | None = None
        """Until when (processing time) it has been looked who is quiet and who only unread."""

    def load(self, spark: "SparkSession") -> None:
        """Make the query's plan; meanwhile, and until the first batch is there, Spark compiles what each will run."""
        columns = canonical_columns(
            self.monitor.settings, replay=not self._source.live, parts=self._source.part_name(0) is not None
        )
        self._aggregation = Aggregation(self.monitor.settings, self.monitor.edges, list(columns))
        rows = spark.range(2).selectExpr(*[f"cast(id as {kind}) as {name}" for name, kind in columns.items()])
        self._warming = threading.Thread(target=self._aggregation.warm_up, args=(rows,), name="wmtop-warm-up")
        self._warming.start()
        self._frame = self._source.load(spark)

    def start(self) -> None:
        """Start the loaded query where the state left off."""
        assert self._frame is not None
        if self._source.live and self.monitor.now_ms is not None:
            # Downtime is paused time: it must not make a channel idle.
            self.monitor.exclude(max(0, self._source.now_ms() - self.monitor.now_ms))
        self._source.resume(self.monitor.rows, self.monitor.now_ms)
        if self.monitor.batch is not None:
            self._source.resumed(self._state.source_offsets(self.monitor.batch))
        if self._source.live:
            self._timers_ms = self._source.now_ms()
            self._register_channels(self._timers_ms)
        self._source.balance(self._progress_of_active())
        self._start_query()

    def _start_query(self) -> None:
        assert self._frame is not None
        writer = self._frame.writeStream.foreachBatch(self._apply)
        writer = writer.option("checkpointLocation", str(self._state.checkpoint)).trigger(**self._source.trigger())
        self._query = writer.start()

    @property
    def exhausted(self) -> bool:
        """Whether a bounded source has been read to its end."""
        if not self._source.bounded:
            return False
        if self._source.rows_in_all is not None:
            return self.monitor.rows >= self._source.rows_in_all
        return self._query is not None and not self._query.isActive and self._query.exception() is None

    def progress(self) -> dict[str, Any] | None:
        """Spark's report of the last batch, as its JSON."""
        try:
            report = self._query.lastProgress if self._query else None
        except (Py4JError, OSError):  # the JVM died: the main loop will see it
            return None
        return None if report is None else dict(report)

    def check(self) -> None:
        """Raise RunError if the query has failed for good; start it again where its source says that this may help."""
        if self.failure is not None:
            raise RunError(_one_line(self.failure))
        error = self._query.exception() if self._query else None
        if error is None or self._stopping:
            return
        if self._retry_at is None:
            self._failures += 1
            why = _one_line(self._read_failure or error)
            wait_s = self._source.retry_after_s(self._failures, why)
            if wait_s is None:
                raise RunError(why)
            self._retry_at = time.monotonic() + wait_s
        elif time.monotonic() >= self._retry_at:
            self._retry_at = self._read_failure = None
            self._start_query()

    def tick(self) -> None:
        """Emit what processing time owes, if the source has nothing unread."""
        if not self._source.ticks or self.monitor.ended:
            return
        if not self._lock.acquire(blocking=False):
            return  # a batch runs: nothing is emitted meanwhile
        try:
            if self._source.live and not self._is_waiting():
                return
            now = self._read_until()
            self._keep_timers(now, self._source.unread())
            before = self.monitor.standing()
            self._register_channels(now)
            firings = tick_until(self.monitor, now)
            self._source.balance(self._progress_of_active())
            if firings or before != self.monitor.standing():
                self._save(firings)
        finally:
            self._lock.release()

    @property
    def busy(self) -> bool:
        """Whether a batch runs, so that looking at the monitor has to wait."""
        free = self._lock.acquire(blocking=False)
        if free:
            self._lock.release()
        return not free

    def now_ms(self) -> int | None:
        """Processing time (ms): of a source that ticks now, as far as everything before it has been read."""
        if not self._source.ticks or self.monitor.now_ms is None:
            return self.monitor.now_ms
        return max(self.monitor.now_ms, self._read_until())

    def _read_until(self) -> int:
        """Now, but before the arrival of the first row not read: what came before it is known."""
        limit = self._source.tick_limit_ms(self.monitor.rows)
        return self._source.now_ms() if limit is None else min(self._source.now_ms(), limit - 1)

    def change(self, lateness_ms: int | UnsetType, idle_after_ms: int | UnsetType | None, who: str) -> None:
        """Change settings at the next emit; ValueError where the strategy has no such setting, or after the end."""
        with self._lock:
            if self.monitor.ended:
                raise ValueError("the run has ended: nothing will be emitted any more")
            wall_ms = time.time_ns() // 1_000_000
            self.monitor.change(lateness_ms=lateness_ms, idle_after_ms=idle_after_ms, who=who, wall_ms=wall_ms)
            self._save([])

    def end(self) -> None:
        """The end-of-stream step: everything that is open fires."""
        with self._lock:
            if not self.monitor.ended:
                self._save(self.monitor.end())

    @contextmanager
    def looking(self) -> Generator[Monitor]:
        """The monitor, held still."""
        with self._lock:
            yield self.monitor

    def stop(self) -> None:
        """Stop the query between two batches, or drop the one that takes too long; what is applied is saved already."""
        self._stopping = True
        self._warmed_up()
        if self._lock.acquire(timeout=STOP_WITHIN_S) or self._frame is None:
            self._lock.release()
        else:
            with suppress(Py4JError, OSError):
                self._frame.sparkSession.sparkContext.cancelAllJobs()
        query, self._query = self._query, None
        if query is not None:
            with suppress(Py4JError, OSError):  # a JVM that died has stopped it
                query.stop()
        if self._firings is not None:
            self._firings.close()

    def _keep_timers(self, now: int, unread: Unread | None) -> None:
        """Whoever has something unread is slow, not quiet: that time does not count towards its idleness."""
        since, self._timers_ms = self._timers_ms, now
        if unread is not None and since is not None and now > since:
            self.monitor.exclude(now - since, unread.not_quiet())

    def _register_channels(self, now: int) -> None:
        """Channels that the source knows before their first record."""
        names = self._source.channels()
        if names:
            self.monitor.add_channels(names, now)

    def _progress_of_active(self) -> dict[str, int | None]:
        idle = self.monitor.clock.idle
        return {c.name: c.max_event_ms for number, c in enumerate(self.monitor.channels) if number not in idle}

    def _is_waiting(self) -> bool:
        """Whether the last trigger found no data."""
        status = self._query.status if self._query else {}
        return not (status.get("isDataAvailable", True) or status.get("isTriggerActive", True))

    def _apply(self, frame: "DataFrame", batch: int) -> None:
        with self._lock:
            if self._stopping:
                # Returning would let Spark commit a batch that was not applied.
                raise RuntimeError("stopping")
            if self.monitor.batch is not None and batch <= self.monitor.batch:
                return  # applied and saved before a crash, not yet committed by Spark
            try:
                time_ms = self._batch_time(batch)
                levels = levels_of(self.monitor, time_ms)
                observation = self._observe(frame, batch, levels)
                ends = self._state.source_offsets(batch)
                if time_ms is not None:
                    self._keep_timers(time_ms, self._source.left_by(ends, time_ms))
                    self._register_channels(time_ms)
                firings = self.monitor.apply(self._named_parts(observation))
                self._source.applied(ends)
                self._source.balance(self._progress_of_active())
                self._failures = 0
                self._digest = self._state.offsets_digest(batch)
                self._save(firings)
            except Exception as error:
                self.failure = None if self._stopping or error is self._read_failure else error
                raise
            self._on_batch()

    def _observe(self, frame: "DataFrame", batch: int, levels: Levels) -> BatchObservation:
        assert self._aggregation is not None
        self._warmed_up()
        try:
            return self._aggregation.observe(frame, batch, levels, self.monitor)
        except Exception as error:
            self._read_failure = error
            raise

    def _warmed_up(self) -> None:
        """Wait for the warm-up, which does the same work as the first batch."""
        warming, self._warming = self._warming, None
        if warming is not None:
            warming.join()

    def _named_parts(self, observation: BatchObservation) -> BatchObservation:
        """The offenders with the names of the parts of the source that they are in."""

        def named(offender: Offender | None) -> Offender | None:
            if offender is None or offender.part is None:
                return offender
            return replace(offender, part=self._source.part_name(int(offender.part)))

        return replace(
            observation, last_future=named(observation.last_future), last_malformed=named(observation.last_malformed)
        )

    def _batch_time(self, batch: int) -> int | None:
        """Processing time of a batch: when its input was fixed; None in a replay, where the records say it."""
        if not self._source.live:
            return None
        return self._state.batch_time_ms(batch) or self._source.now_ms()

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


def _one_line(error: BaseException) -> str:
    """The innermost reason of an error, without Java's, Spark's or Python's decoration; else its first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reasons = [found["reason"] for found in map(_REASON.match, lines) if found]
    reasons = [reason for reason in reasons if not reason.startswith(("Job aborted", "Traceback"))]
    return next(iter([*reasons[-1:], *lines[:1]]), type(error).__name__)
