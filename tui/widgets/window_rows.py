"""The rows of the window list: open windows in two lines each, fired ones in one. Pure."""

from collections.abc import Sequence
from datetime import tzinfo

from msgspec import Struct
from rich.cells import cell_len

from ...engine.core.snapshot import FiredWindow, OpenWindow
from ..present import formatting as f
from ..present.blockers import WindowGroup, waits_for
from ..present.line import Span, cells, clip
from ..present.screen_words import windows_wait
from .windows import reach_bar

_BAR = (6, 24)
_SHORT, _CLOSES = 8, 24
_FIRED = 68
_AT = 12
"""The width of a fired window's line besides its name and rows."""
_NAMED, _NAME_CELLS = 6, 14
INKS = {"now": "good", "pace": "text", "idle": "text", "never": "stale", "unknown": "dim"}
"""The certainty that a window closes."""


class Shape(Struct, frozen=True):
    """What all rows share: the watermark and the fastest channel's (epoch ms), and the widths of windows and counts."""

    level_ms: int | None
    fastest_ms: int | None
    near_ms: int | None
    """Times on another day than this one have their date."""
    zone: tzinfo | None
    window: int
    rows: int


def shape_of(
    windows: Sequence[OpenWindow | FiredWindow],
    level_ms: int | None,
    fastest_ms: int | None,
    near_ms: int | None,
    zone: tzinfo | None,
) -> Shape:
    """The shape that fits `windows`."""
    names = [f.interval(w.start_ms, w.end_ms, zone, near_ms) for w in windows]
    return Shape(
        level_ms,
        fastest_ms,
        near_ms,
        zone,
        max((cell_len(name) for name in names), default=0),
        max((cell_len(f.count(w.records)) for w in windows), default=0),
    )


def open_titles(shape: Shape, width: int) -> list[Span]:
    """The line above the open windows."""
    bar = _bar_cells(shape, width)
    text = f" {f.pad('open', shape.window)}  {f.pad('rows', max(shape.rows, 4), right=True)}  {' ' * bar}"
    return clip([(f"{text}  {f.pad('short', _SHORT, right=True)}  closes", "dim")], width)


def open_sorts(window: OpenWindow, in_ms: float | None) -> dict[str, float | None]:
    """An open window's values by the titles of `open_titles`, from left to right; `in_ms`: when it closes."""
    return {"open": window.start_ms, "rows": window.records, "short": window.short_ms, "closes": in_ms}


def open_line(window: OpenWindow, closes: str, kind: str, shape: Shape, width: int) -> list[Span]:
    """Window, rows, bar, missing event time, and how it closes."""
    short = f.UNKNOWN if window.short_ms is None else f.duration(max(window.short_ms, 0))
    spans: list[Span] = [
        *_head(window, shape),
        *reach_bar(window.start_ms, window.end_ms, shape.level_ms, shape.fastest_ms, _bar_cells(shape, width)),
        (f"  {f.pad(short, _SHORT, right=True)}  ", "text"),
        (closes, INKS[kind]),
    ]
    return clip(spans, width)


def group_line(group: WindowGroup, width: int) -> list[Span]:
    """The line above windows that wait for the same channels, or, where these are not known, with the same times."""
    if group.first.blockers is None and waits_for(group.first) is None:
        return clip([(f" {f.counted(len(group.windows), 'window')} with the same start and end", "dim")], width)
    who = waits_for(group.first) or "nothing: they fire at the next emit"
    return clip([(f" {windows_wait(len(group.windows))} ", "dim"), (who, "holder")], width)


def open_details(window: OpenWindow, grouped: bool, width: int) -> list[Span]:
    """The channels it waits for (unless a line above its group names them), and those that fill it."""
    spans: list[Span] = [("   ", "dim")]
    who = waits_for(window)
    if who is not None and not grouped:
        spans += [("waits for ", "dim"), (who, "holder")]
    if window.operator is not None:
        spans.append((f"  operator {window.operator}", "dim"))
    parts, many = window.channels or [], window.channel_count or 0
    shown: list[Span] = []
    for place, part in enumerate(parts[:_NAMED]):
        rest = many - place - 1
        more = f", {rest:,} more" if rest else ""
        piece: list[Span] = [
            ("   " if not place else ", ", "dim"),
            (f.label(part.channel, _NAME_CELLS), "text"),
            (f" {f.count(part.records)}", "dim"),
        ]
        if cells([*spans, *shown, *piece]) + len(more) > width:
            break
        shown += piece
    left = many - sum(1 for _, ink in shown if ink == "text")
    if shown and left:
        shown.append((f", {left:,} more", "dim"))
    return clip([*spans, *shown], width)


def fired_titles(shape: Shape, width: int) -> list[Span]:
    """The line above the fired windows."""
    start = f" {f.pad('fired', shape.window)}  {f.pad('rows', max(shape.rows, 4), right=True)}"
    firings, drops = _late_titles(shape, width)
    return clip([(f"{start}  {f.pad('fired at', _AT)}  after end  {firings}  {drops}  until", "dim")], width)


def fired_sorts(window: FiredWindow) -> dict[str, int | None]:
    """A fired window's values by the titles of `fired_titles`, from left to right, long and short ones."""
    after = None if window.ended or window.fired_ms is None else window.fired_ms - window.end_ms
    return {
        "fired ": window.start_ms,
        "rows": window.records,
        "fired at": window.fired_ms,
        "after end": after,
        "late firings": window.late_firings,
        "refired": window.late_firings,
        "late drops": window.late_drops,
        "dropped": window.late_drops,
    }


def fired_line(window: FiredWindow, kept_until_ms: int | None, shape: Shape, width: int) -> list[Span]:
    """Window, rows, when it fired and how long after its end, late records, and whether it still accepts them."""
    fired = (
        "end of run" if window.ended or window.fired_ms is None else f.near(window.fired_ms, shape.zone, shape.near_ms)
    )
    after = f.UNKNOWN if window.ended or window.fired_ms is None else f.duration(window.fired_ms - window.end_ms)
    firings, drops = (len(title) for title in _late_titles(shape, width))
    until = "closed" if kept_until_ms is None else f.near(kept_until_ms, shape.zone, shape.near_ms)
    spans: list[Span] = [
        *_head(window, shape),
        (f.pad(fired, _AT), "text"),
        (f"  {f.pad(after, 9, right=True)}", "text"),
        (f"  {f.pad(f.count(window.late_firings), firings, right=True)}", "text" if window.late_firings else "dim"),
        (f"  {f.pad(f.count(window.late_drops), drops, right=True)}", "stale" if window.late_drops else "dim"),
        (f"  {until}", "dim" if kept_until_ms is None else "text"),
    ]
    return clip(spans, width)


def _head(window: OpenWindow | FiredWindow, shape: Shape) -> list[Span]:
    name = f.pad(f.interval(window.start_ms, window.end_ms, shape.zone, shape.near_ms), shape.window)
    rows = f.pad(f.count(window.records), max(shape.rows, 4), right=True)
    return [(f" {name}  ", "strong"), (f"{rows}  ", "text")]


def _late_titles(shape: Shape, width: int) -> tuple[str, str]:
    """The titles for late records, as wide as their columns: short ones if there is little room."""
    room = width - shape.window - max(shape.rows, 4) - _FIRED
    return ("late firings", "late drops") if room >= 0 else ("late", "dropped")


def _bar_cells(shape: Shape, width: int) -> int:
    spare = width - shape.window - max(shape.rows, 4) - _SHORT - _CLOSES - 9
    return max(min(spare, _BAR[1]), _BAR[0])
