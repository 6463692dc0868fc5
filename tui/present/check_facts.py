"""The facts that `wmtop check` compares: named numbers and words of one snapshot, None where not known. Pure."""

import re
from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from ...engine.core.doctor import Finding
from ...engine.core.history import HistoryPoint, backlog
from ...engine.core.snapshot import ChannelView, Snapshot, VerdictName

Kind = Literal["duration", "share", "count", "ratio", "word"]
Value = float | str | None


class CheckInput(Struct, frozen=True):
    """The input for the facts."""

    snapshot: Snapshot
    past: Sequence[HistoryPoint]
    verdict: VerdictName
    findings: Sequence[Finding]


class Fact(Struct, frozen=True):
    """A fact: the type of its values (durations in ms), and how it is computed."""

    kind: Kind
    take: Callable[[CheckInput], Value]


def _late_share(given: CheckInput) -> Value:
    totals = given.snapshot.totals
    return None if totals.late is None or not totals.records else totals.late / totals.records


def _late_share_recent(given: CheckInput) -> Value:
    """The late share of the history (at most 15 min)."""
    if given.snapshot.totals.late is None or len(given.past) < 2:
        return None
    records = given.past[-1].records - given.past[0].records
    return (given.past[-1].late - given.past[0].late) / records if records > 0 else None


def _holder_for(given: CheckInput) -> Value:
    holder, now = given.snapshot.level.holder, given.snapshot.now_ms
    return None if holder is None or now is None else max(now - holder.since_ms, 0)


def _stalled_for(given: CheckInput) -> Value:
    """How long the watermark has not advanced; 0 unless it is stalled, or will be once that has lasted."""
    if given.verdict == "unknown":
        return None
    if given.verdict != "stalled" and not _is_frozen(given.snapshot):
        return 0
    now, level = given.snapshot.now_ms, given.snapshot.level
    since = level.moved_ms
    for point in reversed(given.past):
        if point.watermark_ms != level.watermark_ms:
            break
        since = point.now_ms if since is None else min(since, point.now_ms)
    return None if now is None or since is None else max(now - since, 0)


def _is_frozen(snapshot: Snapshot) -> bool:
    """Whether the watermark has not advanced in a whole horizon while data comes, under an older verdict.

    A new verdict is in force only after a quarter of the horizon.
    """
    verdict = snapshot.verdict
    if verdict.verdict not in ("moving", "slow") or verdict.speed != 0:
        return False
    if verdict.verdict == "moving" and not verdict.reason.ms:
        return False  # records come, and none is newer than those before
    horizon = verdict.horizon_ms or 0
    views = snapshot.channels
    return any(view.backlog or (view.quiet_ms is not None and view.quiet_ms < horizon) for view in views)


def _in_state(state: str) -> Callable[[CheckInput], Value]:
    def count(given: CheckInput) -> Value:
        channels = given.snapshot.channels
        return sum(view.state == state for view in channels) if channels else None

    return count


def _backlog_time(given: CheckInput) -> Value:
    return max((ms for view in given.snapshot.channels if (ms := view.behind_end_ms) is not None), default=None)


def _speed(given: CheckInput) -> Value:
    """Event time that the watermark advanced by, per processing time: the verdict's, else that of the last minute."""
    if given.snapshot.verdict.speed is not None:
        return given.snapshot.verdict.speed
    points = [point for point in given.past if point.wall_ms >= given.past[-1].wall_ms - 60_000]
    if given.verdict == "unknown" or len(points) < 2 or points[-1].now_ms <= points[0].now_ms:
        return None
    first, last = points[0].watermark_ms, points[-1].watermark_ms
    return None if first is None or last is None else (last - first) / (points[-1].now_ms - points[0].now_ms)


FACTS: dict[str, Fact] = {
    "level_lag": Fact("duration", lambda given: given.snapshot.level.behind_clock_ms),
    "behind_fastest": Fact("duration", lambda given: given.snapshot.level.behind_fastest_ms),
    "late_share": Fact("share", _late_share),
    "late_share_recent": Fact("share", _late_share_recent),
    "holder_for": Fact("duration", _holder_for),
    "stalled_for": Fact("duration", _stalled_for),
    "idle": Fact("count", _in_state("idle")),
    "catching_up": Fact("count", _in_state("catching_up")),
    "backlog": Fact("count", lambda given: backlog(given.snapshot)),
    "backlog_time": Fact("duration", _backlog_time),
    "open_windows": Fact("count", lambda given: given.snapshot.windows.open_count),
    "state": Fact("word", lambda given: given.snapshot.state),
    "verdict": Fact("word", lambda given: given.verdict),
    "findings": Fact("count", lambda given: len(given.findings)),
    "speed": Fact("ratio", _speed),
    "batch_time": Fact("duration", lambda given: given.snapshot.spark.batch_ms),
}
WORDS: dict[str, tuple[str, ...]] = {
    "state": ("starting", "live", "partial", "stale", "paused", "ended", "failed"),
    "verdict": ("moving", "slow", "stalled", "waiting", "unknown", "ended"),
}
CHANNEL_FACTS: dict[str, Kind] = {"lag": "duration"}


def facts_of(given: CheckInput) -> dict[str, Value]:
    """All facts by name; durations in ms, shares from 0 to 1."""
    return {name: fact.take(given) for name, fact in FACTS.items()}


def channel_fact(given: CheckInput, pattern: re.Pattern[str]) -> tuple[Value, str | None]:
    """The greatest lag behind the clock (ms) of the channels whose whole name matches, and that channel.

    None if no channel matches, or a matching one has no watermark.
    """
    found = [view for view in given.snapshot.channels if pattern.fullmatch(view.channel)]
    lags = [(_lag(view, given.snapshot.now_ms), view.channel) for view in found]
    known = [(lag, name) for lag, name in lags if lag is not None]
    if not known or len(known) < len(found):
        return None, None
    return max(known)


def _lag(view: ChannelView, now_ms: int | None) -> int | None:
    return None if view.watermark_ms is None or now_ms is None else now_ms - view.watermark_ms
