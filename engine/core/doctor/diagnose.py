"""All rules on one case, and the order of what they find: the worst harm first, then by how much of it."""

from collections.abc import Callable, Sequence

from ..history import HistoryPoint
from ..snapshot import Snapshot
from .case import Case, Finding, Harm
from .channels import Skew, flapping_idleness, last_window, late_after_idle, left_behind, skew, stuck_channel
from .clocks import (
    FutureTimestamps,
    ProcessingTime,
    WrongUnit,
    ZoneShift,
    future_timestamps,
    malformed,
    processing_time,
    wrong_unit,
    zone_shift,
)
from .costs import (
    LatenessTooSmall,
    dropped,
    hung_batch,
    lateness_too_large,
    lateness_too_small,
    slow_batches,
    state_grows,
)

RULES: tuple[Callable[[Case], Finding | None], ...] = (
    stuck_channel,
    last_window,
    flapping_idleness,
    late_after_idle,
    skew,
    left_behind,
    future_timestamps,
    malformed,
    wrong_unit,
    zone_shift,
    processing_time,
    lateness_too_small,
    dropped,
    lateness_too_large,
    slow_batches,
    hung_batch,
    state_grows,
)
_HARMS: tuple[Harm, ...] = ("stops", "loses", "delays", "burdens")
_BENEATH: tuple[tuple[type[Finding], tuple[type[Finding], ...]], ...] = (
    (WrongUnit, (FutureTimestamps, ZoneShift, Skew, LatenessTooSmall, ProcessingTime)),
    (ZoneShift, (FutureTimestamps,)),
)
"""What another finding explains, and is not told beside it."""


def diagnose(snapshot: Snapshot, past: Sequence[HistoryPoint]) -> list[Finding]:
    """What is wrong, the dearest first; `past` is the history up to the snapshot, the oldest point first."""
    if snapshot.state in ("starting", "failed"):
        return []
    case = Case(snapshot, past)
    found = [finding for rule in RULES if (finding := rule(case)) is not None]
    kinds = {type(finding) for finding in found}
    explained = {kind for cause, beneath in _BENEATH if cause in kinds for kind in beneath}
    left = [finding for finding in found if type(finding) not in explained]
    return sorted(left, key=lambda finding: (_HARMS.index(finding.harm), -finding.size))
