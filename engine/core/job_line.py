"""The one line of somebody else's job that sets what a preview shows: from outside it cannot be changed. Pure."""

from .snapshot import Snapshot

_SPARK_UNITS = (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1_000), ("millisecond", 1))
_JAVA_UNITS = (("Days", 86_400_000), ("Hours", 3_600_000), ("Minutes", 60_000), ("Seconds", 1_000), ("Millis", 1))


def line_in_job(snapshot: Snapshot, value_ms: int | None, *, idle: bool = False) -> str | None:
    """What to write in the job for a lateness (or idle timeout) of `value_ms`; None: no line of a job says that."""
    if snapshot.origin is None or snapshot.source is None or value_ms is None:
        return None
    if snapshot.source.kind == "group":  # of a consumer nothing is known but its positions: Flink has these words
        return f".withIdleness({_java(value_ms)})" if idle else f"forBoundedOutOfOrderness({_java(value_ms)})"
    if snapshot.settings.strategy != "spark" or idle:
        return None
    columns = {node.column for node in snapshot.spark.nodes or ()}
    column = columns.pop() if len(columns) == 1 else None
    return f'withWatermark("{column or "<event-time column>"}", "{_interval(value_ms)}")'


def _interval(ms: int) -> str:
    """As Spark's SQL reads it: `45 seconds`."""
    unit, size = next((unit, size) for unit, size in _SPARK_UNITS if not ms % size and (ms or unit == "second"))
    return f"{ms // size} {unit}{'' if ms == size else 's'}"


def _java(ms: int) -> str:
    unit, size = next((unit, size) for unit, size in _JAVA_UNITS if not ms % size and (ms or unit == "Seconds"))
    return f"Duration.of{unit}({ms // size})"
