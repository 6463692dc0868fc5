"""Who is late: the values of chosen columns among late records."""

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
from ..present.who_is_late import (
    all_line,
    column_line,
    late_line,
    legend,
    more_values,
    nothing_explained,
    standing_out,
    value_facts,
)
from ..widgets.rows import wrapped
from ..widgets.sheet import Item, Sheet, heading
from .detail import DetailScreen
from .host import Help

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

    def heading(self, snapshot: Snapshot) -> Sequence[Run]:
        of = snapshot.explain[0] if snapshot.explain else None
        if of is None:
            return []
        return [(f"  {f.count(of.late)} late records, {f.share_of(of.late, of.records)}", "dim")]

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
