"""The content of each part of the main screen, made from a snapshot and the view of it. Pure."""

from collections.abc import Sequence

from ...engine.snapshot import OpenWindow, Snapshot
from ...engine.text import formatting as f
from ...engine.text.formatting import name
from ..widgets.barrel import BarrelScene, legend
from ..widgets.channels import Table
from ..widgets.charts import Heat
from ..widgets.holds import HolderSpan
from ..widgets.lines import Heading
from ..widgets.windows import OpenWindowTable
from ..words.barrel import Stave
from ..words.channels import ChannelRow, View, fastest_ms, stave_of
from ..words.presenter import presenter_of
from ..words.preview import Preview, preview_title
from ..words.recent import Recent
from ..words.spans import Span, cells
from ..words.texts import BY_DISTANCE, NO_CHANNEL_MATCHES, NO_WINDOW_MATCHES
from ..words.watermark import ahead_elsewhere, channel_facts, is_close, unclosed_words
from ..words.windows import taking_part


def scene(snapshot: Snapshot, view: View, preview: Preview | None, staves: Sequence[Stave]) -> BarrelScene:
    """The barrel's content."""
    return BarrelScene(
        staves=staves,
        level_ms=snapshot.level.watermark_ms,
        preview_ms=preview.level_ms if preview else None,
        barrel_ms=snapshot.barrel.watermark_ms if snapshot.barrel else None,
        lateness_ms=snapshot.settings.lateness_ms or 0,
        selected=stave_of(snapshot, view),
        logarithmic=view.logarithmic,
        zone=view.zone,
        clock_ms=snapshot.now_ms if snapshot.is_attached else None,
        empty=presenter_of(snapshot).empty_barrel(),
    )


def heat(snapshot: Snapshot, view: View, recent: Recent, rows: Sequence[ChannelRow]) -> Heat:
    """The heat map's content: the filtered channels."""
    one_clock = snapshot.one_clock
    staves = [Stave(e.view.channel, e.view.max_event_ms if one_clock else e.view.watermark_ms, e.kind) for e in rows]
    empty = presenter_of(snapshot).empty_barrel() if not snapshot.channels else ""
    return Heat(staves, recent.past.until(snapshot), view.selected, view.zone, empty)


def held(snapshot: Snapshot, recent: Recent) -> HolderSpan:
    """The holder strip's content, as far back as the points reach."""
    points = recent.until(snapshot)
    if not points or snapshot.one_clock or snapshot.level.watermark_ms is None:
        return HolderSpan()
    holder = snapshot.level.holder
    return HolderSpan(recent.holds(snapshot), points[0].now_ms, points[-1].now_ms, holder.channel if holder else None)


def table(snapshot: Snapshot, view: View, rows: Sequence[ChannelRow], names: int) -> Table:
    """The channel table's content."""
    holder = snapshot.level.holder
    return Table(
        entries=rows,
        sort=view.sort,
        reverse=view.reverse,
        level_ms=snapshot.level.watermark_ms,
        now_ms=snapshot.now_ms,
        held_since_ms=holder.since_ms if holder else None,
        close=is_close(snapshot) or ahead_elsewhere(snapshot),
        selected=view.selected,
        zone=view.zone,
        name_cells=names,
        facts=channel_facts(snapshot),
        empty=_no_channel(snapshot),
    )


def _no_channel(snapshot: Snapshot) -> str:
    if snapshot.channels:
        return NO_CHANNEL_MATCHES
    return presenter_of(snapshot).no_channels()


def open_windows(snapshot: Snapshot, view: View) -> OpenWindowTable:
    """The window table's content."""
    level = snapshot.level
    settings, windows = snapshot.settings, snapshot.windows
    shown = matching_windows(snapshot, view)
    filtered = view.windows_pattern is not None and bool(windows.open)
    return OpenWindowTable(
        open=shown,
        open_count=len(shown) if filtered else windows.open_count,
        level_ms=level.watermark_ms,
        fastest_ms=fastest_ms(snapshot),
        near_ms=snapshot.now_ms,
        lateness_ms=settings.lateness_ms if settings.tunable else None,
        taking_part=taking_part(snapshot),
        zone=view.zone,
        empty=NO_WINDOW_MATCHES if filtered else presenter_of(snapshot).no_windows(),
        unclosed=unclosed_words(snapshot),
    )


def matching_windows(snapshot: Snapshot, view: View) -> Sequence[OpenWindow]:
    """The open windows that match the filter, by their times and the channels they wait for."""
    pattern, windows = view.windows_pattern, snapshot.windows.open
    if pattern is None:
        return windows
    return [
        window
        for window in windows
        if pattern.search(f.interval(window.start_ms, window.end_ms, view.zone, snapshot.now_ms))
        or pattern.search(" ".join([*(window.blockers or ()), window.waits_for or ""]))
    ]


def barrel_heading(
    snapshot: Snapshot, view: View, preview: Preview | None, staves: Sequence[Stave], prefix: str
) -> Heading:
    """The barrel's title, the selection, and the meaning of its patterns."""
    what = "instance" if snapshot.instances is not None and view.inside is None else "channel"
    title: list[Span] = [("Heat map" if view.heat else "Barrel", "title")]
    if staves:
        title.append((f"  {f.counted(len(staves), what)}", "dim"))
    if view.inside is not None:
        title.append((f" inside #{view.inside}", "strong"))
    if prefix:
        title.append((f", named {f.cut(prefix, 20)}…", "dim"))
    if view.logarithmic:
        title.append((f"  {BY_DISTANCE}", "dim"))
    title += _selection(snapshot, view)
    if preview is not None:
        return Heading(0, title, [("┈ ", "preview"), (preview_title(preview), "preview")], firm=True)
    words = [("how far behind the fastest, over time", "dim")] if view.heat else legend({s.kind for s in staves})
    if snapshot.barrel is not None and snapshot.barrel.watermark_ms is not None:
        words += [("   ╌ ", "held"), ("watermark by the slowest channel", "dim")]
    return Heading(0, title, words)


def _title(name: str, focused: bool) -> Span:
    """A table's name, marked while it has the focus."""
    return (f"▶ {name}", "accent") if focused else (name, "title")


def channel_heading(snapshot: Snapshot, view: View, rows: Sequence[ChannelRow], *, focused: bool) -> Heading:
    """The channel table's title: sort order and filter."""
    order = f"{view.sort} {'▴' if view.reverse else '▾'}"
    title: list[Span] = [_title("Channels", focused), (" ─ ", "frame"), ("sort: ", "dim"), (order, "text")]
    if view.pattern is not None:
        title += [(" ─ ", "frame"), (f"/{f.cut(f.clean(view.pattern.pattern), 20)}", "accent")]
        title.append((f"  {len(rows):,} of {len(snapshot.channels):,}", "dim"))
    return Heading(0, title)


_RULE = 4
"""The cells that a rule has around a title."""


def window_heading(snapshot: Snapshot, view: View, start: int, width: int, *, focused: bool) -> Heading:
    """The window table's title, `width` cells wide: the counts, or the filter."""
    windows = snapshot.windows
    if view.windows_pattern is not None:
        filtered: list[Span] = [_title("Windows", focused), (" ─ ", "frame")]
        filtered.append((f"/{f.cut(f.clean(view.windows_pattern.pattern), 12)}", "accent"))
        filtered.append((f"  {len(matching_windows(snapshot, view)):,} of {len(windows.open):,}", "dim"))
        return Heading(start, filtered)
    roomy = width >= 44
    figures = ((windows.open_count, "open"), (windows.fired, "fired"), (windows.late_firings, "late firings"))
    known = [figure for figure in figures if figure[0] is not None]
    title: list[Span] = [_title("Windows", focused), (" ─" if roomy and known else "", "frame")]
    for place, (number, word) in enumerate(known):
        gap = " · " if place and roomy else " "
        more: list[Span] = [*title, (gap, "dim"), (f.count(number), "text"), (f" {word}", "dim")]
        if cells(more) + _RULE > width:
            break  # half a word means nothing
        title = more
    return Heading(start, title)


def _selection(snapshot: Snapshot, view: View) -> list[Span]:
    chosen = next((channel for channel in snapshot.channels if channel.channel == view.selected), None)
    if chosen is None:
        return []
    time = f.NO_DATA if chosen.watermark_ms is None else f.clock(chosen.watermark_ms, view.zone, snapshot.now_ms)
    return [(" ─ ", "frame"), (f" {name(chosen.channel)} ", "selected"), (f" {time}", "text")]
