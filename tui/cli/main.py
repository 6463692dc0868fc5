"""The command `wmtop`: its commands, and what of an error a person sees."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from ...engine.errors import RunError, UsageError, first_line
from . import advise, attach, check, export, preview, replay, report, run, running, serve
from .config.command import config_command
from .config.force import FILE_VARIABLE, default_map
from .examples import epilog

app = typer.Typer(
    help="top for stream watermarks: which channel holds back the watermark, why, and what more lateness would cost.",
    epilog=epilog(""),
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command(epilog=epilog("demo"))(run.demo)
app.add_typer(run.run_app, name="run")
app.command(epilog=epilog("attach"))(attach.attach)
app.command(epilog=epilog("check"))(check.check)
app.command(epilog=epilog("advise"))(advise.advise)
app.command(epilog=epilog("export"))(export.export)
app.command(epilog=epilog("preview"))(preview.preview)
app.command(epilog=epilog("runs"))(running.runs)
app.command(epilog=epilog("stop"))(running.stop)
app.command(epilog=epilog("replay"))(replay.replay)
app.command(epilog=epilog("report"))(report.report)
app.command("config", epilog=epilog("config"))(config_command)
app.command("set", epilog=epilog("set"))(running.set_command)
app.command(epilog=epilog("serve"))(serve.serve)


@app.callback(invoke_without_command=True)
def main_command(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="print the version")] = False,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="the configuration file (see 'wmtop config')")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print the fleet, one JSON line a refresh")] = False,
    once: Annotated[bool, typer.Option("--once", help="with --json: print one line and exit")] = False,
) -> None:
    """Show all targets in one table, the worst first; with exactly one, open it."""
    if version:
        from importlib.metadata import version as installed

        print(f"wmtop {installed('wmtop')}")
        raise typer.Exit
    if config is not None:
        os.environ[FILE_VARIABLE] = str(config.absolute())  # engines that this process starts see it, too
    if context.invoked_subcommand == "run":
        context.default_map = default_map()
    if context.invoked_subcommand is not None and (json or once):
        raise UsageError("--json and --once before a command have no effect; put them after it")
    if context.invoked_subcommand is None:
        from .fleet.command import open_fleet, print_fleet

        if once and not json:
            raise UsageError("--once prints one line of --json: give both")
        print_fleet(once=once) if json else open_fleet()


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
        return _say(f"unexpected {type(error).__name__}: {first_line(error)} (WMTOP_TRACE=1 shows where)", 1)
    return code if isinstance(code, int) else 0


def _say(line: str, code: int) -> int:
    print(f"wmtop: {line}", file=sys.stderr)
    return code
