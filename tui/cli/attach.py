"""`wmtop attach`: attach to an existing query, topic or engine, or list what can be attached to."""

import stat
import sys
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ...engine.feed import run_directory
from ...engine.snapshot import Snapshot
from ...engine.snapshot.wire import encode
from ...engine.system.errors import UsageError
from ...engine.system.files import check_outputs
from ...engine.text.formatting import DAY
from .arguments import FORCE_HELP, duration_option, off_option, on_alert_option
from .complete import target_names
from .config.targets import with_configured_target
from .engines import bounds_of, command_of, run_claimed, show, stop_on_eof
from .launch import launched
from .listing import list_all, list_inside
from .output import SnapshotPrinter
from .post_mortem import has_finished, read_log, show_post_mortem
from .running import has_terminal, open_screen
from .targets import (
    FLINK,
    TOPIC,
    broker_of,
    flink_job,
    is_log,
    is_remote,
    join_of,
    local_path,
    nothing_there,
    published_query,
    query_of_checkpoint,
    query_of_log,
    remote_of,
    topic_of,
    windows_of,
)

if TYPE_CHECKING:  # a tap, or asyncio, is imported by the command that uses it
    from ...engine.feed.client import Client
    from ...engine.targets.engine import Watched, WatchOptions
    from ...engine.targets.spark.event_log import EventLogFacts
    from ...engine.targets.spark.remote import Remote
    from ...engine.targets.spark.watch import QueryWatch
    from ...engine.targets.topic.broker import BrokerTap
    from .targets import Windows


@with_configured_target
def attach(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[TARGET]",
            autocompletion=target_names,
            help="a run, a checkpoint or event log (path or URI), a published query, kafka://BOOTSTRAP/TOPIC, flink://HOST:PORT[/JOB]",
        ),
    ] = None,
    group: Annotated[str | None, typer.Option(metavar="G", help="kafka: the consumer group to watch")] = None,
    bootstrap: Annotated[
        str | None, typer.Option(metavar="B", help="query, flink: the Kafka cluster that it reads from")
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="kafka: the JSON field with the event time (the record's timestamp)"),
    ] = None,
    lateness: Annotated[int | None, duration_option("kafka: max out-of-orderness of the watermarks shown (0s)")] = None,
    idle_after: Annotated[
        int | None,
        off_option("kafka: idle timeout: a partition without records for D no longer holds back the watermark (2h)"),
    ] = None,
    kafka_config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="kafka: client properties, for example for TLS and SASL")
    ] = None,
    query: Annotated[
        str | None, typer.Option(metavar="NAME", help="event log, published query: the query to show, by name or id")
    ] = None,
    operator: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="flink: the operator whose inputs are shown (the windows nearest the sources)"
        ),
    ] = None,
    ca_file: Annotated[Path | None, typer.Option(metavar="FILE", help="flink: certificate authorities, PEM")] = None,
    client_cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="flink: a client certificate with its key, PEM")
    ] = None,
    auth_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="flink: a file with a bearer token or user:password")
    ] = None,
    state_reader: Annotated[
        str | None, typer.Option(metavar="none|files|spark", help="query: how to read its state (files)")
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="disable all keys that change anything")] = False,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="the name of this attached run")] = None,
    record: Annotated[Path | None, typer.Option(metavar="FILE", help="record every snapshot")] = None,
    record_keep: Annotated[int, off_option("how much of a recording to keep (24h, at most 2 GiB; off: all)")] = DAY,
    verdict_after: Annotated[
        int | None, duration_option("the time span that the verdict judges (1m, at least 10 batches)")
    ] = None,
    on_alert: Annotated[str | None, on_alert_option()] = None,
    force: Annotated[bool, typer.Option("--force", help=FORCE_HELP)] = False,
    headless: Annotated[bool, typer.Option("--headless", help="no screen")] = False,
    once: Annotated[bool, typer.Option("--once", help="print one summary and exit")] = False,
    json: Annotated[bool, typer.Option("--json", help="print snapshots as JSON lines")] = False,
) -> None:
    """Attach to an existing query, Flink job, topic or engine; without TARGET: list what can be attached to."""
    headless = headless or launched() is not None
    of_broker = {"--time": time, "--kafka-config": kafka_config}
    of_group = {"--group": group, "--lateness": lateness, "--idle-after": idle_after}
    of_query = {"--state-reader": state_reader, "--bootstrap": bootstrap, "--query": query}
    of_flink = {
        "--operator": operator, "--ca-file": ca_file, "--client-cert": client_cert, "--auth-file": auth_file
    }  # fmt: skip
    of_watching = {
        "--name": name,
        "--record": record,
        "--verdict-after": verdict_after,
        "--on-alert": on_alert,
        "--headless": headless or None,
    }
    alert_command = command_of(on_alert)
    remote = None
    if target is None:
        _refuse("without TARGET", of_flink | of_group | of_broker | of_query | of_watching)
        list_all()
        return
    if (engine := engine_of(target)) is not None:
        alone = {name: value for name, value in of_watching.items() if name not in ("--on-alert", "--headless")}
        _refuse("for a running engine", of_flink | of_group | of_broker | of_query | alone)
        if headless and not (once or json):
            if alert_command is None:
                raise UsageError("--headless for a running engine needs --on-alert CMD (or --json)")
            _watch_alerts(engine, target, alert_command)
            return
        if alert_command is not None:
            raise UsageError(
                "--on-alert for a running engine needs --headless; its own alerts: wmtop run … --on-alert CMD"
            )
        _show_engine(engine, once=once, json=json, read_only=read_only)
        return
    if target.startswith(FLINK):
        _refuse("for flink://", of_group | {"--state-reader": state_reader, "--query": query})
        if bootstrap is None:
            _refuse("for a Flink job without --bootstrap", of_broker)
        join = join_of(bootstrap, time, kafka_config)
        watched, base = flink_job(target, operator, ca_file, client_cert, auth_file, join)
    elif target.startswith(TOPIC):
        _refuse("for kafka://", of_flink | of_query)
        watched, base = topic_of(target, group, time, lateness or 0, idle_after, kafka_config)
    else:
        _refuse("for a Spark query", of_flink | of_group)
        if bootstrap is None:
            _refuse("for a query without --bootstrap", of_broker)
        windows = windows_of(state_reader, once=once)
        remote = remote_of(target, state_reader)
        if remote is None and not (headless or once or json) and list_inside(local_path(target)):
            return
        path = local_path(target) if remote is None else remote.local
        logged = None if headless else read_log(path)
        if logged is not None and has_finished(logged):
            _refuse(
                "for a finished event log",
                of_broker | {"--state-reader": state_reader, "--bootstrap": bootstrap, "--on-alert": on_alert},
            )
            show_post_mortem(path, logged, query, name, record, once=once, json=json, force=force)
            return
        watched, base = _query(target, query, windows, broker_of(bootstrap, time, kafka_config), remote, logged)
    check_outputs({"--record": record}, inputs=_inputs(target, kafka_config), force=force)
    if not (headless or once or json) and has_terminal():
        if remote is not None:
            remote.close()  # the engine that is started now has its own copy
        show(name, base, "stop", read_only=read_only)
        return
    from ...engine.targets.engine import WatchOptions

    options = WatchOptions(
        record=record,
        record_bounds=bounds_of(record_keep),
        verdict_after_ms=verdict_after,
        on_alert=alert_command,
        force=force,
        once=once,
        stop_on_eof=stop_on_eof(),
    )
    raise typer.Exit(watch(watched, options, name, base, json=json))


def _query(
    target: str,
    wanted: str | None,
    windows: "Windows",
    broker: "BrokerTap | None",
    remote: "Remote | None",
    logged: "EventLogFacts | None" = None,
) -> "tuple[QueryWatch, str]":
    """A Spark query, by its checkpoint, its event log (`remote`: in a store; `logged`: as it was read) or what its
    job publishes.
    """
    path = local_path(target) if remote is None else remote.local
    if not path.exists():
        published = published_query(target, wanted, windows, broker)
        if published is None:
            raise UsageError(nothing_there(target))
        return published
    if is_log(path):
        return query_of_log(path, wanted, windows, broker, remote, logged)
    from .look import is_recording

    if is_recording(path):
        raise UsageError(f"{path} is a recording: show it with 'wmtop replay {path}'")
    _refuse("for a checkpoint, which has one query", {"--query": wanted})
    return query_of_checkpoint(path, windows, broker, remote)


WATCH_OPTIONS = (
    "bootstrap", "time", "group", "kafka_config", "query", "operator", "ca_file", "client_cert", "auth_file",
    "state_reader", "lateness", "idle_after",
)  # fmt: skip
"""The options of `attach`, by parameter, that choose the target and how it is read."""
_OF_FLINK = ("operator", "ca_file", "client_cert", "auth_file")
_OF_GROUP = ("group", "lateness", "idle_after")
_OF_BROKER = ("time", "kafka_config")
_OF_QUERY = ("state_reader", "bootstrap", "query")


def watched_of(target: str, options: Mapping[str, Any]) -> "Watched[Any]":
    """The watcher for a target that is not a running engine: a Flink job, a topic, a consumer group or a query;
    UsageError if it is none.

    `options` are those of `WATCH_OPTIONS`; None or missing: not given.
    """
    given = {name: options.get(name) for name in WATCH_OPTIONS}

    def refuse(where: str, *names: str) -> None:
        _refuse(where, {f"--{name.replace('_', '-')}": given[name] for name in names})

    if target.startswith(FLINK):
        refuse("for flink://", "group", "lateness", "idle_after", "state_reader", "query")
        if given["bootstrap"] is None:
            refuse("for a Flink job without --bootstrap", *_OF_BROKER)
        join = join_of(given["bootstrap"], given["time"], given["kafka_config"])
        operator, ca_file, client_cert, auth_file = (given[name] for name in _OF_FLINK)
        return flink_job(target, operator, ca_file, client_cert, auth_file, join)[0]
    group, time, kafka_config = given["group"], given["time"], given["kafka_config"]
    if target.startswith(TOPIC):
        refuse("for kafka://", *_OF_FLINK, *_OF_QUERY)
        return topic_of(target, group, time, given["lateness"] or 0, given["idle_after"], kafka_config)[0]
    refuse("for a Spark query", *_OF_FLINK, *_OF_GROUP)
    if given["bootstrap"] is None:
        refuse("for a query without --bootstrap", *_OF_BROKER)
    windows = windows_of(given["state_reader"], once=True)
    broker = broker_of(given["bootstrap"], time, kafka_config)
    return _query(target, given["query"], windows, broker, remote_of(target, given["state_reader"]))[0]


def watch(watched: "Watched[Any]", options: "WatchOptions", name: str | None, base: str, *, json: bool) -> int:
    """Run the attached engine in this process."""
    from ...engine.targets.engine import WatchEngine

    def run(claim: run_directory.Claim, log: Path, say: Any, printer: SnapshotPrinter) -> int:
        return WatchEngine(claim, watched, options, say, printer.show).run()

    return run_claimed(name, base, watched.describe().description, SnapshotPrinter(json=json, once=options.once), run)


def _inputs(target: str, kafka_config: Path | None) -> list[Path]:
    """The files and directories that attaching reads, as far as they are local."""
    inputs = [] if kafka_config is None else [kafka_config]
    is_elsewhere = is_remote(target) or target.startswith((TOPIC, *FLINK))
    return inputs if is_elsewhere else [*inputs, local_path(target)]


def _refuse(where: str, options: dict[str, Any]) -> None:
    """UsageError for an option that has no effect on this kind of target."""
    for option, value in options.items():
        if value is not None:
            raise UsageError(f"{option} has no effect {where}; leave it out")


class EngineAddress(NamedTuple):
    """The address of a running engine; the engine there must have the id (None: the target was a socket's path)."""

    socket: Path
    run_id: str | None

    def client(self, *, read_only: bool) -> "Client":
        """A connection to that engine only: another one at the same address is refused."""
        from ...engine.feed.client import Client

        return Client(self.socket, run_id=self.run_id, read_only=read_only)


def engine_of(target: str) -> EngineAddress | None:
    """The running engine that the target names, as its socket's path or by its name; None: no engine."""
    path = Path(target)
    try:
        if stat.S_ISSOCK(path.stat().st_mode):
            return EngineAddress(path, None)
    except (OSError, ValueError):
        pass
    if "/" in target or path.exists() or launched() is not None:
        return None  # a viewer starts an engine only for what is none: of that name there may be others by now
    runs = [run for run in run_directory.list_runs() if run.name == target]
    return EngineAddress(runs[0].socket, runs[0].id) if runs else None


def _show_engine(engine: EngineAddress, *, once: bool, json: bool, read_only: bool) -> None:
    """Show a running engine: its screen, a summary, or its snapshots."""
    if once:
        from ...engine.feed.client import first_snapshot
        from .summary import summary

        snapshot = first_snapshot(engine.socket, run_id=engine.run_id)
        print(encode(snapshot).decode() if json else summary(snapshot))
    elif json:
        import asyncio

        asyncio.run(_follow(engine))
    elif has_terminal():
        open_screen(engine.client(read_only=read_only), "leave")
    else:
        raise UsageError("the screen needs a terminal; without one, use --once or --json")


def _watch_alerts(engine: EngineAddress, name: str, command: list[str]) -> None:
    """Run a command for each alert of a running engine, also when it is lost."""
    import asyncio

    from ...engine.feed.alert_command import AlertCommand
    from .engine_alerts import watch_alerts

    alerts = AlertCommand(command, name, lambda line: print(f"wmtop: {line}", file=sys.stderr, flush=True))

    async def watch() -> None:
        async with aclosing(engine.client(read_only=True).messages()) as messages:
            await watch_alerts(messages, alerts)

    asyncio.run(watch())


async def _follow(engine: EngineAddress) -> None:
    async with aclosing(engine.client(read_only=True).messages()) as messages:
        async for message in messages:
            if isinstance(message, Snapshot) and message.state != "starting":
                print(encode(message).decode(), flush=True)
