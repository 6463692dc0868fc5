"""The words for codes in a snapshot: causes and states of channels, kinds of operators, why windows are unknown.

One table each, used by every surface.
"""

import re
from collections.abc import Mapping
from datetime import UTC

from msgspec import Struct

from ..snapshot import Cause, ChannelState, OperatorKind, Snapshot, WindowsUnknownCode
from ..snapshot.kinds.flink_job import FlinkVertex
from ..snapshot.recommendation import Recommendation
from . import formatting as f

Args = Mapping[str, str | int | None]

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
    if code == "no_windows":
        text = _no_windows(args)
    elif code in _UNKNOWN:
        text = re.sub(r"{(\w+)}", lambda name: _arg(args, name[1]), _UNKNOWN[code])
    else:
        text = f.clean(code)
    operator = args.get("operator")
    return text if operator is None else f"operator {f.clean(str(operator))}: {text}"


def _arg(args: Args, name: str) -> str:
    value = args.get(name)
    return f.UNKNOWN if value is None else f.count(value) if isinstance(value, int) else f.clean(value)


def _no_windows(args: Args) -> str:
    if (timers := args.get("timers")) is not None:
        first_ms = args.get("first_ms")
        first = "" if first_ms is None else f", the first for {f.stamp(int(first_ms), UTC)}"
        return f"custom state, {f.counted(int(timers), 'timer')} set{first}; its windows are not known"
    return _KINDS.get(str(args.get("kind")), "the state has no windows")


_KINDS = {
    "join": "a stream-stream join keeps rows, not windows",
    "dedup": "dropDuplicates keeps keys, not windows",
    "dedup_within_watermark": "dropDuplicatesWithinWatermark keeps keys, not windows",
    "limit": "limit keeps a count, not windows",
    "map_groups_with_state": "custom state with timeouts; its windows are not known",
    "transform_with_state": "custom state with timers; its windows are not known",
}
_UNKNOWN: dict[WindowsUnknownCode, str] = {
    "no_state": "the query keeps no state",
    "state_not_read": "the state is not read",
    "state_not_found": "the state was not found",
    "state_elsewhere": "the state is on another machine",
    "no_batch": "no batch has been committed yet",
    "commits_unreadable": "the commits cannot be read, so the state in force is not known",
    "settings_unreadable": "the query's settings could not be read",
    "partitions_unknown": "the number of state partitions is not known",
    "nothing_read": "nothing could be read",
    "no_time_window": "the keys of the state have no time window",
    "several_time_windows": "the aggregation has several time windows",
    "time_window_form": "the time window has an unknown form",
    "state_store": "the state store is {name}; only --state-reader spark reads it",
    "state_encoding": "the state is encoded as {name}; only --state-reader spark reads it",
    "too_many_keys": "the state has more than {limit} keys and is not read",
    "vanished": "{why}; it may have been purged just now",
    "unreadable": "{why}",
    "remote_state": "the state has {partitions} partitions; at most {limit} are fetched from a store",
    "remote_state_size": "the state has {bytes} bytes; at most {limit} are fetched from a store",
    "spark_starting": "Spark is starting to read the state",
    "spark_slow": "Spark has not read the state within {seconds} s",
    "spark_failed": "{why}",
    "spark_unreadable": "Spark could not read the state: {why}",
    "not_in_broker": "the broker has no windows",
    "not_in_rest": "Flink's REST API does not show windows",
    "sink_waits": "the upsert sink holds its rows until the watermark has passed them",
}
"""The words for a code but `no_windows`; names in braces stand for its arguments."""


class CauseWords(Struct, frozen=True):
    """The words for a cause; names in braces stand for the numbers of a case."""

    short: str
    """What it is, for lists and events."""
    one: str
    """What a channel does, for the verdict."""
    several: str
    """What several channels do."""
    sentence: str
    """The cause with its numbers, after "held back by F9:"."""
    ends_with: str = "newer records"
    """What ends it."""


class StateWords(Struct, frozen=True):
    """The words for the state of a channel."""

    short: str
    sentence: str
    """After the channel's name; names in braces stand for numbers."""


CAUSES: dict[Cause, CauseWords] = {
    "quiet": CauseWords("no data", "has no data", "have no data", "no data{quiet}{all_read}"),
    "never_seen": CauseWords("never seen", "has never had data", "have never had data", "no record since the start"),
    "backlog": CauseWords("backlog", "has a backlog", "have a backlog", "backlog{backlog}{lag}", "reading its backlog"),
    "behind": CauseWords("lagging", "is lagging", "are lagging", "lagging, {behind} behind in event time"),
    "future_elsewhere": CauseWords(
        "future timestamp elsewhere",
        "waits: a future timestamp elsewhere",
        "wait: a future timestamp elsewhere",
        "future timestamps: {fastest} is {behind} ahead of the others",
        "nothing here: look at the channel with the future timestamp (--future-guard)",
    ),
    "slow_clock": CauseWords(
        "slow clock",
        "is ahead of the clock",
        "are ahead of the clock",
        "slow clock, all timestamps are ahead of the clock here",
        "a correct clock: all timestamps are ahead of the one here",
    ),
    "held_back": CauseWords(
        "paused by --max-drift",
        "is paused by --max-drift",
        "are paused by --max-drift",
        "paused by --max-drift until slower partitions catch up",
        "the slower partitions catching up (--max-drift)",
    ),
    "lateness_raised": CauseWords(
        "event time below it",
        "waits: event time has to catch up",
        "wait: event time has to catch up",
        "no channel: event time has to catch up with the watermark",
        "event time catching up",
    ),
    "paused": CauseWords("source paused", "is paused", "are paused", "the source is paused", "resuming the source"),
    "in_flight": CauseWords(
        "records in a busy operator",
        "waits in a busy operator",
        "wait in a busy operator",
        "its records are still in a busy operator",
        "the busy operator finishing its records",
    ),
    "back_pressured": CauseWords(
        "source back-pressured",
        "is back-pressured",
        "are back-pressured",
        "its source is back-pressured{busy_after}",
        "the busy operator behind it: more parallelism, or less work for each record",
    ),
    "slow_reader": CauseWords(
        "source reads at full speed",
        "is read too slowly",
        "are read too slowly",
        "its source is busy all the time: it reads as fast as it can",
        "reading faster: more source subtasks, or less work in them",
    ),
    "stuck": CauseWords("watermark does not move", "does not advance", "do not advance", "its watermark {stuck}"),
    "kept_back": CauseWords(
        "a task keeps its watermark back",
        "keeps its watermark back",
        "keep their watermarks back",
        "{kept_back}",
        "the task: what its operators wait for (async I/O, a watermark of their own)",
    ),
    "no_watermark": CauseWords(
        "source sends no watermark",
        "sends no watermark",
        "send no watermark",
        "records come, but its source sends no watermark: is a watermark strategy set?",
        "a watermark strategy for the source, or after it, in the job",
    ),
    "no_split": CauseWords(
        "no split to read",
        "has no split to read",
        "have no split to read",
        "it has no split to read: its source has more subtasks than splits",
        "as many source subtasks as splits at most, or an idle timeout in the job",
    ),
    "lateness": CauseWords(
        "lateness", "waits for late records", "wait for late records", "no channel: it waits for late records"
    ),
    "trigger": CauseWords(
        "waits for its trigger", "waits for the trigger", "wait for the trigger", "no channel: it waits for its trigger"
    ),
    "no_member": CauseWords(
        "no consumer in the group", "is read by no consumer", "are read by no consumer", "no consumer in the group"
    ),
}

CHANNEL_STATES: dict[ChannelState, StateWords] = {
    "active": StateWords("active", "is active"),
    "idle": StateWords("idle", "is idle{quiet}: it is left out of the minimum until its next record"),
    "catching_up": StateWords(
        "realigning", "was idle and is realigning{behind}: it counts again once it reaches the watermark"
    ),
    "never_seen": StateWords("never seen", "was never seen: no record since the start"),
    "finished": StateWords("finished", "is finished: no more records will come"),
}


BUSY = 0.5
"""Share of its time from which a task is marked as busy or back-pressured."""
_NAME_CELLS = 28


def is_busy(task: FlinkVertex) -> bool:
    """Whether its busiest subtask is busy most of the time."""
    return (task.busy or 0) >= BUSY


def is_back_pressured(task: FlinkVertex) -> bool:
    """Whether one of its subtasks waits most of the time for downstream tasks to take its records."""
    return (task.back_pressured or 0) >= BUSY


def bottleneck(snapshot: Snapshot) -> FlinkVertex | None:
    """The busiest task directly below a back-pressured one that is not back-pressured itself."""
    tasks = snapshot.job.vertices
    waits = {task.id for task in tasks if is_back_pressured(task)}
    below = [task for task in tasks if waits.intersection(task.inputs) and task.id not in waits]
    return max((one for one in below if is_busy(one)), key=lambda one: one.busy or 0, default=None)


def busy_after(snapshot: Snapshot) -> str:
    """` by Window (busy 98 %)`; empty where no task is known to be busy."""
    task = bottleneck(snapshot)
    return "" if task is None else f" by {f.label(task.name, _NAME_CELLS)} (busy {f.share(task.busy)})"


def busiest_task(snapshot: Snapshot) -> str:
    """`: Map is busy 98 % of its time`; empty where no task is known to be busy."""
    task = max((one for one in snapshot.job.vertices if is_busy(one)), key=lambda one: one.busy or 0, default=None)
    return "" if task is None else f": {f.label(task.name, _NAME_CELLS)} is busy {f.share(task.busy)} of its time"


def kept_back(snapshot: Snapshot, sends: str = "sends a watermark") -> str:
    """How far the task with the barrel's lowest input sends its watermark behind the one it receives."""
    task = next((task for task in snapshot.job.vertices if task.id == snapshot.job.held_in), None)
    if task is None or task.input_ms is None or task.output_ms is None or task.input_ms <= task.output_ms:
        where = "its task" if task is None else f"an operator in {f.label(task.name, _NAME_CELLS)}"
        return f"{where} {sends} behind the one that it takes in"
    behind = f.duration(task.input_ms - task.output_ms)
    return f"{f.label(task.name, _NAME_CELLS)} {sends} {behind} behind what it takes in"


def recommended_line(found: Recommendation) -> str:
    """The recommended lateness with its evidence, or why there is none, in one line."""
    value, why = recommended_words(found)
    return f"recommended lateness: {value} ({why})"


def recommended_words(found: Recommendation) -> tuple[str, str]:
    """The value (`none`), and its evidence or the reason."""
    if found.lateness_ms is None:
        return "none", _no_recommendation(found)
    bound = "≤ " if found.upper_bound else ""
    when = "in the " * (found.horizon_ms is not None) + f.horizon_words(found.horizon_ms)
    parts = [
        f"{bound}{f.count(found.late)} of {f.count(found.records)} records late {when}",
        f"95 %: {f.span(f.share(found.low), f.share(found.high))}",
    ]
    if (
        found.delay_ms is not None and found.delay_ms < f.DAY
    ):  # of a backfill the time since a window's end says nothing
        parts.append(f"results {f.duration(found.delay_ms)} after their window's end")
    return f.setting(found.lateness_ms), f"{_goal(found)} on time: {', '.join(parts)}"


def _goal(found: Recommendation) -> str:
    return f"{100 * found.target:.10g} %"


def _no_recommendation(found: Recommendation) -> str:
    records, needs = f.counted(found.records, "record"), f.count(found.needs)
    few = "is too few" if found.records == 1 else "are too few"
    match found.reason:
        case "too_few":
            return f"{records} {few}: {_goal(found)} needs {needs}"
        case "too_few_for_less":
            return f"{records} {few} for less than the lateness in force: that needs {needs}"
        case "too_late":
            return f"{f.count(found.late)} of {records} are late at any lateness"
        case "one_batch":
            return "all records came in one batch, so none could be late"
        case _:
            return "how late records are is not known"
