"""Event times themselves: in the future, in a wrong unit or time zone, or not event times at all."""

from collections.abc import Sequence

from ..snapshot import FlinkJob, Offender, VerdictName
from ..text import formatting as f
from ..text.formatting import name
from .finding import CONVERT_TO_UTC, Context, Explanation, Finding, Fix, column, n, names, only, span
from .rules import HOUR, MINUTE, SECOND, DiagnosisInput, rule, share

_RECENT_MS = (946_684_800_000, 4_102_444_800_000)
"""Plausible event times (epoch ms): the years 2000 to 2099."""
_UNITS = ("s", "ms", "us", "ns")
_LONG = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
MAX_ZONE_HOURS, ZONE_SLACK_MS = 14, 2 * MINUTE
ENOUGH, NOW_SLACK_MS, WATCHED_MS = 10_000, SECOND, MINUTE
"""Event time is taken for processing time if this many records are within this distance (ms) of now, for this long
(ms).
"""
SET_TIME_COLUMN = Fix(
    "set-time-column", "Name the column that holds the event time, and its unit (--time, --time-unit)"
)
ALL = 2.0
"""The size where the share of late records is not known: larger than any share."""
MALFORMED_SHARE, MIN_MALFORMED, NEARLY_ALL = 0.001, 10, 0.9


class FutureTimestamps(Finding, frozen=True, kw_only=True, tag="future-timestamps"):
    """Records have timestamps ahead of the clock. They were set aside, or the watermark follows and never goes back.

    Recognised by: records that the future guard set aside, or an event time more than 5 minutes ahead of the clock.

    What to do: correct what writes these records. A future guard (--future-guard 5m) sets them aside.
    """

    records: int | None = None
    """How many were set aside; None: none, they are in the stream."""
    timestamp_ms: int | None
    ahead_ms: int | None
    drags: bool = False
    """Whether the watermark itself is ahead of the clock."""

    def words(self, context: Context) -> Explanation:
        claimed = [] if self.timestamp_ms is None else [f"Its event time: {_stamp(self.timestamp_ms, context)}"]
        ahead = [] if self.ahead_ms is None else [f"{span(self.ahead_ms)} ahead of the clock"]
        if self.records is not None:
            guard = f"Future guard: {f.setting(context.snapshot.settings.future_guard_ms)}"
            return Explanation(
                f"{n(self.records, 'record')} with a future timestamp set aside",
                "They do not move the watermark; they do count in their windows",
                "A producer's clock is ahead, its unit is wrong, or the field is broken.",
                [*_last_one(context.snapshot.last_future), *claimed, *ahead, guard],
                ("Time",),
                only(self.channels),
            )
        if not self.channels:
            return Explanation(
                f"Event time is {span(self.ahead_ms)} ahead of the clock",
                "The watermark is ahead of the clock too: current rows are dropped as late"
                if self.drags
                else "The watermark follows, and will drop current rows as late",
                "One row with a future timestamp moves the watermark there, and it never goes back.",
                [*claimed, *ahead],
                ("Time",),
            )
        return Explanation(
            f"{names(self.channels)} is {span(self.ahead_ms)} ahead of the clock",
            "The watermark is ahead too: records of other channels are late"
            if self.drags
            else "Only the other channels keep the watermark from following",
            "One record with a future timestamp moves its channel's watermark there, and it never goes back.",
            [*claimed, *ahead, *([] if context.of_flink else ["Future guard: off"])],
            ("Time",),
            only(self.channels),
        )

    def explains(self, verdict: VerdictName) -> bool:
        """A few bad records stop no watermark."""
        return self.severity == "critical"


@rule(FutureTimestamps, suppressed_by=("wrong-unit", "zone-shift"), accounts_for=("stalled", "unknown"))
def future_timestamps(facts: DiagnosisInput) -> FutureTimestamps | None:
    settings, totals = facts.settings, facts.snapshot.totals
    if facts.over or facts.now_ms is None:
        return None
    if totals.future and (last := facts.snapshot.last_future) is not None:
        return FutureTimestamps(
            severity="warning",
            size=totals.future,
            channels=(last.channel,),
            records=totals.future,
            timestamp_ms=last.timestamp_ms,
            ahead_ms=None if last.timestamp_ms is None else last.timestamp_ms - facts.now_ms,
            fixes=(_check_record((last.channel,)),),
        )
    holder = facts.snapshot.level.holder
    elsewhere = holder is not None and holder.cause == "future_elsewhere"
    if not (facts.by_wall_clock or facts.is_attached or elsewhere) or settings.future_guard_ms is not None:
        return None  # all event times of a replay may be ahead of its clock, but not one channel's alone
    reached: list[tuple[int, tuple[str, ...]]] = []
    for view in facts.channels:
        # Flink reports no event time, and a watermark is behind it.
        newest = (
            view.watermark_ms
            if view.max_event_ms is None and isinstance(facts.snapshot.target, FlinkJob)
            else view.max_event_ms
        )
        if newest is not None and view.state != "finished":
            reached.append((newest, (view.channel,)))
    if not reached and _by_spark(facts) and facts.watermark_ms is not None:
        least_ms = facts.watermark_ms + (settings.lateness_ms or 0)
        reached = [(max(least_ms, facts.snapshot.spark.max_event_ms or least_ms), ())]
    if not reached:
        return None
    newest_ms, worst = max(reached, key=lambda pair: pair[0])
    now_ms = max(facts.now_ms, facts.snapshot.job.clock_ms or 0)
    if newest_ms - now_ms <= 5 * MINUTE:
        return None
    drags = (facts.watermark_ms or 0) > facts.now_ms
    return FutureTimestamps(
        severity="critical" if drags else "warning",
        size=(share(totals.late, totals.records) or ALL) if drags else 1,
        channels=worst,
        timestamp_ms=newest_ms,
        ahead_ms=newest_ms - now_ms,
        drags=drags,
        fixes=(_keep_out(facts), _check_record(worst)),
    )


def _keep_out(facts: DiagnosisInput) -> Fix:
    """To set aside such records, where wmtop runs the query, or in the job."""
    if isinstance(facts.snapshot.target, FlinkJob):
        how = "Filter records with future timestamps in the job before it assigns watermarks"
        return Fix("filter-future-records", f"{how}, and start it without its state: the watermark never goes back")
    if _by_spark(facts):
        how = "Drop such rows before withWatermark, and start the query with a new checkpoint"
        return Fix("drop-future-rows", f"{how}: in this one the watermark never goes back")
    return Fix("set-future-guard", "Set a future guard: --future-guard 5m counts such records and sets them aside")


def _check_record(channels: Sequence[str]) -> Fix:
    where = names(channels) if channels else "the source"
    return Fix("check-record", f"Look at that record, and correct what writes to {where}")


def _by_spark(facts: DiagnosisInput) -> bool:
    return facts.is_attached and facts.settings.strategy == "spark"


class Malformed(Finding, frozen=True, kw_only=True, tag="malformed"):
    """Rows without a usable event time were set aside. They are in no window.

    Recognised by: at least 10 rows and 0.1 % of all have a time that is missing, unreadable or not in years 1 to 9999.

    What to do: look at the last such record; if almost all rows have none, set another --time or --time-unit.
    """

    records: int
    of_rows: float

    def words(self, context: Context) -> Explanation:
        read = f"The event time is {_time_column(context)}"
        source = context.snapshot.source
        if source is not None and source.time_unit:
            read = f"{_time_column(context)} is read as {f.clean(source.time_unit)}"
        part = f"{n(self.records, 'row')} set aside, {f.share(self.of_rows)} of all"
        one = context.snapshot.malformed_example
        example = _last_one(context.snapshot.last_malformed) if one is None else [f"For example {f.malformed(one)}"]
        nearly_all = self.severity == "critical"
        cause = "Their time is missing, cannot be read, or is before year 1 or after 9999"
        return Explanation(
            "Almost no rows have a usable event time" if nearly_all else "Rows without a usable event time",
            "No watermark, no windows" if nearly_all else part,
            cause + (", as milliseconds read as seconds are." if nearly_all else "; they are in no window."),
            [part, *example, read[0].upper() + read[1:]],
            ("Time",),
            only(self.channels),
        )

    def explains(self, verdict: VerdictName) -> bool:
        """A few bad records stop no watermark."""
        return self.severity == "critical"


@rule(Malformed, accounts_for=("stalled", "unknown"))
def malformed(facts: DiagnosisInput) -> Malformed | None:
    totals, last = facts.snapshot.totals, facts.snapshot.malformed_example or facts.snapshot.last_malformed
    rows = (totals.records or 0) + (totals.malformed or 0)
    part = share(totals.malformed, rows)
    if part is None or part < MALFORMED_SHARE or (totals.malformed or 0) < MIN_MALFORMED:
        return None
    return Malformed(
        severity="warning" if part < NEARLY_ALL else "critical",
        size=part,
        channels=(last.channel,) if last else (),
        records=totals.malformed or 0,
        of_rows=part,
        fixes=(_check_record((last.channel,) if last else ()) if part < NEARLY_ALL else SET_TIME_COLUMN,),
    )


def _time_column(context: Context) -> str:
    source = context.snapshot.source
    return column(source.time_column if source else None)


def _last_one(record: Offender | None) -> list[str]:
    """The place of a record, as evidence: its channel, its offset, the part of the source."""
    if record is None:
        return []
    part = f" of {name(record.part)}" if record.part else ""
    where = "" if record.offset is None else f", offset {record.offset:,}{part}"
    return [f"Last one: {name(record.channel)}{where}"]


class WrongUnit(Finding, frozen=True, kw_only=True, tag="wrong-unit"):
    """All event times are near 1970 or far in the future: they are numbers in another unit, and windows are wrong.

    Recognised by: no event time is between 2000 and 2099, and in another unit (s, ms, us, ns) all of them are.

    What to do: set the unit (--time-unit), or convert the numbers before `withWatermark`.
    """

    seen_ms: int
    meant_ms: int
    unit: str | None
    """The unit in which they are read, if known."""
    better: str
    """The unit that would make the times recent."""

    def words(self, context: Context) -> Explanation:
        read = "as it is" if self.unit is None else f"as {_LONG[self.unit]}"
        what = _time_column(context)
        return Explanation(
            "Event times are in another unit",
            "Windows, lateness and all distances are wrong",
            "Times near 1970 or thousands of years ahead are numbers in a unit that was not expected.",
            [
                f"Newest event time as read: {_stamp(self.seen_ms, context)}",
                f"Read as {_LONG[self.better]}: {_stamp(self.meant_ms, context)}",
                f"{what[0].upper()}{what[1:]} is read {read}",
            ],
            ("Time",),
        )


@rule(
    WrongUnit,
    suppressed_by=("node-without-data", "watermark-pinned", "watermark-never-moved"),
    accounts_for=("stalled", "slow"),
)
def wrong_unit(facts: DiagnosisInput) -> WrongUnit | None:
    source, level = facts.snapshot.source, facts.snapshot.level.watermark_ms
    unit = source.time_unit if source else None
    is_typed = unit == "timestamp"  # nothing says in which unit it was made
    unit = None if is_typed else unit
    read = unit.removeprefix("epoch ").split(" ")[0] if unit else None
    if read is not None and read not in _UNITS:
        return None  # text has no unit
    times = facts.event_times
    if not times and level is not None:
        times = [level + (facts.settings.lateness_ms or 0)]
    if any(map(_recent, times)):
        return None
    # The values may be coarser or finer than the unit they are read in.
    for steps, factor, divisor in ((-1, 1_000, 1), (1, 1, 1_000), (2, 1, 1_000_000)) if times else ():
        meant = [ms * factor // divisor for ms in times]
        place = _UNITS.index(read or "ms") + steps
        if 0 <= place < len(_UNITS) and all(map(_recent, meant)):
            better = _UNITS[place]
            convert = f"Convert the {_LONG[better]} {'where they are written' if is_typed else 'before withWatermark'}"
            return WrongUnit(
                severity="critical",
                size=1,
                seen_ms=max(times),
                meant_ms=max(meant),
                unit=read,
                better=better,
                fixes=(
                    Fix("set-time-unit", convert if facts.is_attached or is_typed else f"Set --time-unit {better}"),
                ),
            )
    return None


def _recent(ms: int) -> bool:
    return _RECENT_MS[0] <= ms <= _RECENT_MS[1]


def _stamp(ms: int, context: Context) -> str:
    """A moment, or its year where that has more than four digits."""
    if abs(ms) < 253_402_300_800_000:
        return f.stamp(ms, context.zone)
    return f"the year {1970 + ms * 10_000 // (3_652_425 * f.DAY):,}"


class ZoneShift(Finding, frozen=True, kw_only=True, tag="zone-shift"):
    """All event times are the same number of whole hours away from the clock. Local times are read as UTC.

    Recognised by: the newest record of each channel is 1 to 14 whole hours behind or ahead of the clock, within 2
    minutes, for a minute.

    What to do: convert the times to UTC where they are written, or write them with an offset (+02:00).
    """

    hours: int
    off_ms: int
    """How far the worst channel's distance is from a whole number of hours."""

    def words(self, context: Context) -> Explanation:
        hours = n(abs(self.hours), "hour")
        side = "behind" if self.hours > 0 else "ahead of"
        impact = "Records are set aside, or move the watermark ahead of the clock"
        return Explanation(
            f"All event times are {hours} {side} the clock",
            impact if self.hours < 0 else f"Results look {hours} late",
            "A constant difference of whole hours is a time zone: local times are read as UTC.",
            [
                f"Newest record of {n(len(self.channels), 'channel')}: {hours} {side} now, "
                f"to within {span(max(self.off_ms, f.SECOND))}"
            ],
            ("Time",),
        )


@rule(ZoneShift, suppressed_by=("wrong-unit",), accounts_for=("stalled",))
def zone_shift(facts: DiagnosisInput) -> ZoneShift | None:
    now_ms = facts.now_ms
    if facts.ended or now_ms is None or not facts.by_wall_clock:
        return None
    fresh = [
        (view.channel, now_ms - view.max_event_ms)
        for view in facts.channels
        if view.max_event_ms is not None and view.quiet_ms is not None and view.quiet_ms < MINUTE and not view.backlog
    ]
    names, lags = tuple(name for name, _ in fresh), [lag for _, lag in fresh]
    last, totals = facts.snapshot.last_future, facts.snapshot.totals
    if not lags and last and last.timestamp_ms and 2 * (totals.future or 0) > (totals.records or 0):
        lags = [now_ms - last.timestamp_ms]
    if not lags:
        return None
    hours = round(lags[0] / HOUR)
    off_ms = max(abs(lag - hours * HOUR) for lag in lags)
    watched = [point.now_ms - point.max_event_ms for point in facts.last(MINUTE) if point.max_event_ms is not None]
    steady = all(abs(lag - hours * HOUR) <= ZONE_SLACK_MS for lag in watched) if len(watched) >= 10 else not watched
    if not hours or abs(hours) > MAX_ZONE_HOURS or off_ms > ZONE_SLACK_MS or not steady:
        return None
    return ZoneShift(
        severity="critical" if hours < 0 else "warning",
        size=abs(hours) * HOUR if hours > 0 else 1.0,
        channels=names,
        hours=hours,
        off_ms=off_ms,
        fixes=(CONVERT_TO_UTC,),
    )


class ProcessingTime(Finding, frozen=True, kw_only=True, tag="processing-time"):
    """Event time looks like processing time: no record is ever out of order, and the newest is always as old as the
    clock.

    Recognised by: 10,000 records without one out of order, and for a minute the newest at most a second away from the
    clock.

    What to do: name the column that holds the time of the event (--time), not the time of reading or writing.
    """

    records: int
    behind_ms: int
    """The greatest distance of the newest record behind the clock."""
    watched_ms: int

    def words(self, context: Context) -> Explanation:
        return Explanation(
            "Event time looks like processing time",
            f"Lateness {f.setting(context.snapshot.settings.lateness_ms or 0)} has no use, and windows are those of "
            "the arrival",
            "Events from elsewhere arrive late and out of order. Times that never do were set by the reader, the "
            "broker (log append time) or the producer when it sent.",
            [
                f"None of {n(self.records, 'record')} is out of order",
                f"For {span(self.watched_ms)} the newest record was at most {span(self.behind_ms)} old",
                f"The event time is {_time_column(context)}",
            ],
            ("Time",),
        )


@rule(ProcessingTime, suppressed_by=("wrong-unit",))
def processing_time(facts: DiagnosisInput) -> ProcessingTime | None:
    records = facts.snapshot.totals.records or 0
    zero = facts.at_lateness(0)
    if facts.ended or not facts.by_wall_clock or facts.now_ms is None or zero is None or records < ENOUGH:
        return None
    points = facts.last(5 * MINUTE)
    if zero.behind_watermark or not points or points[-1].wall_ms - points[0].wall_ms < WATCHED_MS:
        return None
    lags = [abs(point.now_ms - point.max_event_ms) for point in points if point.max_event_ms is not None]
    # Each channel's newest record, not only the fastest channel's, was written when it came.
    ages = [
        facts.now_ms - view.quiet_ms - view.max_event_ms
        for view in facts.channels
        if view.state == "active" and view.quiet_ms is not None and view.max_event_ms is not None
    ]
    if len(lags) < len(points) or max(lags) > NOW_SLACK_MS or not ages or max(ages) > NOW_SLACK_MS:
        return None
    return ProcessingTime(
        severity="info",
        size=records,
        records=records,
        behind_ms=max(lags),
        watched_ms=points[-1].wall_ms - points[0].wall_ms,
        fixes=(SET_TIME_COLUMN,),
    )
