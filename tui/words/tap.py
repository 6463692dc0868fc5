"""The line in a Spark job that shows its channels. Pure."""

from ...engine.snapshot import Snapshot

THE_LINE = 'events = tap(events, "…", channel="…")'
"""The line from `wmtop.engine`; goes before `withWatermark`, once per input."""


def needed_line(snapshot: Snapshot) -> str:
    """What to add to an attached job to see its channels; a driver's web server does not show what a tap reports."""
    at_driver = any(note.code == "driver_only" for note in snapshot.notes)
    return "publish(spark) and one line" if at_driver else "one line"
