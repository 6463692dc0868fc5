"""The last late records of `--late-output`, and late records by the values of the `--explain` columns. Pure."""

from collections.abc import Sequence
from datetime import tzinfo
from shlex import quote

from msgspec import Struct

from ...engine.snapshot import ExplainedColumn, ExplainedValue, LateRecord, Snapshot
from ...engine.text import formatting as f
from .channels import reference_ms
from .kinds import presenter_of
from .spans import Column, Span, clip, value_column

_NO_BOOTSTRAP = "BOOTSTRAP"
Keyed = tuple[str, LateRecord]
"""A record and its key."""


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
    return [record for record in snapshot.own.late_sample or () if about.has(record)]


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
    if snapshot.own.late_output is None:
        return presenter_of(snapshot).no("late records").splitlines()
    where = f.clean(snapshot.own.late_output)
    if snapshot.own.late_sample is None:
        only = "They are listed here only if that is a local directory that wmtop can read."
        return [f"The late records are in {where}. {only}"]
    if not snapshot.own.late_sample:
        return [f"No late records so far; they will be in {where}"]
    asked = about.words(zone, reference_ms(snapshot))
    none = f"None of the last {len(snapshot.own.late_sample)} late records is in {asked}. All of its late records:"
    return [none, _sql(f"{snapshot.own.late_output}/*/*.parquet", _conditions(about))]


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
    directory = snapshot.own.late_output or "DIR"
    conditions = _conditions(About(record.channel), f"wmtop_time_ms = {record.time_ms}")
    return Fetch(_sql(f"{directory}/batch={record.batch}/*.parquet", conditions), "SQL for DuckDB")


def columns(snapshot: Snapshot, zone: tzinfo | None) -> Sequence[Column[Keyed]]:
    """The columns of a table of late records."""
    near_ms = reference_ms(snapshot)

    def end(end_ms: int | None) -> str:
        return "no window" if end_ms is None else f.near(end_ms, zone, near_ms)

    def offset(offset: int | None) -> str:
        return f.UNKNOWN if offset is None else str(offset)

    return (
        Column("time", lambda row: f.near(row[1].time_ms, zone, near_ms), sort=lambda row: row[1].time_ms),
        value_column("channel", lambda row: row[1].channel, f.label),
        value_column("late by", lambda row: row[1].late_by_ms, f.duration, right=True),
        value_column("window end", lambda row: row[1].window_end_ms, end, rank=2),
        value_column("offset", lambda row: row[1].offset, offset, rank=1, right=True),
        value_column("batch", lambda row: row[1].batch, str, rank=3, right=True),
    )


def _conditions(about: About, *more: str) -> Sequence[str]:
    """The SQL conditions; without the channel where its name has control characters, which a shell may obey."""
    out: list[str] = []
    if about.channel is not None and f.clean(about.channel) == about.channel:
        out.append(f"wmtop_channel = {_quoted(about.channel)}")
    if about.start_ms is not None and about.end_ms is not None:
        out.append(f"wmtop_time_ms >= {about.start_ms} and wmtop_time_ms < {about.end_ms}")
    return [*out, *more]


def _sql(files: str, conditions: Sequence[str]) -> str:
    where = f" where {' and '.join(conditions)}" if conditions else ""
    return f"select * from read_parquet({_quoted(files)}){where}"  # noqa: S608 (it is shown, not run)


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


_VALUE_NAME = (8, 28)
_VALUE_NUMBERS = 34
_MIN_BAR = 8
_OTHERS, _OTHERS_ALONE = 5, 3
"""How many values that are not late more often are shown: below one that is, and if there is none."""
LEGEND: Sequence[Span] = (("▇", "stale"), (" of the late records  ", "dim"), ("▇", "dim"), (" of all", "dim"))
"""The meaning of the bars."""


class ValueFacts(Struct, frozen=True):
    """A value with its shares of the late records and of all (0 to 1; None: no late records)."""

    value: ExplainedValue
    of_late: float | None
    of_all: float | None
    approximate: bool


def value_facts(column: ExplainedColumn) -> list[ValueFacts]:
    """The values of a column, the surest first."""
    return [
        ValueFacts(value, f.ratio(value.late, column.late), f.ratio(value.records, column.records), column.approximate)
        for value in column.values
    ]


def standing_out(found: Sequence[ValueFacts]) -> list[ValueFacts]:
    """The values that are late more often beyond chance, and a few others; all if there are few."""
    others = [facts for facts in found if not facts.value.sure]
    hidden = others[_OTHERS if len(others) < len(found) else _OTHERS_ALONE :]
    return [facts for facts in found if facts not in hidden]


def more_values(found: Sequence[ValueFacts], shown: Sequence[ValueFacts]) -> str:
    """The number of hidden values: none of them is late more often than others beyond chance."""
    hidden = [facts for facts in found if facts not in shown or not facts.value.late]
    late = sum(bool(facts.value.late) for facts in hidden)
    without = len(hidden) - late
    parts = [f"{late} more, none late more often beyond chance (/ shows them)"] if late else []
    return " · ".join([*parts, f"{without} more without late records"] if without else parts)


def column_line(column: ExplainedColumn, width: int) -> list[Span]:
    """A column's name, and the limits of its counts."""
    bounded = ""
    if column.approximate:
        bounded = f"  ≈ too many values: others have {f.count(column.other_records)} records, "
        bounded += f"{f.count(column.other_late)} late"
    return clip([(f" {f.clean(column.column)}", "strong"), (bounded, "dim")], width)


def late_cells(facts: ValueFacts) -> tuple[str, ...]:
    """The same as cells: the value, its late and all records with their shares, and the lift."""
    value, about = facts.value, "≈" if facts.approximate else ""
    late = f"{f.count(value.late)}, {f.share(facts.of_late)}"
    every = f"{about}{f.count(value.records)}, {f.share(facts.of_all)}"
    return f.label(value.value), late, every, _lift(value)


def _lift(value: ExplainedValue) -> str:
    lift = "" if value.lift is None else f"{value.lift:.1f}×"
    return lift if value.low is None or value.high is None else f"{lift} ({value.low:.1f}–{value.high:.1f})"


def late_line(facts: ValueFacts, width: int) -> list[Span]:
    """A value among the late records."""
    value = facts.value
    style = "stale" if value.sure else "text"
    cells = _value_name(width)
    name, late = f.pad(f.label(value.value, cells), cells), f.count(value.late)
    bar = _bar("late", 9, late, facts.of_late, width, ("text", style))
    return clip([(f" {name}", "strong"), *bar, (_lift(value), style)], width)


def all_line(facts: ValueFacts, width: int) -> list[Span]:
    """The same value among all records."""
    count = ("≈" if facts.approximate else " ") + f.count(facts.value.records)
    bar = _bar("all", 10, count, facts.of_all, width, ("dim", "dim"))
    return clip([(" " * (_value_name(width) + 1), "text"), *bar], width)


def _bar(what: str, cells: int, count: str, part: float | None, width: int, styles: tuple[str, str]) -> list[Span]:
    """A number of records with its share, also as a bar if there is room."""
    numbers = f"  {what} {f.pad(count, cells, right=True)} {f.pad(f.share(part), 7, right=True)}  "
    room = width - _value_name(width) - _VALUE_NUMBERS - 18
    if room < _MIN_BAR:
        return [(numbers, styles[0])]
    full = round(min(part or 0, 1) * room)
    return [(numbers, styles[0]), (f.pad("▇" * max(full, 1 if part else 0), room + 1), styles[1])]


def _value_name(width: int) -> int:
    return max(_VALUE_NAME[0], min(_VALUE_NAME[1], width - _VALUE_NUMBERS - _MIN_BAR - 20))
