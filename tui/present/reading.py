"""How far a source with an end has been read, and the time left. Pure."""

from ...engine.core.snapshot import Snapshot, SourceView
from . import formatting as f

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
