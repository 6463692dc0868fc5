"""The themes: text that can be read on every ground it is drawn on, and a choice that is remembered."""

import re
from pathlib import Path

import pytest
from textual.color import Color
from textual.theme import Theme
from wmtop.tui.screens import base_app
from wmtop.tui.screens.app import WmtopApp
from wmtop.tui.screens.base_app import Preferences
from wmtop.tui.widgets.themes import CONTRAST, DARK, LIGHT, THEMES, is_light

from ..canned import CannedClient, Clock, header, held, live, reported
from ..drive import Driven, drive

TEXT = (
    "foreground", "dim", "accent", "footer-key", "level", "preview", "success", "warning", "error", "holder",
    "catching-up", "idle",
)  # fmt: skip
GROUNDS = ("background", "surface", "panel", "cursor")
ON_WATER = ("holder", "catching-up", "preview", "error", "idle-wet")
"""Words are written across the staves, also below the water line."""
DRAWN = (("stave", "background"), ("folded", "background"), ("stave-wet", "water"), ("folded-wet", "water"))


def luminance(color: Color) -> float:
    """WCAG 2: the relative luminance."""
    parts = [part / 255 for part in color.rgb]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(theme: Theme, color: str, ground: str) -> float:
    """WCAG 2: the contrast of two of a theme's colours."""
    return ratio(*(Color.parse(theme.variables.get(name) or getattr(theme, name)) for name in (color, ground)))


def ratio(*colors: Color) -> float:
    """WCAG 2: the contrast of two colours."""
    low, high = sorted(map(luminance, colors))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_theme_text_has_enough_contrast(theme: Theme) -> None:
    least = 7 if theme is CONTRAST else 4.5
    pairs = [(color, ground) for color in TEXT for ground in GROUNDS] + [(color, "water") for color in ON_WATER]
    assert not {(color, ground, ratio) for color, ground in pairs if (ratio := contrast(theme, color, ground)) < least}
    assert not [pair for pair in DRAWN if contrast(theme, *pair) < 3]


def test_themes_have_the_same_color_names() -> None:
    assert DARK.variables.keys() == LIGHT.variables.keys() == CONTRAST.variables.keys()


def test_theme_choice_is_remembered(tmp_path: Path) -> None:
    path = tmp_path / "state" / "screen.json"

    def theme_of(file: Path | None) -> str:
        return WmtopApp(CannedClient(), on_quit="leave", clock=Clock(), preferences_file=file).theme

    assert theme_of(path) == DARK.name
    base_app.write_preferences(path, Preferences(theme=LIGHT.name))
    assert theme_of(path) == LIGHT.name
    assert theme_of(None) == DARK.name
    for damaged in (b"", b"{", b'{"theme": 7}', b'{"theme": "no-such"}', b"\xff"):
        path.write_bytes(damaged)
        assert theme_of(path) == DARK.name
    path.unlink()
    path.mkdir()
    assert theme_of(path) == DARK.name
    base_app.write_preferences(path, Preferences(theme=LIGHT.name))  # cannot be written: nothing happens


def test_theme_key_steps_and_remembers(tmp_path: Path) -> None:
    path = tmp_path / "screen.json"

    async def scenario(it: Driven) -> None:
        it.app._preferences_file = path
        for theme in (LIGHT, CONTRAST, DARK, LIGHT):
            await it.press("c")
            assert it.app.theme == theme.name
            assert base_app.read_preferences(path).theme == theme.name

    drive(scenario, *reported(live()))


@pytest.mark.parametrize("theme", [LIGHT, CONTRAST], ids=lambda theme: theme.name)
def test_theme_words_use_text_colors(theme: Theme) -> None:
    async def scenario(it: Driven) -> None:
        it.app.theme = theme.name
        for key in (None, "b", "w", "l", "t", "o", "g", "d", "h", "e"):
            await it.press(*([key] if key else []))
            await it.pilot.pause(0.05)
            assert not pale(it)
            await it.press(*(["escape"] if key else []))

    drive(scenario, header(held()), live())


def pale(it: Driven) -> set[tuple[str, str, str]]:
    """Words on the screen with a contrast below 4.5, and their two colours."""
    found: set[tuple[str, str, str]] = set()
    for widget in it.app.screen.query("Canvas, Rows"):
        for y in range(widget.size.height if widget.display else 0):
            for segment in widget.render_line(y):
                style = segment.style
                if (
                    style is None
                    or style.color is None
                    or style.bgcolor is None
                    or not re.search(r"\w\w", segment.text)
                ):
                    continue
                colors = [Color.from_rich_color(color) for color in (style.color, style.bgcolor)]
                if ratio(*colors) < 4.5:
                    found.add((segment.text.strip(), colors[0].hex, colors[1].hex))
    return found


@pytest.mark.parametrize(
    ("answer", "light"),
    [
        (b"\x1b]11;rgb:ffff/ffff/ffff\x1b\\\x1b[?62;4c", True),
        (b"\x1b]11;rgb:fd/f6/e3\x07\x1b[?1c", True),
        (b"\x1b]11;rgb:1e1e/1e1e/1e1e\x1b\\\x1b[?62c", False),
        (b"\x1b[?62;4c", False),
        (b"", False),
    ],
)
def test_a_light_background_is_recognised_by_the_answer_of_the_terminal(answer: bytes, light: bool) -> None:
    assert is_light(answer) == light
