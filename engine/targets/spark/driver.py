"""A query as its driver's own web server shows it, without any setting in the job.

Each batch is a SQL execution at `/api/v1/applications/ID/sql`, whose plan has the delay and the watermark in force, and
whose metrics have the rows of the state. The watermark of a query whose plan shows none (without state, or in real-time
mode) is on the statistics page, and in `/metrics/json` where the job has `spark.sql.streaming.metricsEnabled`. Pages
are made for people: what is not exactly as expected there is not known.
"""

import re
import time
from datetime import UTC, datetime
from urllib.parse import quote

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from ...system.errors import one_line
from ...system.rest import Rest, RestError
from ..target import NotReadyError
from .checkpoint import WATERMARK_POLICY
from .driver_answers import Execution, ListedRun, states_in, statuses_in, watermarks_in
from .facts import (
    Application,
    BatchProgress,
    QueryProgress,
    QueryRun,
    QueryStarted,
    QueryTerminated,
    Report,
    RunningBatch,
    StateFacts,
)
from .files import RemoteError
from .history_server import METRICS, METRICS_TYPE
from .plan import STATEFUL, in_force_of, lines_of_formatted, read_plan
from .queries import BATCH_OF, Queries
from .reports import RemoteFiles, Reports, followed, name_in, report_of, sure_of

_STATUS_EVERY_S = 10.0
"""Seconds between two looks at the page that says which queries run."""
_FIRST_BATCHES = 20
"""Batches whose details are read, at most, at the start and in one poll."""
_OVERLAP = 20
"""Known executions that are listed again, for their new status."""
_GAUGE = re.compile(r".*?\.driver\.spark\.streaming\.(.*)\.eventTime-watermark", re.DOTALL)


class Environment(Struct, rename="camel"):
    """The application's settings."""

    spark_properties: list[tuple[str, str]] = []


class Gauges(Struct):
    """`/metrics/json`."""

    gauges: dict[str, dict[str, float | str | None]] = {}


class SqlBatch(Struct):
    """A batch: the execution of its whole plan, and those inside it."""

    root: Execution
    inner: list[int]


class DriverReports(Reports, RemoteFiles):
    """What a driver shows of its queries; `wanted` is the name or id of one. Also the `RemoteFiles` of its watch."""

    every_s = 1.0

    def __init__(self, rest: Rest, app: str, app_id: str, wanted: str | None = None) -> None:
        self._rest = rest
        self._app = app
        self._wanted = wanted
        self._id: str | None = None
        self._path = f"/api/v1/applications/{quote(app_id, safe='')}"
        self._queries = Queries()
        self._batches: dict[str, dict[int, SqlBatch]] = {}
        self._listed: list[int] = []
        self._details: dict[int, Execution] = {}
        self._uncounted: set[str] = set()
        """Runs with batches whose dropped rows are not known."""
        self._statuses: dict[str, ListedRun] | None = None
        self._status_s = float("-inf")
        self._settings: dict[str, str] | None = None

    def open(self) -> None:
        """Read what there is; UsageError if that fails, or it is not clear which query is meant."""
        try:
            self.refresh()
        except RemoteError as error:
            raise NotReadyError(str(error)) from None  # it did answer a moment ago
        if not self._application().queries:
            raise NotReadyError(f"{self._rest.base} shows no batch of a streaming query; start one")
        sure_of(self._application().queries, self._wanted)

    def name(self) -> str | None:
        """The query's name, else the application's."""
        return name_in(self._application(), self._wanted)

    def refresh(self) -> None:
        """Read the new batches of the wanted query. RemoteError."""
        try:
            if self._statuses is None and not self._listed:
                self._read_list()  # before the executions, so that forgotten runs come first
            self._list()
            self._read_statuses()
            run = followed(self._queries.facts(), self._wanted, self._id)
            if run is not None:
                self._id = run.id
                self._read_batches(run)
        except RestError as error:
            hint = "; if the driver was restarted, attach again" if error.status == 404 else ""
            raise RemoteError(f"{error}{hint}") from None

    def poll(self, query_id: str | None) -> Report:
        """What was read last."""
        run = followed(self._application().queries, self._wanted, query_id or self._id)
        listed = (self._statuses or {}).get(run.run_id) if run is not None else None
        report = report_of("driver", self._application(), run)
        return replace(
            report,
            alive=True if listed and listed.status == "RUNNING" else None,
            is_elsewhere=True,
            siblings=None if self._statuses is None else report.siblings,
        )

    def close(self) -> None:
        """Close the connections."""
        self._rest.close()

    def _application(self) -> Application:
        return Application(app=one_line(self._app), queries=tuple(map(self._shown, self._queries.facts())))

    def _shown(self, run: QueryRun) -> QueryRun:
        """A run without what a driver does not show, and with what is not reported as an event."""
        dropped = run.dropped_at_least or (0 if run.progress and run.run_id not in self._uncounted else None)
        progress = None if run.progress is None else replace(run.progress, durations_ms={})
        if progress is not None and run.run_id in self._uncounted:  # a number of some batches is not exact
            progress = replace(progress, states=tuple(replace(state, operator="") for state in progress.states))
        return replace(run, progress=progress, dropped_at_least=dropped, unmoved=None, silent=None)

    def _list(self) -> None:
        """List the executions that are new or may have changed; all of them where that could miss one."""
        offset = max(0, len(self._listed) - _OVERLAP)
        new = self._executions(offset)
        if offset and (not new or new[0].id not in self._listed[offset:]):
            offset, new = 0, self._executions(0)
        self._listed = [*self._listed[:offset], *(execution.id for execution in new)]
        for execution in new:
            if (found := BATCH_OF.search(execution.description)) and found[3].isdecimal():
                self._add(execution, id=found[1], run_id=found[2], batch=int(found[3]))

    def _executions(self, offset: int) -> list[Execution]:
        path, tries_left = f"{self._path}/sql?details=false&planDescription=false&offset={offset}&length=1000000", 5
        while True:
            try:
                return sorted(self._rest.get(path, list[Execution]), key=lambda execution: execution.id)
            except RestError as error:
                if error.status != 404 or not tries_left:  # it forgot one while it listed them: `no such app`
                    raise
            tries_left -= 1

    def _add(self, execution: Execution, *, id: str, run_id: str, batch: int) -> None:
        name = execution.description.partition("\n")[0].strip() or None
        if run_id not in self._batches:
            for other in self._queries.facts():  # a query runs once at a time, and older executions are added first
                if other.id == id and other.run_id in self._batches and not other.ended:
                    self._queries.apply(QueryTerminated(id, other.run_id))
            self._queries.apply(QueryStarted(id, run_id, name))
        batches = self._batches.setdefault(run_id, {})
        known = batches.get(batch)
        if known is None and execution.root_execution_id in (None, execution.id):
            batches[batch] = SqlBatch(execution, [])
        elif known is not None and known.root.id == execution.id:
            known.root = execution
        elif known is not None and execution.id not in known.inner:
            known.inner.append(execution.id)

    def _read_batches(self, run: QueryRun) -> None:
        batches = self._batches.get(run.run_id, {})
        last = -1 if run.progress is None else run.progress.batch
        ended = [number for number in sorted(batches) if number > last and batches[number].root.status == "COMPLETED"]
        if ended and (len(ended) > _FIRST_BATCHES or ended[0] != last + 1):
            self._uncounted.add(run.run_id)
        newest = max(batches, default=-1)
        plan = run.plan
        if plan is None and newest >= 0 and (root := self._execution(batches[newest].root.id)).plan_description:
            plan = read_plan(lines_of_formatted(root.plan_description))
            self._queries.set_plan(run.run_id, plan, self._policy(root))
        wanted = [(number, batches[number]) for number in ended[-_FIRST_BATCHES:]]
        details = [self._execution(batch.root.id) for _, batch in wanted]
        in_force = [in_force_of(lines_of_formatted(root.plan_description)) for root in details]
        if plan is not None and plan.nodes and wanted and in_force[-1] is UNSET:
            in_force = self._from_pages(run, [number for number, _ in wanted], batches)
        for (number, batch), root, watermark in zip(wanted, details, in_force, strict=False):
            self._queries.apply(QueryProgress(self._progress(run, number, batch, root, watermark)))
        for number in sorted(batches)[: -2 * _FIRST_BATCHES]:
            del batches[number]
        if run.progress is None and not ended:
            self._read_forgotten(run)
        is_new = newest >= 0 and (run.running is None or run.running.batch != newest)
        if is_new and batches[newest].root.status != "COMPLETED" and (began_ms := batches[newest].root.began_ms):
            lines = lines_of_formatted(self._execution(batches[newest].root.id).plan_description)
            self._queries.began(run.run_id, RunningBatch(newest, began_ms, in_force_of(lines) or None))

    def _progress(
        self, run: QueryRun, number: int, batch: SqlBatch, root: Execution, watermark: int | UnsetType
    ) -> BatchProgress:
        """A batch in the form of a query's own report."""
        states = self._states(batch)
        has_state = not root.plan_description or STATEFUL in root.plan_description
        if states is None or (has_state and not states):
            self._uncounted.add(run.run_id)
        return BatchProgress(
            id=run.id,
            run_id=run.run_id,
            batch=number,
            name=run.name,
            timestamp=batch.root.submission_time.replace("GMT", "+00:00"),
            durations_ms={"triggerExecution": batch.root.duration},
            event_time={"watermark": _iso(watermark)} if isinstance(watermark, int) else {},
            states=states or (),
        )

    def _states(self, batch: SqlBatch) -> tuple[StateFacts, ...] | None:
        """The stateful operators of the execution that did most with them; None: a number is not known.

        Of a `foreachBatch` function's actions each computes the batch again, or finds it kept and counts nothing.
        """
        found = [states_in(self._execution(id)) for id in (batch.root.id, *batch.inner)]
        if None in found:
            return None
        counted = filter(None, found)
        return max(counted, key=lambda own: sum(one.num_rows_total + one.dropped_at_least for one in own), default=())

    def _execution(self, id: int) -> Execution:
        """An execution with its plan and metrics; one that has ended is read once."""
        if id in self._details:
            return self._details[id]
        try:
            execution = self._rest.get(f"{self._path}/sql/{id}", Execution)
        except RestError as error:
            if error.status != 404:
                raise
            return Execution(id)  # forgotten since it was listed
        if execution.status != "RUNNING":
            self._details = dict(list(self._details.items())[-4 * _FIRST_BATCHES :]) | {id: execution}
        return execution

    def _policy(self, execution: Execution) -> str | None:
        """How several watermarks are combined; None where Spark does not show what the session changed."""
        if execution.modified_configs is None:
            return None
        if WATERMARK_POLICY in execution.modified_configs:
            return execution.modified_configs[WATERMARK_POLICY]
        if self._settings is None:
            self._settings = dict(self._rest.get(f"{self._path}/environment", Environment).spark_properties)
        return self._settings.get(WATERMARK_POLICY, "min")

    def _from_pages(self, run: QueryRun, numbers: list[int], batches: dict[int, SqlBatch]) -> list[int | UnsetType]:
        """The watermarks in force in these batches by the statistics page, which shows a batch a little later: without
        those that it will show; that of the last one by the gauge where the page shows none.
        """
        known = self._watermarks(run)
        found: list[int | UnsetType] = []
        for number in numbers:
            at_ms = batches[number].root.began_ms
            before_ms = batches[number - 1].root.began_ms if number - 1 in batches else None
            # A trigger starts after the batch before it has begun, and before its own batch begins.
            own = [ms for x, ms in known if at_ms and before_ms and before_ms < x <= at_ms]
            if not own and known and at_ms and known[-1][0] < (before_ms or at_ms):
                return found
            found.append(own[-1] if own else UNSET)
        if not known:
            found[-1] = self._gauge(run)
        return found

    def _watermarks(self, run: QueryRun) -> list[tuple[int, int]]:
        """By its statistics page."""
        try:
            page = self._rest.read(f"/StreamingQuery/statistics/?id={quote(run.run_id)}", "text/html")
        except RestError:
            return []
        return watermarks_in(page.decode(errors="replace"))

    def _gauge(self, run: QueryRun) -> int | UnsetType:
        try:
            gauges = self._rest.get(METRICS, Gauges, METRICS_TYPE).gauges
        except RestError:
            return UNSET
        named = [(match[1], gauge.get("value")) for key, gauge in gauges.items() if (match := _GAUGE.fullmatch(key))]
        values = [value for name, value in named if name == (run.name or run.id)]
        return int(values[0]) if len(values) == 1 and isinstance(values[0], float) else UNSET

    def _read_statuses(self) -> None:
        """Which queries run, by the page that lists them; a query whose batch failed may also have been stopped."""
        newest = {run_id: batches[max(batches)].root for run_id, batches in self._batches.items() if batches}
        open_runs = {run.run_id for run in self._queries.facts() if not run.ended}
        failed = {id: newest[id].error_message for id in open_runs & newest.keys() if newest[id].status == "FAILED"}
        if not failed and time.monotonic() - self._status_s < _STATUS_EVERY_S:
            return
        self._status_s = time.monotonic()
        self._read_list()
        for run in self._queries.facts():
            listed = (self._statuses or {}).get(run.run_id)
            why = failed.get(run.run_id) or listed.why if listed else "its last batch failed, or it was stopped in it"
            if not run.ended and (listed.status != "RUNNING" if listed else run.run_id in failed):
                reason = None if listed and listed.status == "FINISHED" else why
                self._queries.apply(QueryTerminated(run.id, run.run_id, reason))

    def _read_list(self) -> None:
        """Read the page that lists the queries, also those whose executions the driver has forgotten."""
        try:
            self._statuses = statuses_in(self._rest.read("/StreamingQuery/", "text/html").decode(errors="replace"))
        except RestError as error:
            if error.status is None:
                raise
            self._statuses = None
        for run_id, listed in reversed((self._statuses or {}).items()):  # the newest is listed first
            if not self._queries.knows(run_id):
                self._queries.apply(QueryStarted(listed.id, run_id, listed.name))

    def _read_forgotten(self, run: QueryRun) -> None:
        """The last batch of a run whose executions the driver has forgotten, by its pages."""
        listed = (self._statuses or {}).get(run.run_id)
        if listed is None or listed.batch is None:
            return
        at_ms, watermark_ms = (self._watermarks(run) or [(None, None)])[-1]
        self._read_list()
        if (self._statuses or {}).get(run.run_id) != listed:
            return  # between the two pages a batch ended
        self._uncounted.add(run.run_id)
        progress = BatchProgress(
            id=run.id,
            run_id=run.run_id,
            batch=listed.batch,
            timestamp=None if at_ms is None else _iso(at_ms),
            event_time={} if watermark_ms is None else {"watermark": _iso(watermark_ms)},
        )
        self._queries.apply(QueryProgress(progress))


def _iso(ms: int) -> str:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return ""
