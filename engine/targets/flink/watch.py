"""A running Flink job as a target of `WatchEngine`, and the Kafka topics that it reads, joined with its splits."""

import time
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING
from urllib.parse import unquote

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from ...snapshot import FlinkJob, Snapshot, SourceView
from ...system import clock
from ...system.errors import RunError, UsageError, enumerated
from ...system.rest import RestError, RestSecurity
from ...verdict.evidence import Picture
from ..clock import MIN_SKEW_MS, TargetClock
from ..own import name_of
from ..spark.files import SourceOffsets
from ..target import AttachedTarget, JudgedTarget, TargetOptions
from ..topic import TopicFacts
from .attribution import attribution_of, snapshot_of
from .facts import IDLE_STEP_MS, FlinkFacts, lacks, with_sample
from .rest import (
    DEFAULT_INTERVAL_MS,
    Collector,
    FlinkRest,
    checkpoint_of,
    failure_of,
    graph_of,
    jobs_of,
    restarts_of,
    update_interval_ms,
)
from .samples import RUNS, Graph, JobSample, ListedJob, SampledSplit, UnreadBySplit, UnreadPartition, splits_of
from .verdict_evidence import verdict_evidence_of

SLOW_S = 10.0
"""Seconds between two reads of facts that rarely change: restarts, checkpoints."""
LOOK_S = 15.0
"""Longest time (s) for which a single look waits for more samples: by default Flink has one every 10 s."""
CACHED_AFTER_MS = 20_000
"""An answer that is repeated for longer (ms) comes from a cache: the JobManager's clock is in each. It is a third
of the least patience, which a gap of this length makes no longer.
"""
if TYPE_CHECKING:  # the Kafka client is loaded where there is a broker to ask
    from ...kafka.client_settings import KafkaConfig
    from ...system.json_values import JsonPath


class KafkaJoin:
    """Queries a broker about the topics in the metrics."""

    def __init__(self, config: "KafkaConfig", path: "JsonPath | None") -> None:
        """`path` is the place of event time in the values; None: not given, so no event times are read."""
        from ..topic.broker import BrokerTap

        self._config = config
        self._timed = path is not None
        self._tap = BrokerTap(config, path, assumed=path is None)
        self._names: dict[str, list[str]] = {}
        """The topics by their names in metrics, where `.` is `_`."""
        self._opened = False
        self.cluster: str | UnsetType = UNSET
        """The cluster's own id, once it is open and if the cluster reports it."""

    def open(self) -> None:
        """Fetch the topics; UsageError if the broker does not answer."""
        from ...kafka.cluster import Cluster
        from ..topic.broker import reported_id

        self._names.clear()
        try:
            with closing(Cluster(self._config)) as cluster:
                self.cluster = reported_id(cluster)
                for name in cluster.topic_names():
                    self._names.setdefault(name.replace(".", "_"), []).append(name)
        except RunError as error:
            raise UsageError(str(error)) from None

    def join(self, facts: FlinkFacts) -> FlinkFacts:
        """The facts with the broker's last answer about the newest sample's splits; trouble if there is none."""
        sample = facts.sample
        assert sample is not None
        offsets = self._offsets(sample)
        try:
            if not self._opened:
                self._tap.open(offsets)
                self._opened = True
            answer = self._tap.poll(offsets)
        except (RunError, UsageError) as error:
            answer = TopicFacts(trouble=str(error))
        return replace(
            facts,
            unread=self._unread(answer, sample, facts.older_sample),
            # By their real names if they are unambiguous.
            topics=sorted({real for _, split in splits_of(sample) if (real := self._real(split)) is not None}),
            bootstrap=self._config.bootstrap,
            broker_trouble=answer.trouble,
        )

    def _unread(self, facts: TopicFacts, sample: JobSample, before: JobSample | None) -> UnreadBySplit:
        """Unread records by split when `sample` was taken, as far as the broker had answered by then."""
        partitions = {(partition.topic, partition.partition): partition for partition in facts.partitions}
        earlier = {(vertex, split.id): split.offset for vertex, split in splits_of(before)}
        unread: UnreadBySplit = {}
        for vertex, split in splits_of(sample):
            partition = partitions.get((self._real(split) or "", -1 if split.partition is None else split.partition))
            if partition is None or split.offset is None:
                continue
            offset_before = earlier.get((vertex, split.id))
            newest_ms, event_ms = partition.newest_ms, partition.event_ms
            unread[vertex, split.id] = UnreadPartition(
                backlog=max(0, partition.end - split.offset - 1),
                behind_end_ms=newest_ms - event_ms if self._timed and newest_ms and event_ms else None,
                read=None if offset_before is None else split.offset - offset_before,
            )
        return unread

    def close(self) -> None:
        """Stop querying."""
        self._tap.close()

    def _real(self, split: SampledSplit) -> str | None:
        names = [] if split.topic is None else self._names.get(split.topic, [])
        return names[0] if len(names) == 1 else None

    def _offsets(self, sample: JobSample) -> list[SourceOffsets]:
        read: dict[str, int] = {}
        for _, split in splits_of(sample):
            if split.offset is not None and (real := self._real(split)) is not None:
                place = f"{real}/{split.partition}"  # of two sources the slower one
                read[place] = min(split.offset + 1, read.get(place, split.offset + 1))
        return [SourceOffsets(source="flink", kind="kafka", text="", offsets=read)] if read else []


class Answers:
    """The JobManager's clock, which each answer about the job shows; a cache on the way repeats one."""

    def __init__(self) -> None:
        self.clock = TargetClock()
        self._last: tuple[int, int] | None = None
        """The last time that it showed, and when it was first seen (epoch ms, ours)."""

    def see(self, shown_ms: int, asked_ms: int, answered_ms: int) -> bool:
        """Note the clock's time in an answer; whether the clock was set since the last one.

        RestError for an answer that is a repeated one.
        """
        if self._last is None or self._last[0] != shown_ms:
            before, self._last = self.clock.offset, (shown_ms, answered_ms)
            self.clock.see_clock(shown_ms, asked_ms, answered_ms)
            return abs(self.clock.offset.ms - before.ms) > MIN_SKEW_MS
        if asked_ms - self._last[1] > CACHED_AFTER_MS:
            age = f"{(asked_ms - self._last[1]) // 1_000}s"
            raise RestError(f"the answers come from a cache: the JobManager's clock has shown the same time for {age}; "
                            "have the proxy not cache its REST API")  # fmt: skip
        return False


class FlinkWatch(JudgedTarget[FlinkFacts]):
    """A Flink job: `wanted` is its id or name; None: the only running one."""

    step = "asking the JobManager"

    def __init__(
        self, url: str, wanted: str | None, operator: str | None, security: RestSecurity,
        broker: KafkaJoin | None = None,
    ) -> None:  # fmt: skip
        """`operator`: a part of a vertex's name; None: the windows nearest the sources. `broker`: of its topics."""
        self._broker = broker
        self._rest = FlinkRest(url, security)
        self._wanted = wanted
        self._operator = operator
        self._collector = Collector(self._rest)
        self._facts: FlinkFacts | None = None
        self._asked_s = -SLOW_S
        self._alive_ms = 0  # the JobManager's clock when the job was last seen to run
        self._answers = Answers()
        self._before: Snapshot | None = None

    @property
    def job_name(self) -> str:
        """The job's name, once it is chosen; before the wanted one, empty: any."""
        return self._facts.graph.job.name if self._facts is not None else self._wanted or ""

    @property
    def empty(self) -> FlinkJob:
        """Its part of a snapshot while nothing is known of it."""
        return FlinkJob("", self.job_name, "UNKNOWN", None, [])

    def describe(self) -> SourceView:
        """The target as a screen shows it."""
        name = f", {self.job_name}" if self.job_name else ""
        cluster = UNSET if self._broker is None else self._broker.cluster
        return SourceView(kind="flink", description=f"{self._rest.base}{name}", cluster=cluster)

    def open(self) -> None:
        """Choose the job; UsageError if there is no job to choose."""
        try:
            job = chosen(jobs_of(self._rest), self._wanted, self._rest.base)
            interval_ms = update_interval_ms(self._rest)
            graph = graph_of(self._rest, job.id)
            refuse_unknown(graph, self._operator)
            self._facts = FlinkFacts(
                graph=graph, answered_ms=_now_ms(), operator=self._operator, interval_ms=interval_ms
            )
        except RestError as error:
            raise UsageError(str(error)) from None
        self._alive_ms = graph.now_ms if graph.job.state in RUNS else graph.job.started_ms
        if self._broker is not None:
            self._broker.open()

    def poll(self) -> FlinkFacts:
        """One poll; if the JobManager does not answer, the last facts with the trouble."""
        assert self._facts is not None
        try:
            self._facts = self._polled(replace(self._facts, trouble=None))
        except RestError as error:
            self._facts = replace(self._facts, trouble=str(error))
        return self._facts

    def look(self) -> FlinkFacts:
        """One poll, and more until samples 5 s apart tell what one cannot."""
        until_s = time.monotonic() + LOOK_S
        while True:
            facts = self.poll()
            attribution = attribution_of(facts, _now_ms())
            older = facts.older_sample
            now = facts.sample
            can_compare = older is not None and now is not None and now.at_ms - older.at_ms >= IDLE_STEP_MS
            is_sure = now is not None and (attribution is None or attribution.is_sure or can_compare)
            if is_sure or not facts.runs or facts.trouble is not None or time.monotonic() > until_s:
                return facts
            time.sleep(self.every_s)

    def picture(self, name: str, facts: FlinkFacts, now_ms: int) -> Picture:
        """The facts of one poll as they are at `now_ms` (epoch ms)."""
        self._before = snapshot_of(facts, now_ms, name=name, source=self.describe(), before=self._before)
        return Picture(self._before, verdict_evidence_of(self._before))

    def close(self) -> None:
        """Close the connections."""
        self._rest.close()
        if self._broker is not None:
            self._broker.close()

    def _polled(self, facts: FlinkFacts) -> FlinkFacts:
        before = facts.graph.job
        facts = self._with_successor(self._with_graph(facts))
        job = facts.graph.job
        if job.state in RUNS:
            self._alive_ms = facts.graph.now_ms
        if (job.id, job.started_ms) != (before.id, before.started_ms):
            facts = self._without_samples(facts)
            self._asked_s = -SLOW_S
        if job.state != before.state or time.monotonic() - self._asked_s >= SLOW_S:
            facts = self._with_slow_facts(facts)
        return self._with_next_sample(facts)

    def _with_graph(self, facts: FlinkFacts) -> FlinkFacts:
        """The facts with the job as it is now; UNKNOWN where the JobManager no longer has it."""
        job = facts.graph.job
        asked_ms = _now_ms()
        try:
            graph = graph_of(self._rest, job.id)
        except RestError as error:
            if error.status != 404:
                raise
            return replace(facts, graph=replace(facts.graph, job=replace(job, state="UNKNOWN")))
        answered_ms = _now_ms()
        if graph.job.state in RUNS and self._answers.see(graph.now_ms, asked_ms, answered_ms):
            facts = self._without_samples(facts)
        return replace(facts, graph=graph, answered_ms=answered_ms, clock=self._answers.clock.offset)

    def _with_successor(self, facts: FlinkFacts) -> FlinkFacts:
        """The facts with the same job under a new id, where it has ended and was submitted again."""
        if facts.graph.job.state in RUNS:
            return facts
        later = successor(jobs_of(self._rest), facts.graph.job, self._alive_ms)
        if later is None:
            return facts
        graph = graph_of(self._rest, later.id)
        return replace(facts, graph=graph, answered_ms=_now_ms())

    def _without_samples(self, facts: FlinkFacts) -> FlinkFacts:
        self._collector.forget()
        return replace(facts, samples=(), read_ms={})

    def _with_next_sample(self, facts: FlinkFacts) -> FlinkFacts:
        """The facts with what the JobManager has fetched from a running job since the last sample."""
        if facts.graph.job.state != "RUNNING":
            return facts
        interval_ms = DEFAULT_INTERVAL_MS if facts.interval_ms is None else facts.interval_ms
        sample = self._collector.sample(facts.graph, interval_ms)
        if sample is None:
            return facts
        facts = with_sample(facts, sample)
        return facts if self._broker is None else self._broker.join(facts)

    def _with_slow_facts(self, facts: FlinkFacts) -> FlinkFacts:
        self._asked_s = time.monotonic()
        id = facts.graph.job.id
        if facts.graph.job.state == "UNKNOWN":
            return facts
        restarts, rescales = restarts_of(self._rest, id)
        return replace(
            facts,
            failure=failure_of(self._rest, id),
            restarts=restarts,
            rescales=rescales,
            checkpoint=checkpoint_of(self._rest, id),
        )


def _now_ms() -> int:
    return clock.now_ms()


def open_job(address: str, options: TargetOptions) -> AttachedTarget:
    """The job at `flink://HOST:PORT[/JOB]`, or the URL of its REST API or web UI; UsageError if it is not clear."""
    url, wanted = place_of(address)
    security = RestSecurity(options.ca_file, options.client_cert, options.auth_file)
    broker = None
    if options.bootstrap is not None:  # the Kafka client is loaded where there is a broker to ask
        from ...kafka.client_settings import kafka_config
        from ..topic.broker import time_path

        broker = KafkaJoin(kafka_config(options.bootstrap, options.kafka_config), time_path(options.time))
    watch = FlinkWatch(url, wanted, options.operator, security, broker)
    watch.open()
    return AttachedTarget(watch, name_of(watch.job_name or "flink"))


def place_of(target: str) -> tuple[str, str | None]:
    """The JobManager's URL and the job (id or name) of `flink://HOST:PORT[/JOB]`.

    In an `http://` or `https://` target the path may be a proxy's prefix: it is one where it ends in `/`, and before
    `/jobs/` or `#/job/` (a link copied from Flink's web UI).
    """
    for mark in ("/#/job/running/", "/#/job/completed/", "/#/job/", "/jobs/"):
        base, separator, rest = target.partition(mark)
        if separator:
            return _as_http(base), unquote(rest.partition("/")[0]) or None
    scheme, _, rest = target.partition("://")
    host, _, path = rest.partition("/")
    if target.endswith("/") or not path:
        return _as_http(target.rstrip("/")), None
    prefix, _, job = path.rpartition("/")
    return _as_http(f"{scheme}://{host}{'/' + prefix if prefix else ''}"), unquote(job)


def _as_http(url: str) -> str:
    return "http://" + url.removeprefix("flink://") if url.startswith("flink://") else url


def chosen(jobs: Sequence[ListedJob], wanted: str | None, base: str) -> ListedJob:
    """The wanted job; UsageError with the list if that is not clear."""
    if wanted is None:
        running = [job for job in jobs if job.state in RUNS] or (list(jobs) if len(jobs) == 1 else [])
        if len(running) == 1:
            return running[0]
        if not running:
            raise UsageError(f"no job runs on {base}; start one, or name an ended one: {_listed(jobs)}")
        raise UsageError(f"{len(running)} jobs run on {base}; name one: {_listed(running)}")
    named = [job for job in jobs if job.id == wanted] or [job for job in jobs if job.name == wanted]
    running = [job for job in named if job.state in RUNS]
    if len(running) > 1:
        raise UsageError(f"{len(running)} jobs named {wanted} run on {base}; give an id: {_listed(running)}")
    if not named:
        raise UsageError(f"no job {wanted} on {base}; there are: {_listed(jobs)}")
    return (running or named)[0]


def refuse_unknown(graph: Graph, operator: str | None) -> None:
    """UsageError with the list if no task of the job that receives watermarks is named `operator`."""
    if not lacks(graph.vertices, operator):
        return
    names = enumerated([vertex.name for vertex in graph.vertices if vertex.receives])
    raise UsageError(f"--operator {operator}: no such operator in {graph.job.name}; those with inputs: {names}")


def successor(jobs: Sequence[ListedJob], ended: ListedJob, alive_ms: int) -> ListedJob | None:
    """The job submitted in place of an ended one: the only one of its name that started after it last ran."""
    later = [job for job in jobs if job.name == ended.name and job.state in RUNS and job.started_ms > alive_ms]
    return later[0] if len(later) == 1 else None


def _listed(jobs: Sequence[ListedJob]) -> str:
    return enumerated([f"{job.name} ({job.id}, {job.state})" for job in jobs])
