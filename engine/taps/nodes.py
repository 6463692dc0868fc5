"""The watermark nodes of a query that others run: where each stands by Spark's rule, and by the barrel's. Pure.

Spark has one clock a node, which the fastest channel drives, and makes one level of several nodes by its policy; the
barrel's rule takes in each node the slowest channel instead.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from ..core.snapshot import WatermarkNode
from .checkpoint import CheckpointFacts
from .query_runs import InputFacts, QueryRun

Policy = Literal["min", "max"]


class Node(Struct, frozen=True, kw_only=True):
    """One `withWatermark`; `taps` are those below it that have said something."""

    column: str | None
    delay_ms: int | None
    taps: tuple[InputFacts, ...] = ()

    @property
    def spark_ms(self) -> int | None:
        """Where it stands: the greatest event time of all channels, minus the delay."""
        greatest = [tap.max_ms for tap in self.taps if tap.max_ms is not None]
        return None if self.delay_ms is None or not greatest else max(greatest) - self.delay_ms

    @property
    def barrel_ms(self) -> int | None:
        """Where its slowest channel would have it stand; None where not all channels are known."""
        reached = [tap.barrel_ms for tap in self.taps]
        known = [time for time in reached if time is not None]
        return None if self.delay_ms is None or not known or len(known) < len(reached) else min(known) - self.delay_ms


def nodes_of(checkpoint: CheckpointFacts | None, run: QueryRun | None) -> list[Node]:
    """As the plan has them; without one those that the state knows, with the delays of the first start."""
    if run is not None and run.plan is not None and run.plan.nodes:
        taps = {tap.name: tap for tap in run.inputs}
        return [
            Node(
                column=node.column,
                delay_ms=node.delay_ms,
                taps=tuple(taps[name] for name in node.inputs if name in taps),
            )
            for node in run.plan.nodes
        ]
    return [] if checkpoint is None else _nodes_of_state(checkpoint)


def delay_of(nodes: Iterable[Node]) -> int | None:
    """The delay, where there is one and no more than one."""
    delays = {node.delay_ms for node in nodes}
    return delays.pop() if len(delays) == 1 else None


def shown(nodes: Sequence[Node], level_ms: int | None, policy: Policy | None) -> list[WatermarkNode]:
    """The nodes for the snapshot, and which of them sets the query's level (ms), where that can be told.

    Of two or more under the policy "min": when the level lies below all that are known, the one that is not known holds
    it, at exactly the level.
    """
    if len(nodes) == 1:
        return [WatermarkNode(nodes[0].column, nodes[0].delay_ms, level_ms)]
    stands = [node.spark_ms for node in nodes]
    known = [time for time in stands if time is not None]
    unknown = [place for place, time in enumerate(stands) if time is None]
    holds: int | None = None
    if level_ms is not None and known and policy is not None:
        first = min(known) if policy == "min" else max(known)
        if not unknown or first == level_ms:
            holds = stands.index(first)
        elif len(unknown) == 1 and (level_ms < first if policy == "min" else level_ms > first):
            holds = unknown[0]
            stands[holds] = level_ms
    return [
        WatermarkNode(node.column, node.delay_ms, stands[place], holds=place == holds)
        for place, node in enumerate(nodes)
    ]


def barrel_level(nodes: Sequence[Node], policy: Policy | None) -> int | None:
    """The query's level (ms) by the barrel's rule; None where a node's channels are not all known."""
    levels = [node.barrel_ms for node in nodes]
    known = [level for level in levels if level is not None]
    if not known or len(known) < len(levels) or (len(levels) > 1 and policy is None):
        return None
    return max(known) if policy == "max" else min(known)


def _nodes_of_state(checkpoint: CheckpointFacts) -> list[Node]:
    """Several operators may carry the delay of one node."""
    found = {(None if delay.windowed else delay.column, delay.delay_ms) for delay in checkpoint.delays}
    named = {delay_ms for column, delay_ms in found if column is not None}
    nodes = [node for node in found if node[0] is not None or node[1] not in named]
    return [Node(column=column, delay_ms=delay_ms) for column, delay_ms in sorted(nodes, key=str)]
