"""Stations of a chain, as a target would give them."""

from wmtop.engine.snapshot import Verdict
from wmtop.engine.snapshot.kinds.chain import Edge, Hop
from wmtop.engine.verdict.chain import Station


def station(
    *,
    kind: str,
    name: str,
    event_ms: int | None = None,
    reads: dict[str, Edge] | None = None,
    writes: dict[str, Edge] | None = None,
    verdict: Verdict | None = None,
    guess: str | None = None,
    **hop: object,
) -> Station:
    """A topic whose newest event time, or a job whose watermark, is `event_ms`; `hop`: further fields of its hop."""
    times = {"event_ms" if kind == "topic" else "watermark_ms": event_ms}
    alone = Hop(kind=kind, name=name, **{"target": None, **times, **hop})  # type: ignore[arg-type]
    return Station(hop=alone, reads=reads or {}, writes=writes or {}, verdict=verdict, guess=guess)
