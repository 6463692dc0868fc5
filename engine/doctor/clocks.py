"""Rules about event times: in the future, in a wrong unit or time zone, or not event times at all."""

from ..snapshot import ChannelView, Offender
from ..verdict.judge import is_idle
from .diagnosis_input import HOUR, MINUTE, SECOND, DiagnosisInput, share
from .finding import Finding, Fix, FixCode
from .progress import STUCK_MS, UNMOVED_BATCHES, verdict_of

_RECENT_MS = (946_684_800_000, 4_102_444_800_000)
"""Plausible event times (epoch ms): the years 2000 to 2099."""
_UNITS = ("s", "ms", "us", "ns")
MAX_ZONE_HOURS, ZONE_SLACK_MS = 14, 2 * MINUTE
ENOUGH, NOW_SLACK_MS, WATCHED_MS = 10_000, SECOND, MINUTE
"""Event time is taken for processing time if this many records are within this distance (ms) of now, for this long
(ms).
"""
ALL = 2.0
"""The size where the share of late records is not known: larger than any share."""
MALFORMED_SHARE, MALFORMED_LEAST, NEARLY_ALL = 0.001, 10, 0.9


class FutureTimestamps(Finding, frozen=True, kw_only=True, tag="future-timestamps"):
    """Records have future timestamps: `records` were set aside, or (None) their channel ran ahead with them.

    Without a channel: an attached query whose channels are not known.
    """

    records: int | None
    timestamp_ms: int | None
    ahead_ms: int | None
    offset: int | None
    part: str | None
    guard_ms: int | None
    drags: bool
    """Whether the watermark itself is ahead of the clock."""


class Malformed(Finding, frozen=True, kw_only=True, tag="malformed"):
    """Rows without a usable event time were set aside: a few, or (`of_rows` near 1) all."""

    records: int
    of_rows: float
    column: str | None
    unit: str | None
    """The unit in which numbers are read, if known."""
    offset: int | None
    part: str | None


class WrongUnit(Finding, frozen=True, kw_only=True, tag="wrong-unit"):
    """All event times are near 1970 or in the far future; read in another unit they would be recent."""

    seen_ms: int
    meant_ms: int
    column: str | None
    unit: str | None
    """The unit in which they are read, if known."""
    better: str
    """The unit that would make the times recent."""


class ZoneShift(Finding, frozen=True, kw_only=True, tag="zone-shift"):
    """The newest records of all channels are `hours` whole hours behind (above 0) or ahead of the clock."""

    hours: int
    off_ms: int
    """How far the worst channel's distance is from a whole number of hours."""
    column: str | None


class ProcessingTime(Finding, frozen=True, kw_only=True, tag="processing-time"):
    """No record is ever out of order, and the newest is always as old as the clock."""

    records: int
    behind_ms: int
    """The greatest distance of the newest record behind the clock."""
    watched_ms: int
    lateness_ms: int
    column: str | None


class EventTimeStuck(Finding, frozen=True, kw_only=True, tag="event-time-stuck"):
    """An attached query or job reads records, and none of them is newer than those before.

    `channels` are those with the newest event time that have data now.
    """

    frozen_ms: int
    read_per_second: float
    older: int = 0
    """Channels with data whose event time is older still."""
    newest: tuple[str, ...] = ()
    """The channels with the newest event time, where none of them has data now."""


def future_timestamps(given: DiagnosisInput) -> FutureTimestamps | None:
    """Records that the future guard set aside, or without a guard a channel far ahead of the clock."""
    settings, totals = given.settings, given.snapshot.totals
    if given.over or given.now_ms is None:
        return None
    if totals.future and (last := given.snapshot.last_future) is not None:
        return _set_aside(given, totals.future, last)
    holder = given.snapshot.level.holder
    elsewhere = holder is not None and holder.cause == "future_elsewhere"
    if not (given.by_wall_clock or given.is_attached or elsewhere) or settings.future_guard_ms is not None:
        return None  # all event times of a replay may be ahead of its clock, but not one channel's alone
    reached = [
        (newest, view.channel)
        for view in given.channels
        if (newest := _newest(given, view)) is not None and view.state != "finished"
    ]
    if not reached and (newest_ms := _newest_of_query(given)) is not None:
        reached = [(newest_ms, None)]
    if not reached:
        return None
    newest_ms, worst = max(reached, key=lambda pair: pair[0])
    job = given.snapshot.flink
    now_ms = given.now_ms if job is None else max(given.now_ms, job.clock_ms or 0)
    if newest_ms - now_ms <= 5 * MINUTE:
        return None
    drags = (given.watermark_ms or 0) > given.now_ms
    return FutureTimestamps(
        severity="critical" if drags else "warning",
        size=(share(totals.late, totals.records) or ALL) if drags else 1,
        channels=() if worst is None else (worst,),
        records=None,
        timestamp_ms=newest_ms,
        ahead_ms=newest_ms - now_ms,
        offset=None,
        part=None,
        guard_ms=None,
        drags=drags,
        fixes=(Fix(code=_future_fix(given)), Fix(code="check-record")),
    )


def _future_fix(given: DiagnosisInput) -> FixCode:
    if given.snapshot.flink is not None:
        return "filter-future-records"
    return "drop-future-rows" if _by_spark(given) else "set-future-guard"


def _newest(given: DiagnosisInput, view: ChannelView) -> int | None:
    """A channel's greatest event time; Flink reports none, and a watermark is behind it."""
    return view.watermark_ms if view.max_event_ms is None and given.snapshot.flink is not None else view.max_event_ms


def _by_spark(given: DiagnosisInput) -> bool:
    return given.is_attached and given.settings.strategy == "spark"


def _newest_of_query(given: DiagnosisInput) -> int | None:
    """The newest event time of an attached Spark query without known channels: a lower bound."""
    if not _by_spark(given) or given.watermark_ms is None:
        return None
    least_ms = given.watermark_ms + (given.settings.lateness_ms or 0)
    return max(least_ms, given.snapshot.spark.max_event_ms or least_ms)


def _set_aside(given: DiagnosisInput, records: int, last: Offender) -> FutureTimestamps:
    return FutureTimestamps(
        severity="warning",
        size=records,
        channels=(last.channel,),
        records=records,
        timestamp_ms=last.timestamp_ms,
        ahead_ms=None if last.timestamp_ms is None or given.now_ms is None else last.timestamp_ms - given.now_ms,
        offset=last.offset,
        part=last.part,
        guard_ms=given.settings.future_guard_ms,
        drags=False,
        fixes=(Fix(code="check-record"),),
    )


def malformed(given: DiagnosisInput) -> Malformed | None:
    """Rows with unusable event times, beyond a few."""
    totals, last, source = given.snapshot.totals, given.snapshot.last_malformed, given.snapshot.source
    rows = (totals.records or 0) + (totals.malformed or 0)
    part = share(totals.malformed, rows)
    if part is None or part < MALFORMED_SHARE or (totals.malformed or 0) < MALFORMED_LEAST:
        return None
    return Malformed(
        severity="warning" if part < NEARLY_ALL else "critical",
        size=part,
        channels=(last.channel,) if last else (),
        records=totals.malformed or 0,
        of_rows=part,
        column=source.time_column if source else None,
        unit=source.time_unit if source else None,
        offset=last.offset if last else None,
        part=last.part if last else None,
        fixes=(Fix(code="check-record" if part < NEARLY_ALL else "set-time-column"),),
    )


def wrong_unit(given: DiagnosisInput) -> WrongUnit | None:
    """All event times near 1970, or far beyond 2099, where another unit would make them recent."""
    source, level = given.snapshot.source, given.snapshot.level.watermark_ms
    column, unit = (source.time_column, source.time_unit) if source else (None, None)
    read = unit.removeprefix("epoch ").split(" ")[0] if unit else None
    if read is not None and read not in _UNITS:
        return None  # text has no unit
    times = [view.max_event_ms for view in given.channels if view.max_event_ms is not None]
    if not times and level is not None:
        times = [level + (given.settings.lateness_ms or 0)]
    if any(map(_recent, times)):
        return None
    for steps in (-1, 1, 2) if times else ():  # the values may be coarser or finer than the unit they are read in
        meant = [_read_as(ms, steps) for ms in times]
        place = _UNITS.index(read or "ms") + steps
        if 0 <= place < len(_UNITS) and all(map(_recent, meant)):
            return WrongUnit(
                severity="critical",
                size=1,
                seen_ms=max(times),
                meant_ms=max(meant),
                column=column,
                unit=read,
                better=_UNITS[place],
                fixes=(Fix(code="set-time-unit", unit=_UNITS[place]),),
            )
    return None


def zone_shift(given: DiagnosisInput) -> ZoneShift | None:
    """All channels with data are nearly the same number of whole hours away from the clock, all the time."""
    now_ms, source = given.now_ms, given.snapshot.source
    if given.ended or now_ms is None or not given.by_wall_clock:
        return None
    fresh = [
        (view.channel, now_ms - view.max_event_ms)
        for view in given.channels
        if view.max_event_ms is not None and view.quiet_ms is not None and view.quiet_ms < MINUTE and not view.backlog
    ]
    names, lags = tuple(name for name, _ in fresh), [lag for _, lag in fresh]
    last, totals = given.snapshot.last_future, given.snapshot.totals
    if not lags and last and last.timestamp_ms and 2 * (totals.future or 0) > (totals.records or 0):
        lags = [now_ms - last.timestamp_ms]
    if not lags:
        return None
    hours = round(lags[0] / HOUR)
    off_ms = max(abs(lag - hours * HOUR) for lag in lags)
    watched = [point.now_ms - point.max_event_ms for point in given.last(MINUTE) if point.max_event_ms is not None]
    steady = all(abs(lag - hours * HOUR) <= ZONE_SLACK_MS for lag in watched) if len(watched) >= 10 else not watched
    if not hours or abs(hours) > MAX_ZONE_HOURS or off_ms > ZONE_SLACK_MS or not steady:
        return None
    return ZoneShift(
        severity="critical" if hours < 0 else "warning",
        size=abs(hours) * HOUR if hours > 0 else 1.0,
        channels=names,
        hours=hours,
        off_ms=off_ms,
        column=source.time_column if source else None,
        fixes=(Fix(code="convert-to-utc"),),
    )


def processing_time(given: DiagnosisInput) -> ProcessingTime | None:
    """Event times that may be the reader's or broker's clock, not the event's."""
    settings, source, records = given.settings, given.snapshot.source, given.snapshot.totals.records
    zero = next((row for row in given.snapshot.whatif or () if row.lateness_ms == 0), None)
    if given.ended or not given.by_wall_clock or zero is None or records is None or records < ENOUGH:
        return None
    points = given.last(5 * MINUTE)
    if zero.behind_watermark or not points or points[-1].wall_ms - points[0].wall_ms < WATCHED_MS:
        return None
    lags = [None if point.max_event_ms is None else point.now_ms - point.max_event_ms for point in points]
    known = [abs(lag) for lag in lags if lag is not None]
    if len(known) < len(lags) or max(known) > NOW_SLACK_MS or not _all_fresh(given):
        return None
    return ProcessingTime(
        severity="info",
        size=records,
        records=records,
        behind_ms=max(known),
        watched_ms=points[-1].wall_ms - points[0].wall_ms,
        lateness_ms=settings.lateness_ms or 0,
        column=source.time_column if source else None,
        fixes=(Fix(code="set-time-column"),),
    )


def _all_fresh(given: DiagnosisInput) -> bool:
    """Whether each channel's newest record, not only the fastest channel's, was written when it came."""
    now, views = given.now_ms or 0, [view for view in given.channels if view.state == "active"]
    ages = [
        now - view.quiet_ms - view.max_event_ms
        for view in views
        if view.quiet_ms is not None and view.max_event_ms is not None
    ]
    return bool(ages) and max(ages) <= NOW_SLACK_MS


def _recent(ms: int) -> bool:
    return _RECENT_MS[0] <= ms <= _RECENT_MS[1]


def _read_as(ms: int, steps: int) -> int:
    """The same number in a unit `steps` steps finer (below 0: coarser)."""
    return ms * 1000 if steps < 0 else ms // (1_000_000 if steps > 1 else 1_000)


def event_time_stuck(given: DiagnosisInput) -> EventTimeStuck | None:
    """No channel is ahead, so none holds the others back: the records repeat their times, or are old."""
    snapshot, frozen_ms = given.snapshot, given.frozen_ms
    if given.watermark_ms is None or frozen_ms is None or frozen_ms < STUCK_MS:
        return None
    read = None if snapshot.state not in ("live", "partial") else _read_per_second(given, frozen_ms)
    if not read:
        return None
    first, older = _newest_with_data(given, frozen_ms) if snapshot.flink is None else ([], 0)
    with_data = [view.channel for view in first if _has_data(given, view, frozen_ms)]
    return EventTimeStuck(
        severity="critical" if snapshot.flink is not None or verdict_of(given) == "stalled" else "warning",
        size=frozen_ms,
        channels=tuple(with_data),
        frozen_ms=frozen_ms,
        read_per_second=read,
        older=older,
        newest=() if with_data else tuple(view.channel for view in first),
        fixes=(Fix(code="check-event-time"),),
    )


def _newest_with_data(given: DiagnosisInput, frozen_ms: int) -> tuple[list[ChannelView], int]:
    """The channels with the newest event time, and how many others have data now."""
    newest_ms = max((view.max_event_ms for view in given.channels if view.max_event_ms is not None), default=None)
    first = [view for view in given.channels if newest_ms is not None and view.max_event_ms == newest_ms]
    others = [view for view in given.channels if view.max_event_ms is not None and view.max_event_ms != newest_ms]
    return first, sum(_has_data(given, view, frozen_ms) for view in others)


def _has_data(given: DiagnosisInput, view: ChannelView, frozen_ms: int) -> bool:
    return view.quiet_ms is not None and view.quiet_ms < min(frozen_ms, given.horizon_ms or frozen_ms) / 2


def _read_per_second(given: DiagnosisInput, frozen_ms: int) -> float | None:
    """What a Flink job reads, or a Spark query whose newest records so far set its watermark."""
    level, spark = given.snapshot.level, given.snapshot.spark
    if given.snapshot.flink is not None:
        job = given.running_job
        held = level.holder is not None and level.holder.cause in ("behind", "stuck")
        none_ahead = (level.behind_fastest_ms or 0) < frozen_ms // 2
        return job.read_per_second if job is not None and held and none_ahead else None
    if given.watermark_ms is None or given.watermark_ms > (given.now_ms or 0):
        return None  # a timestamp in the future set it
    if is_idle(given.snapshot):
        return None  # the rate is that of its last batch
    if _clock_of(given, frozen_ms) != given.watermark_ms or not _unmoved_by_its_last_rows(given, frozen_ms):
        return None
    return spark.input_rows_per_second


def _clock_of(given: DiagnosisInput, frozen_ms: int) -> int | None:
    """The watermark of a Spark query that its newest records give; None: not known, or an input's advances."""
    spark = given.snapshot.spark
    nodes = spark.nodes or []
    if len(nodes) == 1:
        unknown = None in (spark.max_event_ms, nodes[0].delay_ms)
        return None if unknown else (spark.max_event_ms or 0) - (nodes[0].delay_ms or 0)
    clocks = [node.watermark_ms for node in nodes if node.watermark_ms is not None and node.pinned is None]
    if not nodes or len(clocks) < len(nodes) or spark.policy is None or max(clocks) - min(clocks) >= frozen_ms // 2:
        return None
    return min(clocks) if spark.policy == "min" else max(clocks)


def _unmoved_by_its_last_rows(given: DiagnosisInput, frozen_ms: int) -> bool:
    """Whether several batches had rows and left the watermark as it was; its last rows may be those that moved it."""
    spark, now_ms = given.snapshot.spark, given.now_ms
    if spark.batches_unmoved is not None:
        return spark.batches_unmoved >= UNMOVED_BATCHES
    begun_ms = spark.batch_timestamp_ms
    if begun_ms is None or now_ms is None or spark.in_flight:
        return False
    return frozen_ms - (now_ms - begun_ms) >= MINUTE
