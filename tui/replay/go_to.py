"""The prompt of a replay for a time to go to."""

from datetime import tzinfo
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from ..widgets.prompt import Prompt
from .moment import HOW, parse_moment

_HOW_TO_TYPE = "14:30 · 02-08 14:30 · +10m · Esc stays"


class GoToScreen(ModalScreen[int | None]):
    """Asks for a time, read at `now_ms` in `zone`; dismissed with it (epoch ms), or with None to stay."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "stay", "stay")]

    def __init__(self, now_ms: int, zone: tzinfo | None) -> None:
        super().__init__()
        self._now_ms, self._zone = now_ms, zone

    def compose(self) -> ComposeResult:
        yield Prompt()

    def on_mount(self) -> None:
        self.query_one(Prompt).open("time", "go to", "", _HOW_TO_TYPE)

    def on_prompt_typed(self, event: Prompt.Typed) -> None:
        self.query_one(Prompt).say(_HOW_TO_TYPE)

    def on_prompt_done(self, event: Prompt.Done) -> None:
        try:
            self.dismiss(parse_moment(event.text, self._now_ms, self._zone))
        except ValueError as error:
            self.query_one(Prompt).say(str(error) if event.text.strip() else HOW, error=True)

    def action_stay(self) -> None:
        """Stay."""
        self.dismiss(None)
