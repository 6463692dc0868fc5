"""A line to type into, in the footer's place."""

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Label


class Prompt(Horizontal):
    """Asks for one value; posts `Typed` at each change, `Done` at Enter. Hidden until it is opened."""

    class Typed(Message):
        """The text changed."""

        def __init__(self, purpose: str, text: str) -> None:
            self.purpose, self.text = purpose, text
            super().__init__()

    class Done(Message):
        """Enter was pressed."""

        def __init__(self, purpose: str, text: str) -> None:
            self.purpose, self.text = purpose, text
            super().__init__()

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._purpose = ""

    def compose(self) -> ComposeResult:
        yield Label(id="prompt-label", markup=False)
        entry = Input(compact=True, id="prompt-input", select_on_focus=False)
        entry.cursor_blink = False  # it would repaint an unchanged screen
        yield entry
        yield Label(id="prompt-note", markup=False)

    @property
    def purpose(self) -> str:
        """The purpose it was opened for; empty when it is closed."""
        return self._purpose

    def open(self, purpose: str, label: str, text: str, note: str) -> None:
        """Ask: `label` is before the input, `note` after it."""
        self._purpose = purpose
        self.query_one("#prompt-label", Label).update(f" {label} ")
        entry = self.query_one(Input)
        with self.prevent(Input.Changed):
            entry.value = text
        entry.cursor_position = len(text)
        self.say(note)
        self.display = True
        entry.focus()

    def close(self) -> None:
        """Hide."""
        self._purpose = ""
        self.display = False

    def say(self, note: str, error: bool = False) -> None:
        """Show a text after the input: how to continue, or the problem in one line."""
        label = self.query_one("#prompt-note", Label)
        label.update(note)
        label.set_class(error, "-error")

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self._purpose:
            self.post_message(self.Typed(self._purpose, event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Done(self._purpose, event.value))
