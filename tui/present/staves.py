"""The staves of the barrel: their order, their kinds, their positions. Pure."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from ...engine.core.snapshot import ChannelState, ChannelView, Snapshot
from .target import target_of

Kind = Literal["active", "holder", "idle", "catching_up", "never_seen", "finished", "drowned"]
STATES: dict[Kind, str] = {
    "active": "active", "holder": "HOLDS", "idle": "idle", "catching_up": "realigning", "never_seen": "never seen",
    "finished": "finished", "drowned": "lagging",
}  # fmt: skip
"""Each kind in a word, for tables."""
PAUSED = "paused"
"""The word for an active channel that is paused until slower ones catch up."""

PATIENCE_S = 8.0
"""How long (s) a stave's rank must differ, always to the same side, before it moves."""


class Stave(Struct, frozen=True, gc=False):
    """One input of the valve (or a channel inside it) as the barrel draws it."""

    key: str
    watermark_ms: int | None
    """Its height; under Spark's one clock its event time: below the water its newest record is behind the watermark."""
    kind: Kind


def kind_of(channel: str, state: ChannelState, holder: str | None) -> Kind:
    """How a channel is drawn: as the holder, or by its state."""
    return "holder" if channel == holder else state


_GROUPS: dict[Kind, int] = {
    "holder": 0, "drowned": 1, "active": 1, "catching_up": 2, "never_seen": 3, "idle": 4, "finished": 5,
}  # fmt: skip
_BELOW_ALL = float("-inf")


def rank(kind: Kind, watermark_ms: int | None) -> tuple[int, float]:
    """The most behind first: channels in the minimum, then realigning ones, then those left out, then finished ones."""
    return _GROUPS[kind], _BELOW_ALL if watermark_ms is None else watermark_ms


LEFT_OUT: frozenset[Kind] = frozenset(("idle", "never_seen", "finished"))
"""The kinds that do not take part in the minimum."""


def holding(snapshot: Snapshot) -> str | None:
    """The channel that holds back the watermark; if an instance does, its most behind channel."""
    holder = snapshot.level.holder
    if holder is None or snapshot.blockers == []:  # the channel that sets the minimum may itself be the fastest
        return None
    instance = next((i.instance for i in snapshot.instances or () if i.channel == holder.channel), None)
    if instance is None:
        return holder.channel
    inside = [view for view in snapshot.channels if view.instance == instance]
    taking_part = [view for view in inside if view.state not in ("idle", "finished")]
    behind = min(taking_part, key=lambda view: rank("active", view.watermark_ms), default=None)
    return behind.channel if behind else None


def holding_instance(snapshot: Snapshot) -> str | None:
    """The instance that holds back the watermark: the holder itself, or its instance."""
    holder = snapshot.level.holder
    if holder is None:
        return None
    inside = (view.channel for view in snapshot.instances or () if view.instance == holder.instance)
    return holder.channel if holder.instance is None else next(inside, holder.channel)


def staves(snapshot: Snapshot, inside: int | None) -> list[Stave]:
    """The source instances, or without instances the channels, or those of instance `inside`; in their own order."""
    if snapshot.instances is not None and inside is None:
        holder = holding_instance(snapshot)
        return [Stave(i.channel, i.watermark_ms, kind_of(i.channel, i.state, holder)) for i in snapshot.instances]
    if target_of(snapshot).one_clock:
        level_ms = snapshot.level.watermark_ms
        return [Stave(c.channel, c.max_event_ms, under_one_clock(c, level_ms)) for c in snapshot.channels]
    holder = holding(snapshot)
    return [
        Stave(c.channel, c.watermark_ms, kind_of(c.channel, c.state, holder))
        for c in snapshot.channels
        if inside is None or c.instance == inside
    ]


def under_one_clock(view: ChannelView, level_ms: int | None) -> Kind:
    """How a channel is drawn under Spark's one clock: drowned if even its newest record is behind the watermark."""
    drowned = level_ms is not None and view.max_event_ms is not None and view.max_event_ms <= level_ms
    return "drowned" if drowned and view.state == "active" else view.state


class FoldedStaves(Struct, frozen=True):
    """Staves that share cells."""

    cells: list[list[Stave]] = []
    lowest: list[Stave] = []
    """The lowest of each cell, by which it is drawn."""
    keys: frozenset[str] = frozenset()
    count: int = 0
    left_out: int = 0


def fold(found: Sequence[Stave], per_cell: int) -> FoldedStaves:
    """The staves, `per_cell` to a cell; those that are left out of the minimum, which come last, apart."""
    out = next((place for place, stave in enumerate(found) if stave.kind in LEFT_OUT), len(found))
    cells = [
        list(group[start : start + per_cell])
        for group in (found[:out], found[out:])
        for start in range(0, len(group), per_cell)
    ]
    return FoldedStaves(
        cells=cells,
        lowest=[min(cell, key=lambda s: _BELOW_ALL if s.watermark_ms is None else s.watermark_ms) for cell in cells],
        keys=frozenset(stave.key for stave in found),
        count=len(found),
        left_out=sum(stave.kind in LEFT_OUT for stave in found),
    )


class Order:
    """Keeps staves in place: one moves only when its rank has differed for a while."""

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience = patience_s
        self._places: list[str] = []
        self._since: dict[str, tuple[bool, float]] = {}

    def arrange(self, found: Sequence[Stave], now_s: float, most: int | None = None) -> list[Stave]:
        """The staves from left to right at `now_s` (monotonic seconds).

        If there are more than `most`, the most behind come first and keep their places; the rest follows by rank.
        """
        by_rank = sorted(found, key=lambda s: rank(s.kind, s.watermark_ms))
        first, rest = by_rank[:most], by_rank[len(by_rank) if most is None else most :]
        by_key = {stave.key: stave for stave in first}
        ranked = list(by_key)
        ranks = {key: place for place, key in enumerate(ranked)}
        known = set(self._places)
        places = [key for key in self._places if key in by_key]
        restless = self._restless(places, ranks, now_s)
        places = [key for key in places if key not in restless]
        for key in ranked:
            if key in restless or key not in known:
                places.insert(ranks[key], key)
        for key in restless:
            del self._since[key]
        self._places = places
        return [*(by_key[key] for key in places), *rest]

    def _restless(self, places: list[str], ranks: dict[str, int], now_s: float) -> set[str]:
        """The staves that have long been out of place; stores since when others are."""
        since: dict[str, tuple[bool, float]] = {}
        moving: set[str] = set()
        for place, key in enumerate(places):
            if ranks[key] == place:
                continue
            above = ranks[key] > place
            side, start = self._since.get(key, (above, now_s))
            since[key] = (above, start if side == above else now_s)
            if now_s - since[key][1] >= self._patience:
                moving.add(key)
        self._since = since
        return moving
