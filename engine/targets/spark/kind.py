"""Spark queries as a kind of target: by a checkpoint or an event log (a path or a URI), or as their job publishes them.

Every address that no other kind has is taken for one.
"""

import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from ...snapshot import SourceView
from ...system.errors import UsageError, one_line
from ..own import Recording, is_remote, known_as, local_path, name_of, without_scheme
from ..target import AttachedTarget, Kind, LogProgress, Message, NothingThereError, OpenedTarget, Pace, TargetOptions

if TYPE_CHECKING:  # a tap is imported if it is used
    from ..topic.broker import BrokerTap
    from .event_log import EventLogFacts
    from .remote import Remote
    from .watch import WindowsTap

    Windows = Callable[[Path], WindowsTap] | None
    """Makes the reader of a checkpoint's state; None: state is not read."""

READERS = ("none", "files", "spark")


class FinishedLog(Struct, frozen=True):
    """The event log of an application that has ended or must have died, as it was read; an `OpenedTarget`."""

    path: Path
    facts: "EventLogFacts"
    query: str | None
    """The wanted query, by name or id; None: its only one."""
    progress: LogProgress
    remote: "Remote | None" = None
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
        from .post_mortem import record
        from .reports import choose

        with tempfile.TemporaryDirectory(prefix="wmtop-") as directory:
            place = out or Path(directory) / "post-mortem.rec"
            with self.progress("replaying the query") as step:
                snapshots = record(self.path, self.facts, place, self.query, name, step, force=force)
            if not snapshots:
                meant = choose(self.facts.queries, self.query, None)
                if meant is not None and meant.continuous:
                    why = "Spark reports no batches of continuous processing; attach to the checkpoint"
                    raise UsageError(f"{self.path}: {why}")
                raise UsageError(f"{self.path} has no batch of the query; choose another event log or --query")
            yield place


def _open(address: str, options: TargetOptions) -> OpenedTarget:
    windows, broker = _windows_of(options), _broker_of(options)
    remote = _remote_of(address, options)
    path = local_path(address) if remote is None else remote.local
    name = name_of(known_as(path if remote is None else Path(without_scheme(remote.uri))))
    from .checkpoint import check
    from .event_log import is_log
    from .watch import QueryWatch

    if is_log(path):
        return _open_log(path, options, windows, broker, remote)
    if not path.exists():
        return _open_published(address, options.query, windows, broker)
    if options.query is not None:
        raise UsageError("--query has no effect for a checkpoint, which has one query; leave it out")
    check(path)  # a wrong directory is reported before the screen opens
    source = SourceView(kind="checkpoint", description=str(path.absolute()) if remote is None else remote.uri)
    watch = QueryWatch(source, checkpoint=path, windows=windows, broker=broker, remote=remote)
    return AttachedTarget(watch, name)


def _open_log(
    path: Path, options: TargetOptions, windows: "Windows", broker: "BrokerTap | None", remote: "Remote | None"
) -> OpenedTarget:
    """A query by its application's event log."""
    from .event_log import check
    from .post_mortem import is_finished, look
    from .reports import LogReports, name_in
    from .watch import QueryWatch

    check(path)
    facts = None
    if options.log_progress is not None:
        with options.log_progress("reading the event log") as step:
            facts = look(path, step)
        if is_finished(facts, time.time_ns() // 1_000_000):
            return FinishedLog(path, facts, options.query, options.log_progress, remote)
    reports = LogReports(path, options.query)
    known = reports.name() if facts is None else name_in(facts, options.query)
    source = SourceView(kind="event log", description=str(path.absolute()) if remote is None else remote.uri)
    watch = QueryWatch(source, reports=reports, windows=windows, broker=broker, remote=remote)
    return AttachedTarget(watch, name_of(known or options.query or path.name))


def _open_published(address: str, wanted: str | None, windows: "Windows", broker: "BrokerTap | None") -> AttachedTarget:
    """A published query, by its own name or the job's."""
    if not is_published(address):
        raise NothingThereError(address)
    from .reports import JobReports, find_published, sure_of
    from .watch import QueryWatch

    job = find_published(address)
    queries = job.publication.queries
    of_job = address in (job.name, job.publication.app, job.publication.app_id)
    if wanted is None and (not of_job or any(query.name == address for query in queries)):
        wanted = address  # the name of a query, which a restarted job may not have started yet
    sure_of(queries, wanted)
    source = SourceView(kind="published query", description=f"{job.publication.app}, process {job.publication.pid}")
    watch = QueryWatch(source, reports=JobReports(job, wanted), windows=windows, broker=broker)
    return AttachedTarget(watch, name_of(wanted or address))


def is_log(path: Path) -> bool:
    """Whether an event log, or a directory of them, lies there."""
    from . import event_log

    return event_log.is_log(path)


def is_published(name: str) -> bool:
    """Whether a job publishes a query of that name, or did so until a day ago."""
    from .reports import list_published

    return "/" not in name and any(name in job.names for job in list_published())


def _remote_of(address: str, options: TargetOptions) -> "Remote | None":
    """The checkpoint or event log at a URI, fetched; None for a local address.

    UsageError, one line, if it cannot be fetched or is neither.
    """
    if not is_remote(address):
        return None
    if options.state_reader == "spark":
        raise UsageError("--state-reader spark reads local checkpoints only; leave it out for a URI")
    from .remote import Remote

    return Remote(address, with_state=options.state_reader != "none")


def _broker_of(options: TargetOptions) -> "BrokerTap | None":
    """The Kafka cluster that the query reads from, where its user names one."""
    if options.bootstrap is None:
        return None
    from ...kafka.client_settings import kafka_config
    from ..topic.broker import BrokerTap, time_path

    config = kafka_config(options.bootstrap, options.kafka_config)
    return BrokerTap(config, time_path(options.time), assumed=options.time is None)


def _windows_of(options: TargetOptions) -> "Windows":
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
