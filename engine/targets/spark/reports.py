"""A query's own reports: in its application's event log, or in the file of a job that publishes it."""

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct

from ...snapshot import SiblingQuery
from ...system.errors import UsageError, one_line
from .event_log import READ_AT_ONCE, EventLogFacts, EventLogTap, check
from .published import Published, PublishedTap, list_published
from .query_runs import QueryRun

SEARCH_S = 2.0
"""Seconds between two searches for a job that publishes a query."""
_MAX_NAMED = 8


class Report(Struct, frozen=True, kw_only=True):
    """A report at one moment."""

    tap: Literal["event log", "publish"]
    app: str | None
    run: QueryRun | None
    """The last run of the query; None: it has not started yet."""
    alive: bool | None
    """Whether the application runs; None: it does, or it died without a trace in the log."""
    trouble: str | None
    """One line on what could not be read."""
    siblings: list[SiblingQuery] | None = None
    """The last run of each other query of the application."""
    heard_ms: int | None = None
    """When the last line or file was written (epoch ms)."""
    checkpoint: str | None = None
    """The query's checkpoint directory by this run or an earlier one of the same query."""


class Reports(Protocol):
    """A source of a query's reports."""

    def open(self) -> None:
        """UsageError if it cannot be read, or if it is not clear which query is wanted."""
        ...

    def poll(self, query_id: str | None) -> Report | None:
        """The present report, given the query's id if known from elsewhere; None: none (yet)."""
        ...

    def close(self) -> None:
        """Close the source."""
        ...


class LogReports:
    """The reports in an event log; `wanted` is the query's name or id if the log has several."""

    def __init__(self, path: Path, wanted: str | None = None) -> None:
        self._log = EventLogTap(path)
        self._wanted = wanted

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
        run = choose(facts.queries, self._wanted, query_id)
        return Report(
            tap="event log",
            app=facts.app,
            run=run,
            alive=False if facts.ended_ms is not None else None,
            trouble=facts.trouble,
            siblings=siblings_of(facts.queries, run),
            heard_ms=facts.modified_ms,
            checkpoint=checkpoint_of(facts.queries, run),
        )

    def close(self) -> None:
        """Close the file."""
        self._log.close()


class JobReports:
    """The reports of a publishing job: `job`, or any with a query of the id; after a restart, the new one."""

    def __init__(self, job: Published | None = None, wanted: str | None = None) -> None:
        self._job = job
        self._tap = None if job is None else PublishedTap(job.path)
        self._wanted = wanted
        self._id: str | None = None
        self._search_at = 0.0

    def open(self) -> None:
        """Nothing to open."""
        publication = None if self._tap is None else self._tap.poll()
        if publication is not None:
            sure_of(publication.queries, self._wanted)

    def poll(self, query_id: str | None) -> Report | None:
        """The job's last report; while none runs, another job is searched for."""
        self._id = query_id or self._id
        report = self._report()
        lives = report is not None and report.alive and not (report.run and report.run.ended)
        if not lives and self._id is not None and time.monotonic() >= self._search_at:
            self._search_at = time.monotonic() + SEARCH_S
            self._search(self._id)
            report = self._report()
        return report

    def close(self) -> None:
        """Nothing to close."""

    def _report(self) -> Report | None:
        publication = None if self._tap is None else self._tap.poll()
        if publication is None:
            return None
        run = choose(publication.queries, self._wanted, self._id)
        self._id = self._id or (run.id if run else None)
        return Report(
            tap="publish",
            app=publication.app,
            run=run,
            alive=publication.alive,
            trouble=publication.trouble,
            siblings=siblings_of(publication.queries, run),
            heard_ms=publication.written_ms,
            checkpoint=checkpoint_of(publication.queries, run),
        )

    def _search(self, query_id: str) -> None:
        """Switch to a job that runs the query now."""
        with suppress(OSError):
            for job in list_published():
                runs = [run for run in job.publication.queries if run.id == query_id and not run.ended]
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


def checkpoint_of(runs: Sequence[QueryRun], run: QueryRun | None) -> str | None:
    """A run without a batch has no plan, but an earlier run of the same query may have had one."""
    plans = [other.plan for other in runs if run is not None and other.id == run.id]
    places = [plan.checkpoint for plan in plans if plan is not None]
    return next((place for place in reversed(places) if place is not None), None)


def choose(runs: Sequence[QueryRun], wanted: str | None, query_id: str | None) -> QueryRun | None:
    """The wanted run: the last one that has not ended, else the last."""
    meant = [run for run in runs if query_id in (None, run.id) and wanted in (None, run.name, run.id, run.run_id)]
    running = [run for run in meant if not run.ended]
    return (running or meant or [None])[-1]


def name_in(facts: EventLogFacts, wanted: str | None) -> str | None:
    """The name of the wanted query of a log, else of its application; None: neither is known."""
    meant = choose(facts.queries, wanted, None)
    return (meant.name if meant is not None else None) or facts.app


def _ended_words(run: QueryRun) -> str:
    return " (failed)" if run.error else " (stopped)" if run.ended else ""


def sure_of(runs: Sequence[QueryRun], wanted: str | None) -> None:
    """UsageError if `wanted` is none of them, or if several run and none is named."""
    meant = [run for run in runs if wanted in (None, run.name, run.id, run.run_id)]
    last = {run.id: run for run in meant or runs}
    order = sorted(last.values(), key=lambda run: (run.error is None, run.ended, run.name or run.id))
    names = [f"{one_line(run.name or run.id, 60)}{_ended_words(run)}" for run in order]
    listed = ", ".join(names[:_MAX_NAMED]) + (f" and {len(names) - _MAX_NAMED} more" * (len(names) > _MAX_NAMED))
    if wanted is not None and runs and not meant:
        raise UsageError(f"--query {one_line(wanted, 60)!r} is not among its queries: {listed}", code="no_query")
    running = {run.id for run in meant if not run.ended}
    if wanted is None and len(running or {run.id for run in meant}) > 1:
        raise UsageError(f"it has {len(names)} queries: give --query with one of {listed}", code="which_query")
