"""Texts that several screens show, the rows to copy or save, and the choices for the look. Pure."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ...engine.text import formatting as f
from ...engine.text.formatting import escaped, first_line
from .spans import Span

ASCII_VARIABLE = "WMTOP_ASCII"
"""The environment variable that `--ascii` sets."""
THEMES = ("dark", "light", "contrast")
ZONES = ("utc", "local")
ALERTS = ("toast", "bell", "desktop")
"""Ways in which the screen reports an alert; none: off."""


class Appearance(Struct, frozen=True):
    """The chosen look; `refresh_ms` is the interval at which the fleet is read and drawn."""

    theme: str | None = None
    """The theme; None: the last one chosen."""
    zone: str = ZONES[0]
    alerts: tuple[str, ...] = ALERTS
    refresh_ms: int = 1_000


HOW_TO_PREVIEW = "like 45m · Enter keeps it · Esc drops it"
"""The hint beside the prompt for a lateness of a recording, which cannot be changed."""
HOW_TO_FILTER = "Enter keeps · Esc clears · !x: all but x"


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
    out = io.StringIO()
    writer = csv.DictWriter(out, dict.fromkeys(title for row in plain for title in row), lineterminator="\n")
    writer.writeheader()
    writer.writerows({title: _cell(value) for title, value in row.items()} for row in plain)
    return out.getvalue()


def _fields(row: Struct) -> dict[str, Any]:
    """A row by its fields' names, also of a struct that the stream writes as an array."""
    return {name: msgspec.to_builtins(getattr(row, name)) for name in row.__struct_fields__}


def _cell(value: Any) -> Any:
    if isinstance(value, list | dict):
        return escaped(msgspec.json.encode(value).decode())
    if isinstance(value, bool):
        return str(value).lower()
    # Spreadsheets run a cell with this beginning as a formula; names come from outside.
    if isinstance(value, str):
        return escaped(f"'{value}" if value[:1] in ("=", "+", "-", "@", "\t", "\r") else value)
    return value


class Filter(Struct, frozen=True):
    """A filter as typed: a regular expression, or after a `!` one that leaves out what it finds."""

    text: str
    expression: re.Pattern[str]

    def matches(self, *texts: str) -> bool:
        """Whether what has these texts is shown."""
        return any(map(self.expression.search, texts)) != self.text.startswith("!")

    def spans(self, shown: int, of: int, cells: int = 20) -> list[Span]:
        """The filter and what it leaves, for the rule above a list."""
        typed = f"/{f.cut(f.clean(self.text), cells)}"
        return [(" ─ ", "frame"), (typed, "accent"), (f"  {shown:,} of {of:,}", "dim")]


def filter_of(text: str) -> Filter | None:
    """The typed filter, None for an empty one; ValueError with one line for the user."""
    try:
        expression = text.removeprefix("!")
        return Filter(text, re.compile(expression, re.IGNORECASE)) if expression else None
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"not a regular expression: {first_line(str(error))}") from None


NOTHING_MATCHES = "nothing matches the filter"
NO_CHANNEL_MATCHES = "no channel matches the filter"
NONE_TAKES_PART = "All channels are left out: none takes part in the minimum"
NO_WINDOW_MATCHES = "no window matches the filter"
NO_CHANNEL = "no channel yet"
ALL_IDLE = "All channels are idle; the watermark advances again with new data"
NO_OPEN_WINDOW = "no window is open"
ALL_CLOSED = "all windows have closed"
NO_FIRED_WINDOW = "no window has fired yet"
OPEN_UNKNOWN = f"open windows: {f.ELSEWHERE}"
FIRED_UNKNOWN = f"fired windows: {f.ELSEWHERE}"
FIRED_LONG_AGO = "It fired long ago: it is no longer among the windows that the engine reports."
CHANNEL_GONE = "This channel does not exist (any more)."
IN_FLIGHT = "No channel holds back the watermark: records wait before a busy operator (Operators, key o)"
CHANNELS_UNKNOWN = f"Channels: {f.ELSEWHERE}."
TAP_SHOWS_CHANNELS = f"channels: {f.ELSEWHERE}; one line in the job (tap) shows them"
NOT_BEHIND = "none of its records was behind the watermark"
MAX_LATE_ONLY = "the lateness of records is kept only for the channels with most late ones"
OF_THIS_CHANNEL = "of this channel"
OF_ITS_RECORDS = "of its records behind the watermark"
SHARE_BEHIND = "share behind the watermark"
NO_RECORD = "no record has come yet"
NONE_IN_THIS_TIME = "no record came in this time"
SINCE_START = "since the start"
ALL_SO_FAR = "(all so far)"
SAME_TIME = "at the same time"
DID_NOT_MOVE = "the watermark did not move"
SHARE_UNKNOWN = "late share not known"
CONNECTING = "connecting to the engine"
BY_DISTANCE = "log distance behind the fastest"
OPEN_INSTANCE = "open instance"
BACKLOG_BY_SOURCE = "backlog by source"
SETTINGS_CHANGED = "settings changed while it ran"
MOMENT_SHOWN = "the moment shown"
NOT_DRAWN = "further down or left out"
NO_FIX = "no setting fixes this"
ENGINE_GONE = "The engine cannot be reached"


def refused(what: str, why: str) -> str:
    """The engine has refused a command."""
    return f"{what} was refused: {why}"


def not_applied(what: str, why: str) -> str:
    """A command could not be sent."""
    return f"{what} was not applied: {why}"


def recording_to(path: object) -> str:
    """A recording has begun."""
    return f"recording to {path}; press R to stop"


def recorded(path: object, missing: str = "") -> str:
    """A recording has ended."""
    return f"recorded {path}{missing}; 'wmtop replay' shows it"


def more_less_behind(rest: int) -> str:
    """Inputs that are not listed."""
    return f"and {rest:,} more, less behind"


def windows_wait_for(windows: int) -> str:
    """The head of a group of windows."""
    return f"{f.counted(windows, 'window')} {'waits' if windows == 1 else 'wait'} for"


def sample_of(records: int, late: int | None) -> str:
    """How many records a picture shows; `late` None: not known."""
    reported = f"late: {f.ELSEWHERE}" if late is None else f"{late:,} late"
    return f"a sample of {f.counted(records, 'record')}, {reported}"


def not_in_sample(channel: str) -> str:
    """The sample has no record of the channel."""
    return f"no record of {channel} is in the sample"
