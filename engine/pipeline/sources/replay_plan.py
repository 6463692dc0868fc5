"""Which staged rows a batch of a replay has."""

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

BOUND = 1_000_000
"""Rows per batch at full speed: large enough that a batch's fixed cost (0.2 s) is a few percent, small enough that the
screen moves and that the watermark, fixed at a batch's start, follows.
"""
_ROWS_PER_TASK = 50_000


def next_end(
    arrivals: "NDArray[np.int64]", start: int, clock_ms: int | None, batch_rows: int | None, most: int | None
) -> int:
    """The row before which a batch that begins at `start` ends; `start`: no batch yet.

    `clock_ms` None: everything has arrived. With `batch_rows` a batch waits until all its rows have arrived.
    """
    rows = len(arrivals)
    arrived = rows if clock_ms is None else int(np.searchsorted(arrivals, clock_ms, side="right"))
    if batch_rows is not None:
        end = min(start + batch_rows, rows)
        return end if end <= arrived else start
    end = max(start, arrived)
    return end if most is None else min(end, start + most)


def ranges(first: int, last: int, tasks: int) -> list[tuple[int, int]]:
    """The rows `first <= row < last` in at most `tasks` parts, each large enough for a task."""
    count = min(tasks, -(-(last - first) // _ROWS_PER_TASK))
    edges = [first + (last - first) * i // max(count, 1) for i in range(count + 1)]
    return list(pairwise(edges))
