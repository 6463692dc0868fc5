"""The question at quitting, if this terminal started the engine."""

from typing import ClassVar, Literal

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

Answer = Literal["stop", "leave", "fleet"]


class QuitScreen(ModalScreen[Answer | None]):
    """Stop the engine, leave it running, or stay: dismissed with the answer."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "answer('stop')", "stop the engine"),
        Binding("l", "answer('leave')", "leave it running"),
        Binding("escape", "stay", "stay"),
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
                    ("l", "bold $accent"), "    leave it running and quit\n",
                    ("Esc", "bold $accent"), "  stay",
                )
            )  # fmt: skip

    def action_answer(self, answer: Answer) -> None:
        """Close with the answer."""
        self.dismiss(answer)

    def action_stay(self) -> None:
        """Stay."""
        self.dismiss(None)
