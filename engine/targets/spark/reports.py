"""A query's own reports: in its application's event log, or in the file of a job that publishes it.

A job publishes (`wmtop.engine.publish`) to a file in the run directory, which is replaced at every event. It holds a
lock on the file that is there: without one the job is gone.
"""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from ...feed.run_directory import run_dir
from ...snapshot import SiblingQuery
from ...system.errors import UsageError, enumerated, one_line
from ...system.files import try_lock_file
from .event_log import READ_AT_ONCE, EventLogTap, check
from .facts import VERSION, Application, QueryRun, Report
from .files import Cached, UnreadableError, VanishedError, decode_json
from .plan import PlanFacts

SUFFIX = ".published"
FILE_LIMIT = 64 * 1024 * 1024
DEFAULT_APPS = frozenset({"pyspark-shell", "Spark shell"})
"""Application names that Spark gives to a session without one: unrelated jobs share them."""
KEEP_S = 24 * 3600
"""How long (s) the file of an ended job is kept."""


class Published(Struct, frozen=True):
    """A job that publishes: the name to attach by, and its last report."""

    name: str
    path: Path
    publication: Application

    @property
    def names(self) -> set[str]:
        """All names by which it can be found."""
        publication = self.publication
        known = {self.name, publication.app, publication.app_id, *(query.name for query in publication.queries)}
        return {name for name in known if name}


class PublishedTap:
    """Reads a job's reports; a poll opens the file only when it is a new one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = Cached(_decode, FILE_LIMIT, keep=1)
        self._last: Application | None = None

    def poll(self) -> Application | None:
        """Its last report, also after its end; None: none yet. Never raises because of the file's content."""
        try:
            publication, trouble = self._file.get(self.path), None
        except VanishedError:
            publication, trouble = self._last, None
        except UnreadableError as error:
            publication, trouble = self._last, str(error)
        if publication is not None:
            current = replace(publication, alive=is_held(self.path), trouble=trouble or publication.trouble)
            self._last = self._last if current == self._last else current
        return self._last


def list_published() -> list[Published]:
    """The jobs that publish, and those that did until a day ago; by name. Files of older ones are removed."""
    jobs: list[Published] = []
    remove_leftovers(directory := run_dir())
    for path in sorted(directory.glob(f"*{SUFFIX}")):
        publication = PublishedTap(path).poll()
        if publication is not None:
            jobs.append(Published(path.name.removesuffix(SUFFIX), path, publication))
    return jobs


def find_published(name: str) -> Published | None:
    """The job of that name, application name, or query name; None: there is none. UsageError if it is not clear which
    is meant.

    A job that runs comes before ended ones: for the name of a query also one of the same application that has not
    started a query yet. Of ended jobs that ran the same query, the last one is meant.
    """
    jobs = list_published()
    matching = [job for job in jobs if name in job.names]
    ran = [job for job in matching if any(query.name == name for query in job.publication.queries)]
    apps = {job.publication.app for job in ran} - DEFAULT_APPS
    alive = [job for job in jobs if job.publication.alive]
    for meant in (
        [job for job in jobs if job.name == name],
        [job for job in alive if name in job.names],
        [job for job in alive if job.publication.app in apps and not job.publication.queries],
        _last_of_one_query(matching, name) or matching,
    ):
        if len(meant) == 1:
            return meant[0]
        if meant:
            listed = " or ".join(job.name for job in meant)
            raise UsageError(f"several jobs publish {name!r}: give {listed}", code="several_jobs")
    return None


def _last_of_one_query(jobs: list[Published], name: str) -> list[Published]:
    """The last of ended jobs if all of them ran the same query, by its id; else none."""
    ids = [{run.id for run in job.publication.queries if run.name == name} for job in jobs]
    if not ids or not ids[0].intersection(*ids[1:]):
        return []
    return sorted(jobs, key=lambda job: job.publication.written_ms or 0)[-1:]


def remove_leftovers(directory: Path) -> None:
    """Remove files of jobs that ended more than a day ago."""
    for path in directory.glob(f"*{SUFFIX}*"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > KEEP_S and not is_held(path):
                path.unlink()


def is_held(path: Path) -> bool:
    """Whether a living job holds the file that is there."""
    while True:
        try:
            with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                if not try_lock_file(file, shared=True):
                    return True
                if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                    return False
        except OSError:
            return False


def _decode(content: bytes) -> Application:
    publication = decode_json(content, Application)
    if publication.version != VERSION:
        raise UnreadableError("another version of wmtop publishes it: use the same one")
    return publication


SEARCH_S = 2.0
"""Seconds between two searches for a job that publishes a query."""


def report_of(tap: Literal["event log", "publish", "driver"], application: Application, run: QueryRun | None) -> Report:
    """What the application reports of the query with that run."""
    runs = _runs_to(application.queries, run)
    plans = tuple(earlier.plan for earlier in runs if earlier.plan)
    return Report(
        tap=tap,
        run=run,
        alive=application.alive,
        trouble=application.trouble,
        siblings=siblings_of(application.queries, run),
        heard_ms=application.written_ms,
        unread=application.unread,
        # A run without a batch has no plan, but an earlier run of the same query may have had one.
        checkpoint=next((plan.checkpoint for plan in plans if plan.checkpoint is not None), None),
        # The last plan has them, or shows that they are not known any more.
        writes=next((plan.writes for plan in plans), None),
        plans=plans,
        moved_by=_moved_by(runs),
    )


class RemoteFiles(Protocol):
    """Files that are elsewhere; `refresh` looks for additions, RemoteError if it cannot."""

    every_s: float
    """How long (s) to wait until the next refresh."""
    as_of_ms: int | None = None
    """When what is there was sent (epoch ms); None: at the last refresh."""

    def refresh(self) -> None:
        """Fetch the additions."""

    def close(self) -> None:
        """Fetch no more."""


class Reports(Protocol):
    """A source of a query's reports."""

    def open(self) -> None:
        """UsageError if nothing can be read, or it is not clear which query is meant."""

    def poll(self, query_id: str | None) -> Report | None:
        """What is reported now."""
        ...

    def close(self) -> None:
        """Read no more."""


class LogReports(Reports):
    """The reports in an event log; `wanted` is the query's name or id if the log has several."""

    def __init__(self, path: Path, wanted: str | None = None, *, is_here: bool = True) -> None:
        """`is_here`: the log is where it was written, so that paths in it are those of this machine."""
        self._log = EventLogTap(path)
        self._wanted = wanted
        self._is_here = is_here
        self._id: str | None = None

    def open(self) -> None:
        """Read everything."""
        check(self._log.path)
        sure_of(self._log.poll_all().queries, self._wanted)

    def name(self) -> str | None:
        """The query's name, else the application's: reads everything."""
        return name_in(self._log.poll_all(), self._wanted)

    def poll(self, query_id: str | None) -> Report | None:
        """Read on."""
        facts = self._log.poll(READ_AT_ONCE)
        run = followed(facts.queries, self._wanted, query_id or self._id)
        self._id = run and run.id
        report = report_of("event log", facts, run)
        return report if self._is_here else replace(report, is_elsewhere=True)

    def close(self) -> None:
        """Close the file."""
        self._log.close()


class JobReports(Reports):
    """The reports of a publishing job: `job`, or any with a query of the id; after a restart, the new one."""

    def __init__(self, job: Published | None = None, wanted: str | None = None) -> None:
        self._tap = None if job is None else PublishedTap(job.path)
        self._wanted = wanted
        self._choose = choose if job is None else followed
        self._id: str | None = None
        self._search_at = 0.0

    def poll(self, query_id: str | None) -> Report | None:
        """The job's last report; while none runs, another job is searched for."""
        self._id = query_id or self._id
        report = self._report()
        lives = report is not None and report.alive and not (report.run and report.run.ended)
        if not lives and self._id is not None and time.monotonic() >= self._search_at:
            self._search_at = time.monotonic() + SEARCH_S
            with suppress(OSError):
                self._switch_to_running(self._id)
            report = self._report()
        return report

    def _report(self) -> Report | None:
        publication = None if self._tap is None else self._tap.poll()
        if publication is None:
            return None
        run = self._choose(publication.queries, self._wanted, self._id)
        self._id = run.id if run else self._id
        return report_of("publish", publication, run)

    def _switch_to_running(self, query_id: str) -> None:
        """Switch to a job that runs the query now; without a job so far, to one in which it has ended."""
        for job in list_published():
            runs = [run for run in job.publication.queries if run.id == query_id and not (self._tap and run.ended)]
            if job.publication.alive and runs and (self._tap is None or self._tap.path != job.path):
                self._tap = PublishedTap(job.path)


def siblings_of(runs: Sequence[QueryRun], chosen: QueryRun | None) -> list[SiblingQuery]:
    """The last run of every other query, the failed ones first."""
    last = {run.id: run for run in runs if chosen is None or run.id != chosen.id}
    siblings = [
        SiblingQuery(
            name=one_line(run.name or run.id, 80),
            id=run.id,
            state="failed" if run.error else "stopped" if run.ended else "running",
            error=run.error,
        )
        for run in last.values()
    ]
    return sorted(siblings, key=lambda sibling: sibling.state != "failed")


def _moved_by(runs: Sequence[QueryRun]) -> PlanFacts | None:
    """The plan (without nodes: not seen) of the run that moved the watermark last; the newest run is the first."""
    left_ms: int | None = None  # where a run left it shows in the next one's first batch
    for run in runs:
        if run.progress is None:
            continue
        if (run.progress.watermark_ms if left_ms is None else left_ms) != run.first_watermark_ms:
            return run.plan or PlanFacts()
        left_ms = run.first_watermark_ms
    return None


def _runs_to(runs: Sequence[QueryRun], run: QueryRun | None) -> list[QueryRun]:
    """A run and those of the same query before it, the newest first."""
    # A finished log that becomes a recording has later runs, too.
    last = next((place for place, other in enumerate(runs, 1) if run is not None and other.run_id == run.run_id), 0)
    return [other for other in reversed(runs[:last]) if other.id == runs[last - 1].id]


def choose(runs: Sequence[QueryRun], wanted: str | None, query_id: str | None) -> QueryRun | None:
    """The wanted run: the last one that has not ended, else the last."""
    meant = [run for run in runs if query_id in (None, run.id) and wanted in (None, run.name, run.id, run.run_id)]
    running = [run for run in meant if not run.ended]
    return (running or meant or [None])[-1]


def followed(runs: Sequence[QueryRun], wanted: str | None, query_id: str | None) -> QueryRun | None:
    """The wanted run of that query; once it has ended, a later one of its name, or of its checkpoint."""
    own = choose(runs, wanted, query_id)
    if own is None or not own.ended:
        return own
    later = runs[runs.index(own) + 1 :]
    named = None if own.name is None else choose([run for run in later if run.name == own.name], wanted, None)
    same = choose(later, own.id, None)
    return (named or same if wanted == own.name else same or named) or own


def name_in(facts: Application, wanted: str | None) -> str | None:
    """The name of the wanted query of a log, else of its application; None: neither is known."""
    meant = choose(facts.queries, wanted, None)
    return (meant.name if meant is not None else None) or facts.app


def sure_of(runs: Sequence[QueryRun], wanted: str | None) -> None:
    """UsageError if `wanted` is none of them, or if several run and none is named."""
    meant = [run for run in runs if wanted in (None, run.name, run.id, run.run_id)]
    last = {run.id: run for run in meant or runs}
    order = sorted(last.values(), key=lambda run: (run.error is None, run.ended, run.name or run.id))
    ends = [" (failed)" if run.error else " (stopped)" if run.ended else "" for run in order]
    names = enumerated([f"{one_line(run.name or run.id, 60)}{end}" for run, end in zip(order, ends, strict=True)])
    if wanted is not None and runs and not meant:
        raise UsageError(f"--query {one_line(wanted, 60)!r} is not among its queries: {names}", code="no_query")
    running = {run.id for run in meant if not run.ended}
    if wanted is None and len(running or {run.id for run in meant}) > 1:
        raise UsageError(f"it has {len(order)} queries: give --query with one of {names}", code="which_query")
