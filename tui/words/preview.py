"""A previewed setting, and its effect from the start, computed from the snapshot: no round trip. Pure."""

from bisect import bisect_left
from collections.abc import Sequence

from msgspec import Struct

from ...engine.snapshot import RecentRow, Snapshot, WhatIf
from ...engine.watermarks.settings import StrategyName
from .kinds import kind_words


class Range(Struct, frozen=True):
    """A value between two known ones; both are the same if it is exact."""

    low: float
    high: float


class LatenessPreview(Struct, frozen=True):
    """The effect of lateness `lateness_ms`; None: not known."""

    lateness_ms: int
    level_ms: int | None
    late: Range | None
    share: Range | None
    delay_change_ms: Range | None
    """How much later (or, below 0, earlier) results would come than they do now."""
    upper_bound: bool


class IdlePreview(Struct, frozen=True):
    """The effect of idle timeout `idle_after_ms` (None: off)."""

    idle_after_ms: int | None
    level_ms: int | None
    holder: str | None
    flaps: int | None
    late: int | None
    share: float | None
    about: bool
    """Whether the late count is not exact."""


_STEPS_MS = tuple(
    number * unit
    for unit, numbers in (
        (1_000, (0, 1, 2, 5, 10, 20, 30, 45)),
        (60_000, (1, 2, 5, 10, 15, 30)),
        (3_600_000, (1, 2, 6, 12, 24)),
    )
    for number in numbers
)
"""Common values of lateness and idle timeout (ms)."""
Preview = LatenessPreview | IdlePreview


def untunable(strategy: StrategyName) -> str:
    """Why a strategy has no lateness to tune, in one line."""
    return {
        "monotonous": "monotonous: records are taken to be in order, so there is no lateness to tune",
        "punctuated": "punctuated: marker records set the watermark, so there is no lateness to tune",
        "source": "source: the source sends its own watermarks, so there is no lateness to tune",
        "none": "none: there is no watermark before the end of the stream, so there is no lateness to tune",
        "custom": "custom: the job's own generator decides, so there is no lateness to tune from here",
    }.get(strategy, f"{strategy} has no lateness to tune")


def step_lateness(snapshot: Snapshot, lateness_ms: int, direction: int) -> int | None:
    """The next lateness (ms) above (1) or below (-1) `lateness_ms` for which the answer is exact; None at the end."""
    edges = [row.lateness_ms for row in snapshot.whatif or ()] or _plain_steps(snapshot)
    if direction > 0:
        return next((edge for edge in edges if edge > lateness_ms), None)
    return next((edge for edge in reversed(edges) if edge < lateness_ms), None)


def step_idle(snapshot: Snapshot, idle_after_ms: int | None, direction: int) -> tuple[bool, int | None]:
    """The next idle timeout on the ladder (off is the longest), and whether there is one."""
    ladder = sorted((row.idle_after_ms for row in snapshot.whatif_idle or ()), key=_length)
    if not ladder:
        ladder = [step for step in _plain_steps(snapshot) if step]
        idle_after_ms = idle_after_ms or 0
    if direction < 0:
        ladder.reverse()
    here = _length(idle_after_ms)
    beyond = [step for step in ladder if (_length(step) - here) * direction > 0]
    return (True, beyond[0]) if beyond else (False, None)


def lateness(snapshot: Snapshot, lateness_ms: int) -> LatenessPreview:
    """The picture had lateness been `lateness_ms` from the start: exact at an edge, a range between two."""
    rows = snapshot.whatif or []
    zero = snapshot.level.at_zero_lateness_ms
    records = snapshot.totals.records
    late = late_at(rows, lateness_ms)
    then, now = _delay(rows, lateness_ms), _delay(rows, snapshot.settings.lateness_ms)
    return LatenessPreview(
        lateness_ms=lateness_ms,
        level_ms=None if zero is None else zero - lateness_ms,
        late=late,
        share=Range(late.low / records, late.high / records) if late and records else None,
        delay_change_ms=Range(then.low - now.high, then.high - now.low) if then and now else None,
        upper_bound=snapshot.whatif_upper_bound,
    )


def _plain_steps(snapshot: Snapshot) -> Sequence[int]:
    """The values for the keys if there is no what-if, but a line for the job."""
    return _STEPS_MS if kind_words(snapshot).previews_any_value else ()


def idle(snapshot: Snapshot, idle_after_ms: int | None) -> IdlePreview | None:
    """The effect of another idle timeout; None if the ladder does not have it."""
    row = next((row for row in snapshot.whatif_idle or () if row.idle_after_ms == idle_after_ms), None)
    if row is None:
        plain = not snapshot.whatif_idle and idle_after_ms in _plain_steps(snapshot)
        return IdlePreview(idle_after_ms, None, None, None, None, None, about=False) if plain else None
    records = snapshot.totals.records
    return IdlePreview(
        idle_after_ms=idle_after_ms,
        level_ms=row.watermark_ms,
        holder=row.holder,
        flaps=row.flaps,
        late=row.late,
        share=row.late / records if records else None,
        about=row.late_error > 0,
    )


def _length(idle_after_ms: int | None) -> float:
    return float("inf") if idle_after_ms is None else idle_after_ms


def late_at(rows: Sequence[WhatIf | RecentRow], lateness_ms: int) -> Range | None:
    """Late records at `lateness_ms`, between the counts at the edges around it, since they fall as lateness grows;
    below the first edge (ms) not known.
    """
    if not rows or lateness_ms < rows[0].lateness_ms:
        return None
    place = bisect_left(rows, lateness_ms, key=lambda row: row.lateness_ms)
    if place == len(rows):
        return Range(0, rows[-1].late)
    if rows[place].lateness_ms == lateness_ms:
        return Range(rows[place].late, rows[place].late)
    return Range(rows[place].late, rows[max(place - 1, 0)].late)


def _delay(rows: list[WhatIf], lateness_ms: int | None) -> Range | None:
    if lateness_ms is None:
        return None
    place = bisect_left(rows, lateness_ms, key=lambda row: row.lateness_ms)
    if place == len(rows):
        return None
    below = place if rows[place].lateness_ms == lateness_ms else place - 1
    low, high = rows[max(below, 0)].delay_ms, rows[place].delay_ms
    return None if low is None or high is None else Range(min(low, high), max(low, high))
