"""The words in which kinds of target differ: a base with those of an attached one, and those of an own run. Pure."""

from collections.abc import Sequence
from datetime import tzinfo
from typing import Literal

from ...engine.snapshot import BarrelRule, Snapshot, SourcePosition, WhatIf
from ...engine.text import formatting as f
from ...engine.text.codes import unknown_text
from ...engine.text.formatting import name
from ...engine.verdict.blame import holding_channel, is_close
from ...engine.verdict.history import HistoryPoint
from .notes import note_text
from .operators import Stage, stages_of_query, stages_of_run
from .preview import UNTUNABLE, IdlePreview, LatenessPreview, Preview, late_at
from .progress import Cells, Chart, charts
from .spans import Part, Span, part
from .texts import ALL_CLOSED, ALL_IDLE, NO_CHANNEL, NO_OPEN_WINDOW, NO_RECORD
from .watermark import (
    ahead_elsewhere,
    cause,
    channels_known,
    delay_words,
    held_for,
    late_drops,
    watermark_parts,
    window,
)
from .windows import short_staircase

ONE_CLOCK_FOLLOWS = "no channel holds back the watermark: Spark's one clock follows the fastest channel"
ONE_CLOCK = "one clock for the whole query"
THE_LINE = 'events = tap(events, "…", channel="…")'
"""The line from `wmtop.engine`; goes before `withWatermark`, once per input."""


def needed_line(snapshot: Snapshot) -> str:
    """What to add to an attached job to see its channels; a driver's web server does not show what a tap reports."""
    at_driver = any(note.code == "driver_only" for note in snapshot.notes)
    return "publish(spark) and one line" if at_driver else "one line"


What = Literal[
    "barrel", "channels", "windows", "holders", "lateness", "idle timeouts", "records", "what-if", "judgement"
]


class Presenter:
    """The words for one snapshot that depend on the kind of target; here those of an attached one, little known."""

    can_apply = False
    """Whether a previewed setting can be applied from here; else Enter gives the line to change in the job."""
    how_to_type = "like 45m · Enter gives the line for the job · Esc drops"
    """The hint beside the prompt for a lateness."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def untunable(self) -> str | None:
        """Why there is no lateness to change; None: there is. Only some strategies have one."""
        settings = self._snapshot.settings
        return None if settings.tunable else UNTUNABLE[settings.strategy]

    def no(self, what: What) -> str:
        """The text instead of what is missing; `judgement`: what the doctor cannot judge from here, empty: nothing."""
        return self._none()[what]

    def state_override(self) -> tuple[str, str | None] | None:
        """The word for a state that is not simply live, with a line on it; None: the state is normal."""
        snapshot = self._snapshot
        if snapshot.state not in ("stale", "partial"):
            return None
        note = note_text(snapshot.notes[0]) if snapshot.notes else None
        begun = snapshot.spark.batch_timestamp_ms
        if snapshot.state != "stale" or begun is None or snapshot.now_ms is None:
            return snapshot.state.upper(), note
        return f"STALE {f.duration(max(snapshot.now_ms - begun, 0))}", note

    def tuning(self, preview: Preview | None, recent_late: float | None) -> list[Part]:
        """The settings in force, what they cost, and what the preview would give."""
        snapshot = self._snapshot
        parts = self._settings(preview)
        backlogs = [source.backlog for source in snapshot.sources or []]
        unread = sum(known for known in backlogs if known is not None)
        if backlogs and (unread or None not in backlogs):
            least = "≥ " * (None in backlogs)
            parts.append(part(("backlog ", "dim"), (f"{least}{f.count(unread)}", "strong"), rank=3))
        if preview is not None:
            return [*parts, *_outlook(snapshot, preview)]
        late = snapshot.spark.dropped_at_least
        parts.append(part(("late ", "dim"), (late_drops(snapshot), "dim" if late is None else "strong"), rank=2))
        return parts + _costs(snapshot)

    def holder(self, zone: tzinfo | None) -> list[Part]:
        """Which channel holds back the watermark, how long and why; else why none does."""
        if self._snapshot.ended:
            return []
        none = f" {self._no_holder()}"
        shorter = (f" {(none.partition(': ')[2] or none).strip()}", "dim")
        return holder_parts(self._snapshot) or [part((none, "dim"), rank=5, short=(shorter,))]

    def watermark(self, zone: tzinfo | None) -> list[Part]:
        """The watermark and how far it is behind."""
        return watermark_parts(self._snapshot, zone)

    def not_here(self, screen: str) -> str | None:
        """Why a further screen has nothing to show of this kind of target, in a line; None: it has."""
        return None

    def stages(self, zone: tzinfo | None) -> list[Stage]:
        """The operators as records pass them: by channels if they are known, else the known parts of the query."""
        by_channel = channels_known(self._snapshot) and not self._snapshot.has_several_inputs
        return stages_of_run(self._snapshot, zone) if by_channel else stages_of_query(self._snapshot, zone)

    def charts(self, points: Sequence[HistoryPoint], cells: Cells) -> list[Chart]:
        """The figures of the progress screen, in the order in which they are drawn."""
        return charts(self._snapshot, points, cells)

    def _none(self) -> dict[What, str]:
        """The texts of `no`."""
        snapshot, windows = self._snapshot, self._snapshot.windows
        nodes = snapshot.spark.nodes or []
        lines = [f"{f.ELSEWHERE}: {needed_line(snapshot)} before withWatermark shows them", f"  {THE_LINE}"]
        if len(nodes) > 1:
            policy = f"; the {snapshot.spark.policy} of them counts" if snapshot.spark.policy else ""
            lines.append(f"{len(nodes)} watermarks{policy}")
            lines += [f"  {f.label(n.column or 'window', 20)} delay {delay_words(n.delay_ms)}" for n in nodes]
        unknown = unknown_text(windows.unknown, windows.unknown_args)
        why = f.ELSEWHERE if unknown is None else f"{f.ELSEWHERE}: {unknown}"
        return {
            "barrel": "no partition has records",
            "channels": "\n".join([*lines, *map(position, snapshot.sources or [])]),
            "windows": why if windows.open_count is None else NO_OPEN_WINDOW,
            "holders": f"Which channel holds back the watermark: {f.ELSEWHERE}",
            "lateness": f"How late records are: {f.ELSEWHERE}",
            "idle timeouts": f"What another idle timeout would give: {f.ELSEWHERE}",
            "records": f"Records: {f.ELSEWHERE}",
            "what-if": "No what-if is known here: type a lateness with =",
            "judgement": "The query is attached: what is not known from here is not judged.",
        }

    def _settings(self, preview: Preview | None) -> list[Part]:
        """The line's first parts, on the settings and their preview."""
        raise NotImplementedError

    def _no_holder(self) -> str:
        if not self._snapshot.channels:
            return f"{ONE_CLOCK}: what holds it back is {f.ELSEWHERE}"
        return ALL_IDLE if self._snapshot.level.idle else "no channel holds back the watermark"

    def _lateness(self, what: str, in_force: str, preview: Preview | None, rank: int = 0) -> Part:
        spans: list[Span] = [(f" {what} ", "dim"), (in_force, "strong")]
        if isinstance(preview, LatenessPreview):
            spans.append((f" ▸ {f.setting(preview.lateness_ms)}?", "preview"))
        return part(*spans, rank=rank)


class OwnRunWords(Presenter):
    """A run of an engine of wmtop, whose records are all counted."""

    can_apply = True
    how_to_type = "like 45m · Enter applies · Esc drops"

    def state_override(self) -> None:
        """None: the engine itself reports its state."""

    def tuning(self, preview: Preview | None, recent_late: float | None) -> list[Part]:
        snapshot = self._snapshot
        settings, totals = snapshot.settings, snapshot.totals
        previews_idle = isinstance(preview, IdlePreview)
        if settings.lateness_ms is None or settings.strategy == "monotonous":
            in_force = f"none ({settings.strategy})"
        else:
            strategy = "" if settings.strategy == "bounded" else f" ({settings.strategy})"
            in_force = f.setting(settings.lateness_ms) + strategy
        idle: list[Span] = [("idle after ", "dim"), (f.setting(settings.idle_after_ms), "strong")]
        if isinstance(preview, IdlePreview):
            idle.append((f" ▸ {f.setting(preview.idle_after_ms)}?", "preview"))
        parts = [
            self._lateness("lateness", in_force, preview, rank=5 if previews_idle else 0),
            part(*idle, rank=0 if previews_idle else 4),
            part(("window ", "dim"), (window(settings), "strong"), rank=6),
        ]
        if settings.allowed_lateness_ms:
            parts.append(part(("allowed ", "dim"), (f.setting(settings.allowed_lateness_ms), "strong"), rank=7))
        parts.append(part(("late ", "dim"), (f.share_of(totals.late, totals.records), "strong"), rank=1))
        parts.append(part((f" ({f.count(totals.late)})", "dim"), rank=3, gap=""))
        if recent_late is not None and not snapshot.ended:
            parts.append(part((", now ", "dim"), (f.share(recent_late), "strong"), rank=2, gap=""))
        return parts + _drift(snapshot)

    def stages(self, zone: tzinfo | None) -> list[Stage]:
        return stages_of_run(self._snapshot, zone)

    def _none(self) -> dict[What, str]:
        snapshot, source = self._snapshot, self._snapshot.source
        start = f" from {f.cut(f.clean(source.description), 60)}" if source else ""
        barrel = f"{f.NO_DATA}\nwaiting for the first record{start}"
        one_clock = "Spark's one clock has no idle timeout: it follows the fastest channel"
        return {
            **super()._none(),
            "barrel": f"the stream ended without a record\n{start.strip()}" if snapshot.ended else barrel,
            "channels": NO_CHANNEL,
            "windows": ALL_CLOSED if snapshot.ended else NO_OPEN_WINDOW,
            "holders": ONE_CLOCK_FOLLOWS if snapshot.one_clock else "no channel has held back the watermark yet",
            "lateness": self.untunable() or NO_RECORD,
            "idle timeouts": one_clock if snapshot.one_clock else NO_RECORD,
            "records": "no record is in the sample yet" if snapshot.channels else NO_RECORD,
            "judgement": "",
        }

    def _no_holder(self) -> str:
        if self._snapshot.one_clock:
            return ONE_CLOCK_FOLLOWS
        if not self._snapshot.channels:
            return "waiting for the first record"
        if all(view.state == "never_seen" for view in self._snapshot.channels) and not self._snapshot.level.idle:
            return "no channel has had data yet"
        return super()._no_holder()


def holder_parts(snapshot: Snapshot) -> list[Part]:
    """The channel that holds back the watermark, how long and why; empty if no channel does."""
    holder, behind_ms = snapshot.level.holder, snapshot.level.behind_fastest_ms
    if holder is None or holding_channel(snapshot) is None:
        return []
    if behind_ms is not None and is_close(snapshot):
        slowest: list[Span] = [(" slowest ", "dim"), (name(holder.channel), "strong")]
        behind = f": the watermark is {f.duration(behind_ms)} behind the fastest"
        return [part(*slowest), part((behind, "text"), rank=1, gap="")]
    if ahead_elsewhere(snapshot):
        return [part((f" {cause(snapshot)}", "text"))]
    since, (why, comma, more) = held_for(snapshot), cause(snapshot).partition(", ")
    return [
        part((" held back by ", "dim"), (name(holder.channel), "holder")),
        part((since, "holder"), rank=1, gap=""),
        part((": ", "dim"), (why, "text"), rank=1, gap=""),
        part((comma + more, "text"), rank=2, gap=""),
        *short_staircase(snapshot),
    ]


def barrel_parts(barrel: BarrelRule, *, level_ms: int | None, zone: tzinfo | None) -> list[Part]:
    """The watermark by the slowest channel instead of Spark's one clock, and how many channels lose rows to that."""
    parts: list[Part] = []
    if barrel.holder is None:
        parts.append(part((" the watermark by the slowest channel is ", "dim"), (f.ELSEWHERE, "dim")))
    elif barrel.watermark_ms is None:
        parts.append(part((" by the slowest channel: no watermark, ", "dim"), (f.label(barrel.holder, 24), "holder")))
        parts.append(part(("has no records", "text"), gap=" "))
    else:
        apart = max((level_ms or barrel.watermark_ms) - barrel.watermark_ms, 0)
        lower: list[Span] = [(" by the slowest channel it would be ", "dim"), (f"{f.duration(apart)} lower", "strong")]
        parts.append(part(*lower, (": ", "dim"), (f.label(barrel.holder, 24), "holder")))
        parts.append(part((f.clock(barrel.watermark_ms, zone, level_ms), "held"), rank=3, gap=", "))
    behind = f"{f.counted(len(barrel.below), 'channel')} behind Spark's watermark"
    below: Span = (behind, "bad") if barrel.below else ("no channel behind Spark's watermark", "good")
    return [*parts, part(below, rank=1, gap=" · ")]


def restart_words(snapshot: Snapshot, delay_ms: int | None) -> str:
    """The effect of restarting a Spark query with another delay; empty without one."""
    now_ms = snapshot.settings.lateness_ms
    if not snapshot.one_clock or now_ms is None or delay_ms is None or delay_ms == now_ms:
        return ""
    apart = f.duration(abs(delay_ms - now_ms))
    if delay_ms < now_ms:
        return f"after the restart its watermark jumps {apart} ahead with the first new records"
    dropped = ", and rows are dropped," if snapshot.spark.drops_late else ""
    return f"after the restart its watermark is frozen{dropped} for {apart} of event time"


def position(source: SourcePosition) -> str:
    """A source, its position and its backlog, in a line."""
    at = source.offsets
    if isinstance(at, dict):
        at = f.count(sum(at.values()))
    elif at is not None:
        at = f.count(at) if isinstance(at, int) else f.clean(at)
    backlog = "" if source.backlog is None else f", backlog {f.count(source.backlog)}"
    return f"{f.clean(source.description)}{'' if at is None else f' at {at}'}{backlog}"


def _drift(snapshot: Snapshot) -> list[Part]:
    """Balanced reading: the distance between the partitions, and what it would be without balancing."""
    source = snapshot.source
    if source is None or source.max_drift_ms is None or source.drift_ms is None:
        return []
    drift: list[Span] = [("drift ", "dim"), (f.duration(source.drift_ms), "strong")]
    drift.append((f" of {f.setting(source.max_drift_ms)}", "dim"))
    if source.drift_unbalanced_ms is not None and source.drift_unbalanced_ms > source.drift_ms:
        drift.append((f", {f.duration(source.drift_unbalanced_ms)} without", "dim"))
    return [part(*drift, rank=7)]


def _outlook(snapshot: Snapshot, preview: Preview) -> list[Part]:
    """What a previewed setting would give after a restart."""
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
    late = None if not rows or delay_ms is None else late_at(rows, delay_ms)
    return None if late is None else f.share_of(int(late.high), snapshot.totals.records)
