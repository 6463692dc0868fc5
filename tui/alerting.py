"""Reports alerts: a notice on the screen, the terminal's bell, desktop notifications."""

from collections.abc import Collection, Mapping
from os import environ
from typing import Any

from textual.app import App

from .present.event_words import Severity
from .present.formatting import clean

_SECONDS = 15
_LONGEST = 200
_KNOWS_BOTH = ("WezTerm", "ghostty")
"""Terminals that know both sequences and would show the notification twice."""


def alert(app: App[Any], title: str, text: str, severity: Severity, ways: Collection[str]) -> None:
    """Report an alert in these ways (`appearance.ALERTS`): a notice, the bell, a notification of the desktop."""
    if "toast" in ways:
        app.notify(text, title=title, severity=severity, markup=False, timeout=_SECONDS)
    if app.is_headless or app.is_web:
        return
    if "bell" in ways:
        app.bell()
    driver = app._driver  # pyright: ignore[reportPrivateUsage]
    if "desktop" in ways and driver is not None:
        driver.write(notification(title, text))
        driver.flush()


def notification(title: str, text: str, variables: Mapping[str, str] = environ) -> str:
    """The escape sequences OSC 9 and OSC 777 of a notification, wrapped for tmux if it runs in between."""
    title, text = _harmless(title), _harmless(text)
    sequences = [f"\x1b]777;notify;{title};{text}\x1b\\"]
    if variables.get("TERM_PROGRAM") not in _KNOWS_BOTH:
        sequences.insert(0, f"\x1b]9;{title}: {text}\x1b\\")
    if variables.get("TMUX"):
        return "".join(_through_tmux(sequence) for sequence in sequences)
    return "".join(sequences)


def _through_tmux(sequence: str) -> str:
    """The sequence for tmux, which passes it on if `allow-passthrough` is on, and drops it otherwise."""
    return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"


def _harmless(text: str) -> str:
    """The text without characters that would end the sequence or its field."""
    return clean(text).replace(";", ",")[:_LONGEST]
