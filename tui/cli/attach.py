"""`wmtop attach`: watch what something else runs, or list what can be watched."""

import asyncio
import shlex
import stat
import time
from contextlib import aclosing
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from ...engine.core.snapshot import Snapshot
from ...engine.errors import UsageError
from ...engine.feed import rundir
from ...engine.feed.client import Client, first_snapshot
from ..formatting import DAY, clean, duration
from .arguments import DEFAULT_IDLE_AFTER_MS, duration_option, off_option, or_off
from .engines import bounds_of, name_of, printer, run_claimed, show_as
from .kafka import kafka_config_of
from .running import has_terminal, lines_of_runs, open_screen
from .summary import summary

if TYPE_CHECKING:  # what looks is imported by who looks
    from ...engine.json_path import JsonPath
    from ...engine.taps.broker import BrokerTap
    from ...engine.taps.consumer import TopicWatch
    from ...engine.taps.engine import Watched, WatchOptions
    from ...engine.taps.query import QueryWatch

_TOPIC = "kafka://"
_MOST_LISTED = 20
_ATTACHABLE = ("checkpoint",)
"""What of all that is found can be a target."""
_WHAT = "a run, a checkpoint directory or kafka://BOOTSTRAP/TOPIC"
_LISTS = "'wmtop attach' lists what can be watched"


def attach(
    target: Annotated[
        str | None, typer.Argument(metavar="[TARGET]", help="a run, a socket, a checkpoint, kafka://BOOTSTRAP/TOPIC")
    ] = None,
    group: Annotated[str | None, typer.Option(metavar="G", help="kafka: the consumer group that is watched")] = None,
    bootstrap: Annotated[
        str | None, typer.Option(metavar="B", help="checkpoint: the Kafka cluster that the query reads from")
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
    state_reader: Annotated[
        str | None, typer.Option(metavar="none|files", help="checkpoint: whether its state is read (files)")
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
    of_checkpoint = {"--state-reader": state_reader, "--bootstrap": bootstrap}
    of_watching = {"--name": name, "--record": record, "--headless": headless or None}
    if target is None:
        _refuse("without TARGET", of_group | of_broker | of_checkpoint | of_watching)
        _list()
        return
    if (socket := socket_of(target)) is not None:
        _refuse("for an engine that runs", of_group | of_broker | of_checkpoint | of_watching)
        _show_engine(socket, once=once, json=json, read_only=read_only)
        return
    if target.startswith(_TOPIC):
        _refuse("for kafka://", of_checkpoint)
        watched, base = _topic(target, group, time, lateness or 0, idle_after, kafka_config)
    else:
        _refuse("for a checkpoint", of_group)
        if bootstrap is None:
            _refuse("for a checkpoint without --bootstrap", of_broker)
        watched, base = _query(target, state_reader or "files", bootstrap, time, kafka_config)
    if not (headless or once or json) and has_terminal():
        show_as(name or rundir.free_name(base), "stop")
        return
    from ...engine.taps.engine import WatchOptions

    options = WatchOptions(record=record, record_bounds=bounds_of(record_keep), once=once, stop_on_eof=stop_on_eof)
    raise typer.Exit(_watch(watched, options, name, base, json=json))


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


def _query(
    target: str, state_reader: str, bootstrap: str | None, time: str | None, kafka_config: Path | None
) -> "tuple[QueryWatch, str]":
    from ...engine.taps.checkpoint import check
    from ...engine.taps.query import QueryWatch

    if state_reader not in ("none", "files"):
        raise UsageError(f"--state-reader '{state_reader}' is not known: use none or files")
    local = target.removeprefix("file://")
    if "://" in local:
        raise UsageError(f"{clean(target)} is not on a file system of this machine: mount it, or copy it here")
    path = Path(local)
    if not path.exists():
        raise UsageError(nothing_there(local))
    check(path)  # a wrong directory is told before there is a screen
    broker = None if bootstrap is None else _broker(bootstrap, time, kafka_config)
    return QueryWatch(path, state=state_reader == "files", broker=broker), name_of(_known_as(path))


def _broker(bootstrap: str, time: str | None, kafka_config: Path | None) -> "BrokerTap":
    from ...engine.taps.broker import BrokerTap

    return BrokerTap(kafka_config_of(bootstrap, kafka_config), _path_of(time))


def _path_of(time: str | None) -> "JsonPath | None":
    """Where event time is: a field of the value, None for the record's own."""
    from ...engine.json_path import parse_json_path

    return None if time in (None, "timestamp") else parse_json_path(time, "--time")


def _known_as(path: Path) -> str:
    """What a checkpoint is called: many are named just that, and what they belong to is the directory above."""
    whole = path.absolute()
    return whole.parent.name if whole.name.strip("_").startswith(("checkpoint", "chk")) else whole.name


def _topic(
    target: str, group: str | None, time: str | None, lateness_ms: int, idle_after: int | None, file: Path | None
) -> "tuple[TopicWatch, str]":
    from ...engine.taps.consumer import TopicWatch

    bootstrap, _, topic = target.removeprefix(_TOPIC).partition("/")
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


def nothing_there(target: str) -> str:
    """What to say of a target that is nothing, with near ones."""
    from ...engine.taps.discover import discover

    path = Path(target)
    runs = {run.name: run.name for run in rundir.list_runs()}
    try:
        beside = {entry.name: str(path.parent / entry.name) for entry in path.parent.iterdir() if entry.is_dir()}
    except OSError:
        beside = {}
    found = {_known_as(one.path): str(one.path) for one in discover([Path.cwd()])}
    known = beside if "/" in target else {**beside, **found, **runs}
    near = [known[name] for name in get_close_matches(path.name, known, 3)]
    hint = f"did you mean {' or '.join(map(clean, near))}?" if near else f"give {_WHAT}; {_LISTS}"
    return f"there is no {'directory' if '/' in target else 'run or directory'} {clean(target)}: {hint}"


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


def _list() -> None:
    """Running engines, and what is found on disk here and in the temporary directory."""
    from ...engine.taps.discover import discover

    lines = lines_of_runs()
    if lines:
        print("\n".join(["running engines: wmtop attach NAME", *(f"  {line}" for line in lines)]))
    found = [one for one in discover([Path.cwd(), Path("/tmp")]) if one.kind in _ATTACHABLE]
    now_ms = time.time_ns() // 1_000_000
    for kind in _ATTACHABLE:
        of_kind = [one for one in found if one.kind == kind]
        if of_kind:
            print(f"{kind}s of Spark, here and in /tmp: wmtop attach PATH")
        for one in of_kind[:_MOST_LISTED]:
            age = duration(max(now_ms - one.changed_ms, 0))
            print(f"  {clean(shlex.quote(str(one.path)))}  changed {age} ago")
        if len(of_kind) > _MOST_LISTED:
            print(f"  and {len(of_kind) - _MOST_LISTED:,} older ones")
    if not lines and not found:
        print(f"nothing is running, and no checkpoint was found here or in /tmp: give {_WHAT}")
