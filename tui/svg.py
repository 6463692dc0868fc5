"""Pictures of the screen that need no network."""

import re

_FONT_FACE = re.compile(r"\s*@font-face\s*\{[^}]*\}")


def self_contained(svg: str) -> str:
    """Textual's picture without its web fonts: with a font name and the viewer's monospace font as fallback."""
    return _FONT_FACE.sub("", svg)
