"""Kafka Streams: each task has a clock of its own, and its windows wait for the records of that task alone."""

from collections.abc import Sequence
from datetime import UTC

from ...snapshot import ChannelView, Clock, KafkaStreams, Reprocessed, Snapshot
from ...text import formatting as f
from ..finding import Finding, Fix, check_channels, n, names, span, stamped, verb
from ..rules import HOUR, MINUTE, DiagnosisInput, rule
from .kafka_streams_words import (
    age_of,
    clock_name,
    frees_words,
    inputs_of,
    matters,
    place_of,
    producer_line,
    second_from,
    stuck_title,
    windows_wait,
)

FAR_AHEAD_MS = 5 * MINUTE
"""Clocks of machines differ; a stream time further ahead of the clock than this comes from a wrong timestamp."""
CHECK_APPLICATION = Fix(
    "check-application", "Check that the application runs and processes: its log, its threads, rebalances"
)
CHECK_KEYS = Fix(
    "check-keys", "Check the keys before the repartition: none of the new records has one that belongs to this task"
)
CHECK_TIMES = Fix("check-event-time", "Look at the event times of its new records, and at the TimestampExtractor")
COMPARE_RESULTS = Fix(
    "compare-results",
    "Compare the results of these windows; let readers of the output keep a window's last result, "
    "or emit with EmitStrategy.onWindowClose()",
)
CHECK_RECORD = Fix("check-record", "Find the record and its producer, or reject such times in the TimestampExtractor")


def _clocks(facts: DiagnosisInput) -> Sequence[Clock]:
    seen = facts.lost is None and facts.snapshot.state in ("live", "partial")
    return facts.snapshot.clocks if seen else []


@rule("stream-time-stuck", "Windows", accounts_for=("stalled", "waiting"))
def stream_time_stuck(facts: DiagnosisInput) -> Finding | None:
    """The stream time of a Kafka Streams task does not advance. Windows of that task wait, and no other task's records
    free them: Kafka Streams has no idle timeout.

    Recognised by: the partition times in the group's commits. No input partition of the task advances for longer than
    usual: no data (all read), or records that are not processed. Critical where windows are known to wait: by
    --window and --grace, or by the names of the application's stores.
    What to do: if records are unread, check the application. If none come, check the producers; a record with a later
    event time in one of the task's partitions frees its windows.
    """
    # Tasks without records matter where they may have windows; unprocessed records always do.
    stuck = [one for one in _clocks(facts) if matters(one)]
    clock = _first(facts, stuck)
    if clock is None:
        return None
    snapshot, now_ms, target = facts.snapshot, facts.now_ms, facts.snapshot.target
    unread = sum(view.backlog or 0 for view in inputs_of(snapshot, clock))
    is_down = isinstance(target, KafkaStreams) and target.streams.members == 0
    others = sum(one.verdict == "moving" for one in snapshot.clocks)
    cause = "Unread records are not processed." if unread else "Only a newer record in them advances it."
    empty = [view.channel for view in inputs_of(snapshot, clock) if view.backlog == 0]
    if unread and empty and clock.reason.code != "records_come":
        cause += f" With max.task.idle.ms the task waits that long for records of {names(empty)}."
    if is_down:
        cause += " Its group has no members: the application does not run."
    if others:
        cause += f" {n(others, 'other task')} {'advances' if others == 1 else 'advance'}, which does not help it."
    waits, age = windows_wait(clock.waiting_count) or "Its windows wait", age_of(clock)
    impact = {
        True: f"{waits} until a newer record comes",
        False: "It has no windows: only its own output stops",
        None: "If it has windows, they wait; whether it has any is not known from its commits",
    }[clock.has_windows]
    feeds_repartition = not clock.downstream and any(one.downstream for one in snapshot.clocks)
    if feeds_repartition and clock.has_windows is None:
        impact += " (a task that only feeds a repartition holds nothing)"
    more = len(stuck) - 1
    return Finding(
        severity="critical" if clock.has_windows and clock.waiting_count != 0 else "warning",
        size=float(clock.age_ms or 0),
        channels=tuple(clock.channels),
        title=stuck_title(snapshot, clock),
        impact=impact,
        cause=f"Its windows wait for the greatest event time of its own partitions. {cause}",
        evidence=[
            stamped("Stream time: ", clock.time_ms) or "Stream time: not known",
            f"Unread: {f.count(unread)}",
            f"{n(more, 'other task')} {'is' if more == 1 else 'are'} stuck too" if more else None,
            f"Has not advanced for {age}" if age else None,
            None if clock.waiting is None else lambda zone: f.sentence(frees_words(clock, zone, now_ms) or ""),
        ],
        fixes=_free(snapshot, clock, unread),
    )


def _free(snapshot: Snapshot, clock: Clock, unread: int) -> tuple[Fix, ...]:
    """What gets the stuck task to advance."""
    first = check_channels(clock.channels, ("has no data", "have no data"))
    if clock.reason.code == "records_come":
        first = CHECK_TIMES
    elif unread or clock.downstream:
        first = CHECK_APPLICATION if unread else CHECK_KEYS
    line = None if unread else producer_line(snapshot, clock)
    if line is None or clock.waiting is None:
        return (first,)
    at = f.stamp(second_from(clock.waiting.frees_ms), UTC)
    return first, Fix("send-record", f"Or send a record of {at} or later {place_of(clock, clock.waiting)}: {line}")


def _first(facts: DiagnosisInput, stuck: list[Clock]) -> Clock | None:
    """The clock that the verdict is about, if it is one of them; else the first."""
    target = facts.snapshot.target
    worst = target.worst if isinstance(target, KafkaStreams) else None
    return worst if worst in stuck else next(iter(stuck), None)


@rule("stream-time-slow", "Progress", accounts_for=("slow",))
def stream_time_slow(facts: DiagnosisInput) -> Finding | None:
    """The stream time of a Kafka Streams task falls further and further behind the clock. Its windows close later and
    later.

    Recognised by: over the last minutes each fifth of the time it is further behind the clock than before.
    What to do: if records are unread, add threads or instances up to the number of partitions; else look at the event
    times that its producers send.
    """
    first = _first(facts, [one for one in _clocks(facts) if one.verdict == "slow"])
    if first is None:
        return None
    unread, reason = sum(view.backlog or 0 for view in inputs_of(facts.snapshot, first)), first.reason
    behind_ms = None if first.time_ms is None or facts.now_ms is None else facts.now_ms - first.time_ms
    cause = f"Records of {names(first.channels)} come with older and older event times"
    fix = check_channels(first.channels, ("is behind", "are behind"))
    if unread:
        cause = f"{n(unread, 'record')} unread: it processes more slowly than records come"
        threads = "Add stream threads or instances, at most as many as there are partitions"
        fix = Fix("add-threads", f"{threads}; or make the processing faster")
    return Finding(
        channels=tuple(first.channels),
        title=f"{clock_name(first)} falls behind the clock",
        impact=f"Its {'windows close' if first.has_windows else 'results come'} later and later",
        cause=cause,
        evidence=[
            f"Now {span(behind_ms)} behind the clock",
            None if reason.ms is None else f"{span(reason.ms)} further behind than {span(reason.over_ms)} ago",
        ],
        fixes=(fix,),
    )


@rule("starving-partition", "Windows")
def starving_partition(facts: DiagnosisInput) -> Finding | None:
    """A partition has no data while the others do. Kafka Streams has no idle timeout: in a task with other partitions
    these close the windows without it, once max.task.idle.ms (0 by default) has passed, and its own records are dropped
    when they come; in a task of its own its windows stay open.

    Recognised by: everything in the partition is read, its stream time has not advanced for longer than a stall takes,
    and another partition of the same task or topic advances.
    What to do: check what writes to that partition: an unused key range, a producer that is down, too many partitions.
    """
    quiet = {view.channel: view for view in facts.channels if _quiet_ms(view) > facts.stall_ms}
    moving = {view.channel for view in facts.channels if _has_moved(facts, view)}
    topics = {channel.rpartition("-")[0] for channel in moving}
    inside: list[str] = []
    alone: list[str] = []
    for clock in _clocks(facts):
        own = moving.intersection(clock.channels)
        for channel in clock.channels:
            alike = clock.has_windows is not False and channel.rpartition("-")[0] in topics
            if not clock.downstream and channel in quiet and (own or alike):
                (inside if own else alone).append(channel)
    found = sorted(inside or alone, key=lambda channel: -_quiet_ms(quiet[channel]))
    if not found:
        return None
    windowed = any(clock.has_windows for clock in facts.snapshot.clocks if found[0] in clock.channels)
    quiet_ms, who = _quiet_ms(quiet[found[0]]), names(found)
    impact = f"The windows of {who} stay open"
    cause = "Other partitions of the topic have data, but each task has its own clock, and no idle timeout."
    if inside:
        its = verb(found, "its", "their")
        impact = f"Records that come to {who} later are dropped if {its} windows have closed by then"
        cause = f"Other partitions of the same task advance its clock without {who}."
    return Finding(
        severity="warning" if windowed else "info",
        size=quiet_ms,
        channels=tuple(found),
        title=f"{who} {verb(found, 'has', 'have')} no data while other partitions do",
        impact=impact,
        cause=cause,
        evidence=[f"No newer record for {span(quiet_ms)}", "Unread: 0"],
        fixes=(check_channels(found, ("has no data", "have no data")),),
    )


def _quiet_ms(view: ChannelView) -> int:
    """How long no record has come, where all are read; -1: not known, or some are unread."""
    return -1 if view.quiet_ms is None or view.backlog != 0 else view.quiet_ms


def _has_moved(facts: DiagnosisInput, view: ChannelView) -> bool:
    return None not in (view.since_ms, facts.now_ms) and (facts.now_ms or 0) - (view.since_ms or 0) <= facts.stall_ms


@rule("repartition-drops", "Windows")
def repartition_drops(facts: DiagnosisInput) -> Finding | None:
    """A source partition is behind the others, and its records go through a repartition topic. There the clock is that
    of the fastest source partition: windows close without the records that lag, and these are dropped.

    Recognised by: a source partition has unread records, and its stream time is behind that of tasks downstream of a
    repartition by more than a window and its grace. Without --window and --grace: by more than a minute. Its records
    are dropped in these tasks only: which of its keys go to them is not in the commits.
    What to do: set a grace that covers the spread between the source partitions, or make the slow one faster.
    """
    target = facts.snapshot.target
    down = [one for one in _clocks(facts) if one.downstream]
    if not down or not isinstance(target, KafkaStreams):
        return None
    options, sources = target.streams, [one for one in target.clocks if not one.downstream]
    known = options.window_ms is not None and options.grace_ms is not None
    allowed_ms = (options.window_ms or 0) + (options.grace_ms or 0) if known else MINUTE
    read = {channel for one in sources for channel in one.channels}
    lags = [
        (reached_ms, view, ahead)
        for view in facts.channels
        if view.channel in read and view.backlog and (reached_ms := view.watermark_ms) is not None
        if (ahead := [one for one in down if one.time_ms is not None and one.time_ms - reached_ms > allowed_ms])
    ]
    if not lags:
        return None
    lags.sort(key=lambda lag: lag[0])
    channels, (reached_ms, _, ahead) = tuple(view.channel for _, view, _ in lags), lags[0]
    ahead.sort(key=lambda one: -(one.time_ms or 0))
    behind_ms = (ahead[0].time_ms or 0) - reached_ms
    # Which repartition a sub-topology writes is not in its commits.
    parts = {one.channels[0].rpartition("-")[0] if one.task is None else one.task.partition("_")[0] for one in sources}
    is_sure = known and len(parts) == 1
    who, behind = names(channels), span(behind_ms)
    which = who if is_sure and len(ahead) == len(down) else f"{who} that go to {_some(ahead)}"
    impact = f"May drop records of {which}, if window and grace are shorter than {behind}"
    if known:
        impact = f"Drops records of {which}: {behind} is more than window and grace allow"
    grace = "Set a longer grace in the application (TimeWindows.ofSizeAndGrace), at least the spread"
    return Finding(
        severity="warning" if is_sure else "info",
        size=behind_ms,
        channels=channels,
        title=f"{who} {verb(channels, 'is', 'are')} {behind} behind {_some(ahead)}, downstream of a repartition",
        impact=impact,
        cause=f"Behind the repartition, {clock_name(ahead[0])} has the clock of the fastest source partition that "
        "sends records to it.",
        evidence=[
            f"Unread: {f.count(sum(view.backlog or 0 for _, view, _ in lags))}",
            f"Window and grace: {span(allowed_ms) if known else 'give --window and --grace'}",
            f"{len(ahead)} of {n(len(down), 'task')} downstream {verb(ahead, 'is', 'are')} that far ahead",
        ],
        channel=channels[0],
        fixes=(Fix("lengthen-grace", grace), CHECK_APPLICATION),
    )


def _some(clocks: Sequence[Clock]) -> str:
    """`task 1_3 and 2 more`."""
    return f"{clock_name(clocks[0])}{f' and {len(clocks) - 1:,} more' if len(clocks) > 1 else ''}"


@rule("future-stream-time", "Windows")
def future_stream_time(facts: DiagnosisInput) -> Finding | None:
    """A stream time is far ahead of the clock: a record with a future timestamp closed its task's windows early. The
    records of that task are dropped until real time gets there.

    Recognised by: a partition time in the group's commits is more than 5 minutes ahead of the clock.
    What to do: find the record and its producer, or reject such times in the TimestampExtractor. The stream time does
    not go back: only resetting the offsets makes the task start again.
    """
    ahead = [one for one in facts.snapshot.clocks if one.time_ms is not None]
    first = max(ahead, key=lambda one: one.time_ms or 0, default=None)
    if first is None or first.time_ms is None or facts.now_ms is None or first.time_ms - facts.now_ms <= FAR_AHEAD_MS:
        return None
    who = [view.channel for view in inputs_of(facts.snapshot, first) if view.watermark_ms == first.time_ms]
    ahead_ms = first.time_ms - facts.now_ms
    windows = "Its windows closed early" if first.has_windows else "Windows that it has closed early"
    return Finding(
        severity="critical" if first.has_windows else "warning",
        size=ahead_ms,
        channels=tuple(who or first.channels),
        title=f"{clock_name(first)} is {span(ahead_ms)} ahead of the clock",
        impact=f"{windows}; its records are dropped for {span(ahead_ms)}",
        cause="A record with a future timestamp set its stream time, which never goes back.",
        evidence=[stamped("Stream time ", first.time_ms)],
        fixes=(CHECK_RECORD,),
    )


@rule("reemitted-windows", "Windows")
def reemitted_windows(facts: DiagnosisInput) -> Finding | None:
    """After a restart windows of a Kafka Streams task may come out a second time, with other counts. The commits keep
    the stream time, but the operators forget it: until a newer record comes they accept records of closed windows.

    Recognised by: another member of the group reads the task's partitions than before, and since then it has processed
    records while its stream time stayed what it was. A warning where --window and --grace are given and the event times
    of these records are known: one of them belongs to a window that had been emitted. Not where all belong to windows
    that were open, nor with EmitStrategy.onWindowClose(), whose commits keep what was emitted. A restart before the
    first look is not seen. Shown for an hour, and until the stream time advances.
    What to do: compare the results of these windows. Let the readers of the output keep the last result of a window, or
    emit with EmitStrategy.onWindowClose().
    """
    target = facts.snapshot.target
    if not isinstance(target, KafkaStreams):
        return None
    window_ms, grace_ms = target.streams.window_ms, target.streams.grace_ms or 0
    anywhere = any(clock.has_windows for clock in target.clocks)
    found: list[tuple[bool, Clock, Reprocessed]] = []
    for clock in target.clocks:
        seen = clock.reprocessed
        if seen is None or (anywhere and not clock.has_windows):
            continue
        if seen.is_over and (facts.now_ms or 0) - seen.since_ms > HOUR:
            continue
        first_ms = seen.earliest_ms
        end_ms = None if window_ms is None or first_ms is None else (first_ms // window_ms + 1) * window_ms
        if end_ms is None or end_ms <= seen.time_ms - grace_ms:
            found.append((end_ms is not None, clock, seen))
    if not found:
        return None
    found.sort(key=lambda one: (one[0], one[2].records), reverse=True)
    is_sure, _, seen = found[0]
    up_to, records = seen.time_ms - grace_ms, f"{n(seen.records, 'record')} of {names(seen.channels)}"
    come = "may have come out twice" if seen.is_over else "may come out a second time"
    known = stamped("The oldest of them is of ", seen.earliest_ms) or "Their event times are not known"
    return Finding(
        severity="warning" if is_sure else "info",
        size=seen.records,
        channels=tuple(seen.channels),
        title=f"{_some([clock for _, clock, _ in found])}: windows {come} after a restart",
        impact=f"{'Second' if anywhere else 'If it has windows, second'} results with other counts, from {records}",
        cause="The task was restarted or moved to another member. Its operators then know no stream time until a newer "
        "record comes: they accept records of windows that they have emitted.",
        evidence=[
            stamped("Another member since ", seen.since_ms),
            f"At most {n(seen.records, 'record')} since then without one newer than the stream time",
            known,
            stamped("Windows had been emitted up to " if grace_ms else "The stream time was ", up_to),
        ],
        fixes=(COMPARE_RESULTS,),
    )
