"""Progress of an attached Flink job: figures from its REST API instead of batches and state. Pure."""

from collections.abc import Callable, Sequence

from ...engine.core.flink_job import FlinkJob, FlinkVertex
from ...engine.core.history import HistoryPoint
from ...engine.core.snapshot import Snapshot
from . import formatting as f
from .progress import Cells, Chart, Stack, backlog_chart, chart_of, each, mean

_NAME_CELLS = 14
NO_BACKLOG = f"{f.ELSEWHERE}; of a Kafka topic --bootstrap shows it"


def job_charts(snapshot: Snapshot, points: Sequence[HistoryPoint], cells: Cells) -> list[Chart]:
    """All figures, in the order in which they are drawn."""
    job = snapshot.flink
    assert job is not None
    sent = job.chosen.sent_per_second if job.chosen is not None else None
    return [
        _rate("records read", job.read_per_second, each(cells, lambda point: point.rows_in, mean)),
        _rate("results out", sent, each(cells, lambda point: point.results_in_a_second, mean)),
        _load("busiest task", job, cells, lambda task: task.busy, lambda point: point.busy),
        _load("back pressure", job, cells, lambda task: task.back_pressured, lambda point: point.back_pressured),
        _event_time(cells),
        _backlog(snapshot, job, cells),
        Chart("checkpoint", "", note=_checkpoint(snapshot, job)),
    ]


def age_words(snapshot: Snapshot, time_ms: int | None) -> str | None:
    """How long ago a time of the JobManager's clock was."""
    clock_ms = snapshot.flink.clock_ms if snapshot.flink is not None else None
    if time_ms is None or clock_ms is None:
        return None
    return f.duration(max(clock_ms - time_ms, 0) // f.SECOND * f.SECOND)


def _rate(name: str, now: float | None, columns: Sequence[Stack | None]) -> Chart:
    words = f.UNKNOWN if now is None else f"{f.rate(now)}/s"
    return chart_of(name, words, columns, lambda value: f"{f.rate(value)}/s", now is None)


def _load(
    name: str, job: FlinkJob, cells: Cells, of: Callable[[FlinkVertex], float | None],
    then: Callable[[HistoryPoint], float | None],
) -> Chart:  # fmt: skip
    """The load of the most loaded task, on an axis of 100 %."""
    columns = each(cells, then, max)
    most = max(job.vertices, key=lambda task: of(task) or 0.0, default=None)
    share = None if most is None else of(most)
    if not any(columns) and share is None:
        return Chart(name, "", note=f.ELSEWHERE)
    named = f" {f.label(most.name, _NAME_CELLS)}" if most is not None and share else ""
    return Chart(name, f"{f.share(share)}{named}", columns, 1.0, "100 %")


def _event_time(cells: Cells) -> Chart:
    """Event time that the watermark gains per second of the clock."""
    columns: list[Stack | None] = []
    last: HistoryPoint | None = None
    for points in cells:
        known = [point for point in points if point.watermark_ms is not None]
        since = last or (known[0] if known else None)
        if not known or since is None or known[-1].wall_ms <= since.wall_ms:
            columns.append(None)
        else:
            gained = (known[-1].watermark_ms or 0) - (since.watermark_ms or 0)
            columns.append((max(gained, 0) / (known[-1].wall_ms - since.wall_ms),))
        last = known[-1] if known else last
    now = next((column[0] for column in reversed(columns) if column is not None), None)
    return chart_of("event time", f.UNKNOWN if now is None else _speed(now), columns, _speed, now is None)


def _speed(times: float) -> str:
    return f"×{times:,.0f}" if times >= 10 else f"×{times:.1f}"


def _backlog(snapshot: Snapshot, job: FlinkJob, cells: Cells) -> Chart:
    """The backlog from the broker, if one is queried; else from the sources, as a lower bound."""
    chart = backlog_chart(snapshot, cells)
    if chart.note is None:
        return chart
    pending = sum(one.pending or 0 for one in job.vertices)
    return Chart("backlog", "", note=f"≥ {f.count(pending)} records pending in the sources" if pending else NO_BACKLOG)


def _checkpoint(snapshot: Snapshot, job: FlinkJob) -> str:
    """The last completed checkpoint: its time, its duration, its size, and the number of failed ones."""
    age = age_words(snapshot, job.checkpoint_ms)
    if age is None:
        words = ["none completed"]
    else:
        words = [f"{age} ago"]
        if job.checkpoint_took_ms is not None:
            words.append(f"took {f.duration(job.checkpoint_took_ms)}")
        if job.checkpoint_bytes is not None:
            words.append(f"state {_size(job.checkpoint_bytes)}")
    if job.checkpoints_failed:
        words.append(f"{f.count(job.checkpoints_failed)} failed")
    return ", ".join(words)


def _size(size: int) -> str:
    return f"{size / 1_048_576:,.1f} MiB" if size >= 104_858 else f"{size / 1024:,.1f} KiB"
