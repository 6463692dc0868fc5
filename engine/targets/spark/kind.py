"""Spark queries as a kind of target: by a checkpoint or an event log (a path or a URI), or as their job publishes them.

Every address that no other kind has is taken for one.
"""

import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ...snapshot import SourceView
from ...system.errors import UsageError, one_line, require
from ...system.files import PrivateDirectory
from ..own import Recording, is_path, is_remote, known_as, local_path, name_of, without_scheme
from ..target import AttachedTarget, Kind, LogProgress, Message, NothingThereError, OpenedTarget, Pace, TargetOptions

if TYPE_CHECKING:  # a tap is imported if it is used
    from ..topic.broker import BrokerTap
    from .facts import Application
    from .history_server import LogOverHttp
    from .store import EventLogCopy
    from .watch import QueryWatch, WindowsTap

READERS = ("none", "files", "spark")
OF_CHECKPOINT = "for a checkpoint, which has one query"


class FinishedLog(Struct, frozen=True):
    """The event log of an application that has ended or must have died, as it was read; an `OpenedTarget`."""

    path: Path
    facts: "Application"
    query: str | None
    """The wanted query, by name or id; None: its only one."""
    progress: LogProgress
    remote: "LogOverHttp | EventLogCopy | None" = None
    """The original, if `path` is a copy: it is kept as long as this."""

    @property
    def name(self) -> str:
        """The name of its query."""
        from .reports import name_in

        return name_of(name_in(self.facts, self.query) or self.query or self.path.name)

    def follow(self, name: str, pace: Pace) -> Generator[Message]:
        """Its last snapshot, as that of a recording."""
        with self.recorded(name) as recording:
            yield from Recording(recording).follow(name, pace)

    @contextmanager
    def recorded(self, name: str | None = None, out: Path | None = None, *, force: bool = False) -> Generator[Path]:
        """A recording of it, kept as `out` if that is given; UsageError where it has no batch of the query."""
        from .reports import choose
        from .watch import record

        with PrivateDirectory("wmtop-replay-") as directory:
            place = out or directory / "post-mortem.rec"
            uri = None if self.remote is None else self.remote.uri
            with self.progress("replaying the query") as step:
                snapshots = record(self.path, self.facts, place, self.query, name, step, force=force, uri=uri)
            if not snapshots:
                meant = choose(self.facts.queries, self.query, None)
                if meant is not None and meant.continuous:
                    why = "Spark reports no batches of continuous processing; attach to the checkpoint"
                    raise UsageError(f"{uri or self.path}: {why}")
                raise UsageError(f"{uri or self.path} has no batch of the query; choose another event log or --query")
            yield place


def _open(address: str, options: TargetOptions) -> OpenedTarget:
    from .checkpoint import check
    from .event_log import is_log
    from .watch import QueryWatch

    watch = partial(QueryWatch, windows=_windows_of(options), broker=_broker_of(options))
    if is_remote(address):
        return _open_remote(address, options, watch)
    if not is_path(address):
        return _open_published(address, options.query, watch)
    path = local_path(address)
    if is_log(path):
        return _open_log(path, options, watch)
    if not path.exists():
        raise NothingThereError(address)
    options.refuse(("query",), OF_CHECKPOINT)
    check(path)  # a wrong directory is reported before the screen opens
    source = SourceView(kind="checkpoint", description=str(path.absolute()))
    return AttachedTarget(watch(source, checkpoint=path), name_of(known_as(path)))


def _open_remote(address: str, options: TargetOptions, watch: "partial[QueryWatch]") -> OpenedTarget:
    """The checkpoint or event log at a URI; UsageError, one line, if it cannot be fetched or is neither."""
    if options.state_reader == "spark":
        raise UsageError("--state-reader spark reads local checkpoints only; leave it out for a URI")
    require("s3", f"{one_line(address.partition('://')[0])}://")
    from .store import EventLogCopy, open_remote

    remote = open_remote(address)
    if isinstance(remote, EventLogCopy):
        return _open_log(remote.local, options, watch, remote)
    options.refuse(("query",), OF_CHECKPOINT)
    uri = remote.store.uri
    target = watch(SourceView(kind="checkpoint", description=uri), checkpoint=remote.path, remote=remote)
    return AttachedTarget(target, name_of(known_as(Path(without_scheme(uri)))))


def _open_log(
    path: Path, options: TargetOptions, watch: "partial[QueryWatch]", remote: "LogOverHttp | EventLogCopy | None" = None
) -> OpenedTarget:
    """A query by its application's event log."""
    from .event_log import EventLogTap, check
    from .reports import LogReports, name_in
    from .watch import is_finished

    check(path)
    facts = None
    if options.log_progress is not None:
        with options.log_progress("reading the event log") as step, closing(EventLogTap(path)) as tap:
            facts = tap.poll_all(step)
        if is_finished(facts, time.time_ns() // 1_000_000):
            return FinishedLog(path, facts, options.query, options.log_progress, remote)
    reports = LogReports(path, options.query, is_here=remote is None)
    known = reports.name() if facts is None else name_in(facts, options.query)
    source = SourceView(kind="event log", description=str(path.absolute()) if remote is None else remote.uri)
    return AttachedTarget(watch(source, reports=reports, remote=remote), name_of(known or options.query or path.name))


def _open_published(address: str, wanted: str | None, watch: "partial[QueryWatch]") -> AttachedTarget:
    """A published query, by its own name or the job's."""
    from .reports import JobReports, find_published, sure_of

    job = find_published(address)
    if job is None:
        raise NothingThereError(address)
    queries = job.publication.queries
    of_job = address in (job.name, job.publication.app, job.publication.app_id)
    if wanted is None and (not of_job or any(query.name == address for query in queries)):
        wanted = address  # the name of a query, which a restarted job may not have started yet
    sure_of(queries, wanted)
    source = SourceView(kind="published query", description=f"{job.publication.app}, process {job.publication.pid}")
    return AttachedTarget(watch(source, reports=JobReports(job, wanted)), name_of(wanted or address))


def open_over_http(address: str, options: TargetOptions) -> OpenedTarget:
    """A query by the event log that a History Server has of its application, or by its driver.

    UsageError, one line, if there is no such application or query, or the server gives no usable answer.
    """
    from ...system.rest import Rest, RestError, RestSecurity
    from .driver import DriverReports
    from .history_server import SPARK_HTTP, LogOverHttp, applications_of, chosen, is_driver, place_of
    from .watch import QueryWatch

    place = place_of(address)
    rest = Rest(place.url, RestSecurity(options.ca_file, options.client_cert, options.auth_file), SPARK_HTTP)
    try:
        listed = applications_of(rest)
        application, of_driver = chosen(listed, place), is_driver(rest, listed)
    except RestError as error:
        raise UsageError(str(error)) from None
    watch = partial(QueryWatch, windows=None)
    if of_driver:
        reports = DriverReports(rest, application.name, application.id, options.query)
        reports.open()
        source = SourceView(kind="driver", description=f"spark+{rest.base}, {one_line(application.name)}")
        return AttachedTarget(watch(source, reports=reports, remote=reports), name_of(reports.name() or "spark"))
    log = LogOverHttp(rest, application.id, place.attempt)
    log.first()
    return _open_log(log.local, options, watch, log)


def _broker_of(options: TargetOptions) -> "BrokerTap | None":
    """The Kafka cluster that the query reads from, where its user names one."""
    if options.bootstrap is None:
        return None
    from ...kafka.client_settings import kafka_config
    from ..topic.broker import BrokerTap, time_path

    config = kafka_config(options.bootstrap, options.kafka_config)
    return BrokerTap(config, time_path(options.time), assumed=options.time is None)


def _windows_of(options: TargetOptions) -> "Callable[[Any], WindowsTap] | None":
    """Makes the reader of a checkpoint's state; None: state is not read."""
    reader = options.state_reader
    if reader is not None and reader not in READERS:
        raise UsageError(f"--state-reader '{one_line(reader)}' is not known: use none, files or spark")
    if reader == "none":
        return None
    if reader == "spark" and options.spark_reader is not None:
        return options.spark_reader
    from .open_windows import OpenWindowsTap

    return OpenWindowsTap


SPARK = Kind(
    "spark",
    lambda address: True,
    _open,
    reads=("state_reader", "bootstrap", "time", "kafka_config", "query"),
    where="for a Spark query",
    joined="for a query",
)
