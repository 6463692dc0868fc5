"""Asks a JobManager's REST API, and reads one job's facts from it; dumps of metrics are read as a whole and dated.

Answers are those of Flink 1.20 to 2.3, reduced to the fields that are used. The JobManager fetches a dump only when it
is asked and its last one is older than `metrics.fetcher.update-interval`; the first answer is still the previous dump.
So the collector reads when the present dump was taken (`end-timestamp` of a vertex's back pressure), waits until it is
settled, reads all vertices, and reads the time again; if it has changed, the dump is discarded.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from ...system.rest import Rest, RestError, RestSecurity, Service
from .facts import DUMP_MS
from .samples import (
    Checkpoint,
    Edge,
    Graph,
    JobSample,
    ListedJob,
    Vertex,
    VertexSample,
    rate_names,
    rates_of,
    sample_of,
    wanted,
)

REQUEST_LINE = 4_096
"""Flink answers 404 to a longer request line (bytes)."""
TOKEN_VARIABLE, LOGIN_VARIABLE = "WMTOP_FLINK_TOKEN", "WMTOP_FLINK_LOGIN"
"""Environment variables with a bearer token, or `user:password` for basic authentication."""
_MAX_ERROR_LENGTH = 300


class RestMetric(Struct):
    """A metric's id, its value if values were requested, and its sum over the subtasks of a vertex if sums were."""

    id: str
    value: str | None = None
    sum: float | None = None


class Errors(Struct):
    """The answer in case of an error: stack traces."""

    errors: list[str] = []


class FlinkRest(Rest):
    """The JobManager at a base URL."""

    def __init__(self, url: str, security: RestSecurity) -> None:
        """UsageError for a URL or a security file that cannot be used."""
        super().__init__(url, security, FLINK)

    def metrics(self, path: str, ids: Sequence[str]) -> dict[str, str]:
        """The values of metrics by id; unknown ids are left out."""
        answers = self._asked(f"{path}?get=", ids)
        return {metric.id: metric.value for metric in answers if metric.value is not None}

    def sums(self, path: str, ids: Sequence[str]) -> dict[str, float]:
        """Sums over the subtasks of a vertex (`path`: `/jobs/J/vertices/V`), computed by the JobManager."""
        answers = self._asked(f"{path}/subtasks/metrics?agg=sum&get=", ids)
        return {metric.id: metric.sum for metric in answers if metric.sum is not None and abs(metric.sum) < 2**63}

    def _asked(self, path: str, ids: Sequence[str]) -> Iterator[RestMetric]:
        """The metrics, in as many requests as their length needs."""
        for batch in batches(ids, REQUEST_LINE - len(self.base) - len(path) - 64):
            yield from self.get(path + batch, list[RestMetric])


def batches(ids: Sequence[str], longest: int) -> list[str]:
    """The ids, percent-encoded and joined by commas, in pieces of at most `longest` bytes each."""
    out: list[str] = []
    for encoded in (quote(id, safe="") for id in ids):
        if out and len(out[-1]) + 1 + len(encoded) <= longest:
            out[-1] += f",{encoded}"
        else:
            out.append(encoded)
    return out


def cause_in(stack_trace: str) -> str | None:
    """The innermost cause in a stack trace, in one line."""
    lines = stack_trace.splitlines()
    causes = [line.partition(":")[2] for line in lines if line.startswith("Caused by:")]
    return (causes[-1] if causes else lines[0]).strip() or None if lines else None


def _error_of(data: bytes) -> str | None:
    """The cause of Flink's error, without its stack trace."""
    try:
        texts = [text.strip() for text in msgspec.json.decode(data, type=Errors).errors if text.strip()]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    cause = cause_in(texts[-1]) if texts else None
    return None if cause is None else cause[:_MAX_ERROR_LENGTH]


FLINK = Service(
    "Flink's REST API",
    "a JobManager's address; give flink://HOST:PORT or https://HOST/PREFIX",
    TOKEN_VARIABLE,
    LOGIN_VARIABLE,
    _error_of,
)


SETTLED_S = 0.6
"""Longest time (s) until a dump arrives after its date."""
LIST_EVERY_S, LONG_LIST_EVERY_S = 5.0, 60.0
"""Seconds between two reads of the metrics' names, for short and for long lists: new splits appear only there."""
LONG_LIST = 5_000
"""Number of names (at a parallelism of about 30) from which a list is long: 60 bytes a name."""
DEFAULT_INTERVAL_MS = 10_000
_MAX_TRIES = 3
_UNITS = {"": 1, "ms": 1, "s": 1_000, "sec": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_ROWS = re.compile(r"(?:HOP|CUMULATE)\(win_start=.{0,1000}?size=\[([^]]+)\], (?:slide|step)=\[([^]]+)\]")
"""In a description: windows of SQL of which each is a row of its own, with their size and their distance."""
_MANY = 1_000_000
_BOUNDS = re.compile(r"IntervalJoin\(.{0,200}?isRowTime=true, leftLowerBound=(-?\d{1,18}), leftUpperBound=(-?\d{1,18})")
"""In a description: how far (ms) an interval join of SQL looks back and ahead."""
_WINDOW = re.compile(r"Window\((\w+)[^,(]*(?:\([^)]*\))?, (\w+)")
"""In a description: the classes that assign windows and that fire them."""
_SQL_TIME = re.compile(
    r"(?:time_col=\[|GroupWindow\('[^,]*, |(?:OverAggregate|Match)\((?:partitionBy=\[[^]]*\], )?orderBy=\["
    r"|isRowTime=|order=\[)([^],)]+?)(?: ASC)?[],)]"
)
"""The same for SQL: the column of their time, or which time it is."""
_BY_CLOCK = {"false", "PROCTIME"}
_CLOCK_COLUMN, _EVENT_COLUMN = re.compile(r"PROCTIME\(\) AS ([^],)]+)"), re.compile(r"rowtime=\[([^],]+)")


class JobsOverview(Struct):
    """`/jobs/overview`."""

    jobs: list[ListedJob]


class PlanNode(Struct):
    """A vertex in the plan, or an input of one."""

    id: str
    description: str = ""
    inputs: list["PlanNode"] = []
    ship_strategy: str = ""


class Plan(Struct):
    """The plan of `/jobs/J`."""

    nodes: list[PlanNode] = []


class JobAnswer(ListedJob, frozen=True, kw_only=True):
    """`/jobs/J`."""

    now: int
    vertices: list[Vertex]
    timestamps: dict[str, int] | None = None
    plan: Plan = field(default_factory=Plan)


class Task(Struct):
    """A subtask and the state that it is in."""

    subtask: int
    status: str


class VertexAnswer(Struct):
    """`/jobs/J/vertices/V`."""

    subtasks: list[Task] = []


class BackPressure(Struct, rename={"taken": "end-timestamp"}):
    """`/jobs/J/vertices/V/backpressure`: when the present dump of metrics was requested (epoch ms)."""

    taken: int | None = None


class ExceptionHistory(Struct):
    """The failures, the newest first: each with its `stacktrace`, and much else."""

    entries: list[dict[str, Any]] = []


class Exceptions(Struct):
    """`/jobs/J/exceptions`."""

    history: ExceptionHistory = field(name="exceptionHistory", default_factory=ExceptionHistory)


class Checkpoints(Struct):
    """`/jobs/J/checkpoints`: the newest checkpoint, and how many there were, of each kind: `completed`, `failed`."""

    latest: dict[str, Checkpoint | None] | None = None
    counts: dict[str, int | None] | None = None


def jobs_of(rest: FlinkRest) -> list[ListedJob]:
    """All jobs of the JobManager, also ended ones, the newest first."""
    return sorted(rest.get("/jobs/overview", JobsOverview).jobs, key=lambda job: -job.started_ms)


def graph_of(rest: FlinkRest, id: str) -> Graph:
    """The job's vertices, sources first; its start is when it last began to run."""
    job = rest.get(f"/jobs/{quote(id, safe='')}", JobAnswer)
    nodes = {node.id: node for node in job.plan.nodes}
    clocks = clock_columns("".join(node.description for node in job.plan.nodes))
    vertices = tuple(_planned(vertex, nodes.get(vertex.id, PlanNode(vertex.id)), clocks) for vertex in job.vertices)
    started_ms = (job.timestamps or {}).get("RUNNING") or job.started_ms
    return Graph(ListedJob(job.id, job.name, job.state, started_ms, job.started_ms), job.now, vertices)


def _planned(vertex: Vertex, node: PlanNode, clock_columns: set[str]) -> Vertex:
    """The vertex with what the plan says of it."""
    return replace(
        vertex,
        inputs=tuple(Edge(input.id, input.ship_strategy in ("FORWARD", "RESCALE")) for input in node.inputs),
        untimed=is_untimed(node.description, clock_columns),
        windows_per_record=windows_per_record(node.description),
        delay_ms=join_delay_ms(node.description),
    )


def failure_of(rest: FlinkRest, id: str) -> str | None:
    """The cause of the job's last failure, in one line."""
    entries = rest.get(f"/jobs/{id}/exceptions", Exceptions).history.entries
    return cause_in(str(entries[0].get("stacktrace") or "")) if entries else None


def checkpoint_of(rest: FlinkRest, id: str) -> Checkpoint:
    """The job's last completed checkpoint."""
    answer = rest.get(f"/jobs/{id}/checkpoints", Checkpoints)
    last = (answer.latest or {}).get("completed") or Checkpoint()
    return replace(last, failed=(answer.counts or {}).get("failed"))


def restarts_of(rest: FlinkRest, id: str) -> tuple[int | None, int | None]:
    """How often the job was restarted, and how many of these were rescales; None: not reported."""
    names = ("numRestarts", "numRescales")
    values = rest.metrics(f"/jobs/{id}/metrics", names)
    counts = (values.get(name, "") for name in names)
    restarts, rescales = (int(text) if text.isdecimal() and len(text) < 19 else None for text in counts)
    return restarts, rescales


def update_interval_ms(rest: FlinkRest) -> int | None:
    """The age (ms) that a dump of metrics may have; 0: dumps are never fetched; None: it is not reported."""
    try:
        entries = rest.get("/jobmanager/config", list[dict[str, str | None]])
    except RestError:
        return None
    options = {entry.get("key"): entry.get("value") for entry in entries}
    return duration_ms(options.get("metrics.fetcher.update-interval") or f"{DEFAULT_INTERVAL_MS}")


class _Listing(Struct, frozen=True):
    """The metrics of a vertex that are read, and when (monotonic s) their names are read again."""

    ids: list[str]
    rates: dict[str, list[str]]
    until_s: float


class Collector:
    """Reads samples of one job."""

    def __init__(self, rest: FlinkRest, sleep: Callable[[float], None] = time.sleep) -> None:
        self._rest = rest
        self._sleep = sleep
        self._listings: dict[str, _Listing] = {}
        self._taken: tuple[str, int] | None = None

    def sample(self, graph: Graph, interval_ms: int) -> JobSample | None:
        """The newest dump if it was not read before; else None. RestError if the JobManager does not answer."""
        for attempt in range(_MAX_TRIES):
            stamp = self._stamp(graph)
            if stamp is None or (graph.job.id, stamp) == self._taken:
                return None
            self._sleep(min(SETTLED_S, interval_ms / 2_000))
            vertices, whole = self._read(graph, stamp)
            # If dumps follow each other faster than they are read, the older date is the true one.
            if self._stamp(graph) == stamp or attempt + 1 == _MAX_TRIES:
                self._taken = (graph.job.id, stamp)
                return JobSample(stamp, vertices, whole)
        return None

    def forget(self) -> None:
        """Forget the metrics' names: the job was restarted or rescaled."""
        self._listings.clear()

    def _stamp(self, graph: Graph) -> int | None:
        """When the present dump was requested (JobManager's clock, epoch ms); only a task that runs says so."""
        running = next((vertex.id for vertex in graph.vertices if vertex.status == "RUNNING"), None)
        if running is None:
            return None
        return self._rest.get(f"/jobs/{graph.job.id}/vertices/{running}/backpressure", BackPressure).taken

    def _read(self, graph: Graph, stamp: int) -> tuple[tuple[VertexSample, ...], bool]:
        vertices: list[VertexSample] = []
        all_whole = True
        for vertex in graph.vertices:
            path = f"/jobs/{graph.job.id}/vertices/{vertex.id}"
            listing = self._listing(vertex, f"{path}/metrics")
            values = self._rest.metrics(f"{path}/metrics", listing.ids)
            sample, whole = sample_of(vertex, listing.ids, values, self._over(vertex, path, stamp))
            sums = self._rest.sums(path, [name for names in listing.rates.values() for name in names])
            vertices.append(replace(sample, rates=rates_of(listing.rates, sums)))
            if not whole:
                del self._listings[vertex.id]  # a split has ended, or the task was restarted
            all_whole = all_whole and (whole or vertex.status == "FINISHED")
        return tuple(vertices), all_whole

    def _over(self, vertex: Vertex, path: str, stamp: int) -> dict[int, str]:
        """The states of its subtasks that do not run, or did not when the dump was requested: what is kept is older."""
        if vertex.status == "FINISHED" or stamp < vertex.started_ms + DUMP_MS:
            return dict.fromkeys(range(vertex.parallelism), vertex.status)
        tasks = [] if vertex.tasks.get("RUNNING") == vertex.parallelism else self._rest.get(path, VertexAnswer).subtasks
        return {task.subtask: task.status for task in tasks if task.status != "RUNNING"}

    def _listing(self, vertex: Vertex, path: str) -> _Listing:
        now = time.monotonic()
        listing = self._listings.get(vertex.id)
        if listing is None or not listing.ids or now >= listing.until_s:
            names = [metric.id for metric in self._rest.get(path, list[RestMetric])]
            until_s = now + (LIST_EVERY_S if len(names) < LONG_LIST else LONG_LIST_EVERY_S)
            listing = self._listings[vertex.id] = _Listing(wanted(vertex, names), rate_names(vertex, names), until_s)
        return listing


def clock_columns(plan: str) -> set[str]:
    """The columns of a SQL job that have the machine's time, by the descriptions in its plan."""
    return set(_CLOCK_COLUMN.findall(plan)).difference(_EVENT_COLUMN.findall(plan))


def is_untimed(description: str, clock_columns: set[str]) -> bool:
    """Whether a task has windows and none is known to wait for event time, by its description in the plan: windows by
    count, by the machine's clock (in SQL also `OVER` and interval joins), or by a trigger of the job's own.
    """
    untimed = [time in clock_columns | _BY_CLOCK for time in _SQL_TIME.findall(description)]
    for assigner, trigger in _WINDOW.findall(description):
        is_by_clock = "ProcessingTime" in assigner + trigger or "CountTrigger" in trigger
        untimed.append("EventTime" not in trigger and (is_by_clock or assigner == "GlobalWindows"))
    return bool(untimed) and all(untimed)


def windows_per_record(description: str) -> int:
    """In how many windows of a task a record may be where each is a row of its own, by its description in the plan."""
    spans = [(duration_ms(size), duration_ms(step)) for size, step in _ROWS.findall(description)]
    return max((-(-size // step) if size and step else _MANY for size, step in spans), default=1)


def join_delay_ms(description: str) -> int:
    """How much later (ms) than received an interval join of SQL sends a watermark, by its description in the plan: a
    result may be as old as the wider one of its bounds.
    """
    return max((max(-int(back), int(ahead)) for back, ahead in _BOUNDS.findall(description)), default=0)


def duration_ms(text: str) -> int | None:
    """A duration (ms) in Flink's forms `10000`, `10 s`, `10s` or `PT10S`; None: not understood."""
    match = re.fullmatch(r"(?:pt)?([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([a-z]*)", text.strip().lower())
    if match is None or match[2] not in _UNITS:
        return None
    return min(int(float(match[1]) * _UNITS[match[2]]), 2**63 - 1)
