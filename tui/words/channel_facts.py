"""The facts about one channel, in words. Pure."""

from datetime import tzinfo

from ...engine.snapshot import ChannelView, Snapshot
from ...engine.text import formatting as f
from .channels import ahead_ms
from .kinds import presenter_of
from .spans import Span

Fact = tuple[str, list[Span]]
"""A label, and the known value."""


def facts(snapshot: Snapshot, view: ChannelView, zone: tzinfo | None) -> list[Fact]:
    """All known facts, the most important first; many are unknown for an attached query."""
    newest = view.max_event_ms
    out: list[Fact] = [
        (snapshot.target.time_name, _watermark(snapshot, view, zone)),
        *presenter_of(snapshot).further_channel_facts(view, zone),
        ("newest record", [(f.UNKNOWN, "dim") if newest is None else (f.clock(newest, zone, snapshot.now_ms), "text")]),
        ("no data for", _quiet(snapshot, view)),
        *([("idleness", _idleness(snapshot, view))] if snapshot.target.has_watermark else []),
        ("records", _records(snapshot, view)),
        ("late", _late(view)),
        ("backlog", _backlog(snapshot, view)),
        ("set aside", _set_aside(view)),
        *_offenders(snapshot, view, zone),
    ]
    if windows := _open_windows(snapshot, view, zone):
        out.append(("open windows", windows))
    if view.instance is not None:
        out.append(("source instance", [(f"#{view.instance}", "text")]))
    return out


def _set_aside(view: ChannelView) -> list[Span]:
    """Its records without a usable event time."""
    spans: list[Span] = []
    for number, word in ((view.malformed, "malformed"), (view.future, "in the future")):
        style = "stale" if number else "text"
        spans += [(", " if spans else "", "dim"), (f.count(number), style), (f" {word}", "dim")]
    return spans


def _offenders(snapshot: Snapshot, view: ChannelView, zone: tzinfo | None) -> list[Fact]:
    """The last of these records, where they are this channel's, and what the malformed ones look like."""
    out: list[Fact] = []
    example = snapshot.malformed_example
    if view.malformed and example is not None:
        out.append(("malformed, e.g.", [(f.malformed(example), "text")]))
    for what, found in (("last malformed", snapshot.last_malformed), ("last in future", snapshot.last_future)):
        if found is not None and found.channel == view.channel:
            where = "" if found.offset is None else f"offset {found.offset:,}"
            where += "" if found.part is None else f" of {f.label(found.part, 40)}"
            claims = "no usable time" if found.timestamp_ms is None else f"claims {f.stamp(found.timestamp_ms, zone)}"
            out.append((what, [(f"{where}{': ' if where else ''}{claims}", "text")]))
    return out


def _open_windows(snapshot: Snapshot, view: ChannelView, zone: tzinfo | None) -> list[Span]:
    """The open windows among whose fullest channels it is, with its records."""
    spans: list[Span] = []
    for window in snapshot.windows.open:
        records = next((part.records for part in window.channels or () if part.channel == view.channel), None)
        if records is not None:
            times = f.interval(window.start_ms, window.end_ms, zone, snapshot.now_ms)
            spans += [(", " if spans else "", "dim"), (f"{times} ", "dim"), (f.count(records), "text")]
    return spans


def _watermark(snapshot: Snapshot, view: ChannelView, zone: tzinfo | None) -> list[Span]:
    if view.watermark_ms is None:
        return [(f.NO_DATA, "dim")]
    spans: list[Span] = [(f.clock(view.watermark_ms, zone, snapshot.now_ms), "level")]
    ahead = ahead_ms(snapshot, view)
    if ahead == 0:
        spans.append(("  at the watermark", "dim"))
    elif ahead is not None:
        side = "ahead of" if ahead > 0 else "behind"
        spans += [(f"  {f.duration(abs(ahead))}", "text"), (f" {side} the watermark", "dim")]
    return spans


def _quiet(snapshot: Snapshot, view: ChannelView) -> list[Span]:
    if view.quiet_ms is None:
        return [(f.ELSEWHERE, "dim")]
    spans: list[Span] = [(f.duration(view.quiet_ms), "text"), (" now", "dim")]
    if view.longest_quiet_ms is not None:
        style = "stale" if view.quiet_ms > view.longest_quiet_ms else "text"
        spans += [(", longest before ", "dim"), (f.duration(view.longest_quiet_ms), style)]
    timeout = snapshot.settings.idle_after_ms
    if view.state in ("active", "catching_up", "never_seen") and timeout is not None:
        spans.append((f", idle after {f.setting(timeout)}", "dim"))
    return spans


def _idleness(snapshot: Snapshot, view: ChannelView) -> list[Span]:
    if view.flaps is None and snapshot.one_clock:
        return [("none: Spark's one clock has no idle timeout", "dim")]
    if view.flaps is None:
        return [(f.ELSEWHERE, "dim")]
    spans: list[Span] = [(f"{view.flaps:,}", "text"), (f" change{'s' * (view.flaps != 1)} active ↔ idle", "dim")]
    if view.round_ms is not None:
        spans += [(", lately every ", "dim"), (f.duration(view.round_ms), "text")]
    return spans


def _records(snapshot: Snapshot, view: ChannelView) -> list[Span]:
    if view.records is None:
        return [(f.ELSEWHERE, "dim")]
    spans: list[Span] = [(f.count(view.records), "text")]
    if view.rate is not None:
        spans += [(", ", "dim"), (f.rate(view.rate), "text"), ("/s", "dim")]
    if snapshot.totals.records:
        spans.append((f", {f.share_of(view.records, snapshot.totals.records)} of all", "dim"))
    return spans


def _late(view: ChannelView) -> list[Span]:
    if view.late is None:
        return [(f.ELSEWHERE, "dim")]
    spans: list[Span] = [(f.share_of(view.late, view.records), "stale" if view.late else "text")]
    spans.append((f" ({f.count(view.late)})", "dim"))
    if view.behind_watermark is not None:
        spans += [(", behind the watermark ", "dim"), (f.count(view.behind_watermark), "text")]
    return spans


def _backlog(snapshot: Snapshot, view: ChannelView) -> list[Span]:
    spans: list[Span] = [(f.UNKNOWN, "dim")]
    if view.backlog is not None:
        spans = [(f.count(view.backlog), "stale" if view.backlog else "text"), (" records", "dim")]
    if view.behind_end_ms:
        spans.append((f", {f.duration(view.behind_end_ms)} of event time", "dim"))
    if view.held_back:
        spans.append((f", paused by {presenter_of(snapshot).paused_by}", "stale"))
    return spans
