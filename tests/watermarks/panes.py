"""The pane of a record, in plain Python: what the pipeline computes in Spark."""

from wmtop.engine.watermarks.settings import Session, WindowSpec


def pane_of(window: WindowSpec, timestamp: int) -> tuple[int, bool]:
    """Start (ms) and `head`, as `Group` has them; the start is Flink's `getWindowStartWithOffset`, floor modulo."""
    if isinstance(window, Session):
        return timestamp - timestamp % window.gap_ms, False
    start = timestamp - (timestamp - window.offset_ms) % window.slide_ms
    return start, timestamp - start < window.size_ms % window.slide_ms
