"""Pictures of the screen that need no network."""

import re

_FONT_FACE = re.compile(r"\s*@font-face\s*\{[^}]*\}")


def self_contained(svg: str) -> str:
    """Textual's picture without its web fonts: it names a font and falls back to the viewer's monospace one."""
    return _FONT_FACE.sub("", svg)
