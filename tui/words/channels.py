"""The channels in the user's view: filtered and sorted rows, kept in place; staves and preview. Pure."""

from collections.abc import Callable, Sequence
from datetime import UTC, tzinfo
from operator import itemgetter
from typing import Any, Literal

from msgspec import Struct

from ...engine.snapshot import ChannelView, Snapshot
from ...engine.text import formatting as f
from ...engine.verdict.blame import holding_channel
from ...engine.verdict.preview import ProposedSetting
from . import preview as what_if
from .barrel import Kind, Stave, holding_instance, instance_around, kind_of, rank, under_one_clock
from .preview import Preview
from .texts import Filter

Sort = Literal[
    "behind", "name", "rate", "late", "state",
    "records", "late n", "backlog", "event lag", "no data", "idle changes",
]  # fmt: skip
SORTS: tuple[Sort, ...] = ("behind", "name", "rate", "late", "state")
"""The orders that a key steps through; the others are reached by a click on a title."""


class ChannelRow(Struct, frozen=True, gc=False):
    """One channel and how it is drawn."""

    view: ChannelView
    kind: Kind
    time_ms: int | None = None
    """Its watermark; under Spark's one clock the event time of its newest record."""


def by_name(snapshot: Snapshot, inside: int | None) -> list[ChannelRow]:
    """The channels (of instance `inside`), by name."""
    holder, one_clock = holding_channel(snapshot), snapshot.one_clock
    level_ms = snapshot.late_watermark_ms if snapshot.spark.drops_late else None
    found = [
        ChannelRow(view, under_one_clock(view, level_ms), view.max_event_ms)
        if one_clock
        else ChannelRow(view, kind_of(view.channel, view.state, holder), view.watermark_ms)
        for view in snapshot.channels
        if inside is None or view.instance == inside
    ]
    found.sort(key=lambda entry: entry.view.channel)
    return found


def ordered(named: Sequence[ChannelRow], sort: Sort, *, reverse: bool = False) -> list[ChannelRow]:
    """The rows, given by name, in the order of `sort` or in reverse; what is not known is last."""
    value, descending = _ORDERS[sort]
    found = [(value(entry), entry) for entry in named]
    known = [pair for pair in found if pair[0] is not None]
    known.sort(key=itemgetter(0), reverse=descending != reverse)
    return [entry for _, entry in [*known, *(pair for pair in found if pair[0] is None)]]


PATIENCE_S = 8.0
"""How long (s) the place of a channel must differ, always to the same side, before it moves."""
_NEAR = 2
"""Further off (places) it moves at once: the order is nearly that of the values."""
_KEPT = 100
"""The channels after these are not kept in place."""


class Order:
    """Keeps channels in place: one moves only when its place has differed for a while."""

    def __init__(self, patience_s: float = PATIENCE_S, kept: int = _KEPT) -> None:
        self._patience, self._kept = patience_s, kept
        self._places: list[str] = []
        self._since: dict[str, tuple[bool, float]] = {}
        self._by: object = None

    def arrange(self, found: Sequence[ChannelRow], now_s: float, by: object = None) -> list[ChannelRow]:
        """The sorted channels at `now_s` (monotonic), the first in their places; another order `by` holds at once."""
        if by != self._by:
            self._by, self._places = by, []
        first, rest = found[: self._kept], found[self._kept :]
        by_key = {row.view.channel: row for row in first}
        ranks = {key: place for place, key in enumerate(by_key)}
        known = set(self._places)
        places = [key for key in self._places if key in by_key]
        since: dict[str, tuple[bool, float]] = {}
        for place, key in enumerate(places):  # since when each is out of place, to the same side
            if ranks[key] != place:
                above = ranks[key] > place
                side, start = self._since.get(key, (above, now_s))
                start = start if side == above else now_s
                since[key] = (above, start if abs(ranks[key] - place) <= _NEAR else now_s - self._patience)
        restless = {key for key, (_, start) in since.items() if now_s - start >= self._patience}
        self._since = {key: value for key, value in since.items() if key not in restless}
        places = [key for key in places if key not in restless]
        for key, place in ranks.items():
            if key in restless or key not in known:
                places.insert(place, key)
        self._places = places
        return [*(by_key[key] for key in places), *rest]


def staves(snapshot: Snapshot, inside: int | None, rows: Sequence[ChannelRow]) -> list[Stave]:
    """What the barrel draws, ordered as `rows`: source instances, each at its first channel's place, or channels."""
    if snapshot.instances is None or inside is not None:
        return [Stave(row.view.channel, row.time_ms, row.kind) for row in rows]
    places: dict[int | None, int] = {}
    for row in rows:
        places.setdefault(row.view.instance, len(places))
    holder = holding_instance(snapshot)
    found = sorted(snapshot.instances, key=lambda one: places.get(one.instance, len(places)))
    return [Stave(one.channel, one.watermark_ms, kind_of(one.channel, one.state, holder)) for one in found]


def next_sort(sort: Sort) -> Sort:
    """The next order that the key steps to after `sort`."""
    return SORTS[(SORTS.index(sort) + 1) % len(SORTS)] if sort in SORTS else SORTS[0]


_ORDERS: dict[Sort, tuple[Callable[[ChannelRow], Any], bool]] = {
    "behind": (lambda entry: rank(entry.kind, entry.time_ms), False),
    "name": (lambda entry: entry.view.channel, False),
    "rate": (lambda entry: entry.view.rate, True),
    "late": (lambda entry: f.ratio(entry.view.late, entry.view.records), True),
    "state": (
        lambda entry: (entry.kind != "holder", entry.view.state, rank(entry.kind, entry.time_ms)), False
    ),
    "records": (lambda entry: entry.view.records, True),
    "late n": (lambda entry: entry.view.late, True),
    "backlog": (lambda entry: entry.view.backlog, True),
    "event lag": (lambda entry: entry.view.behind_end_ms, True),
    "no data": (lambda entry: entry.view.quiet_ms, True),
    "idle changes": (lambda entry: entry.view.flaps, True),
}  # fmt: skip
"""The value that an order compares (None: not known, always last), and whether the greatest comes first."""


class View(Struct, frozen=True):
    """The user's view of the snapshot."""

    proposed: ProposedSetting | None = None
    sort: Sort = SORTS[0]
    reverse: bool = False
    pattern: Filter | None = None
    windows_pattern: Filter | None = None
    """The filter of the open windows: by their times, and by the channels they wait for."""
    inside: int | None = None
    """The source instance whose channels are shown."""
    selected: str | None = None
    """The selected channel."""
    logarithmic: bool = False
    zone: tzinfo | None = UTC
    frozen: bool = False
    heat: bool = False
    """Whether the heat map replaces the barrel."""


def preview_of(snapshot: Snapshot, proposed: ProposedSetting | None) -> Preview | None:
    """The preview of the proposed setting; None without one."""
    if proposed is None:
        return None
    if proposed.idle:
        return what_if.idle(snapshot, proposed.value_ms)
    return None if proposed.value_ms is None else what_if.lateness(snapshot, proposed.value_ms)


def stave_of(snapshot: Snapshot, view: View) -> str | None:
    """The stave of the selected channel: its own, or its instance's."""
    is_own = snapshot.instances is None or view.inside is not None
    return view.selected if is_own else instance_around(snapshot, view.selected)


def reference_ms(snapshot: Snapshot) -> int | None:
    """The time (epoch ms) whose date is omitted in event times: now; for data older than a year the watermark."""
    now_ms, level_ms = snapshot.now_ms, snapshot.level.watermark_ms
    return level_ms if now_ms is not None and level_ms is not None and now_ms - level_ms >= f.YEAR else now_ms


def ahead_ms(snapshot: Snapshot, view: ChannelView) -> int | None:
    """How far (ms) a channel is ahead of the watermark; None: not known."""
    level = snapshot.level.watermark_ms
    return None if view.watermark_ms is None or level is None else view.watermark_ms - level
