"""One channel: its watermark against the query's, its quiet periods, its counts, how late its records are."""

from collections.abc import Sequence

from textual.app import ComposeResult

from ...engine.snapshot import ChannelView, Snapshot
from ...engine.text import formatting as f
from ...engine.verdict.blame import channel_named, holding_channel
from ..widgets.lateness_plot import LatenessPlot, LatenessScene
from ..widgets.lines import FactList, Prose, TextLine
from ..words.barrel import kind_of, rank
from ..words.channels import channel_line, facts
from ..words.clocks import partition_line
from ..words.keys import Hint, hint
from ..words.late_records import About
from ..words.lateness import curve_of, place_of, shown
from ..words.recent import Moment, greatest
from ..words.spans import Span, part, spark
from ..words.texts import CHANNEL_GONE, CHANNELS_UNKNOWN, MAX_LATE_ONLY, NOT_BEHIND, Chosen, TableRecords
from ..words.watermark import kind_words
from .target_screen import DetailScreen

_BESIDE = 48
"""The cells beside a line of bars."""


class ChannelScreen(DetailScreen):
    """The selected channel; its last minutes are drawn as lines of bars."""

    NAME = "Channel"
    READING = (
        "First the state of the channel, then its counts since the start. Two lines of bars show at "
        "most the last 15 minutes, the newest at the right: how far the channel was ahead of the watermark, and for "
        "how long it had no data (a ramp ends with the next record). Below, how late its records are, if it is among "
        "the 16 channels with most late ones: the share is of those behind the watermark.\n"
    )

    def body(self) -> ComposeResult:
        yield Prose(id="explanation")
        yield FactList(id="facts")
        yield TextLine(id="ahead")
        yield TextLine(id="quiet")
        yield LatenessPlot(id="plot")

    @property
    def crumb(self) -> str:
        channel = self.shown.view.selected
        return self.NAME if channel is None else f.label(channel, 24)

    def show(self, snapshot: Snapshot) -> None:
        view = channel_named(snapshot, self.shown.view.selected)
        prose, table = self.query_one(Prose), self.query_one(FactList)
        if view is None:
            gone = CHANNEL_GONE if snapshot.channels else CHANNELS_UNKNOWN
            prose.show([(gone, "dim")])
            table.show([])
            self._show_curve(snapshot, None)
            return
        moments = self.recent.past.until(snapshot)
        own_clock = not kind_words(snapshot).has_watermark
        prose.show(partition_line(snapshot, view) if own_clock else channel_line(snapshot, view))
        table.show(facts(snapshot, view, self.zone))
        table.styles.height = table.rows(self.size.width - 2)
        ahead = [_ahead(moment, view.channel) for moment in moments]
        quiet = [moment.quiet_ms(view.channel) for moment in moments]
        since_ms = moments[0].now_ms if moments else None
        self.query_one("#ahead").display = not own_clock
        self._show_past("#ahead", "ahead of watermark", ahead, "level", since_ms)
        self._show_past("#quiet", "no data for", quiet, "idle", since_ms)
        self._show_curve(snapshot, view)

    def keys(self, snapshot: Snapshot) -> Sequence[Hint]:
        late = [] if channel_named(snapshot, self.shown.view.selected) is None else [hint("late-records")]
        return [*late, hint("channel-next")] if len(snapshot.channels) > 1 else late

    def records(self) -> TableRecords | None:
        view = channel_named(self.snapshot, self.shown.view.selected)
        return None if view is None else TableRecords("channel", [view])

    def chosen(self) -> Chosen | None:
        view = channel_named(self.snapshot, self.shown.view.selected)
        if view is None:
            return None
        reported = "".join(text for text, _ in channel_line(self.snapshot, view))
        return Chosen(f.clean(view.channel), f"{f.clean(view.channel)}: {reported}")

    def action_other(self, step: int) -> None:
        """Go to the page of the channel before or after, the most behind first."""
        snapshot = self.snapshot
        held = holding_channel(snapshot)
        order = sorted(
            snapshot.channels, key=lambda view: rank(kind_of(view.channel, view.state, held), view.watermark_ms)
        )
        names = [view.channel for view in order]
        if not names:
            return
        here = self.shown.view.selected
        place = names.index(here) + step if here in names else 0
        self.open_channel(names[place % len(names)])

    def action_late_records(self) -> None:
        """Open the last late records of the channel."""
        if (channel := self.shown.view.selected) is not None:
            self.open_late_records(About(channel))

    def _show_past(
        self, selector: str, what: str, past: Sequence[int | None], style: str, since_ms: int | None
    ) -> None:
        """A line of bars over all of the past that is kept; a bar is the greatest value of a stretch."""
        room = max(self.size.width - _BESIDE, 10)
        values = greatest(past, room)
        most = max((value for value in values if value is not None), default=None)
        bars = "".join(sign * max(room // len(values), 1) for sign in spark(values, most))
        line: list[Span] = [(f" {f.pad(what, 19)}", "dim"), (bars, style)]
        top = [part((f"≤{f.duration(most)}", "dim"), gap=" ")] if most is not None else []
        since = "" if since_ms is None else f" since {f.clock(since_ms, self.zone, self.snapshot.now_ms)}"
        self.query_one(selector, TextLine).show(
            [part(*line), *top, part((since.partition(".")[0], "dim"), rank=1, gap="")]
        )

    def _show_curve(self, snapshot: Snapshot, view: ChannelView | None) -> None:
        plot = self.query_one(LatenessPlot)
        curve = curve_of(snapshot, view.channel) if view is not None else None
        if curve is None:
            none = NOT_BEHIND if view and view.behind_watermark == 0 and view.records else MAX_LATE_ONLY
            plot.show(LatenessScene(empty="" if view is None or snapshot.whatif is None else none))
            return
        now = snapshot.settings.lateness_ms
        first, last = shown(curve, [now])
        plot.show(LatenessScene(curve, first, last, place_of(curve.edges, now or 0), now))


def _ahead(moment: Moment, channel: str) -> int | None:
    """How far the channel was ahead of the watermark (ms)."""
    time = moment.watermark_ms(channel)
    return None if time is None or moment.level_ms is None else max(time - moment.level_ms, 0)
