"""Errors that a user sees, one line that says what happened and what to do; and how a process ended, in words."""

import signal

_LINE_LIMIT = 200


class _OneLineError(Exception):
    """`text` is the line; `code` identifies the error among others of its type."""

    def __init__(self, text: str, *, code: str = "") -> None:
        super().__init__(text)
        self.code = code


class UsageError(_OneLineError):
    """Unusable input or options: the command prints the line and exits with 2."""


class RunError(_OneLineError):
    """The run failed: the command prints the line and exits with 1."""


def first_line(error: BaseException | str) -> str:
    """The first line of an error or text that is not blank; for an error without text, its type's name."""
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return line if line or isinstance(error, str) else type(error).__name__


def unexpected(error: BaseException) -> str:
    """One line about an error that no code foresees."""
    return f"unexpected {type(error).__name__}: {first_line(error)}"


def one_line(text: str, limit: int = _LINE_LIMIT) -> str:
    """`text` on one line, without control characters that a terminal would obey, at most `limit` characters."""
    shown = "".join(character if character.isprintable() else " " for character in text[: 4 * limit])
    line = " ".join(shown.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def how_it_ended(code: int) -> str:
    """`exit code 3`, or for a process ended by a signal (a negative code): `killed (SIGKILL; out of memory?)`."""
    if code >= 0:
        return f"exit code {code}"
    return f"killed ({signal_name(-code)}{'; out of memory?' * (-code == signal.SIGKILL)})"


def signal_name(number: int) -> str:
    """The name of a signal: `SIGTERM`."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
