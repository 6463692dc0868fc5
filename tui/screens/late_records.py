"""The last late records, and which values of chosen columns they have."""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from ...engine.snapshot import LateRecord, Snapshot
from ...engine.text import formatting as f
from ..widgets.bindings import bindings
from ..widgets.rows import Item, Sheet, heading, wrapped
from ..widgets.text import Section, SectionedText
from ..words.channels import reference_ms
from ..words.keys import Hint, hint
from ..words.late_records import (
    TITLES,
    About,
    all_line,
    column_line,
    fetch,
    late_line,
    late_records,
    legend,
    listed,
    more_values,
    no_records,
    nothing_explained,
    record_line,
    sort_values,
    standing_out,
    title_line,
    value_facts,
)
from ..words.lists import Chosen, TableRecords
from ..words.spans import Span
from .detail import DetailScreen
from .host import Help, ScreenHost


class LateRecordsScreen(DetailScreen):
    """The sample of the late output: all of it, or the records of one channel or window."""

    NAME = PLACE = "Late records"
    ABOUT = Help(
        reading="The last records that were dropped because all their windows were closed: at most 20, the newest "
        "batch first, in a batch the most late first. 'late by' is how far the watermark was past the last window "
        "of the record. Below is the line that fetches the selected record: y copies it, Y the row. The late output "
        "has all late records.\n"
    )
    BINDINGS: ClassVar[list[BindingType]] = bindings("Late records")

    def __init__(self, host: ScreenHost, about: About = About()) -> None:  # noqa: B008 (frozen)
        super().__init__(host)
        self._about = about

    def body(self) -> ComposeResult:
        yield Sheet(id="records")
        yield SectionedText(id="fetch")

    def show(self, snapshot: Snapshot) -> None:
        records = self._keyed(snapshot)
        sheet = self.query_one(Sheet)
        items = [Item((title_line,), titles=TITLES)] if records else []
        items += [
            Item((partial(record_line, record, snapshot, self.zone),), key, sort_values(record))
            for key, record in records.items()
        ]
        sheet.show(items)
        sheet.display = bool(items)
        self._show_fetch()

    def heading(self, snapshot: Snapshot) -> Sequence[Span]:
        asked = self._about.words(self.zone, reference_ms(snapshot))
        found = late_records(snapshot, self._about)
        return [
            (f"  {asked}" if asked else "  all channels", "text"),
            (f"  {listed(snapshot, self._about)}" if found else "", "dim"),
        ]

    def keys(self, snapshot: Snapshot) -> Sequence[Hint]:
        return (hint("copy-name", "copy line, row", 1),) if self._selected is not None else ()

    def on_sheet_moved(self, event: Sheet.Moved) -> None:
        self._show_fetch()

    def records(self) -> TableRecords:
        return TableRecords("late-records", late_records(self.seen.snapshot, self._about))

    def chosen(self) -> Chosen | None:
        key, record = self.query_one(Sheet).cursor, self._selected
        if key is None or record is None:
            return None
        return Chosen(fetch(self.seen.snapshot, record).line, self.query_one(Sheet).line(key))

    @property
    def _selected(self) -> LateRecord | None:
        key = self.query_one(Sheet).cursor
        return None if key is None else self._keyed(self.seen.snapshot).get(key)

    def _keyed(self, snapshot: Snapshot) -> dict[str, LateRecord]:
        """The records by batch and place in it: a later batch does not change the key."""
        out: dict[str, LateRecord] = {}
        places: dict[int, int] = {}
        for record in late_records(snapshot, self._about):
            place = places[record.batch] = places.get(record.batch, 0) + 1
            out[f"{record.batch} {place}"] = record
        return out

    def _show_fetch(self) -> None:
        snapshot, record, report = self.seen.snapshot, self._selected, self.query_one(SectionedText)
        report.set_class(record is not None, "below")
        if record is not None:
            found = fetch(snapshot, record)
            report.show([Section("Fetch this record", [f.clean(found.line), found.note])])
        elif late_records(snapshot, self._about):
            report.show([])  # the filter hides all
        else:
            report.show([Section("", [f.clean(line) for line in no_records(snapshot, self._about, self.zone)])])


_FRAME = 4
"""The cells left and right of the text that the frame takes."""


class WhoIsLateScreen(DetailScreen):
    """The values of each column of `--explain`, the strongest evidence first."""

    NAME = PLACE = "Who is late"
    ABOUT = Help(
        reading="For each value: its share of the late records, and below its share of all records. 19.8×: it is 19.8 "
        "times as frequent among late records as among all, with the 95 % interval. The order is by how sure that is: "
        "a rare value that is late by chance comes last; those in colour are late more often than others, beyond "
        "chance. ≈ the column has too many values; those with the fewest late records share 'others'.\n"
    )
    BINDINGS: ClassVar[list[BindingType]] = bindings("Who is late")

    def body(self) -> ComposeResult:
        yield Sheet(id="values")

    def show(self, snapshot: Snapshot) -> None:
        self.query_one(Sheet).show(self._items(snapshot))

    def heading(self, snapshot: Snapshot) -> Sequence[Span]:
        of = snapshot.explain[0] if snapshot.explain else None
        if of is None:
            return []
        return [(f"  {f.count(of.late)} late records, {f.share_of(of.late, of.records)}", "dim")]

    def legend(self, snapshot: Snapshot) -> Sequence[Span]:
        return legend() if snapshot.explain else ()

    def records(self) -> TableRecords:
        return TableRecords("explain", self.seen.snapshot.explain or [])

    def _items(self, snapshot: Snapshot) -> list[Item]:
        if not snapshot.explain:
            width = max(self.size.width - _FRAME - 1, 20)
            return [heading((f" {line}", "dim")) for line in wrapped(nothing_explained(snapshot), width)]
        items: list[Item] = []
        for column in snapshot.explain:
            items += [heading()] if items else []
            items.append(Item((partial(column_line, column),)))
            found = value_facts(column)
            shown = found if self.filtered else standing_out(found)
            items += [
                Item((partial(late_line, facts), partial(all_line, facts)), f"{column.column} {facts.value.value}")
                for facts in shown
                if facts.value.late
            ]
            if more := more_values(found, shown):
                items.append(heading((f" {more}", "dim")))
        return items
