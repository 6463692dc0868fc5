"""The themes, dark, light, high contrast, and the style of each meaning in a theme."""

from collections.abc import Mapping

from msgspec import Struct
from rich.style import Style
from textual.color import Color
from textual.theme import Theme

DARK = Theme(
    name="wmtop-dark",
    dark=True,
    primary="#5fb4e5",
    secondary="#8196ad",
    accent="#7fd1c7",
    foreground="#d5dde7",
    background="#0d1219",
    surface="#121923",
    panel="#19222e",
    success="#7bc98f",
    warning="#e9b44c",
    error="#ff857c",
    variables={
        "dim": "#96a3b2",
        "frame": "#2a3645",
        "cursor": "#22384f",
        "stave": "#8598ae",
        "stave-wet": "#648dab",
        "folded": "#5b6d82",
        "folded-wet": "#568cb1",
        "water": "#173f5f",
        "ripple": "#2a6288",
        "surface-water": "#2f7fb5",
        "level": "#6cc1f2",
        "holder": "#f5a742",
        "holder-shade": "#a8691c",
        "idle": "#97a2b2",
        "idle-wet": "#98abbe",
        "catching-up": "#c99bf5",
        "preview": "#8ff0c4",
        "border": "#3d5875",
        "footer-key": "#7fd1c7",
    },
)
LIGHT = Theme(
    name="wmtop-light",
    dark=False,
    primary="#1769a5",
    secondary="#66788c",
    accent="#0a6e6a",
    foreground="#1f2933",
    background="#fbfbf9",
    surface="#f2f4f5",
    panel="#e8ecef",
    success="#1d7239",
    warning="#925600",
    error="#b6332a",
    variables={
        "dim": "#5a666e",
        "frame": "#c8d0d7",
        "cursor": "#d7e6f3",
        "stave": "#8091a3",
        "stave-wet": "#4c83ac",
        "folded": "#7e91a4",
        "folded-wet": "#4c86b1",
        "water": "#cfe5f5",
        "ripple": "#a6cdea",
        "surface-water": "#8cc0e6",
        "level": "#1768a3",
        "holder": "#a04a00",
        "holder-shade": "#e39a58",
        "idle": "#5a6571",
        "idle-wet": "#556575",
        "catching-up": "#7a3ec0",
        "preview": "#007156",
        "border": "#9db4c8",
        "footer-key": "#0a6e6a",
    },
)
CONTRAST = Theme(
    name="wmtop-contrast",
    dark=True,
    primary="#66d9ff",
    secondary="#e0e0e0",
    accent="#00ffff",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#000000",
    success="#5cff5c",
    warning="#ffd700",
    error="#ffb3b3",
    variables={
        "dim": "#dcdcdc",
        "frame": "#9a9a9a",
        "cursor": "#00336e",
        "stave": "#c8c8c8",
        "stave-wet": "#b9dcff",
        "folded": "#a8a8a8",
        "folded-wet": "#9ecbff",
        "water": "#00265c",
        "ripple": "#7fb8ff",
        "surface-water": "#7fb8ff",
        "level": "#7fdcff",
        "holder": "#ffb84d",
        "holder-shade": "#5a3600",
        "idle": "#dcdcdc",
        "idle-wet": "#dcdcdc",
        "catching-up": "#e3bcff",
        "preview": "#8dffcf",
        "border": "#ffffff",
        "footer-key": "#00ffff",
    },
)
THEMES = (DARK, LIGHT, CONTRAST)
"""The order in which a key steps through them."""


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
