"""The curve of late records by lateness, with its lines on the screen, and the advice of `wmtop advise`. Pure."""

from collections.abc import Iterator, Sequence
from math import sqrt

from msgspec import Struct
from msgspec.structs import replace

from ...engine.doctor.lateness import LateCause
from ...engine.snapshot import RecentLateness, Snapshot, WhatIfIdle
from ...engine.snapshot.recommendation import Advice, IdleOutcome, LatenessOutcome, Recommendation
from ...engine.text import formatting as f
from ...engine.text.codes import recommended_line, recommended_words
from ...engine.text.formatting import horizon_words, name
from ...engine.watermarks.lateness import by_bucket, wilson_interval
from . import preview as what_if
from .preview import delay_change, share_range
from .spans import Part, Span, part
from .texts import NO_RECORD, NONE_IN_THIS_TIME, OF_ITS_RECORDS

NORMAL_DEVIATIONS = 3.09
"""Standard deviations above the mean below which a normal distribution has 99.9 %."""


class Curve(Struct, frozen=True):
    """By edge (ms): records that late and less than the next edge, the late share, the delay since the start (ms)."""

    edges: Sequence[int]
    counts: Sequence[int]
    shares: Sequence[float | None]
    late: Sequence[int]
    delays: Sequence[float | None]
    records: int
    channel: str | None = None
    """The channel, if the curve is that of one: shares are then of its records behind the watermark."""
    upper_bound: bool = False
    horizon_ms: int | None = None
    """The horizon: records that came in the last `horizon_ms` of processing time; None: since the start."""

    @property
    def of_part(self) -> bool:
        """Whether it covers only a channel's records, of which only those behind the watermark are known."""
        return self.channel is not None

    @property
    def on_time(self) -> int:
        """Records that are not behind the watermark at lateness 0."""
        return max(self.records - sum(self.counts), 0)


class PartRow(Struct, frozen=True):
    """A point of the curve of a channel's records, to be saved."""

    of: str
    lateness_ms: int
    behind_watermark: int
    behind_share: float | None


def part_rows(curve: Curve) -> list[PartRow]:
    """The points of such a curve."""
    points = zip(curve.edges, curve.late, curve.shares, strict=True)
    return [PartRow(curve.channel or "", lateness_ms, behind, share) for lateness_ms, behind, share in points]


def curve_of(snapshot: Snapshot, channel: str | None = None, horizon_ms: int | None = None) -> Curve | None:
    """The curve of all records, of one channel's, or of those that came in the last `horizon_ms`; None: not known."""
    whole, recent = snapshot.whatif, recent_of(snapshot, horizon_ms)
    if not whole:
        return None
    rows, records = whole, snapshot.totals.records or 0
    if horizon_ms is not None:
        if recent is None or len(recent.rows) != len(whole):
            return None
        rows, records = recent.rows, recent.records
    curve = Curve(
        edges=[row.lateness_ms for row in whole],
        counts=by_bucket([row.behind_watermark for row in rows]),
        shares=[row.late_share for row in rows],
        late=[row.late for row in rows],
        delays=[row.delay_ms for row in whole],
        records=records,
        upper_bound=snapshot.whatif_upper_bound,
        horizon_ms=horizon_ms,
    )
    if channel is None:
        return curve
    part = next((part for part in snapshot.lateness_by_channel if part.channel == channel), None)
    if part is None:
        return None
    counts = [*part.behind, *[0] * len(whole)][: len(whole)]
    late = [sum(counts[place:]) for place in range(len(counts))]
    shares = [f.ratio(number, part.records) for number in late]
    of_part = {"records": part.records, "channel": channel, "upper_bound": False}
    return replace(curve, counts=counts, shares=shares, late=late, **of_part)


def horizons_of(snapshot: Snapshot) -> list[int | None]:
    """The horizons (ms) for which a curve of all records is known, since the start (None) first."""
    return [None, *(part.horizon_ms for part in snapshot.whatif_recent or () if part.horizon_ms is not None)]


def recent_of(snapshot: Snapshot, horizon_ms: int | None) -> RecentLateness | None:
    """The what-if of a horizon (ms; None: since the start); None if it is not known."""
    return next((part for part in snapshot.whatif_recent or () if part.horizon_ms == horizon_ms), None)


def shown(curve: Curve, values: Sequence[int | None]) -> tuple[int, int]:
    """The first and the last edge worth drawing: the range of the records, and up to the greatest of `values` (ms)."""
    filled = [place for place, count in enumerate(curve.counts) if count]
    known = [place_of(curve.edges, value) for value in values if value is not None]
    if not filled and not known:
        return 0, len(curve.edges) - 1
    first = min(filled or known)
    last = max(*known, first, *(place + 1 for place in filled[-1:]))
    return max(first - 1, 0), min(last + 1, len(curve.edges) - 1)


def place_of(edges: Sequence[int], value_ms: int) -> int:
    """The last edge at or below a lateness (ms)."""
    return max(sum(1 for edge in edges if edge <= value_ms) - 1, 0)


def moments(curve: Curve) -> tuple[float, float] | None:
    """Mean and deviation (ms) of the lateness of all records (on time: 0), from the middles of the buckets.

    None: there are no records.
    """
    if not curve.records:
        return None
    ends = [*curve.edges[1:], curve.edges[-1]]
    buckets = [(count, (low + high) / 2) for count, low, high in zip(curve.counts, curve.edges, ends, strict=True)]
    mean = sum(count * middle for count, middle in buckets) / curve.records
    square = sum(count * middle**2 for count, middle in buckets) / curve.records
    return mean, sqrt(max(square - mean**2, 0.0))


def recommendation_parts(snapshot: Snapshot, found: Recommendation) -> list[Part]:
    """The recommended lateness with its evidence, or why there is none."""
    value, why = recommended_words(found)
    first, *rest = why.split(", ") if found.lateness_ms is not None else [why]
    parts = [part(("recommended lateness: ", "dim"), (value, "good" if found.lateness_ms is not None else "stale"))]
    parts.append(part((first, "text"), rank=1, gap="  "))
    parts += [part((text, "dim"), rank=2 + place, gap=", ") for place, text in enumerate(rest)]
    if found.upper_bound:
        bucket = snapshot.whatif_bucket_ms
        reason = "session windows" if bucket is None else f"counted in buckets of {f.setting(bucket)}"
        parts.append(part((f"≤: upper bounds ({reason})", "dim"), rank=2))
    return parts


def moments_line(curve: Curve) -> list[Part]:
    """Mean and deviation, and what a normal distribution would say."""
    known = moments(curve)
    if known is None:
        none = NO_RECORD if curve.horizon_ms is None else NONE_IN_THIS_TIME
        return [part((f" {none}", "dim"))]
    mean, deviation = known
    normal = f.duration(mean + NORMAL_DEVIATIONS * deviation)
    on_time = f.share_of(curve.on_time, curve.records)
    return [
        part((" mean ", "dim"), (f"≈ {f.duration(mean)}", "text"), (", deviation ", "dim")),
        part((f"≈ {f.duration(deviation)}", "text"), gap=""),
        part(("a normal distribution would have 99.9 % within ", "dim"), (normal, "text"), rank=2),
        part((on_time, "text"), (" not behind at all", "dim"), rank=1),
    ]


def cost_sentence(snapshot: Snapshot, curve: Curve, cursor: int, found: Recommendation) -> list[Part]:
    """What the lateness in force costs, and what that at the cursor, the recommended or the next longer one would."""
    if not curve.records:
        when = "yet" if curve.horizon_ms is None else f"in the {horizon_words(curve.horizon_ms)}"
        return [part((f"No records {when}: what a lateness would cost is not known", "text"))]
    in_force = snapshot.settings.lateness_ms
    now = place_of(curve.edges, in_force or 0)
    other = cursor
    if cursor == now and found.lateness_ms is not None and not curve.of_part:
        other = place_of(curve.edges, found.lateness_ms)
    elif cursor == now:
        other = min(now + 1, len(curve.edges) - 1)
    parts: list[Part] = []
    if in_force is not None:
        parts = [part((f"Now {f.setting(in_force)}: ", "strong"), *_late_spans(snapshot, curve, now, in_force))]
        if curve.edges[now] == in_force:
            parts.append(part((_of_which(curve, now), "dim"), rank=4, gap=""))
        if (delay := curve.delays[now]) is not None and delay < f.DAY:
            parts.append(part((f"results {f.duration(delay)} after their window's end", "level"), rank=3, gap=", "))
        if other == now:
            return parts
    edge = curve.edges[other]
    head = "; with " if parts else "With "
    parts.append(part((f"{head}{f.setting(edge)}: ", "accent"), *_late_spans(snapshot, curve, other, edge), gap=""))
    parts.append(part((_of_which(curve, other), "dim"), rank=2, gap=""))
    if (change := delay_change(what_if.lateness(snapshot, edge))) is not None:
        parts.append(part((f"results {change}", "level"), rank=1, gap=", "))
    return parts


def _late_spans(snapshot: Snapshot, curve: Curve, place: int, lateness_ms: int) -> list[Span]:
    if curve.of_part:
        return [(f.share(curve.shares[place]), "stale"), (f" {OF_ITS_RECORDS}", "text")]
    late = ("≤ " * curve.upper_bound) + f.share(curve.shares[place])
    if curve.horizon_ms is None:
        late = share_range(what_if.lateness(snapshot, lateness_ms)) or f.UNKNOWN
    return [(late, "stale"), (" late", "text")]


def _of_which(curve: Curve, place: int) -> str:
    late, records = curve.late[place], curve.records
    low, high = wilson_interval(late, records)
    interval = f"; 95 %: {f.span(f.share(low), f.share(high))}" if records and not curve.of_part else ""
    return f" ({f.count(late)} of {f.count(records)}{interval})"


def timeout_holder(snapshot: Snapshot, row: WhatIfIdle) -> str | None:
    """The channel that would hold back the watermark with another timeout; None: none would be behind the fastest."""
    return None if row.watermark_ms == snapshot.level.fastest_ms else row.holder


def timeout_words(snapshot: Snapshot, row: WhatIfIdle, horizon_ms: int | None) -> list[Span]:
    """The effect of another timeout, in a sentence."""
    if horizon_ms is not None:
        return [
            (f"Not known for the {horizon_words(horizon_ms)}: ", "strong"),
            ("late records and changes of an idle timeout are counted since the start only (H shows them).", "text"),
        ]
    settings = snapshot.settings
    holder = timeout_holder(snapshot, row)
    held = "held back by no channel" if holder is None else f"held back by {name(holder)}"
    if row.idle_after_ms == settings.idle_after_ms:
        return [(f"This is the idle timeout in force: watermark {held}, {_changes(row.flaps)} so far.", "text")]
    spans: list[Span] = [("Had the idle timeout been ", "text"), (f.setting(row.idle_after_ms), "strong")]
    spans.append((" from the start, ", "text"))
    now, then = snapshot.level.watermark_ms, "there would be no watermark yet"
    if row.watermark_ms is not None and now is not None:
        side = "ahead of" if row.watermark_ms > now else "behind"
        apart = f"{f.duration(abs(row.watermark_ms - now))} {side} the present one"
        then = f"the watermark would be {'the same' if row.watermark_ms == now else apart}"
    spans.append((then, "text"))
    late = f"{f.counted(row.late, 'record')} late" + (f" (± {f.count(row.late_error)})" if row.late_error else "")
    current = next((r.flaps for r in snapshot.whatif_idle or [] if r.idle_after_ms == settings.idle_after_ms), None)
    instead = "" if current is None else f" instead of {current:,}"
    return [*spans, (f", {held}, with {_changes(row.flaps)}{instead}, and {late}.", "text")]


def _changes(flaps: int) -> str:
    return f"{f.counted(flaps, 'change')} between active and idle"


LINE_NAMES = {
    "spark": "Spark", "flink_java": "Flink (Java)", "flink_sql": "Flink (SQL)", "kafka_streams": "Kafka Streams",
}  # fmt: skip
FLINKS_RULE = "  By Flink's rule; Spark and Kafka Streams follow the fastest channel and drop more (--strategy spark)"


def advice_lines(advice: Advice) -> Iterator[str]:
    """The recommendation and what is in force, with their cost; then the same for the idle timeout."""
    yield f"  {recommended_line(advice.recommendation)}"
    if advice.bucket_ms is not None:
        yield f"  counted in steps of {f.setting(advice.bucket_ms)}"
    if advice.current is not None:
        yield f"  lateness now: {f.setting(advice.current.lateness_ms)} ({_cost(advice, advice.current)})"
    if advice.idle is None and advice.current_idle is not None:
        yield "  recommended idle timeout: none (no channel was idle with any timeout)"
    if advice.idle is not None:
        yield f"  recommended idle timeout: {f.setting(advice.idle.idle_after_ms)} ({_idle_words(advice.idle)})"
        if advice.current_idle is not None and advice.current_idle != advice.idle:
            now = advice.current_idle
            yield f"  idle timeout now: {f.setting(now.idle_after_ms)} ({_idle_words(now)})"


def cause_lines(cause: LateCause) -> Iterator[str]:
    """What most late records have in common."""
    column, value = f.clean(cause.column), f.clean(cause.value)
    about = "≈ " if cause.approximate else ""
    yield (
        f"  cause: {column} {value} is {f.share(cause.late_share)} of the late records and {about}"
        f"{f.share(cause.share)} of all ({cause.lift:.1f} times its share)"
    )
    for also, of, late in cause.also:
        yield f"    also {f.clean(also)} {f.clean(of)}: {f.share(late)}"
    yield "    Fix what delays those records"


def _cost(advice: Advice, current: LatenessOutcome) -> str:
    interval = f.span(f.share(current.low), f.share(current.high))
    bound, then = "≤ " * advice.upper_bound, advice.lateness
    late = f"{bound}{f.share(current.late_share)} late, {f.counted(current.late, 'record')}, 95 %: {interval}"
    if then is None or then.delay_ms is None or current.delay_ms is None or then.lateness_ms == current.lateness_ms:
        return late
    later = then.delay_ms - current.delay_ms
    side = "later" if later >= 0 else "earlier"
    return f"{late}; with {f.setting(then.lateness_ms)} results come {f.duration(abs(later))} {side}"


def _idle_words(outcome: IdleOutcome) -> str:
    gain = "" if not outcome.gain_ms else f", watermark {f.signed(outcome.gain_ms)}"
    changes = f"{f.count(outcome.flaps)} changes between idle and active"
    return f"{f.share(outcome.late_share)} late, {f.counted(outcome.late, 'record')}, {changes}{gain}"
