"""The windows of a snapshot: those that wait, what fired, and why others are not known."""

from typing import Literal

from msgspec import Struct

from ..watermarks.window_operator import FiredWindow


class ChannelRecords(Struct, frozen=True):
    """The records of a channel in a window."""

    channel: str
    records: int


class OpenWindow(Struct, frozen=True):
    """A window that has not fired; `short_ms` of event time are missing until it fires."""

    start_ms: int
    end_ms: int
    records: int | None
    waits_for: str | None
    short_ms: int | None
    operator: int | None = None
    """Its operator, if an attached query has several stateful ones."""
    channels: list[ChannelRecords] | None = None
    """The channels with most records in it; None: not known, or not among the windows that close next."""
    channel_count: int | None = None
    """How many channels have records in it."""
    blockers: list[str] | None = None
    """The aligned channels below the watermark it needs, in the holder's order, at most 32; None: not known."""
    blocker_count: int | None = None


WindowsUnknownCode = Literal[
    # About the state of a Spark query.
    "no_state",
    "state_not_read",
    "state_not_found",
    "state_elsewhere",
    "no_batch",
    "commits_unreadable",
    "settings_unreadable",
    "partitions_unknown",
    "nothing_read",
    "no_windows",  # kind: the operator keeps no windows; where Spark reads them, timers, first_ms
    "no_time_window",
    "several_time_windows",
    "time_window_form",
    "state_store",  # name: only Spark itself reads it
    "state_encoding",  # name: only Spark itself reads it
    "too_many_keys",  # limit
    "vanished",  # why: files that were deleted during the reading
    "unreadable",  # why
    "remote_state",  # partitions, limit: too many to fetch from a store
    "remote_state_size",  # bytes, limit: too much to fetch from a store
    "spark_starting",
    "spark_slow",  # seconds
    "spark_failed",  # why
    "spark_unreadable",  # why
    # About targets without windows to show.
    "not_in_broker",
    "not_in_rest",
    "sink_waits",
]


class WindowsUnknown(Struct, frozen=True):
    """Why windows (or newer ones) are unknown: a code and its arguments; the screen has the words."""

    code: WindowsUnknownCode
    args: dict[str, str | int | None] = {}


class Windows(Struct, frozen=True):
    """The windows by end; `open` lists the earliest, `open_count` is the number of all."""

    open: list[OpenWindow] = []
    open_count: int | None = 0
    open_records: int | None = None
    """The records in all open windows."""
    fired: int | None = 0
    late_firings: int | None = 0
    last_fired: list[FiredWindow] = []
    """The windows that fired last, by first firing, the oldest first."""
    kept: int | None = None
    """Windows in the state whose end has passed: complete mode keeps what it has emitted."""
    unknown: WindowsUnknownCode | None = None
    """Why windows (or newer ones) are unknown."""
    unknown_args: dict[str, str | int | None] = {}
    """The arguments of that code; `operator` if it is about one of several."""
