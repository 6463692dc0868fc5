"""Progress: rows in and out, batches by phase, the backlog and the state over the kept history."""

from collections.abc import Sequence

from textual.app import ComposeResult

from ...engine.snapshot import Snapshot
from ..widgets.charts import Charts, legend
from ..words.spans import Span
from ..words.texts import TableRecords
from ..words.watermark import kind_words
from .base_app import app_of
from .target_screen import DetailScreen


class ProgressScreen(DetailScreen):
    """Five figures on one time axis, and the backlog by source."""

    NAME = "Progress"
    READING = (
        "Time runs from left to right, by the engine's wall clock, the newest at the right; a column stands "
        "for two seconds or more. The number at the axis is its top; ▲ goes beyond it.\n"
        "rows in: records per second, and how many were done in a second of a batch's own time. results out: windows "
        "that fired, each time. batch: how long the slowest batch of a column took, and with what: work is reading and "
        "computing, commit writing the checkpoint, offsets asking the sources what there is. backlog: records that are "
        "in the source but not read yet, and how much event time they span. state: records in open windows; for "
        "an attached query the rows in Spark's state.\n"
        "Of a Flink job: records read by its sources, results sent by the operator whose inputs are shown, the busiest "
        "subtask and the most back-pressured one, how much event time passes in a second, the last checkpoint.\n"
    )

    def body(self) -> ComposeResult:
        yield Charts(id="charts")

    def show(self, snapshot: Snapshot) -> None:
        self.query_one(Charts).show((snapshot, self.recent.until(snapshot)))

    def records(self) -> TableRecords:
        return TableRecords("progress", self.recent.until(self.snapshot))

    def legend(self, snapshot: Snapshot) -> Sequence[Span]:
        return legend(plain=app_of(self).no_color) if kind_words(snapshot).charts_batches else ()
