"""Queries whose job publishes them (`wmtop.engine.publish`): a file in the run directory, replaced at every event.

The job holds a lock on the file that is there: without one the job is gone.
"""

import os
import time
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ...feed.run_directory import run_dir
from ...system.errors import UsageError, one_line
from ...system.files import try_lock_file
from .files import Cached, UnreadableError, VanishedError, decode_json
from .query_runs import QueryRun

SUFFIX = ".published"
VERSION = 1
FILE_LIMIT = 64 * 1024 * 1024
DEFAULT_APPS = frozenset({"pyspark-shell", "Spark shell"})
"""Application names that Spark gives to a session without one: unrelated jobs share them."""
KEEP_S = 24 * 3600
"""How long (s) the file of an ended job is kept."""


class Publication(Struct, frozen=True, kw_only=True):
    """A job's report on its streaming queries (times ms)."""

    version: int = VERSION
    app: str
    app_id: str | None
    pid: int
    written_ms: int
    """When it last wrote."""
    queries: tuple[QueryRun, ...] = ()
    alive: bool = True
    """Whether the job still runs; the reader finds out, since an ended job cannot report it."""
    trouble: str | None = None
    """One line on what could not be read, by the job or of it."""


class Published(Struct, frozen=True):
    """A job that publishes: the name to attach by, and its last report."""

    name: str
    path: Path
    publication: Publication

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
        self._last: Publication | None = None

    def poll(self) -> Publication | None:
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
    """The jobs that publish, and those that did until a day ago; by name."""
    jobs: list[Published] = []
    for path in sorted(run_dir().glob(f"*{SUFFIX}")):
        publication = PublishedTap(path).poll()
        if publication is not None:
            jobs.append(Published(path.name.removesuffix(SUFFIX), path, publication))
    return jobs


def find_published(name: str) -> Published:
    """The job of that name, application name, or query name; UsageError if it is not clear which is meant.

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
    others = f", only {', '.join(job.name for job in jobs)}" if jobs else ": a job does it with publish(spark)"
    raise UsageError(f"no job publishes {one_line(name, 60)!r}{others}", code="no_job")


def _last_of_one_query(jobs: list[Published], name: str) -> list[Published]:
    """The last of ended jobs if all of them ran the same query, by its id; else none."""
    ids = [{run.id for run in job.publication.queries if run.name == name} for job in jobs]
    if not ids or not ids[0].intersection(*ids[1:]):
        return []
    return sorted(jobs, key=lambda job: job.publication.written_ms)[-1:]


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


def _decode(content: bytes) -> Publication:
    publication = decode_json(content, Publication)
    if publication.version != VERSION:
        raise UnreadableError("another version of wmtop publishes it: use the same one")
    return publication
