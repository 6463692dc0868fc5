"""The last late records of `--late-output`, in words and cells, and the line that fetches each. Pure."""

from collections.abc import Mapping, Sequence
from datetime import tzinfo
from shlex import quote
from typing import Any

from msgspec import Struct

from ...engine.core.snapshot import LateRecord, Snapshot
from . import formatting as f
from .line import Span, clip
from .target import target_of
from .view import reference_ms

_NAME = (8, 28)
_NUMBERS = 64
"""Cells of all other columns and of a scroll bar."""
_NO_BOOTSTRAP = "BOOTSTRAP"
TITLES = ("time", "channel", "late by", "window end", "offset", "batch")


class About(Struct, frozen=True):
    """The requested late records: of a channel, of the window from `start_ms` to `end_ms`, or all."""

    channel: str | None = None
    start_ms: int | None = None
    end_ms: int | None = None

    def has(self, record: LateRecord) -> bool:
        """Whether the record is among them."""
        in_window = self.start_ms is None or self.end_ms is None or self.start_ms <= record.time_ms < self.end_ms
        return in_window and self.channel in (None, record.channel)

    def words(self, zone: tzinfo | None, near_ms: int | None) -> str:
        """`channel UA`, `window 13:00–14:00`; nothing for all."""
        if self.channel is not None:
            return f"channel {f.label(self.channel, 24)}"
        if self.start_ms is None or self.end_ms is None:
            return ""
        return f"window {f.interval(self.start_ms, self.end_ms, zone, near_ms)}"


class Fetch(Struct, frozen=True):
    """The line that fetches a record, and what the reader must know about it."""

    line: str
    note: str


def late_records(snapshot: Snapshot, about: About) -> list[LateRecord]:
    """The requested records of the sample, in its order."""
    return [record for record in snapshot.late_sample or () if about.has(record)]


def listed(snapshot: Snapshot, about: About) -> str:
    """Their number, and the number of late records since the start if known."""
    found = f"{len(late_records(snapshot, about))} listed"
    if about.start_ms is not None:
        return found
    named = (view.late for view in snapshot.channels if view.channel == about.channel)
    late = snapshot.totals.late if about.channel is None else next(named, None)
    return found if late is None else f"{found} of {f.count(late)} late"


def no_records(snapshot: Snapshot, about: About, zone: tzinfo | None) -> list[str]:
    """Why there are none, and what to do."""
    if target_of(snapshot).is_attached:
        return ["wmtop keeps late records only of its own runs: wmtop run … --late-output DIR"]
    if snapshot.late_output is None:
        return [
            "This run does not keep its late records.",
            "Start a run with --late-output DIR: it writes them to DIR as Parquet, and lists the last here.",
        ]
    where = f.clean(snapshot.late_output)
    if snapshot.late_sample is None:
        return [
            f"The late records are in {where}. They are listed here only if that is a local directory that wmtop "
            "can read."
        ]
    if not snapshot.late_sample:
        return [f"No late records so far; they will be in {where}"]
    asked = about.words(zone, reference_ms(snapshot))
    return [
        f"None of the last {len(snapshot.late_sample)} late records is in {asked}. All of its late records:",
        _sql(f"{snapshot.late_output}/*/*.parquet", _conditions(about)),
    ]


def fetch(snapshot: Snapshot, record: LateRecord) -> Fetch:
    """How to get the record itself: from Kafka by its offset, else from the late output by SQL."""
    if record.topic is not None and record.partition is not None and record.offset is not None:
        bootstrap = None if snapshot.source is None else snapshot.source.bootstrap
        server, note = quote(bootstrap or _NO_BOOTSTRAP), "For a secured cluster, add --consumer.config FILE"
        if bootstrap is None:
            note = f"Replace {_NO_BOOTSTRAP} with the address of the cluster; it is not known here"
        return Fetch(
            f"kafka-console-consumer --bootstrap-server {server} --topic {quote(record.topic)} "
            f"--partition {record.partition} --offset {record.offset} --max-messages 1",
            note,
        )
    directory = snapshot.late_output or "DIR"
    conditions = _conditions(About(record.channel), f"wmtop_time_ms = {record.time_ms}")
    return Fetch(_sql(f"{directory}/batch={record.batch}/*.parquet", conditions), "SQL for DuckDB")


def title_line(width: int) -> list[Span]:
    """The line above the records."""
    return clip([(_cells(width, *TITLES), "dim")], width)


def record_line(record: LateRecord, snapshot: Snapshot, zone: tzinfo | None, width: int) -> list[Span]:
    """A record."""
    near_ms = reference_ms(snapshot)
    cells = _cells(
        width,
        f.near(record.time_ms, zone, near_ms),
        f.label(record.channel, _name(width)),
        f.UNKNOWN if record.late_by_ms is None else f.duration(record.late_by_ms),
        "no window" if record.window_end_ms is None else f.near(record.window_end_ms, zone, near_ms),
        f.UNKNOWN if record.offset is None else str(record.offset),
        str(record.batch),
    )
    return clip([(cells, "text")], width)


def sort_values(record: LateRecord) -> Mapping[str, Any]:
    """What a record is sorted by, by the column's title."""
    values = (record.time_ms, record.channel, record.late_by_ms, record.window_end_ms, record.offset, record.batch)
    return dict(zip(TITLES, values, strict=True))


def _cells(width: int, time: str, channel: str, late: str, end: str, offset: str, batch: str) -> str:
    return (
        f" {f.pad(time, 12)}  {f.pad(channel, _name(width))}  {f.pad(late, 9, right=True)}  {f.pad(end, 12)}  "
        f"{f.pad(offset, 12, right=True)}  {f.pad(batch, 6, right=True)}"
    )


def _name(width: int) -> int:
    return max(_NAME[0], min(_NAME[1], width - _NUMBERS))


def _conditions(about: About, *more: str) -> Sequence[str]:
    """The SQL conditions; without the channel where its name has control characters, which a shell may obey."""
    out: list[str] = []
    if about.channel is not None and f.clean(about.channel) == about.channel:
        out.append(f"wmtop_channel = {_text(about.channel)}")
    if about.start_ms is not None and about.end_ms is not None:
        out.append(f"wmtop_time_ms >= {about.start_ms} and wmtop_time_ms < {about.end_ms}")
    return [*out, *more]


def _sql(files: str, conditions: Sequence[str]) -> str:
    where = f" where {' and '.join(conditions)}" if conditions else ""
    return f"select * from read_parquet({_text(files)}){where}"  # noqa: S608 (it is shown, not run)


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
