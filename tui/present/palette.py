"""The commands of the command palette on the main screen."""

from collections.abc import Container

from .keys import LINKS


def main_commands(screens: Container[str], *, replay: bool) -> list[tuple[str, str, str]]:
    """Title, help and action of each command; `screens` are the existing further screens."""
    freeze = ("Freeze or resume", "Data keeps coming, the picture is frozen", "freeze")
    return [
        ("Type a lateness", "Preview a lateness, then apply it", "type_lateness"),
        ("Filter the channels", "By a regular expression", "filter"),
        ("Sort the channels", "The next order", "sort"),
        ("Linear or log axis", "Event time, or distance behind the fastest channel", "axis"),
        *([] if replay else [freeze]),
        ("Heat map or barrel", "How far each channel was behind, over time", "heat"),
        ("UTC or local time", "How times are shown", "zone"),
        *((link.name, link.about, f"detail('{link.name}')") for link in LINKS if link.name in screens),
    ]
