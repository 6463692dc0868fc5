"""Where records come from, and what happened there."""

from typing import Literal

from msgspec import Struct


class SourcePosition(Struct, frozen=True):
    """A source of an attached query: its position, and how many records it has not read."""

    description: str
    offsets: dict[str, int] | int | str | None
    backlog: int | None = None


class SourceView(Struct, frozen=True):
    """Where the records come from: `kind` is replay, files, rate or kafka; attached: checkpoint, topic or group."""

    kind: str
    description: str
    speed: float | None = None
    """Replay: seconds of arrival time a second; `None` for a live source or as fast as it goes."""
    reader: str | None = None
    rows: int | None = None
    """How many rows there are in all, where the source has an end."""
    rows_read: int | None = None
    time_column: str | None = None
    time_unit: str | None = None
    """What its values are: `epoch ms`, `ISO 8601`; `(recognised)` where no option gives them."""
    max_drift_ms: int | None = None
    """Kafka: how far a partition may run ahead of the slowest (balanced reading)."""
    backlog: int | None = None
    """Records of all channels that are not read yet."""
    drift_ms: int | None = None
    """How far the fastest partition that is not idle is ahead of the slowest, as read."""
    drift_unbalanced_ms: int | None = None
    """The same had everything been read that is there."""
    bootstrap: str | None = None
    """Kafka: the addresses of the cluster, as given."""


NoteCode = Literal[
    # What happened to a source that this wmtop reads.
    "topic_missing",  # topic, near: what the cluster has instead
    "topic_gone",  # topic, unread: records that were not read
    "topic_recreated",  # topic, from_start: 1, or 0 where its first records are skipped
    "partition_added",  # topic, partition
    "cluster_silent",  # why
    "cluster_answers",  # silent_ms
    "records_expired",  # topic, partition, records: deleted by retention before they were read
    "read_failed",  # why; it is tried again
    "time_not_found",  # why
    "max_drift_ignored",  # Spark's connector reads all partitions alike
    # What happened to the engine itself.
    "jvm_silent",  # pid, silent_ms
    "start_stuck",  # step: the one that shows no progress, silent_ms
    "channels_folded",  # into, channels, at_least: 1 where there are more, records, limit
    "one_batch",  # source: its kind; the whole stream was one batch, so no record could be late
    "snapshot_too_long",  # channels: left out, with the windows; bytes, limit
    "alert_failed",  # command: of --on-alert, why; only the first failure
    # How an attached query or consumer group is, and what of it is not known.
    "not_started",
    "stopped",
    "application_gone",
    "batch_unfinished",  # batch
    "query_silent",  # alive: 1, or None where its application may have died
    "query_idle",
    "no_batch_ended",  # silent_ms: since the query started
    "continuous",  # its trigger: no batches and no watermark are reported
    "pause_unknown",  # silent_ms: longer than usual, but the trigger's interval is not known
    "waits_for_trigger",  # trigger_ms: its interval, silent_ms
    "no_batch",
    "no_new_batch",
    "unreadable",  # why
    "newer_format",  # version: of the checkpoint's offset log
    "broker_silent",  # why
    "time_needed",  # column: of the watermark, None where it is not known
    "channels_sampled",  # tap, kept, of
    "nodes_without_tap",  # columns
    "windows_unknown",  # code: a `WindowsUnknownCode`, and its arguments; in older recordings why: a line
    "no_watermark",  # sure: 1, or None where no record may have reached it yet
    "watermark_pinned",  # columns, why: no_input or own_output
    "watermark_unmoved",  # nodes: how many watermarks are known, sources: those without data, why: `UnmovedReason`
    "watermark_frozen",  # frozen_ms: event time until it moves again
    "sibling_failed",  # name, why, more: how many others failed, too
    "partitions_unseen",  # partitions: how many, partition: the one
    # A line of a recording that an older wmtop wrote.
    "text",  # text
]


class Note(Struct, frozen=True):
    """Something the user should know about the source, by code; the screen has the words.

    `wall_ms` is when it happened or was found (wall clock, epoch ms); `args` are its numbers (ms, counts) and names.
    """

    wall_ms: int
    code: NoteCode
    args: dict[str, str | int | None] = {}


class Step(Struct, frozen=True):
    """A step of the start: `seconds` is `None` while it runs."""

    name: str
    seconds: float | None = None
