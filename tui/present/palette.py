"""The titles of the commands in the command palette, and the main screen's commands."""

from collections.abc import Container

from .keys import LINKS

TYPE_LATENESS = "Type a lateness"
FREEZE = "Freeze or resume"
THEME, HELP, QUIT = "Theme", "Help", "Quit"
SAVE_SVG, SAVE_CSV, SAVE_JSON = "Save SVG", "Save as CSV", "Save as JSON"
RECORD, INCIDENT = "Record or stop", "Incident report"
PLAY, GO_TO = "Play or pause", "Go to a time"


def main_commands(screens: Container[str], *, replay: bool) -> list[tuple[str, str, str]]:
    """Title, help and action of each command; `screens` are the existing further screens."""
    freeze = (FREEZE, "Data keeps coming, the picture is frozen", "freeze")
    return [
        (TYPE_LATENESS, "Preview a lateness, then apply it", "type_lateness"),
        ("Filter the channels", "By a regular expression", "filter"),
        ("Sort the channels", "The next order", "sort"),
        ("Linear or log axis", "Event time, or distance behind the fastest channel", "axis"),
        *([] if replay else [freeze]),
        ("Heat map or barrel", "How far each channel was behind, over time", "heat"),
        ("UTC or local time", "How times are shown", "zone"),
        *((link.name, link.about, f"detail('{link.name}')") for link in LINKS if link.name in screens),
    ]
