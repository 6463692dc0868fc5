"""How an alert reaches people: a notice on the screen, the terminal's bell, the desktop's notifications."""

from collections.abc import Mapping
from os import environ
from typing import Any

from textual.app import App

from .present.event_words import Severity
from .present.formatting import clean

VARIABLE = "WMTOP_ALERTS"
_OFF = ("off", "0", "no", "false")
_SECONDS = 15
_LONGEST = 200
_KNOWS_BOTH = ("WezTerm", "ghostty")
"""Terminals that would show the same notification twice."""


def wants_alerts(variables: Mapping[str, str] = environ) -> bool:
    """Whether alerts may ring and notify; `WMTOP_ALERTS=off` leaves the notice on the screen."""
    return variables.get(VARIABLE, "").strip().lower() not in _OFF


def alert(app: App[Any], title: str, text: str, severity: Severity, *, loud: bool) -> None:
    """Show a notice; `loud`: ring the bell and ask the desktop to notify, too."""
    app.notify(text, title=title, severity=severity, markup=False, timeout=_SECONDS)
    if not loud or app.is_headless or app.is_web:
        return
    app.bell()
    driver = app._driver  # pyright: ignore[reportPrivateUsage]
    if driver is not None:
        driver.write(notification(title, text))
        driver.flush()


def notification(title: str, text: str, variables: Mapping[str, str] = environ) -> str:
    """The escape sequences OSC 9 and OSC 777 of a notification, through tmux where that is in between."""
    title, text = _harmless(title), _harmless(text)
    sequences = [f"\x1b]777;notify;{title};{text}\x1b\\"]
    if variables.get("TERM_PROGRAM") not in _KNOWS_BOTH:
        sequences.insert(0, f"\x1b]9;{title}: {text}\x1b\\")
    if variables.get("TMUX"):
        return "".join(_through_tmux(sequence) for sequence in sequences)
    return "".join(sequences)


def _through_tmux(sequence: str) -> str:
    """tmux passes it on where `allow-passthrough` is on, and drops it elsewhere."""
    return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"


def _harmless(text: str) -> str:
    """No character that would end the sequence or its field."""
    return clean(text).replace(";", ",")[:_LONGEST]
