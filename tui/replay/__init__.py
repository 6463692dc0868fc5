"""Replaying a recording: the player, its timeline and marks, the app."""
