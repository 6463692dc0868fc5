"""Who is blamed for the watermark: the channel that holds it back, if any. Pure; times ms."""

from ..snapshot import ChannelView, Holder, Snapshot

_BELOW_ALL = float("-inf")
_BRIEF = 6
"""A quiet channel is no blame up to this part of the patience of a stall."""


def blamed_holder(snapshot: Snapshot) -> Holder | None:
    """The channel that holds back the watermark; None: none is known, or only its own next record would move it."""
    level = snapshot.level
    if level.holder is None or level.holder.cause in ("kept_back", "stuck") or snapshot.blockers != []:
        return level.holder
    return None if level.behind_fastest_ms is not None or level.holder.cause == "behind" else level.holder


def held_back_by(snapshot: Snapshot) -> str | None:
    """The channel that holds back the watermark; None if no channel is to blame: the slowest one is no further behind
    than it may be, or is itself the fastest, or records wait in a busy operator.
    """
    holder = blamed_holder(snapshot)
    if holder is None or holder.cause in ("in_flight", "lateness_raised") or is_close(snapshot):
        return None
    return holder.channel


def holding_channel(snapshot: Snapshot) -> str | None:
    """The channel that holds back the watermark; if an instance does, its most behind channel."""
    holder = blamed_holder(snapshot)
    if holder is None:
        return None
    instance = next((i.instance for i in snapshot.instances or () if i.channel == holder.channel), None)
    if instance is None:
        return holder.channel
    inside = [v for v in snapshot.channels if v.instance == instance and v.state not in ("idle", "finished")]
    behind = min(inside, key=lambda view: _BELOW_ALL if view.watermark_ms is None else view.watermark_ms, default=None)
    return behind.channel if behind else None


def channel_named(snapshot: Snapshot, channel: str | None) -> ChannelView | None:
    """The channel of that name."""
    return next((view for view in snapshot.channels if view.channel == channel), None)


def holding_view(snapshot: Snapshot) -> ChannelView | None:
    """The channel that `holding_channel` names."""
    return channel_named(snapshot, holding_channel(snapshot))


def fastest_view(snapshot: Snapshot) -> ChannelView | None:
    """The channel with the greatest watermark; None: no channel has one."""
    known = (view for view in snapshot.channels if view.watermark_ms is not None)
    return max(known, key=lambda view: view.watermark_ms or 0, default=None)


def is_close(snapshot: Snapshot) -> bool:
    """Whether the slowest channel has data and is behind the fastest by no more than the lateness: no blame.

    Also if it is not known whether event time moves: an old snapshot does not prove a lag.
    """
    level, verdict = snapshot.level, snapshot.verdict
    if level.holder is None or level.behind_fastest_ms is None or verdict.verdict not in ("moving", "unknown"):
        return False
    if level.behind_fastest_ms > (snapshot.settings.lateness_ms or 0):
        return False
    if level.holder.cause == "quiet":  # a small part of what a stall takes, as between two batches
        view = holding_view(snapshot)
        if view is None or view.quiet_ms is None or verdict.patience_ms is None:
            return False
        return _BRIEF * view.quiet_ms <= verdict.patience_ms
    return level.holder.cause == "behind"
