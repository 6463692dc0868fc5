"""The words for attached targets: what is seen, and what is not known from here. Pure."""

from datetime import tzinfo

from ...engine.snapshot import STATE_SCHEMA, BarrelRule, Snapshot, SourcePosition, WhatIf
from ...engine.text import formatting as f
from ...engine.text.codes import unknown_text
from .kinds import channels_known
from .lists import ALL_IDLE, NO_OPEN_WINDOW
from .notes import note_text
from .operators import Stage, stages_of_query, stages_of_run
from .other import fact_text, facts_of_plugin
from .own_run import ONE_CLOCK_FOLLOWS, SnapshotWords, held_back_by
from .preview import IdlePreview, LatenessPreview, Preview, late_at
from .spans import Part, Span, part
from .wording import delay_words, late_drops, moved, window, without_watermark

ONE_CLOCK = "one clock for the whole query"
_MAX_FACTS = 4
"""Facts of a plug-in on the main screen, at most."""
HOW_TO_SEE = "add one line to the job to see its channels"
THE_LINE = 'events = tap(events, "…", channel="…")'
"""The line from `wmtop.engine`; goes before `withWatermark`, once per input."""


class Attached(SnapshotWords):
    """The words for what cannot be changed from here; much of it is not known."""

    can_apply = False
    how_to_type = "like 45m · Enter gives the line for the job · Esc drops"

    def state_override(self) -> tuple[str, str | None] | None:
        """Since when no batch has begun, and the possible reasons."""
        snapshot = self._snapshot
        if snapshot.state not in ("stale", "partial"):
            return None
        note = note_text(snapshot.notes[0]) if snapshot.notes else None
        begun = snapshot.spark.batch_timestamp_ms
        if snapshot.state != "stale" or begun is None or snapshot.now_ms is None:
            return snapshot.state.upper(), note
        return f"STALE {f.duration(max(snapshot.now_ms - begun, 0))}", note

    def holder(self, zone: tzinfo | None) -> list[Part]:
        """Which channel holds back the watermark; else why none does."""
        snapshot = self._snapshot
        if snapshot.ended:
            return []
        if parts := held_back_by(snapshot):
            return parts
        return [part((f" {self._no_holder()}", "dim"))]

    def stages(self, zone: tzinfo | None) -> list[Stage]:
        """The chain by channels if they are known, else the known parts of the query."""
        by_channel = channels_known(self._snapshot) and not self._snapshot.has_several_inputs
        return stages_of_run(self._snapshot, zone) if by_channel else stages_of_query(self._snapshot, zone)

    def empty_barrel(self) -> str:
        """The watermark alone, without channels."""
        return "no partition has records"

    def no_channels(self) -> str:
        """How to make channels visible, and the known sources."""
        snapshot = self._snapshot
        lines = [f"{f.ELSEWHERE}: one line before withWatermark shows them", f"  {THE_LINE}"]
        nodes = snapshot.spark.nodes or []
        if len(nodes) > 1:
            policy = f"; the {snapshot.spark.policy} of them counts" if snapshot.spark.policy else ""
            lines.append(f"{len(nodes)} watermarks{policy}")
            lines += [f"  {f.label(n.column or 'window', 20)} delay {delay_words(n.delay_ms)}" for n in nodes]
        return "\n".join([*lines, *map(position, snapshot.sources or [])])

    def no_windows(self) -> str:
        """No window is open, or why that is not known."""
        windows = self._snapshot.windows
        if windows.open_count is not None:
            return NO_OPEN_WINDOW
        unknown = unknown_text(windows.unknown, windows.unknown_args)
        return f.ELSEWHERE if unknown is None else f"{f.ELSEWHERE}: {unknown}"

    def no_holders(self) -> str:
        """Not known."""
        return f"Which channel holds back the watermark: {f.ELSEWHERE}"

    def no_lateness(self) -> str:
        """Not known."""
        return f"How late records are: {f.ELSEWHERE}"

    def no_idle_ladder(self) -> str:
        """Not known."""
        return f"What another idle timeout would give: {f.ELSEWHERE}"

    def no_records(self) -> str:
        """Not known."""
        return f"Records: {f.ELSEWHERE}"

    def not_judged(self) -> str | None:
        """What no tap reports."""
        return "The query is attached: what is not known from here is not judged."

    def _no_holder(self) -> str:
        if not self._snapshot.channels:
            return f"{ONE_CLOCK}: what holds it back is {f.ELSEWHERE}"
        return ALL_IDLE if self._snapshot.level.idle else "no channel holds back the watermark"

    def _tuning(self, settings: list[Part], preview: Preview | None) -> list[Part]:
        snapshot = self._snapshot
        parts = [*settings, *_backlog(snapshot)]
        if preview is not None:
            return [*parts, *_outlook(snapshot, preview)]
        late = snapshot.spark.dropped_at_least
        parts.append(part(("late ", "dim"), (late_drops(snapshot), "dim" if late is None else "strong"), rank=2))
        return parts + _costs(snapshot)

    def _delay(self, what: str, preview: Preview | None) -> Part:
        lateness_ms = self._snapshot.settings.lateness_ms
        delay = f.UNKNOWN if lateness_ms is None else f.setting(lateness_ms)
        spans: list[Span] = [(f" {what} ", "dim"), (delay, "strong")]
        if isinstance(preview, LatenessPreview):
            spans.append((f" ▸ {f.setting(preview.lateness_ms)}?", "preview"))
        return part(*spans)


class SparkQueryWords(Attached):
    """The words for an attached Spark query; a `Presenter`."""

    def tuning(self, preview: Preview | None, recent_late: float | None) -> list[Part]:
        """Its watermark delay and windows, its backlog, and the effect of the preview after a restart."""
        snapshot = self._snapshot
        if snapshot.spark.has_watermark is False:
            return self._tuning([part((" watermark delay ", "dim"), ("none", "strong"))], preview)
        delays = [node.delay_ms for node in snapshot.spark.nodes or ()]
        if snapshot.settings.lateness_ms is None and len(delays) > 1 and None not in delays:
            each = ", ".join(delay_words(delay) for delay in delays)
            return self._tuning([part((" watermark delays ", "dim"), (each, "strong"))], preview)
        parts = [self._delay("watermark delay", preview)]
        if snapshot.settings.lateness_ms is None:
            parts.append(part((f.ELSEWHERE, "dim"), rank=5, gap=" "))
        elif preview is None and (snapshot.origin or {}).get("lateness") == STATE_SCHEMA:
            parts.append(part(("as first started", "dim"), rank=6, gap=" "))
        parts.append(part(("window ", "dim"), (window(snapshot.settings), "strong"), rank=4))
        return self._tuning(parts, preview)

    def empty_barrel(self) -> str:
        """Spark's one clock, when it moved, how far it is behind."""
        level = self._snapshot.level
        if level.watermark_ms is None:
            return f"{ONE_CLOCK}\n{without_watermark(self._snapshot)}"
        reported = [] if (ago := moved(self._snapshot)) is None else [f"the watermark moved {ago}"]
        if level.behind_clock_ms is not None:
            reported.append(f.behind_clock(level.behind_clock_ms))
        return f"{ONE_CLOCK}; {HOW_TO_SEE}\n{' · '.join(reported)}"

    def no_holders(self) -> str:
        """With Spark's one clock no channel ever holds the watermark back; one of several inputs may."""
        if self._snapshot.has_several_inputs:
            return self._no_holder()
        return ONE_CLOCK_FOLLOWS if self._snapshot.channels else super().no_holders()

    def holder(self, zone: tzinfo | None) -> list[Part]:
        """What the slowest channel would give, if it is known; else what sets the watermark."""
        barrel = self._snapshot.barrel
        if barrel is None or self._snapshot.ended or held_back_by(self._snapshot):
            return super().holder(zone)
        return barrel_parts(barrel, level_ms=self._snapshot.level.watermark_ms, zone=zone)

    def _no_holder(self) -> str:
        spark, several = self._snapshot.spark, self._snapshot.has_several_inputs
        if self._snapshot.channels and not several:
            return ONE_CLOCK_FOLLOWS
        if spark.has_watermark is False:
            return "no watermark, nothing to hold back"
        if spark.frozen_ms is not None:
            return f"{ONE_CLOCK}: frozen until its records have caught up after the restart"
        holding = [
            f"{f.label(node.column or 'window', 24)} (delay {delay_words(node.delay_ms)})"
            for node in spark.nodes or ()
            if node.holds
        ]
        if holding:
            return f"{ONE_CLOCK}: the watermark on {' and '.join(holding)} sets it"
        return f"{ONE_CLOCK}: what holds it back is {f.ELSEWHERE}"


class TopicWords(Attached):
    """The words for a topic or a consumer group, whose watermark is computed here; a `Presenter`."""

    def tuning(self, preview: Preview | None, recent_late: float | None) -> list[Part]:
        """The assumed settings, the backlog, and the effect of the preview."""
        idle = f.setting(self._snapshot.settings.idle_after_ms)
        parts = [
            self._delay("lateness", preview),
            part(("assumed here", "dim"), rank=6, gap=" "),
            part(("idle after ", "dim"), (idle, "strong"), rank=4),
        ]
        return self._tuning(parts, preview)


class OtherWords(Attached):
    """The words for a plug-in's target; a `Presenter`."""

    def tuning(self, preview: Preview | None, recent_late: float | None) -> list[Part]:
        """Its first facts, its backlog, and what a preview would give."""
        shown = [
            part((f" {f.label(fact.name)} ", "dim"), (fact_text(fact), "strong"), rank=4)
            for fact in facts_of_plugin(self._snapshot)[:_MAX_FACTS]
        ]
        return self._tuning(shown, preview)

    def empty_barrel(self) -> str:
        """No channel has a watermark."""
        return "no channel has records"

    def no_channels(self) -> str:
        """No channel is reported."""
        return "The plug-in reports no channels"


def barrel_parts(barrel: BarrelRule, *, level_ms: int | None, zone: tzinfo | None) -> list[Part]:
    """The watermark by the slowest channel instead of Spark's one clock, and the channels that lose rows to
    that clock.
    """
    parts: list[Part] = []
    if barrel.holder is None:
        parts.append(part((" the watermark by the slowest channel is ", "dim"), (f.ELSEWHERE, "dim")))
    elif barrel.watermark_ms is None:
        parts.append(part((" by the slowest channel: no watermark, ", "dim"), (f.label(barrel.holder, 24), "holder")))
        parts.append(part(("has no records", "text"), gap=" "))
    else:
        time = f.clock(barrel.watermark_ms, zone, level_ms)
        apart = max((level_ms or barrel.watermark_ms) - barrel.watermark_ms, 0)
        lower: list[Span] = [(" by the slowest channel ", "dim"), (f"{f.duration(apart)} lower", "strong")]
        parts.append(part(*lower, (": ", "dim"), (f.label(barrel.holder, 24), "holder"), gap=""))
        parts.append(part((time, "held"), rank=3, gap=", "))
    if barrel.below:
        many = len(barrel.below)
        text = f"{f.counted(many, 'channel')} behind Spark's watermark"
        parts.append(part((text, "bad"), rank=1, gap=" · "))
    else:
        parts.append(part(("no channel behind Spark's watermark", "good"), rank=1, gap=" · "))
    return parts


def restart_words(snapshot: Snapshot, delay_ms: int | None) -> str:
    """The effect of restarting a Spark query with another delay, as a separate line."""
    now_ms = snapshot.settings.lateness_ms
    if not snapshot.one_clock or now_ms is None or delay_ms is None or delay_ms == now_ms:
        return ""
    apart = f.duration(abs(delay_ms - now_ms))
    if delay_ms < now_ms:
        return f"\nafter the restart its watermark jumps {apart} ahead with the first new records"
    return f"\nafter the restart its watermark is frozen, and rows are dropped, for {apart} of event time"


def position(source: SourcePosition) -> str:
    """A source, its position and its backlog, in a line."""
    at = source.offsets
    if isinstance(at, dict):
        at = f.count(sum(at.values()))
    elif at is not None:
        at = f.count(at) if isinstance(at, int) else f.clean(at)
    backlog = "" if source.backlog is None else f", backlog {f.count(source.backlog)}"
    return f"{f.clean(source.description)}{'' if at is None else f' at {at}'}{backlog}"


def _backlog(snapshot: Snapshot) -> list[Part]:
    known = [source.backlog for source in snapshot.sources or [] if source.backlog is not None]
    return [part(("backlog ", "dim"), (f.count(sum(known)), "strong"), rank=3)] if known else []


def _outlook(snapshot: Snapshot, preview: Preview) -> list[Part]:
    now = snapshot.level.watermark_ms
    parts: list[Part] = []
    if preview.level_ms is not None and now is not None:
        parts.append(part((f"▸ watermark {f.signed(preview.level_ms - now)}", "preview"), gap="  "))
    if isinstance(preview, IdlePreview):
        return parts
    if preview.share is None:
        return [*parts, part(("late share not known from here", "dim"), rank=1, gap=", " if parts else "   ")]
    parts.append(part((f"≤ {f.share(preview.share.high)} late", "preview"), gap=", " if parts else "  ▸ "))
    by_barrel = _share(snapshot, snapshot.barrel.whatif if snapshot.barrel else None, preview.lateness_ms)
    if by_barrel is not None:
        parts.append(part((f"≤ {by_barrel} by the slowest channel", "preview"), rank=1, gap=", "))
    now_ms = snapshot.settings.lateness_ms
    if now_ms is not None and preview.lateness_ms > now_ms:
        longer = f.duration(preview.lateness_ms - now_ms)
        parts.append(part((f"frozen for {longer} of event time after the restart", "dim"), rank=3, gap=" · "))
    return parts


def _costs(snapshot: Snapshot) -> list[Part]:
    """The late share by either rule at the delay in force, as far as the taps counted it."""
    delay = snapshot.settings.lateness_ms
    spark = _share(snapshot, snapshot.whatif, delay)
    barrel = _share(snapshot, snapshot.barrel.whatif if snapshot.barrel else None, delay)
    if spark is None:
        return []
    rules: list[Span] = [("≤ ", "dim"), (spark, "strong")]
    if barrel is not None:
        rules += [(" by Spark's clock, ≤ ", "dim"), (barrel, "strong"), (" by the slowest channel's", "dim")]
    bucket = snapshot.whatif_bucket_ms
    counted = [] if bucket is None else [part((f"counted in {f.setting(bucket)}", "dim"), rank=7, gap=", ")]
    return [part(*rules, rank=3, gap=" · "), *counted]


def _share(snapshot: Snapshot, rows: list[WhatIf] | None, delay_ms: int | None) -> str | None:
    """The greatest share that may be late at a delay."""
    if not rows or delay_ms is None:
        return None
    found = late_at(rows, delay_ms)
    return None if found is None else f.share_of(int(found.high), snapshot.totals.records)
