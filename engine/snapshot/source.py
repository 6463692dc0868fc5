"""Where records come from, and what happened to the source."""

from typing import Literal

from msgspec import Struct


class SourcePosition(Struct, frozen=True):
    """A source of an attached query: its position, and its unread records."""

    description: str
    offsets: dict[str, int] | int | str | None
    backlog: int | None = None
    batches_unmoved: int | None = None
    """Batches of `SparkProgress.batches_unmoved` with new input from this source; None: not known."""


class SourceView(Struct, frozen=True):
    """Where the records come from: `kind` is replay, files, rate or kafka; attached: checkpoint, topic or group."""

    kind: str
    description: str
    speed: float | None = None
    """Replay: seconds of arrival time per second; `None`: a live source, or as fast as possible."""
    reader: str | None = None
    rows: int | None = None
    """The total number of rows, if the source has an end."""
    rows_read: int | None = None
    time_column: str | None = None
    time_unit: str | None = None
    """The format of event times: `epoch ms`, `ISO 8601`; `(recognised)` if no option sets it."""
    max_drift_ms: int | None = None
    """Kafka: how far a partition may run ahead of the slowest (balanced reading)."""
    backlog: int | None = None
    """Unread records of all channels."""
    drift_ms: int | None = None
    """How far the fastest partition that is not idle is ahead of the slowest, by event time read."""
    drift_unbalanced_ms: int | None = None
    """The same if all available records had been read."""
    bootstrap: str | None = None
    """Kafka: the addresses of the cluster, as given."""


NoteCode = Literal[
    # About a source that this wmtop reads.
    "topic_missing",  # topic, near: what the cluster has instead
    "topic_gone",  # topic, unread: records that were not read
    "topic_recreated",  # topic, from_start: 1, or 0 if its first records are skipped
    "partition_added",  # topic, partition
    "cluster_silent",  # why
    "cluster_answers",  # silent_ms
    "records_expired",  # topic, partition, records: deleted by retention before they were read
    "read_failed",  # why; reading is retried
    "time_not_found",  # why
    "max_drift_ignored",  # Spark's connector does not balance partitions
    # About the engine itself.
    "jvm_silent",  # pid, silent_ms
    "start_stuck",  # step: the one that shows no progress, silent_ms
    "channels_folded",  # into, channels, at_least: 1 if there are more, records, limit
    "one_batch",  # source: its kind; the stream was a single batch, so no record could be late
    "snapshot_too_long",  # channels: left out, with the windows; bytes, limit
    "alert_failed",  # command: of --on-alert, why; only the first failure
    # About an attached query or consumer group, and what is unknown about it.
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
    "time_needed",  # column: of the watermark, None if not known
    "channels_sampled",  # tap, kept, of
    "nodes_without_tap",  # columns
    "windows_unknown",  # code: a `WindowsUnknownCode`, and its arguments
    "no_watermark",  # sure: 1, or None if perhaps no record has reached it yet
    "watermark_pinned",  # columns, why: no_input or own_output
    "watermark_unmoved",  # nodes: how many watermarks are known, sources: those without data, why: `UnmovedReason`
    "watermark_frozen",  # frozen_ms: event time until it moves again
    "sibling_failed",  # name, why, more: number of other queries that failed
    "partitions_unseen",  # partitions: their number, partition: the first one
]


class Note(Struct, frozen=True):
    """An event of the source that the user should know, by code; the screen has the words.

    `wall_ms` is when it happened or was found (wall clock, epoch ms); `args` are its numbers (ms, counts) and names.
    """

    wall_ms: int
    code: NoteCode
    args: dict[str, str | int | None] = {}


class Step(Struct, frozen=True):
    """A step of the start: `seconds` is `None` while it runs."""

    name: str
    seconds: float | None = None
