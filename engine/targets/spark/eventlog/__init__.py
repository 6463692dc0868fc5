"""Reads a Spark event log, while it grows and after its end."""
