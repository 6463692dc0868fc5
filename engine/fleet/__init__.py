"""Watching many targets from one process."""

LOOK = "wmtop-look-"
"""What the name of a thread that looks at a target begins with."""
