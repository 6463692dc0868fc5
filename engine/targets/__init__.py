"""Targets: what wmtop can follow, one way to open them, one loop to follow them, and many of them at once."""

READER_THREAD = "wmtop-read-"
"""Prefix of the names of threads that read targets."""
