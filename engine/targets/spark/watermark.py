"""The watermark of an attached query: what Spark makes of its nodes, and what the slowest channel would. Pure."""

from typing import Literal

from msgspec import Struct

from ...snapshot import BarrelRule, ChannelView, Level, Snapshot, SparkProgress, UnmovedReason, WatermarkNode
from . import known
from .facts import QueryFacts
from .inputs import Channels
from .nodes import Node, Nodes

PinnedReason = Literal["no_input", "own_output"]


class QueryWatermark(Struct, frozen=True):
    """A query's watermark: its value, the nodes that set it, and why it does not move (in `spark`)."""

    level: Level
    barrel: BarrelRule | None
    spark: SparkProgress
    """The fields about the watermark."""


def watermark_of(
    facts: QueryFacts, nodes: Nodes, channels: Channels, now_ms: int, before: Snapshot | None
) -> QueryWatermark:
    """The watermark at `now_ms` (epoch ms); `before` is the last snapshot."""
    watermark_ms, is_next = _next_watermark(facts, nodes)
    never_moved = _never_moved(facts, nodes, watermark_ms) if is_next else None
    progress = facts.progress
    reported_ms = facts.begun.watermark_ms if facts.begun else progress and progress.watermark_ms
    running_ms = facts.running.watermark_ms if facts.running is not None and facts.is_by_driver else watermark_ms
    in_force_ms = reported_ms if facts.running is None else running_ms
    max_event_ms = facts.run.max_event_ms if nodes.only is not None else None
    # Only where the last reported batch is the last committed one, the reports and the watermark agree.
    is_settled = progress is not None and (facts.checkpoint is None or facts.checkpoint.committed == progress.batch)
    return QueryWatermark(
        _level(facts, nodes, channels, watermark_ms, now_ms, before),
        None if channels.without_times or facts.is_slowest_clock else barrel_rule(nodes, channels, in_force_ms),
        SparkProgress(
            watermark_ms=watermark_ms if is_next else None,
            batch_watermark_ms=in_force_ms,
            nodes=views_of(nodes, watermark_ms, is_next=is_next, is_own=watermark_ms != facts.run.first_watermark_ms)
            or None,
            policy=nodes.policy,
            frozen_ms=frozen_ms(nodes, watermark_ms) if is_settled and is_next else None,
            has_watermark=_has_watermark(facts, nodes, watermark_ms),
            never_moved=never_moved,
            unmoved=_unmoved_reason(nodes.only, max_event_ms) if never_moved else None,
            max_event_ms=max_event_ms,
        ),
    )


def _next_watermark(facts: QueryFacts, nodes: Nodes) -> tuple[int | None, bool]:
    """The watermark of the next batch, by the last commit, else by the nodes' clocks, and whether it is known: before
    the batch in flight has ended, or where a clock is not known, it is the last batch's own, and may be higher.
    """
    if facts.begun is not None:
        next_ms = facts.begun.next_watermark_ms
        return (facts.begun.watermark_ms if next_ms is None else next_ms), True
    in_force_ms = (facts.running and facts.running.watermark_ms) or (facts.progress and facts.progress.watermark_ms)
    reached = [0 if node.silent else node.spark_ms for node in nodes.nodes]
    is_known = facts.plan is not None and (nodes.policy is not None or len(reached) < 2)
    if not is_known or (None in reached and not _is_unmoved(facts, nodes)):
        return in_force_ms, False
    clock_ms = nodes.combined(*reached, in_force_ms if None in reached else None)
    return max(clock_ms or 0, in_force_ms or 0) or None, True


def _is_unmoved(facts: QueryFacts, nodes: Nodes) -> bool:
    """Whether it did not move in more than a batch with rows, and no row of the last one may move a hidden clock."""
    rows = [source.num_input_rows for source in facts.progress.sources] if facts.progress is not None else []
    hidden = [node.sources for node in nodes.nodes if node.spark_ms is None and not node.silent]
    return (facts.run.unmoved or 0) > 1 and not any(
        not sources or any(rows[at] for at in sources) for sources in hidden
    )


def _level(
    facts: QueryFacts, nodes: Nodes, channels: Channels, watermark_ms: int | None, now_ms: int, before: Snapshot | None
) -> Level:
    if watermark_ms is None:
        return Level()
    fastest = known(*(view.watermark_ms for view in channels.views))
    is_same_run = before is not None and facts.run.started_ms in (None, before.spark.run_started_ms)
    was = before.level if before is not None and is_same_run else Level()
    before_ms = was.moved_ms if was.watermark_ms == watermark_ms else None
    return Level(
        watermark_ms=watermark_ms,
        behind_fastest_ms=max(0, max(fastest) - watermark_ms) if fastest else None,
        behind_clock_ms=now_ms - watermark_ms,
        moved_ms=min(known(_moved_ms(facts, watermark_ms), before_ms), default=None),
        at_zero_lateness_ms=None if nodes.delay_ms is None else watermark_ms + nodes.delay_ms,
    )


def _moved_ms(facts: QueryFacts, watermark_ms: int) -> int | None:
    """The start of the batch whose end gave the watermark its value, at the latest: older ones may not be recorded."""
    history, run = facts.history, facts.run
    is_of_run = facts.checkpoint is None or run.started_ms is not None
    if is_of_run and all(batch.watermark_ms == watermark_ms for batch in history):
        return None  # the run before may have left it there
    other = (batch.begin_ms for batch in reversed(history) if batch.watermark_ms != watermark_ms)
    recorded_ms = next(other, history[0].begin_ms) if history else None
    is_reported = run.progress is not None and run.progress.watermark_ms == watermark_ms
    return min(known(recorded_ms, run.moved_ms if is_reported else None), default=None)


def views_of(nodes: Nodes, watermark_ms: int | None, *, is_next: bool, is_own: bool) -> list[WatermarkNode]:
    """The nodes for the snapshot, and which of them sets the query's watermark (ms), if known: not by one that is not
    the next batch's; one that is not the run's own was left by the run before it.
    """
    if nodes.only is not None:
        return [_view(nodes.only, watermark_ms if nodes.only.alone else None)]
    pinned = _pinned(nodes, watermark_ms)
    times, holder = _times_and_holder(nodes, watermark_ms if is_next else None, is_own=is_own)
    return [
        _view(node, times[place], holds=place == holder or place in pinned, pinned=pinned.get(place))
        for place, node in enumerate(nodes.nodes)
    ]


def _times_and_holder(nodes: Nodes, watermark_ms: int | None, *, is_own: bool) -> tuple[list[int | None], int | None]:
    """Each node's own watermark (ms), and the place of the node that sets the query's; None: not known.

    Under the policy "min": if the watermark is below all known ones, the unknown node holds it back, at exactly that
    watermark; at most, if an earlier run left it. Under "max" then no node has to have reached it.
    """
    times = [node.spark_ms for node in nodes.nodes]
    if watermark_ms is None or nodes.policy is None:
        return times, None
    if nodes.policy == "min" and is_own:
        for place, node in enumerate(nodes.nodes):
            # No node is below the query's watermark: one that cannot be above it, at most without delay, sets it.
            if times[place] is None and node.at_most_event_ms == watermark_ms + (node.delay_ms or 0):
                times[place] = watermark_ms
    candidates = [place for place, time in enumerate(times) if time is None]
    first = nodes.combined(*times)
    if first is not None and (not candidates or first == watermark_ms):
        return times, times.index(first)
    if nodes.policy == "min":
        is_beyond = first is None or watermark_ms < first
        candidates = [at for at in candidates if (nodes.nodes[at].at_least_ms or watermark_ms) <= watermark_ms]
    else:
        is_beyond = is_own and (first is None or watermark_ms > first)
    if len(candidates) != 1 or not is_beyond:
        return times, None
    times[candidates[0]] = watermark_ms if is_own else None
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
    reached = [node.spark_ms for node in nodes.nodes]
    first_ms = nodes.combined(*reached)
    if watermark_ms is None or first_ms is None or (nodes.policy == "max" and None in reached):
        return None
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
    reached = [node.barrel_ms for node in nodes.nodes]
    return None if None in reached else nodes.combined(*reached)


def _has_watermark(facts: QueryFacts, nodes: Nodes, watermark_ms: int | None) -> bool | None:
    """Whether the query has a watermark; a checkpoint alone shows only one that has moved, or is in the state."""
    if facts.plan is not None:
        return bool(nodes.nodes)
    if facts.stored.continuous:
        return False
    return True if nodes.nodes or watermark_ms is not None else None


def _never_moved(facts: QueryFacts, nodes: Nodes, watermark_ms: int | None) -> bool | None:
    if not nodes.nodes or facts.is_by_driver:  # a driver does not tell which batches had rows
        return None
    has_state = any(windows.batch is not None and windows.keys for windows in facts.windows or ())
    committed = facts.stored.sources if facts.stored.committed is not None else ()
    # Kafka's first batch has offsets even without records.
    has_input = any(source.kind not in ("nothing", "kafka") for source in committed)
    return watermark_ms is None and (bool(facts.run.unmoved) or has_state or (len(nodes.nodes) > 1 and has_input))


def _unmoved_reason(node: Node | None, max_event_ms: int | None) -> UnmovedReason | None:
    """Why the only watermark stays at 1970. Spark treats a row without an event time as one of 1970."""
    if node is None or node.delay_ms is None or max_event_ms is None:
        return None
    if max_event_ms <= 0:
        return "before_1970" if max_event_ms else "no_event_time"
    return "delay_too_long" if max_event_ms <= node.delay_ms else None
