"""Open and fired windows, and why nothing is known of them."""

from typing import Literal

from msgspec import Struct


class ChannelRecords(Struct, frozen=True):
    """How many records of a channel lie in a window."""

    channel: str
    records: int


class OpenWindow(Struct, frozen=True):
    """A window that has not fired; `short_ms` of event time are missing until it does."""

    start_ms: int
    end_ms: int
    records: int | None
    waits_for: str | None
    short_ms: int | None
    operator: int | None = None
    """The operator that has it, where an attached query has several stateful ones."""
    channels: list[ChannelRecords] | None = None
    """The channels with most records in it; None: not known, or not among the windows that close next."""
    channel_count: int | None = None
    """How many channels have records in it."""
    blockers: list[str] | None = None
    """The aligned channels below what it needs, in the holder's order, at most 32 of them; None: not known."""
    blocker_count: int | None = None


class FiredWindow(Struct, frozen=True):
    """A window that has fired, first at processing time `fired_ms`, with its records at its last firing."""

    start_ms: int
    end_ms: int
    records: int = 0
    fired_ms: int | None = None
    late_firings: int = 0
    late_drops: int = 0
    """Records dropped because it was closed, while it was among the last that fired."""
    ended: bool = False
    """The end of the stream fired it."""


WindowsUnknownCode = Literal[
    # Of the state of a Spark query.
    "no_state",
    "state_not_read",
    "state_not_found",
    "no_batch",
    "commits_unreadable",
    "settings_unreadable",
    "partitions_unknown",
    "nothing_read",
    "no_windows",  # kind: the operator keeps no windows
    "no_time_window",
    "several_time_windows",
    "time_window_form",
    "state_store",  # name: only Spark itself reads it
    "state_encoding",  # name: only Spark itself reads it
    "too_many_keys",  # limit
    "vanished",  # why: files that were purged meanwhile
    "unreadable",  # why
    "remote_state",  # partitions, limit: too many to fetch from a store
    "remote_state_size",  # bytes, limit: too much to fetch from a store
    "spark_starting",
    "spark_slow",  # seconds
    "spark_failed",  # why
    "spark_unreadable",  # why
    # Of what has no windows to show.
    "not_in_broker",
    "not_in_rest",
]


class WindowsUnknown(Struct, frozen=True):
    """Why nothing (or nothing newer) is known of windows: a code and its arguments; the screen has the words."""

    code: WindowsUnknownCode
    args: dict[str, str | int | None] = {}


class Windows(Struct, frozen=True):
    """The windows by end; `open` lists the earliest, `open_count` says how many there are."""

    open: list[OpenWindow] = []
    open_count: int | None = 0
    open_records: int | None = None
    """Records in all that are open."""
    fired: int | None = 0
    late_firings: int | None = 0
    last_fired: list[FiredWindow] = []
    """The windows that fired last, by first firing, the oldest first."""
    kept: int | None = None
    """Windows that are in the state although their end has passed: complete mode keeps what it has emitted."""
    unknown: str | None = None
    """Why nothing (or nothing newer) is known of them: a `WindowsUnknownCode`; in older recordings a line."""
    unknown_args: dict[str, str | int | None] = {}
    """The arguments of that code; `operator` where it is about one of several."""
