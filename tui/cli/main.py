"""The command `wmtop`: its commands, and error output."""

import atexit
import os
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from ...engine.feed import run_directory
from ...engine.system.errors import RunError, UsageError, unexpected, without_secrets
from ...engine.targets import READER_THREAD
from ..words.texts import ASCII_VARIABLE
from .complete import words_to_complete
from .examples import epilog
from .options import place_option
from .process import (
    end_output,
    end_with_server,
    inform,
    loading,
    log,
    prepare_output,
    say,
    set_log,
    unwritten,
    versions,
)

COMMANDS = {
    "demo": ".run:demo",
    "run": ".run:run_app",
    "attach": ".attach:attach",
    "check": ".check:check",
    "watch": ".check:watch",
    "chain": ".chain:chain",
    "explain": ".check:explain",
    "advise": ".advise:advise",
    "export": ".export:export",
    "preview": ".advise:preview",
    "runs": ".running:runs",
    "stop": ".running:stop",
    "replay": ".recordings:replay",
    "report": ".recordings:report",
    "config": ".config:config_command",
    "set": ".running:set_command",
    "serve": ".serve:serve",
    "completion": ".complete:completion",
}
"""Each command and its module: only the given command's is imported, so that `check` starts quickly."""

STORE = "wmtop.engine.targets.spark.store"
"""A module that may have a request in progress once it is loaded."""
LOOKS_END_WITHIN_S = 1.0
FAILED, UNUSABLE, CANNOT_TELL, INTERRUPTED = 1, 2, 3, 130
"""Exit codes: the run failed, unusable input, no answer."""
VALUED = ("--config", "--log-file", "--log-level")
"""Options before the command that take a value."""
ASCII_OPTION = "--ascii"
HELP = "top for stream watermarks: which channel holds back the watermark, why, and what more lateness would cost."


def command_line(arguments: Sequence[str]) -> typer.Typer:
    """The command line for these arguments: with only the command they name, or all if they name none."""
    app = typer.Typer(
        help=HELP, epilog=epilog(""), add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
    )
    app.callback(invoke_without_command=True)(main_command)
    named = _command_in(arguments)
    for name, place in COMMANDS.items():
        if named in (None, name):
            module, _, attribute = place.partition(":")
            found = getattr(import_module(module, __package__), attribute)
            if isinstance(found, typer.Typer):
                app.add_typer(found, name=name)
            else:
                app.command(name, epilog=epilog(name))(found)
    return app


def _command_in(arguments: Sequence[str]) -> str | None:
    """The command in the arguments; None: none, or an unknown one, for which similar ones are suggested."""
    rest = iter(arguments)
    for argument in rest:
        if argument in VALUED:
            next(rest, None)
        elif not argument.startswith("-"):
            return argument if argument in COMMANDS else None
    return None


def main_command(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="print the versions of wmtop and of what it runs on")
    ] = False,
    ascii: Annotated[bool, typer.Option(ASCII_OPTION, help="draw the screen with ASCII characters only")] = False,
    config: Annotated[
        Path | None, place_option("FILE", "the configuration file (see 'wmtop config')", "--config")
    ] = None,
    log_file: Annotated[
        Path | None, place_option("FILE", "append a log to FILE, one JSON object a line", "--log-file")
    ] = None,
    log_level: Annotated[
        str | None, typer.Option("--log-level", metavar="LEVEL", help="debug, info, warning or error (info)")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print the fleet, one JSON line a refresh")] = False,
    once: Annotated[bool, typer.Option("--once", help="with --json: print one line and exit")] = False,
) -> None:
    """Show all targets in one table, the worst first; with exactly one, open it."""
    if version:
        print(versions())
        raise typer.Exit
    set_log(log_file, log_level)
    log.info("wmtop %s starts", context.invoked_subcommand or "fleet")
    if ascii:
        os.environ[ASCII_VARIABLE] = "1"
    if config is not None:
        from .config import FILE_VARIABLE

        os.environ[FILE_VARIABLE] = str(config.absolute())  # engines that this process starts see it, too
    if context.invoked_subcommand == "run":
        from .config import default_map

        context.default_map = default_map()
    if context.invoked_subcommand is not None and (json or once):
        raise UsageError("--json and --once before a command have no effect; put them after it")
    if context.invoked_subcommand is None:
        from .fleet import open_fleet, print_fleet

        if once and not json:
            raise UsageError("--once prints one line of --json: give both")
        print_fleet(once=once) if json else open_fleet()


def main() -> None:
    """Run the command line: wrong options or input are a line and exit code 2, a failed run 1 (`check`, `watch`: 3)."""
    end_with_server()
    prepare_output()
    failed = CANNOT_TELL if _command_in(sys.argv[1:]) in ("check", "watch") else FAILED
    code = end_output(_run_command(failed), failed)
    if STORE in sys.modules and _a_look_hangs():
        _leave(code)
    sys.exit(code)


def _a_look_hangs() -> bool:
    """Whether a thread that reads a target does not end."""
    until = time.monotonic() + LOOKS_END_WITHIN_S
    readers = [thread for thread in threading.enumerate() if thread.name.startswith(READER_THREAD)]
    for thread in readers:
        thread.join(max(0.0, until - time.monotonic()))
    return any(thread.is_alive() for thread in readers)


def _leave(code: int) -> NoReturn:
    """End the process at once: a normal exit would wait for pyarrow's requests to a store that does not answer."""
    from ...engine.system.remote_files import end_without_requests  # it loads pyarrow

    end_without_requests()
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage] # temporary directories, the log
    sys.stdout.flush()
    os._exit(code)


def _run_command(failed: int) -> int:
    """Run the command that the arguments name; returns its exit code, `failed` if something went wrong."""
    asked = words_to_complete()
    run_directory.report_with(inform if asked is None else lambda line: None)
    if asked is not None:
        command_line(asked)(prog_name="wmtop")
        return 0
    if ASCII_OPTION in sys.argv[1:]:  # before or after the command
        sys.argv.remove(ASCII_OPTION)
        sys.argv.insert(1, ASCII_OPTION)
    try:
        return _invoke(sys.argv[1:])
    except typer.Exit as over:
        return over.exit_code
    except typer.TyperException as error:
        return say(_usage_words(error), UNUSABLE)
    except UsageError as error:
        return say(str(error), UNUSABLE)
    except RunError as error:
        return say(str(error), failed)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - no stack trace is printed, and no exit code 1 of `check`
        return _say_unexpected(error, failed)


def _invoke(arguments: Sequence[str]) -> int:
    """Run the command that the arguments name; returns its exit code, 0 if it has none."""
    with loading():
        command = typer.main.get_command(command_line(arguments))
    with command.make_context("wmtop", list(arguments)) as context:
        code = command.invoke(context)
    return code if isinstance(code, int) else 0


def _say_unexpected(error: Exception, failed: int) -> int:
    """One line on an error that no command expects; returns `failed`."""
    if isinstance(error, OSError) and unwritten() is not None:
        return failed  # `main` says why
    log.exception("unexpected error")
    if os.environ.get("WMTOP_TRACE"):
        print(without_secrets(traceback.format_exc()), file=sys.stderr)
    return say(f"{unexpected(error)} (WMTOP_TRACE=1 shows where)", failed)


def _usage_words(error: typer.TyperException) -> str:
    """What is wrong with the arguments, and for a missing or unknown one where to see what the command takes."""
    words = " ".join(error.format_message().split())
    context: typer.Context | None = getattr(error, "ctx", None)
    if context is None or words.endswith("?") or not words.startswith(("Missing", "No such command")):
        return words
    return f"{words.rstrip('.')}; '{context.command_path} --help' shows what it takes"
