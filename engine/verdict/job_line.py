"""The line of code that sets a previewed value in an attached job, where alone it can be changed. Pure."""

import re

from ..snapshot import Snapshot

_SPARK_UNITS = (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1_000), ("millisecond", 1))
_SQL_UNITS = (("DAY", 86_400_000), ("HOUR", 3_600_000), ("MINUTE", 60_000), ("SECOND", 1_000))
_OPTION_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1))
_SQL_NODE = re.compile(r"\w\[\d+\]")
"""Flink's SQL planner numbers its operators: `GlobalWindowAggregate[5]`."""
_JAVA_UNITS = (("Days", 86_400_000), ("Hours", 3_600_000), ("Minutes", 60_000), ("Seconds", 1_000), ("Millis", 1))


def line_in_job(snapshot: Snapshot, value_ms: int | None, *, idle: bool = False) -> str | None:
    """The line that sets a lateness (or idle timeout) of `value_ms` in the job; None: a job has no such line."""
    if not snapshot.is_attached or snapshot.source is None or value_ms is None:
        return None
    if is_sql(snapshot):
        if idle:
            return f"'scan.watermark.idle-timeout' = '{_option(value_ms)}'"
        return f"WATERMARK FOR ts AS ts - INTERVAL {_sql(value_ms)}"
    if snapshot.source.kind in ("group", "flink"):  # a consumer group shows only positions: it may be Flink
        return f".withIdleness({_java(value_ms)})" if idle else f"forBoundedOutOfOrderness({_java(value_ms)})"
    if snapshot.settings.strategy != "spark" or idle:
        return None
    columns = {node.column for node in snapshot.spark.nodes or ()}
    column = columns.pop() if len(columns) == 1 else None
    return f'withWatermark("{column or "<event-time column>"}", "{_interval(value_ms)}")'


def lines_in_jobs(lateness_ms: int, idle_after_ms: int | None, column: str = "ts") -> dict[str, str]:
    """The line that sets a lateness, and an idle timeout (None: leave it as it is), in each kind of job.

    Spark has no idle timeout; Kafka Streams has a grace period in its place, and no idle timeout either.
    """
    idle_java = "" if idle_after_ms is None else f".withIdleness({_java(idle_after_ms)})"
    idle_sql = "" if idle_after_ms is None else f"; WITH ('scan.watermark.idle-timeout' = '{_option(idle_after_ms)}')"
    bounded = f"forBoundedOutOfOrderness({_java(lateness_ms)})"
    return {
        # Spark drops what equals its watermark, which Flink keeps.
        "spark": f'withWatermark("{column}", "{_interval(lateness_ms or 1)}")',
        "flink_java": f"WatermarkStrategy.<Event>{bounded}{idle_java}",
        "flink_sql": f"WATERMARK FOR {column} AS {column} - INTERVAL {_sql(lateness_ms)}{idle_sql}",
        "kafka_streams": f"TimeWindows.ofSizeAndGrace(size, {_java(lateness_ms)})",
    }


def is_sql(snapshot: Snapshot) -> bool:
    """Whether the Flink job comes from SQL or the Table API, by the names of its operators."""
    return any(_SQL_NODE.search(task.name) for task in snapshot.job.vertices)


def _sql(ms: int) -> str:
    """A duration as Flink's SQL reads it: `'45' SECOND`; a number of three digits needs an explicit precision."""
    unit, size = next(((unit, size) for unit, size in _SQL_UNITS if ms and not ms % size), ("SECOND", 1_000))
    digits = len(str(ms // size))
    precision = f"({digits})" if digits > 2 else ""
    return f"'{ms / size:.3f}' {unit}{precision}" if ms % size else f"'{ms // size}' {unit}{precision}"


def _option(ms: int) -> str:
    """A duration as Flink's options read it: `1 min`."""
    unit, size = next((unit, size) for unit, size in _OPTION_UNITS if not ms % size and (ms or unit == "s"))
    return f"{ms // size} {unit}"


def _interval(ms: int) -> str:
    """A duration as Spark's SQL reads it: `45 seconds`."""
    unit, size = next((unit, size) for unit, size in _SPARK_UNITS if not ms % size and (ms or unit == "second"))
    return f"{ms // size} {unit}{'' if ms == size else 's'}"


def _java(ms: int) -> str:
    unit, size = next((unit, size) for unit, size in _JAVA_UNITS if not ms % size and (ms or unit == "Seconds"))
    return f"Duration.of{unit}({ms // size})"
