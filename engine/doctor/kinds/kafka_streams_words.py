"""A clock of a Kafka Streams application in words: which task it is, why it is stuck, and what frees it."""

from datetime import tzinfo

from ...snapshot import ChannelView, Clock, Snapshot, WaitingWindow
from ...text import formatting as f
from ..finding import MAX_NAMED, n, names, verb


def clock_name(clock: Clock) -> str:
    """`task 1_3`; the partition where its task is not known."""
    return f"task {f.clean(clock.task)}" if clock.task is not None else names(clock.channels)


def age_of(clock: Clock) -> str:
    """How long its stream time has not advanced: `12m`, `≥ 12m`; empty if not known."""
    return "" if clock.age_ms is None else f"{'≥ ' if clock.age_at_least else ''}{f.duration(clock.age_ms)}"


def inputs_of(snapshot: Snapshot, clock: Clock) -> list[ChannelView]:
    """The input partitions of its task."""
    return [view for view in snapshot.channels if view.channel in clock.channels]


def why_stuck(snapshot: Snapshot, clock: Clock) -> str:
    """`orders-3 has no data`; or that records are unread; or that this is not known."""
    views = inputs_of(snapshot, clock)
    if clock.downstream and views and all(view.backlog == 0 for view in views):
        return "it gets no data"  # from the repartition
    if clock.reason.code == "records_come":
        return f"{names(clock.channels)} {verb(clock.channels, 'gets', 'get')} records, but none is newer"
    if who := [view.channel for view in views if view.backlog]:
        total = sum(view.backlog or 0 for view in views)
        return f"{n(total, 'record')} of {names(who)} {'is' if total == 1 else 'are'} not processed"
    if not views or any(view.backlog is None for view in views):
        return f"whether {names(clock.channels)} has unread records is not known"
    return f"{names(clock.channels)} {verb(clock.channels, 'has', 'have')} no data"


def stuck_title(snapshot: Snapshot, clock: Clock) -> str:
    """`task 1_3 and 2 more: orders-3 has no data`."""
    more = sum(matters(one) for one in snapshot.clocks) - 1
    return f"{clock_name(clock)}{f' and {more:,} more' if more > 0 else ''}: {why_stuck(snapshot, clock)}"


def matters(clock: Clock) -> bool:
    """Whether it is stuck, with records that are not processed, or where windows may wait for new ones."""
    return clock.verdict == "stalled" or (clock.verdict == "waiting" and clock.has_windows is not False)


def frees(clock: Clock, zone: tzinfo | None, near_ms: int | None) -> str | None:
    """`a record of 14:32:10 or later in orders-3`; None: no window waits, or it is not known."""
    waiting = clock.waiting
    if waiting is None:
        return None
    at = f.clock(second_from(waiting.frees_ms), zone, near_ms).partition(".")[0]
    return f"a record of {at} or later {place_of(clock, waiting)}"


def frees_words(clock: Clock, zone: tzinfo | None, near_ms: int | None) -> str | None:
    """`a record of 14:32:10 or later in orders-3 frees the first`."""
    record, many = frees(clock, zone, near_ms), (clock.waiting_count or 0) > 1
    return None if record is None else f"{record} frees {'the first' if many else 'it'}"


def windows_wait(count: int | None) -> str | None:
    """`4 windows wait`; None: not known, or none."""
    return None if not count else f"{n(count, 'window')} {'waits' if count == 1 else 'wait'}"


def producer_line(snapshot: Snapshot, clock: Clock) -> str | None:
    """The command that sends the record which frees the first window, with KEY and VALUE to fill in; None: none waits.

    wmtop never sends it.
    """
    if clock.waiting is None or not clock.waiting.channels:
        return None
    sources = [one.channels[0] for one in snapshot.clocks if not one.downstream and one.channels]
    topic = (sources if clock.downstream and sources else clock.waiting.channels)[0].rpartition("-")[0]
    bootstrap = snapshot.source.bootstrap if snapshot.source is not None and snapshot.source.bootstrap else "BROKERS"
    keyed = "--property parse.key=true --property key.separator='|'"
    return (
        f"echo 'KEY|VALUE' | kafka-console-producer --bootstrap-server {f.clean(bootstrap)} "
        f"--topic {f.clean(topic)} {keyed}"
    )


def second_from(ms: int) -> int:
    """The first whole second that is not before `ms` (epoch ms)."""
    return -(-ms // f.SECOND) * f.SECOND


def place_of(clock: Clock, waiting: WaitingWindow) -> str:
    """Where a record has to come that frees the window: `in orders-3 or orders-7`."""
    if clock.downstream:
        return f"repartitioned to {clock_name(clock)}"
    return f"in {' or '.join(f.name(channel) for channel in waiting.channels[:MAX_NAMED])}"
