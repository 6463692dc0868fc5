"""The line on the channel that holds back the watermark. Pure."""

from ...engine.snapshot import Snapshot
from ...engine.text import formatting as f
from ...engine.text.formatting import name
from ...engine.verdict.blame import holding_channel, is_close
from .naming import named
from .spans import Part, Span, part
from .watermark import ahead_elsewhere, held_for

SHORT_STEPS = 3
"""Steps that the main screen names, at most."""


def holder_parts(snapshot: Snapshot, cause: str) -> list[Part]:
    """The channel that holds back the watermark, how long, and `cause`: why; empty if no channel does."""
    holder = snapshot.level.holder
    behind_ms = snapshot.level.behind_fastest_ms
    if holder is None or holding_channel(snapshot) is None:
        return []
    if behind_ms is not None and is_close(snapshot):
        slowest: list[Span] = [(" slowest ", "dim"), (name(holder.channel), "strong")]
        behind = f": the watermark is {f.duration(behind_ms)} behind the fastest"
        return [part(*slowest), part((behind, "text"), rank=1, gap="")]
    if ahead_elsewhere(snapshot):
        return [part((f" {cause}", "text"))]
    since = held_for(snapshot)
    why, comma, more = cause.partition(", ")
    return [
        part((" held back by ", "dim"), (name(holder.channel), "holder")),
        part((since, "holder"), rank=1, gap=""),
        part((": ", "dim"), (why, "text"), rank=1, gap=""),
        part((comma + more, "text"), rank=2, gap=""),
        *short_staircase(snapshot),
    ]


def short_staircase(snapshot: Snapshot) -> list[Part]:
    """The gain of the watermark when the first blockers are freed one after the other, for one line."""
    parts: list[Part] = []
    for step in [step for step in (snapshot.blockers or ())[:SHORT_STEPS] if step.gain_ms]:
        lead, too, gap = (", with ", " too", "") if parts else ("if freed: ", "", "   ")
        who = named(step.channels, step.channel_count, 1)
        gain = f.signed(step.gain_ms or 0)
        spans: tuple[Span, ...] = ((lead, "dim"), (who, "text"), (too, "dim"), (f" {gain}", "strong"))
        parts.append(part(*spans, rank=3 + len(parts), gap=gap))
    return parts
