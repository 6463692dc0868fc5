"""Lateness: too small, larger than needed, a burst of late records, rows that Spark drops, what late records share.

The recommended value is judged by recent records (semantics 11.4) if enough of them came, else by all since the start.
"""

from msgspec.structs import replace

from ..snapshot import ExplainedColumn, ExplainedValue
from ..text import formatting as f
from ..text.formatting import horizon_words
from ..verdict.recommendation import Sample, recent_samples, whole_sample
from ..watermarks.lateness import FEW_LATE, HOUR, wilson_interval
from .finding import WAIT, Context, Explanation, Finding, Fix, lengthen_lateness, n, span
from .rules import MINUTE, SECOND, DiagnosisInput, loss_severity, rule, share

ENOUGH = 1_000
"""Records that a share needs to be meaningful."""
LOST_SHARE, WANTED = 0.023, 0.99
"""Lateness is too small if more than this share is late (2.3 %: beyond two standard deviations); the share of records
to keep on time that is then recommended.
"""
MAX_DELAY_MS = 7 * 24 * HOUR
"""No longer delay is advised for rows that Spark drops."""
BURST_TIMES = 4
"""A burst: the late share is this many times the one since the start."""
KEPT_SHARE, ENOUGH_KEPT, SHORTER, SOONER = 0.999, 10_000, 3, 0.5
"""Lateness is too large if one third of it (3) keeps this share of at least this many records on time, and saves this
part of the time from a window's start to its result.
"""
TAP_INPUT = Fix("tap-input", "Count how late the rows are: put a tap (one line) before withWatermark")
SEE_LATE_RECORDS = Fix("see-late-records", "See when late records come and how late they are (Lateness, key l)")


def _samples(facts: DiagnosisInput) -> list[Sample]:
    """The samples of the recent horizons, the shortest first, then all since the start."""
    recent = [sample for sample in recent_samples(facts.snapshot) if sample.horizon_ms is not None]
    return [*recent, whole_sample(facts.snapshot)]


class LatenessTooSmall(Finding, frozen=True, kw_only=True, tag="lateness-too-small"):
    """Too many records come after their windows have closed and are dropped.

    Recognised by: more than 2.3 % of the records are late, since the start and lately; or a burst: lately 4 times the
    share since the start.

    What to do: set the lateness that the finding names; in a burst, look first at when and where the late records come
    from.
    """

    late: int
    late_share: float
    recent_share: float | None
    burst: bool
    """Only lately: the share since the start is small."""
    horizon_ms: int | None = None
    """The fix is judged by the records of the last `horizon_ms`; None: since the start."""

    def words(self, context: Context) -> Explanation:
        share = f.share(self.late_share)
        recent = [] if self.recent_share is None else [f"In the last minutes: {f.share(self.recent_share)}"]
        lateness_ms = context.snapshot.settings.lateness_ms
        evidence = [
            f"{f.count(self.late)} records came after their windows had closed: {share} since the start",
            *recent,
            f"Lateness: {'none' if lateness_ms is None else f.setting(lateness_ms)}",
        ]
        if self.horizon_ms is not None:
            evidence.append(f"The fix is judged by the records of the {horizon_words(self.horizon_ms)}")
        if self.burst:
            return Explanation(
                "A burst of late records",
                f"{f.share(self.recent_share)} of the records of the last minutes are dropped",
                "Records come far later than they usually do: a delayed producer, a replay, a channel back from an "
                "outage.",
                evidence,
                ("History", "Lateness"),
            )
        return Explanation(
            "Lateness is too small",
            f"{share} of the records are dropped ({f.count(self.late)})",
            "Records come later than the watermark allows for.",
            evidence,
            ("Lateness",),
        )


@rule(LatenessTooSmall, suppressed_by=("wrong-unit",))
def lateness_too_small(facts: DiagnosisInput) -> LatenessTooSmall | None:
    late, records, past = facts.snapshot.totals.late or 0, facts.snapshot.totals.records or 0, facts.past
    late_share = share(facts.snapshot.totals.late, records)
    if late_share is None:
        return None
    # The share must rest on enough; of few records the 95 % interval has to be far above what is let pass.
    if records < ENOUGH and (late < FEW_LATE or (wilson_interval(late, records)[0] or 0) <= 2 * LOST_SHARE):
        return None
    recent = None
    if past and past[-1].records - past[0].records >= ENOUGH:
        recent = (past[-1].late - past[0].late) / (past[-1].records - past[0].records)
    burst = late_share <= LOST_SHARE
    if (late_share if recent is None else recent) <= LOST_SHARE:
        return None
    if burst and (recent is None or recent < BURST_TIMES * late_share):
        return None
    sample = _needing(facts)
    return LatenessTooSmall(
        severity=loss_severity(recent if burst else late_share),
        size=recent if burst and recent is not None else late_share,
        late=late,
        late_share=late_share,
        recent_share=recent,
        burst=burst,
        horizon_ms=sample.horizon_ms,
        fixes=(_longer(facts, sample, burst=burst),),
    )


def _needing(facts: DiagnosisInput) -> Sample:
    """The shortest horizon with enough records that are late under the lateness in force; else all since the start."""
    *recent, whole = _samples(facts)
    for sample in recent:
        own = sample.at(facts.settings.lateness_ms)
        if sample.records >= ENOUGH and own is not None and own.late >= FEW_LATE:
            return sample
    return whole


def _longer(facts: DiagnosisInput, sample: Sample, *, burst: bool) -> Fix:
    """The lateness with which 99 % would have been on time, if there is one."""
    if facts.settings.lateness_ms is None:
        return Fix("use-strategy-with-lateness", "Use a strategy with lateness (--strategy bounded --lateness D)")
    # The records since the start do not describe a burst.
    needed = None if burst and sample.horizon_ms is None else sample.enough(WANTED)
    if needed is None or needed.lateness_ms <= facts.settings.lateness_ms:
        return SEE_LATE_RECORDS  # earlier settings let through what is late now
    then, own = facts.at_lateness(needed.lateness_ms), facts.at_lateness(facts.settings.lateness_ms)
    delays = [row.delay_ms for row in (then, own) if row is not None and row.delay_ms is not None]
    return Fix(
        code="set-lateness",
        value_ms=needed.lateness_ms,
        late_share=needed.late_share,
        horizon_ms=sample.horizon_ms,
        later_ms=delays[0] - delays[1] if len(delays) == 2 else None,
    )


class LatenessTooLarge(Finding, frozen=True, kw_only=True, tag="lateness-too-large"):
    """Results wait for late records that do not come.

    Recognised by: one third of the lateness would have kept 99.9 % of at least 10,000 records, and results would come
    at least half sooner.

    What to do: set the shorter lateness that the finding names.
    """

    late_share: float
    enough_ms: int
    """The lateness at which 99.9 % would have been on time."""
    enough_share: float
    sooner_ms: float
    horizon_ms: int | None = None
    """Judged by the records of the last `horizon_ms`; None: since the start."""
    withheld: int = 0
    """No window has fired yet, and this many would have fired with the shorter lateness."""

    def words(self, context: Context) -> Explanation:
        closed = "on average over all closed windows" if not self.withheld else "no window has fired yet"
        impact = f"Results could come {span(self.sooner_ms)} sooner"
        if self.withheld:
            impact = f"No result yet: {n(self.withheld, 'window')} would have fired with {f.setting(self.enough_ms)}"
        return Explanation(
            "Lateness is larger than needed",
            impact,
            "Every window waits for the whole lateness, whether records still come or not.",
            [
                f"Late with lateness {f.setting(self.enough_ms)}: {f.share(self.enough_share)}, "
                f"with {context.lateness}: {f.share(self.late_share)} ({horizon_words(self.horizon_ms)})",
                f"Results {span(self.sooner_ms)} sooner, {closed}",
            ],
            ("Lateness",),
        )


@rule(LatenessTooLarge, suppressed_by=("processing-time",))
def lateness_too_large(facts: DiagnosisInput) -> LatenessTooLarge | None:
    lateness_ms = facts.settings.lateness_ms
    own = facts.at_lateness(lateness_ms)
    *recent, whole = _samples(facts)
    # The longest recent horizon, at least one hour, with enough records; else all since the start.
    long = [one for one in reversed(recent) if one.horizon_ms is not None and one.horizon_ms >= HOUR]
    sample = next((one for one in (*long, whole) if one.records >= ENOUGH_KEPT), None)
    if own is None or not lateness_ms or sample is None:
        return None
    enough, own_late = sample.enough(KEPT_SHARE), sample.at(lateness_ms)
    if enough is None or own_late is None or enough.lateness_ms * SHORTER > lateness_ms:
        return None
    then = facts.at_lateness(enough.lateness_ms)
    if then is None:
        return None
    windows, withheld = facts.snapshot.windows, 0
    if windows.fired == 0 and facts.event_times:
        withheld = sum(window.end_ms <= min(facts.event_times) - enough.lateness_ms for window in windows.open)
    if own.delay_ms is None or then.delay_ms is None:
        if not withheld:
            return None  # the delay of results is not measured
        delay_ms, sooner_ms = float(lateness_ms), float(lateness_ms - enough.lateness_ms)
    else:
        delay_ms, sooner_ms = own.delay_ms, own.delay_ms - then.delay_ms
    if sooner_ms < max(SECOND, SOONER * (facts.window_ms + delay_ms)):
        return None
    return LatenessTooLarge(
        severity="warning" if withheld else "info",
        size=sooner_ms,
        late_share=own_late.late_share or 0.0,
        enough_ms=enough.lateness_ms,
        enough_share=enough.late_share or 0.0,
        sooner_ms=sooner_ms,
        horizon_ms=sample.horizon_ms,
        withheld=withheld,
        fixes=(
            Fix(
                code="set-lateness",
                value_ms=enough.lateness_ms,
                late_share=enough.late_share,
                horizon_ms=sample.horizon_ms,
                later_ms=-sooner_ms,
            ),
        ),
    )


class Dropped(Finding, frozen=True, kw_only=True, tag="dropped"):
    """Spark drops rows behind the watermark.

    Recognised by: the query reports dropped rows. Spark counts them after partial aggregation, so the number is a lower
    bound.

    What to do: set a longer delay in `withWatermark`. A tap before it counts how late the rows are.
    """

    rows: int
    restarted: bool
    """The delay in force would have kept them: the watermark is still that of a shorter one, before a restart."""

    def words(self, context: Context) -> Explanation:
        spark = context.snapshot.spark
        cause = "They came after the watermark had passed the end of their window."
        if self.restarted:
            cause = "The watermark is still the one that the shorter delay before the restart gave."
            if spark.frozen_ms:
                cause += f" Event time has to catch up by {span(spark.frozen_ms)}."
        behind_ms = spark.dropped_behind_ms
        behind = [] if behind_ms is None else [f"The earliest was {span(behind_ms)} behind the newest event time"]
        return Explanation(
            "Spark drops rows behind the watermark",
            f"≥ {n(self.rows, 'row')} lost",
            cause,
            [
                f"Spark counts ≥ {n(self.rows, 'row')} dropped, after partial aggregation: a lower bound",
                *behind,
                f"Watermark delay: {context.lateness}",
            ],
            ("Operators", "Progress"),
        )


@rule(Dropped, suppressed_by=("left-behind", "watermark-never-moved", "future-timestamps"))
def dropped(facts: DiagnosisInput) -> Dropped | None:
    spark = facts.snapshot.spark
    if not spark.dropped_at_least or facts.snapshot.totals.late is not None:
        return None
    behind_ms, delay_ms = spark.dropped_behind_ms, facts.settings.lateness_ms
    restarted = bool(spark.frozen_ms) or (behind_ms is not None and delay_ms is not None and behind_ms < delay_ms)
    return Dropped(
        severity="warning",
        size=share(spark.dropped_at_least, facts.snapshot.totals.records) or 0.0,
        rows=spark.dropped_at_least,
        restarted=restarted,
        fixes=(WAIT,) if restarted else (lengthen_lateness(facts.snapshot, _covering(behind_ms)), TAP_INPUT),
    )


def _covering(behind_ms: int | None) -> int | None:
    """A round delay that is longer; None: not known, or so long that those rows are rather wrong than late."""
    if behind_ms is None or behind_ms > MAX_DELAY_MS:
        return None
    steps = ((MINUTE, SECOND), (10 * MINUTE, 10 * SECOND), (10 * HOUR, MINUTE), (MAX_DELAY_MS, HOUR))
    step = next(step for most, step in steps if behind_ms <= most)
    return (behind_ms // step + 1) * step


_MIN_LATE, _MIN_RATIO, _MIN_SHARE, _MAX_ALSO = 20, 2.0, 0.2, 3
_CLEAR_SHARE = 0.5
CORRECT_CLOCK = Fix("correct-clock", "Set that producer's clock (NTP), or correct its times before they are read")
FIX_CAUSE = Fix("fix-cause", "Fix what delays those records, or set a lateness that covers them")


class LateCause(Finding, frozen=True, kw_only=True, tag="late-cause"):
    """Many late records have one value of a column in common, which few of all records have.

    Recognised by: `--explain`: the value has at least 20 % of the late records, and its records are late at least twice
    as often as all others, beyond chance.

    What to do: find what delays these records (a version, a device, a region, a clock that is behind), or set a
    lateness that covers them.
    """

    column: str
    value: str
    late: int
    late_share: float
    share: float
    lift: float
    low: float
    high: float
    approximate: bool
    also: tuple[tuple[str, str, float], ...] = ()
    """Further values for which the same is true: column, value, share of the late records."""

    def words(self, context: Context) -> Explanation:
        about = "≈ " if self.approximate else ""
        also = [f"Also {f.clean(column)} {f.clean(value)}: {f.share(share)}" for column, value, share in self.also]
        return Explanation(
            f"{f.clean(self.column)} {f.clean(self.value)} is {f.share(self.late_share)} of the late records",
            f"and {about}{f.share(self.share)} of all: {self.lift:.1f} times its share",
            "What these records have in common delays them: a version, a device, a region, a slow producer, or a "
            "clock that is behind.",
            [
                f"{n(self.late, 'late record')}",
                f"Lift {self.lift:.1f}, 95 % interval {self.low:.1f} to {self.high:.1f}",
                *also,
            ],
            ("Who is late", "Lateness"),
        )


@rule(LateCause, suppressed_by=("wrong-unit",))
def late_cause(facts: DiagnosisInput) -> LateCause | None:
    columns = facts.snapshot.own.explain or ()
    found = [cause for column in columns for value in column.values if (cause := _cause(column, value)) is not None]
    found.sort(key=lambda cause: (cause.share - cause.late_share, cause.column))
    if not found:
        return None
    return replace(found[0], also=tuple((it.column, it.value, it.late_share) for it in found[1 : 1 + _MAX_ALSO]))


def _cause(column: ExplainedColumn, value: ExplainedValue) -> LateCause | None:
    """The finding about one value, if its records are late far more often than those without it."""
    if not value.sure or value.lift is None or value.low is None or value.high is None or not column.late:
        return None
    share, late_share = value.records / column.records, value.late / column.late
    if value.late < _MIN_LATE or late_share < _MIN_SHARE:
        return None
    others = (column.late - value.late) / max(column.records - value.records, 1)
    if value.low * column.late / column.records < _MIN_RATIO * others:
        return None
    return LateCause(
        severity="warning" if late_share >= _CLEAR_SHARE else "info",
        size=late_share,
        column=column.column,
        value=value.value,
        late=value.late,
        late_share=late_share,
        share=share,
        lift=value.lift,
        low=value.low,
        high=value.high,
        approximate=column.approximate,
        fixes=(FIX_CAUSE, CORRECT_CLOCK, SEE_LATE_RECORDS),
    )
