"""What a screen shows at once."""

import asyncio

from textual.app import App, ComposeResult
from textual.strip import Strip
from wmtop.tui.widgets.lines import TextLine
from wmtop.tui.words.spans import part


class _Watched(TextLine):
    """Keeps what it was painted as."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[str] = []

    def render_line(self, y: int) -> Strip:
        strip = super().render_line(y)
        self.frames.append(strip.text.strip())
        return strip


class _OneLine(App[None]):
    def compose(self) -> ComposeResult:
        yield _Watched()

    def on_mount(self) -> None:
        self.query_one(_Watched).show([part(("MOVING", "good"))])


def test_the_first_frame_has_its_text() -> None:
    async def scenario() -> list[str]:
        app = _OneLine()
        async with app.run_test() as pilot:
            await pilot.pause()
            return app.query_one(_Watched).frames

    assert asyncio.run(scenario())[0] == "MOVING"
