"""`wmtop attach`: attach to an existing query, topic or engine, or list what can be attached to."""

from contextlib import aclosing, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec.structs import replace

from ...engine.feed import run_directory
from ...engine.feed.alert_command import parse_command
from ...engine.feed.messages import encode
from ...engine.snapshot import Snapshot
from ...engine.system.errors import UsageError
from ...engine.system.files import check_outputs
from ...engine.targets.own import WHAT, is_path, is_remote, local_path
from ...engine.targets.target import NO_OPTIONS, Pace, TargetOptions
from ...engine.text.formatting import DAY
from .engines import bounds_of, run_claimed, show, stop_on_eof
from .names import target_argument
from .options import (
    TARGET_OPTIONS,
    Force,
    Headless,
    OnAlert,
    Record,
    RecordKeep,
    VerdictAfter,
    flag,
    option,
    spark_windows,
    with_target_options,
)
from .output import SnapshotPrinter
from .process import inform, launched
from .recordings import progress_bar, show_post_mortem
from .running import has_terminal, list_all, list_inside, open_screen
from .targets import free_name, member_of

if TYPE_CHECKING:  # a target's reader, or asyncio, is imported by the command that uses it
    from ...engine.targets.own import RunningEngine
    from ...engine.targets.target import Target


@with_target_options(*TARGET_OPTIONS)
def attach(
    target: Annotated[str | None, target_argument(WHAT, "[TARGET]")] = None,
    options: TargetOptions = NO_OPTIONS,
    read_only: Annotated[bool, flag("--read-only", "disable all keys that change anything")] = False,
    name: Annotated[str | None, option("NAME", "the name of this attached run")] = None,
    record: Record = None,
    record_keep: RecordKeep = DAY,
    verdict_after: VerdictAfter = None,
    on_alert: OnAlert = None,
    force: Force = False,
    headless: Headless = False,
    once: Annotated[bool, flag("--once", "print one summary and exit")] = False,
    json: Annotated[bool, flag("--json", "print snapshots as JSON lines")] = False,
) -> None:
    """Attach to an existing query, Flink job, topic or engine; without TARGET: list what can be attached to."""
    headless = headless or launched() is not None
    alert_command = parse_command(on_alert)
    alone = {"--name": name, "--record": record, "--verdict-after": verdict_after}
    if target is None:
        options.only((), "without TARGET")
        _refuse("without TARGET", {**alone, "--on-alert": on_alert, "--headless": headless or None})
        list_all()
        return
    from ...engine.targets.open import open_target
    from ...engine.targets.own import Recording, RunningEngine
    from ...engine.targets.spark.kind import FinishedLog
    from ...engine.targets.target import AttachedTarget

    member = member_of(target)
    on_screen = not (headless or once or json)
    is_local = is_path(member.target) and not is_remote(member.target)
    if on_screen and is_local and list_inside(local_path(member.target)):
        return
    options = replace(
        options.over(member.options),
        spark_reader=partial(spark_windows, waits=once),
        log_progress=None if headless else progress_bar,
    )
    opened = open_target(member.target, options, runs=launched() is None, say=inform)
    if isinstance(opened, RunningEngine):
        options.only((), "for a running engine")
        _refuse("for a running engine", alone)
        if headless and not (once or json):
            _watch_alerts(opened, target, alert_command)
            return
        if alert_command is not None:
            raise UsageError(
                "--on-alert for a running engine needs --headless; its own alerts: wmtop run … --on-alert CMD"
            )
        _show_engine(opened, once=once, json=json, read_only=read_only)
        return
    name = name or free_name(member)
    if isinstance(opened, Recording):
        raise UsageError(f"{opened.path} is a recording: show it with 'wmtop replay {opened.path}'")
    if isinstance(opened, FinishedLog):
        options.refuse(("time", "kafka_config", "state_reader", "bootstrap"), "for a finished event log")
        _refuse("for a finished event log", {"--on-alert": on_alert})
        show_post_mortem(opened, name, record, once=once, json=json, force=force)
        return
    assert isinstance(opened, AttachedTarget)
    inputs = [] if options.kafka_config is None else [options.kafka_config]
    inputs += [local_path(member.target)] if is_local else []
    check_outputs({"--record": record}, inputs=inputs, force=force)
    if on_screen and has_terminal():
        opened.target.close()  # the engine that is started now opens its own
        show(name, opened.name, "stop", read_only=read_only)
        return
    code = watch(
        opened.target, name, opened.name, record, record_keep, verdict_after, alert_command,
        force=force, once=once, json=json,
    )  # fmt: skip
    raise typer.Exit(code)


def watch(
    target: "Target[Any]",
    name: str | None,
    base: str,
    record: Path | None,
    record_keep: int,
    verdict_after_ms: int | None = None,
    on_alert: list[str] | None = None,
    *,
    force: bool,
    once: bool = False,
    json: bool = False,
) -> int:
    """Run an engine that only watches in this process, under `name` or a free one made of `base`; its exit code."""
    from ...engine.targets.watch_engine import WatchEngine, WatchOptions

    options = WatchOptions(
        record=record,
        record_bounds=bounds_of(record_keep),
        verdict_after_ms=verdict_after_ms,
        on_alert=on_alert,
        force=force,
        once=once,
        stop_on_eof=stop_on_eof(),
    )

    def run(claim: run_directory.Claim, log: Path, say: Any, printer: SnapshotPrinter) -> int:
        return WatchEngine(claim, target, options, say, printer.show).run()

    return run_claimed(name, base, target.describe().description, SnapshotPrinter(json=json, once=once), run)


def _refuse(where: str, options: dict[str, Any]) -> None:
    """UsageError for an option that has no effect on this kind of target."""
    for name, value in options.items():
        if value is not None:
            raise UsageError(f"{name} has no effect {where}; leave it out")


def _show_engine(engine: "RunningEngine", *, once: bool, json: bool, read_only: bool) -> None:
    """Show a running engine: its screen, a summary, or its snapshots."""
    if once:
        from ...engine.feed.client import first_snapshot
        from ..words.summary import summary

        snapshot = first_snapshot(engine.socket, run_id=engine.run_id)
        print(encode(snapshot).decode() if json else summary(snapshot))
    elif json:
        with closing(engine.follow(engine.name, Pace())) as messages:
            for message in messages:
                if isinstance(message, Snapshot) and message.state != "starting":
                    print(encode(message).decode(), flush=True)
    elif has_terminal():
        open_screen(engine.client(read_only=read_only), "leave")
    else:
        raise UsageError("the screen needs a terminal; without one, use --once or --json")


def _watch_alerts(engine: "RunningEngine", name: str, command: list[str] | None) -> None:
    """Run a command for each alert of a running engine, also when it is lost."""
    if command is None:
        raise UsageError("--headless for a running engine needs --on-alert CMD (or --json)")
    import asyncio

    from ...engine.feed.alert_command import AlertCommand
    from .engines import watch_alerts

    alerts = AlertCommand(command, name, inform)

    async def follow() -> None:
        async with aclosing(engine.client(read_only=True).messages()) as messages:
            await watch_alerts(messages, alerts)

    asyncio.run(follow())
