"""Starting an engine: in this process without a screen, or in one of its own with the screen on it."""

import os
import secrets
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
import typer

from ...engine.core.settings import Settings
from ...engine.core.snapshot import Snapshot
from ...engine.errors import RunError, UsageError
from ...engine.feed import rundir
from ...engine.feed.ring import UNBOUNDED, Bounds
from .arguments import EngineArguments, or_off
from .launch import EngineProcess, redirect_output
from .options import settings_of, window_of
from .running import has_terminal, open_screen

if TYPE_CHECKING:  # at run time only a process that runs an engine imports the pipeline
    from ...engine.pipeline.sources.base import Source


def start(source: "Source", engine: EngineArguments, *, live: bool, name: str) -> None:
    """Run an engine here (headless), or in a process of its own with the screen on it."""
    from ...engine.pipeline.custom import check_custom

    settings = settings_for(engine, live=live)
    if settings.factory is not None:
        check_custom(settings.factory)
    source.check()
    if not has_screen(engine):
        raise typer.Exit(_run_engine(source, settings, engine, name))
    show(engine, name, "ask")


def has_screen(engine: EngineArguments) -> bool:
    return not (engine.headless or engine.once or engine.json) and has_terminal()


def show(engine: EngineArguments, name: str, on_quit: Literal["ask", "stop"]) -> None:
    """Start this command's engine in a process of its own, and the screen on it."""
    show_as(engine.name or rundir.free_name(name), on_quit)


def show_as(name: str, on_quit: Literal["ask", "stop"]) -> None:
    """The same, with the engine's name."""
    arguments = [*sys.argv[1:], "--headless", "--name", name]
    process = EngineProcess(
        [*arguments, "--stop-on-eof"] if on_quit == "stop" else arguments, rundir.log_path(name), tied=on_quit == "stop"
    )
    wish = open_screen(rundir.socket_path(name), process.died, on_quit)
    if (reason := process.died()) is not None:
        raise UsageError(reason) if process.code == 2 else RunError(reason)
    if wish == "stop":
        process.stop()
    elif process.code is None:
        print(f"the engine {name} goes on: 'wmtop' shows it, 'wmtop stop {name}' stops it")


def _run_engine(source: "Source", settings: Settings, arguments: EngineArguments, base: str) -> int:
    from ...engine.pipeline.engine import Engine, EngineOptions

    options = EngineOptions(
        state_dir=arguments.state_dir,
        firings=arguments.firings,
        record=arguments.record,
        record_bounds=bounds_of(arguments.record_keep),
        once=arguments.once,
        stop_on_eof=arguments.stop_on_eof,
        master=arguments.master,
        conf=_conf(arguments.conf or []),
        packages=_listed(arguments.packages),
        jars=_listed(arguments.jars),
    )
    print_it = printer(json=arguments.json, once=arguments.once)

    def run(claim: rundir.Claim, log: Path, say: Callable[[str], None]) -> int:
        return Engine(claim, source, settings, options, log, say, print_it).run()

    return run_claimed(arguments.name, base, source.describe().description, run)


def run_claimed(
    name: str | None, base: str, description: str, run: Callable[[rundir.Claim, Path, Callable[[str], None]], int]
) -> int:
    """Run an engine in this process, under `name` or a free one made of `base`; its errors are one line each."""
    started_ms = time.time_ns() // 1_000_000
    claimed = rundir.claim(name, description, started_ms) if name else None
    with claimed or rundir.claim_free(base, description, started_ms) as claim:
        log = Path(claim.run.log)
        say = redirect_output(log)
        try:
            return run(claim, log, say)
        except (UsageError, RunError) as error:
            say(str(error))
            return 2 if isinstance(error, UsageError) else 1
        except Exception as error:
            traceback.print_exc()  # the log has our standard error
            say(f"the run failed: {told(error)}; its log is {log}")
            return 1


def bounds_of(keep: int) -> Bounds:
    """How much of a recording `--record-keep` keeps."""
    return UNBOUNDED if (kept := or_off(keep)) is None else Bounds(span_ms=kept)


def printer(*, json: bool, once: bool) -> Callable[[Snapshot, bool], None]:
    """What an engine prints of its snapshots: each as a line, or only the last, as JSON or as text.

    Where nobody reads any more (`| head -1`) the engine stops in good order.
    """
    from .summary import summary

    def show(snapshot: Snapshot, last: bool) -> None:
        try:
            if json and (last or not once):
                print(msgspec.json.encode(snapshot).decode(), flush=True)
            elif last and not json:
                print(summary(snapshot), flush=True)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if not last:
                os.kill(os.getpid(), signal.SIGTERM)

    return show


def settings_for(engine: EngineArguments, *, live: bool) -> Settings:
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


def staging(engine: EngineArguments) -> tuple[Path, bool]:
    """Where a replay stages its rows, and whether they stay: with the state, or in a temporary directory."""
    if engine.state_dir is not None:
        return engine.state_dir / "staged", True
    return Path(tempfile.gettempdir(), f"wmtop-staged-{secrets.token_hex(8)}"), False


def _conf(pairs: list[str]) -> dict[str, str]:
    for pair in pairs:
        if "=" not in pair:
            raise UsageError(f"--conf '{pair}' is not K=V, e.g. --conf spark.driver.memory=2g")
    return dict(pair.split("=", 1) for pair in pairs)


def _listed(text: str | None) -> list[str]:
    return [part for part in (text or "").split(",") if part]


def name_of(text: str) -> str:
    """An engine name made of a file or directory name."""
    kept = "".join(character if character.isascii() and character.isalnum() else "-" for character in text)
    return kept.strip("-")[:40] or "run"


def told(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
