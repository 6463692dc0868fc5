"""The notes of a snapshot: what happened to the source, by code; the screen has the words."""

from typing import Literal

from msgspec import Struct

NoteCode = Literal[
    # About a source that this wmtop reads.
    "topic_missing",  # topic, near: what the cluster has instead
    "topic_gone",  # topic, unread: records that were not read
    "topic_recreated",  # topic, from_start: 1, or 0 if its first records are skipped
    "partition_added",  # topic, partition
    "cluster_silent",  # why
    "cluster_answers",  # silent_ms
    "records_expired",  # topic, partition, records: deleted before they were read, offset: the first that is left
    "log_cut",  # topic, partition, offset: where it was cut, read_to, again: 1, or 0 if it is not read again from there
    "read_failed",  # why; reading is retried
    "time_not_found",  # why
    "file_unread",  # file, why: empty, growing, unfinished, other_format, gone or moved, format, more: other files
    "file_changed",  # file: after it was read, bytes, bytes_now, more: other files
    "directory_lost",  # directory, why
    "directory_back",  # directory, lost_ms
    "max_drift_ignored",  # Spark's connector does not balance partitions
    # About the engine itself.
    "jvm_silent",  # pid, silent_ms
    "engine_stopping",
    "start_stuck",  # step: the one that shows no progress, silent_ms
    "channels_folded",  # into, channels, at_least: 1 if there are more, records, limit
    "one_batch",  # source: its kind; the stream was a single batch, so no record could be late
    "snapshot_too_long",  # channels: left out, with the windows; bytes, limit
    "alert_failed",  # command: of --on-alert, why; only the first failure
    "clock_set",  # here: this machine's clock, counted: wmtop's time, offset_ms: how far ahead the first was set
    # About the clock of a target: whose, there and here: what both clocks show, offset_ms: how far the first is ahead.
    "clock_offset",  # measured: all times of the target are shown in ours
    "clock_ahead",  # at least so far: its times prove nothing
    # About an attached query or consumer group, and what is unknown about it.
    "not_started",
    "stopped",
    "application_gone",  # silent_ms: since its last report
    "batch_unfinished",  # batch; alive: it runs
    "query_silent",  # alive: 1, or None where its application may have died
    "query_idle",
    "no_batch_ended",  # silent_ms: since the query started; alive: it runs
    "continuous",  # its trigger: no batches and no watermark are reported
    "pause_unknown",  # silent_ms: longer than usual, but the trigger's interval is not known; alive: it runs
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
    "driver_only",
    "driver_no_watermark",
    "no_watermark",  # sure: 1, or None if perhaps no record has reached it yet
    "watermark_pinned",  # columns, why: no_input or own_output
    "watermark_unmoved",  # nodes: how many watermarks are known, sources: those without data, why: `UnmovedReason`
    "watermark_frozen",  # frozen_ms: event time until it moves again
    "slowest_clock",  # the slowest partition drives the watermark
    "sibling_failed",  # name, why, more: number of other queries that failed
    "windows_untimed",  # operator: its windows are not known to wait for event time
    "ended_early",  # subtask: an input that has not ended below an operator with the last watermark, more: their number
    "partitions_unseen", "partitions_uncommitted", "no_member",  # partitions, partition: the first, records, …
]  # fmt: skip


class Note(Struct, frozen=True):
    """An event of the source that the user should know, by code; the screen has the words.

    `wall_ms` is when it happened or was found (wall clock, epoch ms); `args` are its numbers (ms, counts) and names.
    """

    wall_ms: int
    code: NoteCode
    args: dict[str, str | int | None] = {}
