"""The words for each code of a note, and for each reason why windows are unknown. Pure."""

from collections.abc import Callable, Mapping

from ...engine.snapshot import Note, NoteCode
from ...engine.text import formatting as f
from ...engine.text.codes import unknown_text

Args = Mapping[str, str | int | None]


def note_text(note: Note) -> str:
    """The note in one line, without its time."""
    words = _WORDS[note.code]
    return words if isinstance(words, str) else words(note.args)


def _text(args: Args, name: str) -> str:
    value = args.get(name)
    return f.UNKNOWN if value is None else f.clean(str(value))


def _number(args: Args, name: str) -> int | None:
    value = args.get(name)
    return value if isinstance(value, int) else None


def _count(args: Args, name: str) -> str:
    return f.count(_number(args, name))


def _topic_missing(args: Args) -> str:
    return f"Waiting for topic {_text(args, 'topic')}, which does not exist yet; {_text(args, 'near')}"


def _topic_gone(args: Args) -> str:
    unread = _number(args, "unread")
    lost = f" with {f.counted(unread, 'unread record')}" if unread else ""
    return f"Topic {_text(args, 'topic')} was deleted{lost}; waiting for it to be recreated"


def _topic_recreated(args: Args) -> str:
    start = "from its start" if args.get("from_start") else "from its current end, its first records are skipped"
    return f"Topic {_text(args, 'topic')} was deleted and recreated; reading it {start}"


def _partition_added(args: Args) -> str:
    return f"Topic {_text(args, 'topic')} has a new partition {_count(args, 'partition')}"


def _cluster_answers(args: Args) -> str:
    silent_ms = _number(args, "silent_ms")
    after = "" if silent_ms is None else f" after {f.duration(silent_ms)}"
    return f"The Kafka cluster answers again{after}"


def _records_expired(args: Args) -> str:
    where = f"partition {_count(args, 'partition')} of {_text(args, 'topic')}"
    return f"Retention deleted {_count(args, 'records')} records of {where} before they were read"


def _batch_unfinished(args: Args) -> str:
    return f"Batch {_count(args, 'batch')} has not ended: it is slow, or the query died in it"


def _query_silent(args: Args) -> str:
    died = "" if args.get("alive") else ", or the query died"
    return f"No report from the query: it waits for its trigger, or a batch is slow{died}"


def _silent_for(args: Args) -> str:
    silent_ms = _number(args, "silent_ms")
    return "" if silent_ms is None else f" for {f.duration(silent_ms)}"


def _pause_unknown(args: Args) -> str:
    maybe = "it waits for its trigger, whose interval is not known from here, is idle, or has stopped"
    return f"No batch{_silent_for(args)}: {maybe}"


def _no_batch_ended(args: Args) -> str:
    return f"The query runs{_silent_for(args)}, and no batch has ended yet"


def _waits_for_trigger(args: Args) -> str:
    trigger_ms = _number(args, "trigger_ms")
    return "The query waits for its trigger" + ("" if trigger_ms is None else f": every {f.duration(trigger_ms)}")


def _channels_sampled(args: Args) -> str:
    return f"{_text(args, 'tap')}: {_count(args, 'kept')} of {_count(args, 'of')} channels are shown, a fair sample"


def _nodes_without_tap(args: Args) -> str:
    return f"No tap reports the watermark of {_text(args, 'columns')}; the slowest channel is not known"


def _partitions_unseen(args: Args) -> str:
    one = _number(args, "partitions") == 1
    who = f"Partition {_count(args, 'partition')} has" if one else f"{_count(args, 'partitions')} partitions have"
    return f"{who} no records: a job without an idle timeout waits for that; the watermark here does not"


def _jvm_silent(args: Args) -> str:
    return f"The JVM (process {_text(args, 'pid')}) has not answered{_silent_for(args)}"


def _start_stuck(args: Args) -> str:
    return f"No progress{_silent_for(args)} while {_text(args, 'step')}; the log may say why"


def _one_batch(args: Args) -> str:
    smaller = {"replay": "give --batch-rows N or --speed X", "kafka": "give --batch-records N"}.get(
        _text(args, "source"), "let the files come one after the other"
    )
    return f"All records came in one batch, so that none could be late; to see late records {smaller}"


def _channels_folded(args: Args) -> str:
    channels = f"{'≥ ' if args.get('at_least') else ''}{_count(args, 'channels')}"
    return (
        f"{channels} channels beyond --max-channels {_text(args, 'limit')} share the channel {_text(args, 'into')} "
        f"({_count(args, 'records')} records)"
    )


def _snapshot_too_long(args: Args) -> str:
    size = f"{_count(args, 'bytes')} bytes, more than the {_count(args, 'limit')} that a viewer reads"
    return f"The snapshot has {_count(args, 'channels')} channels and {size}; start with a smaller --max-channels"


def _alert_failed(args: Args) -> str:
    return f"--on-alert {_text(args, 'command')} failed: {_text(args, 'why')}"


def _time_needed(args: Args) -> str:
    on = f"is on column {_text(args, 'column')}" if args.get("column") else "may be on another column"
    return (
        f"The watermark {on}, and the broker only knows when records were written: give --time PATH with the field "
        "that holds the event time, or --time timestamp if it is the record's own"
    )


def _no_watermark(args: Args) -> str:
    return "This query has no watermark" + ("" if args.get("sure") else ", or no record has reached it yet")


def _watermark_pinned(args: Args) -> str:
    column = _text(args, "columns")
    if args.get("why") == "no_input":
        return f"The watermark is stuck at 1970: the input with watermark column {column} has had no record"
    return (
        f"The watermark is stuck at 1970: the second watermark, on {column}, waits for rows that are emitted only "
        "when the watermark moves; nothing can ever be emitted"
    )


_NO_TIME = "no record had a usable event time"
_UNMOVED: dict[object, str] = {
    "no_event_time": "the event time of all of them is null",
    "before_1970": "all event times are before 1970",
    "delay_too_long": "the delay reaches back to before 1970",
}


def _watermark_unmoved(args: Args) -> str:
    several = (_number(args, "nodes") or 0) > 1
    which = "one of the query's watermarks has had no record" if several else _UNMOVED.get(args.get("why"), _NO_TIME)
    if args.get("sources"):
        which = f"source {_text(args, 'sources')} has read nothing yet"
    return f"The watermark is stuck at 1970 although rows were read: {which}"


def _watermark_frozen(args: Args) -> str:
    missing = f.duration(_number(args, "frozen_ms") or 0)
    return f"The watermark is frozen after a restart with a longer delay: {missing} of event time to go"


def _sibling_failed(args: Args) -> str:
    more = _number(args, "more")
    others = f"; {f.count(more)} more failed" if more else ""
    return f"Another query of this application, {_text(args, 'name')}, failed: {_text(args, 'why')}{others}"


def _windows_unknown(args: Args) -> str:
    return unknown_text(_text(args, "code"), args) or f.UNKNOWN


_WORDS: dict[NoteCode, str | Callable[[Args], str]] = {
    "topic_missing": _topic_missing,
    "topic_gone": _topic_gone,
    "topic_recreated": _topic_recreated,
    "partition_added": _partition_added,
    "cluster_silent": lambda args: f"{_text(args, 'why')}; retrying",
    "cluster_answers": _cluster_answers,
    "records_expired": _records_expired,
    "read_failed": lambda args: f"Reading failed ({_text(args, 'why')}); retrying",
    "time_not_found": lambda args: _text(args, "why"),
    "max_drift_ignored": (
        "--max-drift has no effect: Spark's connector reads all partitions alike; use --reader python"
    ),
    "jvm_silent": _jvm_silent,
    "start_stuck": _start_stuck,
    "channels_folded": _channels_folded,
    "one_batch": _one_batch,
    "snapshot_too_long": _snapshot_too_long,
    "alert_failed": _alert_failed,
    "not_started": "No query has started yet",
    "stopped": "The query was stopped",
    "application_gone": "The application ended without stopping the query; this is its last report",
    "batch_unfinished": _batch_unfinished,
    "query_silent": _query_silent,
    "no_batch_ended": _no_batch_ended,
    "continuous": "Continuous processing: Spark reports neither batches nor event time of it",
    "pause_unknown": _pause_unknown,
    "waits_for_trigger": _waits_for_trigger,
    "query_idle": "The query is idle: it has nothing to read",
    "no_batch": "No batch has started yet",
    "no_new_batch": "No new batch: the query is idle or has stopped; a checkpoint does not show which",
    "unreadable": lambda args: _text(args, "why"),
    "broker_silent": lambda args: _text(args, "why"),
    "channels_sampled": _channels_sampled,
    "nodes_without_tap": _nodes_without_tap,
    "windows_unknown": _windows_unknown,
    "time_needed": _time_needed,
    "no_watermark": _no_watermark,
    "watermark_pinned": _watermark_pinned,
    "watermark_unmoved": _watermark_unmoved,
    "watermark_frozen": _watermark_frozen,
    "newer_format": lambda args: (
        f"The checkpoint has format {_text(args, 'version')}, which this wmtop does not know; upgrade wmtop"
    ),
    "sibling_failed": _sibling_failed,
    "partitions_unseen": _partitions_unseen,
}
