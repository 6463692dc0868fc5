"""Lateness: too small, larger than needed, a burst of late records, rows that Spark drops, what late records share.

The lateness to set is the recommended one (semantics 11.5).
"""

from msgspec import Struct
from msgspec.structs import replace

from ..snapshot import ExplainedColumn, ExplainedValue, OperatorKind, Snapshot
from ..snapshot.recommendation import TARGET, Recommendation, advice, recommendation, samples_of
from ..text import formatting as f
from ..text.codes import recommended_words
from ..text.formatting import horizon_words
from ..watermarks.lateness import HOUR, wilson_interval
from .finding import WAIT, Finding, Fix, lengthen_lateness, n, span
from .rules import MINUTE, SECOND, DiagnosisInput, loss_severity, rule

ENOUGH = 1_000
"""Records that a share needs to be meaningful."""
LOST_SHARE, FEW_LATE = 0.023, 20
"""Lateness is too small if more than this share is late (2.3 %: beyond two standard deviations), and not just a few."""
MAX_DELAY_MS = 7 * 24 * HOUR
"""No longer delay is advised for rows that Spark drops."""
BURST_TIMES = 4
"""A burst: the late share is this many times the one since the start."""
ENOUGH_KEPT, SHORTER, SOONER = 10_000, 3, 0.5
"""Too large: one third of it (3) is recommended by so many records, and saves this part of the time to a result."""
TAP_INPUT = Fix("tap-input", "Count how late the rows are: put a tap (one line) before withWatermark")
SEE_LATE_RECORDS = Fix("see-late-records", "See when late records come and how late they are (Lateness, key l)")


@rule("lateness-too-small", suppressed_by=("wrong-unit",))
def lateness_too_small(facts: DiagnosisInput) -> Finding | None:
    """Too many records come after their windows have closed and are dropped.

    Recognised by: more than 2.3 % of the records are late, since the start and lately; or a burst: lately 4 times the
    share since the start.
    What to do: set the lateness that the finding names; in a burst, look first at when and where the late records come
    from.
    """
    late, records, past = facts.snapshot.totals.late or 0, facts.snapshot.totals.records or 0, facts.past
    late_share = f.ratio(facts.snapshot.totals.late, records)
    if late_share is None:
        return None
    # The share must rest on enough; of few records the 95 % interval has to be far above what is let pass.
    if records < ENOUGH and (late < FEW_LATE or (wilson_interval(late, records)[0] or 0) <= 2 * LOST_SHARE):
        return None
    recent = None
    if past and past[-1].records - past[0].records >= ENOUGH:
        recent = (past[-1].late - past[0].late) / (past[-1].records - past[0].records)
    burst = late_share <= LOST_SHARE  # only lately: the share since the start is small
    if (late_share if recent is None else recent) <= LOST_SHARE:
        return None
    if burst and (recent is None or recent < BURST_TIMES * late_share):
        return None
    size = recent if burst and recent is not None else late_share
    title, impact = "Lateness is too small", f"{f.share(late_share)} of the records are dropped ({f.count(late)})"
    cause, screens = "Records come later than the watermark allows for.", ("Lateness",)
    if burst:
        title, impact = "A burst of late records", f"{f.share(recent)} of the records of the last minutes are dropped"
        cause = "Records come far later than they usually do"
        cause += ": a delayed producer, a replay, a channel back from an outage."
        screens = ("History", "Lateness")
    in_force = facts.settings.lateness_ms
    return Finding(
        severity=loss_severity(size),
        size=size,
        title=title,
        impact=impact,
        cause=cause,
        evidence=[
            f"{f.counted(late, 'record')} came after their windows had closed: {f.share(late_share)} since the start",
            None if recent is None else f"In the last minutes: {f.share(recent)}",
            f"Lateness: {'none' if in_force is None else f.setting(in_force)}",
        ],
        screens=screens,
        fixes=(_longer(facts),),
    )


def _longer(facts: DiagnosisInput) -> Fix:
    """The recommended lateness, if it is longer than the one in force."""
    in_force = facts.settings.lateness_ms
    if in_force is None:
        return Fix("use-strategy-with-lateness", "Use a strategy with lateness (--strategy bounded --lateness D)")
    found = recommendation(facts.snapshot)
    if found.lateness_ms is None:
        why = recommended_words(found)[1]
        return replace(SEE_LATE_RECORDS, text=f"{SEE_LATE_RECORDS.text}; no lateness is recommended: {why}")
    if found.lateness_ms <= in_force:
        return SEE_LATE_RECORDS  # earlier settings let through what is late now
    then, own = facts.at_lateness(found.lateness_ms), facts.at_lateness(in_force)
    delays = [row.delay_ms for row in (then, own) if row is not None and row.delay_ms is not None]
    return _set_lateness(found, delays[0] - delays[1] if len(delays) == 2 else None)


def _set_lateness(found: Recommendation, later_ms: float | None) -> Fix:
    return Fix(
        code="set-lateness",
        value_ms=found.lateness_ms,
        late_share=f.ratio(found.late, found.records),
        horizon_ms=found.horizon_ms,
        later_ms=later_ms,
    )


@rule("lateness-too-large", "Lateness", suppressed_by=("processing-time",))
def lateness_too_large(facts: DiagnosisInput) -> Finding | None:
    """Results wait for late records that do not come.

    Recognised by: at least 10,000 records recommend one third of the lateness or less for 99.9 % on time, and results
    would come at least half sooner.
    What to do: set the shorter lateness that the finding names.
    """
    lateness_ms = facts.settings.lateness_ms
    own, advised = facts.at_lateness(lateness_ms), advice(facts.snapshot, TARGET)
    # The longest recent horizon, at least one hour, with enough records; else all since the start.
    samples = sorted(samples_of(facts.snapshot), key=lambda sample: -(sample.horizon_ms or 0))
    long = [sample for sample in samples if sample.horizon_ms is None or sample.horizon_ms >= HOUR]
    sample = next((sample for sample in long if sample.records >= ENOUGH_KEPT), None)
    if own is None or not lateness_ms or sample is None or advised is None or advised.current is None:
        return None
    found = advised.recommendation
    # The recommendation may rest on a quiet quarter of an hour: the longer horizon has to agree.
    enough, kept = found.lateness_ms, recommendation(facts.snapshot, horizon_ms=sample.horizon_ms).lateness_ms
    if enough is None or kept is None or max(enough, kept) * SHORTER > lateness_ms:
        return None
    then = facts.at_lateness(enough)
    if then is None:
        return None
    windows, withheld = facts.snapshot.windows, 0
    if windows.fired == 0 and facts.event_times:
        withheld = sum(window.end_ms <= min(facts.event_times) - enough for window in windows.open)
    if own.delay_ms is None or then.delay_ms is None:
        if not withheld:
            return None  # the delay of results is not measured
        delay_ms, sooner_ms = float(lateness_ms), float(lateness_ms - enough)
    else:
        delay_ms, sooner_ms = own.delay_ms, own.delay_ms - then.delay_ms
    if sooner_ms < max(SECOND, SOONER * (facts.window_ms + delay_ms)):
        return None
    closed, impact = "on average over all closed windows", f"Results could come {span(sooner_ms)} sooner"
    if withheld:
        closed = "no window has fired yet"
        impact = f"No result yet: {n(withheld, 'window')} would have fired with {f.setting(enough)}"
    enough_share = f.ratio(found.late, found.records) or 0.0
    return Finding(
        severity="warning" if withheld else "info",
        size=sooner_ms,
        title="Lateness is larger than needed",
        impact=impact,
        cause="Every window waits for the whole lateness, whether records still come or not.",
        evidence=[
            f"Late with lateness {f.setting(enough)}: {f.share(enough_share)}, "
            f"with {facts.lateness}: {f.share(advised.current.late_share)} ({horizon_words(found.horizon_ms)})",
            f"Results {span(sooner_ms)} sooner, {closed}",
        ],
        fixes=(_set_lateness(found, -sooner_ms),),
    )


_BY_WINDOW: tuple[OperatorKind, ...] = ("aggregation", "session", "other")
"""Operators that drop a row by the end of its window, or may; the rest do by its own event time."""


@rule("dropped", "Operators", "Progress", suppressed_by=("left-behind", "watermark-never-moved", "future-timestamps"))
def dropped(facts: DiagnosisInput) -> Finding | None:
    """Spark drops rows behind the watermark.

    Recognised by: the query reports dropped rows. Of windows Spark counts them after partial aggregation, so the number
    is a lower bound; of dropDuplicates and joins, and in real-time mode, it counts each. A row that counts several
    times, on both sides of a join that reads one source twice or in each sliding window, is one: a lower bound, too.
    What to do: set a longer delay in `withWatermark`. A tap before it counts how late the rows are.
    """
    spark, rows = facts.snapshot.spark, facts.snapshot.spark.dropped_at_least
    if not rows or facts.snapshot.totals.late is not None:
        return None
    behind_ms, delay_ms = spark.dropped_behind_ms, facts.settings.lateness_ms
    # The delay in force would have kept them: the watermark is still that of a shorter one, before a restart.
    restarted = bool(spark.frozen_ms) or (behind_ms is not None and delay_ms is not None and behind_ms < delay_ms)
    is_unmoved = behind_ms is None and facts.snapshot.level.moved_ms is None  # an earlier delay may have set it
    lengthen = () if is_unmoved else (lengthen_lateness(facts.snapshot, _covering(behind_ms)),)
    has_windows = spark.operators is None or any(one.kind in _BY_WINDOW for one in spark.operators)
    cause = f"They came after the watermark had passed {'the end of their window' if has_windows else 'their time'}."
    if restarted:
        cause = "The watermark is still the one that the shorter delay before the restart gave."
        if spark.frozen_ms:
            cause += f" Event time has to catch up by {span(spark.frozen_ms)}."
    is_join = any(one.kind == "join" for one in spark.operators or ())
    how = "after partial aggregation" if has_windows else "on both sides of a join" if is_join else "in known batches"
    lost = f"{'' if spark.dropped_exact else '≥ '}{n(rows, 'row')}"
    return Finding(
        size=f.ratio(rows, facts.snapshot.totals.records) or 0.0,
        title="Spark drops rows behind the watermark",
        impact=f"{lost} lost",
        cause=cause,
        evidence=[
            f"Spark counts {lost} dropped" + (f", {how}: a lower bound" * (not spark.dropped_exact)),
            None if behind_ms is None else f"The earliest was {span(behind_ms)} behind the newest event time",
            f"Watermark delay: {facts.lateness}",
            "The watermark has not moved in the batches that are known" if is_unmoved else None,
        ],
        fixes=(WAIT,) if restarted else (*lengthen, TAP_INPUT if facts.snapshot.whatif is None else SEE_LATE_RECORDS),
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


class LateCause(Struct, frozen=True):
    """A value of a column that many late records have in common, and few of all records have."""

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


@rule("late-cause", "Who is late", "Lateness", suppressed_by=("wrong-unit",))
def late_cause(facts: DiagnosisInput) -> Finding | None:
    """Many late records have one value of a column in common, which few of all records have.

    Recognised by: `--explain`: the value has at least 20 % of the late records, and its records are late at least twice
    as often as all others, beyond chance.
    What to do: find what delays these records (a version, a device, a region, a clock that is behind), or set a
    lateness that covers them.
    """
    cause = late_cause_of(facts.snapshot)
    if cause is None:
        return None
    about = "≈ " if cause.approximate else ""
    return Finding(
        severity="warning" if cause.late_share >= _CLEAR_SHARE else "info",
        size=cause.late_share,
        title=f"{f.clean(cause.column)} {f.clean(cause.value)} is {f.share(cause.late_share)} of the late records",
        impact=f"and {about}{f.share(cause.share)} of all: {cause.lift:.1f} times its share",
        cause="What these records have in common delays them: a version, a device, a region, a slow producer, or a "
        "clock that is behind.",
        evidence=[
            f"{n(cause.late, 'late record')}",
            f"Lift {cause.lift:.1f}, 95 % interval {cause.low:.1f} to {cause.high:.1f}",
            *(f"Also {f.clean(column)} {f.clean(value)}: {f.share(part)}" for column, value, part in cause.also),
        ],
        fixes=(FIX_CAUSE, CORRECT_CLOCK, SEE_LATE_RECORDS),
    )


def late_cause_of(snapshot: Snapshot) -> LateCause | None:
    """What most late records have in common, by the `--explain` columns; None: nothing that is clear."""
    columns = snapshot.own.explain or ()
    found = [cause for column in columns for value in column.values if (cause := _cause(column, value)) is not None]
    found.sort(key=lambda cause: (cause.share - cause.late_share, cause.column))
    if not found:
        return None
    return replace(found[0], also=tuple((it.column, it.value, it.late_share) for it in found[1 : 1 + _MAX_ALSO]))


def _cause(column: ExplainedColumn, value: ExplainedValue) -> LateCause | None:
    """The value as a cause, if its records are late far more often than those without it."""
    if not value.sure or value.lift is None or value.low is None or value.high is None or not column.late:
        return None
    share, late_share = value.records / column.records, value.late / column.late
    if value.late < _MIN_LATE or late_share < _MIN_SHARE:
        return None
    others = (column.late - value.late) / max(column.records - value.records, 1)
    if value.low * column.late / column.records < _MIN_RATIO * others:
        return None
    return LateCause(
        column=column.column,
        value=value.value,
        late=value.late,
        late_share=late_share,
        share=share,
        lift=value.lift,
        low=value.low,
        high=value.high,
        approximate=column.approximate,
    )
