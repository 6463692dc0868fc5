"""Findings about the times themselves, in words. Pure."""

from ...engine.core.doctor.clocks import FutureTimestamps, Malformed, ProcessingTime, WrongUnit, ZoneShift
from .. import formatting as f
from ..wording import name
from .words import At, Tellers, Told, column, n, place


def _future(it: FutureTimestamps, at: At) -> Told:
    claimed = [] if it.timestamp_ms is None else [f"it claims to be from {_stamp(it.timestamp_ms, at)}"]
    ahead = [] if it.ahead_ms is None else [f"{f.duration(it.ahead_ms)} ahead of the clock"]
    if it.records is not None:
        last = f"the last one: {place(it.channel, it.offset, it.part)}"
        return Told(
            "records from the future were set aside",
            f"{n(it.records, 'record')} may not move the clock",
            [last, *claimed, *ahead, f"future guard: {f.setting(it.guard_ms)}"],
            "A clock that runs ahead, a wrong unit or a broken field at the producer. The guard keeps them from the "
            "watermark; they do count in their windows.",
            [f"look at that record and mend its producer ({name(it.channel)})"],
        )
    return Told(
        f"{name(it.channel)} is ahead of the clock",
        "the level has gone with it: what the others send is late" if it.drags else "only the others hold the level",
        [*claimed, *ahead, "future guard: off"],
        "One record with a time in the future moves its channel's watermark there, and it never comes back.",
        ["--future-guard 5m: such records are counted and set aside", f"mend the producer of {name(it.channel)}"],
    )


def _malformed(it: Malformed, at: At) -> Told:
    last = [] if it.channel is None else [f"the last one: {place(it.channel, it.offset, it.part)}"]
    read = f"{column(it.column)} is read as {f.clean(it.unit)}" if it.unit else f"the time is {column(it.column)}"
    cost = f"{n(it.records, 'row')} set aside, {f.share(it.of_rows)} of all"
    if it.of_rows >= 0.9:
        return Told(
            "hardly a row has a usable event time",
            cost,
            [cost, *last, read],
            "Their time is missing, cannot be read, or lies before the year 1 or after 9999, as milliseconds that are "
            "read as seconds do.",
            ["name the right column and unit (--time, --time-unit)"],
        )
    return Told(
        "rows without a usable event time",
        cost,
        [cost, *last, read],
        "Their time is missing, cannot be read, or lies before the year 1 or after 9999; they are in no window.",
        ["look at that row, and at what writes it"],
    )


_LONG = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


def _unit(it: WrongUnit, at: At) -> Told:
    read = "as it stands" if it.unit is None else f"as {_LONG[it.unit]}"
    own = at.snapshot.origin is None
    return Told(
        "event times are in another unit",
        "no window, no lateness and no distance means anything",
        [
            f"the newest time reads {_stamp(it.seen_ms, at)}",
            f"taken for {_LONG[it.better]} it is {_stamp(it.meant_ms, at)}",
            f"{column(it.column)} is read {read}",
        ],
        "Times near 1970 or thousands of years ahead are numbers in a unit that was not expected.",
        [f"--time-unit {it.better}" if own else f"convert the {_LONG[it.better]} before withWatermark"],
    )


def _stamp(ms: int, at: At) -> str:
    """A moment, or its year where that has more than four digits."""
    if abs(ms) < 253_402_300_800_000:
        return f.stamp(ms, at.zone)
    return f"the year {1970 + ms * 10_000 // (3_652_425 * f.DAY):,}"


def _zone_shift(it: ZoneShift, at: At) -> Told:
    hours = f"{abs(it.hours)} hour{'s' * (abs(it.hours) != 1)}"
    side = "behind" if it.hours > 0 else "ahead of"
    lost = "their records are set aside, or drag the clock ahead" if it.hours < 0 else f"results look {hours} late"
    return Told(
        f"all times are {hours} {side} the clock",
        lost,
        [
            f"the newest record of {'every channel' if it.channels > 1 else 'the channel'} is {hours} {side} now, "
            f"to within {f.duration(max(it.off_ms, f.SECOND))}",
            f"{n(it.channels, 'channel')} sending now",
        ],
        "A whole number of hours that stays the same is a time zone: local times are taken for UTC.",
        [f"convert {column(it.column)} to UTC where it is written, or give it an offset (+02:00)"],
    )


def _processing_time(it: ProcessingTime, at: At) -> Told:
    return Told(
        "event time looks like processing time",
        f"a lateness of {f.setting(it.lateness_ms)} would be for nothing, windows are those of the arrival",
        [
            f"of {n(it.records, 'record')} not one is behind another",
            f"for {f.duration(it.watched_ms)} the newest was never more than {f.duration(it.behind_ms)} old",
            f"the time is {column(it.column)}",
        ],
        "Events that happen elsewhere arrive late and out of order. Times that never do were put on by the reader, "
        "the broker (log append time) or the producer when it sent.",
        ["name the column that says when it happened (--time), if there is one"],
    )


TELLERS: Tellers = {
    FutureTimestamps: _future,
    Malformed: _malformed,
    WrongUnit: _unit,
    ZoneShift: _zone_shift,
    ProcessingTime: _processing_time,
}
