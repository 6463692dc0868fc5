"""The lateness that the records of one value need, and that of all others: what a cause of late records costs. Pure."""

from msgspec import Struct

from ..lateness import recommended_lateness_ms
from ..snapshot import Snapshot


class ValueAdvice(Struct, frozen=True):
    """The smallest lateness (ms) that keeps the wanted share above the watermark; None: not known, or no edge does.

    It counts all records behind the watermark, also those that are not late, so a smaller lateness may be enough.
    """

    lateness_ms: int | None
    others_ms: int | None
    """The same for all records without the value."""


def advice_of_value(snapshot: Snapshot, column: str, value: str, target: float) -> ValueAdvice | None:
    """The advice since the start, or since the value is counted; None if its histogram is not known."""
    of = next((each for each in snapshot.explain or () if each.column == column), None)
    found = next((each for each in of.values if each.value == value), None) if of else None
    rows = snapshot.whatif
    if of is None or found is None or found.behind is None or not found.behind_of or not rows:
        return None
    edges = [row.lateness_ms for row in rows]
    behind = [sum(found.behind[place:]) for place in range(len(edges))]
    own = recommended_lateness_ms(edges, behind, found.behind_of, target)
    records = (snapshot.totals.records or 0) - found.records
    if found.behind_of != found.records or of.approximate or records <= 0:
        return ValueAdvice(own, None)
    others = [row.behind_watermark - mine for row, mine in zip(rows, behind, strict=True)]
    return ValueAdvice(own, recommended_lateness_ms(edges, others, records, target))
