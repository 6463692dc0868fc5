"""Reads one job's facts from the JobManager, request by request; dumps of metrics are read as a whole and dated.

The JobManager fetches a dump only when it is asked and its last one is older than `metrics.fetcher.update-interval`;
the first answer is still the previous dump. So the collector reads when the present dump was taken (`end-timestamp` of
a vertex's back pressure), waits until it is settled, reads all vertices, and reads the time again; if it has changed,
the dump is discarded.
"""

import re
import time
from collections.abc import Callable
from urllib.parse import quote

from msgspec.structs import replace

from .answers import BackPressure, Checkpoints, ConfigEntry, Exceptions, JobAnswer, JobsOverview, Metric
from .metrics import sample_of, wanted
from .rates import RateNames, rate_names, rates_of
from .rest import Rest, RestError
from .samples import Checkpoint, Graph, Job, Sample, Vertex, VertexSample

SETTLED_S = 0.6
"""Longest time (s) until a dump arrives after its date."""
LIST_EVERY_S, LONG_LIST_EVERY_S = 5.0, 60.0
"""Seconds between two reads of the metrics' names, for short and for long lists: new splits appear only there."""
LONG_LIST = 5_000
"""Number of names (at a parallelism of about 30) from which a list is long: 60 bytes a name."""
DEFAULT_INTERVAL_MS = 10_000
_TRIES = 3
_UNITS = {"": 1, "ms": 1, "s": 1_000, "sec": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000}


def jobs_of(rest: Rest) -> list[Job]:
    """All jobs of the JobManager, also ended ones, the newest first."""
    found = [one.job() for one in rest.get("/jobs/overview", JobsOverview).jobs]
    return sorted(found, key=lambda job: -job.started_ms)


def graph_of(rest: Rest, id: str) -> Graph:
    """The job's vertices, sources first."""
    return rest.get(f"/jobs/{quote(id, safe='')}", JobAnswer).graph()


def failure_of(rest: Rest, id: str) -> str | None:
    """The cause of the job's last failure, in one line."""
    entries = rest.get(f"/jobs/{id}/exceptions", Exceptions).history.entries
    lines = (entries[0].stacktrace or "").splitlines() if entries else []
    causes = [line.partition("Caused by: ")[2] for line in lines if line.startswith("Caused by: ")]
    line = causes[-1] if causes else lines[0] if lines else ""
    return line.strip() or None


def checkpoint_of(rest: Rest, id: str) -> Checkpoint:
    """The job's last completed checkpoint."""
    found = rest.get(f"/jobs/{id}/checkpoints", Checkpoints)
    failed = found.counts.failed if found.counts is not None else None
    last = found.latest.completed if found.latest is not None else None
    if last is None:
        return Checkpoint(failed=failed)
    return Checkpoint(last.latest_ack_timestamp, last.took_ms, last.size, failed)


def restarts_of(rest: Rest, id: str) -> int | None:
    """How often the job was restarted."""
    value = rest.metrics(f"/jobs/{id}/metrics", ["numRestarts"]).get("numRestarts")
    return int(value) if value is not None and value.isdigit() else None


def update_interval_ms(rest: Rest) -> int | None:
    """The age (ms) that a dump of metrics may have; 0: dumps are never fetched; None: the JobManager does not report
    it.
    """
    try:
        options = {one.key: one.value for one in rest.get("/jobmanager/config", list[ConfigEntry])}
    except RestError:
        return None
    return duration_ms(options.get("metrics.fetcher.update-interval") or f"{DEFAULT_INTERVAL_MS}")


class Collector:
    """Reads samples of one job."""

    def __init__(self, rest: Rest, sleep: Callable[[float], None] = time.sleep) -> None:
        self._rest = rest
        self._sleep = sleep
        self._ids: dict[str, list[str]] = {}
        self._rates: dict[str, RateNames] = {}
        self._list_again_s: dict[str, float] = {}
        self._taken: tuple[str, int] | None = None

    def sample(self, graph: Graph, interval_ms: int) -> Sample | None:
        """The newest dump if it was not read before; else None. RestError if the JobManager does not answer."""
        for attempt in range(_TRIES):
            stamp = self._stamp(graph)
            if stamp is None or (graph.job.id, stamp) == self._taken:
                return None
            self._sleep(min(SETTLED_S, interval_ms / 2_000))
            vertices, whole = self._read(graph)
            # If dumps follow each other faster than they are read, the older date is the true one.
            if self._stamp(graph) == stamp or attempt + 1 == _TRIES:
                self._taken = (graph.job.id, stamp)
                return Sample(stamp, vertices, whole) if any(one.subtasks for one in vertices) else None
        return None

    def forget(self) -> None:
        """Forget the metrics' names: the job was restarted or rescaled."""
        self._ids.clear()
        self._list_again_s.clear()

    def _stamp(self, graph: Graph) -> int | None:
        """When the present dump was requested (JobManager's clock, epoch ms)."""
        if not graph.vertices:
            return None
        path = f"/jobs/{graph.job.id}/vertices/{graph.vertices[0].id}/backpressure"
        return self._rest.get(path, BackPressure).taken

    def _read(self, graph: Graph) -> tuple[tuple[VertexSample, ...], bool]:
        out: list[VertexSample] = []
        all_whole = True
        for vertex in graph.vertices:
            path = f"/jobs/{graph.job.id}/vertices/{vertex.id}"
            ids = self._names(vertex, f"{path}/metrics")
            values = self._rest.metrics(f"{path}/metrics", ids)
            sample, whole = sample_of(vertex, ids, values)
            names = self._rates[vertex.id]
            sample = replace(sample, rates=rates_of(names, self._rest.sums(path, names.all())))
            if not whole:
                self._list_again_s.pop(vertex.id, None)  # a split has ended, or the task was restarted
            all_whole = all_whole and (whole or vertex.status == "FINISHED")
            out.append(sample)
        return tuple(out), all_whole

    def _names(self, vertex: Vertex, path: str) -> list[str]:
        now = time.monotonic()
        if now >= self._list_again_s.get(vertex.id, 0.0) or not self._ids.get(vertex.id):
            listed = self._rest.get(path, list[Metric])
            self._ids[vertex.id] = wanted(one.id for one in listed)
            self._rates[vertex.id] = rate_names(vertex, (one.id for one in listed))
            self._list_again_s[vertex.id] = now + (LIST_EVERY_S if len(listed) < LONG_LIST else LONG_LIST_EVERY_S)
        return self._ids[vertex.id]


def duration_ms(text: str) -> int | None:
    """A duration (ms) in Flink's forms `10000`, `10 s`, `10s` or `PT10S`; None: not understood."""
    match = re.fullmatch(r"(?:pt)?(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    if match is None or match[2] not in _UNITS:
        return None
    return int(float(match[1]) * _UNITS[match[2]])
