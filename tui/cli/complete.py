"""Shell completion: `wmtop completion bash` prints the script; names of targets and runs complete."""

import os
from collections.abc import Sequence
from typing import Annotated

import typer

from ...engine.system.errors import UsageError

VARIABLE = "_WMTOP_COMPLETE"
"""The environment variable with which the script requests completions."""
SHELLS = ("bash", "zsh", "fish")


def shell_names(incomplete: str) -> list[str]:
    """The shells that have a script."""
    return _matching(incomplete, SHELLS)


def completion(
    shell: Annotated[str, typer.Argument(metavar="bash|zsh|fish", autocompletion=shell_names, help="the shell")],
) -> None:
    """Print the completion script of a shell."""
    if shell not in SHELLS:
        raise UsageError(f"no completion for {shell!r}; use {', '.join(SHELLS)}")
    from typer.completion import get_completion_script  # pyright: ignore[reportPrivateImportUsage]

    script = get_completion_script(prog_name="wmtop", complete_var=VARIABLE, shell=shell)
    print(_completing_at_once(script) if shell == "zsh" else script)


def _completing_at_once(script: str) -> str:
    """The script, changed so that it also completes while zsh loads it, at the first Tab."""
    return f'{script}\n[[ "${{funcstack[1]}}" != _wmtop ]] || _wmtop_completion "$@"'


def words_to_complete() -> Sequence[str] | None:
    """The words after `wmtop` to complete for the shell; None: no completion is requested."""
    if VARIABLE not in os.environ:
        return None
    from typer.completion import completion_init  # pyright: ignore[reportPrivateImportUsage]

    completion_init()
    return (os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or "").split()[1:-1]


def target_names(incomplete: str) -> list[str]:
    """Configured targets, running engines and published queries; none if the configuration is wrong."""
    from .fleet.members import members

    try:
        return _matching(incomplete, [member.name for member in members()])
    except UsageError:  # a prompt is no place to report it
        return []


def run_names(incomplete: str) -> list[str]:
    """Running engines."""
    from ...engine.feed import run_directory

    return _matching(incomplete, [run.name for run in run_directory.list_runs()])


def _matching(incomplete: str, names: Sequence[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
