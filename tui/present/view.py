"""The view of the main screen's snapshot, and values derived from it. Pure."""

import re
from datetime import UTC, tzinfo

from msgspec import Struct

from ...engine.core.snapshot import Snapshot
from . import formatting as f
from . import preview as what_if
from .channel_order import SORTS, Sort
from .preview import Preview
from .wish import ProposedSetting


class View(Struct, frozen=True):
    """The user's view of the snapshot."""

    proposed: ProposedSetting | None = None
    sort: Sort = SORTS[0]
    reverse: bool = False
    pattern: re.Pattern[str] | None = None
    windows_pattern: re.Pattern[str] | None = None
    """The filter of the open windows: by their times, and by the channels they wait for."""
    inside: int | None = None
    """The source instance whose channels are shown."""
    selected: str | None = None
    """The selected channel."""
    logarithmic: bool = False
    zone: tzinfo | None = UTC
    frozen: bool = False
    heat: bool = False
    """Whether the heat map replaces the barrel."""


def preview_of(snapshot: Snapshot, proposed: ProposedSetting | None) -> Preview | None:
    """The preview of the wish; None without a wish."""
    if proposed is None:
        return None
    if proposed.idle:
        return what_if.idle(snapshot, proposed.value_ms)
    return None if proposed.value_ms is None else what_if.lateness(snapshot, proposed.value_ms)


def instance_of(snapshot: Snapshot, channel: str | None) -> int | None:
    """The source instance of a channel."""
    return next((view.instance for view in snapshot.channels if view.channel == channel), None)


def stave_of(snapshot: Snapshot, view: View) -> str | None:
    """The stave of the selected channel: its own, or its instance's."""
    if snapshot.instances is None or view.inside is not None:
        return view.selected
    instance = instance_of(snapshot, view.selected)
    return next((i.channel for i in snapshot.instances if i.instance == instance), None)


def reference_ms(snapshot: Snapshot) -> int | None:
    """The time (epoch ms) whose date is omitted in event times."""
    return f.reference_ms(snapshot.now_ms, snapshot.level.watermark_ms)


def fastest_ms(snapshot: Snapshot) -> int | None:
    """The watermark (epoch ms) of the fastest channel."""
    level = snapshot.level
    if level.watermark_ms is None or level.behind_fastest_ms is None:
        return None
    return level.watermark_ms + level.behind_fastest_ms
