"""The recommended lateness (semantics 11.5) and idle timeout beside those in force, with what each costs. Pure."""

from collections.abc import Sequence
from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from ..watermarks.lateness import RecentRow, WhatIf, records_needed, wilson_interval
from . import Snapshot, WhatIfIdle

TARGET = 0.999
"""The share on time for which every snapshot has a recommendation."""
ENOUGH_FOR_LESS = 1_000
"""Records without which less than the lateness in force is never recommended."""

NoRecommendation = Literal[
    "not_counted",  # how late records are is not known
    "one_batch",  # all records came in one batch, so none could be late
    "too_few",  # records: `needs` are enough if none is late
    "too_few_for_less",  # than the lateness in force: `needs` records are enough
    "too_late",  # `late` of the records are late even at the greatest edge
]


class Recommendation(Struct, frozen=True):
    """`lateness_ms` None: there is none, for a `reason`.

    `late` of the `records` of the horizon would have been late; `low` and `high` are the Wilson 95 % interval of their
    share. `delay_ms`: how long after their window's end results would come, a mean since the start. None: not known.
    """

    target: float
    lateness_ms: int | None = None
    horizon_ms: int | None = None
    """Judged by the records that came in the last `horizon_ms`; None: by all since the start."""
    records: int | None = None
    late: int | None = None
    low: float | None = None
    high: float | None = None
    delay_ms: float | None = None
    reason: NoRecommendation | None = None
    needs: int | None = None
    """Records that are enough; None: that is not the reason."""
    upper_bound: bool = False
    """`late` is an upper bound."""


class Sample(Struct, frozen=True):
    """The records of a horizon (ms; None: since the start), and how many are late at each edge."""

    horizon_ms: int | None
    records: int
    rows: Sequence[WhatIf | RecentRow]


def samples_of(snapshot: Snapshot) -> list[Sample]:
    """The horizons of which records are known, the shortest first and all since the start last."""
    samples = [Sample(each.horizon_ms, each.records, each.rows) for each in snapshot.whatif_recent or ()]
    if not samples or samples[-1].horizon_ms is not None:
        samples.append(Sample(None, snapshot.totals.records or 0, snapshot.whatif or ()))
    return [sample for sample in samples if sample.records and sample.rows]


def recommendation(
    snapshot: Snapshot, target: float = TARGET, horizon_ms: int | UnsetType | None = UNSET
) -> Recommendation:
    """The recommendation for `target` (a share) by the records of a horizon; unset: of the shortest that gives one."""
    found = Recommendation(target, reason="not_counted")
    if snapshot.condition.one_batch:
        return Recommendation(target, reason="one_batch")
    for sample in samples_of(snapshot):
        if horizon_ms is UNSET or horizon_ms == sample.horizon_ms:
            found = _by(snapshot, sample, target)
        if found.lateness_ms is not None:
            break
    return found


def _by(snapshot: Snapshot, sample: Sample, target: float) -> Recommendation:
    lateness_ms, late, reason, needs = None, min(row.late for row in sample.rows), None, None
    in_force, records = snapshot.settings.lateness_ms, sample.records
    highs = ((row, wilson_interval(min(row.late, records), records)[1] or 0.0) for row in sample.rows)
    enough = next((row for row, high in highs if high <= 1 - target), None)
    if enough is not None:
        lateness_ms, late = enough.lateness_ms, enough.late
        if in_force is not None and lateness_ms < in_force and records < ENOUGH_FOR_LESS:
            lateness_ms, reason, needs = None, "too_few_for_less", ENOUGH_FOR_LESS
    elif records < (fewest := records_needed(target)):
        reason, needs = "too_few", fewest
    else:
        reason = "too_late"
    late = min(late, records)
    low, high = wilson_interval(late, records)
    return Recommendation(
        target=target,
        lateness_ms=lateness_ms,
        horizon_ms=sample.horizon_ms,
        records=records,
        late=late,
        low=low,
        high=high,
        delay_ms=next((row.delay_ms for row in snapshot.whatif or () if row.lateness_ms == lateness_ms), None),
        reason=reason,
        needs=needs,
        upper_bound=snapshot.whatif_upper_bound,
    )


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
    """The advice for `target` (a share) from a horizon's records (unset: as `recommendation` does); None: not known."""
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
