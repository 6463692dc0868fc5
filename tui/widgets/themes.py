"""The themes, dark, light, high contrast, and the style of each meaning in a theme."""

import os
import re
import select
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

from msgspec import Struct
from rich.style import Style
from textual.color import Color
from textual.driver import Driver
from textual.theme import Theme

from ..words.texts import ASCII_VARIABLE

_COLORS = {
    "primary": ("#5fb4e5", "#1769a5", "#66d9ff"),
    "secondary": ("#8196ad", "#66788c", "#e0e0e0"),
    "accent": ("#7fd1c7", "#0a6e6a", "#00ffff"),
    "foreground": ("#d5dde7", "#1f2933", "#ffffff"),
    "background": ("#0d1219", "#fbfbf9", "#000000"),
    "surface": ("#121923", "#f2f4f5", "#000000"),
    "panel": ("#19222e", "#e8ecef", "#000000"),
    "success": ("#7bc98f", "#1d7239", "#5cff5c"),
    "warning": ("#e9b44c", "#925600", "#ffd700"),
    "error": ("#ff857c", "#b6332a", "#ffb3b3"),
    "dim": ("#96a3b2", "#5a666e", "#dcdcdc"),
    "frame": ("#2a3645", "#c8d0d7", "#9a9a9a"),
    "cursor": ("#22384f", "#d7e6f3", "#00336e"),
    "stave": ("#8598ae", "#8091a3", "#c8c8c8"),
    "stave-wet": ("#648dab", "#4c83ac", "#b9dcff"),
    "folded": ("#5b6d82", "#7e91a4", "#a8a8a8"),
    "folded-wet": ("#568cb1", "#4c86b1", "#9ecbff"),
    "water": ("#173f5f", "#cfe5f5", "#00265c"),
    "ripple": ("#2a6288", "#a6cdea", "#7fb8ff"),
    "surface-water": ("#2f7fb5", "#8cc0e6", "#7fb8ff"),
    "level": ("#6cc1f2", "#1768a3", "#7fdcff"),
    "holder": ("#f5a742", "#a04a00", "#ffb84d"),
    "holder-shade": ("#a8691c", "#e39a58", "#5a3600"),
    "idle": ("#97a2b2", "#5a6571", "#dcdcdc"),
    "idle-wet": ("#98abbe", "#556575", "#dcdcdc"),
    "catching-up": ("#c99bf5", "#7a3ec0", "#e3bcff"),
    "preview": ("#8ff0c4", "#007156", "#8dffcf"),
    "border": ("#3d5875", "#9db4c8", "#ffffff"),
    "footer-key": ("#7fd1c7", "#0a6e6a", "#00ffff"),
}
"""Each colour's name, and its value in the dark, light and high-contrast theme."""
_OF_TEXTUAL = 10
"""The number of the first ones, which are Textual's own."""


def _theme(name: str, column: int, *, dark: bool = True) -> Theme:
    colors = {color: values[column] for color, values in _COLORS.items()}
    own: dict[str, Any] = {color: colors.pop(color) for color in list(colors)[:_OF_TEXTUAL]}
    return Theme(name=name, dark=dark, variables=colors, **own)


DARK = _theme("wmtop-dark", 0)
LIGHT = _theme("wmtop-light", 1, dark=False)
CONTRAST = _theme("wmtop-contrast", 2)
THEMES = (DARK, LIGHT, CONTRAST)
"""The order in which a key steps through them."""
FOREGROUND = "foreground"


class ThemeStyle(Struct, frozen=True):
    """A style in names of the theme's colours; `ground` None: the background below."""

    color: str = FOREGROUND
    ground: str | None = None
    bold: bool = False
    reversed_without_colors: bool = False
    """Reversed without colours, so that the selection stays visible."""


STYLES: dict[str, ThemeStyle] = {
    "text": ThemeStyle(),
    "strong": ThemeStyle(bold=True),
    "title": ThemeStyle(bold=True),
    "dim": ThemeStyle("dim"),
    "accent": ThemeStyle("accent", bold=True),
    "key": ThemeStyle("footer-key", bold=True),
    "frame": ThemeStyle("frame"),
    "level": ThemeStyle("level", bold=True),
    "preview": ThemeStyle("preview", bold=True),
    "good": ThemeStyle("success", bold=True),
    "stale": ThemeStyle("warning", bold=True),
    "bad": ThemeStyle("error", bold=True),
    "cursor": ThemeStyle(ground="cursor", bold=True, reversed_without_colors=True),
    "selected": ThemeStyle(ground="cursor", bold=True, reversed_without_colors=True),
    # The staves, dry and under water.
    "active": ThemeStyle("stave"),
    "holder": ThemeStyle("holder", bold=True),
    "idle": ThemeStyle("idle"),
    "never_seen": ThemeStyle("idle"),
    "catching_up": ThemeStyle("catching-up"),
    "folded": ThemeStyle("folded"),
    "finished": ThemeStyle("folded"),
    "drowned": ThemeStyle("error"),
    "active-wet": ThemeStyle("stave-wet", "water"),
    "holder-wet": ThemeStyle("holder", "holder-shade"),
    "idle-wet": ThemeStyle("idle-wet", "water"),
    "never_seen-wet": ThemeStyle("idle-wet", "water"),
    "catching_up-wet": ThemeStyle("catching-up", "water"),
    "folded-wet": ThemeStyle("folded-wet", "water"),
    "finished-wet": ThemeStyle("idle-wet", "water"),
    "drowned-wet": ThemeStyle("error", "water"),
    # The water, and the lines across it.
    "ripple": ThemeStyle("surface-water", "water"),
    "water": ThemeStyle("ripple", "water"),
    "surface": ThemeStyle("water"),
    "ahead": ThemeStyle("surface-water"),
    "preview-wet": ThemeStyle("preview", "water", bold=True),
    "held": ThemeStyle("holder"),
    "held-wet": ThemeStyle("holder", "water"),
    # The parts of a stacked column, and the same as a background for the part below.
    "part-0": ThemeStyle("stave"),
    "part-1": ThemeStyle("level"),
    "part-2": ThemeStyle("catching-up"),
    "part-3": ThemeStyle("warning"),
    "over-1": ThemeStyle(ground="level"),
    "over-2": ThemeStyle(ground="catching-up"),
    "over-3": ThemeStyle(ground="warning"),
    "on-time": ThemeStyle("accent"),
}


def style_of(style: ThemeStyle, variables: Mapping[str, str], below: Color, *, colors: bool) -> Style:
    """The style in a theme (`variables`: colours by name) on what lies below it."""
    turned = style.reversed_without_colors and not colors
    ground = below if style.ground is None else below + Color.parse(variables[style.ground])
    return Style(
        color=Color.parse(variables[style.color]).rich_color,
        bgcolor=ground.rich_color,
        bold=(style.bold and not turned) or None,
        reverse=turned or None,
    )


_NO_GLYPHS = ("dumb", "unknown", "ansi", "vt52", "vt100", "vt102", "vt220")
"""Values of TERM whose terminals have ASCII only."""
_ASCII_OF = (
    '▁_▂.▃-▄-▅=▆+▇*█#▉#▊#▋#▌|▍|▎|▏|▐|░.▒:▓%▔-▀"╱/╲\\╳x║|═=─-━-┄-┅-┈-┉-╌-╍-│|┃|┆|┊|╎|'
    '←<→>↑^↓v↔=▲^▼v▶>◀<▸>◂<▴^▾v●*○o◆*◇o■#□o×x·.…~≈~≤<≥>−-–-—-✓v✗x›>±~Δd„"“"”"‘\'’\'␛?'
)
"""Each character and what stands for it, as wide as it is."""


def _ascii_table() -> dict[int, str]:
    rest = dict.fromkeys(range(9472, 9600), "+") | dict.fromkeys(range(9600, 9632), "#")
    # Braille: its upper four dots, its lower four, or both.
    dots = {0x2800 + bits: " '.:"[bool(bits & 0x1B) + 2 * bool(bits & 0xE4)] for bits in range(256)}
    pairs = dict(zip(map(ord, _ASCII_OF[::2]), _ASCII_OF[1::2], strict=True))
    return rest | dots | pairs | {ord("🔎"): "/ "}


def prepare_terminal() -> None:
    """Leave out of the environment what would mislead Rich and Textual about the terminal; before an app is made."""
    if "TEXTUAL_DRIVER" in os.environ:  # in a browser these are the size
        return
    _background()
    os.environ.pop("COLUMNS", None)
    os.environ.pop("LINES", None)
    if os.environ.get("TERM") in ("dumb", "unknown"):  # for these Rich claims 80x25, against the terminal's own answer
        os.environ |= {"TERM": "vt100", ASCII_VARIABLE: "1"}


def ascii_driver(driver: type[Driver]) -> type[Driver]:
    """The driver, or where the terminal or the user wants ASCII only one that translates all that is written."""
    if not os.environ.get(ASCII_VARIABLE) and os.environ.get("TERM") not in _NO_GLYPHS:
        return driver
    table = _ascii_table()

    class AsciiDriver(driver):
        def write(self, data: str) -> None:
            super().write(data.translate(table))

    return AsciiDriver


def usual_theme() -> str:
    """The name of the theme for a user who has chosen none: light if the terminal says that its background is."""
    shade = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    light = shade in ("7", "15") if shade else is_light(_background())
    return LIGHT.name if light else DARK.name


_ASK_BACKGROUND = b"\x1b]11;?\x1b\\\x1b[c"
"""OSC 11, and a question that every terminal answers: after that answer nothing more comes."""
_ANSWER_S = 0.3
_MUTE = (*_NO_GLYPHS, "linux", "")
"""Values of TERM whose terminals do not know OSC 11."""


def is_light(answer: bytes) -> bool:
    """Whether a terminal's answer to OSC 11 (`rgb:ffff/ffff/ffff`) is a light colour."""
    found = re.search(rb"rgb:([0-9a-fA-F]+)/([0-9a-fA-F]+)/([0-9a-fA-F]+)", answer)
    parts = [] if found is None else [int(part, 16) / (16 ** len(part) - 1) for part in found.groups()]
    return bool(parts) and sum(parts) / 3 > 0.5


@cache
def _background() -> bytes:
    """The terminal's answer, asked before the first app starts; empty without one, or if it does not answer in time."""
    needs_no_answer = bool(os.environ.get("COLORFGBG")) or os.environ.get("TERM", "") in _MUTE
    if needs_no_answer or sys.__stdin__ is None or not (os.isatty(0) and os.isatty(1)):
        return b""
    import termios

    try:
        # In the background it would be stopped.
        return _asked() if os.getpgrp() == os.tcgetpgrp(0) else b""
    except (OSError, termios.error):  # it is not the terminal of this session, or it is gone
        return b""


def _asked() -> bytes:
    import termios
    import tty

    answer, saved = b"", termios.tcgetattr(0)
    try:
        tty.setcbreak(0)
        os.write(0, _ASK_BACKGROUND)
        while not answer.endswith(b"c") and select.select([0], [], [], _ANSWER_S)[0]:
            if not (piece := os.read(0, 1_024)):
                break
            answer += piece
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, saved)
    return answer
