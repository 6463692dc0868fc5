"""The state of an attached query: its stateful operators, output mode and open windows, and their shape. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from math import gcd

from msgspec import Struct
from msgspec.structs import replace

from ...snapshot import OpenWindow, OutputMode, StatefulOperator, Windows, WindowsUnknown, WindowsUnknownCode
from ...verdict.monitor_snapshot import MAX_OPEN_WINDOWS
from ...watermarks.settings import Session, Sliding, Tumbling, WindowSpec
from .facts import BatchProgress, QueryFacts
from .open_windows import OPERATOR_KINDS, OpenWindows
from .plan import PlanFacts

_FOLLOW_THE_WATERMARK = ("aggregation", "session", None)
"""Operators whose output is not behind the watermark; windows above a join may stay longer."""
_PASS_THE_WATERMARK_ON = ("aggregation", "session", "dedup", "dedup_within_watermark", "limit", None)
"""Operators that pass the query's own watermark on to the operators above."""
_WITHOUT_WINDOWS = ("join", "dedup", "dedup_within_watermark", "limit")
"""Operators without windows: nothing is missing if another operator has windows."""
_MAX_REMEMBERED = 200
"""Windows from which the shape is derived."""


class StoredState(Struct, frozen=True):
    """What a query keeps; None: not known."""

    output_mode: OutputMode | None
    operators: list[StatefulOperator] | None
    windows: Windows


def stored_state_of(facts: QueryFacts, watermark_ms: int | None) -> StoredState:
    """The state of a query with that watermark (epoch ms)."""
    in_force = {mark.batch: mark.watermark_ms for mark in facts.stored.history}
    mode = output_mode_of(facts.plan, facts.windows, in_force)
    operators = operators_of(facts.plan, facts.progress, facts.windows)
    windows = windows_of(facts.windows, operators, mode, watermark_ms, _no_operator_reason(facts))
    return StoredState(mode, operators, windows)


def _no_operator_reason(facts: QueryFacts) -> WindowsUnknownCode:
    """Why no stateful operator was found."""
    if facts.plan is not None and not facts.plan.operators and not (facts.progress and facts.progress.states):
        return "no_state"
    if facts.checkpoint is None:
        return "state_elsewhere" if facts.report is not None and facts.report.is_elsewhere else "state_not_found"
    if facts.windows is None:
        return "state_not_read"
    return "no_batch" if facts.checkpoint.committed is None else "no_state"


def operators_of(
    plan: PlanFacts | None, progress: BatchProgress | None, state: Sequence[OpenWindows] | None
) -> list[StatefulOperator] | None:
    """The operators by the plan if it shows those that report, else by the state or the reports; None: not known."""
    reported = progress.states if progress is not None else ()
    if plan is not None and (plan.operators or not reported):
        known: Sequence[StatefulOperator] = plan.operators
    elif state:
        known = [
            StatefulOperator(
                operator=stored.operator,
                kind=stored.kind or "other",
                windowed=stored.kind == "session" or bool(stored.windows) or None,
                evicts=stored.evicts,
            )
            for stored in state
        ]
    elif progress is not None:
        return [
            StatefulOperator(operator=None, kind=OPERATOR_KINDS.get(report.operator, "other"), rows=report.rows)
            for report in reported
        ]
    else:
        return None
    # Spark numbers its operators from the sink on, and reports them in that order.
    numbers = [operator.operator for operator in known]
    if len(known) == len(reported) and set(numbers) == {None}:
        numbers = list(range(len(known)))  # as a driver of Spark 4.0 or older shows its plans
    rows: dict[int | None, int | None] = {one.operator: one.keys for one in state or () if one.batch is not None}
    rows |= {number: report.rows for number, report in enumerate(reported)}
    dropped = {number: report.dropped_at_least for number, report in enumerate(reported)}
    return [
        replace(operator, rows=rows.get(number), dropped=None if number is None else dropped.get(number))
        for number, operator in zip(numbers, known, strict=True)
    ]


def output_mode_of(
    plan: PlanFacts | None, state: Sequence[OpenWindows] | None, in_force: Mapping[int, int | None]
) -> OutputMode | None:
    """The output mode by the plan; state with ended windows proves complete mode.

    `in_force`: the watermark (ms) in each recorded batch.
    """
    if plan is not None and plan.real_time_ms is not None:
        return "update"  # it has no other
    if plan is not None:
        modes: set[OutputMode | None] = {operator.output_mode for operator in plan.operators}
        modes.discard(None)
        return modes.pop() if len(modes) == 1 else None
    if not state or any(stored.kind not in _FOLLOW_THE_WATERMARK for stored in state):
        return None
    for stored in state:
        watermark_ms = None if stored.batch is None else in_force.get(stored.batch)
        if stored.evicts and watermark_ms is not None and any(one.end_ms <= watermark_ms for one in stored.windows):
            return "complete"
    return None


def windows_of(
    state: Sequence[OpenWindows] | None,
    operators: Sequence[StatefulOperator] | None,
    mode: OutputMode | None,
    watermark_ms: int | None,
    no_operator_reason: WindowsUnknownCode,
) -> Windows:
    """The open windows of all readable operators, and why others were not readable."""
    if not state:
        return _no_windows(WindowsUnknown(no_operator_reason))
    is_numbered = len(state) > 1
    known = [stored for stored in state if stored.batch is not None]
    expected = [stored for stored in state if stored.kind not in _WITHOUT_WINDOWS] if known else state
    reasons = [
        WindowsUnknown(stored.reason.code, stored.reason.args | ({"operator": stored.operator} if is_numbered else {}))
        for stored in expected
        if stored.reason
    ]
    if not known:
        return _no_windows(reasons[0] if reasons else WindowsUnknown("nothing_read"))
    planned = {operator.operator: operator.evicts for operator in operators or ()}
    listed: list[OpenWindow] = []
    open_count = kept = 0
    for stored in known:
        stays = mode == "complete" or planned.get(stored.operator, stored.evicts) is False
        closes_by = None if stays or _is_behind_another(stored, state) else watermark_ms
        passed_ms = watermark_ms if stays else None
        ended = 0 if passed_ms is None else sum(window.end_ms <= passed_ms for window in stored.windows)
        kept += ended
        open_count += stored.open - ended
        listed += [
            OpenWindow(
                start_ms=window.start_ms,
                end_ms=window.end_ms,
                records=window.records,
                waits_for=None,
                short_ms=None if closes_by is None else max(window.end_ms - closes_by, 0),
                operator=stored.operator if is_numbered else None,
            )
            for window in stored.windows
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


def _is_behind_another(stored: OpenWindows, state: Sequence[OpenWindows]) -> bool:
    """Whether an operator nearer to the sources passes on a lower watermark than the query's.

    Spark numbers its operators from the sink on. A join with a time bound still emits rows that far behind.
    """
    return any(other.operator > stored.operator and other.kind not in _PASS_THE_WATERMARK_ON for other in state)


def _no_windows(reason: WindowsUnknown) -> Windows:
    return Windows(open_count=None, fired=None, late_firings=None, unknown=reason.code, unknown_args=reason.args)


class WindowShape:
    """Windows of one aggregation, by start and end (ms), collected until they show how they are made."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], None] = {}

    def add(self, windows: Iterable[tuple[int, int]]) -> WindowSpec | None:
        """Add windows; returns the shape, None while it is not known: a single window may be tumbling or sliding."""
        self._seen |= dict.fromkeys(windows)
        while len(self._seen) > _MAX_REMEMBERED:
            del self._seen[next(iter(self._seen))]
        sizes = {end - start for start, end in self._seen}
        starts = [start for start, _ in self._seen]
        if len(sizes) != 1 or len(starts) < 2:
            return None
        [size] = sizes
        step = gcd(*(start - starts[0] for start in starts))
        if step % size == 0:  # side by side, as far as there were records
            return Tumbling(size, starts[0] % size)
        return Sliding(size, step, starts[0] % step) if step < size else None


def window_spec_of(state: Iterable[OpenWindows], shapes: dict[int, WindowShape]) -> WindowSpec | None:
    """How the windows are made, if all operators agree; `shapes` keeps each operator's windows."""
    specs: set[WindowSpec] = set()
    for stored in state:
        if stored.kind == "session":
            # A session with one record is as long as the gap, others at most one gap for each record.
            gaps = {window.end_ms - window.start_ms for window in stored.windows if window.records == 1}
            gap_ms = min(gaps, default=0)
            if gap_ms and all(one.end_ms - one.start_ms <= gap_ms * (one.records or 0) for one in stored.windows):
                specs.add(Session(gap_ms))
            continue
        shape = shapes.setdefault(stored.operator, WindowShape())
        spec = shape.add((window.start_ms, window.end_ms) for window in stored.windows)
        if spec is not None:
            specs.add(spec)
    return specs.pop() if len(specs) == 1 else None
