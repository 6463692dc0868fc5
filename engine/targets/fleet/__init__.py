"""Watches many targets from one process."""

LOOK = "wmtop-look-"
"""Prefix of the names of threads that look at targets."""
