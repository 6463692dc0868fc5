"""The channels in the user's view: filtered and sorted rows, and the facts about one channel, in words. Pure."""

from collections.abc import Callable, Sequence
from datetime import UTC, tzinfo
from operator import itemgetter
from typing import Any, Literal

from msgspec import Struct

from ...engine.snapshot import ChannelView, Snapshot
from ...engine.text import formatting as f
from ...engine.text.codes import CHANNEL_STATES
from ...engine.text.formatting import name
from ...engine.verdict.blame import holding_channel
from ...engine.verdict.preview import ProposedSetting
from . import preview as what_if
from .barrel import Kind, Stave, holding_instance, instance_around, kind_of, rank, under_one_clock
from .preview import Preview
from .spans import Span
from .texts import Filter
from .watermark import cause, held_for, kind_words

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


Fact = tuple[str, list[Span]]
"""A label, and the known value."""


def channel_line(snapshot: Snapshot, view: ChannelView) -> list[Span]:
    """The channel's state, in a sentence."""
    if holding_channel(snapshot) == view.channel and snapshot.level.holder is not None:
        blamed = f" holds back the watermark{held_for(snapshot)}: {cause(snapshot)}."
        return [(name(view.channel), "holder"), (blamed, "text")]
    ahead = _ahead(snapshot, view)
    if view.state != "active":
        quiet = "" if view.quiet_ms is None else f", no data for {f.duration(view.quiet_ms)}"
        behind = "" if ahead is None or ahead >= 0 else f", {f.duration(-ahead)} behind the watermark"
        state = CHANNEL_STATES[view.state].sentence.format(quiet=quiet, behind=behind)
    elif ahead is None:
        state = "is active, and has no watermark yet" if view.watermark_ms is None else "is active"
    else:
        active, side = ("active, ", "ahead of") if ahead >= 0 else ("", "behind")
        state = f"is {active}{f.duration(abs(ahead))} {side} the watermark"
    return [(name(view.channel), "strong"), (f" {state}.", "text")]


def facts(snapshot: Snapshot, view: ChannelView, zone: tzinfo | None) -> list[Fact]:
    """All known facts, the most important first; many are unknown for an attached query."""
    out: list[Fact] = [(kind_words(snapshot).time_name, _watermark(snapshot, view, zone))]
    delay_ms = snapshot.job.delays.get(view.channel)
    if delay_ms and view.watermark_ms is not None:  # Flink tasks on the way send it later
        own = f.clock(view.watermark_ms + delay_ms, zone, snapshot.now_ms)
        way = f"{f.duration(abs(delay_ms))} {'later' if delay_ms > 0 else 'earlier'}"
        out.append(("its own", [(own, "text"), (f"  a task on the way sends it {way}", "dim")]))
    newest = view.max_event_ms
    set_aside: list[Span] = []
    for number, word in ((view.malformed, "malformed"), (view.future, "in the future")):
        style = "stale" if number else "text"
        set_aside += [(", " if set_aside else "", "dim"), (f.count(number), style), (f" {word}", "dim")]
    out += [
        ("newest record", [(f.UNKNOWN, "dim") if newest is None else (f.clock(newest, zone, snapshot.now_ms), "text")]),
        ("no data for", _quiet(snapshot, view)),
        *([("idleness", _idleness(snapshot, view))] if kind_words(snapshot).has_watermark else []),
        ("records", _records(snapshot, view)),
        ("late", _late(view)),
        ("backlog", _backlog(snapshot, view)),
        ("set aside", set_aside),
    ]
    example = snapshot.malformed_example
    if view.malformed and example is not None:
        out.append(("malformed, e.g.", [(f.malformed(example), "text")]))
    for what, found in (("last malformed", snapshot.last_malformed), ("last in future", snapshot.last_future)):
        if found is not None and found.channel == view.channel:
            where = "" if found.offset is None else f"offset {found.offset:,}"
            where += "" if found.part is None else f" of {f.label(found.part, 40)}"
            claims = "no usable time" if found.timestamp_ms is None else f"claims {f.stamp(found.timestamp_ms, zone)}"
            out.append((what, [(f"{where}{': ' if where else ''}{claims}", "text")]))
    windows: list[Span] = []  # those among whose fullest channels it is
    for window in snapshot.windows.open:
        records = next((part.records for part in window.channels or () if part.channel == view.channel), None)
        if records is not None:
            span = f.interval(window.start_ms, window.end_ms, zone, snapshot.now_ms)
            windows += [(", " if windows else "", "dim"), (f"{span} ", "dim"), (f.count(records), "text")]
    if windows:
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
