"""Who is late: the values of chosen columns among late records, and wrong clocks."""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from ...engine.core.snapshot import Snapshot
from ..bindings import bindings
from ..present import formatting as f
from ..present.keys import Hint, hint
from ..present.lateness_curve import curve_of_value
from ..present.line import Run
from ..present.table import Records
from ..present.who_is_late import (
    all_line,
    column_line,
    explained_channel,
    explained_channels,
    late_line,
    legend,
    more_values,
    nothing_explained,
    offset_line,
    standing_out,
    value_facts,
)
from ..present.wording import name
from ..widgets.rows import wrapped
from ..widgets.sheet import Item, Sheet, heading
from .detail import DetailScreen
from .host import Help, Host, app_of
from .lateness import LatenessScreen

_FRAME = 4
"""The cells left and right of the text that the frame takes."""


class WhoIsLateScreen(DetailScreen):
    """The values of each column of `--explain`, the strongest evidence first."""

    NAME = PLACE = "Who is late"
    ABOUT = Help(
        reading="For each value: its share of the late records, and below its share of all records. 19.8×: it is 19.8 "
        "times as frequent among late records as among all, with the 95 % interval. The order is by how sure that is: "
        "a rare value that is late by chance comes last; those in colour are late more often than others, beyond "
        "chance. "
        "Enter shows how late the records of a value are; ← → the values of one channel's records. Above them: values "
        "whose clock or time zone is off, as their "
        "records arrive at a constant distance from their event time that others do not have. ≈ the column has too "
        "many values; those with the fewest late records share 'others'.\n"
    )
    BINDINGS: ClassVar[list[BindingType]] = bindings("Who is late")

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._channel: str | None = None
        self._values: dict[str, tuple[str, str]] = {}
        """Column and value by the key of their item."""

    def body(self) -> ComposeResult:
        yield Sheet(id="values")

    def show(self, snapshot: Snapshot) -> None:
        self.query_one(Sheet).show(self._items(snapshot))

    def heading(self, snapshot: Snapshot) -> Sequence[Run]:
        of = snapshot.explain[0] if snapshot.explain else None
        if of is None:
            return []
        shown = of if self._channel is None else explained_channel(of, self._channel)
        where = "all channels" if self._channel is None else f"channel {name(self._channel)}"
        if shown is None:
            return [(f"  {where}", "text"), (" · not known", "dim")]
        late = f" · {f.count(shown.late)} late records, {f.share_of(shown.late, shown.records)}"
        return [(f"  {where}", "text"), (late, "dim")]

    def keys(self, snapshot: Snapshot) -> Sequence[Hint]:
        out = [hint("value-open")] if self._chosen is not None else []
        return [*out, hint("who-next")] if explained_channels(snapshot) else out

    @property
    def _chosen(self) -> tuple[str, str] | None:
        """The column and the value under the cursor."""
        return self._values.get(self.query_one(Sheet).cursor or "")

    def action_open(self) -> None:
        """Open the lateness of the value's records."""
        if self._chosen is None:
            return
        if curve_of_value(self.seen.snapshot, *self._chosen) is None:
            self.notify("How late its records are is counted for the 8 surest values", markup=False, timeout=5)
            return
        app_of(self).push_screen(LatenessScreen(self.host, self._chosen))

    def action_channel(self, step: int) -> None:
        """Show the values among all records, or among another channel's."""
        order = [None, *explained_channels(self.seen.snapshot)]
        here = order.index(self._channel) if self._channel in order else 0
        self._channel = order[(here + step) % len(order)]
        self.repaint()

    def legend(self, snapshot: Snapshot) -> Sequence[Run]:
        return legend() if snapshot.explain else ()

    def records(self) -> Records:
        return Records("explain", self.seen.snapshot.explain or [])

    def _items(self, snapshot: Snapshot) -> list[Item]:
        if not snapshot.explain:
            width = max(self.size.width - _FRAME - 1, 20)
            return [heading((f" {line}", "dim")) for line in wrapped(nothing_explained(snapshot), width)]
        items: list[Item] = []
        self._values = {}
        for column in snapshot.explain:
            of = column if self._channel is None else explained_channel(column, self._channel)
            if of is None:
                continue
            items += [heading()] if items else []
            items.append(Item((partial(column_line, column),)))
            for offset in column.offsets if self._channel is None else ():
                if offset.stable:
                    key = f"{column.column} {offset.value} clock"
                    items.append(Item((partial(offset_line, offset),), key))
                    self._values[key] = column.column, offset.value
            found = value_facts(of)
            shown = found if self.filtered else standing_out(found)
            for facts in shown:
                if facts.value.late:
                    key = f"{column.column} {facts.value.value}"
                    items.append(Item((partial(late_line, facts), partial(all_line, facts)), key))
                    self._values[key] = column.column, facts.value.value
            if more := more_values(found, shown):
                items.append(heading((f" {more}", "dim")))
        return items
