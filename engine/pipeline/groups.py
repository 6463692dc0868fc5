"""What a batch's records become, whichever way they were grouped: a table of groups, and the observation of it.

A group's records share channel, pane, lateness buckets, and which side of the limits they are on. The table's columns,
int64 and null where nothing is known unless said otherwise:

- the keys: `channel` (text), `start` (null: malformed), `head` (only where slides do not divide windows),
  `behind_bucket` (only with a what-if), `late_bucket` (only sessions and gaps), `is_behind` (the watermark),
  `is_future` (only with a guard); buckets are `NO_BUCKET` for records ahead, the others are booleans
- `records`; `late_in_gap` (gaps); `max_event_ms`; `min_ms`, `max_ms` (sessions); `emitted_ms` (punctuated, source)
- `arrival` (replays: the greatest of the column is the batch's)
- of malformed and future records: `last_offset`, `last_part` (where channels are not parts); `future_ms` (with a guard)

`aggregate` makes it with Spark's native expressions of rows, `column_groups` with numpy of Arrow columns: to the
record the same, which a test holds.
"""

from msgspec import Struct

from ..core.monitor import Monitor
from ..core.settings import Session, Settings
from ..core.times import FIRST_USABLE_MS, MAX

BEFORE_ALL_MS = FIRST_USABLE_MS - 1
""""No watermark": before every usable event time, and safe from overflow in Spark's arithmetic."""
AFTER_ALL_MS = 2**62
"""After every usable event time by more than any bucket's edge, and as safe from overflow."""

MAX_NAME = 256
"""Longest channel name (characters); longer ones are cut and get `~` and 8 digits of their SHA-256."""
NO_BUCKET = -1
"""The bucket of a record that is ahead."""
FLAGS = frozenset({"head", "is_behind", "is_future"})
"""The keys that are booleans."""


class Levels(Struct, frozen=True):
    """The state at the start of a batch: the watermark and W0 (ms), and its processing time if the source is live."""

    level: int
    w0: int
    now_ms: int | None


class Limits(Struct, frozen=True):
    """The limits for a batch's event times (ms), from `BEFORE_ALL_MS` to `AFTER_ALL_MS`."""

    level: int
    w0: int
    late_from: int
    """For a record in a session or gap: this minus its timestamp is `W0 - (own end - 1) - allowed_lateness`."""
    gap: int
    """Records in a gap are late up to this event time."""


def limits_of(settings: Settings, levels: Levels) -> Limits:
    """The limits of a batch."""
    window = settings.spec
    own = window.gap_ms - 1 if isinstance(window, Session) else 0
    # At MAX every record in a gap is late: `ts + allowed_lateness` saturates there.
    gap = MAX if levels.level == MAX else levels.level - settings.allowed_lateness_ms
    late_from = levels.w0 - own - settings.allowed_lateness_ms
    limits = (levels.level, levels.w0, late_from, gap)
    return Limits(*(min(max(value, BEFORE_ALL_MS), AFTER_ALL_MS) for value in limits))


class Keys(Struct, frozen=True):
    """The keys that groups have besides channel and start."""

    head_ms: int
    """Records less than this after their start are the pane's `head`; 0: no such key."""
    gaps: bool
    """Whether records may lie between windows."""
    sizes: dict[str, int]
    """The keys' columns, in order, with their number of values."""


def keys_of(settings: Settings, edges: list[int]) -> Keys:
    """The keys for these settings; `edges` (ms) is empty without a what-if."""
    window = settings.spec
    sessions = isinstance(window, Session)
    gaps = not isinstance(window, Session) and window.slide_ms > window.size_ms
    head_ms = 0 if isinstance(window, Session) else window.size_ms % window.slide_ms
    late = bool(edges) and (sessions or gaps)
    sizes = {
        "head": 2 if head_ms else 0,
        "behind_bucket": len(edges) + 1 if edges else 0,
        "late_bucket": len(edges) + 1 if late else 0,
        "is_behind": 2,
        "is_future": 0 if settings.future_guard_ms is None else 2,
    }
    return Keys(head_ms, gaps, {name: size for name, size in sizes.items() if size})


def levels_of(monitor: Monitor, now_ms: int | None) -> Levels:
    """The `Levels` of the next batch."""
    return Levels(monitor.level, monitor.w0, now_ms)
