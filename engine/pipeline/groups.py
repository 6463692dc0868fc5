"""What a batch's records become, whichever way they were grouped: a table of groups, and the observation of it.

A group's records share channel, pane and lateness buckets. The table's columns, int64 and null where nothing is known
unless said otherwise:

- the keys: `channel` (text), `start` (null: malformed), `head` (boolean; only where slides do not divide windows),
  `behind_bucket` (only with a what-if), `late_bucket` (only sessions and gaps); `NO_BUCKET` is that of records ahead
- `records`, `behind`; `late_in_gap` (gaps); `future`, `future_offset`, `future_ms`, `future_part` (with a guard)
- `max_event_ms`; `min_ms`, `max_ms` (sessions); `emitted_ms` (punctuated, source); `arrival` (replays)
- `malformed_offset`, `malformed_part`

`aggregate` makes it with Spark's native expressions of rows, `column_groups` with numpy of Arrow columns: to the
record the same, which a test holds.
"""

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ..core.monitor import Monitor
from ..core.observation import BatchObservation, Group, Sequence
from ..core.settings import Session, Settings
from ..core.snapshot import Offender
from ..core.times import FIRST_USABLE_MS, MAX
from .sources.base import CHANNEL

if TYPE_CHECKING:
    import pyarrow as pa

BEFORE_ALL_MS = FIRST_USABLE_MS - 1
"""Means "no watermark": before every usable event time, and safe from overflow in Spark's arithmetic."""

LONGEST_NAME = 256
"""Longer channel names are cut to so many characters, `~` and 8 digits of their SHA-256."""
NO_BUCKET = -1
"""Of a record that is ahead."""


class Levels(Struct, frozen=True):
    """What a batch starts with: the watermark and W0 (ms), and its processing time where the source is live."""

    level: int
    w0: int
    now_ms: int | None


class Limits(Struct, frozen=True):
    """What a batch's event times are compared with (ms), never before `BEFORE_ALL_MS`."""

    level: int
    w0: int
    late_from: int
    """Minus a timestamp it is `W0 - (own end - 1) - allowed_lateness` of a record in a session or gap."""
    gap: int
    """Records in a gap are late up to here."""


def limits_of(settings: Settings, levels: Levels) -> Limits:
    """The limits of a batch."""
    window = settings.spec
    own = window.gap_ms - 1 if isinstance(window, Session) else 0
    # At MAX every record in a gap is late: `ts + allowed_lateness` saturates there.
    gap = MAX if levels.level == MAX else levels.level - settings.allowed_lateness_ms
    late_from = levels.w0 - own - settings.allowed_lateness_ms
    return Limits(*(max(value, BEFORE_ALL_MS) for value in (levels.level, levels.w0, late_from, gap)))


class Keys(Struct, frozen=True):
    """Which keys groups have beside channel and start."""

    head_ms: int
    """Records less than this after their start are the pane's `head`; 0: there is no such key."""
    behind: bool
    late: bool
    gaps: bool
    """Whether records may lie between windows."""

    @property
    def names(self) -> list[str]:
        """Their columns, in order."""
        flags = {"head": bool(self.head_ms), "behind_bucket": self.behind, "late_bucket": self.late}
        return [name for name, there in flags.items() if there]


def keys_of(settings: Settings, edges: list[int]) -> Keys:
    """The keys that settings ask for; `edges` (ms) is empty without a what-if."""
    window = settings.spec
    sessions = isinstance(window, Session)
    gaps = not isinstance(window, Session) and window.slide_ms > window.size_ms
    head_ms = 0 if isinstance(window, Session) else window.size_ms % window.slide_ms
    return Keys(head_ms, bool(edges), bool(edges) and (sessions or gaps), gaps)


def levels_of(monitor: Monitor, now_ms: int | None) -> Levels:
    """What the next batch starts with."""
    return Levels(monitor.level, monitor.w0, now_ms)


class _Columns:
    """The groups as Python lists, a column each; a column that was not asked for repeats `default`."""

    def __init__(self, table: "pa.Table") -> None:
        self.rows = table.num_rows
        self._lists: dict[str, list[Any]] = {name: table[name].to_pylist() for name in table.column_names}

    def get(self, name: str, default: Any = None) -> list[Any]:
        return self._lists.get(name) or [default] * self.rows

    def buckets(self, name: str) -> list[int | None]:
        return [None if bucket == NO_BUCKET else bucket for bucket in self.get(name)]

    def last(self, offset: str) -> int | None:
        """The row with the greatest value in a column of offsets; any row where a source has none."""
        known = [(value, row) for row, value in enumerate(self.get(offset)) if value is not None]
        return max(known)[1] if known else None


def observation_of(table: "pa.Table", number: int, levels: Levels, sequences: list[Sequence]) -> BatchObservation:
    """A batch's observation; groups of the same key may come in several rows of the table."""
    columns = _Columns(table)
    arrivals = [arrival for arrival in columns.get("arrival") if arrival is not None]
    return BatchObservation(
        batch=number,
        now_ms=levels.now_ms if levels.now_ms is not None else max(arrivals, default=None),
        groups=list(
            map(
                Group,
                columns.get(CHANNEL),
                columns.get("start"),
                columns.get("head", False),
                columns.get("records"),
                columns.get("future", 0),
                [behind or 0 for behind in columns.get("behind")],
                columns.get("late_in_gap", 0),
                columns.get("min_ms", 0),
                columns.get("max_ms", 0),
                columns.get("max_event_ms"),
                columns.get("emitted_ms"),
                columns.buckets("behind_bucket"),
                columns.buckets("late_bucket"),
            )
        ),
        sequences=sequences,
        last_future=_last_future(columns),
        last_malformed=_last_malformed(columns),
    )


def _last_future(columns: _Columns) -> Offender | None:
    rows = [row for row, future in enumerate(columns.get("future", 0)) if future]
    if not rows:
        return None
    row = columns.last("future_offset")
    row = rows[-1] if row is None else row
    part = _text(columns.get("future_part")[row])
    return Offender(columns.get(CHANNEL)[row], columns.get("future_offset")[row], columns.get("future_ms")[row], part)


def _last_malformed(columns: _Columns) -> Offender | None:
    rows = [row for row, start in enumerate(columns.get("start")) if start is None]
    if not rows:
        return None
    row = columns.last("malformed_offset")
    row = rows[-1] if row is None else row
    part = _text(columns.get("malformed_part")[row])
    return Offender(columns.get(CHANNEL)[row], columns.get("malformed_offset")[row], None, part)


def _text(part: int | None) -> str | None:
    return None if part is None else str(part)
