"""`wmtop explain CODE`: what a finding means, how it is recognised, what to do; `docs/findings.md` has the same."""

import shutil
import textwrap
from difflib import get_close_matches
from typing import Annotated

import typer

from ...engine.doctor import RULES, Meaning, meaning_of
from ...engine.system.errors import UsageError
from ...engine.text.formatting import clean, cut

DEFAULT_COLUMNS = 160
MAX_COLUMNS = 100
"""Columns of a paragraph, at most."""
_INDENT = 26
"""The column at which the list's texts begin."""


def finding_codes(incomplete: str) -> list[str]:
    """The codes of the findings that begin so, for a shell to complete."""
    return [code for code in sorted(RULES) if code.startswith(incomplete)]


def explain(
    code: Annotated[
        str | None, typer.Argument(metavar="CODE", autocompletion=finding_codes, help="the code of a finding")
    ] = None,
) -> None:
    """Print what a finding of the doctor means, how it is recognised and what to do; without CODE: list all."""
    columns = shutil.get_terminal_size((DEFAULT_COLUMNS, 24)).columns
    if code is None:
        for known in sorted(RULES):
            print(cut(f"{known:<{_INDENT}}{meaning_of(known).in_short}", columns))
        return
    known = code.strip().lower().replace("_", "-")
    if known not in RULES:
        near = " or ".join(map(repr, get_close_matches(known, RULES, n=2, cutoff=0.5)))
        hint = f"did you mean {near}?" if near else "'wmtop explain' lists all"
        raise UsageError(f"no finding {clean(code)!r}; {hint}")
    print(explanation(meaning_of(known), min(columns, MAX_COLUMNS)))


def explanation(meaning: Meaning, columns: int) -> str:
    """The text about one finding, in lines of at most `columns` cells."""
    paragraphs = [
        meaning.code,
        meaning.means,
        f"How it is recognised: {meaning.recognised_by}",
        f"What to do: {meaning.what_to_do}",
    ]
    if meaning.not_beside:
        paragraphs.append(f"Not shown if one of these is found, which explains it: {', '.join(meaning.not_beside)}.")
    return "\n\n".join(textwrap.fill(text, columns, break_on_hyphens=False) for text in paragraphs)
