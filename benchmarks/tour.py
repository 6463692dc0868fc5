"""`make tour`: the animation at the top of the README, recorded from a real session in a real terminal (tmux).

The demo runs without an idle timeout until a quiet channel has held back the watermark for a while; then keys are
pressed as a person would, and each screen is kept as text with its colours. The frames become one SVG that shows them
one after the other, without a script.
"""

import os
import subprocess
import sys
import tempfile
import time
from io import StringIO
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text
from wmtop.tui.screens.base_app import self_contained

OUT = Path(__file__).parents[1] / "tui" / "pictures" / "tour.svg"
COLUMNS, ROWS = 110, 32
SESSION = "wmtop-tour"
STARTED_S, STORY_S, DRAWN_S = 180, 150, 1.5
THEME = TerminalTheme(
    (18, 18, 22), (220, 220, 224),
    [(40, 42, 46), (204, 102, 102), (140, 170, 100), (222, 147, 95), (95, 129, 157), (133, 103, 143), (94, 141, 135),
     (200, 200, 200)],
    [(90, 92, 98), (230, 120, 120), (181, 206, 120), (240, 198, 116), (129, 162, 190), (178, 148, 187),
     (138, 190, 183), (240, 240, 240)],
)  # fmt: skip


class Step(NamedTuple):
    """Keys as tmux names them, and how long (s) the screen after them is shown."""

    keys: tuple[str, ...]
    shown_s: float


STEPS = (
    Step((), 4),  # the watermark is stuck: which channel, why
    Step(("w",), 4),  # which windows wait
    Step(("Escape", "d"), 5),  # what to do
    Step(("Escape", "["), 2),
    Step(("[",), 5),  # what it would give
    Step(("Enter",), 4),  # it is in force
    Step((), 4),
)


def main() -> None:
    """Run the demo in a terminal, press the keys, write the picture."""
    with tempfile.TemporaryDirectory(prefix="wmtop-tour-", dir="/tmp") as directory:
        os.chmod(directory, 0o700)
        demo = f"{Path(sys.executable).with_name('wmtop')} demo --idle-after off"
        environment = ("-e", f"WMTOP_RUN_DIR={directory}", "-e", "COLORTERM=truecolor")
        tmux("new-session", "-d", "-s", SESSION, "-x", str(COLUMNS), "-y", str(ROWS), *environment, demo)
        try:
            wait_for("LIVE", STARTED_S)
            time.sleep(STORY_S)
            frames = [(frame(step), step.shown_s) for step in STEPS]
        finally:
            tmux("send-keys", "-t", SESSION, "q")
            time.sleep(DRAWN_S)
            tmux("kill-server")
    OUT.write_text(animated(frames))
    print(f"{OUT}: {len(frames)} frames, {OUT.stat().st_size / 1024:.0f} KiB")


def tmux(*arguments: str) -> str:
    """The answer of tmux, on a server of its own."""
    command = ["tmux", "-L", SESSION, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def wait_for(text: str, timeout_s: float) -> None:
    """Until the screen shows a text."""
    deadline = time.monotonic() + timeout_s
    while text not in tmux("capture-pane", "-p", "-t", SESSION):
        if time.monotonic() > deadline:
            sys.exit(f"the screen did not show {text} within {timeout_s:g} s")
        time.sleep(0.5)


def frame(step: Step) -> str:
    """The screen after the step's keys, with its colours as terminal codes."""
    for key in step.keys:
        tmux("send-keys", "-t", SESSION, key)
        time.sleep(DRAWN_S)
    if not step.keys:
        time.sleep(DRAWN_S)
    return tmux("capture-pane", "-e", "-p", "-t", SESSION)


def animated(frames: list[tuple[str, float]]) -> str:
    """One SVG that shows each frame for its time (s), for ever."""
    whole_s = sum(shown_s for _, shown_s in frames)
    pictures = [picture(text, number) for number, (text, _) in enumerate(frames)]
    opening = pictures[0].partition(">")[0]
    rules, begun_s = list[str](), 0.0
    for number, (_, shown_s) in enumerate(frames):
        first, last = 100 * begun_s / whole_s, 100 * (begun_s + shown_s) / whole_s
        before = "" if number == 0 else "0%{visibility:hidden}"
        rules.append(
            f"@keyframes k{number}{{{before}{first:.3f}%{{visibility:visible}}{last:.3f}%{{visibility:hidden}}}}"
        )
        rules.append(f".frame{number}{{visibility:hidden;animation:k{number} {whole_s:g}s steps(1) infinite}}")
        begun_s += shown_s
    groups = [f'<g class="frame{number}">{one}</g>' for number, one in enumerate(pictures)]
    return f"{opening}><style>{''.join(rules)}</style>{''.join(groups)}</svg>\n"


def picture(text: str, number: int) -> str:
    """One screen as an SVG."""
    console = Console(width=COLUMNS, record=True, file=StringIO(), force_terminal=True, color_system="truecolor")
    for line in text.splitlines()[:ROWS]:
        console.print(Text.from_ansi(line), no_wrap=True, overflow="crop", crop=True)
    drawn = console.export_svg(title="wmtop demo --idle-after off", theme=THEME, unique_id=f"frame{number}")
    return self_contained(drawn)


if __name__ == "__main__":
    main()
