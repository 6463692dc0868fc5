"""The progress of a run: rows, results, batches, backlog and state over the kept history, as columns to draw. Pure."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from ...engine.core.history import HistoryPoint, backlog, phases_of
from ...engine.core.snapshot import Snapshot
from . import formatting as f

STEPS_MS = tuple(f.SECOND * step for step in (2, 3, 4, 5, 7, 10, 12, 15, 20, 30, 60))
"""Possible lengths (ms) of a column."""
NO_REPLAY_BACKLOG = "none: a replay has no backlog"
OUTLIER = 2.5
"""Values above this multiple of the 90 % quantile of the columns are cut off."""
PHASES = (("work_ms", "work"), ("commit_ms", "commit"), ("planning_ms", "plan"), ("offsets_ms", "offsets"))
"""The fields of `Phases` in the order of stacking, from the bottom up, with their words."""

Stack = tuple[float, ...]
"""The parts of a column, from the bottom up."""
Cells = Sequence[Sequence[HistoryPoint]]
"""The points of each column; the last column is the newest, and may have only just begun."""


class Chart(Struct, frozen=True):
    """A figure over time: its name, its present value, and its columns (None: not known then), drawn up to `top`."""

    name: str
    now: str
    columns: Sequence[Stack | None] = ()
    top: float = 0.0
    gauge: str = ""
    """`top` in words."""
    note: str | None = None
    """Why there are no columns, shown in their place."""


class UnreadPosition(Struct, frozen=True):
    """The unread part of a channel or source: records, and how far reading is behind in event time (ms)."""

    name: str
    records: int | None
    behind_ms: int | None


def step_ms(points: Sequence[HistoryPoint], columns: int) -> int:
    """The length of a column (ms), so that all points fit."""
    span = points[-1].wall_ms - points[0].wall_ms if points else 0
    return next((step for step in STEPS_MS if step * max(columns - 1, 1) >= span), STEPS_MS[-1])


def cells_of(points: Sequence[HistoryPoint], columns: int, cell_ms: int) -> list[list[HistoryPoint]]:
    """The points by column, from the oldest to the newest."""
    out: list[list[HistoryPoint]] = [[] for _ in range(columns)]
    newest = points[-1].wall_ms // cell_ms if points else 0
    for point in points:
        place = columns - 1 - (newest - point.wall_ms // cell_ms)
        if place >= 0:
            out[place].append(point)
    return out


def charts(snapshot: Snapshot, points: Sequence[HistoryPoint], cells: Cells) -> list[Chart]:
    """All figures, in the order in which they are drawn."""
    return [_rows(snapshot, cells), _results(snapshot, cells), _batches(snapshot, cells),
            backlog_chart(snapshot, cells), _state(snapshot, points, cells)]  # fmt: skip


def unread(snapshot: Snapshot) -> list[UnreadPosition]:
    """The unread records by channel (else by source), the most behind first."""
    views = [UnreadPosition(view.channel, view.backlog, view.behind_end_ms) for view in snapshot.channels
             if view.backlog is not None]  # fmt: skip
    found = views or [UnreadPosition(source.description, source.backlog, None) for source in snapshot.sources or ()]
    return sorted(found, key=lambda one: (-(one.records or 0), -(one.behind_ms or 0), one.name))


def _rows(snapshot: Snapshot, cells: Cells) -> Chart:
    columns = growth(cells, lambda point: point.records or None)
    if not any(columns):
        columns = each(cells, lambda point: point.rows_in, mean)
    done, coming = snapshot.spark.processed_rows_per_second, snapshot.spark.input_rows_per_second
    now = _last(columns) if coming is None else coming
    could = "" if done is None else f", {f.rate(done)}/s done"
    return chart_of("rows in", f"{f.rate(now)}/s{could}", columns, lambda value: f"{f.rate(value)}/s", now is None)


def _results(snapshot: Snapshot, cells: Cells) -> Chart:
    windows = snapshot.windows
    columns = growth(cells, lambda point: point.results)
    if windows.fired is None:
        return Chart("results out", "", note=f.ELSEWHERE)
    return chart_of("results out", f"{f.count(windows.fired + (windows.late_firings or 0))} in all", columns,
                  lambda value: f"{f.rate(value)}/s", False)  # fmt: skip


def _batches(snapshot: Snapshot, cells: Cells) -> Chart:
    columns: list[Stack | None] = []
    for points in cells:
        slowest = max((point for point in points if point.batch_ms), key=lambda p: p.batch_ms or 0, default=None)
        columns.append(None if slowest is None else _stack(slowest))
    now, phases = snapshot.spark.batch_ms, phases_of(snapshot.spark.phases_ms)
    words = "" if now is None else f.duration(now)
    if now and phases is not None:
        words += f", {f.share(phases.work_ms / now)} work"
    return chart_of("batch", words or f.UNKNOWN, columns, f.duration, now is None)


def _stack(point: HistoryPoint) -> Stack:
    total, phases = float(point.batch_ms or 0), point.phases
    if phases is None:
        return (total,)
    parts = [float(getattr(phases, field)) for field, _ in PHASES]
    parts[0] += max(total - sum(parts), 0.0)  # time that Spark does not account for
    return tuple(parts)


def backlog_chart(snapshot: Snapshot, cells: Cells) -> Chart:
    now = backlog(snapshot)
    if now is None:
        replay = snapshot.source is not None and snapshot.source.kind == "replay"
        return Chart("backlog", "", note=NO_REPLAY_BACKLOG if replay else f.ELSEWHERE)
    behind = max((view.behind_end_ms for view in snapshot.channels if view.behind_end_ms is not None), default=None)
    words = "" if behind is None else f", {f.duration(behind)} behind"
    columns = each(cells, lambda point: point.backlog, max)
    return chart_of("backlog", f"{f.count(now)}{words}", columns, whole, False)


def _state(snapshot: Snapshot, points: Sequence[HistoryPoint], cells: Cells) -> Chart:
    last = points[-1] if points else None
    rows, windows = (last.state_rows, last.open_windows) if last else (None, None)
    columns = each(cells, lambda point: point.state_rows, lambda values: values[-1])
    if rows is None:
        columns = each(cells, lambda point: point.open_windows, lambda values: values[-1])
    reported = [f"{f.count(rows)} rows"] if rows is not None else []
    size = snapshot.spark.state_bytes
    reported += [f.counted(windows, "window")] if windows is not None and size is None else []
    reported += [f"{size / 1_048_576:,.1f} MiB"] if size is not None else []
    return chart_of("state", ", ".join(reported) or f.UNKNOWN, columns, whole, not reported)


def whole(value: float) -> str:
    return f.count(int(value))


def chart_of(
    name: str, now: str, columns: Sequence[Stack | None], words: Callable[[float], str], unknown: bool
) -> Chart:  # fmt: skip
    known = sorted(sum(column) for column in columns if column is not None)
    if not known:
        return Chart(name, "", note=f.ELSEWHERE) if unknown else Chart(name, now)
    # A few outliers (the first batch) would flatten the rest.
    top = min(known[-1], OUTLIER * known[len(known) * 9 // 10])
    top = top or known[-1]
    return Chart(name, now, columns, top, words(top))


def each(
    cells: Cells, of: Callable[[HistoryPoint], float | None], one: Callable[[list[float]], float]
) -> list[Stack | None]:
    """One value for each column."""
    out: list[Stack | None] = []
    for points in cells:
        values = [value for point in points if (value := of(point)) is not None]
        out.append((float(one(values)),) if values else None)
    return out


def growth(cells: Cells, of: Callable[[HistoryPoint], int | None]) -> list[Stack | None]:
    """The growth of a total per second in each column."""
    out: list[Stack | None] = []
    before: tuple[int, int] | None = None
    for points in cells:
        known = [(point.wall_ms, value) for point in points if (value := of(point)) is not None]
        if not known:
            out.append(None)
            continue
        since, last = before or known[0], known[-1]
        passed = last[0] - since[0]
        out.append((f.SECOND * max(last[1] - since[1], 0) / passed,) if passed > 0 else None)
        before = last
    return out


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _last(columns: Sequence[Stack | None]) -> float | None:
    return next((sum(column) for column in reversed(columns) if column is not None), None)
