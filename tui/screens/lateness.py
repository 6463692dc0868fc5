"""Lateness: how late records are, and the cost of each lateness or idle timeout; the last late records, who is late."""

from collections.abc import Sequence
from functools import partial

from msgspec import UNSET
from textual.app import ComposeResult
from textual.containers import Vertical

from ...engine.snapshot import LateRecord, Snapshot, WhatIfIdle
from ...engine.snapshot.recommendation import Recommendation, recommendation
from ...engine.text import formatting as f
from ...engine.text.formatting import horizon_name, horizon_words, name
from ...engine.verdict.preview import ProposedSetting
from ..widgets.canvas import Picked
from ..widgets.lateness_plot import LatenessPlot, LatenessScene
from ..widgets.lines import Prose, TextLine
from ..widgets.rows import Item, Section, SectionedText, Sheet, heading, paragraph, table
from ..words import late_records as late
from ..words import lateness as words
from ..words.channels import reference_ms
from ..words.keys import Hint, hint
from ..words.kinds import presenter_of
from ..words.lateness import cost_sentence, moments_line, recommendation_parts, timeout_holder, timeout_words
from ..words.main_screen import Shown
from ..words.preview import IdlePreview, LatenessPreview
from ..words.spans import Column, Part, Span, lay
from ..words.texts import ALL_SO_FAR, SINCE_START, Chosen, TableRecords
from .target_screen import FRAME_CELLS, DetailScreen

_BAR = 16
ROOMY = 22
"""Rows from which there is room for mean and deviation."""
BROKEN_CELLS = 24
"""Cells that the end of a line may leave empty."""


class LatenessScreen(DetailScreen):
    """The curve of all records or of one channel's, with a cursor that reads it; or the ladder of idle timeouts."""

    NAME = "Lateness"
    READING = (
        "▇ records by how far they were behind a watermark of lateness 0; what lies right of the cursor would "
        "be behind the watermark at that lateness. ⣀ the share that would be late for its window, counted exactly at "
        "each lateness shown; ⠄ how long after their window's end results would come. ▲ now, ▸ the preview, "
        "◆ recommended: the shortest lateness with which at most 0.1 % of the records are late, even at the upper end "
        "of the 95 % interval of that share; judged by the shortest of the last 15m, 1h, 24h and all that has enough "
        "records, or by the horizon that H shows. ≈ mean and deviation are read from the bars; the normal distribution "
        "is for comparison only. All of it is for that lateness from the start; with another horizon (H) of the "
        "records that came in the last 15m, 1h or 24h, but for the result delay.\n"
        "Idle timeout: what the watermark, its holder, the changes between active and idle and the late share would be "
        "with another timeout, each a run of its own beside this one; ≈ late records are not counted exactly. They are "
        "counted since the start only.\n"
    )
    AUTO_FOCUS = ""

    def __init__(self, shown: Shown, denied: frozenset[str]) -> None:
        super().__init__(shown, denied)
        self._channel: str | None = None
        self._cursor_ms: int | None = None
        self._horizon_ms: int | None = None
        """The horizon: the last `_horizon_ms`; None: since the start."""
        self._asked = False
        """Whether the user chose the horizon, also for the recommendation."""
        self._idle = isinstance(self.preview, IdlePreview)
        self._span: tuple[tuple[str | None, int | None], int, int] | None = None

    def body(self) -> ComposeResult:
        with Vertical(id="curve"):
            yield Prose(id="recommended")
            yield TextLine(id="moments")
            yield LatenessPlot(id="plot")
            yield Prose(id="reading")
        yield Sheet(id="lateness")
        yield Prose(id="why")

    def show(self, snapshot: Snapshot) -> None:
        self.query_one("#curve").display = not self._idle
        self.sheet.display = self.query_one("#why").display = self._idle
        if not self._idle:
            self.set_focus(None)  # the ladder is hidden, and its keys are the curve's
            self._show_curve(snapshot)
            return
        self.sheet.show(self._ladder(snapshot))
        if isinstance(self.preview, IdlePreview):
            self.sheet.go_to(f.setting(self.preview.idle_after_ms))
        self._explain()

    def heading(self, snapshot: Snapshot) -> Sequence[Span]:
        title: list[Span] = [("  idle timeout" if self._idle else "  all channels", "text")]
        if self._channel is not None and not self._idle:
            return [("  channel ", "dim"), (name(self._channel), "accent"), (f" · {SINCE_START}", "dim")]
        title += [(" · ", "dim"), (horizon_words(self._horizon_ms), "accent")]
        recent = words.recent_of(snapshot, self._horizon_ms)
        if recent is not None and not self._idle:
            every = f" {ALL_SO_FAR}" if self._horizon_ms and recent.records == snapshot.totals.records else ""
            title.append((f", {f.counted(recent.records, 'record')}{every}", "dim"))
        return title

    def keys(self, snapshot: Snapshot) -> Sequence[Hint]:
        known = bool(snapshot.whatif_idle if self._idle else snapshot.whatif)
        out = [hint("lateness-or-idle", "lateness" if self._idle else None)]
        if known and self.preview is None:
            out.insert(0, hint("lateness-preview"))
        if snapshot.own.explain:
            out.append(hint("who-is-late"))
        if len(words.horizons_of(snapshot)) > 1:
            out.append(hint("horizon"))
        if known and not self._idle:
            out += [hint("edge-longer"), hint("recommended")]
        if known and not self._idle and snapshot.lateness_by_channel:
            out.append(hint("curve-next"))
        return out

    def records(self) -> TableRecords:
        snapshot = self.snapshot
        if self._idle:
            return TableRecords("idle", snapshot.whatif_idle or [])
        curve = self._curve(snapshot)
        if curve is not None and curve.of_part:
            return TableRecords("lateness-of-channel", words.part_rows(curve))
        recent = None if self._horizon_ms is None else words.recent_of(snapshot, self._horizon_ms)
        if recent is not None and self._horizon_ms is not None:
            return TableRecords(f"lateness-{horizon_name(self._horizon_ms)}", recent.rows)
        return TableRecords("lateness", snapshot.whatif or [])

    # The curve

    def _show_curve(self, snapshot: Snapshot) -> None:
        curve = self._curve(snapshot)
        plot, preview = self.query_one(LatenessPlot), self.preview
        line = self.query_one("#moments", TextLine)
        line.display = self.size.height >= ROOMY
        if curve is None:
            plot.show(LatenessScene(empty=presenter_of(snapshot).no("lateness")))
            line.show([])
            self._put_sentence("#recommended", [])
            self._put_sentence("#reading", [])
            return
        found = self._recommended(snapshot)
        now = snapshot.settings.lateness_ms
        there = preview.lateness_ms if isinstance(preview, LatenessPreview) else None
        best = None if curve.of_part else found.lateness_ms
        first, last = self._widest(curve, words.shown(curve, [now, there, self._cursor_ms, best]))
        cursor = self._cursor(curve)
        plot.show(LatenessScene(curve, first, last, cursor, now, there, best))
        line.show(moments_line(curve))
        self._put_sentence("#recommended", [] if curve.of_part else recommendation_parts(snapshot, found))
        self._put_sentence("#reading", cost_sentence(snapshot, curve, cursor, found))

    def _put_sentence(self, selector: str, parts: Sequence[Part]) -> None:
        """Show what matters most of a sentence, in at most two lines."""
        prose, width = self.query_one(selector, Prose), max(self.size.width - FRAME_CELLS, 20)
        spans = lay(parts, 2 * width - BROKEN_CELLS)
        if spans and not spans[-1][0].strip():
            spans.pop()
        prose.display = bool(spans)
        prose.show(spans)

    def _recommended(self, snapshot: Snapshot) -> Recommendation:
        return recommendation(snapshot, horizon_ms=self._horizon_ms if self._asked else UNSET)

    def _curve(self, snapshot: Snapshot) -> words.Curve | None:
        """The curve of the chosen channel or horizon; of all records if that is no longer known."""
        if self._channel is None and self._horizon_ms is not None:
            recent = words.curve_of(snapshot, horizon_ms=self._horizon_ms)
            if recent is not None:
                return recent
            self._horizon_ms = None
        curve = words.curve_of(snapshot, self._channel)
        if curve is None and self._channel is not None:
            self._channel = None
            curve = words.curve_of(snapshot)
        return curve

    def _widest(self, curve: words.Curve, span: tuple[int, int]) -> tuple[int, int]:
        """The span only grows, so that the picture does not jump."""
        before, shown = self._span, (curve.channel, curve.horizon_ms)
        if before is not None and before[0] == shown and before[2] < len(curve.edges):
            span = min(span[0], before[1]), max(span[1], before[2])
        self._span = (shown, *span)
        return span

    def _cursor(self, curve: words.Curve) -> int:
        """The cursor's position: on the preview, else where it was put, else on the present lateness."""
        snapshot, preview = self.snapshot, self.preview
        if isinstance(preview, LatenessPreview):
            return words.place_of(curve.edges, preview.lateness_ms)
        value = snapshot.settings.lateness_ms if self._cursor_ms is None else self._cursor_ms
        return words.place_of(curve.edges, value or 0)

    def _put(self, value_ms: int) -> None:
        """Put the cursor on a lateness; a preview moves with it."""
        self._cursor_ms = value_ms
        if isinstance(self.preview, LatenessPreview):
            self.want(ProposedSetting(False, value_ms))
        self.repaint()

    def action_edge(self, step: int) -> None:
        """Read the curve at another lateness."""
        curve = self._curve(self.snapshot)
        if curve is not None and self._span is not None:
            _, first, last = self._span
            self._put(curve.edges[max(min(self._cursor(curve) + step, last), first)])

    def action_recommended(self) -> None:
        """Put the cursor on the recommended lateness."""
        curve, value = self._curve(self.snapshot), self._recommended(self.snapshot).lateness_ms
        if curve is not None and value is not None:
            self._put(value)

    def action_channel(self, step: int) -> None:
        """Look at all records, or at another channel's."""
        order: list[str | None] = [None, *(part.channel for part in self.snapshot.lateness_by_channel)]
        here = order.index(self._channel) if self._channel in order else 0
        self._channel = order[(here + step) % len(order)]
        self.repaint()

    def action_horizon(self) -> None:
        """The next horizon."""
        order = words.horizons_of(self.snapshot)
        if len(order) == 1:
            self.notify("Only what holds since the start is known from here", markup=False, timeout=5)
            return
        self._channel = None  # a channel's curve is known only since the start
        here = order.index(self._horizon_ms) if self._horizon_ms in order else 0
        self._horizon_ms, self._asked = order[(here + 1) % len(order)], True
        self.repaint()

    def on_picked(self, event: Picked) -> None:
        if isinstance(event.control, LatenessPlot) and (curve := self._curve(self.snapshot)) is not None:
            place: int = event.value
            self._put(curve.edges[place])

    # The idle timeout

    def moved(self) -> None:
        row, preview = self._rung(), self.preview
        if row is not None and isinstance(preview, IdlePreview) and row.idle_after_ms != preview.idle_after_ms:
            self.want(ProposedSetting(True, row.idle_after_ms))
        self._explain()

    def _ladder(self, snapshot: Snapshot) -> list[Item]:
        """The timeouts, the shortest first, the one in force marked."""
        rows = snapshot.whatif_idle
        if not rows:
            return [paragraph(presenter_of(snapshot).no("idle timeouts"), lines=6)]
        ordered = sorted(rows, key=lambda row: float("inf") if row.idle_after_ms is None else row.idle_after_ms)
        most = max(row.flaps for row in rows)
        return table(self._rung_columns(most), ordered, lambda row: f.setting(row.idle_after_ms))

    def _rung_columns(self, most: int) -> Sequence[Column[WhatIfIdle]]:
        snapshot, preview, counted = self.snapshot, self.preview, self._horizon_ms is None
        now = snapshot.level.watermark_ms
        wished = preview.idle_after_ms if isinstance(preview, IdlePreview) else UNSET

        def mark(row: WhatIfIdle) -> tuple[str, str]:
            if row.idle_after_ms == snapshot.settings.idle_after_ms:
                return "▲ now", "strong"
            return ("▸", "preview") if row.idle_after_ms == wished else ("", "text")

        def time(row: WhatIfIdle) -> str:
            at = row.watermark_ms
            return f.NO_DATA if at is None else f.near(at, self.zone, reference_ms(snapshot))

        def gain(row: WhatIfIdle) -> str:
            return f.signed(None if row.watermark_ms is None or now is None else row.watermark_ms - now)

        def holder(row: WhatIfIdle) -> str:
            return "no channel" if (name := timeout_holder(snapshot, row)) is None else f.label(name, 14)

        def bar(row: WhatIfIdle, room: int) -> list[Span]:
            return [(f.pad("▇" * (-(-room * row.flaps // most) if most and counted else 0), room), "idle")]

        def late_share(row: WhatIfIdle) -> str:
            share = ("≈ " if row.late_error else "") + f.share_of(row.late, snapshot.totals.records)
            return share if counted else f.UNKNOWN

        return (
            Column("idle after", lambda row: f.setting(row.idle_after_ms), style=lambda row: mark(row)[1]),
            Column("", lambda row: mark(row)[0], style=lambda row: mark(row)[1], cells=5),
            Column("watermark", time, rank=2, style=lambda row: "dim" if row.watermark_ms is None else "level"),
            Column("against now", gain, right=True, style=lambda row: "dim" if gain(row) == "+0s" else "text"),
            Column("held back by", holder, rank=1),
            Column("changes", lambda row: f.count(row.flaps) if counted else f.UNKNOWN, rank=3, right=True),
            Column("", lambda row: "", rank=4, cells=_BAR, draw=bar),
            Column("late", late_share, style=lambda row: "stale" if counted and row.late else "dim"),
        )

    def _rung(self) -> WhatIfIdle | None:
        """The timeout under the cursor."""
        key = self.sheet.cursor
        return next((row for row in self.snapshot.whatif_idle or [] if f.setting(row.idle_after_ms) == key), None)

    def _explain(self) -> None:
        row = self._rung()
        self.query_one(Prose).show([] if row is None else timeout_words(self.snapshot, row, self._horizon_ms))

    # Both

    def action_other(self) -> None:
        """Switch between the idle timeout and the lateness."""
        self._idle = not self._idle
        self.repaint()
        if self._idle:
            self.sheet.focus()
            settings = self.snapshot.settings
            self.sheet.go_to(f.setting(settings.idle_after_ms))

    def action_who(self) -> None:
        """Which values the late records have."""
        self.open_further("Who is late")

    def action_open(self) -> None:
        """Preview the value under the cursor."""
        snapshot = self.snapshot
        if self._idle:
            if (row := self._rung()) is not None:
                self.want(ProposedSetting(True, row.idle_after_ms))
        elif (curve := self._curve(snapshot)) is not None:
            self.want(ProposedSetting(False, curve.edges[self._cursor(curve)]))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("edge", "recommended", "channel"):
            return not self._idle
        return super().check_action(action, parameters)


class LateRecordsScreen(DetailScreen):
    """The sample of the late output: all of it, or the records of one channel or window."""

    NAME = "Late records"
    READING = (
        "The last records that were dropped because all their windows were closed: at most 20, the newest "
        "batch first, in a batch the most late first. 'late by' is how far the watermark was past the last window "
        "of the record. Below is the line that fetches the selected record: y copies it, Y the row. The late output "
        "has all late records.\n"
    )

    def __init__(self, shown: Shown, denied: frozenset[str], about: late.About) -> None:
        super().__init__(shown, denied)
        self._about = about

    def body(self) -> ComposeResult:
        yield Sheet(id="late-records")
        yield SectionedText(id="fetch")

    def show(self, snapshot: Snapshot) -> None:
        super().show(snapshot)
        self.sheet.display = bool(self._keyed(snapshot))
        self._show_fetch()

    def items(self, snapshot: Snapshot) -> Sequence[Item]:
        rows = list(self._keyed(snapshot).items())
        return table(late.columns(snapshot, self.zone), rows, lambda row: row[0]) if rows else []

    def heading(self, snapshot: Snapshot) -> Sequence[Span]:
        asked = self._about.words(self.zone, reference_ms(snapshot))
        listed = late.listed(snapshot, self._about) if late.late_records(snapshot, self._about) else ""
        return [(f"  {asked}" if asked else "  all channels", "text"), (f"  {listed}" if listed else "", "dim")]

    def keys(self, snapshot: Snapshot) -> Sequence[Hint]:
        return (hint("copy-name", "copy line, row", 1),) if self._selected is not None else ()

    def moved(self) -> None:
        self._show_fetch()

    def records(self) -> TableRecords:
        return TableRecords("late-records", late.late_records(self.snapshot, self._about))

    def chosen(self) -> Chosen | None:
        key, record = self.sheet.cursor, self._selected
        if key is None or record is None:
            return None
        return Chosen(late.fetch(self.snapshot, record).line, self.sheet.line(key))

    @property
    def _selected(self) -> LateRecord | None:
        key = self.sheet.cursor
        return None if key is None else self._keyed(self.snapshot).get(key)

    def _keyed(self, snapshot: Snapshot) -> dict[str, LateRecord]:
        """The records by batch and place in it: a later batch does not change the key."""
        out: dict[str, LateRecord] = {}
        places: dict[int, int] = {}
        for record in late.late_records(snapshot, self._about):
            place = places[record.batch] = places.get(record.batch, 0) + 1
            out[f"{record.batch} {place}"] = record
        return out

    def _show_fetch(self) -> None:
        snapshot, record, report = self.snapshot, self._selected, self.query_one(SectionedText)
        report.set_class(record is not None, "below")
        if record is not None:
            way = late.fetch(snapshot, record)
            report.show([Section("Fetch this record", [f.clean(way.line), way.note])])
        elif late.late_records(snapshot, self._about):
            report.show([])  # the filter hides all
        else:
            report.show([Section("", [f.clean(line) for line in late.no_records(snapshot, self._about, self.zone)])])


class WhoIsLateScreen(DetailScreen):
    """The values of each column of `--explain`, the strongest evidence first."""

    NAME = "Who is late"
    READING = (
        "For each value: its share of the late records, and below its share of all records. 19.8×: it is 19.8 "
        "times as frequent among late records as among all, with the 95 % interval. The order is by how sure that is: "
        "a rare value that is late by chance comes last; those in colour are late more often than others, beyond "
        "chance. ≈ the column has too many values; those with the fewest late records share 'others'.\n"
    )

    def heading(self, snapshot: Snapshot) -> Sequence[Span]:
        column = snapshot.own.explain[0] if snapshot.own.explain else None
        if column is None:
            return []
        return [(f"  {f.counted(column.late, 'late record')}, {f.share_of(column.late, column.records)}", "dim")]

    def legend(self, snapshot: Snapshot) -> Sequence[Span]:
        return late.LEGEND if snapshot.own.explain else ()

    def records(self) -> TableRecords:
        return TableRecords("explain", self.snapshot.own.explain or [])

    def items(self, snapshot: Snapshot) -> Sequence[Item]:
        if not snapshot.own.explain:
            return [paragraph(presenter_of(snapshot).not_explained, lines=6)]
        items: list[Item] = []
        for column in snapshot.own.explain:
            items += [heading()] if items else []
            items.append(Item((partial(late.column_line, column),)))
            values = late.value_facts(column)
            shown = values if self.pattern is not None else late.standing_out(values)
            for facts in shown:
                if facts.value.late:
                    lines = (partial(late.late_line, facts), partial(late.all_line, facts))
                    items.append(Item(lines, f"{column.column} {facts.value.value}"))
            if more := late.more_values(values, shown):
                items.append(heading((f" {more}", "dim")))
        return items
