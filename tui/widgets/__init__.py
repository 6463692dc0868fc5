"""Widgets that take a part of a snapshot and draw it."""
