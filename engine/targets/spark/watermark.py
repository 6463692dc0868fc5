"""The watermark of an attached query: its nodes, what Spark makes of them, and what the slowest channel would. Pure.

A node is one `withWatermark` of the plan. Spark has one clock per node, driven by the fastest channel, and combines the
nodes by its policy.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from ...snapshot import BarrelRule, ChannelView, Level, Snapshot, SparkProgress, UnmovedReason, WatermarkNode, WhatIf
from .checkpoint import CheckpointFacts
from .facts import QueryFacts, QueryRun
from .plan import PlanFacts
from .tapped import InputFacts

PinnedReason = Literal["no_input", "own_output"]
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
    """The greatest reported event time, its own or another node's, or what the broker has up to its position; None:
    greater ones may have been hidden.
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
        seen_ms = max((tap.max_ms for tap in self.taps if tap.max_ms is not None), default=None)
        greatest_ms = self.max_ms if self.max_ms is not None or self.filtered_taps else seen_ms
        return self._behind(greatest_ms)

    @property
    def at_least_ms(self) -> int | None:
        """What its own watermark has reached at least, by Spark's reports."""
        return self._behind(self.at_least_event_ms)

    @property
    def barrel_ms(self) -> int | None:
        """The watermark by its slowest channel; None if not all channels are known."""
        reached = [tap.barrel_ms for tap in self.taps]
        known = [time for time in reached if time is not None]
        return self._behind(min(known)) if known and len(known) == len(reached) else None

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


def nodes_of(facts: QueryFacts) -> Nodes:
    """The nodes by the plan; without a plan those in the state, with the delays of the first start."""
    checkpoint, run = facts.checkpoint, facts.run
    kept = _POLICIES.get(checkpoint.watermark_policy if checkpoint is not None else None)
    policy = kept or _POLICIES.get(run.watermark_policy if run is not None else None)
    if run is not None and run.plan is not None:
        return Nodes(_nodes_of_plan(facts, run, run.plan), policy)
    return Nodes(() if checkpoint is None else _nodes_of_state(checkpoint), policy)


def _nodes_of_plan(facts: QueryFacts, run: QueryRun, plan: PlanFacts) -> tuple[Node, ...]:
    taps = {tap.name: tap for tap in run.inputs}
    reported = len(run.progress.sources) if run.progress is not None else None
    is_mapped = reported == 1 or plan.leaves == reported  # joined tables are leaves, too: then the order is not clear
    # If the query has only one source, it is that of every node: a watermark belongs to a stream.
    sources = [(0,) if reported == 1 else node.sources for node in plan.nodes]
    nodes: list[Node] = []
    for place, node in enumerate(plan.nodes):
        min_ms, max_ms = _bounds_of(run, plan, sources, place) if is_mapped else (None, None)
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
                at_most_event_ms=min((ms for ms in (max_ms, read_ms) if ms is not None), default=None),
                sources=sources[place] if is_mapped else None,
                silent=is_mapped and is_silent,
                above=node.above,
                after_state=node.after_state,
                filtered_taps=node.filtered_taps or plan.slowest_clock,
                raised=facts.is_raised(place, node, len(plan.nodes)),
                first_delay_ms=facts.first_delay_ms(node, len(plan.nodes)),
            )
        )
    return tuple(nodes)


def _read_ms(facts: QueryFacts, sources: Sequence[int]) -> int | None:
    """The greatest event time up to the positions of sources, by the broker; None: not known of each partition."""
    topics, offsets = facts.topics, facts.checkpoint.sources if facts.checkpoint is not None else ()
    if topics is None or topics.assumed:
        return None
    names = {name for place in sources if place < len(offsets) for name in offsets[place].offsets or {}}
    times = [part.event_ms for part in topics.partitions if f"{part.topic}/{part.partition}" in names]
    known = [ms for ms in times if ms is not None]
    return max(known) if names and len(known) == len(names) else None


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
    known = [(column, delay_ms) for column, delay_ms in delays if column is not None or delay_ms not in named]
    is_all = len(known) >= len(checkpoint.sources)
    return tuple(Node(column=column, delay_ms=delay_ms, alone=is_all) for column, delay_ms in sorted(known, key=str))


class Channels(Struct, frozen=True, kw_only=True):
    """The channels of a query, and what its taps count."""

    views: list[ChannelView] = []
    origin: Literal["tap", "broker"] | None = None
    """Where the channels come from; None: no tap or broker reports them."""
    without_times: bool = False
    """The broker's event times are left out: it is not known which column the watermark uses."""
    inputs: tuple[InputFacts, ...] = ()
    """The tapped inputs."""
    whatif: list[WhatIf] | None = None
    """The cost of other delays by Spark's rule, as upper bounds; None if the taps do not report it."""
    barrel_whatif: list[WhatIf] | None = None
    """The same with a clock driven by the slowest channel."""
    bucket_ms: int | None = None
    """The width of the what-if's buckets."""


class QueryWatermark(Struct, frozen=True):
    """A query's watermark: its value, the nodes that set it, and why it does not move (in `spark`)."""

    level: Level
    barrel: BarrelRule | None
    spark: SparkProgress
    """The fields about the watermark."""

    @property
    def ms(self) -> int | None:
        """The watermark of the next batch (epoch ms)."""
        return self.level.watermark_ms


def watermark_of(
    facts: QueryFacts, nodes: Nodes, channels: Channels, now_ms: int, before: Snapshot | None
) -> QueryWatermark:
    """The watermark at `now_ms` (epoch ms); `before` is the last snapshot."""
    watermark_ms = _next_watermark(facts, nodes)
    never_moved = _never_moved(facts, nodes, watermark_ms)
    begun, progress = facts.begun, facts.progress
    reported_ms = begun.watermark_ms if begun else progress.watermark_ms if progress else None
    in_force_ms = reported_ms if facts.running is None else watermark_ms
    max_event_ms = facts.run.max_event_ms if facts.run is not None and nodes.only is not None else None
    return QueryWatermark(
        _level(facts, nodes, channels, watermark_ms, now_ms, before),
        None if channels.without_times or facts.is_slowest_clock else barrel_rule(nodes, channels, in_force_ms),
        SparkProgress(
            watermark_ms=None if facts.is_by_driver else watermark_ms,
            batch_watermark_ms=in_force_ms,
            nodes=views_of(nodes, watermark_ms) or None,
            policy=nodes.policy,
            frozen_ms=frozen_ms(nodes, watermark_ms) if _is_settled(facts) else None,
            has_watermark=_has_watermark(facts, nodes, watermark_ms),
            never_moved=never_moved,
            unmoved=_unmoved_reason(nodes.only, max_event_ms) if never_moved else None,
            max_event_ms=max_event_ms,
        ),
    )


def _next_watermark(facts: QueryFacts, nodes: Nodes) -> int | None:
    """The watermark of the next batch, by the last commit; else by one node's clock, else by the last batch.

    It is not known before the batch in flight has ended: then it is that batch's own.
    """
    if facts.begun is not None:
        known = facts.begun.next_watermark_ms
        return facts.begun.watermark_ms if known is None else known
    in_force = facts.progress.watermark_ms if facts.progress is not None else None
    delay_ms = nodes.only.delay_ms if nodes.only is not None else None
    if facts.run is None or delay_ms is None or facts.run.max_event_ms is None or facts.is_slowest_clock:
        return in_force
    clock = facts.run.max_event_ms - delay_ms
    return clock if in_force is None else max(clock, in_force)


def _level(
    facts: QueryFacts, nodes: Nodes, channels: Channels, watermark_ms: int | None, now_ms: int, before: Snapshot | None
) -> Level:
    if watermark_ms is None:
        return Level()
    fastest = [view.watermark_ms for view in channels.views if view.watermark_ms is not None]
    moved_ms = _moved_ms(facts, watermark_ms)
    started_ms = facts.run.started_ms if facts.run is not None else None
    was = before.level if before is not None and started_ms in (None, before.spark.run_started_ms) else Level()
    before_ms = was.moved_ms if was.watermark_ms == watermark_ms else None
    moved_ms = min((ms for ms in (moved_ms, before_ms) if ms is not None), default=None)
    return Level(
        watermark_ms=watermark_ms,
        behind_fastest_ms=max(0, max(fastest) - watermark_ms) if fastest else None,
        behind_clock_ms=now_ms - watermark_ms,
        moved_ms=moved_ms,
        at_zero_lateness_ms=None if nodes.delay_ms is None else watermark_ms + nodes.delay_ms,
    )


def _moved_ms(facts: QueryFacts, watermark_ms: int) -> int | None:
    """The start of the batch whose end gave the watermark its value, at the latest: older ones may not be recorded."""
    history, run = facts.history, facts.run
    reported = run.history if run is not None else ()
    is_of_run = facts.checkpoint is None or (run is not None and run.started_ms is not None)
    if is_of_run and all(batch.watermark_ms == watermark_ms for batch in (*history, *reported)):
        return None  # the run before may have left it there
    other = (batch.begin_ms for batch in reversed(history) if batch.watermark_ms != watermark_ms)
    times = [next(other, history[0].begin_ms)] if history else []
    if run is not None and run.progress is not None and run.progress.watermark_ms == watermark_ms:
        times += [] if run.moved_ms is None else [run.moved_ms]
    return min(times, default=None)


def views_of(nodes: Nodes, watermark_ms: int | None) -> list[WatermarkNode]:
    """The nodes for the snapshot, and which of them sets the query's watermark (ms), if known."""
    if nodes.only is not None:
        return [_view(nodes.only, watermark_ms if nodes.only.alone else None)]
    pinned = _pinned(nodes, watermark_ms)
    times, holder = _times_and_holder(nodes, watermark_ms)
    return [
        _view(node, times[place], holds=place == holder or place in pinned, pinned=pinned.get(place))
        for place, node in enumerate(nodes.nodes)
    ]


def _times_and_holder(nodes: Nodes, watermark_ms: int | None) -> tuple[list[int | None], int | None]:
    """Each node's own watermark (ms), and the place of the node that sets the query's; None: not known.

    Under the policy "min": if the watermark is below all known ones, the unknown node holds it back, at exactly that
    watermark.
    """
    times = [node.spark_ms for node in nodes.nodes]
    if watermark_ms is None or nodes.policy is None:
        return times, None
    if nodes.policy == "min":
        for place, node in enumerate(nodes.nodes):
            # No node is below the query's watermark: one that cannot be above it, at most without delay, sets it.
            if times[place] is None and node.at_most_event_ms == watermark_ms + (node.delay_ms or 0):
                times[place] = watermark_ms
    known = [time for time in times if time is not None]
    unknown = [place for place, time in enumerate(times) if time is None]
    if known:
        first = min(known) if nodes.policy == "min" else max(known)
        if not unknown or first == watermark_ms:
            return times, times.index(first)
        if (watermark_ms >= first) if nodes.policy == "min" else (watermark_ms <= first):
            return times, None
    candidates = [
        place
        for place in unknown
        if nodes.policy == "max" or (nodes.nodes[place].at_least_ms or watermark_ms) <= watermark_ms
    ]
    if len(candidates) != 1:
        return times, None
    times[candidates[0]] = watermark_ms
    return times, candidates[0]


def _view(
    node: Node, watermark_ms: int | None, *, holds: bool = False, pinned: PinnedReason | None = None
) -> WatermarkNode:
    return WatermarkNode(
        column=node.column,
        delay_ms=node.delay_ms,
        watermark_ms=watermark_ms,
        holds=holds,
        pinned=pinned,
        after_state=node.after_state,
        above=list(node.above),
        sources=None if node.sources is None else list(node.sources),
        at_least_ms=node.at_least_ms if watermark_ms is None else None,
    )


def _pinned(nodes: Nodes, watermark_ms: int | None) -> dict[int, PinnedReason]:
    """The nodes that keep a query at 1970 while its other nodes have had records, by their place, and why."""
    if watermark_ms is not None or nodes.policy == "max" or all(node.silent for node in nodes.nodes):
        return {}
    pinned: dict[int, PinnedReason] = {place: "no_input" for place, node in enumerate(nodes.nodes) if node.silent}
    for place, node in enumerate(nodes.nodes):
        if node.after_state and any(not nodes.nodes[below].silent for below in node.above):
            pinned[place] = "own_output"
    return pinned


def frozen_ms(nodes: Nodes, watermark_ms: int | None) -> int | None:
    """The event time (ms) missing until the watermark moves again, if a longer delay since a restart put it above what
    its records give. None if that is not known: the first records of a new run may just be older than those before.
    """
    times = [node.spark_ms for node in nodes.nodes]
    known = [time for time in times if time is not None]
    if watermark_ms is None or not known or (nodes.policy == "max" and len(known) < len(times)):
        return None
    first_ms = max(known) if nodes.policy == "max" else min(known)
    is_raised = any(_is_raised(node, watermark_ms) for node in nodes.nodes if node.spark_ms == first_ms)
    return watermark_ms - first_ms if is_raised and first_ms < watermark_ms else None


def _is_raised(node: Node, watermark_ms: int) -> bool:
    """Whether a longer delay since a restart keeps its own watermark below the query's.

    Not because of a shorter delay at the first start alone if even that leaves it below: then its rows are older than
    those before the restart, whatever delay these had.
    """
    first_ms = node.first_delay_ms
    if node.raised or first_ms is None or node.spark_ms is None or node.delay_ms is None:
        return node.raised
    return first_ms < node.delay_ms and node.spark_ms + node.delay_ms - first_ms >= watermark_ms


def _is_settled(facts: QueryFacts) -> bool:
    """Whether the last reported batch is the last committed one: only then the reports and the watermark agree."""
    checkpoint, last = facts.checkpoint, facts.progress
    return last is not None and (checkpoint is None or checkpoint.committed == last.batch)


def barrel_rule(nodes: Nodes, channels: Channels, in_force_ms: int | None) -> BarrelRule | None:
    """The watermark by the slowest channel; None if no channel is known. `in_force_ms`: Spark's in the last batch."""
    if not channels.views:
        return None
    reached = [(view.max_event_ms, view.channel) for view in channels.views if view.max_event_ms is not None]
    below = sorted((ms, name) for ms, name in reached if in_force_ms is not None and ms <= in_force_ms)
    slowest = min(channels.views, key=_reached)
    if any(node.taps for node in nodes.nodes):
        barrel_ms = barrel_watermark(nodes)
    else:  # the partitions of the only node's source: one without a record keeps the barrel empty
        delay_ms = nodes.delay_ms if nodes.only is not None else None
        is_complete = len(reached) == len(channels.views)
        barrel_ms = min(ms for ms, _ in reached) - delay_ms if delay_ms is not None and is_complete else None
    is_known = barrel_ms is not None or slowest.state == "never_seen"
    return BarrelRule(
        watermark_ms=barrel_ms,
        holder=slowest.channel if is_known else None,
        below=[name for _, name in below],
        whatif=channels.barrel_whatif,
    )


def _reached(view: ChannelView) -> float:
    """A channel's watermark; if no delay is known, its event time."""
    time = view.max_event_ms if view.watermark_ms is None else view.watermark_ms
    return float("-inf") if time is None else time


def barrel_watermark(nodes: Nodes) -> int | None:
    """The query's watermark (ms) by the barrel's rule; None if the channels of a node are not all known."""
    times = [node.barrel_ms for node in nodes.nodes]
    known = [time for time in times if time is not None]
    if not known or len(known) < len(times) or (len(times) > 1 and nodes.policy is None):
        return None
    return max(known) if nodes.policy == "max" else min(known)


def _has_watermark(facts: QueryFacts, nodes: Nodes, watermark_ms: int | None) -> bool | None:
    """Whether the query has a watermark; a checkpoint alone shows only one that has moved, or is in the state."""
    if facts.plan is not None:
        return bool(nodes.nodes)
    if facts.checkpoint is not None and facts.checkpoint.continuous:
        return False
    return True if nodes.nodes or watermark_ms is not None else None


def _never_moved(facts: QueryFacts, nodes: Nodes, watermark_ms: int | None) -> bool | None:
    if not nodes.nodes or facts.is_by_driver:  # a driver does not tell which batches had rows
        return None
    has_read = facts.run is not None and bool(facts.run.unmoved)
    has_state = any(windows.batch is not None and windows.keys for windows in facts.windows or ())
    committed = facts.checkpoint if facts.checkpoint is not None and facts.checkpoint.committed is not None else None
    # Kafka's first batch has offsets even without records.
    has_input = committed is not None and any(source.kind not in ("nothing", "kafka") for source in committed.sources)
    return watermark_ms is None and (has_read or has_state or (len(nodes.nodes) > 1 and has_input))


def _unmoved_reason(node: Node | None, max_event_ms: int | None) -> UnmovedReason | None:
    """Why the only watermark stays at 1970. Spark treats a row without an event time as one of 1970."""
    if node is None or node.delay_ms is None or max_event_ms is None:
        return None
    if max_event_ms <= 0:
        return "before_1970" if max_event_ms else "no_event_time"
    return "delay_too_long" if max_event_ms <= node.delay_ms else None
