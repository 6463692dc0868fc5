"""The targets of `wmtop attach`, made from its arguments."""

import os
import re
from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ...engine.feed import run_directory
from ...engine.snapshot import SourceView
from ...engine.system.errors import UsageError
from ...engine.text.formatting import clean
from .arguments import DEFAULT_IDLE_AFTER_MS, or_off
from .engines import name_of
from .kafka import kafka_config_of

if TYPE_CHECKING:  # a tap is imported by the command that uses it
    from ...engine.system.json_path import JsonPath
    from ...engine.targets.flink.kafka import KafkaJoin
    from ...engine.targets.flink.watch import FlinkWatch
    from ...engine.targets.spark.event_log import EventLogFacts
    from ...engine.targets.spark.remote import Remote
    from ...engine.targets.spark.watch import QueryWatch, WindowsTap
    from ...engine.targets.topic.broker import BrokerTap
    from ...engine.targets.topic.consumer import TopicWatch

    Windows = Callable[[Path], WindowsTap] | None
    """Makes the reader of a checkpoint's state; None: state is not read."""

TOPIC = "kafka://"
FLINK = ("flink://", "http://", "https://")
WHAT = "a run, a checkpoint directory or an event log (or its URI), a published query, kafka://BOOTSTRAP/TOPIC or flink://HOST:PORT"
_LISTS = "'wmtop attach' lists what can be watched"
_NAMELESS = re.compile(
    r"[_.]?(checkpoints?|checkpoint[_-]?(dir|location)|ckpts?|chk(pt)?s?|ck|cp)([_-]?\d+)?|", re.IGNORECASE
)
"""Directory names that do not identify a query."""
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?=/)")
_LOCAL = ("file", "dbfs")
READERS = ("none", "files", "spark")


def local_path(target: str) -> Path:
    """The path of the target, also from a URI in Spark's form (`file:/data/ckpt`).

    UsageError if this user may not read there.
    """
    uri = _URI.match(target)
    scheme = uri[1].lower() if uri else None
    path = target if uri is None else re.sub("^(?://[^/]*)?/+", "/", target[len(uri[1]) + 1 :])
    if scheme == "dbfs":
        path = f"/dbfs/{path.lstrip('/')}"  # where Databricks mounts it
        if not os.path.exists("/dbfs"):
            raise UsageError(f"{clean(target)} is not mounted here: run wmtop on the cluster's driver, or copy it here")
    try:
        os.stat(path)
        if os.path.isdir(path):
            os.scandir(path).close()
    except PermissionError as error:
        raise UsageError(f"cannot read {clean(path)}: {error.strerror}") from None
    except (OSError, ValueError):
        pass  # it does not exist: the caller reports that, with similar names
    return Path(path)


def is_remote(target: str) -> bool:
    """Whether the target is a URI of a store or of another machine's file system."""
    uri = _URI.match(target)
    return uri is not None and uri[1].lower() not in _LOCAL


def remote_of(target: str, state_reader: str | None) -> "Remote | None":
    """The checkpoint or event log at a URI, fetched; None for a local target.

    UsageError, one line, if it cannot be fetched or is neither.
    """
    if not is_remote(target):
        return None
    if state_reader == "spark":
        raise UsageError("--state-reader spark reads local checkpoints only; leave it out for a URI")
    from ...engine.targets.spark.remote import Remote

    return Remote(target, with_state=state_reader != "none")


def is_log(path: Path) -> bool:
    """Whether what lies there is an event log, or a directory of them."""
    from ...engine.targets.spark import event_log

    return event_log.is_log(path)


def query_of_checkpoint(
    path: Path, windows: "Windows", broker: "BrokerTap | None", remote: "Remote | None" = None
) -> "tuple[QueryWatch, str]":
    """A query by its checkpoint (`remote`: the original of that copy), and its name."""
    from ...engine.targets.spark.checkpoint import check
    from ...engine.targets.spark.watch import QueryWatch

    check(path)  # a wrong directory is reported before the screen opens
    source = SourceView(kind="checkpoint", description=str(path.absolute()) if remote is None else remote.uri)
    watch = QueryWatch(source, checkpoint=path, windows=windows, broker=broker, remote=remote)
    named = path if remote is None else Path(_URI.sub("", remote.uri))
    return watch, name_of(known_as(named))


def query_of_log(
    path: Path,
    wanted: str | None,
    windows: "Windows",
    broker: "BrokerTap | None",
    remote: "Remote | None" = None,
    logged: "EventLogFacts | None" = None,
) -> "tuple[QueryWatch, str]":
    """A query by its application's event log, and its name.

    `remote` is the original of that copy; `logged` is its content if it was read before.
    """
    from ...engine.targets.spark.event_log import check
    from ...engine.targets.spark.reports import LogReports, name_in
    from ...engine.targets.spark.watch import QueryWatch

    check(path)
    source = SourceView(kind="event log", description=str(path.absolute()) if remote is None else remote.uri)
    reports = LogReports(path, wanted)
    watch = QueryWatch(source, reports=reports, windows=windows, broker=broker, remote=remote)
    known = reports.name() if logged is None else name_in(logged, wanted)
    return watch, name_of(known or wanted or path.name)


def published_query(
    target: str, wanted: str | None, windows: "Windows", broker: "BrokerTap | None"
) -> "tuple[QueryWatch, str] | None":
    """A published query, by its own name or the job's; None: there is no such job."""
    from ...engine.targets.spark.reports import JobReports, find_published, sure_of
    from ...engine.targets.spark.watch import QueryWatch

    if not is_published(target):
        return None
    job = find_published(target)
    queries = job.publication.queries
    of_job = target in (job.name, job.publication.app, job.publication.app_id)
    if wanted is None and (not of_job or any(query.name == target for query in queries)):
        wanted = target  # the name of a query, which a restarted job may not have started yet
    sure_of(queries, wanted)
    source = SourceView(kind="published query", description=f"{job.publication.app}, process {job.publication.pid}")
    reports = JobReports(job, wanted)
    return QueryWatch(source, reports=reports, windows=windows, broker=broker), name_of(wanted or target)


def is_published(target: str) -> bool:
    """Whether a job publishes a query of that name, or did so until a day ago."""
    from ...engine.targets.spark.reports import list_published

    return "/" not in target and any(target in job.names for job in list_published())


def broker_of(bootstrap: str | None, time: str | None, kafka_config: Path | None) -> "BrokerTap | None":
    """The Kafka cluster that a query reads from, where its user names one."""
    if bootstrap is None:
        return None
    from ...engine.targets.topic.broker import BrokerTap

    return BrokerTap(kafka_config_of(bootstrap, kafka_config), _path_of(time), assumed=time is None)


def topic_of(
    target: str, group: str | None, time: str | None, lateness_ms: int, idle_after: int | None, file: Path | None
) -> "tuple[TopicWatch, str]":
    """A topic, or a consumer group's position in it, and its name."""
    from ...engine.targets.topic.consumer import TopicWatch

    bootstrap, _, topic = target.removeprefix(TOPIC).partition("/")
    if not bootstrap or not topic or "/" in topic:
        raise UsageError(f"{clean(target)} is not kafka://BOOTSTRAP/TOPIC, e.g. kafka://localhost:9092/orders")
    watch = TopicWatch(
        kafka_config_of(bootstrap, file),
        topic,
        group=group,
        path=_path_of(time),
        lateness_ms=lateness_ms,
        idle_after_ms=or_off(DEFAULT_IDLE_AFTER_MS if idle_after is None else idle_after),
    )
    return watch, name_of(group or topic)


def flink_job(
    target: str, operator: str | None, ca: Path | None, certificate: Path | None, auth: Path | None,
    broker: "KafkaJoin | None" = None,
) -> "tuple[FlinkWatch, str]":  # fmt: skip
    """A Flink job by its JobManager's address followed by the job's id or name; and its name."""
    from ...engine.targets.flink.rest import RestSecurity
    from ...engine.targets.flink.watch import FlinkWatch, place_of

    url, wanted = place_of(target)
    watch = FlinkWatch(url, wanted, operator, RestSecurity(ca, certificate, auth), broker)
    watch.open()  # several jobs: the list is printed before there is a screen
    return watch, name_of(watch.job_name)


def join_of(bootstrap: str | None, time: str | None, kafka_config: Path | None) -> "KafkaJoin | None":
    """The Kafka cluster that a Flink job reads from, where its user names one."""
    if bootstrap is None:
        return None
    from ...engine.targets.flink.kafka import KafkaJoin

    return KafkaJoin(kafka_config_of(bootstrap, kafka_config), _path_of(time))


def known_as(path: Path) -> str:
    """The name for a checkpoint: for a directory named just `ckpt` or `_checkpoint`, that of its parent."""
    whole = path.absolute()
    return next((each.name for each in (whole, *whole.parents) if not _NAMELESS.fullmatch(each.name)), whole.name)


def nothing_there(target: str) -> str:
    """The error for a target that does not exist, with similar ones."""
    from ...engine.targets.discover import discover
    from ...engine.targets.spark.reports import list_published

    path = Path(target)
    runs = {run.name: run.name for run in run_directory.list_runs()}
    published = {name: name for job in list_published() for name in job.names}
    try:
        beside = {entry.name: str(path.parent / entry.name) for entry in path.parent.iterdir()}
    except OSError:
        beside = {}
    found = {known_as(one.path): str(one.path) for one in discover([Path.cwd()])}
    known = beside if "/" in target else {**beside, **found, **published, **runs}
    near = [known[name] for name in get_close_matches(path.name, known, 3)]
    hint = f"did you mean {' or '.join(map(clean, near))}?" if near else f"give {WHAT}; {_LISTS}"
    return f"there is no {'' if '/' in target else 'run, '}file or directory {clean(target)}: {hint}"


def windows_of(state_reader: str | None, *, once: bool) -> "Windows":
    """The reader of the state; Spark only if the user wants it, and with `once` it is waited for."""
    if state_reader is not None and state_reader not in READERS:
        raise UsageError(f"--state-reader '{clean(state_reader)}' is not known: use none, files or spark")
    if state_reader == "none":
        return None
    if state_reader == "spark":
        from ...engine.run.state_reader import SparkWindows

        return partial(SparkWindows, waits=once)
    from ...engine.targets.spark.open_windows import OpenWindowsTap

    return OpenWindowsTap


def _path_of(time: str | None) -> "JsonPath | None":
    """The place of event time: a field of the value, None: the record's own timestamp."""
    from ...engine.system.json_path import parse_json_path

    return None if time in (None, "timestamp") else parse_json_path(time, "--time")
