"""The last late records, and which values of chosen columns they have."""

from collections.abc import Sequence
from functools import partial

from textual.app import ComposeResult

from ...engine.snapshot import LateRecord, Snapshot
from ...engine.text import formatting as f
from ..widgets.rows import Item, Section, SectionedText, Sheet, heading, paragraph, table
from ..words import late_records as late
from ..words.channels import reference_ms
from ..words.keys import Hint, hint
from ..words.main_screen import Shown
from ..words.spans import Span
from ..words.texts import Chosen, TableRecords
from ..words.watermark import kind_words
from .target_screen import DetailScreen


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
        return [(f"  {f.count(column.late)} late records, {f.share_of(column.late, column.records)}", "dim")]

    def legend(self, snapshot: Snapshot) -> Sequence[Span]:
        return late.legend() if snapshot.own.explain else ()

    def records(self) -> TableRecords:
        return TableRecords("explain", self.snapshot.own.explain or [])

    def items(self, snapshot: Snapshot) -> Sequence[Item]:
        if not snapshot.own.explain:
            return [paragraph(kind_words(snapshot).not_explained, lines=6)]
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
