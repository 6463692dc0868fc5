"""The well-formed records of a batch by pane (see `windows`) and channel."""

from .observation import Group

Pane = tuple[int, bool, int | None]
"""(start in ms, head, late bucket), as in `Group`."""


def panes_of(groups: list[Group]) -> dict[Pane, dict[str, int]]:
    """The batch's well-formed records by pane and channel, both in the order of the groups."""
    panes: dict[Pane, dict[str, int]] = {}
    counts: dict[str, int] = {}
    last_start: int | None = None
    last_head: bool | None = None
    last_bucket: int | None = None
    for group in groups:
        start = group.start_ms
        if start is None:
            continue
        head, bucket = group.head, group.late_bucket
        if start != last_start or head != last_head or bucket != last_bucket:  # mostly, one pane follows itself
            last_start, last_head, last_bucket = start, head, bucket
            counts = panes.setdefault((start, head, bucket), {})
        channel = group.channel
        counts[channel] = counts.get(channel, 0) + group.records
    return panes
