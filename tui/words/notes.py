"""The words for each code of a note. Pure."""

from collections.abc import Callable, Mapping
from string import Formatter
from typing import Any

from ...engine.snapshot import Note, NoteCode
from ...engine.text import formatting as f
from ...engine.text.codes import unknown_text

Args = Mapping[str, str | int | None]


def note_text(note: Note) -> str:
    """The note in one line, without its time."""
    words = _WORDS[note.code]
    return _FORMATTER.vformat(words if isinstance(words, str) else words(note.args), (), note.args)


class _NoteFormatter(Formatter):
    """`{name}` is a text or a count, `{name:record}` one with its noun, `{name!s}` a plain number, `{name!d}` ms."""

    def get_value(self, key: int | str, args: object, kwargs: Mapping[str, Any]) -> Any:
        return kwargs.get(str(key))

    def convert_field(self, value: Any, conversion: Any) -> str | int | None:
        if isinstance(value, str) or (value is not None and conversion == "s"):
            return f.clean(str(value))
        return f.duration(value) if conversion == "d" else value

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, str):
            return value
        return f.counted(value, format_spec) if format_spec else f.count(value)


_FORMATTER = _NoteFormatter()


def _number(args: Args, name: str) -> int | None:
    value = args.get(name)
    return value if isinstance(value, int) else None


def _if(args: Args, name: str, template: str) -> str:
    """The template if the argument is a number other than 0, else nothing."""
    return template if _number(args, name) else ""


def _one_batch(args: Args) -> str:
    smaller = {"replay": "give --batch-rows N or --speed X", "kafka": "give --batch-records N"}.get(
        str(args.get("source")), "let the files come one after the other"
    )
    return f"All records came in one batch, so that none could be late; to see late records {smaller}"


_SILENT = " for {silent_ms!d}"
_UNREAD = " with {unread:unread record}"
_DELAYED = f",{_UNREAD} (new, or minOffsetsPerTrigger)"
_UNMOVED: dict[object, str] = {
    "no_event_time": "the event time of all of them is null",
    "before_1970": "all event times are before 1970",
    "delay_too_long": "the delay reaches back to before 1970",
}


_MORE = " (and {more} more files)"
_FILE_UNREAD: dict[object, str] = {
    "empty": "{file} is empty: nothing is read of it until it has content",
    "growing": "{file} is still being written: it is read once it has not changed for 1s",
    "unfinished": "{file} is not read: it does not end as a Parquet file does; is it unfinished or damaged?",
    "other_format": "{file} is not read: the files read here are {format}; give other formats a directory of their own",
    "gone": "{file} was deleted or renamed before it was read",
    "moved": "{file} is not read again: it was moved here after it was read",
}


def _watermark_unmoved(args: Args) -> str:
    which = _UNMOVED.get(args.get("why"), "no record had a usable event time")
    if (_number(args, "nodes") or 0) > 1:
        which = "one of the query's watermarks has had no record"
    if args.get("sources"):
        which = "source {sources} has read nothing yet"
    return f"The watermark is stuck at 1970 although rows were read: {which}"


def _away(args: Args) -> str:
    return f.duration(abs(_number(args, "offset_ms") or 0))


def _direction(args: Args) -> str:
    return "ahead of" if (_number(args, "offset_ms") or 0) > 0 else "behind"


_WORDS: dict[NoteCode, str | Callable[[Args], str]] = {
    "topic_missing": "Waiting for topic {topic}, which does not exist yet; {near}",
    "topic_gone": lambda args: (
        f"Topic {{topic}} was deleted{_if(args, 'unread', _UNREAD)}; waiting for it to be recreated"
    ),
    "topic_recreated": lambda args: (
        "Topic {topic} was deleted and recreated; reading it from its "
        + ("start" if args.get("from_start") else "current end, its first records are skipped")
    ),
    "partition_added": "Topic {topic} has a new partition {partition}",
    "cluster_silent": "{why}; retrying",
    "cluster_answers": lambda args: f"The Kafka cluster answers again{_if(args, 'silent_ms', ' after {silent_ms!d}')}",
    "records_expired": lambda args: (
        "Retention or delete-records deleted {records:record} of partition {partition} of {topic} before they were read"
        + _if(args, "offset", "; reading from offset {offset}")
    ),
    "log_cut": lambda args: (
        "Partition {partition} of {topic} was cut at offset {offset}, after it was read to {read_to}: "
        + (
            "its records from there on were replaced, and are read again"
            if args.get("again")
            else "what was written again before {read_to} is not read"
        )
    ),
    "read_failed": "Reading failed ({why}); retrying",
    "time_not_found": "{why}",
    "file_unread": lambda args: _FILE_UNREAD.get(args.get("why"), "{file} was not read") + _if(args, "more", _MORE),
    "file_changed": lambda args: (
        "{file} changed after it was read, from {bytes:byte} to {bytes_now:byte}: the new content is not read; "
        "write it to a new file" + _if(args, "more", _MORE)
    ),
    "directory_lost": "{directory} cannot be read: {why}; nothing is read until it is back",
    "directory_back": lambda args: f"{{directory}} is back{_if(args, 'lost_ms', ' after {lost_ms!d}')}",
    "max_drift_ignored": (
        "--max-drift has no effect: Spark's connector reads all partitions alike; use --reader python"
    ),
    "engine_stopping": lambda args: "The engine is stopping",
    "jvm_silent": lambda args: f"The JVM (process {{pid!s}}) has not answered{_if(args, 'silent_ms', _SILENT)}",
    "start_stuck": lambda args: f"No progress{_if(args, 'silent_ms', _SILENT)} while {{step}}; the log may say why",
    "channels_folded": lambda args: (
        f"The channel {{into}} stands for {'≥ ' if args.get('at_least') else ''}{{channels:channel}} beyond "
        "--max-channels {limit!s} ({records:record})"
    ),
    "one_batch": _one_batch,
    "snapshot_too_long": (
        "The snapshot has {channels:channel} and {bytes} bytes, more than the {limit} that a viewer reads; "
        "start with a smaller --max-channels"
    ),
    "alert_failed": "--on-alert {command} failed: {why}",
    "clock_set": lambda args: (
        "This machine's clock was set "
        + ("ahead" if (_number(args, "offset_ms") or 0) > 0 else "back")
        + f" by {_away(args)}: it shows {{here}}, wmtop counts on at {{counted}}, so that ages stay right"
    ),
    "clock_offset": lambda args: (
        f"The {{whose}}'s clock is {_away(args)} {_direction(args)} this machine's ({{there}} there, {{here}} here); "
        "ages are corrected by that"
    ),
    "clock_ahead": lambda args: (
        f"The {{whose}}'s clock is at least {_away(args)} ahead of this machine's ({{there}} there, {{here}} here): "
        "its times prove no progress until something new appears; set both clocks (NTP)"
    ),
    "not_started": "No query has started yet",
    "stopped": "The query was stopped",
    "application_gone": lambda args: (
        "The application ended without stopping the query; this is its last report"
        + _if(args, "silent_ms", ", from {silent_ms!d} ago")
    ),
    "batch_unfinished": lambda args: (
        "Batch {batch} has not ended: it is slow" + (" or hangs" if args.get("alive") else ", or the query died in it")
    ),
    "query_silent": lambda args: (
        "No report from the query: it waits for its trigger, or a batch is slow"
        + ("" if args.get("alive") else ", or the query died")
    ),
    "no_batch_ended": lambda args: f"The query runs{_if(args, 'silent_ms', _SILENT)}, and no batch has ended yet",
    "continuous": "Continuous processing: Spark reports neither batches nor event time of it",
    "windows_untimed": "{operator} has no windows, or fires by count, by clock or its own trigger: it need not wait",
    "ended_early": lambda args: (
        "The watermark is at the end of the stream, but {subtask}"
        + (" and {more} more have" if args.get("more") else " has")
        + " not ended: a record has the last time there is, or all others are idle (FLINK-38477); the rest is late"
    ),
    "pause_unknown": lambda args: (
        f"No batch{_if(args, 'silent_ms', _SILENT)}: it waits for its trigger, whose interval is not known from here, "
        f"is idle, or {'is stuck in its source' if args.get('alive') else 'has stopped'}"
    ),
    "waits_for_trigger": lambda args: (
        f"The query waits for its trigger{_if(args, 'trigger_ms', ': every {trigger_ms!d}')}"
    ),
    "query_idle": lambda args: f"The query is idle{_if(args, 'unread', _DELAYED) or ': it has nothing to read'}",
    "slowest_clock": "The slowest partition drives this query's watermark (watermarkAdvancementStrategy is min)",
    "no_batch": "No batch has started yet",
    "no_new_batch": "No new batch: the query is idle or has stopped; a checkpoint does not show which",
    "unreadable": "{why}",
    "broker_silent": "{why}",
    "no_member": "The group has {unread:unread record}, and no member now",
    "channels_sampled": "{tap}: {kept} of {of} channels are shown, a fair sample",
    "nodes_without_tap": "No tap reports the watermark of {columns}; the slowest channel is not known",
    "windows_unknown": lambda args: (
        (unknown_text(str(args.get("code", f.UNKNOWN)), args) or f.UNKNOWN).replace("{", "{{").replace("}", "}}")
    ),
    "time_needed": lambda args: (
        f"The watermark {'is on column {column}' if args.get('column') else 'may be on another column'}, and the "
        "broker only knows when records were written: give --time PATH with the field that holds the event time, or "
        "--time timestamp if it is the record's own"
    ),
    "no_watermark": lambda args: (
        f"This query has no watermark{'' if args.get('sure') else ', or no record has reached it yet'}"
    ),
    "watermark_pinned": lambda args: (
        "The watermark is stuck at 1970: "
        + (
            "the input with watermark column {columns} has had no record"
            if args.get("why") == "no_input"
            else "the second watermark, on {columns}, waits for rows that are emitted only when the watermark moves; "
            "nothing can ever be emitted"
        )
    ),
    "watermark_unmoved": _watermark_unmoved,
    "watermark_frozen": (
        "After a restart with a longer delay the watermark advances again after {frozen_ms!d} of event time"
    ),
    "newer_format": "The checkpoint has format {version!s}, which this wmtop does not know; upgrade wmtop",
    "sibling_failed": lambda args: (
        "{name}, another query of this application, failed: {why}" + _if(args, "more", "; {more} more failed")
    ),
    "driver_only": (
        "The event log (spark.eventLog.enabled=true) or publish(spark) shows more: a driver's web server has no event"
        " times, offsets or windows"
    ),
    "driver_no_watermark": (
        "The driver does not show this query's watermark; set spark.sql.streaming.metricsEnabled=true in the job"
    ),
    "partitions_uncommitted": lambda args: (
        ("Partition {partition} has" if _number(args, "partitions") == 1 else "{partitions} partitions have")
        + " {records:record}, but no commit of the group: whether it reads them is not known"
    ),
    "partitions_unseen": lambda args: (
        ("Partition {partition} has" if _number(args, "partitions") == 1 else "{partitions} partitions have")
        + (" {records:record}, but no usable event time so far" if args.get("records") else " no records")
        + (", {unread} unread" if args.get("unread") else "")
        + ": a job without an idle timeout waits for one"
        + ("" if args.get("all") else "; the watermark here does not")
    ),
}
