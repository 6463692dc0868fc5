"""The state of an existing query: its stateful operators, its output mode, its open windows. Pure."""

from collections.abc import Mapping, Sequence

from ...snapshot import OpenWindow, OutputMode, StatefulOperator, Windows, WindowsUnknown, WindowsUnknownCode
from ...verdict.monitor_snapshot import MAX_OPEN_WINDOWS
from .checkpoint.open_windows import OPERATOR_KINDS, OpenWindows
from .events.query_runs import BatchProgress, PlanFacts, StateFacts

_FOLLOW_THE_WATERMARK = ("aggregation", "session", None)
"""Operators whose output is not behind the watermark; windows above a join may stay longer."""
_PASS_THE_WATERMARK_ON = ("aggregation", "session", "dedup", "dedup_within_watermark", "limit", None)
"""Operators that pass the query's own watermark on to the operators above."""
_WITHOUT_WINDOWS = ("join", "dedup", "dedup_within_watermark", "limit")
"""Operators without windows: nothing is missing if another operator has windows."""


def operators_of(
    plan: PlanFacts | None, progress: BatchProgress | None, state: Sequence[OpenWindows] | None
) -> list[StatefulOperator] | None:
    """The operators by the plan, else by the state, else by the reports; None: not known."""
    reported = _by_number(progress)
    if plan is not None:
        return [
            StatefulOperator(
                operator=one.operator,
                kind=one.kind,
                output_mode=one.output_mode,
                windowed=one.windowed,
                evicts=one.evicts,
                watermarks=list(one.watermarks),
                rows=_rows(reported, one.operator, state),
                dropped=_dropped(reported, one.operator),
            )
            for one in plan.operators
        ]
    if state:
        return [
            StatefulOperator(
                operator=one.operator,
                kind=one.kind or "other",
                windowed=one.kind == "session" or bool(one.windows) or None,
                evicts=one.evicts,
                rows=_rows(reported, one.operator, state),
                dropped=_dropped(reported, one.operator),
            )
            for one in state
        ]
    if progress is None:
        return None
    return [
        StatefulOperator(operator=None, kind=OPERATOR_KINDS.get(one.operator, "other"), rows=one.rows)
        for one in progress.states
    ]


def _by_number(progress: BatchProgress | None) -> Mapping[int, StateFacts]:
    """Spark numbers its operators from the sink on, and reports them in that order."""
    return {} if progress is None else dict(enumerate(progress.states))


def _rows(reported: Mapping[int, StateFacts], number: int | None, state: Sequence[OpenWindows] | None) -> int | None:
    if number is not None and number in reported:
        return reported[number].rows
    return next((one.keys for one in state or () if one.operator == number and one.batch is not None), None)


def _dropped(reported: Mapping[int, StateFacts], number: int | None) -> int | None:
    return reported[number].dropped_at_least if number is not None and number in reported else None


def output_mode_of(
    plan: PlanFacts | None, state: Sequence[OpenWindows] | None, in_force: Mapping[int, int | None]
) -> OutputMode | None:
    """The output mode by the plan; state with ended windows proves complete mode.

    `in_force`: the watermark (ms) in each recorded batch.
    """
    modes: set[OutputMode] = set()
    if plan is not None:
        modes |= {one.output_mode for one in plan.operators if one.output_mode is not None}
    if len(modes) == 1:
        return modes.pop()
    if plan is not None or not state or any(one.kind not in _FOLLOW_THE_WATERMARK for one in state):
        return None
    return "complete" if any(one.evicts and _keeps_ended(one, in_force) for one in state) else None


def _keeps_ended(one: OpenWindows, in_force: Mapping[int, int | None]) -> bool:
    """Whether it still has windows that had ended by the watermark of its batch."""
    watermark = in_force.get(one.batch) if one.batch is not None else None
    return watermark is not None and any(window.end_ms <= watermark for window in one.windows)


def windows_of(
    found: Sequence[OpenWindows] | None,
    operators: Sequence[StatefulOperator] | None,
    mode: OutputMode | None,
    level_ms: int | None,
    in_force: Mapping[int, int | None],
    nothing: WindowsUnknownCode,
) -> Windows:
    """The open windows of all readable operators, and why others were not readable; `nothing`: why none was."""
    if not found:
        return _no_windows(WindowsUnknown(nothing))
    several = len(found) > 1
    known = [one for one in found if one.batch is not None]
    asked = [one for one in found if one.kind not in _WITHOUT_WINDOWS] if known else found
    reasons = [_of_operator(one.reason, one.operator if several else None) for one in asked if one.reason]
    if not known:
        return _no_windows(reasons[0] if reasons else WindowsUnknown("nothing_read"))
    planned = {one.operator: one.evicts for one in operators or ()}
    listed: list[OpenWindow] = []
    open_count = kept = 0
    for one in known:
        evicts = planned.get(one.operator, one.evicts)
        stays = mode == "complete" or evicts is False
        short_known = level_ms is not None and not stays and not _behind_another(one, found)
        passed_ms = level_ms if stays else None
        ended = 0 if passed_ms is None else sum(window.end_ms <= passed_ms for window in one.windows)
        kept += ended
        open_count += one.open - ended
        listed += [
            OpenWindow(
                start_ms=window.start_ms,
                end_ms=window.end_ms,
                records=window.records,
                waits_for=None,
                short_ms=max(window.end_ms - level_ms, 0) if short_known and level_ms is not None else None,
                operator=one.operator if several else None,
            )
            for window in one.windows
            if passed_ms is None or window.end_ms > passed_ms
        ]
    listed.sort(key=lambda window: (window.end_ms, window.start_ms, window.operator or 0))
    return Windows(
        open=listed[:MAX_OPEN_WINDOWS],
        open_count=open_count,
        fired=kept if mode == "complete" else None,
        late_firings=None,
        kept=kept if mode == "complete" or False in planned.values() else None,
        unknown=reasons[0].code if reasons else None,
        unknown_args=reasons[0].args if reasons else {},
    )


def _behind_another(one: OpenWindows, found: Sequence[OpenWindows]) -> bool:
    """Whether an operator nearer to the sources passes on a lower watermark than the query's.

    Spark numbers its operators from the sink on. A join with a time bound still emits rows that far behind.
    """
    return any(other.operator > one.operator and other.kind not in _PASS_THE_WATERMARK_ON for other in found)


def _of_operator(reason: WindowsUnknown, operator: int | None) -> WindowsUnknown:
    return reason if operator is None else WindowsUnknown(reason.code, reason.args | {"operator": operator})


def _no_windows(why: WindowsUnknown) -> Windows:
    return Windows(open_count=None, fired=None, late_firings=None, unknown=why.code, unknown_args=why.args)
