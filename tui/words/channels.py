"""The channels in the user's view: filtered and sorted rows, and the facts about one channel, in words. Pure."""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, tzinfo
from typing import Any, Literal

from msgspec import Struct

from ...engine.snapshot import ChannelView, Offender, Snapshot
from ...engine.text import formatting as f
from ...engine.text.codes import CHANNEL_STATES
from ...engine.text.formatting import name
from ...engine.verdict.preview import ProposedSetting
from . import preview as what_if
from .barrel import Kind, holding, kind_of, rank, under_one_clock
from .preview import Preview
from .spans import Span
from .watermark import cause, held_for, kind_words

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


Fact = tuple[str, list[Span]]
"""A label, and the known value."""


def story(snapshot: Snapshot, view: ChannelView) -> list[Span]:
    """The channel's state, in a sentence."""
    who: Span = (name(view.channel), "strong")
    if holding(snapshot) == view.channel and snapshot.level.holder is not None:
        return [(who[0], "holder"), (f" holds back the watermark{held_for(snapshot)}: {cause(snapshot)}.", "text")]
    return [who, (f" {_standing(snapshot, view)}.", "text")]


def _standing(snapshot: Snapshot, view: ChannelView) -> str:
    ahead = _ahead(snapshot, view)
    if view.state != "active":
        quiet = "" if view.quiet_ms is None else f", no data for {f.duration(view.quiet_ms)}"
        behind = "" if ahead is None or ahead >= 0 else f", {f.duration(-ahead)} behind the watermark"
        return CHANNEL_STATES[view.state].sentence.format(quiet=quiet, behind=behind)
    if ahead is None:
        return "is active, and has no watermark yet" if view.watermark_ms is None else "is active"
    return (
        f"is active, {f.duration(ahead)} ahead of the watermark"
        if ahead >= 0
        else f"is {f.duration(-ahead)} behind the watermark"
    )


def facts(snapshot: Snapshot, view: ChannelView, zone: tzinfo | None) -> list[Fact]:
    """All known facts, the most important first; many are unknown for an attached query."""
    out: list[Fact] = [
        ("watermark", _watermark(snapshot, view, zone)),
        *_own_watermark(snapshot, view, zone),
        ("newest record", _time(view.max_event_ms, snapshot, zone)),
        ("no data for", _quiet(snapshot, view)),
        ("idleness", _idleness(snapshot, view)),
        ("records", _records(snapshot, view)),
        ("late", _late(view)),
        ("backlog", _backlog(snapshot, view)),
        ("set aside", _set_aside(view)),
    ]
    offenders = (("last malformed", snapshot.last_malformed), ("last in future", snapshot.last_future))
    out += [(what, _offender(found, zone)) for what, found in offenders if found and found.channel == view.channel]
    if windows := _windows(snapshot, view, zone):
        out.append(("open windows", windows))
    if view.instance is not None:
        out.append(("source instance", [(f"#{view.instance}", "text")]))
    return out


def _ahead(snapshot: Snapshot, view: ChannelView) -> int | None:
    level = snapshot.level.watermark_ms
    return None if view.watermark_ms is None or level is None else view.watermark_ms - level


def _watermark(snapshot: Snapshot, view: ChannelView, zone: tzinfo | None) -> list[Span]:
    if view.watermark_ms is None:
        return [(f.NO_DATA, "dim")]
    spans: list[Span] = [(f.clock(view.watermark_ms, zone, snapshot.now_ms), "level")]
    ahead = _ahead(snapshot, view)
    if ahead == 0:
        spans.append(("  at the watermark", "dim"))
    elif ahead is not None:
        side = "ahead of" if ahead > 0 else "behind"
        spans += [(f"  {f.duration(abs(ahead))}", "text"), (f" {side} the watermark", "dim")]
    return spans


def _own_watermark(snapshot: Snapshot, view: ChannelView, zone: tzinfo | None) -> list[Fact]:
    """The watermark it sends, if Flink tasks on the way send it later."""
    delay_ms = snapshot.job.delays.get(view.channel)
    if not delay_ms or view.watermark_ms is None:
        return []
    own = f.clock(view.watermark_ms + delay_ms, zone, snapshot.now_ms)
    way = f"{f.duration(abs(delay_ms))} {'later' if delay_ms > 0 else 'earlier'}"
    return [("its own", [(own, "text"), (f"  a task on the way sends it {way}", "dim")])]


def _time(time_ms: int | None, snapshot: Snapshot, zone: tzinfo | None) -> list[Span]:
    return [(f.UNKNOWN, "dim")] if time_ms is None else [(f.clock(time_ms, zone, snapshot.now_ms), "text")]


def _quiet(snapshot: Snapshot, view: ChannelView) -> list[Span]:
    if view.quiet_ms is None:
        return [(f.ELSEWHERE, "dim")]
    spans: list[Span] = [(f.duration(view.quiet_ms), "text"), (" now", "dim")]
    if view.longest_quiet_ms is not None:
        style = "stale" if view.quiet_ms > view.longest_quiet_ms else "text"
        spans += [(", longest before ", "dim"), (f.duration(view.longest_quiet_ms), style)]
    timeout = snapshot.settings.idle_after_ms
    if view.state in ("active", "catching_up", "never_seen") and timeout is not None:
        spans.append((f", idle after {f.setting(timeout)}", "dim"))
    return spans


def _idleness(snapshot: Snapshot, view: ChannelView) -> list[Span]:
    if view.flaps is None and snapshot.one_clock:
        return [("none: Spark's one clock has no idle timeout", "dim")]
    if view.flaps is None:
        return [(f.ELSEWHERE, "dim")]
    spans: list[Span] = [(f"{view.flaps:,}", "text"), (f" change{'s' * (view.flaps != 1)} active ↔ idle", "dim")]
    if view.round_ms is not None:
        spans += [(", lately every ", "dim"), (f.duration(view.round_ms), "text")]
    return spans


def _records(snapshot: Snapshot, view: ChannelView) -> list[Span]:
    if view.records is None:
        return [(f.ELSEWHERE, "dim")]
    spans: list[Span] = [(f.count(view.records), "text")]
    if view.rate is not None:
        spans += [(", ", "dim"), (f.rate(view.rate), "text"), ("/s", "dim")]
    if snapshot.totals.records:
        spans.append((f", {f.share_of(view.records, snapshot.totals.records)} of all", "dim"))
    return spans


def _late(view: ChannelView) -> list[Span]:
    if view.late is None:
        return [(f.ELSEWHERE, "dim")]
    spans: list[Span] = [(f.share_of(view.late, view.records), "stale" if view.late else "text")]
    spans.append((f" ({f.count(view.late)})", "dim"))
    if view.behind_watermark is not None:
        spans += [(", behind the watermark ", "dim"), (f.count(view.behind_watermark), "text")]
    return spans


def _backlog(snapshot: Snapshot, view: ChannelView) -> list[Span]:
    spans: list[Span] = [(f.UNKNOWN, "dim")]
    if view.backlog is not None:
        spans = [(f.count(view.backlog), "stale" if view.backlog else "text"), (" records", "dim")]
    if view.behind_end_ms:
        spans.append((f", {f.duration(view.behind_end_ms)} of event time", "dim"))
    if view.held_back:
        spans.append((f", paused by {kind_words(snapshot).paused_by}", "stale"))
    return spans


def _set_aside(view: ChannelView) -> list[Span]:
    spans: list[Span] = []
    for number, word in ((view.malformed, "malformed"), (view.future, "in the future")):
        style = "stale" if number else "text"
        spans += [(", " if spans else "", "dim"), (f.count(number), style), (f" {word}", "dim")]
    return spans


def _offender(found: Offender, zone: tzinfo | None) -> list[Span]:
    where = "" if found.offset is None else f"offset {found.offset:,}"
    part = "" if found.part is None else f" of {f.label(found.part, 40)}"
    claims = "no usable time" if found.timestamp_ms is None else f"claims {f.stamp(found.timestamp_ms, zone)}"
    return [(f"{where}{part}{': ' if where or part else ''}{claims}", "text")]


def _windows(snapshot: Snapshot, view: ChannelView, zone: tzinfo | None) -> list[Span]:
    """Its records in the open windows, if it is among the fullest channels there."""
    spans: list[Span] = []
    for window in snapshot.windows.open:
        records = next((part.records for part in window.channels or () if part.channel == view.channel), None)
        if records is not None:
            span = f.interval(window.start_ms, window.end_ms, zone, snapshot.now_ms)
            spans += [(", " if spans else "", "dim"), (f"{span} ", "dim"), (f.count(records), "text")]
    return spans
