"""Watching many targets from one process."""
