"""Who is blamed for a job of a chain that is late: a channel, an input, or how the job runs. Pure; times ms."""

from collections.abc import Sequence

from msgspec import Struct

from ..snapshot import Cause, Holder, Snapshot, SourcePosition
from ..text.codes import BUSY
from .blame import held_back_by
from .history import HistoryPoint

_PAUSED_MS = 5_000
"""How long a source has read nothing before it counts as paused: longer than between two samples."""
_BEHIND_INPUT = ("backlog", "back_pressured", "slow_reader", "paused", "held_back")
"""Causes by which a channel is behind its input, also where it is behind no other channel."""


class HopBlame(Struct, frozen=True):
    """The channel that holds back a job, and the cause; None: no channel does, or it is not known."""

    channel: str | None = None
    cause: Cause | None = None


def blame_of(snapshot: Snapshot, points: Sequence[HistoryPoint]) -> HopBlame:
    """Who holds back the job of a snapshot, by what is reported of it; `points` are its history."""
    holder = snapshot.level.holder
    return _by_inputs(snapshot) if holder is None else _by_channel(snapshot, holder, points)


def _by_channel(snapshot: Snapshot, holder: Holder, points: Sequence[HistoryPoint]) -> HopBlame:
    """The blame where it is known which channel holds back the watermark."""
    if holder.cause == "backlog":
        if snapshot.target.has_tasks and _reads_nothing(points):
            return HopBlame(holder.channel, "paused")
        is_alone = any(note.code == "no_member" for note in snapshot.notes)
        if is_alone and not any(view.rate for view in snapshot.channels):
            return HopBlame(holder.channel, "no_member")
    is_to_blame = held_back_by(snapshot) is not None or holder.cause in _BEHIND_INPUT
    return HopBlame(holder.channel, holder.cause) if is_to_blame else HopBlame()


def _reads_nothing(points: Sequence[HistoryPoint]) -> bool:
    """Whether the sources had time and unread records that became no fewer, while the watermark did not move."""
    recent = [point for point in points if point.wall_ms >= points[-1].wall_ms - _PAUSED_MS]
    unread = [point.backlog or 0 for point in recent]
    is_still = len({point.watermark_ms for point in recent}) == 1 and unread == sorted(unread) and all(unread)
    is_free = all(max(point.busy or 0, point.back_pressured or 0) < BUSY for point in recent)
    return len(recent) < len(points) and is_still and is_free


def _by_inputs(snapshot: Snapshot) -> HopBlame:
    """The blame where no channel is known: a longer delay, the trigger, or the input with the lowest watermark."""
    spark, sources = snapshot.spark, snapshot.sources or []
    if spark.frozen_ms is not None:
        return HopBlame(None, "lateness_raised")
    nodes = spark.nodes or []
    holding = next((node for node in nodes if node.holds), nodes[0] if len(nodes) == 1 else None)
    places = None if holding is None else holding.sources
    inputs = sources if places is None else [sources[place] for place in places if place < len(sources)]
    backlogs = [one.backlog for one in inputs if one.backlog is not None]
    unread = sum(backlogs) if inputs and len(backlogs) == len(inputs) else None
    # Where it is not known which input holds, the trigger is to blame only if each has unread records.
    waits = inputs and all(one.backlog for one in inputs) if places is None else unread
    if (waits or _has_advanced(snapshot)) and _is_by_trigger(snapshot):
        return HopBlame(None, "trigger")
    if places is None:
        return HopBlame()
    cause = _cause_of(snapshot, inputs, unread)
    partitions = [name for one in inputs for name in (one.offsets if isinstance(one.offsets, dict) else ())]
    channel = partitions[0].replace("/", "-") if len(partitions) == 1 else None
    return HopBlame(channel, cause if channel is not None or cause == "backlog" else None)


def _cause_of(snapshot: Snapshot, inputs: Sequence[SourcePosition], unread: int | None) -> Cause | None:
    """Why the inputs with the lowest watermark hold it back; None: the next batch will show it."""
    if unread is None or unread:
        return None if unread is None else "backlog"
    unmoved, own = snapshot.spark.batches_unmoved, max((one.batches_unmoved or 0 for one in inputs), default=0)
    if unmoved and 2 * own > unmoved:  # in most of them records came, and were no newer
        return "behind" if unmoved >= _MIN_UNMOVED else None
    return None if _has_advanced(snapshot) else "quiet"


_MIN_UNMOVED = 3
"""Batches after which the watermark was the same, at least, until an input that had records in them is lagging."""


def _has_advanced(snapshot: Snapshot) -> bool:
    """Whether the last batch that ended moved the watermark: the output follows in the next one."""
    return snapshot.spark.batches_unmoved == 0 and _moved_in_last_two(snapshot)


def _is_by_trigger(snapshot: Snapshot) -> bool:
    """Whether batches take at most half of the time between triggers, and one of the last two moved the watermark."""
    trigger_ms, batch_ms = snapshot.spark.trigger_ms, snapshot.spark.batch_ms
    if not trigger_ms or batch_ms is None or 2 * batch_ms > trigger_ms:
        return False
    return snapshot.level.moved_ms is None or _moved_in_last_two(snapshot)


def _moved_in_last_two(snapshot: Snapshot) -> bool:
    """Whether the watermark is known to have moved in the time of two batches."""
    moved_ms, period_ms = snapshot.level.moved_ms, max(snapshot.spark.trigger_ms or 0, snapshot.spark.batch_ms or 0)
    return moved_ms is not None and (snapshot.now_ms or 0) - moved_ms <= 2 * period_ms
