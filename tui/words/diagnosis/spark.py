"""Findings about Spark's clock, in words. Pure."""

from ....engine.doctor.spark import (
    InputHoldsBack,
    LeftBehind,
    NeverMoved,
    NodeWithoutData,
    NoWatermark,
    PinnedNode,
    SiblingFailed,
    ZeroDelay,
)
from ....engine.snapshot import UnmovedReason
from ....engine.text import formatting as f
from ..wording import name
from .explanation import Context, Explainers, Explanation, column, n, names, only, span

_QUERIES_NAMED = 3


def _left_behind(it: LeftBehind, context: Context) -> Explanation:
    late = [] if it.late is None else [f"{n(it.late, 'record')} of these channels late so far"]
    return Explanation(
        f"{names(it.channels)} can only be late",
        late[0] if late else f"All records of {n(len(it.channels), 'channel')} are dropped",
        "Spark has one clock for all channels, and the fastest drives it: slower channels do not hold it back.",
        [f"The newest record of {names(it.channels[:1])} is {span(it.behind_ms)} behind the watermark", *late],
        ("Time", "Lateness"),
        only(it.channels),
    )


def _zero_delay(it: ZeroDelay, context: Context) -> Explanation:
    impact = "Records with the same event time as the newest one before are dropped"
    if it.windowed:
        impact = "A record that is out of order by any amount is dropped once its window has ended"
    return Explanation(
        "The watermark delay is 0",
        impact,
        "Spark drops a row when its event time is at or before the watermark, and with delay 0 the watermark is the "
        "newest event time of the batch before.",
        [f"Delay of {column(it.column)}: 0s"],
        ("Lateness", "Operators"),
    )


def _node_without_data(it: NodeWithoutData, context: Context) -> Explanation:
    known = [name(text) for text in it.columns if text]
    which = f" ({', '.join(known)})" if known else ""
    return Explanation(
        f"{n(len(it.columns), 'watermark node')}{which} without a row: the watermark stays at 1970",
        "No window ever fires, and no state is released",
        "The query's watermark is the minimum over its nodes (policy min); a node without a row is at 1970.",
        [f"{len(it.columns)} of {n(it.nodes, 'watermark node')} without a row"],
        ("Operators",),
    )


def _input_holds_back(it: InputHoldsBack, context: Context) -> Explanation:
    delay = "" if it.delay_ms is None else f" (delay {f.setting(it.delay_ms)})"
    frozen = [] if it.frozen_ms is None else [f"The watermark has not advanced for {span(it.frozen_ms)}"]
    return Explanation(
        f"The input of {name(it.column or 'window')}{delay} holds back the watermark",
        f"Results wait, and the state of the other inputs grows: {span(it.gain_ms)} of event time",
        "The query's watermark is the minimum over its inputs (policy min), and the others are ahead of this one.",
        [
            f"The next input is {span(it.gain_ms)} ahead",
            *(f"It reads {f.label(text, 150)}" for text in it.sources[:2]),
            *frozen,
        ],
        ("Operators",),
    )


def _pinned(it: PinnedNode, context: Context) -> Explanation:
    known = [name(text) for text in it.columns if text]
    which = f" of {', '.join(known)}" if known else ""
    return Explanation(
        f"The watermark{which} waits for its own output: it stays at 1970",
        "No window ever fires, and no state is released",
        "This withWatermark is above a stateful operator that emits only when the watermark advances; the watermark is "
        "the minimum over all nodes, this one included.",
        [f"{len(it.columns)} of {n(it.nodes, 'watermark node')} above a stateful operator without output"],
        ("Operators",),
    )


def _never_moved(it: NeverMoved, context: Context) -> Explanation:
    nodes = "watermark nodes not known" if it.nodes is None else n(it.nodes, "watermark node")
    newest = [] if not it.max_event_ms else [f"Newest event time: {f.stamp(it.max_event_ms, context.zone)}"]
    delay = [] if it.delay_ms is None else [f"Delay: {f.setting(it.delay_ms)}"]
    return Explanation(
        "The watermark has never advanced: it is at 1970",
        "All rows are dropped" if it.reason == "before_1970" else "No window fires, and no state is released",
        _unmoved_cause(it),
        [f"Watermark at 1970; {nodes}", *newest, *(delay if it.reason == "delay_too_long" else [])],
        ("Operators",),
    )


_UNMOVED: dict[UnmovedReason | None, str] = {
    "no_event_time": "Rows are read, but the event time of all of them is null.",
    "before_1970": "All event times are before 1970. Spark's watermark starts at 1970 and never goes back.",
    "delay_too_long": "The newest event time minus the delay is before 1970, where Spark's watermark starts.",
}


def _unmoved_cause(it: NeverMoved) -> str:
    if it.reason is None and it.nodes == 1:
        return "Rows are read, but none has an event time that is later than 1970 plus the delay."
    return _UNMOVED.get(
        it.reason,
        "Rows are read, but none with an event time has reached one of the query's watermarks: its input has none, or "
        "a filter keeps none.",
    )


def _no_watermark(it: NoWatermark, context: Context) -> Explanation:
    return Explanation(
        "The query keeps state without a watermark",
        "State grows with each new key: nothing is ever removed",
        "Without a watermark, Spark does not know which state is no longer needed.",
        [f"{n(it.state_rows, 'row')} in state" if it.state_rows is not None else "0 calls of withWatermark"],
        ("Operators", "Progress"),
    )


def _sibling(it: SiblingFailed, context: Context) -> Explanation:
    more = len(it.queries) - _QUERIES_NAMED
    which = names(it.queries)
    if more > 0:
        first = ", ".join(name(query) for query in it.queries[:_QUERIES_NAMED])
        which = f"{first} and {more} more quer{'y' if more == 1 else 'ies'}"
    return Explanation(
        f"{which} of the same application {'has' if len(it.queries) == 1 else 'have'} failed",
        f"{n(len(it.queries), 'other query').replace('querys', 'queries')} of this application: no results",
        f"{'That query' if len(it.queries) == 1 else 'Those queries'} ended with an error.",
        [f.first_line(f.clean(it.error)) if it.error else f"{len(it.queries)} failed"],
        ("Progress",),
    )


EXPLAINERS: Explainers = {
    LeftBehind: _left_behind,
    ZeroDelay: _zero_delay,
    NodeWithoutData: _node_without_data,
    PinnedNode: _pinned,
    InputHoldsBack: _input_holds_back,
    NeverMoved: _never_moved,
    NoWatermark: _no_watermark,
    SiblingFailed: _sibling,
}
