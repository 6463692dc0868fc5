"""Who is late: which values of chosen columns the late records have, and whose clocks are off."""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from ...engine.core.snapshot import Snapshot
from ..bindings import bindings
from ..present import formatting as f
from ..present.line import Run
from ..present.table import Records
from ..present.who_is_late import all_line, column_line, late_line, legend, nothing_explained, offset_line, value_facts
from ..widgets.rows import wrapped
from ..widgets.sheet import Item, Sheet, heading
from .detail import DetailScreen
from .host import Help

_FRAME = 4
"""The cells left and right of the text that the frame takes."""


class WhoIsLateScreen(DetailScreen):
    """For each column of `--explain` its values, the one that lateness depends on most surely first."""

    NAME = PLACE = "Who is late"
    ABOUT = Help(
        reading="For each value: its share of the late records, and below its share of all records. 19.8×: it is 19.8 "
        "times as frequent among late records as among all, with the 95 % interval. The order is by how sure that is: "
        "a rare value that is late by chance comes last. Above them: values whose clock or time zone is off, as their "
        "records arrive at a constant distance from their event time that others do not have. ≈ the column has too "
        "many values; those with the fewest late records share 'others'.\n"
    )
    BINDINGS: ClassVar[list[BindingType]] = bindings("Who is late")

    def body(self) -> ComposeResult:
        yield Sheet(id="values")

    def show(self, snapshot: Snapshot) -> None:
        self.query_one(Sheet).show(self._items(snapshot))

    def heading(self, snapshot: Snapshot) -> Sequence[Run]:
        late = snapshot.totals.late
        return [(f"  {f.count(late)} late records, {f.share_of(late, snapshot.totals.records)}", "dim")]

    def legend(self, snapshot: Snapshot) -> Sequence[Run]:
        return legend() if snapshot.explain else ()

    def records(self) -> Records:
        return Records("explain", self.seen.snapshot.explain or [])

    def _items(self, snapshot: Snapshot) -> list[Item]:
        if not snapshot.explain:
            width = max(self.size.width - _FRAME - 1, 20)
            return [heading((f" {line}", "dim")) for line in wrapped(nothing_explained(snapshot), width)]
        items: list[Item] = []
        for column in snapshot.explain:
            items += [heading()] if items else []
            items.append(Item((partial(column_line, column),)))
            items += [
                Item((partial(offset_line, offset),), f"{column.column} {offset.value} clock")
                for offset in column.offsets
                if offset.stable
            ]
            found = value_facts(snapshot, column)
            items += [
                Item((partial(late_line, facts), partial(all_line, facts)), f"{column.column} {facts.value.value}")
                for facts in found
                if facts.value.late
            ]
            punctual = sum(not facts.value.late for facts in found)
            if punctual:
                items.append(heading((f" {punctual} more without late records", "dim")))
        return items
