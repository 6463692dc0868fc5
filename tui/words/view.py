"""The user's view of a snapshot: the preview, the filter, the sorted rows of the channel table. Pure."""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, tzinfo
from typing import Any, Literal

from msgspec import Struct

from ...engine.snapshot import ChannelView, Snapshot
from ...engine.text import formatting as f
from ...engine.verdict.preview import ProposedSetting
from . import preview as what_if
from .barrel import Kind, holding, kind_of, rank, under_one_clock
from .preview import Preview

Sort = Literal[
    "behind", "name", "rate", "late", "state",
    "records", "late n", "backlog", "event lag", "no data", "flaps",
]  # fmt: skip
SORTS: tuple[Sort, ...] = ("behind", "name", "rate", "late", "state")
"""The orders that a key steps through; the others are reached by a click on a title."""


class ChannelRow(Struct, frozen=True, gc=False):
    """One channel and how it is drawn."""

    view: ChannelView
    kind: Kind


class _Order(Struct, frozen=True):
    """The value that an order compares (None: not known, always last), and whether the greatest comes first."""

    value: Callable[[ChannelRow], Any]
    descending: bool = True


def by_name(snapshot: Snapshot, inside: int | None) -> list[ChannelRow]:
    """The channels (of instance `inside`), by name."""
    holder, level_ms = holding(snapshot), snapshot.level.watermark_ms
    one_clock = snapshot.one_clock
    found = [
        ChannelRow(view, under_one_clock(view, level_ms) if one_clock else kind_of(view.channel, view.state, holder))
        for view in snapshot.channels
        if inside is None or view.instance == inside
    ]
    found.sort(key=lambda entry: entry.view.channel)
    return found


def ordered(
    named: Sequence[ChannelRow], pattern: re.Pattern[str] | None, sort: Sort, *, reverse: bool = False
) -> list[ChannelRow]:
    """The entries, given by name, whose name `pattern` finds, in the order of `sort` or in reverse."""
    order = _ORDERS[sort]
    found = named if pattern is None else [entry for entry in named if pattern.search(entry.view.channel)]
    values = [order.value(entry) for entry in found]
    known = [place for place, value in enumerate(values) if value is not None]
    known.sort(key=values.__getitem__, reverse=order.descending != reverse)
    unknown = (entry for entry, value in zip(found, values, strict=True) if value is None)
    return [*(found[place] for place in known), *unknown]


def next_sort(sort: Sort) -> Sort:
    """The next order that the key steps to after `sort`."""
    return SORTS[(SORTS.index(sort) + 1) % len(SORTS)] if sort in SORTS else SORTS[0]


def _late_share(entry: ChannelRow) -> float | None:
    late, records = entry.view.late, entry.view.records
    return None if late is None or not records else late / records


_ORDERS: dict[Sort, _Order] = {
    "behind": _Order(lambda entry: rank(entry.kind, entry.view.watermark_ms), descending=False),
    "name": _Order(lambda entry: entry.view.channel, descending=False),
    "rate": _Order(lambda entry: entry.view.rate),
    "late": _Order(_late_share),
    "state": _Order(
        lambda entry: (entry.kind != "holder", entry.view.state, rank(entry.kind, entry.view.watermark_ms)),
        descending=False,
    ),
    "records": _Order(lambda entry: entry.view.records),
    "late n": _Order(lambda entry: entry.view.late),
    "backlog": _Order(lambda entry: entry.view.backlog),
    "event lag": _Order(lambda entry: entry.view.behind_end_ms),
    "no data": _Order(lambda entry: entry.view.quiet_ms),
    "flaps": _Order(lambda entry: entry.view.flaps),
}


class View(Struct, frozen=True):
    """The user's view of the snapshot."""

    proposed: ProposedSetting | None = None
    sort: Sort = SORTS[0]
    reverse: bool = False
    pattern: re.Pattern[str] | None = None
    windows_pattern: re.Pattern[str] | None = None
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
    """The preview of the proposed; None without a proposed."""
    if proposed is None:
        return None
    if proposed.idle:
        return what_if.idle(snapshot, proposed.value_ms)
    return None if proposed.value_ms is None else what_if.lateness(snapshot, proposed.value_ms)


def instance_of(snapshot: Snapshot, channel: str | None) -> int | None:
    """The source instance of a channel."""
    return next((view.instance for view in snapshot.channels if view.channel == channel), None)


def stave_of(snapshot: Snapshot, view: View) -> str | None:
    """The stave of the selected channel: its own, or its instance's."""
    if snapshot.instances is None or view.inside is not None:
        return view.selected
    instance = instance_of(snapshot, view.selected)
    return next((i.channel for i in snapshot.instances if i.instance == instance), None)


def reference_ms(snapshot: Snapshot) -> int | None:
    """The time (epoch ms) whose date is omitted in event times."""
    return f.reference_ms(snapshot.now_ms, snapshot.level.watermark_ms)


def fastest_ms(snapshot: Snapshot) -> int | None:
    """The watermark (epoch ms) of the fastest channel."""
    level = snapshot.level
    if level.watermark_ms is None or level.behind_fastest_ms is None:
        return None
    return level.watermark_ms + level.behind_fastest_ms
