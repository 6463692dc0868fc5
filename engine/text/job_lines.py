"""The lines of code that set a lateness or an idle timeout in a job, by what it is written in."""

from collections.abc import Sequence

from ..snapshot import Snapshot

_UNITS_MS = (86_400_000, 3_600_000, 60_000, 1_000, 1)
_SPARK_UNITS = ("day", "hour", "minute", "second", "millisecond")
_OPTION_UNITS = ("d", "h", "min", "s", "ms")
_JAVA_UNITS = ("Days", "Hours", "Minutes", "Seconds", "Millis")
_SQL_UNITS = ("DAY", "HOUR", "MINUTE", "SECOND")


def line_in_job(snapshot: Snapshot, value_ms: int | None, *, idle: bool = False) -> str | None:
    """The line that sets a lateness (or idle timeout) of `value_ms` in the job; None: a job has no such line."""
    if snapshot.source is None or value_ms is None:
        return None
    return _idle_timeout(snapshot, value_ms) if idle else _lateness(snapshot, value_ms)


def _lateness(snapshot: Snapshot, ms: int) -> str | None:
    match snapshot.target.written_in:
        case "flink_sql":
            return f"WATERMARK FOR ts AS ts - INTERVAL {_sql(ms)}"
        case "flink_java":
            return f"forBoundedOutOfOrderness({_java(ms)})"
        case "spark":
            return f'withWatermark("{_column(snapshot)}", "{_interval(ms)}")'
        case None:
            return None


def _idle_timeout(snapshot: Snapshot, ms: int) -> str | None:
    match snapshot.target.written_in:
        case "flink_sql":
            return f"'scan.watermark.idle-timeout' = '{_option(ms)}'"
        case "flink_java":
            return f".withIdleness({_java(ms)})"
        case "spark" | None:
            return None


def _column(snapshot: Snapshot) -> str:
    """The column given to a query's only `withWatermark`."""
    columns = {node.column for node in snapshot.spark.nodes or ()}
    column = columns.pop() if len(columns) == 1 else None
    return column or "<event-time column>"


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


def _in_units(ms: int, units: Sequence[str]) -> tuple[str, str]:
    """A duration as a whole number of the greatest unit that divides it, else as seconds with a fraction."""
    sizes = zip(units, _UNITS_MS, strict=False)
    unit, size = next((pair for pair in sizes if ms and not ms % pair[1]), (units[3], 1_000))
    return (f"{ms / size:.3f}" if ms % size else f"{ms // size}"), unit


def _sql(ms: int) -> str:
    """A duration as Flink's SQL reads it: `'45' SECOND`; three digits need an explicit precision, four are refused."""
    number, unit = _in_units(ms, _SQL_UNITS)
    digits = len(number.partition(".")[0])
    if digits <= 3:
        return f"'{number}' {unit}{f'({digits})' if digits > 2 else ''}"
    minutes, seconds = divmod(ms / 1_000, 60)
    hours, minutes = divmod(int(minutes), 60)
    days, hours = divmod(hours, 24)
    return f"'{days} {hours:02}:{minutes:02}:{seconds:06.3f}' DAY(3) TO SECOND"


def _option(ms: int) -> str:
    """A duration as Flink's options read it: `1 min`."""
    return " ".join(_in_units(ms, _OPTION_UNITS))


def _interval(ms: int) -> str:
    """A duration as Spark's SQL reads it: `45 seconds`."""
    number, unit = _in_units(ms, _SPARK_UNITS)
    return f"{number} {unit}{'' if number == '1' else 's'}"


def _java(ms: int) -> str:
    number, unit = _in_units(ms, _JAVA_UNITS)
    return f"Duration.of{unit}({number})"
