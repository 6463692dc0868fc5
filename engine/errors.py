"""Errors that a user sees: one line that says what to do."""


class UsageError(Exception):
    """Unusable input or options: the command prints the line and exits with 2."""


class RunError(Exception):
    """The run failed: the command prints the line and exits with 1."""
