"""Event time against processing time: the part that is shown, and the content of each cell. Pure.

The picture moves by whole columns and rows, and its scale changes only if necessary, so that it stays calm.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo
from math import floor

from msgspec import Struct
from msgspec.structs import replace

from ...engine.snapshot import Snapshot, TimePoint
from ...engine.text import formatting as f
from ...engine.verdict.history import HistoryPoint
from ...engine.watermarks.settings import Session
from .barrel import STEPS
from .spans import Dots, Span, joined

LATE, LEVEL, DIAGONAL, GRID, PREVIEW = "×", "─", "╱", "┈", "╌"
ZOOM = 2
MAX_ZOOM, MIN_ZOOM = 10, -6
_LAGS, _TICK_CELLS, _TICK_ROWS = 3, 14, 3
"""The width of the first picture in lags, and the least distances between two labels."""
_FAR = 4
"""A diagonal farther away than this many pictures is not drawn to scale."""
_SAME = (0.8, 1.34)
"""The scale is kept while a column's width is within these multiples of the ideal one: a calm picture."""
_GRID_ROWS = 2
"""Window ends closer together than this are not drawn."""


class PlotView(Struct, frozen=True):
    """The view: zoomed in (above 0) or out, moved back in processing time and up in event time (ms)."""

    zoom: int = 0
    back_ms: int = 0
    up_ms: int = 0
    channel: str | None = None
    """Show only the records of this channel."""


class PlotFrame(Struct, frozen=True):
    """The part that is shown: a column is `cell_ms` of processing time, a row `row_ms` of event time."""

    x_low: int
    cell_ms: int
    columns: int
    y_low: int
    row_ms: int
    rows: int
    zoom: int = 0

    @property
    def x_high(self) -> int:
        """The right end (ms)."""
        return self.x_low + self.cell_ms * self.columns

    @property
    def y_high(self) -> int:
        """The upper end (ms)."""
        return self.y_low + self.row_ms * self.rows

    def column(self, now_ms: int) -> float:
        """The column of a processing time, from the left."""
        return (now_ms - self.x_low) / self.cell_ms

    def row(self, event_ms: int) -> float:
        """The row of an event time, from the bottom."""
        return (event_ms - self.y_low) / self.row_ms


class Data(Struct, frozen=True):
    """What is drawn: records, the watermark over time, where the windows end, and now; all ms."""

    points: Sequence[TimePoint]
    line: Sequence[tuple[int, int]]
    """Processing time and watermark, ascending."""
    now_ms: int
    scale_ms: int
    """Lateness plus window size: the usual distance between records and results."""
    lag_ms: int
    window_ms: int | None = None
    offset_ms: int = 0
    preview_by_ms: int | None = None
    """How much higher the previewed watermark would have been."""


def data_of(
    snapshot: Snapshot,
    history: Sequence[HistoryPoint],
    sample: Sequence[TimePoint],
    channel: str | None,
    preview_ms: int | None,
) -> Data | None:
    """The data of a snapshot to draw; None without a clock. `preview_ms`: a previewed lateness."""
    now, settings = snapshot.now_ms, snapshot.settings
    if now is None:
        return None
    line = [(point.now_ms, point.watermark_ms) for point in history if point.watermark_ms is not None]
    kept = [point for point in sample if point.now_ms <= now and (channel is None or point.channel == channel)]
    window = settings.window
    fixed = None if window is None or isinstance(window, Session) else window
    size = window.gap_ms if isinstance(window, Session) else None if window is None else window.size_ms
    return Data(
        points=kept,
        line=line,
        now_ms=now,
        scale_ms=(settings.lateness_ms or 0) + (size or f.MINUTE),
        lag_ms=max(snapshot.level.behind_clock_ms or 0, 0),
        window_ms=None if fixed is None else fixed.slide_ms,
        offset_ms=0 if fixed is None else (fixed.offset_ms + fixed.size_ms) % fixed.slide_ms,
        preview_by_ms=None if preview_ms is None else (settings.lateness_ms or 0) - preview_ms,
    )


def frame_of(data: Data, look: PlotView, columns: int, rows: int, last: PlotFrame | None) -> PlotFrame:
    """The part to show; `last` is the part shown before, whose scales are kept while they fit."""
    oldest = min([point.now_ms for point in data.points[:1]] + [now for now, _ in data.line[:1]], default=data.now_ms)
    kept = max(data.now_ms - oldest, f.MINUTE)
    span = min(_LAGS * max(data.lag_ms, data.scale_ms // 2) + data.scale_ms, kept)
    wanted = span * ZOOM**-look.zoom / columns
    same = last if last is not None and last.zoom == look.zoom and last.columns == columns else None
    cell = same.cell_ms if same is not None and _SAME[0] <= same.cell_ms / wanted <= _SAME[1] else _nice(wanted)
    right = -(-(data.now_ms - look.back_ms) // cell) * cell
    left = right - cell * columns
    low, high = _event_span(data, left, right)
    need = (high - low) / max(rows - 1, 1)
    kept_row = same is not None and same.rows == rows and 0.4 * same.row_ms <= need <= same.row_ms
    row = same.row_ms if same is not None and kept_row else _nice(need)
    top = -(-(high + look.up_ms) // row) * row
    return PlotFrame(left, cell, columns, top - row * rows, row, rows, look.zoom)


def _event_span(data: Data, left: int, right: int) -> tuple[int, int]:
    """The event times that matter between two processing times: without outliers, with the diagonal if it is near."""
    times = sorted(point.event_ms for point in data.points if left <= point.now_ms <= right)
    levels = [level for now, level in data.line if left <= now <= right]
    end = min(right, data.now_ms)
    if not times and not levels:
        return left - data.lag_ms, end
    few = len(times) // 50
    low = min([*times[few : few + 1], *levels[:1]])
    high = max([*times[len(times) - 1 - few : len(times) - few], *levels[-1:]])
    reach = _FAR * max(right - left, high - low)
    least = low + (right - left) // 4  # a watermark that is stuck has no milliseconds to show
    return (low, max(high, end if abs(end - high) <= reach else least))


def _nice(wanted: float) -> int:
    """A round time of at least `wanted` (ms)."""
    return next((step // n for step, n in _FINE if step // n >= wanted), STEPS[-1])


_FINE = sorted(
    ((step, n) for step in STEPS for n in (12, 10, 6, 5, 4, 3, 2, 1) if not step % n),
    key=lambda part: part[0] / part[1],
)
"""Round times and equal parts of them, by length."""


def moved(look: PlotView, frame: PlotFrame, right: float, up: float) -> PlotView:
    """The view moved by shares of the picture; never beyond now."""
    back = look.back_ms - round(right * frame.cell_ms * frame.columns)
    return replace(look, back_ms=max(back, 0), up_ms=look.up_ms + round(up * frame.row_ms * frame.rows))


def zoomed(look: PlotView, frame: PlotFrame, by: int) -> PlotView:
    """The view zoomed in (1) or out (-1): around now if the picture follows the clock, else around its middle."""
    zoom = max(min(look.zoom + by, MAX_ZOOM), MIN_ZOOM)
    if zoom == look.zoom:
        return look
    half = frame.cell_ms * frame.columns // 2 if look.back_ms else 0
    back = look.back_ms + half - round(half * ZOOM ** (look.zoom - zoom))
    return replace(look, zoom=zoom, back_ms=max(back, 0), up_ms=0)


# What each cell contains


def drawn(data: Data, frame: PlotFrame, *, plain: bool = False) -> list[list[Span]]:
    """The rows of the picture, the upper one first; without colours (`plain`) the diagonal has other signs."""
    cells: list[list[Span]] = [[(" ", "text")] * frame.columns for _ in range(frame.rows)]
    _draw_grid(cells, data, frame)
    _draw_diagonal(cells, data, frame, plain)
    _draw_dots(cells, ((frame.column(p.now_ms), p.event_ms) for p in data.points if not p.late), frame, "on-time")
    if data.preview_by_ms is not None:
        preview = [(now, level + data.preview_by_ms) for now, level in data.line]
        _draw_line(cells, preview, data, frame, "preview", PREVIEW)
    _draw_line(cells, data.line, data, frame, "level", LEVEL)
    for point in data.points:
        if point.late and (place := _place(frame, point)) is not None:
            cells[place[0]][place[1]] = (LATE, "bad")
    return [joined(row) for row in reversed(cells)]


def grid_is_drawn(data: Data, frame: PlotFrame) -> bool:
    """Whether the ends of windows are far enough apart to draw."""
    return data.window_ms is not None and data.window_ms >= _GRID_ROWS * frame.row_ms


def _draw_grid(cells: list[list[Span]], data: Data, frame: PlotFrame) -> None:
    if data.window_ms is None or not grid_is_drawn(data, frame):
        return
    end = frame.y_low + (data.offset_ms - frame.y_low) % data.window_ms
    while end < frame.y_high:
        cells[int(frame.row(end))] = [(GRID, "frame")] * frame.columns
        end += data.window_ms


def _draw_diagonal(cells: list[list[Span]], data: Data, frame: PlotFrame, plain: bool) -> None:
    """Draw the present event time: a line of dots, or of strokes without colours."""
    times = (frame.x_low + frame.cell_ms * half // 2 + frame.cell_ms // 4 for half in range(2 * frame.columns))
    points = [(place / 2, time) for place, time in enumerate(times) if time <= data.now_ms]
    _draw_dots(cells, points, frame, "dim", DIAGONAL if plain else None)


def _draw_dots(
    cells: list[list[Span]], points: Iterable[tuple[float, int]], frame: PlotFrame, style: str, sign: str | None = None
) -> None:
    """Draw dots at columns and event times, eight per cell, or the sign in each of their cells."""
    dots = Dots(frame.columns, frame.rows)
    for column, event_ms in points:
        dots.dot(column, frame.rows - (floor(4 * frame.row(event_ms)) + 1) / 4, style)
    for row in range(frame.rows):
        cells[row] = dots.row(frame.rows - 1 - row, cells[row], sign)


def _place(frame: PlotFrame, point: TimePoint) -> tuple[int, int] | None:
    """The cell (row from the bottom, column) of a record."""
    if not (frame.x_low <= point.now_ms < frame.x_high and frame.y_low <= point.event_ms < frame.y_high):
        return None
    return int(frame.row(point.event_ms)), int(frame.column(point.now_ms))


def _draw_line(
    cells: list[list[Span]], line: Sequence[tuple[int, int]], data: Data, frame: PlotFrame, style: str, flat: str
) -> None:  # fmt: skip
    """Draw the watermark as steps of `flat` signs."""
    times = [now for now, _ in line]
    before: int | None = None
    for column in range(frame.columns):
        left = frame.x_low + column * frame.cell_ms
        if left > data.now_ms:
            return
        known = bisect_right(times, left + frame.cell_ms - 1)
        if not known:
            continue
        time = line[known - 1][1]
        row = -1 if time < frame.y_low else min(int(frame.row(time)), frame.rows)  # outside: just below, just above
        shape = {row: flat}
        if before is not None and before != row:
            up = row > before
            shape = dict.fromkeys(range(min(before, row) + 1, max(before, row)), "│")
            shape |= {before: "╯" if up else "╮", row: "╭" if up else "╰"}
        for place, sign in shape.items():
            if 0 <= place < len(cells):
                cells[place][column] = (sign, style)
        before = row


# The axes


def y_labels(frame: PlotFrame, zone: tzinfo | None) -> dict[int, str]:
    """The labelled rows, counted from the bottom."""
    labels = _labels(frame.y_low, frame.y_high, _TICK_ROWS * frame.row_ms, zone)
    return {int(frame.row(time)): text for time, text in labels}


def x_labels(frame: PlotFrame, zone: tzinfo | None) -> dict[int, str]:
    """The labels below, by the column of their time."""
    labels = _labels(frame.x_low, frame.x_high, _TICK_CELLS * frame.cell_ms, zone)
    return {int(frame.column(time)): text for time, text in labels}


def _labels(low: int, high: int, apart_ms: int, zone: tzinfo | None) -> Iterator[tuple[int, str]]:
    """Round times between two times, at least `apart_ms` apart, in words."""
    step = next((step for step in STEPS if step >= apart_ms), STEPS[-1])
    times = range(-(-low // step) * step, high, step)
    return zip(times, f.axis_times(times, zone, step), strict=True)
