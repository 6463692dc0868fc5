"""What the channels of a snapshot show of any target: the evidence of a plug-in's, and a part of that of ours."""

from collections.abc import Mapping

from msgspec import UNSET

from ..snapshot import Snapshot
from ..verdict.evidence import Evidence
from ..verdict.verdict import lost_state, unread_of

_RECORDS_WAIT = ("in_flight", "back_pressured", "slow_reader")
"""Causes that are known by records that wait to be processed: they have come, also where no other is read."""


def evidence_of_channels(shown: Snapshot) -> Evidence:
    """What the channels, the watermark and the counts of a snapshot show at its time; each look is a beat."""
    now_ms = shown.now_ms or 0
    holder = shown.level.holder
    heard_ms = [now_ms - view.quiet_ms for view in shown.channels if view.quiet_ms is not None]
    # An advancing watermark shows that event time advanced, where event times are not known.
    reached = {
        f"channel {view.channel}": view.watermark_ms if view.max_event_ms is None else view.max_event_ms
        for view in shown.channels
    }
    return Evidence(
        unread=unread_of(shown),
        record_ms=max(heard_ms) if heard_ms else UNSET,
        records_wait=holder is not None and holder.cause in _RECORDS_WAIT,
        counted=shown.totals.records,
        reached=known(reached),
        lost=lost_state(shown),
        beat="sample",
    )


def known(reached: Mapping[str, int | None]) -> dict[str, int]:
    """What has come somewhere."""
    return {name: at for name, at in reached.items() if at is not None}
