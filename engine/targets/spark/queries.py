"""All streaming queries of one application, from their events in the order in which they happened."""

import re
from collections import deque
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from ...system.errors import one_line
from . import known
from .checkpoint import WATERMARK_POLICY, RecordedBatch
from .facts import (
    BatchProgress,
    EventMax,
    ExecutionStart,
    QueryEvent,
    QueryIdle,
    QueryProgress,
    QueryRun,
    QueryStarted,
    QueryTerminated,
    RunningBatch,
    time_ms,
)
from .files import UnreadableError
from .plan import ADVANCEMENT, TAP, PlanFacts, is_slowest_clock, lines_of_json, read_plan
from .tapped import TappedInput

MAX_HISTORY = 600
"""Batches that a run remembers."""
MAX_QUERIES = 200
"""Runs that are kept, at most, for an application that starts one after the other."""
MAX_INPUTS = 64
_MAX_COMBINATIONS = 64
OFFSETS_LIMIT = 256 * 1024
"""Longest offsets (characters) of a source; longer ones are truncated."""

_ERROR_LIMIT = 4_000
_OPERATORS_SHOWN = 64
_ANNOUNCED = re.compile(
    r"(?:[a-z]\w*\.)+(?=[A-Z])"  # the package of the exception's class
    r"|SparkException: Job aborted due to stage failure: Task .*?: Lost task .*?\(TID \d+\) \([^)]*\): (?=\S)"
    r"|\[FOREACH_BATCH_USER_FUNCTION_ERROR\] .*? Reason: (?=\S)"
    r"|(?:Py4JException: )?An exception was raised by the Python Proxy\. Return Message: (?=\S)"
    r"|PythonException: (?:\[[A-Z_.]+\] )?(?:An exception was thrown from the Python worker: ?)?(?=\S)"
)
"""Texts that Spark writes before the error itself, one after the other."""
_WAITED = "Exception thrown in awaitResult:"
"""All that Spark says first of an error in another thread."""
_CAUSE = "Caused by: "
_TRACEBACK = "Traceback (most recent call last):"
BATCH_OF = re.compile(r"\nid = (\S{1,64})\nrunId = (\S{1,64})\nbatch = (\d{1,18}|init)", re.ASCII)
"""The ids of the query and its run, and the batch, in an execution's description."""
_CONTINUOUS = "init"
"""In place of a batch's number, at the start of a query that has no batches."""


class Queries:
    """Applies events; has the facts about every run."""

    def __init__(self) -> None:
        self.is_whole = True
        """Whether no event is missing: of a part that is compacted, Spark keeps only some."""
        self.policy: str | None = None
        """The application's own watermark policy."""
        self.advancement: str | None = None
        """The application's own value of `plan.ADVANCEMENT`."""
        self._runs: dict[str, _Run] = {}

    def apply(self, event: QueryEvent) -> None:
        """Apply one event; UnreadableError if a part of it is invalid: the rest is applied."""
        match event:
            case QueryStarted():
                self._run(event.run_id, event.id).started(event, is_whole=self.is_whole)
            case QueryProgress():
                self._run(event.progress.run_id, event.progress.id).progressed(event.progress)
            case QueryIdle():
                self._run(event.run_id, event.id).was_idle(event.timestamp)
            case QueryTerminated():
                run = self._run(event.run_id, event.id)
                if event.running is not None:
                    run.began(event.running)
                run.set(ended=True, error=None if event.exception is None else _first_line(event.exception))
            case ExecutionStart():
                self._execution(event)

    def set_plan(self, run_id: str, plan: PlanFacts, policy: str | None) -> None:
        """Set the facts from a run's plan; does nothing for an unknown run."""
        if (run := self._runs.get(run_id)) is not None:
            run.set(plan=plan, watermark_policy=policy)

    def began(self, run_id: str, running: RunningBatch) -> None:
        """A batch of a known run has begun."""
        self._runs[run_id].began(running)

    def knows(self, run_id: str) -> bool:
        """Whether that run is known."""
        return run_id in self._runs

    def facts(self) -> tuple[QueryRun, ...]:
        """The runs, the last started last."""
        return tuple(run.facts(self.policy) for run in self._runs.values())

    def _run(self, run_id: str, id: str) -> "_Run":
        """The run of an event."""
        run = self._runs.get(run_id)
        if run is None:
            run = self._runs[run_id] = _Run(one_line(id), one_line(run_id))
            if len(self._runs) > MAX_QUERIES:
                ended = (name for name, other in self._runs.items() if other.run.ended)
                del self._runs[next(ended, next(iter(self._runs)))]
        return run

    def _execution(self, event: ExecutionStart) -> None:
        if event.root_execution_id not in (None, event.execution_id):
            return  # an action inside a batch
        query = BATCH_OF.search(event.description)
        if query is None:
            return  # no query's
        run = self._run(query[2], query[1])
        if query[3] == _CONTINUOUS:
            run.set(continuous=True)
        else:
            run.began(RunningBatch(int(query[3]), event.time))
        if run.run.plan is None:
            policy = event.modified_configs.get(WATERMARK_POLICY)
            strategy = event.modified_configs.get(ADVANCEMENT, self.advancement)
            plan = replace(read_plan(lines_of_json(event.spark_plan_info)), slowest_clock=is_slowest_clock(strategy))
            run.set(plan=plan, watermark_policy=policy)


class _Run:
    """One run of a query: its facts, and what they are computed from."""

    def __init__(self, id: str, run_id: str) -> None:
        self.run = QueryRun(id=id, run_id=run_id, is_whole=False)
        self._facts: QueryRun | None = None
        """All facts, until something happens."""
        self._pauses = 0
        self._event_max: dict[tuple[int, ...], int] = {}
        self._delivered: set[int] = set()
        self._in_force_ms: int | None = None
        """The greatest event time behind the watermark that was in force in its last batch."""
        self._history: deque[RecordedBatch] = deque(maxlen=MAX_HISTORY)
        self._inputs: dict[str, TappedInput] = {}

    def set(self, **changes: Any) -> None:
        """Change fields of its facts."""
        self.run, self._facts = replace(self.run, **changes), None

    def started(self, event: QueryStarted, *, is_whole: bool) -> None:
        self.set(name=one_line(event.name) if event.name else None, is_whole=is_whole)
        self._heard(time_ms(event.timestamp))

    def began(self, running: RunningBatch) -> None:
        self._paused(running.since_ms)
        self._heard(running.since_ms)
        if self.run.progress is None or running.batch > self.run.progress.batch:
            self.set(running=running)

    def progressed(self, progress: BatchProgress) -> None:
        if progress.is_idle:
            self.was_idle(progress.timestamp)
            if self.run.progress is not None:  # what its sources have now, as `minOffsetsPerTrigger` may wait for more
                self.set(progress=replace(self.run.progress, sources=_kept(progress).sources))
            return
        last = self.run.progress
        used = (state.of_one_use(by_function=progress.is_used_by_function) for state in progress.states)
        progress = replace(progress, states=tuple(used))
        self._report(progress)
        if last is None or progress.batch > last.batch:  # else it is repeated
            late_ms = self._late_until(progress, last)
            self._count(progress, late_ms)
            self._record(progress, last)
            self._observe(progress, late_ms)

    def _report(self, progress: BatchProgress) -> None:
        """Keep the report, which is of the last batch that has ended."""
        at_ms, running = progress.timestamp_ms, self.run.running
        self._paused(at_ms)
        is_real_time = self.run.plan is not None and self.run.plan.real_time_ms is not None
        self._heard(at_ms)
        self._heard(None if at_ms is None else at_ms + (progress.duration_ms or 0))
        self.set(
            progress=_kept(progress),
            name=self.run.name or (one_line(progress.name) if progress.name else None),
            # In real-time mode batches without data follow each other: such a batch says that nothing is unread.
            idle_ms=self.run.last_event_ms if is_real_time and not progress.rows else None,
            running=running if running is not None and running.batch > progress.batch else None,
        )

    def _late_until(self, progress: BatchProgress, last: BatchProgress | None) -> int | None:
        """The greatest event time (epoch ms) behind the watermark that decided which rows of a batch are late, that of
        the batch before; None: not known.
        """
        if last is None:
            self.set(first_watermark_ms=progress.watermark_ms)
        first_ms, delay_ms = self.run.first_watermark_ms, self._only_delay_ms()
        # After a restart: the event time that the earlier run's watermark corresponds to under the present delay.
        floor_ms = None if first_ms is None or delay_ms is None else first_ms + delay_ms
        before_ms, self._in_force_ms = self._in_force_ms, max(known(self.run.max_event_ms, floor_ms), default=None)
        # At the start and after a gap the batch before is not known: its watermark was at most this batch's own.
        return before_ms if last is not None and progress.batch == last.batch + 1 else self._in_force_ms

    def _count(self, progress: BatchProgress, late_ms: int | None) -> None:
        """Count what a new batch dropped, and note the event times that it had."""
        delivered = tuple(place for place, source in enumerate(progress.sources) if source.num_input_rows > 0)
        self._delivered.update(delivered)
        event_ms, earliest_ms = time_ms(progress.event_time.get("max")), time_ms(progress.event_time.get("min"))
        if event_ms is not None:
            if delivered in self._event_max or len(self._event_max) < _MAX_COMBINATIONS:
                self._event_max[delivered] = max(event_ms, self._event_max.get(delivered, event_ms))
            self.set(max_event_ms=max(known(self.run.max_event_ms, event_ms)))
        if progress.dropped and earliest_ms is not None and late_ms is not None:
            self.set(dropped_behind_ms=max(late_ms - earliest_ms, self.run.dropped_behind_ms or 0))
        self.set(dropped_at_least=(self.run.dropped_at_least or 0) + progress.dropped)
        if earliest_ms == late_ms is not None and self._only_delay_ms() == 0:
            self.set(dropped_at_watermark=(self.run.dropped_at_watermark or 0) + progress.dropped)

    def _record(self, progress: BatchProgress, last: BatchProgress | None) -> None:
        """Add a new batch to the history, and note whether the watermark moved."""
        at_ms, duration_ms = progress.timestamp_ms, progress.duration_ms
        if at_ms is None:
            return
        if last is None:
            self.set(moved_ms=at_ms)
        elif progress.watermark_ms != last.watermark_ms:
            self.set(moved_ms=self._history[-1].begin_ms if self._history else at_ms, unmoved=0)
        self.set(unmoved=(self.run.unmoved or 0) + (progress.rows > 0))
        end_ms = at_ms + duration_ms if duration_ms else None
        self._history.append(RecordedBatch(progress.batch, at_ms, progress.watermark_ms, end_ms))

    def _observe(self, progress: BatchProgress, late_ms: int | None) -> None:
        """Apply what the taps observed in a new batch."""
        for tapped in self._inputs.values():
            tapped.begin()
        clock_ms = UNSET if self._only_delay_ms() is None else late_ms
        for name, observed in progress.observed_metrics.items():
            if name.startswith(TAP):
                self._input(name.removeprefix(TAP)).apply(progress.batch, progress.timestamp_ms, observed, clock_ms)

    def was_idle(self, timestamp: str | None) -> None:
        idle_ms = time_ms(timestamp)
        self._paused(idle_ms)
        self.set(idle_ms=idle_ms)
        self._heard(idle_ms)

    def facts(self, policy: str | None) -> QueryRun:
        if self._facts is None:
            places = range(len(self.run.progress.sources)) if self.run.progress is not None else None
            self._facts = replace(
                self.run,
                watermark_policy=self.run.watermark_policy or policy,
                event_max=tuple(EventMax(sources, ms) for sources, ms in sorted(self._event_max.items())),
                silent=None if places is None else tuple(place for place in places if place not in self._delivered),
                dropped_behind_ms=self.run.dropped_behind_ms if self._only_delay_ms() is not None else None,
                history=tuple(self._history),
                inputs=tuple(tapped.facts() for tapped in self._inputs.values()),
            )
        return self._facts

    def _only_delay_ms(self) -> int | None:
        """The delay, if Spark's reports on event time are about the only watermark there is."""
        nodes = self.run.plan.nodes if self.run.plan is not None else ()
        return nodes[0].delay_ms if len(nodes) == 1 else None

    def _heard(self, at_ms: int | None) -> None:
        started_ms, last_ms = self.run.started_ms, self.run.last_event_ms
        if at_ms is not None and (last_ms is None or at_ms > last_ms):
            self.set(last_event_ms=at_ms, started_ms=at_ms if started_ms is None else started_ms)

    def _paused(self, until_ms: int | None) -> None:
        """Note that something begins at `until_ms`; the last event was the end of a batch, or an idle report."""
        last_ms = self.run.last_event_ms if self.run.progress is not None else None
        if until_ms is not None and last_ms is not None and until_ms > last_ms:
            # The first trigger may fire at any time after the start, the next ones at multiples of their interval.
            self.set(pause_ms=None if self._pauses == 0 else max(until_ms - last_ms, self.run.pause_ms or 0))
            self._pauses += 1

    def _input(self, name: str) -> TappedInput:
        name = one_line(name)
        if name not in self._inputs and len(self._inputs) >= MAX_INPUTS:
            raise UnreadableError(f"more than {MAX_INPUTS} taps: {name} is not read")
        return self._inputs.setdefault(name, TappedInput(name))


def _kept(progress: BatchProgress) -> BatchProgress:
    """The report without what the taps observed, its text in one line."""
    sources = tuple(
        replace(one, description=one_line(one.description), end=_offsets(one.end), latest=_offsets(one.latest))
        for one in progress.sources
    )
    return replace(progress, observed_metrics={}, sources=sources, states=progress.states[:_OPERATORS_SHOWN])


def _offsets(offsets: Any) -> str | None:
    """Offsets as JSON, as a log has them already; None for invalid JSON: numbers beyond 64 bits, unlimited nesting."""
    if offsets is None:
        return None
    try:
        text = offsets if isinstance(offsets, str) else msgspec.json.encode(offsets).decode()
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None
    return one_line(text, OFFSETS_LIMIT)


def _first_line(exception: str) -> str:
    """The exception's first line without Spark's introductions: a screen of 80 columns has room for the rest."""
    first, _, rest = exception.strip().partition("\n")
    if first.rstrip().endswith(_WAITED) and (cause := rest.partition(_CAUSE)[2]):
        return _first_line(cause)
    if first.endswith(_TRACEBACK):
        reported = next((line for line in rest.splitlines() if line[:1].isalpha()), "")
        first = f"{first.removesuffix(_TRACEBACK)} {reported}"
    text = one_line(first, _ERROR_LIMIT)
    while announced := _ANNOUNCED.match(text):
        text = text[announced.end() :]
    return one_line(text)
