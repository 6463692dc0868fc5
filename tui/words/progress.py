"""Progress over the kept history as columns to draw, how far a bounded source is read, a replay's position. Pure."""

from collections.abc import Callable, Sequence
from statistics import fmean

from msgspec import Struct

from ...engine.snapshot import Snapshot, SourceView
from ...engine.text import formatting as f
from ...engine.verdict.history import HistoryPoint, backlog, phases_of


class Playback(Struct, frozen=True):
    """The position of a replay (snapshot `number` of `count`, from 0), how it continues, and a note of one line."""

    number: int
    count: int
    playing: bool
    speed: float
    note: str | None = None

    @property
    def word(self) -> str:
        """The status word."""
        if self.playing:
            return f"REPLAY ▶ ×{self.speed:g}"
        return "REPLAY END" if self.number + 1 == self.count else "REPLAY PAUSED"


_BAR_CELLS = 20


def left_ms(source: SourceView, rows_per_second: float | None) -> float | None:
    """The time left at this rate (ms); None if it is not known, or nothing is left."""
    if not source.rows or source.rows_read is None or not rows_per_second or source.rows_read >= source.rows:
        return None
    return 1_000 * (source.rows - source.rows_read) / rows_per_second


def share_read(snapshot: Snapshot) -> str | None:
    """`45.0 % read, 12s left`; None for a source without an end. The time left is shown if nothing paces the replay."""
    source = snapshot.source
    if source is None or not source.rows or source.rows_read is None:
        return None
    read = f"{f.share_of(source.rows_read, source.rows)} read"
    rate = snapshot.spark.input_rows_per_second if source.speed is None and snapshot.state == "live" else None
    left = left_ms(source, rate)
    return read if left is None else f"{read}, {f.duration(left)} left"


def progress(source: SourceView, rows_per_second: float | None) -> str | None:
    """`45.0 % · 10.8M of 24.0M rows · 1.2M rows/s · 12s left`; None for a source without an end."""
    if not source.rows or source.rows_read is None:
        return None
    parts = [f.share_of(source.rows_read, source.rows), f"{f.count(source.rows_read)} of {f.count(source.rows)} rows"]
    if rows_per_second:
        parts.append(f"{f.rate(rows_per_second)} rows/s")
    if (left := left_ms(source, rows_per_second)) is not None:
        parts.append(f"{f.duration(left)} left")
    return " · ".join(parts)


def bar(source: SourceView) -> str:
    """The share read as a bar of fixed width."""
    assert source.rows
    assert source.rows_read is not None
    full = min(_BAR_CELLS, _BAR_CELLS * source.rows_read // source.rows)
    return "█" * full + "░" * (_BAR_CELLS - full)


STEPS_MS = tuple(f.SECOND * step for step in (2, 3, 4, 5, 7, 10, 12, 15, 20, 30, 60))
"""Possible lengths (ms) of a column."""
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


def lags_of(points: Sequence[HistoryPoint], columns: int, cell_ms: int) -> list[int | None]:
    """The greatest lag (ms) in each of the last `columns` stretches of `cell_ms`."""
    lags = [[lag_of(point) for point in cell] for cell in cells_of(points, columns, cell_ms)]
    return [max((lag for lag in cell if lag is not None), default=None) for cell in lags]


def lag_of(point: HistoryPoint) -> int | None:
    """How far (ms) it is behind the fastest channel; behind the clock where no channel is, and the data are not old."""
    if point.behind_fastest_ms or point.holder is not None or point.watermark_ms is None:
        return point.behind_fastest_ms
    behind = max(point.now_ms - point.watermark_ms, 0)
    return behind if behind < f.YEAR else None


def charts(
    snapshot: Snapshot, points: Sequence[HistoryPoint], cells: Cells, no_backlog: str = f.ELSEWHERE
) -> list[Chart]:
    """All figures, in the order in which they are drawn; `no_backlog`: why the backlog is not known."""
    columns = growth(cells, lambda point: point.records or None)
    if not any(columns):
        columns = each(cells, lambda point: point.rows_in, fmean)
    done, now = snapshot.spark.processed_rows_per_second, snapshot.spark.input_rows_per_second
    now = last_of(columns) if now is None else now
    could = "" if done is None else f", {f.rate(done)}/s done"
    rows = chart_of("rows in", None if now is None else f"{rate_words(now)}{could}", columns, rate_words)
    windows, fired = snapshot.windows, growth(cells, lambda point: point.results)
    results = Chart("results out", "", note=f.ELSEWHERE)
    if windows.fired is not None:
        in_all = f"{f.count(windows.fired + (windows.late_firings or 0))} in all"
        results = chart_of("results out", in_all, fired, rate_words)
    backlogged = backlog_chart(snapshot, cells, no_backlog)
    return [rows, results, _batches(snapshot, cells), backlogged, _state(snapshot, points, cells)]


def unread(snapshot: Snapshot) -> list[UnreadPosition]:
    """The unread records by channel (else by source), the most behind first."""
    views = [UnreadPosition(view.channel, view.backlog, view.behind_end_ms) for view in snapshot.channels
             if view.backlog is not None]  # fmt: skip
    found = views or [UnreadPosition(source.description, source.backlog, None) for source in snapshot.sources or ()]
    return sorted(found, key=lambda one: (-(one.records or 0), -(one.behind_ms or 0), one.name))


def rate_words(per_second: float) -> str:
    """`1.2k/s`."""
    return f"{f.rate(per_second)}/s"


def _count(value: float) -> str:
    return f.count(int(value))


def last_of(columns: Sequence[Stack | None]) -> float | None:
    """The value of the last column that is known."""
    return next((sum(column) for column in reversed(columns) if column is not None), None)


def _batches(snapshot: Snapshot, cells: Cells) -> Chart:
    """The slowest batch of each column, by the phases of its time."""
    columns: list[Stack | None] = []
    for points in cells:
        slowest = max((point for point in points if point.batch_ms), key=lambda p: p.batch_ms or 0, default=None)
        if slowest is None or slowest.phases is None:
            columns.append(None if slowest is None else (float(slowest.batch_ms or 0),))
            continue
        parts = [float(getattr(slowest.phases, field)) for field, _ in PHASES]
        parts[0] += max((slowest.batch_ms or 0) - sum(parts), 0.0)  # time that Spark does not account for
        columns.append(tuple(parts))
    now, phases = snapshot.spark.batch_ms, phases_of(snapshot.spark.phases_ms)
    work = f", {f.share(phases.work_ms / now)} work" if now and phases is not None else ""
    return chart_of("batch", None if now is None else f.duration(now) + work, columns, f.duration)


def backlog_chart(snapshot: Snapshot, cells: Cells, unknown: str = f.ELSEWHERE) -> Chart:
    """The unread records; `unknown`: why their number is not known."""
    now = backlog(snapshot)
    if now is None:
        return Chart("backlog", "", note=unknown)
    behind = max((view.behind_end_ms for view in snapshot.channels if view.behind_end_ms is not None), default=None)
    words = "" if behind is None else f", {f.duration(behind)} behind"
    columns = each(cells, lambda point: point.backlog, max)
    return chart_of("backlog", f"{f.count(now)}{words}", columns, _count)


def _state(snapshot: Snapshot, points: Sequence[HistoryPoint], cells: Cells) -> Chart:
    last = points[-1] if points else None
    rows, windows = (last.state_rows, last.open_windows) if last else (None, None)
    columns = each(cells, lambda point: point.state_rows, lambda values: values[-1])
    if rows is None:
        columns = each(cells, lambda point: point.open_windows, lambda values: values[-1])
    reported = [f.counted(rows, "row")] if rows is not None else []
    size = snapshot.spark.state_bytes
    reported += [f.counted(windows, "window")] if windows is not None and size is None else []
    reported += [f"{size / 1_048_576:,.1f} MiB"] if size is not None else []
    return chart_of("state", ", ".join(reported) or None, columns, _count)


def chart_of(name: str, now: str | None, columns: Sequence[Stack | None], words: Callable[[float], str]) -> Chart:
    """The figure; `now` is its present value in words (None: not known), `words` those for a value of a column."""
    known = sorted(sum(column) for column in columns if column is not None)
    if not known:
        return Chart(name, "", note=f.ELSEWHERE) if now is None else Chart(name, now)
    # A few outliers (the first batch) would flatten the rest.
    top = min(known[-1], OUTLIER * known[len(known) * 9 // 10]) or known[-1]
    return Chart(name, f.UNKNOWN if now is None else now, columns, top, words(top))


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


_IN_FLIGHT_MS = 2_000
"""A batch that runs for less (ms) is not mentioned."""


def in_flight(snapshot: Snapshot) -> str | None:
    """How long the last batch has been running, if that is long enough to mention."""
    begun = snapshot.spark.batch_timestamp_ms
    if not snapshot.spark.in_flight or begun is None or snapshot.now_ms is None:
        return None
    if snapshot.state in ("failed", "ended"):
        return None
    age_ms = snapshot.now_ms - begun
    word = "unfinished for" if snapshot.state == "stale" else "in flight"
    return None if age_ms < _IN_FLIGHT_MS else f"{word} {f.duration(age_ms)}"
