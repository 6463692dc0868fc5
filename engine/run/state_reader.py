"""The open windows of a query's aggregations, read by Spark itself: works for any state store, but needs a JVM."""

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from ..snapshot import WindowsUnknown
from ..system.errors import RunError, UsageError, one_line
from ..targets.spark.checkpoint import CheckpointFacts
from ..targets.spark.files import UnreadableError, numbers
from ..targets.spark.open_windows import (
    MAX_WINDOWS,
    NO_WINDOWS,
    OPERATOR_KINDS,
    OpenWindows,
    StoredWindow,
    carries_watermark,
)
from .session import build_session, stop_session

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession

PATIENCE_S = 180.0
"""Longest time (s) that one read waits for Spark to start and to read."""
EVERY_S = 15.0
"""Shortest time (s) between two reads of the state: a read takes seconds of two cores, which the query may need."""


class SparkWindows:
    """Reads the state of every operator on a thread of its own; a poll returns the last result.

    With `waits` the first poll waits for a result: for a single look.
    """

    def __init__(self, path: Path, *, waits: bool = False) -> None:
        self._path = path
        self._waits = waits
        self._answered = threading.Event()
        self._wanted: int | None = None
        self._done: int | None = None
        """The last batch that was read, or could not be."""
        self._read: tuple[OpenWindows, ...] = (OpenWindows(operator=0, reason=WindowsUnknown("spark_starting")),)
        self._news = threading.Condition()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def poll(self, facts: CheckpointFacts) -> tuple[OpenWindows, ...]:
        """The open windows of the last read, by operator; the next read is for the last committed batch."""
        with self._news:
            if facts.committed is not None and facts.committed != self._wanted:
                self._wanted = facts.committed
                self._news.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._follow, name="wmtop-state", daemon=True)
            self._thread.start()
            if self._waits and facts.committed is not None and not self._answered.wait(PATIENCE_S):
                return (OpenWindows(operator=0, reason=WindowsUnknown("spark_slow", {"seconds": round(PATIENCE_S)})),)
        return self._read

    def close(self) -> None:
        """Stop Spark."""
        with self._news:
            self._stopping = True
            self._news.notify()
        if self._thread is not None:
            self._thread.join(EVERY_S)

    def _follow(self) -> None:
        try:
            session = build_session(master="local[1]", app_name="wmtop state reader", needed=(4, 0))
        except (UsageError, RunError) as error:
            self._read = (
                OpenWindows(operator=0, reason=WindowsUnknown("spark_failed", {"why": one_line(str(error))})),
            )
            self._answered.set()
            return
        try:
            while (batch := self._next()) is not None:
                started = time.monotonic()
                try:
                    operators = sorted(numbers(self._path / "state"))
                except UnreadableError:
                    operators = []
                self._read = tuple(self._operator(session, operator, batch) for operator in operators)
                self._done = batch
                self._answered.set()
                with self._news:
                    rest_s = max(0.0, EVERY_S - (time.monotonic() - started))
                    self._news.wait_for(lambda: self._stopping, timeout=rest_s)
        finally:
            stop_session(session)

    def _next(self) -> int | None:
        """Wait for a batch that was not read yet; None: stop."""
        with self._news:
            # Without any operator so far, a batch that was read may have one by now.
            self._news.wait_for(lambda: self._stopping or not self._read or self._wanted != self._done)
            return None if self._stopping else self._wanted

    def _operator(self, session: "SparkSession", operator: int, batch: int) -> OpenWindows:
        try:
            return read_windows(session, self._path, operator, batch)
        except Exception as error:  # any error of Spark: the next batch may be readable
            known = next((windows_of for windows_of in self._read if windows_of.operator == operator), None)
            windows = known.windows if known is not None else ()
            reason = WindowsUnknown("spark_unreadable", {"why": one_line(str(error), 160)})
            read_batch = batch if windows else None
            return OpenWindows(operator=operator, batch=read_batch, windows=windows, open=len(windows), reason=reason)


def read_windows(session: "SparkSession", path: Path, operator: int, batch: int) -> OpenWindows:
    """The open windows of one operator after `batch`; a reason if its rows have no time window."""
    # Spark reads the state in the format that its session would write, not in that of the checkpoint.
    commit_format = (path / "commits" / str(batch)).read_text().partition("\n")[0]
    session.conf.set("spark.sql.streaming.stateStore.checkpointFormatVersion", commit_format.removeprefix("v"))
    reader = session.read.format("statestore").option("path", str(path))
    reader = reader.option("operatorId", operator).option("batchId", batch)
    try:
        frame = reader.load()
    except PySparkException:  # transformWithState has a state for each of its variables
        reason = _without_windows(session, path, operator)
        if reason.args.get("kind") != "transform_with_state":
            raise
        return OpenWindows(operator=operator, batch=None, reason=_with_timers(reader, reason))
    window, sessions = _window_of(frame, "key"), _window_of(frame, "value")
    if window is None and sessions is None:
        return OpenWindows(operator=operator, batch=None, reason=_without_windows(session, path, operator))
    of = sessions if window is None else window
    assert of is not None
    counts = _counts_of(frame)
    by = [F.unix_millis(of["start"]).alias("start_ms"), F.unix_millis(of["end"]).alias("end_ms")]
    by += [F.col("key")] if window is None else []  # each key has sessions of its own
    grouped = frame.groupBy(*by).agg(
        F.count(F.lit(1)).alias("keys"), F.sum(counts if counts is not None else F.lit(None)).alias("records")
    )
    first = grouped.orderBy("end_ms", "start_ms").limit(MAX_WINDOWS).collect()
    sums = grouped.agg(F.count(F.lit(1)), F.sum("keys")).head()
    assert sums is not None
    return OpenWindows(
        operator=operator,
        batch=batch,
        windows=tuple(StoredWindow(row.start_ms, row.end_ms, row["keys"], row.records) for row in first),
        open=sums[0],
        keys=sums[1] or 0,
        kind="session" if window is None else "aggregation",
        evicts=carries_watermark(path / "state" / str(operator)),
    )


def _without_windows(session: "SparkSession", path: Path, operator: int) -> WindowsUnknown:
    about = session.read.format("state-metadata").load(str(path)).where(F.col("operatorId") == operator).first()
    kind = None if about is None else OPERATOR_KINDS.get(about["operatorName"])
    return WindowsUnknown("no_windows", {"kind": kind}) if kind in NO_WINDOWS else WindowsUnknown("no_time_window")


def _with_timers(reader: "DataFrameReader", reason: WindowsUnknown) -> WindowsUnknown:
    """The reason with the number of timers and the time (epoch ms) of the first, where they can be read."""
    try:
        timers = reader.option("readRegisteredTimers", "true").load()
        summary = timers.agg(F.count(F.lit(1)), F.min("expiration_timestamp_ms")).head()
    except PySparkException:
        return reason
    assert summary is not None
    return WindowsUnknown(reason.code, reason.args | {"timers": summary[0], "first_ms": summary[1]})


def _window_of(frame: "DataFrame", side: str) -> "Column | None":
    """The time window in the key; for sessions, in the value."""
    row = frame.schema[side].dataType if side in frame.schema.names else None
    fields = row.fields if isinstance(row, StructType) else []
    structs = [(field.name, field.dataType) for field in fields if isinstance(field.dataType, StructType)]
    windows = [name for name, kind in structs if kind.names == ["start", "end"]]
    return F.col(f"{side}.`{windows[0]}`") if len(windows) == 1 else None


def _counts_of(frame: "DataFrame") -> "Column | None":
    """The query's own counts, the greatest of them; None if it has none."""
    value = frame.schema["value"].dataType
    fields = value.fields if isinstance(value, StructType) else []
    places = [at for at, field in enumerate(fields) if field.name == "count" and field.dataType.typeName() == "long"]
    numbered = StructType([StructField(str(at), field.dataType) for at, field in enumerate(fields)])
    counts = [F.col("value").cast(numbered)[str(at)] for at in places]  # columns may have the same name
    return F.greatest(*counts) if len(counts) > 1 else counts[0] if counts else None
