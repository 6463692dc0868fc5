"""Event times themselves: in the future, in a wrong unit or time zone, or not event times at all."""

from collections.abc import Sequence

from ..snapshot import ChannelView, Offender
from ..text import formatting as f
from ..text.formatting import name
from .finding import CONVERT_TO_UTC, EVERY_VERDICT, Finding, Fix, Text, column, n, names, span, stamped
from .rules import HOUR, MINUTE, SECOND, DiagnosisInput, rule

_RECENT_MS = (946_684_800_000, 4_102_444_800_000)
"""Plausible event times (epoch ms): the years 2000 to 2099."""
_UNITS = ("s", "ms", "us", "ns")
_LONG = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
MAX_ZONE_HOURS, ZONE_SLACK_MS = 14, 2 * MINUTE
ENOUGH, NOW_SLACK_MS, WATCHED_MS = 10_000, SECOND, MINUTE
"""It looks like processing time: so many records, within this distance (ms) of now, for so long (ms)."""
SET_TIME_COLUMN = Fix(
    "set-time-column", "Name the column that holds the event time, and its unit (--time, --time-unit)"
)
ALL = 2.0
"""The size where the share of late records is not known: larger than any share."""
MALFORMED_SHARE, MIN_MALFORMED, NEARLY_ALL = 0.001, 10, 0.9


@rule(
    "future-timestamps",
    "Time",
    suppressed_by=("wrong-unit", "zone-shift", "future-stream-time"),
    accounts_for=("stalled", "unknown"),
)
def future_timestamps(facts: DiagnosisInput) -> Finding | None:
    """Records have timestamps ahead of the clock. They were set aside, or the watermark follows and never goes back.

    Recognised by: records that the future guard set aside, or an event time more than 5 minutes ahead of the clock.
    What to do: correct what writes these records. A future guard (--future-guard 5m) sets them aside.
    """
    settings, totals = facts.settings, facts.snapshot.totals
    if facts.over or facts.now_ms is None:
        return None
    if totals.future and (last := facts.snapshot.last_future) is not None:
        return _set_aside(facts, totals.future, last, facts.now_ms)
    holder = facts.snapshot.level.holder
    elsewhere = holder is not None and holder.cause == "future_elsewhere"
    if not (facts.by_wall_clock or facts.is_attached or elsewhere) or settings.future_guard_ms is not None:
        return None  # all event times of a replay may be ahead of its clock, but not one channel's alone
    reached = _reached(facts)
    if not reached:
        return None
    newest_ms, channels = max(reached, key=lambda pair: pair[0])
    ahead_ms = newest_ms - max(facts.now_ms, facts.target.reported_now_ms or 0)
    if ahead_ms <= 5 * MINUTE:
        return None
    drags = (facts.watermark_ms or 0) > facts.now_ms  # the watermark itself is ahead of the clock
    impact = "The watermark follows, and will drop current rows as late"
    cause = "One row with a future timestamp moves the watermark there, and it never goes back."
    if channels:
        impact = "Only the other channels keep the watermark from following"
        cause = "One record with a future timestamp moves its channel's watermark there, and it never goes back."
    if drags:
        impact = "The watermark is ahead of the clock too: current rows are dropped as late"
        if channels:
            impact = "The watermark is ahead too: records of other channels are late"
    return Finding(
        severity="critical" if drags else "warning",
        size=(f.ratio(totals.late, totals.records) or ALL) if drags else 1,
        channels=channels,
        title=f"{names(channels) or 'Event time'} is {span(ahead_ms)} ahead of the clock",
        impact=impact,
        cause=cause,
        evidence=[
            _at("Its event time", newest_ms),
            f"{span(ahead_ms)} ahead of the clock",
            "Future guard: off" if channels and facts.target.shows_event_times else None,
        ],
        fixes=(facts.details.keep_out, _check_record(channels)),
        not_for=() if drags else EVERY_VERDICT,
    )


def _set_aside(facts: DiagnosisInput, records: int, last: Offender, now_ms: int) -> Finding:
    """Records that the future guard set aside: a few bad records stop no watermark."""
    at_ms = last.timestamp_ms
    return Finding(
        size=records,
        channels=(last.channel,),
        title=f"{n(records, 'record')} with a future timestamp set aside",
        impact="They do not move the watermark; they do count in their windows",
        cause="A producer's clock is ahead, its unit is wrong, or the field is broken.",
        evidence=[
            _place(last),
            None if at_ms is None else _at("Its event time", at_ms),
            None if at_ms is None else f"{span(at_ms - now_ms)} ahead of the clock",
            f"Future guard: {f.setting(facts.settings.future_guard_ms)}",
        ],
        fixes=(_check_record((last.channel,)),),
        not_for=EVERY_VERDICT,
    )


def _reached(facts: DiagnosisInput) -> list[tuple[int, tuple[str, ...]]]:
    """The newest event times (epoch ms), each with its channel; without one where only a query's watermark is known."""
    views = [view for view in facts.channels if view.state != "finished"]
    known = [(newest, (view.channel,)) for view in views if (newest := _newest_of(view, facts)) is not None]
    if known or not facts.is_attached or not facts.settings.one_clock or facts.watermark_ms is None:
        return known
    least_ms = facts.watermark_ms + (facts.settings.lateness_ms or 0)
    return [(max(least_ms, facts.snapshot.spark.max_event_ms or least_ms), ())]


def _newest_of(view: ChannelView, facts: DiagnosisInput) -> int | None:
    """A channel's newest event time; where none is shown its watermark, which is behind it."""
    is_shown = view.max_event_ms is not None or facts.target.shows_event_times
    return view.max_event_ms if is_shown else view.watermark_ms


def _at(label: str, ms: int) -> Text:
    """Evidence: a moment, or its year where that has more than four digits."""
    if abs(ms) < 253_402_300_800_000:
        return stamped(f"{label}: ", ms)
    return f"{label}: the year {1970 + ms * 10_000 // (3_652_425 * f.DAY):,}"


def _check_record(channels: Sequence[str]) -> Fix:
    where = names(channels) if channels else "the source"
    return Fix("check-record", f"Look at that record, and correct what writes to {where}")


@rule("malformed", "Time", accounts_for=("stalled", "unknown"))
def malformed(facts: DiagnosisInput) -> Finding | None:
    """Rows without a usable event time were set aside. They are in no window.

    Recognised by: at least 10 rows and 0.1 % of all have a time that is missing, unreadable or not in years 1 to 9999.
    What to do: look at the last such record; if almost all rows have none, set another --time or --time-unit.
    """
    totals, example, last = facts.snapshot.totals, facts.snapshot.malformed_example, facts.snapshot.last_malformed
    part = f.ratio(totals.malformed, (totals.records or 0) + (totals.malformed or 0))
    if part is None or part < MALFORMED_SHARE or (totals.malformed or 0) < MIN_MALFORMED:
        return None
    record, nearly_all, source = example or last, part >= NEARLY_ALL, facts.snapshot.source
    channels, time = () if record is None else (record.channel,), _time_column(facts)
    rows = f"{n(totals.malformed, 'row')} set aside, {f.share(part)} of all"
    read = f"The event time is {time}"
    if source is not None and source.time_unit:
        read = f"{f.sentence(time)} is read as {f.clean(source.time_unit)}"
    cause = "Their time is missing, cannot be read, or is before year 1 or after 9999"
    return Finding(
        severity="critical" if nearly_all else "warning",
        size=part,
        channels=channels,
        title="Almost no rows have a usable event time" if nearly_all else "Rows without a usable event time",
        impact="No watermark, no windows" if nearly_all else rows,
        cause=cause + (", as milliseconds read as seconds are." if nearly_all else "; they are in no window."),
        evidence=[rows, _place(last) if example is None else f"For example {f.malformed(example)}", read],
        fixes=(SET_TIME_COLUMN if nearly_all else _check_record(channels),),
        not_for=() if nearly_all else EVERY_VERDICT,  # a few bad records stop no watermark
    )


def _time_column(facts: DiagnosisInput) -> str:
    source = facts.snapshot.source
    return column(source.time_column if source else None)


def _place(record: Offender | None) -> str | None:
    """The place of a record, as evidence: its channel, its offset, the part of the source."""
    if record is None:
        return None
    part = f" of {name(record.part)}" if record.part else ""
    where = "" if record.offset is None else f", offset {record.offset:,}{part}"
    return f"Last one: {name(record.channel)}{where}"


@rule(
    "wrong-unit",
    "Time",
    suppressed_by=("node-without-data", "watermark-pinned", "watermark-never-moved"),
    accounts_for=("stalled", "slow"),
)
def wrong_unit(facts: DiagnosisInput) -> Finding | None:
    """All event times are near 1970 or far in the future: they are numbers in another unit, and windows are wrong.

    Recognised by: no event time is between 2000 and 2099, and in another unit (s, ms, us, ns) all of them are.
    What to do: set the unit (--time-unit), or convert the numbers before `withWatermark`.
    """
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
            better, time = _LONG[_UNITS[place]], _time_column(facts)
            convert = f"Convert the {better} {'where they are written' if is_typed else 'before withWatermark'}"
            fix = convert if facts.is_attached or is_typed else f"Set --time-unit {_UNITS[place]}"
            return Finding(
                severity="critical",
                size=1,
                title="Event times are in another unit",
                impact="Windows, lateness and all distances are wrong",
                cause="Times near 1970 or thousands of years ahead are numbers in a unit that was not expected.",
                evidence=[
                    _at("Newest event time as read", max(times)),
                    _at(f"Read as {better}", max(meant)),
                    f"{f.sentence(time)} is read {'as it is' if read is None else f'as {_LONG[read]}'}",
                ],
                fixes=(Fix("set-time-unit", fix),),
            )
    return None


def _recent(ms: int) -> bool:
    return _RECENT_MS[0] <= ms <= _RECENT_MS[1]


@rule("zone-shift", "Time", suppressed_by=("wrong-unit",), accounts_for=("stalled",))
def zone_shift(facts: DiagnosisInput) -> Finding | None:
    """All event times are the same number of whole hours away from the clock. Local times are read as UTC.

    Recognised by: the newest record of each channel is 1 to 14 whole hours behind or ahead of the clock, within 2
    minutes, for a minute.
    What to do: convert the times to UTC where they are written, or write them with an offset (+02:00).
    """
    now_ms = facts.now_ms
    if facts.ended or now_ms is None or not facts.by_wall_clock:
        return None
    fresh = [
        (view.channel, now_ms - view.max_event_ms)
        for view in facts.channels
        if view.max_event_ms is not None and view.quiet_ms is not None and view.quiet_ms < MINUTE and not view.backlog
    ]
    channels, lags = tuple(channel for channel, _ in fresh), [lag for _, lag in fresh]
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
    far, side, impact = n(abs(hours), "hour"), "behind", f"Results look {n(hours, 'hour')} late"
    if hours < 0:
        side, impact = "ahead of", "Records are set aside, or move the watermark ahead of the clock"
    exact = span(max(off_ms, SECOND))
    return Finding(
        severity="critical" if hours < 0 else "warning",
        size=abs(hours) * HOUR if hours > 0 else 1.0,
        channels=channels,
        title=f"All event times are {far} {side} the clock",
        impact=impact,
        cause="A constant difference of whole hours is a time zone: local times are read as UTC.",
        evidence=[f"Newest record of {n(len(channels), 'channel')}: {far} {side} now, to within {exact}"],
        channel=None,
        fixes=(CONVERT_TO_UTC,),
    )


@rule("processing-time", "Time", suppressed_by=("wrong-unit",))
def processing_time(facts: DiagnosisInput) -> Finding | None:
    """Event time looks like processing time: no record is ever out of order, and the newest is always as old as the
    clock.

    Recognised by: 10,000 records without one out of order, and for a minute the newest at most a second away from the
    clock.
    What to do: name the column that holds the time of the event (--time), not the time of reading or writing.
    """
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
    watched = span(points[-1].wall_ms - points[0].wall_ms)
    return Finding(
        severity="info",
        size=records,
        title="Event time looks like processing time",
        impact=f"Lateness {f.setting(facts.settings.lateness_ms or 0)} has no use, and windows are those of "
        "the arrival",
        cause="Events from elsewhere arrive late and out of order. Times that never do were set by the reader, the "
        "broker (log append time) or the producer when it sent.",
        evidence=[
            f"None of {n(records, 'record')} is out of order",
            f"For {watched} the newest record was at most {span(max(lags))} old",
            f"The event time is {_time_column(facts)}",
        ],
        fixes=(SET_TIME_COLUMN,),
    )
