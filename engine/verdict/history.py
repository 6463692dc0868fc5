"""The history of a run: one small point for each snapshot, which plots, findings and alerts are made from. Pure."""

from collections import deque
from collections.abc import Callable, Iterable

from msgspec import Struct

from ..snapshot import Cause, ChannelView, ReasonCode, Snapshot, VerdictName
from .verdict import unread_of, verdict_of

_PHASES = {
    "latestOffset": "offsets_ms", "getOffset": "offsets_ms", "setOffsetRange": "offsets_ms", "getBatch": "offsets_ms",
    "queryPlanning": "planning_ms", "addBatch": "work_ms", "walCommit": "commit_ms", "commitOffsets": "commit_ms",
    "commitBatch": "commit_ms",
}  # fmt: skip
"""Spark's phase names, grouped into the fields of `Phases`."""


class Phases(Struct, frozen=True, array_like=True, gc=False):
    """Where the time of a batch went (ms): asking the sources, planning, reading and computing, committing."""

    offsets_ms: int = 0
    planning_ms: int = 0
    work_ms: int = 0
    commit_ms: int = 0


class HistoryPoint(Struct, frozen=True, array_like=True):
    """One snapshot: processing time and watermark (epoch ms), distance behind the fastest (ms), holder.
    Of a Kafka Streams application the stream time of its worst task, of a chain what is lost on its way.

    `records` and `late` are 0 if they are not known, and then never grow. Every other field is None if it is not known.
    """

    now_ms: int
    watermark_ms: int | None
    behind_fastest_ms: int | None
    holder: str | None
    records: int
    late: int
    wall_ms: int
    max_event_ms: int | None = None
    """The greatest event time of all channels."""
    batch: int | None = None
    batch_ms: int | None = None
    phases: Phases | None = None
    rows_in: float | None = None
    """Rows per second (wall clock) that arrived, and that Spark could have processed."""
    rows_done: float | None = None
    backlog: int | None = None
    """Unread records of all channels (or sources)."""
    backlog_ms: int | None = None
    """How far the worst channel's reading position is behind its end, in event time (ms)."""
    open_windows: int | None = None
    state_rows: int | None = None
    """Records in open windows; for an attached query, rows in Spark's state."""
    results: int | None = None
    """Firings since the start."""
    held_since_ms: int | None = None
    """Since when the holder holds back the watermark (processing time, epoch ms), and the cause."""
    cause: Cause | None = None
    verdict: VerdictName | None = None
    """The verdict in force; None: not judged yet."""
    results_in_a_second: float | None = None
    """Records per second that the chosen operator of a Flink job sends."""
    busy: float | None = None
    """Share of time that a Flink job's busiest subtask is busy, and its most back-pressured one back-pressured."""
    back_pressured: float | None = None
    reason: ReasonCode | None = None
    """The reason of the verdict."""
    age_ms: int | None = None
    """How long the watermark had not advanced, and how long it may be frozen before that is a stall."""
    patience_ms: int | None = None
    emitted_ms: int | None = None
    """The watermark (epoch ms) that the output has passed: of a Spark query that of its last batch."""


KEEP_MS = 900_000
"""For how long (ms) points are kept by who follows a target."""
STALE_MS = 10_000
"""A point older than the one before by less than this (ms) was overtaken; by more: it is of another run."""


def is_overtaken(point: HistoryPoint, last: HistoryPoint | None) -> bool:
    """Whether a newer point came first: a batch's snapshot may wait while another snapshot of that moment is sent."""
    return last is not None and last.wall_ms - STALE_MS < point.wall_ms < last.wall_ms


def remember(points: deque[HistoryPoint], point: HistoryPoint) -> bool:
    """Append a point to those of the last `KEEP_MS`, which stay in the order of their times; False if it is overtaken.

    A point of the same moment is replaced; all go before one of another engine, or of a clock that was set back.
    """
    last = points[-1] if points else None
    if is_overtaken(point, last):
        return False
    if last is not None and point.wall_ms < last.wall_ms:
        points.clear()
    elif last is not None and point.wall_ms == last.wall_ms:
        points.pop()
    points.append(point)
    while points[0].wall_ms < point.wall_ms - KEEP_MS:
        points.popleft()
    return True


def history_point(snapshot: Snapshot) -> HistoryPoint | None:
    """The point of history for `snapshot`; None while the snapshot has no time."""
    if snapshot.now_ms is None or snapshot.wall_ms is None:
        return None
    level, totals, spark, windows = snapshot.level, snapshot.totals, snapshot.spark, snapshot.windows
    found = verdict_of(snapshot)
    verdict = None if found.reason.code == "not_judged" else found
    target = snapshot.target
    load = target.load(is_stale=snapshot.state == "stale")
    return HistoryPoint(
        now_ms=snapshot.now_ms,
        watermark_ms=target.own_time_ms(level),
        behind_fastest_ms=target.lost_ms(level),
        holder=level.holder.channel if level.holder else None,
        records=totals.records or 0,
        late=totals.late or 0,
        wall_ms=snapshot.wall_ms,
        max_event_ms=max_event_ms(snapshot),
        batch=snapshot.batch,
        batch_ms=spark.batch_ms,
        phases=phases_of(spark.phases_ms),
        rows_in=load.read_per_second,
        rows_done=spark.processed_rows_per_second,
        backlog=backlog(snapshot),
        backlog_ms=most(snapshot.channels, lambda view: view.behind_end_ms),
        open_windows=windows.open_count,
        state_rows=windows.open_records if spark.state_rows is None else spark.state_rows,
        results=None if windows.fired is None else windows.fired + (windows.late_firings or 0),
        held_since_ms=level.holder.since_ms if level.holder else None,
        cause=level.holder.cause if level.holder else None,
        verdict=None if verdict is None else verdict.verdict,
        results_in_a_second=load.sent_per_second,
        busy=load.busy,
        back_pressured=load.back_pressured,
        reason=None if verdict is None else verdict.reason.code,
        age_ms=None if verdict is None else verdict.age_ms,
        patience_ms=None if verdict is None else verdict.patience_ms,
        emitted_ms=snapshot.late_watermark_ms,
    )


def max_event_ms(snapshot: Snapshot) -> int | None:
    """The greatest event time (epoch ms) of all channels."""
    return most(snapshot.channels, lambda view: view.max_event_ms)


def backlog(snapshot: Snapshot) -> int | None:
    """Unread records of the channels, or, for an attached query, of its sources."""
    known = [view.backlog for view in snapshot.channels if view.backlog is not None]
    known = known or [source.backlog for source in snapshot.sources or () if source.backlog is not None]
    return sum(known) if known else None


def backlog_at_least(snapshot: Snapshot) -> bool:
    """Whether that is only a part: of other channels or sources it is not known what is unread."""
    return backlog(snapshot) is not None and unread_of(snapshot) is None


def phases_of(phases_ms: dict[str, int]) -> Phases | None:
    """Spark's phases of a batch, summed into ours; None if it reports none."""
    if not phases_ms:
        return None
    sums = dict.fromkeys(Phases.__struct_fields__, 0)
    for name, ms in phases_ms.items():
        if name in _PHASES:
            sums[_PHASES[name]] += ms
    return Phases(**sums)


def most(channels: Iterable[ChannelView], of: Callable[[ChannelView], int | None]) -> int | None:
    """The greatest known value of all channels."""
    return max((value for view in channels if (value := of(view)) is not None), default=None)
