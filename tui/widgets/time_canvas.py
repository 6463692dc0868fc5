"""Event time against processing time, with its axes."""

from datetime import UTC, tzinfo

from ..present.line import Span, clip
from ..present.time_plot import Data, PlotFrame, PlotView, drawn, frame_of, x_labels, y_labels
from .canvas import Canvas

_GUTTER = 10


class TimeCanvas(Canvas):
    """Draws `Data` in a given view, readable also without colours (`plain`); stores the part it shows."""

    def __init__(self, *, plain: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self._plain = plain
        self._data: Data | None = None
        self._look = PlotView()
        self._zone: tzinfo | None = UTC
        self._empty = ""
        self.frame: PlotFrame | None = None
        """The part that is shown."""

    def show(self, data: Data | None, look: PlotView, zone: tzinfo | None, empty: str) -> None:
        """Draw `data`; `empty` is the text without data."""
        self._data, self._look, self._zone, self._empty = data, look, zone, empty
        self.redraw()

    def draw(self, width: int, height: int) -> list[list[Span]]:
        data, columns, rows = self._data, width - _GUTTER - 1, height - 1
        if data is None or columns < 4 or rows < 3:
            return [[], clip([(f" {self._empty}", "dim")], width)][:height]
        frame = self.frame = frame_of(data, self._look, columns, rows, self.frame)
        labels = y_labels(frame, self._zone)
        lines: list[list[Span]] = []
        for place, spans in enumerate(drawn(data, frame, plain=self._plain)):
            text = labels.get(frame.rows - 1 - place)
            mark = f" {text or '':>{_GUTTER - 3}} "
            lines.append([(mark, "dim"), ("┤" if text else "│", "frame"), *spans])
        if self._empty:
            lines[1] = [*lines[1][:2], (f" {self._empty}"[:columns], "dim")]
        return [*lines, _bottom(frame, self._zone)]


def _bottom(frame: PlotFrame, zone: tzinfo | None) -> list[Span]:
    """The labels of the processing time."""
    line = " " * frame.columns
    for column, text in x_labels(frame, zone).items():
        if column + len(text) + 1 < frame.columns and not line[max(column - 1, 0) : column + len(text) + 2].strip():
            line = line[:column] + "╵" + text + line[column + 1 + len(text) :]
    return [(" " * _GUTTER, "dim"), (line, "dim")]
