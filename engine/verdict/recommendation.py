"""The lateness and idle timeout that the records of a horizon recommend, with the evidence. Pure."""

from collections.abc import Sequence

from msgspec import Struct

from ..snapshot import RecentRow, Snapshot, WhatIf, WhatIfIdle
from ..watermarks.lateness import FEW_LATE, recommended_lateness_ms, wilson_interval

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
    """`lateness` is the smallest edge that keeps the share `target` on time; None: not even the greatest edge does.

    `few`: based on too few late records. `horizon_ms` None: since the start. `bucket_ms`: the possible error of an
    attached query's counts; `upper_bound`: the late counts are upper bounds. `idle` None: nothing to recommend from.
    """

    target: float
    horizon_ms: int | None
    records: int
    lateness: LatenessOutcome | None
    few: bool
    current: LatenessOutcome | None
    idle: IdleOutcome | None
    current_idle: IdleOutcome | None
    upper_bound: bool
    bucket_ms: int | None


class Sample(Struct, frozen=True):
    """The records that a recommendation is based on: those of a horizon (ms), or all since the start (None)."""

    horizon_ms: int | None
    records: int
    rows: Sequence[WhatIf | RecentRow]

    def enough(self, target: float) -> WhatIf | RecentRow | None:
        """The shortest lateness with which the share `target` of them would have been on time."""
        edges, late = [row.lateness_ms for row in self.rows], [row.late for row in self.rows]
        lateness_ms = recommended_lateness_ms(edges, late, self.records, target) if self.records else None
        return self.at(lateness_ms)

    def at(self, lateness_ms: int | None) -> WhatIf | RecentRow | None:
        """The late records at that lateness; None between two edges."""
        return next((row for row in self.rows if row.lateness_ms == lateness_ms), None)


def recent_samples(snapshot: Snapshot) -> list[Sample]:
    """The samples of the horizons of which the snapshot has records of their own, the shortest first."""
    return [Sample(recent.horizon_ms, recent.records, recent.rows) for recent in snapshot.whatif_recent or ()]


def whole_sample(snapshot: Snapshot) -> Sample:
    """All records since the start."""
    return Sample(None, snapshot.totals.records or 0, snapshot.whatif or [])


def known_horizons(snapshot: Snapshot) -> list[int | None]:
    """The horizons (ms; None: since the start) for which the snapshot has records, the shortest first."""
    recent = [each.horizon_ms for each in snapshot.whatif_recent or () if each.records]
    return recent or ([None] if snapshot.whatif and snapshot.totals.records else [])


def advice(snapshot: Snapshot, target: float, horizon_ms: int | None) -> Advice | None:
    """The advice for `target` (a share) from the records of a horizon; None: nothing is known about that horizon."""
    samples = [*recent_samples(snapshot), whole_sample(snapshot)]
    sample = next((sample for sample in samples if sample.horizon_ms == horizon_ms), None)
    if sample is None or not sample.records or not sample.rows:
        return None
    enough, own = sample.enough(target), sample.at(snapshot.settings.lateness_ms)
    idle = _idle(snapshot, target)
    return Advice(
        target=target,
        horizon_ms=sample.horizon_ms,
        records=sample.records,
        lateness=None if enough is None else _outcome(snapshot, sample, enough),
        few=(sample.rows[-1] if enough is None else enough).late < FEW_LATE,
        current=None if own is None else _outcome(snapshot, sample, own),
        idle=idle,
        current_idle=_idle_outcome(snapshot, _row(snapshot, snapshot.settings.idle_after_ms)),
        upper_bound=snapshot.whatif_upper_bound,
        bucket_ms=snapshot.whatif_bucket_ms,
    )


def _outcome(snapshot: Snapshot, sample: Sample, row: WhatIf | RecentRow) -> LatenessOutcome:
    lateness, late = row.lateness_ms, min(row.late, sample.records)
    low, high = wilson_interval(late, sample.records)
    assert low is not None
    assert high is not None
    delay = next((row.delay_ms for row in snapshot.whatif or () if row.lateness_ms == lateness), None)
    return LatenessOutcome(lateness, late, late / sample.records, low, high, delay)


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
