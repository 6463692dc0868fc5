"""Runs an engine in this process until it ends or is stopped, with its alerts."""

import asyncio
import logging
import os
import sys
import tempfile
import time
import traceback
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from ...engine.feed import run_directory
from ...engine.feed.alert_command import AlertCommand, parse_command
from ...engine.feed.messages import FromEngine
from ...engine.feed.recording_writer import UNBOUNDED, Bounds
from ...engine.snapshot import Note, Snapshot
from ...engine.system.errors import RunError, UsageError, first_line
from ...engine.system.files import check_outputs
from ...engine.verdict.history import LOST_AFTER_MS
from ...engine.watermarks.settings import Settings
from ..words.notes import note_text
from .launch import EngineProcess, launched, redirect_output
from .options import EngineArguments, or_off, settings_of
from .output import SnapshotPrinter
from .running import has_terminal, open_screen

if TYPE_CHECKING:  # at run time only a process that runs an engine imports the pipeline
    from ...engine.run.sources.base import Source

_log = logging.getLogger("wmtop.run")
_log.addHandler(logging.NullHandler())
_LOOK_S = 1.0


async def watch_alerts(messages: AsyncIterator[FromEngine], alerts: AlertCommand) -> None:
    """Run the command for each alert until the engine stops; RunError when the engine is lost, after its alert."""
    last: Snapshot | None = None
    heard_s = time.monotonic()
    coming: asyncio.Task[FromEngine] | None = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(anext(messages))
            done, _ = await asyncio.wait({coming}, timeout=_LOOK_S)
            if not done:
                silent_ms = round(1_000 * (time.monotonic() - heard_s))
                if (
                    last is not None
                    and last.state not in ("starting", "ended", "failed")
                    and silent_ms >= LOST_AFTER_MS
                ):
                    # A suspended or hanging engine sends nothing, but its connection stays open.
                    alerts.lose(_now_ms(), silent_ms=silent_ms)
                continue
            message, coming = coming.result(), None
            if isinstance(message, Snapshot):
                last, heard_s = message, time.monotonic()
                alerts.see(message)
    except StopAsyncIteration:
        return
    except RunError as error:
        alerts.lose(_now_ms(), first_line(str(error)))
        raise
    finally:
        if coming is not None:
            coming.cancel()
        await asyncio.to_thread(alerts.close)


def start(source: "Source", engine: EngineArguments, *, live: bool, name: str, inputs: Sequence[Path] = ()) -> None:
    """Run an engine here (headless), or in a process of its own with the screen on it.

    UsageError if an output file exists or is one of the `inputs` (files and directories that the source reads).
    """
    from ...engine.run.row_groups import check_custom
    from ...engine.run.sources.base import RecordColumns

    settings = settings_of(engine, live=live)
    check_engine_outputs(engine, inputs)
    if settings.factory is not None:
        check_custom(settings.factory)
    source.more = RecordColumns(whole=engine.late_output is not None, explain=explained_columns(engine.explain))
    source.check()
    if not has_screen(engine):
        raise typer.Exit(_run_engine(source, settings, engine, name))
    show(engine.name, name, "ask")


def command_of(on_alert: str | None) -> list[str] | None:
    """The argument vector of `--on-alert`; UsageError where it cannot be run."""
    return None if on_alert is None else parse_command(on_alert)


def check_engine_outputs(engine: EngineArguments, inputs: Sequence[Path]) -> None:
    """UsageError if `--record` or `--firings` would overwrite a file, or `--on-alert` cannot be run; files of a resumed
    run are continued.
    """
    from ...engine.system.files import own_files, own_outputs

    command_of(engine.on_alert)
    outputs = {"--record": engine.record, "--firings": engine.firings}
    state = own_files(engine.state_dir)
    if engine.late_output is not None:
        from ...engine.run.late_output import check_late_output

        check_late_output(engine.late_output, inputs=[*inputs, *state])
    check_outputs(outputs, inputs=[*inputs, *state], force=engine.force, own=own_outputs(engine.state_dir))


def explained_columns(text: str | None) -> tuple[str, ...]:
    """The columns of `--explain`, each once; UsageError if there are too many or none."""
    from ...engine.watermarks.explain import MAX_COLUMNS

    if text is None:
        return ()
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise UsageError(f"--explain '{text}' names no column, e.g. --explain device,firmware")
    if len(names) > MAX_COLUMNS:
        raise UsageError(f"--explain names {len(names)} columns; give at most {MAX_COLUMNS}")
    return names


def has_screen(engine: EngineArguments) -> bool:
    return not (engine.headless or engine.once or engine.json) and has_terminal()


def show(name: str | None, base: str, on_quit: Literal["ask", "stop"], *, read_only: bool = False) -> None:
    """Start this command's engine in a process of its own, under `name` or a free one made of `base`, with the screen.

    The name is taken here and passed on, so that two commands at the same moment get two names, and the screen reads
    only the stream of its own engine.
    """
    claim = _claim(name, base, base)
    run = claim.run
    try:
        process = EngineProcess(sys.argv[1:], claim, tied=on_quit == "stop")
    except OSError as error:
        claim.release()
        raise RunError(f"the engine cannot be started: {first_line(error)}") from error
    from ...engine.feed.client import Client

    client = Client(run.socket, alive=process.died, run_id=run.id, read_only=read_only)
    proposed = open_screen(client, on_quit)
    if (reason := process.died()) is not None:
        raise UsageError(reason) if process.code == 2 else RunError(reason)
    if proposed == "stop":
        process.stop()
    elif process.code is None:
        print(f"the engine {run.name} keeps running: 'wmtop' shows it, 'wmtop stop {run.name}' stops it")


def _run_engine(source: "Source", settings: Settings, arguments: EngineArguments, base: str) -> int:
    from ...engine.run.engine import Engine, EngineOptions

    options = EngineOptions(
        state_dir=arguments.state_dir,
        firings=arguments.firings,
        late_output=arguments.late_output,
        record=arguments.record,
        record_bounds=bounds_of(arguments.record_keep),
        verdict_after_ms=arguments.verdict_after,
        on_alert=command_of(arguments.on_alert),
        force=arguments.force,
        once=arguments.once,
        stop_on_eof=stop_on_eof(),
        master=arguments.master,
        conf=_conf(arguments.conf or []),
        packages=_listed(arguments.packages),
        jars=_listed(arguments.jars),
    )

    def run(claim: run_directory.Claim, log: Path, say: Callable[[str], None], printer: SnapshotPrinter) -> int:
        def on_note(note: Note) -> None:
            say(note_text(note))

        return Engine(claim, source, settings, options, log, say, printer.show, on_note).run()

    printer = SnapshotPrinter(json=arguments.json, once=arguments.once)
    return run_claimed(arguments.name, base, source.describe().description, printer, run)


def run_claimed(
    name: str | None,
    base: str,
    description: str,
    printer: SnapshotPrinter,
    run: Callable[[run_directory.Claim, Path, Callable[[str], None], SnapshotPrinter], int],
) -> int:
    """Run an engine in this process, under `name` or a free one derived from `base`; prints its errors, one
    line each.
    """
    with _claim(name, base, description) as claim:
        log = Path(claim.run.log)
        terminal = sys.stderr.isatty()
        errors = redirect_output(log)
        write = printer.show_progress(errors, terminal=terminal)

        def say(line: str) -> None:
            write(f"wmtop: {line}\n".encode())

        _log.info("engine %s starts: %s; its log is %s", claim.run.name, description, log)
        try:
            code = run(claim, log, say, printer)
        except (UsageError, RunError) as error:
            say(str(error))
            code = 2 if isinstance(error, UsageError) else 1
        except Exception as error:
            traceback.print_exc()  # the log has our standard error
            _log.exception("engine %s failed; its log is %s", claim.run.name, log)
            say(f"the run failed: {first_line(error)}; its log is {log}")
            code = 1
        except SystemExit:
            errors.flush()
            raise
    # Only now, when the engine is gone and its name is free: nothing but this process waits for a reader.
    failed = printer.close(say)
    errors.flush()
    return code or failed


def _claim(name: str | None, base: str, description: str) -> run_directory.Claim:
    if (launch := launched()) is not None:
        return run_directory.adopt(launch.lock, launch.name, launch.id, description, _now_ms())
    if name:
        return run_directory.claim(name, description, _now_ms())
    return run_directory.claim_free(base, description, _now_ms())


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def stop_on_eof() -> bool:
    """Whether this engine stops with the terminal that started it."""
    launch = launched()
    return launch is not None and launch.stop_on_eof


def bounds_of(keep: int) -> Bounds:
    """The bounds of a recording by `--record-keep`."""
    return UNBOUNDED if (kept := or_off(keep)) is None else Bounds(span_ms=kept)


def staging(engine: EngineArguments) -> tuple[Path, bool]:
    """The directory for a replay's staged rows, and whether it stays: in the state directory, or temporary."""
    if engine.state_dir is not None:
        return engine.state_dir / "staged", True
    return Path(tempfile.gettempdir(), f"wmtop-staged-{os.urandom(8).hex()}"), False


def _conf(pairs: list[str]) -> dict[str, str]:
    for pair in pairs:
        if "=" not in pair:
            raise UsageError(f"--conf '{pair}' is not K=V, e.g. --conf spark.driver.memory=2g")
    return dict(pair.split("=", 1) for pair in pairs)


def _listed(text: str | None) -> list[str]:
    return [part for part in (text or "").split(",") if part]
