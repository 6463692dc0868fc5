"""Panes: the finest pieces of event time that belong to the same windows, so that counts per pane are enough."""

from .settings import Session, Sliding, Tumbling


def last_start(window: Tumbling | Sliding, timestamp: int) -> int:
    """Start (ms) of the latest window that could hold `timestamp`: Flink's `getWindowStartWithOffset`, floor modulo."""
    return timestamp - (timestamp - window.offset_ms) % window.slide_ms


def pane_of(window: Tumbling | Sliding | Session, timestamp: int) -> tuple[int, bool]:
    """The pane of a record: (start, head), as `Group` has it."""
    if isinstance(window, Session):
        return timestamp - timestamp % window.gap_ms, False
    start = last_start(window, timestamp)
    return start, timestamp - start < window.size_ms % window.slide_ms


def window_count(window: Tumbling | Sliding, head: bool) -> int:
    """How many windows hold a pane: 0 in a gap between windows."""
    return window.size_ms // window.slide_ms + head
