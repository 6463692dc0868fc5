"""The two lines in a Spark job that make it visible.

`publish(spark)` publishes the job's streaming queries for attached viewers, and never waits for one. The queries'
events are added up here, in the job, so that a viewer that attaches late misses nothing; a thread of its own writes the
newest sum to the run directory. No error in this code ever reaches the job.

`tap(df, time, channel)` is one `observe` before a watermark, which shows event time input by input. Sketches count in
one pass without a shuffle, exactly up to 4,096 keys per batch; beyond that they keep a fair sample of the keys and
report it. Their arguments are columns computed before, in generated code: inside such an aggregate Spark interprets an
expression row by row. Channels are hashed as bytes: strings would be encoded twice.
"""

import atexit
import itertools
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyspark
from msgspec.structs import replace
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryListener

from ..feed.run_directory import run_dir
from ..system.errors import UsageError, one_line
from ..system.files import try_lock_file
from .spark.checkpoint import WATERMARK_POLICY
from .spark.facts import (
    Application,
    QueryEvent,
    QueryIdle,
    QueryProgress,
    QueryStarted,
    QueryTerminated,
    RunningBatch,
    decode_progress,
)
from .spark.files import T, UnreadableError
from .spark.plan import ADVANCEMENT, TAP, PlanFacts, is_slowest_clock, lines_of_tree, read_plan
from .spark.queries import Queries
from .spark.reports import SUFFIX, remove_leftovers

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_CONNECT = "Spark Connect"
"""Used instead of a session id, so that its line is logged once."""
LAST_WORD_S = 1.0
"""Longest time (s) that an ending job waits for its last event to be written."""

CANNOT_PUBLISH = "wmtop cannot publish the queries of this session: %s"
OVER_CONNECT = "wmtop cannot publish over Spark Connect: attach to the event log of its server instead"
_log = logging.getLogger("wmtop")
NO_CHANNEL = "(none)"
LOG_KEYS = 12
"""Base-2 logarithm of the number of keys up to which sketches are exact."""
NAMES = 1000
"""Channels known by name, at most; others are known by a hash."""

_MS, _MS_DOUBLE, _BUCKET = "__wmtop_ms", "__wmtop_ms_double", "__wmtop_bucket"
_CHANNEL, _CHANNEL_KEY = "__wmtop_channel", "__wmtop_channel_key"
_numbers: dict[str, Iterator[int]] = {}
_lock = threading.Lock()
_job: "Job | None" = None
_sessions: set[str] = set()


def publish(spark: "SparkSession") -> None:
    """See `wmtop.engine.publish`."""
    global _job
    if type(spark).__module__.startswith("pyspark.sql.connect."):
        if _CONNECT not in _sessions:
            _sessions.add(_CONNECT)
            _log.warning(OVER_CONNECT)
        return
    try:
        with _lock:
            # The JVM's id, since Python makes several objects for one session.
            java: Any = spark._jsparkSession  # pyright: ignore[reportPrivateUsage]
            session = java.sessionUUID()
            if session in _sessions:
                return
            if _job is None:
                _job = Job(run_dir(), spark.sparkContext.appName or "", spark.sparkContext.applicationId)
            spark.streams.addListener(_Listener(_job, spark))
            _sessions.add(session)
    except Exception as error:
        _log.warning(CANNOT_PUBLISH, one_line(str(error) or repr(error)))


class Job:
    """This process, as published: takes events, writes the newest state."""

    def __init__(self, directory: Path, app: str, app_id: str | None) -> None:
        self._publication = Application(
            app=one_line(app), alive=True, app_id=app_id, pid=os.getpid(), written_ms=time.time_ns() // 1_000_000
        )
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", app).strip("._-")[:40] or "spark"
        self._path = directory / f"{name}-{os.getpid()}{SUFFIX}"
        self._held: int | None = None
        self._queries = Queries()
        self._learned: set[str] = set()
        self._state = threading.Condition()
        self._new = True
        self._ending = False
        remove_leftovers(directory)
        self._write(self._publication)
        self._thread = threading.Thread(target=self._keep_writing, name="wmtop-publish", daemon=True)
        self._thread.start()
        atexit.register(self.end)

    def take(self, event: QueryEvent) -> None:
        """Add an event; wakes the writer and does not wait for it."""
        with self._state:
            try:
                self._queries.apply(event)
            except UnreadableError as error:
                self._publication = replace(self._publication, trouble=str(error))
            self._wake_writer()

    def learn(self, run_id: str, plan: Callable[[], tuple[PlanFacts, str | None] | None]) -> None:
        """Fetch a run's plan and its watermark policy (None: not to be had), once; nothing while it is not known."""
        is_new = run_id not in self._learned and self._queries.knows(run_id)
        if is_new and (found := plan()) is not None:
            self._learned.add(run_id)
            with self._state:
                self._queries.set_plan(run_id, *found)
                self._wake_writer()

    def end(self) -> None:
        """Write what is left and still comes, if that takes only a moment; the file stays, without its lock."""
        with self._state:  # a script ends with its query: the JVM reports the end a moment later
            self._state.wait_for(lambda: all(run.ended for run in self._queries.facts()), LAST_WORD_S)
            self._ending = True
            self._state.notify_all()
        self._thread.join(LAST_WORD_S)

    def _wake_writer(self) -> None:
        self._new = True
        self._state.notify_all()

    def _keep_writing(self) -> None:
        while True:
            with self._state:
                self._state.wait_for(lambda: self._new or self._ending)
                if not self._new:
                    return
                self._new = False
                publication = replace(
                    self._publication, queries=self._queries.facts(), written_ms=time.time_ns() // 1_000_000
                )
            try:
                self._write(publication)
            except Exception as error:  # a full disk, a removed directory: the next event may succeed
                _log.debug("wmtop cannot publish: %r", error)

    def _write(self, publication: Application) -> None:
        """Replace the file by one that this process has locked from the start."""
        content = msgspec.json.encode(publication)
        new = self._path.with_name(self._path.name + ".new")
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            if not try_lock_file(fd):
                raise BlockingIOError(f"{new} is locked")
            with open(fd, "wb", closefd=False) as file:
                file.write(content)
            os.rename(new, self._path)
        except BaseException:
            os.close(fd)
            raise
        if self._held is not None:
            os.close(self._held)
        self._held = fd


class _Listener(StreamingQueryListener):
    """Receives the JVM's own events; no exception leaves it.

    PySpark would first turn each event into Python objects, field by field: 30 ms of Python a batch instead of 0.5.
    """

    def __init__(self, job: Job, spark: "SparkSession") -> None:
        self._job = job
        self._session = spark
        self._streams: dict[str, Any] = {}
        """The JVM's queries, by run: the session forgets one before its end comes."""

    @property
    def _jlistener(self) -> Any:
        from pyspark import SparkContext

        jvm: Any = SparkContext._jvm  # pyright: ignore[reportPrivateUsage]
        return jvm.PythonStreamingQueryListenerWrapper(self)

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        self._take(event, lambda ids: QueryStarted(*ids, event.name(), event.timestamp()))

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self._take(event.progress(), lambda ids: QueryProgress(decode_progress(event.progress().json())))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        def read(ids: tuple[str, str]) -> QueryEvent:
            # Unlike the event, the report on the trigger that found nothing to do has the ends of the sources.
            report = _tried(lambda stream: decode_progress(stream.lastProgress().json()), self._stream(ids))
            if report is not None and report.is_idle:
                return QueryProgress(report)
            return QueryIdle(*ids, event.timestamp())

        self._take(event, read)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        def read(ids: tuple[str, str]) -> QueryTerminated:
            exception, stream = event.exception(), self._streams.pop(ids[1], None)
            error = exception.get() if exception.isDefined() else None
            return QueryTerminated(*ids, error, stream and _tried(_last_batch, stream))

        self._take(event, read)

    def _take(self, event: Any, read: Callable[[tuple[str, str]], QueryEvent]) -> None:
        try:
            ids = _ids(event)
            plan = partial(_tried, self._plan, ids)
            self._job.learn(ids[1], plan)  # before the batch, whose lateness needs the delay
            self._job.take(read(ids))
            self._job.learn(ids[1], plan)
        except Exception as error:
            _log.debug("wmtop has lost an event: %r", error)

    def _plan(self, ids: tuple[str, str]) -> tuple[PlanFacts, str | None]:
        """The facts from a running query's plan, if the JVM gives access to it."""
        stream = self._stream(ids)
        plan = read_plan(lines_of_tree(stream.lastExecution().executedPlan().toString()))
        plan = replace(
            plan,
            checkpoint=one_line(str(stream.resolvedCheckpointRoot()).removeprefix("file:"), 4096),
            trigger_ms=_tried(_trigger_ms, stream),
            writes=_tried(_written_topics, stream),
            slowest_clock=is_slowest_clock(self._session.conf.get(ADVANCEMENT, "")),
        )
        return plan, _tried(_policy, stream) or self._session.conf.get(WATERMARK_POLICY, "min")

    def _stream(self, ids: tuple[str, str]) -> Any:
        """A running query in the JVM."""
        if ids[1] not in self._streams:
            query: Any = self._session.streams.get(ids[0])
            self._streams[ids[1]] = query._jsq.streamingQuery()
        return self._streams[ids[1]]

    class Java:
        """The attribute that Py4J needs."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)


def _ids(event: Any) -> tuple[str, str]:
    return event.id().toString(), event.runId().toString()


def _tried(read: Callable[[Any], T | None], stream: Any) -> T | None:
    """What `read` finds in a running query; None where it has stopped since, or Spark has other classes."""
    try:
        return read(stream)
    except Exception as error:
        _log.debug("wmtop cannot read %s: %r", read.__name__, error)
        return None


def _policy(stream: Any) -> str | None:
    """The watermark policy with which the query began; later changes of the session's setting do not affect it."""
    kept = stream.lastExecution().offsetSeqMetadata().conf().get(WATERMARK_POLICY)
    return str(kept.get()) if kept.isDefined() else None


def _last_batch(stream: Any) -> RunningBatch:
    """The batch that began last: the one in which it failed, if that is not reported."""
    execution = stream.lastExecution()
    return RunningBatch(execution.currentBatchId(), execution.offsetSeqMetadata().batchTimestampMs())


def _trigger_ms(stream: Any) -> int | None:
    """The interval of its trigger, 0 if batches follow each other; None for another kind of trigger."""
    trigger = stream.trigger()
    kind = trigger.getClass().getSimpleName().removesuffix("$")
    if kind == "ProcessingTimeTrigger":
        return int(trigger.intervalMs())
    return 0 if kind in ("AvailableNowTrigger", "OneTimeTrigger") else None


def _written_topics(stream: Any) -> tuple[str, ...] | None:
    """The address of the topic that its Kafka sink is set to write; None: another sink, or each row names its own."""
    plan = stream.logicalPlan()
    if "KafkaTable" not in str(plan.toString()).partition("\n")[0]:
        return None
    bootstrap, topic = (plan.writeOptions().get(name) for name in ("kafka.bootstrap.servers", "topic"))
    return (one_line(f"kafka://{bootstrap.get()}/{topic.get()}"),) if topic.isDefined() else None


def tap(
    df: "DataFrame",
    time: str,
    channel: "str | Column | None" = None,
    *,
    name: str | None = None,
    bucket_ms: int = 10_000,
) -> "DataFrame":
    """See `wmtop.engine.tap`."""
    if bucket_ms < 1:
        raise UsageError(f"tap: bucket_ms={bucket_ms!r} is not a width, e.g. 10_000", code="no_width")
    sketches = hasattr(F, "tuple_sketch_agg_double")
    if not sketches:
        _log.warning(
            "wmtop tap: Spark %s has no tuple sketches (new in 4.3): %s is seen as a whole, not by channel",
            pyspark.__version__,
            one_line(name or time),
        )
    ms = F.col(_MS)
    steps: list[dict[str, Column]] = [{_MS: _milliseconds(df, time)}]
    measures = [
        F.count(F.lit(1)).alias("rows"),
        (F.count(F.lit(1)) - F.count(ms)).alias("nulls"),
        F.min(ms).alias("min_ms"),
        F.max(ms).alias("max_ms"),
    ]
    if sketches:
        steps.append({_BUCKET: ms - F.pmod(ms, F.lit(bucket_ms))})
        measures += [
            F.max(F.lit(bucket_ms)).alias("bucket_ms"),
            _by(_BUCKET, F.lit(1.0), "sum").alias("rows_by_bucket"),
        ]
    if sketches and channel is not None:
        column = F.col(channel) if isinstance(channel, str) else channel
        named = F.coalesce(F.nullif(column.cast("string"), F.lit("")), F.lit(NO_CHANNEL))
        steps[1] |= {_CHANNEL: F.when(ms.isNotNull(), named), _MS_DOUBLE: ms.cast("double")}
        steps.append({_CHANNEL_KEY: F.col(_CHANNEL).cast("binary")})
        names = F.expr(f"to_json(transform(approx_top_k({_CHANNEL}, {NAMES}, {2 * NAMES}), found -> found.item))")
        measures += [
            _by(_CHANNEL_KEY, F.col(_MS_DOUBLE), "max").alias("max_by_channel"),
            _by(_CHANNEL_KEY, F.lit(1.0), "sum").alias("rows_by_channel"),
            names.alias("channel_names"),
        ]
    prepared = df
    for columns in steps:
        prepared = prepared.withColumns(columns)
    return prepared.observe(TAP + _name(name or time), *measures).drop(*(name for step in steps for name in step))


def _by(key: str, value: "Column", mode: str) -> "Column":
    return F.tuple_sketch_agg_double(key, value, LOG_KEYS, mode)


def _milliseconds(df: "DataFrame", time: str) -> "Column":
    kind = df.select(time).schema[0].dataType.simpleString()
    if kind != "timestamp":
        ntz = f"; convert it first: to_timestamp({time})" if kind == "timestamp_ntz" else ""
        raise UsageError(
            f"tap: {time!r} is of type {kind}: give the event-time column that withWatermark gets{ntz}", code="no_time"
        )
    return F.unix_millis(time)


def _name(wanted: str) -> str:
    """The input's name, unique in this process: a query refuses two observes with the same name."""
    clean = re.sub(r"[\s,]+", " ", wanted).strip()[:80]
    number = next(_numbers.setdefault(clean, itertools.count(1)))
    return clean if number == 1 else f"{clean}-{number}"
