"""The command `wmtop`: the only module that wires engine and screen together."""

import os
import secrets
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import typer
from msgspec import UNSET, UnsetType

from ..engine.core.settings import Settings
from ..engine.core.snapshot import Snapshot
from ..engine.errors import RunError, UsageError
from ..engine.feed import rundir
from ..engine.feed.client import Client, first_snapshot, request
from ..engine.feed.messages import Change, Stop
from .arguments import EngineArguments, or_off, parsed, with_engine_arguments
from .formatting import NO_DATA, clean, stamp
from .launch import EngineProcess, redirect_output
from .options import parse_duration, parse_duration_or_off, parse_speed, parse_time, settings_of, window_of

if TYPE_CHECKING:  # at run time only a process that runs an engine imports the pipeline
    from ..engine.pipeline.sources.base import Source

app = typer.Typer(
    help="top for stream watermarks: who holds event time back, why, and what more lateness would cost.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
run_app = typer.Typer(help="Start an engine on a source.", rich_markup_mode=None, no_args_is_help=False)
app.add_typer(run_app, name="run")


@run_app.callback(invoke_without_command=True)
def run_command(context: typer.Context) -> None:
    """Start an engine on a source."""
    if context.invoked_subcommand is None:
        raise UsageError("run what? 'wmtop run replay FILE… --time COL', 'run files DIR --time COL' or 'run rate'")


DEMO_NAME = "flights"


@app.callback(invoke_without_command=True)
def main_command(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="print the version")] = False
) -> None:
    """Open the screen on the running engine."""
    if version:
        from importlib.metadata import version as installed

        print(f"wmtop {installed('wmtop')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        _open_running()


@app.command()
@with_engine_arguments
def demo(
    engine: EngineArguments,
    speed: Annotated[
        float, typer.Option(parser=parsed(parse_speed), metavar="X", help="how fast (600)", show_default=False)
    ] = 600.0,
) -> None:
    """Real flights replayed through Spark, live; the engine stops when you quit."""
    if _has_screen(engine):  # the input is our own: nothing to check before the first paint
        _settings(engine, live=False)
        _show(engine, DEMO_NAME, "stop")
        return
    from .. import sample_data
    from ..engine.pipeline.sources.columns import Columns
    from ..engine.pipeline.sources.replay import Replay

    columns = Columns(
        time=sample_data.TIME,
        channel=sample_data.CHANNEL,
        arrival=sample_data.ARRIVAL,
        watermark=engine.watermark,
        marker=engine.marker,
        since_ms=parse_time(sample_data.DEMO_START),
    )
    directory, keep = _staging(engine)
    # With few rows a batch the JVM's optimising compiler costs more than it saves: it doubles the start's work.
    engine = replace(engine, conf=["spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1", *(engine.conf or [])])
    source = Replay([sample_data.flights()], columns, directory, keep=keep, speed=speed)
    _start(source, engine, live=False, name=DEMO_NAME)


@run_app.command("replay")
@with_engine_arguments
def run_replay(
    engine: EngineArguments,
    file: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Parquet, CSV or JSON lines")],
    time: Annotated[str, typer.Option(metavar="COL", help="the event time")],
    channel: Annotated[str | None, typer.Option(metavar="COL", help="the channel")] = None,
    arrival: Annotated[str | None, typer.Option(metavar="COL", help="when the record arrived")] = None,
    time_unit: Annotated[str, typer.Option(metavar="ms|s|us|ns", help="of times that are numbers")] = "ms",
    speed: Annotated[
        float | None,
        typer.Option(parser=parsed(parse_speed), metavar="X|max", help="seconds of arrival time a second (max)"),
    ] = None,
    batch_rows: Annotated[int | None, typer.Option(metavar="N", help="exactly N rows a batch: reproducible")] = None,
) -> None:
    """Replay files in the order of arrival."""
    from ..engine.pipeline.sources.columns import Columns
    from ..engine.pipeline.sources.replay import Replay

    columns = Columns(
        time=time,
        channel=channel,
        arrival=arrival,
        watermark=engine.watermark,
        marker=engine.marker,
        unit=_unit(time_unit),
    )
    directory, keep = _staging(engine)
    rows = _at_least_one("--batch-rows", batch_rows)
    source = Replay(file, columns, directory, keep=keep, speed=speed, batch_rows=rows)
    _start(source, engine, live=False, name=_name_of(file[0].name.split(".")[0]))


@run_app.command("files")
@with_engine_arguments
def run_files(
    engine: EngineArguments,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="a directory that grows")],
    time: Annotated[str, typer.Option(metavar="COL", help="the event time")],
    channel: Annotated[str | None, typer.Option(metavar="COL", help="the channel")] = None,
    time_unit: Annotated[str, typer.Option(metavar="ms|s|us|ns", help="of times that are numbers")] = "ms",
    format: Annotated[str | None, typer.Option(metavar="parquet|csv|json", help="what the files are")] = None,
) -> None:
    """Follow a directory that grows."""
    from ..engine.pipeline.sources.columns import Columns
    from ..engine.pipeline.sources.files import Files

    if format not in (None, "parquet", "csv", "json"):
        raise UsageError(f"--format '{format}' is not known: use parquet, csv or json")
    columns = Columns(
        time=time, channel=channel, watermark=engine.watermark, marker=engine.marker, unit=_unit(time_unit)
    )
    source = Files(directory, columns, as_format=format, once=engine.once)
    _start(source, engine, live=True, name=_name_of(directory.name))


@run_app.command("rate")
@with_engine_arguments
def run_rate(
    engine: EngineArguments,
    channels: Annotated[int, typer.Option(metavar="N", help="how many channels")] = 16,
    rows_per_second: Annotated[int, typer.Option(metavar="R", help="how fast")] = 1000,
    rows: Annotated[int | None, typer.Option(metavar="N", help="end after N rows")] = None,
    for_: Annotated[
        int | None, typer.Option("--for", parser=parsed(parse_duration), metavar="D", help="end after D")
    ] = None,
) -> None:
    """Synthetic records, for load tests."""
    from ..engine.pipeline.sources.rate import Rate

    if rows is not None and for_ is not None:
        raise UsageError("--rows and --for both say where to end: give one of them")
    if for_ is not None:
        rows = rows_per_second * for_ // 1000
    source = Rate(
        channels=_at_least_one("--channels", channels) or 0,
        rows_per_second=_at_least_one("--rows-per-second", rows_per_second) or 0,
        rows=_at_least_one("--rows", rows),
    )
    _start(source, engine, live=True, name="rate")


@app.command()
def runs() -> None:
    """List the running engines."""
    found = rundir.list_runs()
    if not found:
        print("no engine is running; start one with 'wmtop demo' or 'wmtop run'")
    for run in found:
        snapshot = _look(run.socket)
        level = snapshot.level.watermark_ms if snapshot else None
        known = NO_DATA if level is None else stamp(level, None)
        state = snapshot.state if snapshot else "starting"
        print(
            f"{clean(run.name)}  {clean(run.description)}  since {stamp(run.started_ms, None)}  level {known}  {state}"
        )


@app.command()
def stop(name: Annotated[str, typer.Argument(metavar="NAME", help="as 'wmtop runs' lists it")]) -> None:
    """Stop a running engine."""
    run = rundir.find_run(name)
    reply = request(run.socket, Stop(id=1))
    if not reply.ok:
        raise RunError(reply.text)
    deadline = time.monotonic() + 60
    while any(other.pid == run.pid for other in rundir.list_runs()):
        if time.monotonic() > deadline:
            raise RunError(f"the engine {name} (process {run.pid}) does not stop; its log is {run.log}")
        time.sleep(0.1)
    print(f"stopped {name}")


@app.command("set")
def set_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="as 'wmtop runs' lists it")],
    lateness: Annotated[
        int | None, typer.Option(parser=parsed(parse_duration), metavar="D", help="how late records may be")
    ] = None,
    idle_after: Annotated[
        str | None, typer.Option(metavar="D|off", help="when a quiet channel stops holding the level")
    ] = None,
) -> None:
    """Change settings of a running engine; they take effect at its next emit."""
    if lateness is None and idle_after is None:
        raise UsageError("nothing to set: give --lateness D or --idle-after D|off, e.g. --lateness 45m")
    idle: int | UnsetType | None = UNSET
    if idle_after is not None:
        try:
            idle = parse_duration_or_off(idle_after)
        except ValueError as error:
            raise UsageError(f"--idle-after: {error}") from None
    change = Change(id=1, lateness_ms=UNSET if lateness is None else lateness, idle_after_ms=idle, who="wmtop set")
    reply = request(rundir.find_run(name).socket, change)
    if not reply.ok:
        raise RunError(reply.text)
    print(f"{name}: {reply.text}")


def _start(source: "Source", engine: EngineArguments, *, live: bool, name: str) -> None:
    """Run an engine here (headless), or in a process of its own with the screen on it."""
    from ..engine.pipeline.custom import check_custom

    settings = _settings(engine, live=live)
    if settings.factory is not None:
        check_custom(settings.factory)
    source.check()
    if not _has_screen(engine):
        raise typer.Exit(_run_engine(source, settings, engine, name))
    _show(engine, name, "ask")


def _has_screen(engine: EngineArguments) -> bool:
    return not (engine.headless or engine.once or engine.json) and sys.stdout.isatty()


def _show(engine: EngineArguments, name: str, on_quit: Literal["ask", "stop"]) -> None:
    """Start this command's engine in a process of its own, and the screen on it."""
    name = engine.name or rundir.free_name(name)
    arguments = [*sys.argv[1:], "--headless", "--name", name]
    process = EngineProcess(
        [*arguments, "--stop-on-eof"] if on_quit == "stop" else arguments, rundir.log_path(name), tied=on_quit == "stop"
    )
    wish = _open_screen(rundir.socket_path(name), process.died, on_quit)
    if (reason := process.died()) is not None:
        raise UsageError(reason) if process.code == 2 else RunError(reason)
    if wish == "stop":
        process.stop()
    elif process.code is None:
        print(f"the engine {name} goes on: 'wmtop' shows it, 'wmtop stop {name}' stops it")


def _run_engine(source: "Source", settings: Settings, arguments: EngineArguments, base: str) -> int:
    from ..engine.pipeline.engine import Engine, EngineOptions

    started_ms = time.time_ns() // 1_000_000
    description = source.describe().description
    claimed = rundir.claim(arguments.name, description, started_ms) if arguments.name else None
    with claimed or rundir.claim_free(base, description, started_ms) as claim:
        log = Path(claim.run.log)
        options = EngineOptions(
            state_dir=arguments.state_dir,
            firings=arguments.firings,
            record=arguments.record,
            once=arguments.once,
            stop_on_eof=arguments.stop_on_eof,
            master=arguments.master,
            conf=_conf(arguments.conf or []),
            packages=_listed(arguments.packages),
            jars=_listed(arguments.jars),
        )
        say = redirect_output(log)
        try:
            return Engine(claim, source, settings, options, log, say, _printer(arguments)).run()
        except (UsageError, RunError) as error:
            say(str(error))
            return 2 if isinstance(error, UsageError) else 1
        except Exception as error:
            traceback.print_exc()  # the log has our standard error
            say(f"the run failed: {_told(error)}; its log is {log}")
            return 1


def _printer(arguments: EngineArguments) -> Callable[[Snapshot, bool], None]:
    """What an engine prints of its snapshots: each as a line, or only the last, as JSON or as text."""
    from .summary import summary

    def show(snapshot: Snapshot, last: bool) -> None:
        if arguments.json and (last or not arguments.once):
            print(msgspec.json.encode(snapshot).decode(), flush=True)
        elif last and not arguments.json:
            print(summary(snapshot), flush=True)

    return show


def _open_running() -> None:
    found = rundir.list_runs()
    if not found:
        print("no engine is running; start one: 'wmtop demo' (real flights) or 'wmtop run replay FILE --time COL'")
        return
    if len(found) > 1:
        name = _choose([run.name for run in found])
        found = [run for run in found if run.name == name]
    _open_screen(found[0].socket, None, "leave")


def _choose(names: list[str]) -> str:
    if not sys.stdin.isatty():
        raise UsageError(f"several engines are running ({', '.join(names)}): run wmtop in a terminal to choose one")
    for number, name in enumerate(names, 1):
        print(f"{number}  {clean(name)}")
    answer = input("which engine? ").strip()
    if answer.isdigit() and 1 <= int(answer) <= len(names):
        return names[int(answer) - 1]
    if answer in names:
        return answer
    raise UsageError(f"'{answer}' is none of them: give a number from 1 to {len(names)} or a name")


def _open_screen(
    path: Path, alive: Callable[[], str | None] | None, on_quit: Literal["ask", "stop", "leave"]
) -> Literal["stop", "leave"]:
    """Show the engine until the user quits; what is to become of it."""
    from .app import WmtopApp

    return "stop" if WmtopApp(Client(path, alive=alive), on_quit=on_quit).run() == "stop" else "leave"


def _look(path: Path) -> Snapshot | None:
    try:
        return first_snapshot(path, 2)
    except RunError:
        return None


def _settings(engine: EngineArguments, *, live: bool) -> Settings:
    guard = engine.future_guard
    return settings_of(
        strategies=engine.strategy or [],
        marker=engine.marker,
        smooth=engine.smooth,
        watermark=engine.watermark,
        lateness_ms=engine.lateness,
        idle_after_ms=or_off(engine.idle_after),
        emit_every_ms=engine.emit_every,
        window=window_of(engine.window, engine.slide, engine.offset, engine.session),
        allowed_lateness_ms=engine.allowed_lateness,
        future_guard_ms=(300_000 if live else None) if guard is None else or_off(guard),
        subtasks=engine.subtasks,
    )


def _staging(engine: EngineArguments) -> tuple[Path, bool]:
    """Where a replay stages its rows, and whether they stay: with the state, or in a temporary directory."""
    if engine.state_dir is not None:
        return engine.state_dir / "staged", True
    return Path(tempfile.gettempdir(), f"wmtop-staged-{secrets.token_hex(8)}"), False


def _unit(text: str) -> Literal["ms", "s", "us", "ns"]:
    if text not in ("ms", "s", "us", "ns"):
        raise UsageError(f"--time-unit '{text}' is not known: use ms, s, us or ns")
    return text


def _at_least_one(option: str, value: int | None) -> int | None:
    if value is not None and value < 1:
        raise UsageError(f"{option} {value}: must be at least 1, e.g. {option} 1000")
    return value


def _conf(pairs: list[str]) -> dict[str, str]:
    for pair in pairs:
        if "=" not in pair:
            raise UsageError(f"--conf '{pair}' is not K=V, e.g. --conf spark.driver.memory=2g")
    return dict(pair.split("=", 1) for pair in pairs)


def _listed(text: str | None) -> list[str]:
    return [part for part in (text or "").split(",") if part]


def _name_of(text: str) -> str:
    """An engine name made of a file or directory name."""
    kept = "".join(character if character.isascii() and character.isalnum() else "-" for character in text)
    return kept.strip("-")[:40] or "run"


def main() -> None:
    """Run the command line: a wrong option or input is one line and exit code 2, a failed run 1."""
    sys.exit(_run_command())


def _run_command() -> int:
    try:
        code = app(standalone_mode=False)
    except typer.TyperException as error:
        return _say(" ".join(error.format_message().split()), 2)
    except UsageError as error:
        return _say(str(error), 2)
    except RunError as error:
        return _say(str(error), 1)
    except (KeyboardInterrupt, typer.Abort):
        return _say("interrupted", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except Exception as error:
        if os.environ.get("WMTOP_TRACE"):
            raise
        return _say(f"unexpected {type(error).__name__}: {_told(error)} (WMTOP_TRACE=1 shows where)", 1)
    return code if isinstance(code, int) else 0


def _told(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _say(line: str, code: int) -> int:
    print(f"wmtop: {line}", file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
