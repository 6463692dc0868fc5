"""`wmtop completion`: the script for a shell, and the words that it asks to complete."""

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
    return matching(incomplete, SHELLS)


def completion(
    shell: Annotated[str, typer.Argument(metavar="bash|zsh|fish", autocompletion=shell_names, help="the shell")],
) -> None:
    """Print the completion script of a shell."""
    if shell not in SHELLS:
        raise UsageError(f"no completion for {shell!r}; use {', '.join(SHELLS)}")
    from typer.completion import get_completion_script  # pyright: ignore[reportPrivateImportUsage]

    script = get_completion_script(prog_name="wmtop", complete_var=VARIABLE, shell=shell)
    # It also completes while zsh loads it, at the first Tab.
    print(f'{script}\n[[ "${{funcstack[1]}}" != _wmtop ]] || _wmtop_completion "$@"' if shell == "zsh" else script)


def words_to_complete() -> Sequence[str] | None:
    """The words after `wmtop` to complete for the shell; None: no completion is requested."""
    if VARIABLE not in os.environ:
        return None
    from typer.completion import completion_init  # pyright: ignore[reportPrivateImportUsage]

    completion_init()
    return (os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or "").split()[1:-1]


def matching(incomplete: str, names: Sequence[str]) -> list[str]:
    """The names that begin with what was typed so far."""
    return [name for name in names if name.startswith(incomplete)]
