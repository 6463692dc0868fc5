"""`wmtop attach`: watch what something else runs, or list what can be watched."""

import asyncio
import stat
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from ...engine.core.snapshot import Snapshot
from ...engine.errors import UsageError
from ...engine.feed import rundir
from ...engine.feed.client import Client, first_snapshot
from ..formatting import DAY, clean
from .arguments import duration_option, off_option
from .engines import bounds_of, printer, run_claimed, show_as
from .listing import list_all, list_inside
from .post_mortem import finished_log, show_post_mortem
from .running import has_terminal, open_screen
from .summary import summary
from .targets import (
    READERS,
    TOPIC,
    broker_of,
    is_log,
    local_path,
    nothing_there,
    published_query,
    query_of_checkpoint,
    query_of_log,
    topic_of,
)

if TYPE_CHECKING:  # what looks is imported by who looks
    from ...engine.taps.broker import BrokerTap
    from ...engine.taps.engine import Watched, WatchOptions
    from ...engine.taps.query import QueryWatch


def attach(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[TARGET]", help="a run, a checkpoint, an event log, a published query, kafka://BOOTSTRAP/TOPIC"
        ),
    ] = None,
    group: Annotated[str | None, typer.Option(metavar="G", help="kafka: the consumer group that is watched")] = None,
    bootstrap: Annotated[
        str | None, typer.Option(metavar="B", help="a query: the Kafka cluster that it reads from")
    ] = None,
    time: Annotated[
        str | None, typer.Option(metavar="PATH", help="kafka: event time, a field of a JSON value (the record's own)")
    ] = None,
    lateness: Annotated[
        int | None, duration_option("kafka: the lateness that the watermarks are drawn with (0s)")
    ] = None,
    idle_after: Annotated[
        int | None, off_option("kafka: when a partition without records stops holding the level (2h)")
    ] = None,
    kafka_config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="kafka: client properties: security and the like")
    ] = None,
    query: Annotated[
        str | None, typer.Option(metavar="NAME", help="event log, published: which of its queries, by name or id")
    ] = None,
    state_reader: Annotated[
        str | None, typer.Option(metavar="none|files|spark", help="a query: who reads its state (files)")
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="a screen that changes nothing")] = False,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="the name of what watches")] = None,
    record: Annotated[Path | None, typer.Option(metavar="FILE", help="record every snapshot")] = None,
    record_keep: Annotated[int, off_option("how much of a recording is kept (24h, at most 2 GiB; off: all)")] = DAY,
    headless: Annotated[bool, typer.Option("--headless", help="no screen")] = False,
    once: Annotated[bool, typer.Option("--once", help="one look, print the summary, exit")] = False,
    json: Annotated[bool, typer.Option("--json", help="print snapshots as JSON lines")] = False,
    stop_on_eof: Annotated[bool, typer.Option("--stop-on-eof", hidden=True)] = False,
) -> None:
    """Watch what something else runs; without TARGET: list what can be watched."""
    of_broker = {"--time": time, "--kafka-config": kafka_config}
    of_group = {"--group": group, "--lateness": lateness, "--idle-after": idle_after}
    of_query = {"--state-reader": state_reader, "--bootstrap": bootstrap, "--query": query}
    of_watching = {"--name": name, "--record": record, "--headless": headless or None}
    if target is None:
        _refuse("without TARGET", of_group | of_broker | of_query | of_watching)
        list_all()
        return
    if (socket := socket_of(target)) is not None:
        _refuse("for an engine that runs", of_group | of_broker | of_query | of_watching)
        _show_engine(socket, once=once, json=json, read_only=read_only)
        return
    if target.startswith(TOPIC):
        _refuse("for kafka://", of_query)
        watched, base = topic_of(target, group, time, lateness or 0, idle_after, kafka_config)
    else:
        _refuse("for a query of Spark", of_group)
        if bootstrap is None:
            _refuse("for a query without --bootstrap", of_broker)
        if not (headless or once or json) and list_inside(local_path(target)):
            return
        if not (headless or stop_on_eof) and (finished := finished_log(target)) is not None:
            _refuse("for a finished event log", of_broker | {"--state-reader": state_reader, "--bootstrap": bootstrap})
            show_post_mortem(local_path(target), finished, query, name, record, once=once, json=json)
            return
        watched, base = _query(target, query, state_reader, broker_of(bootstrap, time, kafka_config))
    if not (headless or once or json) and has_terminal():
        show_as(name or rundir.free_name(base), "stop")
        return
    from ...engine.taps.engine import WatchOptions

    options = WatchOptions(record=record, record_bounds=bounds_of(record_keep), once=once, stop_on_eof=stop_on_eof)
    raise typer.Exit(_watch(watched, options, name, base, json=json))


def _query(
    target: str, wanted: str | None, state_reader: str | None, broker: "BrokerTap | None"
) -> "tuple[QueryWatch, str]":
    """A query of Spark, by its checkpoint, its event log or what its job publishes."""
    reader = state_reader or "files"
    if reader not in READERS:
        raise UsageError(f"--state-reader '{clean(reader)}' is not known: use none, files or spark")
    path = local_path(target)
    if not path.exists():
        published = published_query(target, wanted, reader, broker)
        if published is None:
            raise UsageError(nothing_there(target))
        return published
    if is_log(path):
        return query_of_log(path, wanted, reader, broker)
    _refuse("for a checkpoint, which has one query", {"--query": wanted})
    return query_of_checkpoint(path, reader, broker)


def _watch(watched: "Watched[Any]", options: "WatchOptions", name: str | None, base: str, *, json: bool) -> int:
    """Run the engine that looks in this process."""
    from ...engine.taps.engine import WatchEngine

    print_it = printer(json=json, once=options.once)

    def run(claim: rundir.Claim, log: Path, say: Any) -> int:
        return WatchEngine(claim, watched, options, say, print_it).run()

    return run_claimed(name, base, watched.describe().description, run)


def _refuse(where: str, options: dict[str, Any]) -> None:
    """UsageError where an option is given that means nothing there."""
    for option, value in options.items():
        if value is not None:
            raise UsageError(f"{option} means nothing {where}: leave it out")


def socket_of(target: str) -> Path | None:
    """The socket of a running engine that the target names, by itself or by the engine's name; None: no engine."""
    path = Path(target)
    try:
        if stat.S_ISSOCK(path.stat().st_mode):
            return path
    except (OSError, ValueError):
        pass
    if "/" in target or path.exists():
        return None
    return next((run.socket for run in rundir.list_runs() if run.name == target), None)


def _show_engine(socket: Path, *, once: bool, json: bool, read_only: bool) -> None:
    """An engine that runs already: its screen, or what it says."""
    if once:
        snapshot = first_snapshot(socket)
        print(msgspec.json.encode(snapshot).decode() if json else summary(snapshot))
    elif json:
        asyncio.run(_follow(socket))
    elif has_terminal():
        open_screen(socket, None, "leave", read_only=read_only)
    else:
        raise UsageError("the screen needs a terminal; without one: --once or --json")


async def _follow(socket: Path) -> None:
    async with aclosing(Client(socket).messages()) as messages:
        async for message in messages:
            if isinstance(message, Snapshot) and message.state != "starting":
                print(msgspec.json.encode(message).decode(), flush=True)
