"""What the general rules leave to the kind of a target: words, fixes and proofs, which its module in `kinds` sets."""

from collections.abc import Callable

from msgspec import Struct

from ..snapshot import Snapshot, TargetPart
from ..text import formatting as f
from .finding import CHECK_QUERY, Fix

STUCK_MS = 75 * f.SECOND
"""Rates are means over the last minute, and metrics are up to 10 s old: a source that still has a rate after this
time has read records while the watermark was frozen."""


class Unmoved(Struct, frozen=True):
    """Records are read, and it is proven that none of them is newer than the newest before it."""

    per_second: float
    is_certain: bool = False
    """Whether nothing else can hold back the watermark, whatever the verdict is."""


class KindDetails(Struct, frozen=True):
    """The defaults are for a target that another program runs and of which little is known."""

    called: str = "The query"
    """What ends if it fails."""
    check_failed: Fix = CHECK_QUERY
    """Where to look then."""
    times_are_set: str = "at the column given to withWatermark"
    """Where event times are assigned."""
    keep_out: Fix = Fix(
        "set-future-guard", "Set a future guard: --future-guard 5m counts such records and sets them aside"
    )
    """What keeps out records with timestamps in the future."""
    unmoved: Callable[[Snapshot, int], Unmoved | None] = lambda snapshot, frozen_ms: None
    """The proof for a snapshot whose watermark has not advanced for so many ms, and is not ahead of the clock."""


KIND_DETAILS: dict[type[TargetPart], KindDetails] = {}
"""Those of the kinds that know better than the defaults."""


def details_of(target: TargetPart) -> KindDetails:
    """Those of a target's kind."""
    return KIND_DETAILS.get(type(target), KindDetails())
