"""The names of targets and running engines as arguments, which a shell completes."""

from typing import Annotated, Any

import typer

from ...engine.feed import run_directory
from ...engine.system.errors import UsageError
from .complete import matching
from .targets import members


def target_argument(help: str, metavar: str = "TARGET") -> Any:
    """An argument that a shell completes with the names of targets."""
    return typer.Argument(metavar=metavar, autocompletion=target_names, help=help)


def target_names(incomplete: str) -> list[str]:
    """Configured targets, running engines and published queries; none if the configuration is wrong."""
    try:
        return matching(incomplete, [member.name for member in members()])
    except UsageError:  # a prompt is no place to report it
        return []


def run_names(incomplete: str) -> list[str]:
    """Running engines."""
    return matching(incomplete, [run.name for run in run_directory.list_runs()])


RunName = Annotated[str, typer.Argument(metavar="NAME", autocompletion=run_names, help="as 'wmtop runs' lists it")]
