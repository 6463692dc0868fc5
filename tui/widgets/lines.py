"""Text in lines: at the top, in the rules between the panels, in the footer and the prompt; facts and sentences."""

import re
from collections.abc import Sequence

from msgspec import Struct
from rich.cells import cell_len
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.events import Click
from textual.geometry import Size
from textual.widgets import Input, Label

from ...engine.text.formatting import clean, duration, pad
from ..words.keys import Hint
from ..words.spans import (
    SPARK_CELLS,
    Part,
    Span,
    Top,
    WatermarkLine,
    cells,
    clip,
    clip_clauses,
    clip_words,
    lay,
    part,
    spark,
)
from .canvas import Canvas

_MIN_SPARK = 8
_BESIDE_NOTE = 14
"""The cells that a prompt needs beside its label and its note: its input's, and two before the note."""


class TextLine(Canvas[Sequence[Part]]):
    """A line of parts; the least important are dropped if there is no room."""

    content = ()

    def draw(self, width: int, height: int) -> list[list[Span]]:
        return [lay(self.content, width)]


class LevelLine(Canvas[WatermarkLine]):
    """The watermark and its holder, in one line or two, with a sparkline of its lag if there is room."""

    content = WatermarkLine()

    def draw(self, width: int, height: int) -> list[list[Span]]:
        line = self.content
        if height > 1:
            level, holder = lay(line.level, width), lay(line.holder, width)
            return [self._with_spark(level, width), holder]
        return [self._with_spark(lay([*line.level, *line.holder], width), width)]

    def _with_spark(self, spans: list[Span], width: int) -> list[Span]:
        if spans and not spans[-1][0].strip():
            spans = spans[:-1]
        label: Span = ("  lag ", "dim")
        greatest = max((lag for lag in self.content.lags if lag is not None), default=None)
        top: Span = ("" if greatest is None else f" ≤{duration(greatest)} ", "dim")
        room = width - cells([*spans, label, top])
        if greatest is None or room < _MIN_SPARK:
            return spans
        shown = self.content.lags[-min(room, SPARK_CELLS) :]
        return [*spans, (" " * (room - len(shown)), "dim"), label, (spark(shown, greatest), "holder"), top]


class Heading(Struct, frozen=True):
    """A title in a rule: its panel's start (cells), its text, and the text at its right end."""

    start: int
    title: Sequence[Span]
    right: Sequence[Span] = ()
    firm: bool = False
    """Whether the title is cut, instead of the right end, if there is no room for both."""


class Headings(Struct, frozen=True):
    """The titles in a rule from left to right; `joint` is the character at cell `joint_at` (0: none), where another
    border meets it.
    """

    titles: Sequence[Heading] = ()
    joint_at: int = 0
    joint: str = "─"


class HeadingLine(Canvas[Headings]):
    """A rule between panels: `┌┐`, `├┤` or `└┘` at its ends, joined to the border that meets it."""

    content = Headings()

    def __init__(self, ends: str, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._ends = ends

    def draw(self, width: int, height: int) -> list[list[Span]]:
        titles, joint_at, joint = self.content.titles, self.content.joint_at, self.content.joint
        spans: list[Span] = [(self._ends[0], "frame")]
        for place, heading in enumerate(titles):
            last = place + 1 == len(titles)
            end = width - 1 if last else titles[place + 1].start
            spans += self._stretch(heading, end - cells(spans))
            if not last:
                spans.append((joint if end == joint_at else "─", "frame"))
        if not titles:
            spans.append(("".join(joint if x == joint_at else "─" for x in range(1, width - 1)), "frame"))
        return [[*spans, (self._ends[1], "frame")]]

    def _stretch(self, heading: Heading, width: int) -> list[Span]:
        right = [(" ", "frame"), *heading.right, (" ─", "frame")] if heading.right else []
        room = width - cells(right) - 1 if heading.firm else width
        title = [("─ ", "frame"), *clip_clauses(heading.title, max(room - 3, 0)), (" ", "frame")]
        spare = width - cells(title) - cells(right)
        if spare < 1:
            right, spare = [], width - cells(title)
        return [*title, ("─" * spare, "frame"), *right]


class KeyLine(Canvas[Sequence[Hint]]):
    """The keys that work here; a click on one does the same."""

    ALLOW_SELECT = False
    content = ()
    _spots: Sequence[tuple[int, int, str]] = ()
    """The cells of each key, and its action."""

    def draw(self, width: int, height: int) -> list[list[Span]]:
        kept = list(self.content)
        while kept and sum(len(key.keys) + len(key.word) + 3 for key in kept) > width:
            kept.remove(max(kept, key=lambda key: key.rank))
        spans: list[Span] = []
        spots: list[tuple[int, int, str]] = []
        for key in kept:
            start = cells(spans)
            spans += [(" ", "dim"), (key.keys, "key"), (f" {key.word} ", "dim")]
            spots.append((start, cells(spans), key.action))
        self._spots = spots
        return [spans]

    async def on_click(self, event: Click) -> None:
        for start, end, action in self._spots:
            if start <= event.x < end:
                await self.screen.run_action(action)


class Prompt(Horizontal):
    """Asks for one value: the screen gets the changes of its input. Hidden until it is opened."""

    purpose = ""
    """The purpose it was opened for; empty when it is closed."""
    _note = _label = ""

    def compose(self) -> ComposeResult:
        yield Label(id="prompt-label", markup=False)
        entry = Input(compact=True, id="prompt-input", select_on_focus=False)
        entry.cursor_blink = False  # it would repaint an unchanged screen
        yield entry
        yield Label(id="prompt-note", markup=False)

    def open(self, purpose: str, label: str, text: str, note: str) -> None:
        """Ask: `label` is before the input, `note` (how to continue) after it."""
        self.purpose, self._label, self._note = purpose, label, note
        self.query_one("#prompt-label", Label).update(f" {label} ")
        entry = self.query_one(Input)
        with self.prevent(Input.Changed):
            entry.value = text
        entry.cursor_position = len(text)
        self.say(None)
        self.display = True
        entry.focus()

    def close(self) -> None:
        """Hide."""
        self.purpose = ""
        self.display = False

    def say(self, error: str | None) -> None:
        """Show what is wrong with the input, None: how to continue; after it, or below it if there is no room."""
        text, note = error or self._note, self.query_one("#prompt-note", Label)
        note.update(text)
        note.set_class(error is not None, "-error")
        self.set_class(cell_len(f" {self._label} {text}") + _BESIDE_NOTE > self.screen.size.width, "-below")


class TopLines(Vertical):
    """Draws a `Top`."""

    def compose(self) -> ComposeResult:
        yield TextLine(id="status")
        yield TextLine(id="verdict")
        yield LevelLine(id="level")
        for name in ("tuning", "now", "from-start", "banner", "log"):
            yield TextLine(id=name)

    def show(self, top: Top) -> None:
        """Draw `top`."""
        self.query_one("#status", TextLine).show(top.status)
        self.query_one("#verdict", TextLine).show(top.verdict)
        self.query_one(LevelLine).show(top.watermark_line)
        self.query_one("#tuning", TextLine).show(top.tuning)
        banner = [] if top.banner is None else [part((" " + clean(top.banner[0]), top.banner[1]))]
        log = [] if top.log is None else [part((f" log {clean(top.log)}", "text"))]
        for name, parts in (("now", top.now), ("from-start", top.from_start), ("banner", banner), ("log", log)):
            line = self.query_one(f"#{name}", TextLine)
            line.show(parts)
            line.display = bool(parts)


_LABEL = 17
_TWO = 120
"""Width from which there are two columns."""


class FactList(Canvas[Sequence[tuple[str, list[Span]]]]):
    """Draws facts: labels and known values."""

    content = ()

    def rows(self, width: int) -> int:
        """The number of lines."""
        return -(-len(self.content) // (2 if width >= _TWO else 1))

    def draw(self, width: int, height: int) -> list[list[Span]]:
        facts, rows = self.content, self.rows(width)
        if rows == len(facts):
            return [_line(fact, width) for fact in facts[:height]]
        half = width // 2
        lines: list[list[Span]] = []
        for place in range(min(rows, height)):
            left = _line(facts[place], half - 2)
            right = _line(facts[rows + place], width - half) if rows + place < len(facts) else []
            lines.append([*left, (" " * (half - cells(left)), "dim"), *right])
        return lines


def _line(fact: tuple[str, list[Span]], width: int) -> list[Span]:
    return clip_words([(f" {pad(fact[0], _LABEL)}", "dim"), *fact[1]], width)


class Prose(Canvas[Sequence[Span]]):
    """Draws a paragraph, as high as it is where its style says so; lines beyond its height are cut."""

    content = ()

    def show(self, content: Sequence[Span]) -> None:
        before = self._rows(self.size.width)
        super().show(content)
        if self._rows(self.size.width) != before:
            self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self._rows(width)

    def _rows(self, width: int) -> int:
        return len(wrap_spans(self.content, max(width - 2, 1)))

    def draw(self, width: int, height: int) -> list[list[Span]]:
        lines = wrap_spans(self.content, width - 2)
        if len(lines) > height > 0:
            lines = wrap_spans(self.content, width - 4)[:height]
            lines[-1].append((" …", "dim"))
        return [[(" ", "text"), *line] for line in lines]


def wrap_spans(spans: Sequence[Span], width: int) -> list[list[Span]]:
    """The spans in lines of at most `width` cells, broken at spaces; a word that is longer is cut."""
    lines: list[list[Span]] = [[]]
    used = 0
    for word in _words(spans):
        taken = cells(word)
        if used and used + taken - word[-1][0].endswith(" ") > width:
            lines.append([])
            used = 0
        lines[-1] += word
        used += taken
    return [clip(_stripped(line), width) for line in lines]


def _stripped(line: list[Span]) -> list[Span]:
    """The line without the space after its last word."""
    return [*line[:-1], (line[-1][0].rstrip(" "), line[-1][1])] if line else line


def _words(spans: Sequence[Span]) -> list[list[Span]]:
    """The spans as words, each with the space after it; a word may have several styles."""
    words: list[list[Span]] = []
    whole = True
    for text, style in spans:
        for piece in re.findall(r"[^ ]* |[^ ]+", text):
            if whole:
                words.append([])
            words[-1].append((piece, style))
            whole = piece.endswith(" ")
    return words
