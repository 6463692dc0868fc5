"""Applies all rules to one input: the findings, the worst first; never none if event time stalls or cannot be
judged.
"""

from collections.abc import Callable, Sequence

from ..snapshot import Snapshot, VerdictName
from ..verdict.history import HistoryPoint
from .batches import HungBatch, SlowBatches, StateGrows, hung_batch, slow_batches, state_grows
from .blocking import (
    FrozenByLateness,
    Lagging,
    NoData,
    OnlyRealigning,
    SilentChannels,
    frozen_by_lateness,
    lagging_channels,
    no_data,
    only_realigning,
    silent_channels,
)
from .clocks import (
    EventTimeStuck,
    FutureTimestamps,
    Malformed,
    ProcessingTime,
    WrongUnit,
    ZoneShift,
    event_time_stuck,
    future_timestamps,
    malformed,
    processing_time,
    wrong_unit,
    zone_shift,
)
from .condition import (
    EngineFailed,
    EngineSilent,
    EngineStarting,
    JobNotRunning,
    NoRecords,
    QueryNotStarted,
    QueryStale,
    SourcePaused,
    SourceUnreachable,
    engine_failed,
    engine_silent,
    engine_starting,
    no_records,
    partly_unknown,
    pause_unknown,
    query_stale,
    source_paused,
)
from .diagnosis_input import DiagnosisInput
from .explained import LateCause, late_cause
from .finding import Finding, Severity
from .flink import (
    LateDrops,
    OperatorKeepsBack,
    ReadsTooSlowly,
    SourceSendsNoWatermark,
    job_restarts,
    late_drops,
    operator_behind,
    operator_keeps_back,
    reads_too_slowly,
    source_without_watermark,
)
from .idleness import flapping_idleness, idle_timeout_too_long, late_after_idle
from .lateness import Dropped, LatenessTooLarge, LatenessTooSmall, dropped, lateness_too_large, lateness_too_small
from .plan import StateNeverRemoved, state_never_removed
from .progress import CannotTell, NotAdvancing, Slow, Stalled, unexplained, verdict_of
from .spark import (
    InputHoldsBack,
    LeftBehind,
    NeverMoved,
    NodeWithoutData,
    NoWatermark,
    PinnedNode,
    input_holds_back,
    left_behind,
    never_moved,
    no_watermark,
    node_without_data,
    pinned_node,
    sibling_failed,
    zero_delay,
)

Rule = Callable[[DiagnosisInput], Finding | None]

CONDITION_RULES: tuple[Rule, ...] = (
    engine_failed,
    engine_silent,
    engine_starting,
    query_stale,
    source_paused,
    pause_unknown,
    partly_unknown,
    no_records,
)
"""Rules about the engine, the query and the source; the first three also apply before there are data."""
STREAM_RULES: tuple[Rule, ...] = (
    silent_channels,
    no_data,
    only_realigning,
    lagging_channels,
    frozen_by_lateness,
    flapping_idleness,
    late_after_idle,
    idle_timeout_too_long,
    left_behind,
    zero_delay,
    node_without_data,
    pinned_node,
    input_holds_back,
    never_moved,
    no_watermark,
    state_never_removed,
    sibling_failed,
    job_restarts,
    late_drops,
    source_without_watermark,
    event_time_stuck,
    operator_behind,
    operator_keeps_back,
    reads_too_slowly,
    future_timestamps,
    malformed,
    wrong_unit,
    zone_shift,
    processing_time,
    late_cause,
    lateness_too_small,
    dropped,
    lateness_too_large,
    slow_batches,
    hung_batch,
    state_grows,
)
RULES: tuple[Rule, ...] = (*CONDITION_RULES, *STREAM_RULES)

_SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")

SUPPRESSED_BY: dict[type[Finding], tuple[type[Finding], ...]] = {
    FutureTimestamps: (WrongUnit, ZoneShift),
    ZoneShift: (WrongUnit,),
    Lagging: (WrongUnit,),
    LatenessTooSmall: (WrongUnit,),
    ProcessingTime: (WrongUnit,),
    LateCause: (WrongUnit,),
    LatenessTooLarge: (ProcessingTime,),
    StateGrows: (
        NodeWithoutData,
        PinnedNode,
        NeverMoved,
        NoWatermark,
        StateNeverRemoved,
        SilentChannels,
        NoData,
        OnlyRealigning,
        Lagging,
        FrozenByLateness,
        FutureTimestamps,
        WrongUnit,
        ZoneShift,
    ),
    QueryStale: (HungBatch,),
    NeverMoved: (NodeWithoutData, PinnedNode),
    Dropped: (LeftBehind, NeverMoved, FutureTimestamps),
    LateDrops: (EventTimeStuck,),
    EventTimeStuck: (InputHoldsBack, FrozenByLateness),
    StateNeverRemoved: (NoWatermark,),
    WrongUnit: (NodeWithoutData, PinnedNode, NeverMoved),
}
"""The findings that suppress a finding, because they explain it."""

EXPLAINED_BY: dict[VerdictName, tuple[type[Finding], ...]] = {
    "stalled": (
        SilentChannels,
        NoData,
        OnlyRealigning,
        Lagging,
        FrozenByLateness,
        NodeWithoutData,
        PinnedNode,
        NeverMoved,
        EventTimeStuck,
        InputHoldsBack,
        FutureTimestamps,
        WrongUnit,
        ZoneShift,
        Malformed,
        HungBatch,
        SourcePaused,
        OperatorKeepsBack,
        SourceSendsNoWatermark,
    ),
    "slow": (
        SlowBatches,
        InputHoldsBack,
        Lagging,
        SilentChannels,
        NoData,
        FrozenByLateness,
        HungBatch,
        WrongUnit,
        ReadsTooSlowly,
    ),
    "unknown": (
        EngineFailed,
        EngineSilent,
        EngineStarting,
        JobNotRunning,
        QueryNotStarted,
        QueryStale,
        HungBatch,
        SourceUnreachable,
        SourcePaused,
        NodeWithoutData,
        PinnedNode,
        InputHoldsBack,
        NeverMoved,
        NoWatermark,
        SourceSendsNoWatermark,
        EventTimeStuck,
        NoRecords,
        NoData,
        Malformed,
        FutureTimestamps,
        OperatorKeepsBack,
    ),
}
"""The findings that account for a bad verdict; without one of them the verdict becomes a finding itself."""
ONLY_CRITICAL: tuple[type[Finding], ...] = (FutureTimestamps, Malformed)
"""Only if critical, one of these findings accounts for a verdict: a few bad records stop no watermark."""


def diagnose(
    snapshot: Snapshot, past: Sequence[HistoryPoint], *, lost: str | None = None, silent_ms: int | None = None
) -> list[Finding]:
    """The findings, the worst first: by severity, then by size.

    With an unknown verdict, what accounts for it comes first: the other findings judge old data. `past` is the history
    up to the snapshot, the oldest point first; `lost` is why no further snapshot will come, `silent_ms` how long none
    has come. While the verdict is stalled, slow or unknown the list is never empty.
    """
    given = DiagnosisInput(snapshot, past, lost=lost, silent_ms=silent_ms)
    bare = snapshot.state == "starting" or (snapshot.state == "failed" and not snapshot.channels)
    found = [finding for rule in (CONDITION_RULES if bare else RULES) if (finding := rule(given)) is not None]
    kinds = {type(finding) for finding in found}
    found = [finding for finding in found if kinds.isdisjoint(SUPPRESSED_BY.get(type(finding), ()))]
    verdict = verdict_of(given)
    if not any(_explains(finding, verdict) for finding in found):
        found += [extra] if (extra := unexplained(given, verdict)) is not None else []
    unknown = verdict == "unknown"
    return sorted(
        found, key=lambda one: (_SEVERITIES.index(one.severity), unknown and not _explains(one, verdict), -one.size)
    )


def accounts_for(finding: Finding, verdict: VerdictName) -> bool:
    """Whether the finding is a reason for that verdict, or replaces one that is not known."""
    return isinstance(finding, Stalled | Slow | NotAdvancing | CannotTell) or _explains(finding, verdict)


def _explains(finding: Finding, verdict: VerdictName) -> bool:
    if isinstance(finding, ONLY_CRITICAL) and finding.severity != "critical":
        return False
    if isinstance(finding, FrozenByLateness) and finding.small:
        return False
    if isinstance(finding, SourceSendsNoWatermark) and verdict == "stalled" and finding.fires:
        return False
    return isinstance(finding, EXPLAINED_BY.get(verdict, ()))
