"""The watermark nodes of an attached query. Pure.

A node is one `withWatermark` of the plan. Spark has one clock per node, driven by the fastest channel, and combines the
nodes by its policy.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from . import known
from .checkpoint import WATERMARK_POLICY, CheckpointFacts
from .facts import QueryFacts, QueryRun, Report
from .plan import PlanFacts
from .tapped import InputFacts

Policy = Literal["min", "max"]
_POLICIES: dict[str | None, Policy] = {"min": "min", "max": "max"}


class Node(Struct, frozen=True, kw_only=True):
    """One `withWatermark`; `taps` are those below it that have reported."""

    column: str | None
    delay_ms: int | None
    taps: tuple[InputFacts, ...] = ()
    max_ms: int | None = None
    """The greatest event time that Spark has reported for it, if the report is clearly its own."""
    at_least_event_ms: int | None = None
    """An event time that it has reached at least, by Spark's reports."""
    at_most_event_ms: int | None = None
    """The greatest reported event time, its own or another node's, or the greatest found at the broker before its
    position, which is not certain; None: greater ones may have been hidden.
    """
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
    raised: bool = False
    """Its delay was shorter before a restart."""
    first_delay_ms: int | None = None
    """Its delay at the first start of the query, where that may have been in force until the last restart."""

    @property
    def spark_ms(self) -> int | None:
        """Its own watermark: the greatest event time of all channels, minus the delay.

        Spark's report takes precedence over a tap's: Spark moves a filter after `withWatermark` before it, so some rows
        that the tap saw never reach the watermark.
        """
        seen_ms = max(known(*(tap.max_ms for tap in self.taps)), default=None)
        return self._behind(self.max_ms if self.max_ms is not None or self.filtered_taps else seen_ms)

    @property
    def at_least_ms(self) -> int | None:
        """What its own watermark has reached at least, by Spark's reports."""
        return self._behind(self.at_least_event_ms)

    @property
    def barrel_ms(self) -> int | None:
        """The watermark by its slowest channel; None if not all channels are known."""
        reached = known(*(tap.barrel_ms for tap in self.taps))
        return self._behind(min(reached)) if reached and len(reached) == len(self.taps) else None

    def _behind(self, event_ms: int | None) -> int | None:
        return None if self.delay_ms is None or event_ms is None else event_ms - self.delay_ms


class Nodes(Struct, frozen=True):
    """All watermark nodes of a query in the plan's order, and how Spark combines their watermarks (None: not known)."""

    nodes: tuple[Node, ...] = ()
    policy: Policy | None = None

    @property
    def delay_ms(self) -> int | None:
        """The delay, if there is exactly one."""
        delays = {node.delay_ms if node.alone else None for node in self.nodes}
        return delays.pop() if len(delays) == 1 else None

    @property
    def only(self) -> Node | None:
        """The node, if there is exactly one."""
        return self.nodes[0] if len(self.nodes) == 1 else None

    def combined(self, *watermarks: int | None) -> int | None:
        """What the policy makes of those of the nodes' watermarks (ms) that are known; None: of none, or not known."""
        reached = known(*watermarks)
        if not reached or (len(self.nodes) > 1 and self.policy is None):
            return None
        return max(reached) if self.policy == "max" else min(reached)


def nodes_of(facts: QueryFacts) -> Nodes:
    """The nodes by the plan; without a plan those in the state, with the delays of the first start."""
    policy = _POLICIES.get(facts.stored.conf.get(WATERMARK_POLICY)) or _POLICIES.get(facts.run.watermark_policy)
    if facts.plan is not None:
        return Nodes(_nodes_of_plan(facts, facts.plan), policy)
    return Nodes(_nodes_of_state(facts.stored), policy)


def _nodes_of_plan(facts: QueryFacts, plan: PlanFacts) -> tuple[Node, ...]:
    run = facts.run
    taps = {tap.name: tap for tap in run.inputs}
    reported = len(run.progress.sources) if run.progress is not None else None
    is_mapped = reported == 1 or plan.leaves == reported  # joined tables are leaves, too: then the order is not clear
    # If the query has only one source, it is that of every node: a watermark belongs to a stream.
    sources = [(0,) if reported == 1 else node.sources for node in plan.nodes]
    nodes: list[Node] = []
    for place, node in enumerate(plan.nodes):
        min_ms, max_ms = _bounds_of(run, plan, sources, place) if is_mapped else (None, None)
        if len(plan.nodes) == 1:  # whatever its sources: all that Spark reports is about it
            min_ms = max_ms = run.max_event_ms
        if plan.slowest_clock:  # what is reported and tapped of the fastest partition does not drive the clock
            min_ms = None
        read_ms = _read_ms(facts, sources[place]) if is_mapped else None
        is_silent = run.silent is not None and bool(sources[place]) and set(sources[place]) <= set(run.silent)
        nodes.append(
            Node(
                column=node.column,
                delay_ms=node.delay_ms,
                taps=tuple(taps[name] for name in node.inputs if name in taps),
                max_ms=max_ms if min_ms == max_ms else None,
                at_least_event_ms=min_ms,
                at_most_event_ms=min(known(max_ms, read_ms), default=None),
                sources=sources[place] if is_mapped else None,
                silent=is_mapped and is_silent,
                above=node.above,
                after_state=node.after_state,
                filtered_taps=node.filtered_taps or plan.slowest_clock,
                raised=_is_raised(facts.report, plan, place),
                first_delay_ms=_first_delay_ms(facts, plan, place),
            )
        )
    return tuple(nodes)


def _is_raised(report: Report | None, plan: PlanFacts, place: int) -> bool:
    """Whether the delay of a watermark was shorter in the run that moved the watermark last; where that is not known,
    in an earlier run of this application.
    """
    plans = () if report is None else report.plans if report.moved_by is None else (report.moved_by,)
    same = [earlier.nodes[place] for earlier in plans if len(earlier.nodes) == len(plan.nodes)]
    return any(node.delay_ms < plan.nodes[place].delay_ms for node in same)


def _first_delay_ms(facts: QueryFacts, plan: PlanFacts, place: int) -> int | None:
    """The delay of a watermark at the first start, which the state has; None: a run of this application moved the
    watermark last, or the state does not show it.
    """
    if facts.report is not None and facts.report.moved_by is not None:
        return None
    own = plan.nodes[place]
    stored = (one.delay_ms for one in facts.stored.delays if len(plan.nodes) == 1 or one.column == own.column)
    return max(stored, default=None)


def _read_ms(facts: QueryFacts, sources: Sequence[int]) -> int | None:
    """The greatest event time (ms) found at the broker before the positions of sources; None: not of each partition."""
    topics, offsets = facts.topics, facts.stored.sources
    if topics is None or topics.assumed:
        return None
    names = {name for place in sources if place < len(offsets) for name in offsets[place].offsets or {}}
    times = known(*(part.event_ms for part in topics.partitions if f"{part.topic}/{part.partition}" in names))
    return max(times) if names and len(times) == len(names) else None


def _bounds_of(
    run: QueryRun, plan: PlanFacts, sources: Sequence[tuple[int, ...]], place: int
) -> tuple[int | None, int | None]:
    """Lower and upper bound of the greatest event time of the node at `place`; None: no bound.

    Spark reports the plan's first node that had rows: an earlier node hides this one, and if a filter may have left no
    row for this one, the report may be a later node's.
    """
    if any(node.above or node.after_state for node in plan.nodes) and len(plan.nodes) > 1:
        return None, None
    node = plan.nodes[place]
    is_single = plan.leaves == 1 or (run.progress is not None and len(run.progress.sources) == 1)
    if is_single and node.twin is not None:
        return _bounds_of(run, plan, sources, node.twin)
    before = {source for earlier in sources[:place] for source in earlier}
    after = {
        source
        for later in range(place + 1, len(plan.nodes))
        if not (is_single and plan.nodes[later].twin == place)
        for source in sources[later]
    }
    seen = [
        (set(report.sources), report.max_ms) for report in run.event_max if set(sources[place]) & set(report.sources)
    ]
    own = [ms for delivered, ms in seen if not before & delivered and not (node.filtered and after & delivered)]
    is_hidden = any(before & delivered for delivered, _ in seen)
    return max(own, default=None), None if is_hidden else max((ms for _, ms in seen), default=None)


def _nodes_of_state(checkpoint: CheckpointFacts) -> tuple[Node, ...]:
    """The nodes in the state; several operators may have the delay of one node."""
    delays = {(None if delay.windowed else delay.column, delay.delay_ms) for delay in checkpoint.delays}
    named = {delay_ms for column, delay_ms in delays if column is not None}
    own = [(column, delay_ms) for column, delay_ms in delays if column is not None or delay_ms not in named]
    is_all = len(own) >= len(checkpoint.sources)
    return tuple(Node(column=column, delay_ms=delay_ms, alone=is_all) for column, delay_ms in sorted(own, key=str))
