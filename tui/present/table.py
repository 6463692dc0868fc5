"""What can be copied or saved from a screen: the selected row as text, its table as CSV or JSON. Pure."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from .formatting import first_line

HOW_TO_PREVIEW = "like 45m · Enter keeps the preview · Esc drops it"
"""The hint beside the prompt for a lateness of a recording, which cannot be changed."""
HOW_TO_FILTER = "Enter keeps it · Esc clears it"


class Chosen(Struct, frozen=True):
    """The selected row: its name (of a channel, a window, a finding), and its whole text."""

    name: str
    row: str


class TableRecords(Struct, frozen=True):
    """A table under a name for its file; each row a struct whose field names and units are those of the JSON output."""

    name: str
    rows: Sequence[Struct]


def as_json(rows: Sequence[Struct]) -> str:
    """The rows as a JSON array, each with all of its fields."""
    return msgspec.json.format(msgspec.json.encode([_fields(row) for row in rows]), indent=2).decode() + "\n"


def as_csv(rows: Sequence[Struct]) -> str:
    """The rows as CSV with a line of titles; unknown values are empty, lists and objects are JSON."""
    import csv
    import io

    plain = [_fields(row) for row in rows]
    titles = list(dict.fromkeys(title for row in plain for title in row))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(titles)
    for row in plain:
        writer.writerow([_cell(row.get(title)) for title in titles])
    return out.getvalue()


def _fields(row: Struct) -> dict[str, Any]:
    """A row by its fields' names, also of a struct that the stream writes as an array."""
    return {name: msgspec.to_builtins(getattr(row, name)) for name in row.__struct_fields__}


def _cell(value: Any) -> Any:
    if isinstance(value, list | dict):
        return msgspec.json.encode(value).decode()
    if isinstance(value, bool):
        return str(value).lower()
    # Spreadsheets run a cell with this beginning as a formula; names come from outside.
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def pattern_of(text: str) -> re.Pattern[str] | None:
    """The typed filter, None for an empty one; ValueError with one line for the user."""
    try:
        return re.compile(text, re.IGNORECASE) if text else None
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"not a regular expression: {first_line(str(error))}") from None
