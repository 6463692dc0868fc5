"""The recorded past of a query before it was attached to: begin and end of its batches, and its watermark.

Pure. The past ends at a time that is not recorded: it is never guessed.
"""

from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from ...verdict.judge import RecordedPast
from .checkpoint.checkpoint import CheckpointFacts
from .events.query_runs import ProgressPoint, QueryRun

SKEW_MS = 1_000
"""How far (ms) a file's time may be outside the batch that wrote it: clocks differ, and file systems round."""


class _Batch(Struct):
    """A batch and the watermark in force in it; `end_ms` None: it runs, or its end is not recorded (ms)."""

    number: int
    begin_ms: int
    watermark_ms: int | None
    end_ms: int | None


def past_of(
    checkpoint: CheckpointFacts | None, run: QueryRun | None, level_ms: int | None, now_ms: int
) -> RecordedPast:
    """The past of a query with the watermark `level_ms` at `now_ms`, by its checkpoint, else by its reports."""
    if checkpoint is not None and checkpoint.history:
        batches = [
            _Batch(mark.batch, mark.timestamp_ms, mark.watermark_ms, mark.committed_ms) for mark in checkpoint.history
        ]
        done = checkpoint.committed == checkpoint.batch
    elif run is not None:
        batches = [
            _Batch(point.batch, point.timestamp_ms, point.watermark_ms, _end_of(point)) for point in _single(run)
        ]
        done = True
    else:
        return RecordedPast()
    return _joined(batches, level_ms if done else None, now_ms, done=done)


def _single(run: QueryRun) -> Sequence[ProgressPoint]:
    """The last batches, without a gap."""
    kept: list[ProgressPoint] = []
    for point in reversed(run.recent):
        if kept and kept[-1].batch != point.batch + 1:
            break
        kept.append(point)
    return kept[::-1]


def _end_of(point: ProgressPoint) -> int | None:
    return point.timestamp_ms + point.duration_ms if point.duration_ms else None


def _joined(batches: Sequence[_Batch], level_ms: int | None, now_ms: int, *, done: bool) -> RecordedPast:
    """The past of these batches: the watermark changes when a batch ends; `level_ms` is that after the last one, once
    it is `done`.
    """
    if not batches:
        return RecordedPast()
    levels: list[tuple[int, int | None]] = [(batches[0].begin_ms, batches[0].watermark_ms)]
    begun = [(batches[0].number, batches[0].begin_ms)]
    for before, after in pairwise(batches):
        if after.begin_ms < before.begin_ms:  # the clock was set
            levels, begun = [], []
            continue
        ended = _end(before, after.begin_ms)
        if ended is None and after.watermark_ms != before.watermark_ms:
            levels, begun = [], []
        elif ended is not None and after.watermark_ms != before.watermark_ms:
            levels.append((ended, after.watermark_ms))
        levels.append((after.begin_ms, after.watermark_ms))
        begun.append((after.number, after.begin_ms))
    last = batches[-1]
    if done and level_ms != last.watermark_ms:
        ended = _end(last, now_ms)
        if ended is None:
            return RecordedPast()
        levels.append((ended, level_ms))
    return RecordedPast(tuple(levels), tuple(begun))


def _end(batch: _Batch, next_ms: int) -> int | None:
    """When the batch ended, between its own beginning and `next_ms`; None: not recorded, or contradictory."""
    end = batch.end_ms
    if end is None or not batch.begin_ms - SKEW_MS <= end <= next_ms + SKEW_MS:
        return None
    return max(batch.begin_ms, min(end, next_ms))
