"""An engine of this terminal: the steps of its start or why it failed, and the question at quitting."""

from collections.abc import Callable, Sequence
from textwrap import wrap
from typing import ClassVar, Literal

from msgspec import Struct
from msgspec.structs import replace
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from ...engine.snapshot import Snapshot, Step
from ...engine.text.formatting import clean, cut, first_line, pad
from ..widgets.canvas import Canvas
from ..words.spans import Span
from ..words.state import Lost
from ..words.texts import CONNECTING

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_WIDTH, _LEAST = 64, 30
_LOGO: tuple[tuple[Span, ...], ...] = (
    (("▂▂ ", "active"), ("   ", "active"), ("▅▅ ", "active"), ("   ", "active"), ("▃▃", "active")),
    (("██ ", "active"), ("▄▄ ", "active"), ("██ ", "active"), ("   ", "active"), ("██", "active")),
    *((("██", "active-wet"), (wave, "ripple")) * 3 + (("▓▓", "holder-wet"), (wave, "ripple"), ("██", "active-wet"))
      for wave in "≈ "),
)  # fmt: skip


class StartProgress(Struct, frozen=True):
    """The card's content: `running_s` is how long the first unfinished step has taken."""

    name: str = ""
    steps: Sequence[Step] = ()
    error: str | None = None
    log: str | None = None
    running_s: float = 0.0
    frame: int = 0


class StartCard(Canvas[StartProgress]):
    """Draws a `StartProgress` in the middle of the screen."""

    content = StartProgress()

    def draw(self, width: int, height: int) -> list[list[Span]]:
        room = max(min(_WIDTH, width - 4), _LEAST)
        lines = self._lines_of(room)
        left, top = max((width - room) // 2, 0), max((height - len(lines)) // 2 - 1, 0)
        blank: list[list[Span]] = [[] for _ in range(top)]
        return [*blank, *([(" " * left, "text"), *line] for line in lines)][:height]

    def _lines_of(self, room: int) -> list[list[Span]]:
        progress = self.content
        words: dict[int, list[Span]] = {
            1: [("wmtop", "accent"), (f"  {cut(clean(progress.name), room - 28)}", "strong")],
            2: [("top for stream watermarks", "dim")],
        }
        lines: list[list[Span]] = [[*logo, ("     ", "text"), *words.get(y, [])] for y, logo in enumerate(_LOGO)]
        lines += [[], *self._steps(room)]
        if progress.error is not None:
            lines += [[], [("● FAILED", "bad")], *([(line, "text")] for line in _wrapped(progress.error, room))]
        if progress.log is not None:
            lines += [[], *([(line, "dim")] for line in _wrapped(f"log  {clean(progress.log)}", room))]
        return [*lines, [], [("?", "key"), (" help   ", "dim"), ("q", "key"), (" quit", "dim")]]

    def _steps(self, room: int) -> list[list[Span]]:
        progress = self.content
        sign, style = ("✗", "bad") if progress.error is not None else (SPINNER[progress.frame], "level")
        seconds = None if progress.error is not None else progress.running_s
        if not progress.steps and progress.error is None:
            return [_step(sign, style, CONNECTING, seconds, room)]
        running = next((step for step in progress.steps if step.seconds is None), None)
        return [
            _step("✓", "good", step.name, step.seconds, room)
            if step.seconds is not None
            else _step(sign, style, step.name, seconds, room)
            if step is running
            else _step("·", "dim", step.name, None, room)
            for step in progress.steps
        ]


class StartScreen(Screen[None]):
    """Shown until the first batch; `clock` gives monotonic seconds."""

    class Uncovered(Message):
        """No screen covers this one any more."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self._clock = clock
        self._opened = self._since = clock()
        self._step_name: str | None = None
        self._progress = StartProgress()
        self._over = False

    def compose(self) -> ComposeResult:
        yield StartCard(id="card")

    def on_mount(self) -> None:
        self._paint()
        self.set_interval(0.1, self._paint)

    def on_screen_resume(self) -> None:
        self.post_message(self.Uncovered())

    def done(self) -> None:
        """The start is over: stop."""
        self._over = True

    def take(self, snapshot: Snapshot) -> None:
        """Show the steps of `snapshot`."""
        running = next((step.name for step in snapshot.steps if step.seconds is None), None)
        if running != self._step_name:
            self._step_name, self._since = running, self._clock()
        failed = snapshot.state == "failed"
        error = first_line(snapshot.error or "The engine failed") if failed else self._progress.error
        self._progress = StartProgress(snapshot.name, tuple(snapshot.steps), error, snapshot.log)
        self._paint()

    def lose(self, lost: Lost) -> None:
        """Show that no more will come."""
        self._progress = replace(self._progress, error=self._progress.error or lost.text)
        self._paint()

    def _paint(self) -> None:
        if self._over or not self.is_mounted:
            return
        progress, now = self._progress, self._clock()
        if progress.error is None:
            frame = int((now - self._opened) * 10) % len(SPINNER)
            progress = replace(progress, running_s=round(now - self._since, 1), frame=frame)
        self.query_one(StartCard).show(progress)


def _wrapped(text: str, room: int) -> list[str]:
    """A long line as several, also for a path without blanks: nothing of it may be lost."""
    return [cut(line, room) for line in wrap(text, room)]


def _step(sign: str, style: str, name: str, seconds: float | None, room: int) -> list[Span]:
    took = "" if seconds is None else f"{seconds:.1f} s"
    words = "dim" if seconds is None else "text"
    return [(f"{sign} ", style), (pad(clean(name), room - 12), words), (pad(took, 9, right=True), "dim")]


Answer = Literal["stop", "leave", "fleet"]


class QuitScreen(ModalScreen[Answer | None]):
    """Stop the engine, leave it running, or stay: dismissed with the answer."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "answer('stop')", "stop the engine"),
        Binding("l,q", "answer('leave')", "leave it running"),
        Binding("escape", "dismiss", "stay"),
    ]

    def __init__(self, name: str) -> None:
        super().__init__()
        self._engine_name = name

    def compose(self) -> ComposeResult:
        with Vertical(id="quit") as box:
            box.border_title = "Quit"
            yield Static(
                Content.assemble(
                    "The engine ", (self._engine_name, "bold"), " was started here.\n\n",
                    ("s", "bold $accent"), "    stop the engine and quit\n",
                    ("q", "bold $accent"), "    leave it running and quit (also l)\n",
                    ("Esc", "bold $accent"), "  stay",
                )
            )  # fmt: skip

    def action_answer(self, answer: Answer) -> None:
        """Close with the answer."""
        self.dismiss(answer)
