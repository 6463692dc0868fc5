"""The words for codes in a snapshot: kinds of operators, why windows are unknown."""

from collections.abc import Callable, Mapping

from ..snapshot import OperatorKind, WindowsUnknownCode
from . import formatting as f

Args = Mapping[str, str | int | None]

NO_LINKS = "No task of this job receives a watermark"
JOB_GONE = "The JobManager does not know the job any more"
OPERATORS: dict[OperatorKind, str] = {
    "aggregation": "aggregation",
    "session": "session windows",
    "join": "stream-stream join",
    "dedup": "dropDuplicates",
    "dedup_within_watermark": "dropDuplicatesWithinWatermark",
    "limit": "limit",
    "map_groups_with_state": "mapGroupsWithState",
    "transform_with_state": "transformWithState",
    "other": "stateful operator",
}


def unknown_text(code: str | None, args: Args) -> str | None:
    """The reason in one line; None without one."""
    if code is None:
        return None
    words = _WORDS[code] if code in _WORDS else f.clean(code)
    text = words if isinstance(words, str) else words(args)
    operator = args.get("operator")
    return text if operator is None else f"operator {f.clean(str(operator))}: {text}"


def _arg(args: Args, name: str) -> str:
    value = args.get(name)
    return f.UNKNOWN if value is None else f.count(value) if isinstance(value, int) else f.clean(value)


def _no_windows(args: Args) -> str:
    if (timers := args.get("timers")) is not None:
        return f"custom state, {f.counted(int(timers), 'timer')} set; its windows are not known"
    return _KINDS.get(str(args.get("kind")), "the state has no windows")


_KINDS = {
    "join": "a stream-stream join keeps rows, not windows",
    "dedup": "dropDuplicates keeps keys, not windows",
    "dedup_within_watermark": "dropDuplicatesWithinWatermark keeps keys, not windows",
    "limit": "limit keeps a count, not windows",
    "map_groups_with_state": "custom state with timeouts; its windows are not known",
    "transform_with_state": "custom state with timers; its windows are not known",
}
_BY_SPARK = "only --state-reader spark reads it"
_WORDS: dict[WindowsUnknownCode, str | Callable[[Args], str]] = {
    "no_state": "the query keeps no state",
    "state_not_read": "the state is not read",
    "state_not_found": "the state was not found",
    "no_batch": "no batch has been committed yet",
    "commits_unreadable": "the commits cannot be read, so the state in force is not known",
    "settings_unreadable": "the query's settings could not be read",
    "partitions_unknown": "the number of state partitions is not known",
    "nothing_read": "nothing could be read",
    "no_windows": _no_windows,
    "no_time_window": "the aggregation is not by a time window",
    "several_time_windows": "the aggregation has several time windows",
    "time_window_form": "the time window has an unknown form",
    "state_store": lambda args: f"the state store is {_arg(args, 'name')}; {_BY_SPARK}",
    "state_encoding": lambda args: f"the state is encoded as {_arg(args, 'name')}; {_BY_SPARK}",
    "too_many_keys": lambda args: f"the state has more than {_arg(args, 'limit')} keys and is not read",
    "vanished": lambda args: f"{_arg(args, 'why')}; it may have been purged just now",
    "unreadable": lambda args: _arg(args, "why"),
    "remote_state": lambda args: (
        f"the state has {_arg(args, 'partitions')} partitions; at most {_arg(args, 'limit')} are fetched from a store"
    ),
    "remote_state_size": lambda args: (
        f"the state has {_arg(args, 'bytes')} bytes; at most {_arg(args, 'limit')} are fetched from a store"
    ),
    "spark_starting": "Spark is starting to read the state",
    "spark_slow": lambda args: f"Spark has not read the state within {_arg(args, 'seconds')} s",
    "spark_failed": lambda args: _arg(args, "why"),
    "spark_unreadable": lambda args: f"Spark could not read the state: {_arg(args, 'why')}",
    "not_in_broker": "the broker has no windows",
    "not_in_rest": "Flink's REST API does not show windows",
}
