"""The pipeline's aggregation in plain Python: the rows of one batch into what the monitor is told of it."""

import pickle
from collections import defaultdict

from wmtop.engine.watermarks.generators import CustomGenerator, CustomWatermarks, new_generator
from wmtop.engine.watermarks.lateness import bucket_of
from wmtop.engine.watermarks.monitor import Monitor
from wmtop.engine.watermarks.observation import BatchObservation, Group, Sequence
from wmtop.engine.watermarks.settings import Session
from wmtop.engine.watermarks.times import FIRST_USABLE_MS, LAST_USABLE_MS, MIN, saturate
from wmtop.engine.watermarks.windows import window_count

from ..reference.ops import NO_CHANNEL, Batch, Row
from .panes import pane_of

Key = tuple[str, int, bool, int | None, int | None]
"""Channel, start, head, behind bucket, late bucket."""


def observe(monitor: Monitor, op: Batch, batch: int) -> BatchObservation:
    """One batch as the query would report it to this monitor."""
    groups: dict[Key, list[Row]] = defaultdict(list)
    malformed: dict[str, int] = defaultdict(int)
    for row in op.rows:
        channel = NO_CHANNEL if row.channel is None else row.channel
        no_arrival = op.own_arrival and row.arrival is None
        if row.ts is None or no_arrival or not FIRST_USABLE_MS <= row.ts <= LAST_USABLE_MS:
            malformed[channel] += 1
        else:
            groups[_key(monitor, channel, row.ts)].append(row)
    return BatchObservation(
        batch=batch,
        now_ms=op.now,
        groups=[
            *(_group(monitor, key, rows, op) for key, rows in groups.items()),
            *(Group(channel, None, False, count) for channel, count in malformed.items()),
        ],
        behind=_behind(groups),
        sequences=_sequences(monitor, op, groups) if monitor.settings.strategy in ("smoothed", "custom") else [],
    )


def _behind(groups: dict[Key, list[Row]]) -> dict[str, dict[int, int]]:
    behind: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for (channel, _, _, bucket, _), rows in groups.items():
        if bucket is not None:
            behind[channel][bucket] += len(rows)
    return behind


def _key(monitor: Monitor, channel: str, ts: int) -> Key:
    spec, allowed = monitor.settings.window, monitor.settings.allowed_lateness_ms
    start, head = pane_of(spec, ts)
    known = monitor.edges and monitor.window_w0 != MIN
    behind = bucket_of(monitor.edges, monitor.window_w0 - ts) if known else None
    late = None
    if known and isinstance(spec, Session):
        late = bucket_of(monitor.edges, monitor.window_w0 - (ts + spec.gap_ms - 1) - allowed)
    elif known and not isinstance(spec, Session) and not window_count(spec, head):
        late = bucket_of(monitor.edges, monitor.window_w0 - ts - allowed)
    if isinstance(spec, Session):
        own_end = saturate(ts + spec.gap_ms - 1 + allowed)
        head = monitor.settings.strategy == "spark" and own_end <= monitor.window_level
    return channel, start, head, behind, late


def _is_future(monitor: Monitor, row: Row, op: Batch) -> bool:
    guard = monitor.settings.future_guard_ms
    arrival = row.arrival if op.own_arrival and row.arrival is not None else op.now
    return guard is not None and row.ts is not None and row.ts - arrival > guard


def _group(monitor: Monitor, key: Key, rows: list[Row], op: Batch) -> Group:
    channel, start, head, _, late_bucket = key
    spec, allowed = monitor.settings.window, monitor.settings.allowed_lateness_ms
    times = [row.ts for row in rows if row.ts is not None]
    heard = [row for row in rows if not _is_future(monitor, row, op)]
    in_gap = not isinstance(spec, Session) and not window_count(spec, head)
    return Group(
        channel=channel,
        start_ms=start,
        head=head,
        records=len(rows),
        future=len(rows) - len(heard),
        behind=sum(ts <= monitor.window_level for ts in times),
        late_in_gap=sum(saturate(ts + allowed) <= monitor.window_level for ts in times) if in_gap else 0,
        min_ms=min(times),
        max_ms=max(times),
        max_event_ms=max((row.ts for row in heard if row.ts is not None), default=None),
        emitted_ms=max((at for row in heard if (at := _emitted(monitor, row)) is not None), default=None),
        late_bucket=late_bucket,
    )


def _emitted(monitor: Monitor, row: Row) -> int | None:
    """What `on_event` emits for a record at once."""
    if monitor.settings.strategy == "punctuated":
        return saturate(row.ts - 1) if row.extra and row.ts is not None else None
    return row.extra if monitor.settings.strategy == "source" else None


def _sequences(monitor: Monitor, op: Batch, groups: dict[Key, list[Row]]) -> list[Sequence]:
    """What an order-dependent generator makes of each channel's records, in source order."""
    good = {id(row) for rows in groups.values() for row in rows}
    times: dict[str, list[int]] = defaultdict(list)
    for row in op.rows:
        if id(row) in good and row.ts is not None and not _is_future(monitor, row, op):
            times[NO_CHANNEL if row.channel is None else row.channel].append(row.ts)
    if monitor.settings.strategy == "custom":
        return [_replayed(monitor, channel, seen) for channel, seen in times.items()]
    return [Sequence(channel, seen[-monitor.settings.smooth :]) for channel, seen in times.items()]


def _replayed(monitor: Monitor, channel: str, times: list[int]) -> Sequence:
    """A user's generator, run over the records."""
    generator = monitor.generators().get(channel) or new_generator(monitor.settings)
    assert isinstance(generator, CustomGenerator)
    user: CustomWatermarks = pickle.loads(generator.state)
    emitted = [at for ts in times if (at := user.on_event(ts)) is not None]
    return Sequence(channel, state=pickle.dumps(user), emitted_ms=max(emitted, default=None))
