"""The hops of a chain as lines of text and as a staircase: what each loses, and who holds it back. Pure."""

from collections.abc import Iterator
from datetime import tzinfo

from rich.cells import cell_len

from ...engine.text import formatting as f
from ...engine.text.codes import CAUSES
from ...engine.verdict.chain import Chain, Hop
from .spans import Span, lay, part
from .verdict_words import STYLES

BESIDE = "not on this path:"
_NAME_CELLS, _TIME_CELLS, _LOSS_CELLS, _WHOLE = 32, 12, 12, 400
NO_CHAIN = (
    "No topic and no job is known here. Name them in the configuration, for example\n"
    '  [targets.orders]  attach = "kafka://broker:9092/orders"  time = "timestamp"'
)
MAX_STAIRS = 12
"""The height of the staircase, without the names below it."""
_HOP_CELLS, _MAX_HOP_CELLS = 10, 24
"""The width of a hop in the staircase."""
_TIMED_CELLS = 76
"""Least width of lines with times."""


def headline(chain: Chain) -> str:
    """What is lost on the way that loses most, and where: `behind 2h04m: 1h50m are lost in enrich (…)`."""
    if chain.behind_ms is None:
        unknown = next((chain.hops[number] for number in chain.way if chain.hops[number].own_ms is None), None)
        return "how far behind is not known" + ("" if unknown is None else f": {_titled(unknown)}: {why(unknown)}")
    behind = f"behind {'≥ ' if chain.behind_at_least else ''}{f.duration(max(chain.behind_ms, 0))}"
    if chain.worst is None:
        return behind
    hop = chain.hops[chain.worst]
    places = " or ".join(_titled(each) for each in (*(chain.hops[over] for over in hop.includes), hop))
    held = "" if hop.includes else held_words(chain, hop)  # the loss may be another hop's
    unknown = [one for one in chain.hops if one.own_ms is None and one.target is not None]
    more = f"; {_titled(unknown[0])} is not known" if len(unknown) == 1 else f"; {len(unknown)} hops are not known"
    more = more if unknown and chain.behind_at_least else ""
    return f"{behind}: {f.duration(hop.loss_ms or 0)} are lost in {places}{f' ({held})' if held else ''}{more}"


def text_lines(chain: Chain, zone: tzinfo | None) -> Iterator[str]:
    """The chain as lines of plain text, for the command line."""
    others = beside(chain)
    yield headline(chain)
    for number in (*chain.way, *others):
        if number in others[:1]:
            yield BESIDE
        yield "".join(text for text, _ in hop_line(chain, number, zone, _WHOLE)).rstrip()


def beside(chain: Chain) -> list[int]:
    """The hops that are not on the shown way."""
    return [number for number in range(len(chain.hops)) if number not in chain.way]


def hop_line(chain: Chain, number: int, zone: tzinfo | None, width: int) -> list[Span]:
    """A hop: its name, event time, loss, who holds it back, and what is not known of it."""
    hop = chain.hops[number]
    style = _style(chain, number)
    names = max(cell_len(f.clean(hop.name)) for hop in chain.hops)
    cells = max(min(names, width // 3, _NAME_CELLS), 1)
    newest = max((ms for each in chain.hops if (ms := each.own_ms) is not None), default=None)
    time = "?" if hop.own_ms is None else f.near(hop.own_ms, zone, newest).partition(".")[0]
    lost = "" if hop.loss_ms is None else f"loses {f.duration(hop.loss_ms)}" if hop.loss_ms > 0 else "no loss"
    details = [
        held_words(chain, hop) if (hop.loss_ms or 0) > 0 else "",
        why(hop) if hop.own_ms is None or hop.looping else "",
        "writes are not configured" if hop.may_write else "",
        f"with {', '.join(_titled(chain.hops[over]) for over in hop.includes)}" if hop.includes else "",
        "configured link" if hop.edge == "configured" else "",
        f"guessed link: perhaps written by {f.name(chain.hops[hop.inputs[0]].name)}" if hop.edge == "guessed" else "",
    ]
    parts = [
        part((f" {'▸' if number == chain.worst else ' '} {hop.kind:<5}  ", "dim")),
        part((f.pad(f.cut_middle(f.clean(hop.name), cells), cells), style), gap=""),
        *([part((f.pad(time, _TIME_CELLS), "text"), gap="  ")] if width >= _TIMED_CELLS else []),
        part((f"{lost:<{_LOSS_CELLS}}", style), gap="  "),
        # The first one is cut, never dropped: it may be why nothing is known.
        *(part((text, "dim"), rank=n, gap=" · " if n else "  ") for n, text in enumerate(filter(None, details))),
    ]
    return lay(parts, width)


def _style(chain: Chain, number: int) -> str:
    if number == chain.worst:
        return STYLES["stalled"]
    return "dim" if chain.hops[number].own_ms is None else "text"


def staircase(chain: Chain, width: int, height: int) -> list[list[Span]]:
    """The shown way as a descending staircase of event time: each hop is as far down as it is behind the first one.

    What leads to a hop is dashed where it is only configured, a hop whose input is guessed thinly. Below are the names
    and losses. Empty: nothing is known.
    """
    most = max(width // _HOP_CELLS, 1)  # among them the worst one and its input
    place = chain.way.index(chain.worst) if chain.worst is not None else len(chain.way) - 1
    start = max(min(place - most // 2, len(chain.way) - most), 0)
    way = chain.way[start : start + most]
    known = [ms for number in chain.way if (ms := chain.hops[number].own_ms) is not None]
    if len(known) < 2 or height < 2:
        return []
    span = max(max(known) - min(known), 1)
    cells = min(width // len(way), _MAX_HOP_CELLS)
    rows: list[list[Span]] = [[] for _ in range(height)]
    above = 0
    for number in way:
        own = chain.hops[number].own_ms
        down = above if own is None else round((height - 1) * (max(known) - own) / span)
        _draw_step(rows, chain, number, (above, down), cells)
        above = down
    hops = [(chain.hops[number], _style(chain, number)) for number in way]
    names = [(f.pad(f.cut_middle(f.name(hop.name), cells - 1), cells), style) for hop, style in hops]
    losses: list[Span] = []
    for hop, style in hops:
        unknown = "?" if hop.own_ms is None else ""
        loss = unknown if hop.loss_ms is None else f.signed(-hop.loss_ms) if hop.loss_ms > 0 else "0s"
        losses.append((f.pad(loss, cells), style))
    return [[(" ", "text"), *row] for row in (*rows, names, losses)]


def _draw_step(rows: list[list[Span]], chain: Chain, number: int, between: tuple[int, int], cells: int) -> None:
    """Append a hop's columns: from the row above it down to its own (rows from the top), then straight on."""
    hop, style = chain.hops[number], _style(chain, number)
    (above, down), is_configured = between, hop.edge == "configured"
    top, bottom = min(between), max(between)
    level = "┄" if hop.own_ms is None else "╍" if is_configured else "╌" if hop.edge == "guessed" else "━"
    for row, spans in enumerate(rows):
        if row == down:
            corner = level if above == down else "┗" if down > above else "┏"
            spans.append((corner + level * (cells - 1), style))
        elif row == above:
            spans.append(("┓" if down > above else "┛", style))
            spans.append((" " * (cells - 1), "text"))
        elif top < row < bottom:
            spans.append(("╏" if is_configured else "┃", style))
            spans.append((" " * (cells - 1), "text"))
        else:
            spans.append((" " * cells, "text"))


def held_words(chain: Chain, hop: Hop) -> str:
    """Who holds back its watermark, and why; empty: neither is known."""
    if hop.channel is None:
        lateness = f" {f.duration(hop.lateness_ms)}" if hop.cause == "lateness" and hop.lateness_ms else ""
        return "" if hop.cause is None else f"{CAUSES[hop.cause].short}{lateness}"
    cause = "" if hop.cause is None else f": {CAUSES[hop.cause].short}"
    return f"held back by {f.name(chain.holder_in(hop) or hop.channel)}{cause}"


def why(hop: Hop) -> str:
    """Why its event time or loss is not known."""
    if hop.looping:
        return "it is part of a loop"
    if hop.target is None:
        return "no target watches it"
    return hop.trouble or "its event time is not known"


def _titled(hop: Hop) -> str:
    return f"topic {f.name(hop.name)}" if hop.kind == "topic" else f.name(hop.name)
