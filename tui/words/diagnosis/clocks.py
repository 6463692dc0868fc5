"""Findings about event times themselves, in words. Pure."""

from ....engine.doctor.clocks import EventTimeStuck, FutureTimestamps, Malformed, ProcessingTime, WrongUnit, ZoneShift
from ....engine.snapshot import FlinkJob
from ....engine.text import formatting as f
from .explanation import Context, Explainers, Explanation, column, n, names, only, place, span

_LONG = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


def _future(it: FutureTimestamps, context: Context) -> Explanation:
    claimed = [] if it.timestamp_ms is None else [f"Its event time: {_stamp(it.timestamp_ms, context)}"]
    ahead = [] if it.ahead_ms is None else [f"{span(it.ahead_ms)} ahead of the clock"]
    who = names(it.channels)
    if it.records is not None:
        return Explanation(
            f"{n(it.records, 'record')} with a future timestamp set aside",
            "They do not move the watermark; they do count in their windows",
            "A producer's clock is ahead, its unit is wrong, or the field is broken.",
            [f"Last one: {place(it.channels[0], it.offset, it.part)}", *claimed, *ahead,
             f"Future guard: {f.setting(it.guard_ms)}"],
            ("Time",),
            only(it.channels),
        )  # fmt: skip
    if not it.channels:
        return Explanation(
            f"Event time is {span(it.ahead_ms)} ahead of the clock",
            "The watermark is ahead of the clock too: current rows are dropped as late"
            if it.drags
            else "The watermark follows, and will drop current rows as late",
            "One row with a future timestamp moves the watermark there, and it never goes back.",
            [*claimed, *ahead],
            ("Time",),
        )
    return Explanation(
        f"{who} is {span(it.ahead_ms)} ahead of the clock",
        "The watermark is ahead too: records of other channels are late"
        if it.drags
        else "Only the other channels keep the watermark from following",
        "One record with a future timestamp moves its channel's watermark there, and it never goes back.",
        [*claimed, *ahead, *([] if isinstance(context.snapshot.target, FlinkJob) else ["Future guard: off"])],
        ("Time",),
        only(it.channels),
    )


def _malformed(it: Malformed, context: Context) -> Explanation:
    last = [f"Last one: {place(it.channels[0], it.offset, it.part)}"] if it.channels else []
    read = f"{column(it.column)} is read as {f.clean(it.unit)}" if it.unit else f"The event time is {column(it.column)}"
    part = f"{n(it.records, 'row')} set aside, {f.share(it.of_rows)} of all"
    nearly_all = it.severity == "critical"
    cause = "Their time is missing, cannot be read, or is before year 1 or after 9999"
    return Explanation(
        "Almost no rows have a usable event time" if nearly_all else "Rows without a usable event time",
        "No watermark, no windows" if nearly_all else part,
        cause + (", as milliseconds read as seconds are." if nearly_all else "; they are in no window."),
        [part, *last, read[0].upper() + read[1:]],
        ("Time",),
        only(it.channels),
    )


def _unit(it: WrongUnit, context: Context) -> Explanation:
    read = "as it is" if it.unit is None else f"as {_LONG[it.unit]}"
    what = column(it.column)
    return Explanation(
        "Event times are in another unit",
        "Windows, lateness and all distances are wrong",
        "Times near 1970 or thousands of years ahead are numbers in a unit that was not expected.",
        [
            f"Newest event time as read: {_stamp(it.seen_ms, context)}",
            f"Read as {_LONG[it.better]}: {_stamp(it.meant_ms, context)}",
            f"{what[0].upper()}{what[1:]} is read {read}",
        ],
        ("Time",),
    )


def _stamp(ms: int, context: Context) -> str:
    """A moment, or its year where that has more than four digits."""
    if abs(ms) < 253_402_300_800_000:
        return f.stamp(ms, context.zone)
    return f"the year {1970 + ms * 10_000 // (3_652_425 * f.DAY):,}"


def _zone_shift(it: ZoneShift, context: Context) -> Explanation:
    hours = n(abs(it.hours), "hour")
    side = "behind" if it.hours > 0 else "ahead of"
    impact = "Records are set aside, or move the watermark ahead of the clock"
    return Explanation(
        f"All event times are {hours} {side} the clock",
        impact if it.hours < 0 else f"Results look {hours} late",
        "A constant difference of whole hours is a time zone: local times are read as UTC.",
        [
            f"Newest record of {n(len(it.channels), 'channel')}: {hours} {side} now, "
            f"to within {span(max(it.off_ms, f.SECOND))}"
        ],
        ("Time",),
    )


def _processing_time(it: ProcessingTime, context: Context) -> Explanation:
    return Explanation(
        "Event time looks like processing time",
        f"Lateness {f.setting(it.lateness_ms)} has no use, and windows are those of the arrival",
        "Events from elsewhere arrive late and out of order. Times that never do were set by the reader, the broker "
        "(log append time) or the producer when it sent.",
        [
            f"None of {n(it.records, 'record')} is out of order",
            f"For {span(it.watched_ms)} the newest record was at most {span(it.behind_ms)} old",
            f"The event time is {column(it.column)}",
        ],
        ("Time",),
    )


def _stuck(it: EventTimeStuck, context: Context) -> Explanation:
    title = "Records come, but event time does not advance"
    who: list[str] = []
    if it.channels and it.older:
        title = f"Event time of {names(it.channels)} does not advance, and no other channel is ahead"
        who = [f"{n(it.older, 'other channel')} with data: older event times"]
    elif it.channels:
        who = [f"All channels with data: {names(it.channels)}"]
    elif it.newest:
        title = f"No channel with data has reached the event time of {names(it.newest)}"
        who = [f"No data now from {names(it.newest)}, which had the newest event time"]
    return Explanation(
        title,
        f"No window fires: the watermark has not advanced for {span(it.frozen_ms)}",
        "No record is newer than the newest before it: they repeat their timestamps, or are old.",
        [
            f"{f.count(round(it.read_per_second))} records/s are read",
            f"The newest event time has not advanced for {span(it.frozen_ms)}",
            *who,
        ],
        ("Operators", "Progress"),
        only(it.channels),
    )


EXPLAINERS: Explainers = {
    EventTimeStuck: _stuck,
    FutureTimestamps: _future,
    Malformed: _malformed,
    WrongUnit: _unit,
    ZoneShift: _zone_shift,
    ProcessingTime: _processing_time,
}
