"""Runs an engine in this process until it ends or is stopped, with its alerts, or starts one in its own process."""

import asyncio
import logging
import os
import subprocess
import sys
import time
import traceback
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
import typer

from ...engine.feed import run_directory
from ...engine.feed.alert_command import AlertCommand, parse_command
from ...engine.feed.messages import FromEngine
from ...engine.feed.recording_writer import UNBOUNDED, Bounds
from ...engine.snapshot import Note, Snapshot
from ...engine.system.errors import RunError, UsageError, first_line, how_it_ended, signal_name
from ...engine.system.files import check_outputs
from ...engine.verdict.alerts import LOST_AFTER_MS
from ...engine.watermarks.settings import Settings
from ..words.notes import note_text
from .options import EngineArguments, or_off, settings_of
from .output import SnapshotPrinter, redirect_output
from .process import LAUNCHED_VARIABLE, Launch, launched
from .running import has_terminal, open_screen

if TYPE_CHECKING:  # at run time only a process that runs an engine imports the pipeline
    from ...engine.run.sources.base import Source

_log = logging.getLogger("wmtop.run")
_log.addHandler(logging.NullHandler())
_LOOK_S = 1.0
_LOG_TAIL_BYTES = 8192


async def watch_alerts(messages: AsyncIterator[FromEngine], alerts: AlertCommand) -> None:
    """Run the command for each alert until the engine stops; RunError when the engine is lost, after its alert."""
    last: Snapshot | None = None
    heard_s = time.monotonic()
    coming: asyncio.Task[FromEngine] | None = None
    try:
        while True:
            coming = asyncio.ensure_future(anext(messages))
            while not (await asyncio.wait({coming}, timeout=_LOOK_S))[0]:
                silent_ms = round(1_000 * (time.monotonic() - heard_s))
                is_running = last is not None and last.state not in ("starting", "ended", "failed")
                if is_running and silent_ms >= LOST_AFTER_MS:  # suspended or hanging: its connection stays open
                    alerts.lose(_now_ms(), silent_ms=silent_ms)
            message = coming.result()
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


class EngineProcess:
    """An engine that this terminal started: in a session of its own, its output in its log file.

    It continues `claim`, so that it has that name and id and no other. With `tied` it stops when this process ends,
    however it ends: the pipe to its standard input closes.
    """

    def __init__(self, arguments: list[str], claim: run_directory.Claim, *, tied: bool) -> None:
        self._log = Path(claim.run.log)
        launch = Launch(lock=claim.lock, name=claim.run.name, id=claim.run.id, stop_on_eof=tied)
        with open(self._log, "ab") as output:
            self._log_before = output.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "wmtop.tui.cli", *arguments],
                stdin=subprocess.PIPE if tied else subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                pass_fds=(claim.lock,),
                env={**os.environ, "PYTHONUNBUFFERED": "1", LAUNCHED_VARIABLE: msgspec.json.encode(launch).decode()},
            )
        claim.hand_over()

    def died(self) -> str | None:
        """None while it runs, or after a normal end; else one line on why it died."""
        code = self._process.poll()
        if not code:
            return None
        if code in (1, 2) and (said := last_line_to_user(self._log, self._log_before)) is not None:
            return said
        # More than 128: a clean end on a signal.
        how = f"stopped by {signal_name(code - 128)}" if code > 128 else how_it_ended(code)
        return f"the engine ended: {how}; its log is {self._log}"

    @property
    def code(self) -> int | None:
        """Its exit code, None while it runs."""
        return self._process.poll()

    def stop(self, timeout_s: float = 30.0) -> int:
        """Stop it, if it has not stopped by itself, and wait for its end; RunError if it does not end in time."""
        try:
            return self._process.wait(0.5)
        except subprocess.TimeoutExpired:
            self._process.terminate()
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise RunError(f"the engine (process {self._process.pid}) does not stop; its log is {self._log}") from None


def last_line_to_user(log: Path, since: int) -> str | None:
    """The last line for the user that an engine wrote, in its log after byte `since`."""
    try:
        with open(log, "rb") as file:
            file.seek(max(since, file.seek(0, os.SEEK_END) - _LOG_TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return None
    said = [line.removeprefix("wmtop: ") for line in lines if line.startswith("wmtop: ")]
    return said[-1] if said else None


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


def check_engine_outputs(engine: EngineArguments, inputs: Sequence[Path]) -> None:
    """UsageError if an output overwrites a file that no resumed run continues, `--on-alert` cannot be run, or others
    can change the state directory.
    """
    from ...engine.system.files import own_files, own_outputs

    parse_command(engine.on_alert)
    if engine.state_dir is not None:  # `demo` has not loaded it, and paints its screen first
        from ...engine.run.durable_state import check_state_directory

        check_state_directory(engine.state_dir)
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

    for pair in arguments.conf or ():
        if "=" not in pair:
            raise UsageError(f"--conf '{pair}' is not K=V, e.g. --conf spark.driver.memory=2g")
    options = EngineOptions(
        state_dir=arguments.state_dir,
        firings=arguments.firings,
        late_output=arguments.late_output,
        record=arguments.record,
        record_bounds=bounds_of(arguments.record_keep),
        verdict_after_ms=arguments.verdict_after,
        on_alert=parse_command(arguments.on_alert),
        force=arguments.force,
        once=arguments.once,
        stop_on_eof=stop_on_eof(),
        master=arguments.master,
        conf=dict(pair.split("=", 1) for pair in arguments.conf or ()),
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
    """Run an engine in this process, under `name` or a free one derived from `base`; its errors are a line each."""
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


def kept_files(engine: EngineArguments) -> Path | None:
    """The directory of the state directory for files of a source, which stay; None: without one they are temporary."""
    return None if engine.state_dir is None else engine.state_dir / "staged"


def _listed(text: str | None) -> list[str]:
    return [part for part in (text or "").split(",") if part]
