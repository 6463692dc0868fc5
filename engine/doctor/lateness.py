"""Rules about lateness: too small, larger than needed, a burst of late records, rows that Spark drops.

The recommended value is judged by recent records (semantics 11.4) if enough of them came, else by all since the start.
"""

from collections.abc import Sequence

from msgspec import Struct

from ..snapshot import RecentRow, WhatIf
from ..watermarks.lateness import FEW_LATE, HOUR, recommended_lateness_ms, wilson_interval
from .diagnosis_input import MINUTE, SECOND, DiagnosisInput, loss_severity, share
from .finding import Finding, Fix

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


class LatenessTooSmall(Finding, frozen=True, kw_only=True, tag="lateness-too-small"):
    """Too many records are late: since the start, or (`burst`) in the last minutes."""

    late: int
    late_share: float
    recent_share: float | None
    lateness_ms: int | None
    burst: bool
    """Only lately: the share since the start is small."""
    horizon_ms: int | None = None
    """The fix is judged by the records of the last `horizon_ms`; None: since the start."""


class Dropped(Finding, frozen=True, kw_only=True, tag="dropped"):
    """An attached query drops rows behind its watermark; how late they are is not counted."""

    rows: int
    lateness_ms: int | None
    column: str | None
    behind_ms: int | None
    """How far the earliest of them was behind the newest event time; None: not known."""
    restarted: bool
    """The delay in force would have kept them: the watermark is still that of a shorter one, before a restart."""
    frozen_ms: int | None
    """Event time missing until the delay in force sets the watermark again; None: not known, or caught up."""


class LatenessTooLarge(Finding, frozen=True, kw_only=True, tag="lateness-too-large"):
    """Results wait for records that never come."""

    lateness_ms: int
    late_share: float
    enough_ms: int
    """The lateness at which 99.9 % would have been on time."""
    enough_share: float
    sooner_ms: float
    horizon_ms: int | None = None
    """Judged by the records of the last `horizon_ms`; None: since the start."""
    withheld: int = 0
    """No window has fired yet, and this many would have fired with the shorter lateness."""


class _Sample(Struct, frozen=True):
    """The records that a recommendation is based on: those of a horizon (ms), or all since the start (None)."""

    horizon_ms: int | None
    records: int
    rows: Sequence[WhatIf | RecentRow]

    def enough(self, target: float) -> WhatIf | RecentRow | None:
        """The shortest lateness with which the share `target` of them would have been on time."""
        edges, late = [row.lateness_ms for row in self.rows], [row.late for row in self.rows]
        found = recommended_lateness_ms(edges, late, self.records, target) if self.records else None
        return next((row for row in self.rows if row.lateness_ms == found), None)

    def at(self, lateness_ms: int | None) -> WhatIf | RecentRow | None:
        """The late records at that lateness; None between two edges."""
        return next((row for row in self.rows if row.lateness_ms == lateness_ms), None)


def _samples(given: DiagnosisInput) -> list[_Sample]:
    """The samples of the recent horizons, the shortest first, then all since the start."""
    recent = [
        _Sample(part.horizon_ms, part.records, part.rows)
        for part in given.snapshot.whatif_recent or ()
        if part.horizon_ms is not None
    ]
    return [*recent, _Sample(None, given.snapshot.totals.records or 0, given.snapshot.whatif or [])]


def lateness_too_small(given: DiagnosisInput) -> LatenessTooSmall | None:
    """More records are late than two standard deviations, since the start and lately."""
    totals, settings = given.snapshot.totals, given.settings
    late_share = share(totals.late, totals.records)
    if late_share is None or not _says_something(totals.late or 0, totals.records or 0):
        return None
    recent = _recent_share(given)
    burst = late_share <= LOST_SHARE
    if (late_share if recent is None else recent) <= LOST_SHARE:
        return None
    if burst and (recent is None or recent < BURST_TIMES * late_share):
        return None
    sample = _needing(given)
    return LatenessTooSmall(
        severity=loss_severity(recent if burst else late_share),
        size=recent if burst and recent is not None else late_share,
        late=totals.late or 0,
        late_share=late_share,
        recent_share=recent,
        lateness_ms=settings.lateness_ms,
        burst=burst,
        horizon_ms=sample.horizon_ms,
        fixes=_longer(given, sample, burst=burst),
    )


def _says_something(late: int, records: int) -> bool:
    """Whether the share rests on enough; of few records the 95 % interval has to be far above what is let pass."""
    return records >= ENOUGH or (late >= FEW_LATE and (wilson_interval(late, records)[0] or 0) > 2 * LOST_SHARE)


def _needing(given: DiagnosisInput) -> _Sample:
    """The shortest horizon with enough records that are late under the lateness in force; else all since the start."""
    *recent, whole = _samples(given)
    for sample in recent:
        own = sample.at(given.settings.lateness_ms)
        if sample.records >= ENOUGH and own is not None and own.late >= FEW_LATE:
            return sample
    return whole


def _longer(given: DiagnosisInput, sample: _Sample, *, burst: bool) -> tuple[Fix, ...]:
    """The lateness with which 99 % would have been on time, if there is one."""
    if given.settings.lateness_ms is None:
        return (Fix(code="use-strategy-with-lateness"),)
    # The records since the start do not describe a burst.
    needed = None if burst and sample.horizon_ms is None else sample.enough(WANTED)
    if needed is None or needed.lateness_ms <= given.settings.lateness_ms:
        return (Fix(code="see-late-records"),)  # earlier settings let through what is late now
    whole = next((row for row in given.snapshot.whatif or () if row.lateness_ms == needed.lateness_ms), None)
    later_ms = _delay(whole, given.own_lateness)
    return (
        Fix(
            code="set-lateness",
            value_ms=needed.lateness_ms,
            late_share=needed.late_share,
            horizon_ms=sample.horizon_ms,
            later_ms=later_ms,
        ),
    )


def dropped(given: DiagnosisInput) -> Dropped | None:
    """Rows that Spark reports as dropped, if the records are not counted."""
    spark, settings = given.snapshot.spark, given.settings
    if not spark.dropped_at_least or given.snapshot.totals.late is not None:
        return None
    columns = [node.column for node in spark.nodes or ()]
    behind_ms, delay_ms, frozen_ms = spark.dropped_behind_ms, settings.lateness_ms, spark.frozen_ms
    restarted = bool(frozen_ms) or (behind_ms is not None and delay_ms is not None and behind_ms < delay_ms)
    return Dropped(
        severity="warning",
        size=share(spark.dropped_at_least, given.snapshot.totals.records) or 0.0,
        rows=spark.dropped_at_least,
        lateness_ms=settings.lateness_ms,
        column=columns[0] if len(columns) == 1 else None,
        behind_ms=behind_ms,
        restarted=restarted,
        frozen_ms=frozen_ms,
        fixes=(Fix(code="wait"),)
        if restarted
        else (Fix(code="lengthen-lateness", value_ms=_covering(behind_ms)), Fix(code="tap-input")),
    )


def _covering(behind_ms: int | None) -> int | None:
    """A round delay that is longer; None: not known, or so long that those rows are rather wrong than late."""
    if behind_ms is None or behind_ms > MAX_DELAY_MS:
        return None
    steps = ((MINUTE, SECOND), (10 * MINUTE, 10 * SECOND), (10 * HOUR, MINUTE), (MAX_DELAY_MS, HOUR))
    step = next(step for most, step in steps if behind_ms <= most)
    return (behind_ms // step + 1) * step


def lateness_too_large(given: DiagnosisInput) -> LatenessTooLarge | None:
    """One third of the lateness is enough for 999 of 1,000 records, and results would come clearly sooner."""
    own, lateness_ms = given.own_lateness, given.settings.lateness_ms
    sample = _supporting(given)
    if own is None or not lateness_ms or sample is None:
        return None
    enough, own_late = sample.enough(KEPT_SHARE), sample.at(lateness_ms)
    if enough is None or own_late is None or enough.lateness_ms * SHORTER > lateness_ms:
        return None
    whole = next((row for row in given.snapshot.whatif or () if row.lateness_ms == enough.lateness_ms), None)
    if whole is None:
        return None
    withheld = _withheld(given, enough.lateness_ms)
    if own.delay_ms is None or whole.delay_ms is None:
        if not withheld:
            return None  # the delay of results is not measured
        delay_ms, sooner_ms = float(lateness_ms), float(lateness_ms - enough.lateness_ms)
    else:
        delay_ms, sooner_ms = own.delay_ms, own.delay_ms - whole.delay_ms
    if sooner_ms < max(SECOND, SOONER * (given.window_ms + delay_ms)):
        return None
    return LatenessTooLarge(
        severity="warning" if withheld else "info",
        size=sooner_ms,
        lateness_ms=lateness_ms,
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


def _withheld(given: DiagnosisInput, enough_ms: int) -> int:
    """How many of the listed open windows would have fired with that lateness, if none has fired yet."""
    windows, times = given.snapshot.windows, [ms for view in given.channels if (ms := view.max_event_ms) is not None]
    if windows.fired != 0 or not times:
        return 0
    return sum(window.end_ms <= min(times) - enough_ms for window in windows.open)


def _supporting(given: DiagnosisInput) -> _Sample | None:
    """The longest recent horizon, at least one hour, with enough records; else all since the start; None: too few
    records.
    """
    *recent, whole = _samples(given)
    long = [one for one in reversed(recent) if one.horizon_ms is not None and one.horizon_ms >= HOUR]
    return next((one for one in (*long, whole) if one.records >= ENOUGH_KEPT), None)


def _recent_share(given: DiagnosisInput) -> float | None:
    """The late share over the history; None if too few records came."""
    if not given.past:
        return None
    records = given.past[-1].records - given.past[0].records
    return (given.past[-1].late - given.past[0].late) / records if records >= ENOUGH else None


def _delay(other: WhatIf | None, own: WhatIf | None) -> float | None:
    if other is None or own is None or other.delay_ms is None or own.delay_ms is None:
        return None
    return other.delay_ms - own.delay_ms
