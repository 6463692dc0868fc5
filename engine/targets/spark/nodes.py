"""The watermark nodes of an existing query: their watermarks by Spark's rule, and by the barrel's. Pure.

Spark has one clock per node, driven by the fastest channel, and combines the nodes by its policy; the barrel's rule
uses each node's slowest channel instead.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ...snapshot import WatermarkNode
from .checkpoint.checkpoint import CheckpointFacts
from .events.query_runs import InputFacts, PlanFacts, QueryRun

Policy = Literal["min", "max"]
Pinned = Literal["no_input", "own_output"]


class Node(Struct, frozen=True, kw_only=True):
    """One `withWatermark`; `taps` are those below it that have reported."""

    column: str | None
    delay_ms: int | None
    taps: tuple[InputFacts, ...] = ()
    max_ms: int | None = None
    """The greatest event time that Spark has reported for it, if the report is clearly its own."""
    least_ms: int | None = None
    """An event time that it has reached at least, by Spark's reports."""
    most_ms: int | None = None
    """The greatest reported event time, its own or another node's; None: greater ones may have been hidden."""
    sources: tuple[int, ...] | None = None
    """The sources that feed it; None: not known."""
    silent: bool = False
    """None of its sources has delivered a row in this run."""
    above: tuple[int, ...] = ()
    after_state: bool = False
    filtered_taps: bool = False
    """Not every row of its taps reaches it."""
    alone: bool = True
    """The known watermarks are all that the query has; the state shows only one of several united inputs."""

    @property
    def spark_ms(self) -> int | None:
        """Its own watermark: the greatest event time of all channels, minus the delay.

        Spark's report takes precedence over a tap's: Spark moves a filter after `withWatermark` before it, so some rows
        that the tap saw never reach the watermark.
        """
        seen = max((tap.max_ms for tap in self.taps if tap.max_ms is not None), default=None)
        greatest = self.max_ms if self.max_ms is not None or self.filtered_taps else seen
        return None if self.delay_ms is None or greatest is None else greatest - self.delay_ms

    @property
    def at_least_ms(self) -> int | None:
        """What its own watermark has reached at least, by Spark's reports."""
        return None if self.delay_ms is None or self.least_ms is None else self.least_ms - self.delay_ms

    @property
    def barrel_ms(self) -> int | None:
        """The watermark by its slowest channel; None if not all channels are known."""
        reached = [tap.barrel_ms for tap in self.taps]
        known = [time for time in reached if time is not None]
        return None if self.delay_ms is None or not known or len(known) < len(reached) else min(known) - self.delay_ms


def nodes_of(checkpoint: CheckpointFacts | None, run: QueryRun | None) -> list[Node]:
    """The nodes by the plan; without a plan those in the state, with the delays of the first start."""
    if run is not None and run.plan is not None:
        return list(_nodes_of_plan(run, run.plan))
    return [] if checkpoint is None else _nodes_of_state(checkpoint)


def _nodes_of_plan(run: QueryRun, plan: PlanFacts) -> Iterator[Node]:
    taps = {tap.name: tap for tap in run.inputs}
    reported = len(run.progress.sources) if run.progress is not None else None
    if reported == 1:  # whichever leaf it is: a watermark belongs to a stream
        plan = replace(plan, nodes=tuple(replace(node, sources=(0,)) for node in plan.nodes), leaves=1)
    mapped = plan.leaves == reported  # joined tables are leaves, too: then the order is not clear
    for place, node in enumerate(plan.nodes):
        least_ms, most_ms = _bounds_of(run, plan, place) if mapped else (None, None)
        yield Node(
            column=node.column,
            delay_ms=node.delay_ms,
            taps=tuple(taps[name] for name in node.inputs if name in taps),
            max_ms=most_ms if least_ms == most_ms else None,
            least_ms=least_ms,
            most_ms=most_ms,
            sources=node.sources if mapped else None,
            silent=mapped and run.silent is not None and bool(node.sources) and set(node.sources) <= set(run.silent),
            above=node.above,
            after_state=node.after_state,
            filtered_taps=node.filtered_taps,
        )


def _bounds_of(run: QueryRun, plan: PlanFacts, place: int) -> tuple[int | None, int | None]:
    """Lower and upper bound of the greatest event time of the node at `place`; None: no bound.

    Spark reports the plan's first node that had rows: an earlier node hides this one, and if a filter may have left no
    row for this one, the report may be a later node's.
    """
    if any(node.above or node.after_state for node in plan.nodes) and len(plan.nodes) > 1:
        return None, None
    node, alone = plan.nodes[place], plan.leaves == 1
    if alone and node.twin is not None:
        return _bounds_of(run, plan, node.twin)
    before = {source for node in plan.nodes[:place] for source in node.sources}
    after = {
        source for node in plan.nodes[place + 1 :] if not (alone and node.twin == place) for source in node.sources
    }
    seen = [one for one in run.event_max if set(node.sources) & set(one.sources)]
    own = [
        one.max_ms for one in seen if not before & set(one.sources) and not (node.filtered and after & set(one.sources))
    ]
    hidden = any(before & set(one.sources) for one in seen)
    return max(own, default=None), None if hidden else max((one.max_ms for one in seen), default=None)


def delay_of(nodes: Iterable[Node]) -> int | None:
    """The delay, if there is exactly one."""
    delays = {node.delay_ms if node.alone else None for node in nodes}
    return delays.pop() if len(delays) == 1 else None


def shown(nodes: Sequence[Node], level_ms: int | None, policy: Policy | None) -> list[WatermarkNode]:
    """The nodes for the snapshot, and which of them sets the query's watermark (ms), if known.

    With two or more under the policy "min": if the watermark is below all known ones, the unknown node holds it back,
    at exactly that watermark.
    """
    if len(nodes) == 1:
        return [_view(nodes[0], level_ms if nodes[0].alone else None)]
    stands = [node.spark_ms for node in nodes]
    holds: int | None = None
    if level_ms is not None and policy == "min":
        for place, node in enumerate(
            nodes
        ):  # no node is below the query's watermark: one that cannot be above it sets it
            if stands[place] is None and node.most_ms is not None and node.most_ms - (node.delay_ms or 0) == level_ms:
                stands[place] = level_ms
    known = [time for time in stands if time is not None]
    unknown = [place for place, time in enumerate(stands) if time is None]
    if level_ms is not None and known and policy is not None:
        first = min(known) if policy == "min" else max(known)
        if not unknown or first == level_ms:
            holds = stands.index(first)
    if level_ms is not None and holds is None and policy is not None:
        may = [place for place in unknown if policy == "max" or not _is_above(nodes[place], level_ms)]
        beyond = not known or (level_ms < min(known) if policy == "min" else level_ms > max(known))
        if len(may) == 1 and beyond and len(nodes) > len(may):
            holds = may[0]
            stands[holds] = level_ms
    pinned = pinned_of(nodes, level_ms, policy)
    return [
        _view(node, stands[place], holds=place == holds or place in pinned, pinned=pinned.get(place))
        for place, node in enumerate(nodes)
    ]


def _is_above(node: Node, level_ms: int) -> bool:
    return node.at_least_ms is not None and node.at_least_ms > level_ms


def _view(node: Node, stands_ms: int | None, *, holds: bool = False, pinned: Pinned | None = None) -> WatermarkNode:
    return WatermarkNode(
        column=node.column,
        delay_ms=node.delay_ms,
        watermark_ms=stands_ms,
        holds=holds,
        pinned=pinned,
        after_state=node.after_state,
        above=list(node.above),
        sources=None if node.sources is None else list(node.sources),
        at_least_ms=node.at_least_ms if stands_ms is None else None,
    )


def pinned_of(nodes: Sequence[Node], level_ms: int | None, policy: Policy | None) -> dict[int, Pinned]:
    """The nodes that keep a query at 1970 while its other nodes have had records, by their place, and why."""
    if level_ms is not None or policy == "max" or all(node.silent for node in nodes):
        return {}
    pinned: dict[int, Pinned] = {place: "no_input" for place, node in enumerate(nodes) if node.silent}
    for place, node in enumerate(nodes):
        if node.after_state and any(not nodes[below].silent for below in node.above):
            pinned[place] = "own_output"
    return pinned


def frozen_ms(nodes: Sequence[Node], level_ms: int | None, policy: Policy | None) -> int | None:
    """The event time (ms) missing until the watermark moves again, if it is above what its records give.

    None if it is not, or that is not known. Only a restart with a longer delay causes it.
    """
    stands = [node.spark_ms for node in nodes]
    known = [time for time in stands if time is not None]
    if level_ms is None or not known:
        return None
    if len(nodes) > 1 and policy == "max" and len(known) < len(stands):
        return None
    short = level_ms - (max(known) if policy == "max" else min(known))
    return short if short > 0 else None


def barrel_level(nodes: Sequence[Node], policy: Policy | None) -> int | None:
    """The query's watermark (ms) by the barrel's rule; None if the channels of a node are not all known."""
    levels = [node.barrel_ms for node in nodes]
    known = [level for level in levels if level is not None]
    if not known or len(known) < len(levels) or (len(levels) > 1 and policy is None):
        return None
    return max(known) if policy == "max" else min(known)


def _nodes_of_state(checkpoint: CheckpointFacts) -> list[Node]:
    """The nodes in the state; several operators may have the delay of one node."""
    found = {(None if delay.windowed else delay.column, delay.delay_ms) for delay in checkpoint.delays}
    named = {delay_ms for column, delay_ms in found if column is not None}
    nodes = [node for node in found if node[0] is not None or node[1] not in named]
    alone = len(nodes) >= len(checkpoint.sources)
    return [Node(column=column, delay_ms=delay_ms, alone=alone) for column, delay_ms in sorted(nodes, key=str)]
