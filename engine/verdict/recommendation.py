"""The recommended lateness and idle timeout beside those in force, with what each costs. Pure."""

from collections.abc import Sequence

from msgspec import UNSET, Struct, UnsetType

from ..snapshot import Snapshot, WhatIfIdle
from ..snapshot.recommendation import Recommendation, Sample, recommendation, samples_of
from ..watermarks.lateness import wilson_interval

IDLE_SHARE = 0.1
"""Share of the allowed late records that an idle timeout may cost."""


class LatenessOutcome(Struct, frozen=True):
    """What a lateness would have cost: `low` and `high` are the Wilson 95 % interval of `late_share`.

    `delay_ms` is how much later results come, a mean over the closed windows since the start; None: not known.
    """

    lateness_ms: int
    late: int
    late_share: float
    low: float
    high: float
    delay_ms: float | None


class IdleOutcome(Struct, frozen=True):
    """What an idle timeout (None: off) would have given since the start.

    `gain_ms`: how much further the watermark would be than under the present one; None: not known.
    """

    idle_after_ms: int | None
    late: int
    late_share: float
    flaps: int
    gain_ms: int | None


class Advice(Struct, frozen=True):
    """`lateness` and `idle`: what is recommended; None: nothing.

    `current`: what is in force. `bucket_ms`: the possible error of an attached query's counts; `upper_bound`: the late
    counts are upper bounds.
    """

    recommendation: Recommendation
    lateness: LatenessOutcome | None
    current: LatenessOutcome | None
    idle: IdleOutcome | None
    current_idle: IdleOutcome | None
    upper_bound: bool
    bucket_ms: int | None


def known_horizons(snapshot: Snapshot) -> list[int | None]:
    """The horizons (ms; None: since the start) for which the snapshot has records, the shortest first."""
    return [sample.horizon_ms for sample in samples_of(snapshot)]


def advice(snapshot: Snapshot, target: float, horizon_ms: int | UnsetType | None = UNSET) -> Advice | None:
    """The advice for `target` (a share) from the records of a horizon (unset: as `recommendation` chooses); None:
    nothing is known about that horizon.
    """
    found = recommendation(snapshot, target, horizon_ms)
    sample = next((sample for sample in samples_of(snapshot) if sample.horizon_ms == found.horizon_ms), None)
    if sample is None or (horizon_ms is not UNSET and sample.horizon_ms != horizon_ms):
        return None
    return Advice(
        recommendation=found,
        lateness=_outcome(snapshot, sample, found.lateness_ms),
        current=_outcome(snapshot, sample, snapshot.settings.lateness_ms),
        idle=_idle(snapshot, target),
        current_idle=_idle_outcome(snapshot, _row(snapshot, snapshot.settings.idle_after_ms)),
        upper_bound=snapshot.whatif_upper_bound,
        bucket_ms=snapshot.whatif_bucket_ms,
    )


def _outcome(snapshot: Snapshot, sample: Sample, lateness_ms: int | None) -> LatenessOutcome | None:
    """None without a lateness, or for one between two edges."""
    row = next((row for row in sample.rows if row.lateness_ms == lateness_ms), None)
    if row is None:
        return None
    late = min(row.late, sample.records)
    low, high = wilson_interval(late, sample.records)
    assert low is not None
    assert high is not None
    delay = next((row.delay_ms for row in snapshot.whatif or () if row.lateness_ms == lateness_ms), None)
    return LatenessOutcome(row.lateness_ms, late, late / sample.records, low, high, delay)


def _idle(snapshot: Snapshot, target: float) -> IdleOutcome | None:
    """The shortest idle timeout that makes almost no additional records late; None if no channel was idle under any."""
    rows: Sequence[WhatIfIdle] = snapshot.whatif_idle or ()
    if not any(row.flaps for row in rows):
        return None
    records = snapshot.totals.records
    without = _row(snapshot, None)
    if without is None or not records:
        return None
    budget = IDLE_SHARE * (1 - target) * records
    good = [row for row in rows if row.idle_after_ms is not None and row.late - without.late <= budget]
    return _idle_outcome(snapshot, min(good, key=lambda row: row.idle_after_ms or 0, default=without))


def _row(snapshot: Snapshot, idle_after_ms: int | None) -> WhatIfIdle | None:
    return next((row for row in snapshot.whatif_idle or () if row.idle_after_ms == idle_after_ms), None)


def _idle_outcome(snapshot: Snapshot, row: WhatIfIdle | None) -> IdleOutcome | None:
    records, level = snapshot.totals.records, snapshot.level.watermark_ms
    if row is None or not records:
        return None
    gain = None if row.watermark_ms is None or level is None else row.watermark_ms - level
    return IdleOutcome(row.idle_after_ms, row.late, row.late / records, row.flaps, gain)
