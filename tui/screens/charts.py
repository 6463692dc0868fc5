"""Pictures over time: event time against processing time; rows, batches, the backlog and the state."""

from collections.abc import Sequence

from msgspec.structs import replace
from textual.app import ComposeResult

from ...engine.snapshot import Snapshot
from ...engine.text import formatting as f
from ...engine.text.formatting import name
from ..widgets.charts import Charts, TimeCanvas, TimeScene, legend
from ..words import time_plot as plot
from ..words.keys import Hint, hint
from ..words.kinds import presenter_of
from ..words.preview import LatenessPreview
from ..words.spans import Span
from ..words.texts import TableRecords, not_in_sample, sample_of
from .base_app import app_of
from .target_screen import DetailScreen

_ROOMY = 110
_STEP = 0.25
"""Share of the picture that an arrow moves it by."""


class TimeScreen(DetailScreen):
    """The picture; it follows the clock until it is moved."""

    NAME = "Time"
    READING = (
        "Processing time goes to the right, event time upwards. ╱ is where both are the same: a record that "
        "is seen at once lies on it, one that arrives later lies below. ─ is the watermark, a step line. ┈ are the "
        "ends of windows: where the watermark crosses one, the window fires. ⠶ records on time, × late records: the "
        "watermark had passed the end of their window when they arrived. A record below the watermark is on time as "
        "long as its window is open.\n"
        "Records are a sample (the latest of each group of a batch, at most 2,000), late ones more often than the "
        "rest: the picture shows when and how, the counts on top show how many. ╌ is the watermark with the previewed "
        "lateness.\n"
    )

    _look = plot.PlotView()
    _data: plot.Data | None = None

    def body(self) -> ComposeResult:
        yield TimeCanvas(id="time")

    def show(self, snapshot: Snapshot) -> None:
        recent, preview = self.recent, self.preview
        lateness = preview.lateness_ms if isinstance(preview, LatenessPreview) else None
        self._data = plot.data_of(snapshot, recent.until(snapshot), recent.sample, self._look.channel, lateness)
        self.query_one(TimeCanvas).show(TimeScene(self._data, self._look, self.zone, self._missing(snapshot)))

    def heading(self, snapshot: Snapshot) -> Sequence[Span]:
        channel = self._look.channel
        who = "all channels" if channel is None else name(channel)
        out: list[Span] = [("  ", "dim"), (who, "strong" if channel is None else "selected")]
        if self._data is not None and self._data.points and self.size.width >= _ROOMY and not self._look.back_ms:
            late = sum(point.late for point in self._data.points)
            known = snapshot.target.counts_late
            out.append((f"  {sample_of(len(self._data.points), late if known else None)}", "dim"))
        if self._look.back_ms and self._data is not None:
            out.append((f"  {f.duration(self._look.back_ms)} ago", "stale"))
        return out

    def legend(self, snapshot: Snapshot) -> Sequence[Span]:
        known = snapshot.target.counts_late
        signs: list[Span] = [("⠶", "on-time"), (" on time  " if known else " record  ", "dim")]
        signs += [(plot.LATE, "bad"), (" late  ", "dim")] if known else []
        signs += [(plot.LEVEL, "level"), (" watermark  ", "dim"), (self._diagonal, "dim"), (" now", "dim")]
        frame = self.query_one(TimeCanvas).frame
        roomy = self.size.width >= _ROOMY - 10
        if roomy and self._data is not None and frame is not None and plot.grid_is_drawn(self._data, frame):
            signs += [("  ", "dim"), (plot.GRID, "dim"), (" window ends", "dim")]
        if isinstance(self.preview, LatenessPreview):
            signs += [("  ", "dim"), (plot.PREVIEW, "preview"), (" previewed", "dim")]
        return signs

    @property
    def _diagonal(self) -> str:
        return plot.DIAGONAL if app_of(self).no_color else "⠢"

    def keys(self, snapshot: Snapshot) -> Sequence[Hint]:
        out = [hint("zoom-in"), hint("move-left")]
        if self._look.back_ms or self._look.up_ms or self._look.zoom:
            out.append(hint("follow"))
        if snapshot.channels:
            out.append(hint("time-channel-next"))
        if self._look.channel is not None:
            out.append(hint("time-all-channels"))
        return out

    def records(self) -> TableRecords:
        return TableRecords("sample", [] if self._data is None else self._data.points)

    def action_zoom(self, by: int) -> None:
        """Zoom in or out."""
        frame = self.query_one(TimeCanvas).frame
        if frame is not None:
            self._look_at(plot.zoomed(self._look, frame, by))

    def action_move(self, right: int, up: int) -> None:
        """Move the picture."""
        frame = self.query_one(TimeCanvas).frame
        if frame is not None:
            self._look_at(plot.moved(self._look, frame, _STEP * right, _STEP * up))

    def action_follow(self) -> None:
        """Return to the first view: the newest data, following the clock."""
        self._look_at(plot.PlotView(channel=self._look.channel))

    def action_all(self) -> None:
        """Zoom out until everything is visible."""
        look, canvas = replace(self._look, back_ms=0, up_ms=0), self.query_one(TimeCanvas)
        while canvas.frame is not None and self._data is not None:
            before = canvas.frame
            oldest = min((now for now, _ in self._data.line[:1]), default=before.x_low)
            if before.x_low <= oldest:
                break
            look = plot.zoomed(look, before, -1)
            self._look_at(look)
            if canvas.frame == before:
                break

    def action_channel(self, by: int) -> None:
        """The records of the next channel, in the order of the names."""
        names = sorted(view.channel for view in self.snapshot.channels)
        if not names:
            return
        here = self._look.channel
        if here in names:
            place = (names.index(here) + by) % len(names)
        else:
            chosen = self.shown.view.selected
            place = names.index(chosen) if chosen in names else 0 if by > 0 else len(names) - 1
        self._look_at(replace(self._look, channel=names[place]))

    def action_channels(self) -> None:
        """The records of all channels."""
        self._look_at(replace(self._look, channel=None))

    def _look_at(self, look: plot.PlotView) -> None:
        self._look = look
        self.repaint()

    def _missing(self, snapshot: Snapshot) -> str:
        """Why there is nothing, or no record, to show."""
        if self._data is None:
            return f.NO_DATA
        if self._data.points:
            return ""
        if self._look.channel is not None:
            return not_in_sample(name(self._look.channel))
        return presenter_of(snapshot).no("records")


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
        return legend(plain=app_of(self).no_color) if snapshot.target.charts_batches else ()
