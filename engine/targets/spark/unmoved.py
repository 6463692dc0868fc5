"""What a query has read while its watermark stayed the same: batches with new input, by source. Pure."""

from itertools import pairwise

from msgspec import Struct

from .checkpoint.checkpoint import CheckpointFacts
from .events.query_runs import QueryRun


class Unmoved(Struct, frozen=True):
    """Completed batches with new input after which the watermark was the same as before, of those recorded."""

    batches: int | None = None
    """None: not known, or there is no watermark."""
    by_source: tuple[int, ...] = ()
    """The same for each source, in the query's order; empty: not known."""


def unmoved_of(checkpoint: CheckpointFacts | None, run: QueryRun | None, level_ms: int | None) -> Unmoved:
    """By the offsets in a checkpoint, else by the rows that the query reported; `level_ms` is its watermark."""
    if level_ms is None:
        return Unmoved()
    if checkpoint is not None and len(checkpoint.history) > 1:
        return _by_offsets(checkpoint, level_ms)
    if run is None or not run.recent:
        return Unmoved()
    return Unmoved(sum(point.watermark_ms == level_ms and point.rows > 0 for point in run.recent))


def _by_offsets(checkpoint: CheckpointFacts, level_ms: int) -> Unmoved:
    sources, done = len(checkpoint.sources), checkpoint.committed
    pairs = [
        (before, after)
        for before, after in pairwise(checkpoint.history)
        if len(before.inputs) == len(after.inputs) == sources
    ]
    if not pairs or done is None:
        return Unmoved()
    read = [
        tuple(one != other for one, other in zip(before.inputs, after.inputs, strict=True))
        for before, after in pairs
        if after.watermark_ms == level_ms and after.batch <= done
    ]
    return Unmoved(sum(map(any, read)), tuple(sum(one[place] for one in read) for place in range(sources)))
