"""The inks of the widgets that draw themselves: the style of each meaning in a theme.

They are not CSS component classes: Textual would compute each of them again for every widget whenever anything about it
changes, which was more than half of the time that a screen took to open.
"""

from collections.abc import Mapping

from msgspec import Struct
from rich.style import Style
from textual.color import Color

FOREGROUND = "foreground"


class Ink(Struct, frozen=True):
    """Names of the theme's colours; `ground` None: the background below."""

    color: str = FOREGROUND
    ground: str | None = None
    bold: bool = False
    reversed_without_colors: bool = False
    """Reversed without colours, so that the selection stays visible."""


INKS: dict[str, Ink] = {
    "text": Ink(),
    "strong": Ink(bold=True),
    "title": Ink(bold=True),
    "dim": Ink("dim"),
    "accent": Ink("accent", bold=True),
    "key": Ink("footer-key", bold=True),
    "frame": Ink("frame"),
    "level": Ink("level", bold=True),
    "preview": Ink("preview", bold=True),
    "good": Ink("success", bold=True),
    "stale": Ink("warning", bold=True),
    "bad": Ink("error", bold=True),
    "cursor": Ink(ground="cursor", bold=True, reversed_without_colors=True),
    "selected": Ink(ground="cursor", bold=True, reversed_without_colors=True),
    # The staves, dry and under water.
    "active": Ink("stave"),
    "holder": Ink("holder", bold=True),
    "idle": Ink("idle"),
    "never_seen": Ink("idle"),
    "catching_up": Ink("catching-up"),
    "folded": Ink("folded"),
    "finished": Ink("folded"),
    "drowned": Ink("error"),
    "active-wet": Ink("stave-wet", "water"),
    "holder-wet": Ink("holder", "holder-shade"),
    "idle-wet": Ink("idle-wet", "water"),
    "never_seen-wet": Ink("idle-wet", "water"),
    "catching_up-wet": Ink("catching-up", "water"),
    "folded-wet": Ink("folded-wet", "water"),
    "finished-wet": Ink("idle-wet", "water"),
    "drowned-wet": Ink("error", "water"),
    # The water, and the lines across it.
    "ripple": Ink("surface-water", "water"),
    "water": Ink("ripple", "water"),
    "surface": Ink("water"),
    "ahead": Ink("surface-water"),
    "preview-wet": Ink("preview", "water", bold=True),
    "held": Ink("holder"),
    "held-wet": Ink("holder", "water"),
    # The parts of a stacked column, and the same as a background for the part below.
    "part-0": Ink("stave"),
    "part-1": Ink("level"),
    "part-2": Ink("catching-up"),
    "part-3": Ink("warning"),
    "over-1": Ink(ground="level"),
    "over-2": Ink(ground="catching-up"),
    "over-3": Ink(ground="warning"),
    "on-time": Ink("accent"),
}


def style_of(ink: Ink, variables: Mapping[str, str], below: Color, *, colors: bool) -> Style:
    """The ink in a theme (`variables`: colours by name) on what lies below it."""
    turned = ink.reversed_without_colors and not colors
    ground = below if ink.ground is None else below + Color.parse(variables[ink.ground])
    return Style(
        color=Color.parse(variables[ink.color]).rich_color,
        bgcolor=ground.rich_color,
        bold=(ink.bold and not turned) or None,
        reverse=turned or None,
    )
