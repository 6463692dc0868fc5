"""The watermark nodes and the channels of an attached query. Pure.

A node is one `withWatermark` of the plan. Spark has one clock per node, driven by the fastest channel, and combines the
nodes by its policy. Channels come from the query's taps, or else are the partitions that the broker reports.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal

from msgspec import Struct

from ...snapshot import ChannelView, WhatIf
from ..topic import PartitionFacts, TopicFacts
from .checkpoint import CheckpointFacts
from .facts import QueryFacts
from .query_runs import InputBatch, InputFacts, PlanFacts, QueryRun

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
        seen_ms = max((tap.max_ms for tap in self.taps if tap.max_ms is not None), default=None)
        greatest_ms = self.max_ms if self.max_ms is not None or self.filtered_taps else seen_ms
        return self._behind(greatest_ms)

    @property
    def at_least_ms(self) -> int | None:
        """What its own watermark has reached at least, by Spark's reports."""
        return self._behind(self.at_least_event_ms)

    @property
    def at_most_ms(self) -> int | None:
        """What its own watermark has reached at most; a node without a known delay counts as one without delay."""
        return None if self.at_most_event_ms is None else self.at_most_event_ms - (self.delay_ms or 0)

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

    @property
    def only_tap(self) -> InputFacts | None:
        """The tap, if there is one node with one tap: with several on one clock, no tap knows the others' effect."""
        return self.only.taps[0] if self.only is not None and len(self.only.taps) == 1 else None

    @property
    def has_taps(self) -> bool:
        """Whether a tap below a node has reported."""
        return any(node.taps for node in self.nodes)


def nodes_of(facts: QueryFacts) -> Nodes:
    """The nodes by the plan; without a plan those in the state, with the delays of the first start."""
    checkpoint, run = facts.checkpoint, facts.run
    kept = _POLICIES.get(checkpoint.watermark_policy if checkpoint is not None else None)
    policy = kept or _POLICIES.get(run.watermark_policy if run is not None else None)
    if run is not None and run.plan is not None:
        return Nodes(_nodes_of_plan(run, run.plan), policy)
    return Nodes(() if checkpoint is None else _nodes_of_state(checkpoint), policy)


def _nodes_of_plan(run: QueryRun, plan: PlanFacts) -> tuple[Node, ...]:
    taps = {tap.name: tap for tap in run.inputs}
    reported = len(run.progress.sources) if run.progress is not None else None
    is_mapped = reported == 1 or plan.leaves == reported  # joined tables are leaves, too: then the order is not clear
    # If the query has only one source, it is that of every node: a watermark belongs to a stream.
    sources = [(0,) if reported == 1 else node.sources for node in plan.nodes]
    nodes: list[Node] = []
    for place, node in enumerate(plan.nodes):
        min_ms, max_ms = _bounds_of(run, plan, sources, place) if is_mapped else (None, None)
        is_silent = run.silent is not None and bool(sources[place]) and set(sources[place]) <= set(run.silent)
        nodes.append(
            Node(
                column=node.column,
                delay_ms=node.delay_ms,
                taps=tuple(taps[name] for name in node.inputs if name in taps),
                max_ms=max_ms if min_ms == max_ms else None,
                at_least_event_ms=min_ms,
                at_most_event_ms=max_ms,
                sources=sources[place] if is_mapped else None,
                silent=is_mapped and is_silent,
                above=node.above,
                after_state=node.after_state,
                filtered_taps=node.filtered_taps,
            )
        )
    return tuple(nodes)


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


_RATE_BATCHES = 8
"""Batches over which a channel's rate is measured."""


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


def channels_of(facts: QueryFacts, nodes: Nodes, now_ms: int) -> Channels:
    """The channels at `now_ms` (epoch ms), with watermarks by the delays of the nodes."""
    inputs = facts.run.inputs if facts.run is not None else ()
    views, topics = channels_of_taps(inputs, nodes, now_ms), facts.topics
    origin: Literal["tap", "broker"] | None = "tap" if views else "broker" if topics is not None else None
    without_times = origin == "broker" and topics is not None and topics.assumed
    if origin == "broker" and topics is not None:
        views = channels_of_topics(topics, nodes.delay_ms, without_times=without_times)
    tap = nodes.only_tap
    return Channels(
        views=views,
        origin=origin,
        without_times=without_times,
        inputs=inputs,
        whatif=None if tap is None or tap.lateness is None else _whatif(tap, tap.lateness.spark),
        barrel_whatif=None if tap is None or tap.lateness is None else _whatif(tap, tap.lateness.barrel),
        bucket_ms=None if tap is None or tap.lateness is None else tap.lateness.bucket_ms,
    )


def channels_of_taps(inputs: Sequence[InputFacts], nodes: Nodes, now_ms: int) -> list[ChannelView]:
    """The channels of taps; if several inputs have channels, a channel's name begins with its input's."""
    delays = {tap.name: node.delay_ms for node in nodes.nodes for tap in node.taps}
    taps = [tap for tap in inputs if tap.channels]
    return [
        view for tap in taps for view in _channels_of_tap(tap, delays.get(tap.name), now_ms, is_named=len(taps) > 1)
    ]


def _channels_of_tap(tap: InputFacts, delay_ms: int | None, now_ms: int, *, is_named: bool) -> Iterator[ChannelView]:
    last_seen = {name: batch.timestamp_ms for batch in tap.recent for name in batch.channels}
    rates = _rates(tap.recent[-_RATE_BATCHES:])
    for name, channel in tap.channels.items():
        seen_ms = last_seen.get(name)
        yield ChannelView(
            channel=f"{tap.name}/{name}" if is_named else name,
            watermark_ms=None if delay_ms is None else channel.max_ms - delay_ms,
            max_event_ms=channel.max_ms,
            state="active",
            records=channel.rows,
            behind_watermark=None,
            late=None,
            malformed=None,
            future=None,
            quiet_ms=None if seen_ms is None else max(0, now_ms - seen_ms),
            flaps=None,
            rate=None if rates is None else rates.get(name, 0.0),
        )


def _rates(batches: Sequence[InputBatch]) -> dict[str, float] | None:
    """Rows per second by channel: those of all batches but the first, over the time since the first began."""
    times = [batch.timestamp_ms for batch in batches if batch.timestamp_ms is not None]
    if len(times) < 2 or any(after <= before for before, after in pairwise(times)):
        return None
    rows: dict[str, int] = {}
    for batch in batches[1:]:
        for name, channel in batch.channels.items():
            rows[name] = rows.get(name, 0) + channel.rows
    seconds = (times[-1] - times[0]) / 1000
    return {name: number / seconds for name, number in rows.items()}


def channels_of_topics(topics: TopicFacts, delay_ms: int | None, *, without_times: bool = False) -> list[ChannelView]:
    """The partitions, as far as the query has read them, with the watermark that Spark's clock would have by each
    alone.
    """
    is_named = len({partition.topic for partition in topics.partitions}) > 1
    return [
        _channel_of_partition(
            partition, delay_ms, is_named=is_named, is_current=topics.trouble is None, without_times=without_times
        )
        for partition in topics.partitions
    ]


def _channel_of_partition(
    partition: PartitionFacts, delay_ms: int | None, *, is_named: bool, is_current: bool, without_times: bool
) -> ChannelView:
    event_ms = None if without_times else partition.event_ms
    newest_ms = None if without_times else partition.newest_ms
    unread = partition.unread if is_current else None
    has_data = event_ms is not None or (without_times and bool(partition.position))
    return ChannelView(
        channel=f"{partition.topic}-{partition.partition}" if is_named else str(partition.partition),
        watermark_ms=None if event_ms is None or delay_ms is None else event_ms - delay_ms,
        max_event_ms=event_ms,
        state="active" if has_data else "never_seen",
        records=None,
        behind_watermark=None,
        late=None,
        malformed=None,
        future=None,
        flaps=None,
        backlog=unread,
        behind_end_ms=None if event_ms is None or newest_ms is None or unread is None else max(0, newest_ms - event_ms),
    )


def _whatif(tap: InputFacts, counts: Sequence[int] | None) -> list[WhatIf] | None:
    """The rows that would have been late at each delay."""
    rows = tap.rows - tap.nulls
    if tap.lateness is None or counts is None or not rows:
        return None
    return [
        WhatIf(lateness_ms=delay_ms, late=late, late_share=late / rows, delay_ms=None, behind_watermark=late)
        for delay_ms, late in zip(tap.lateness.delays_ms, counts, strict=True)
    ]
