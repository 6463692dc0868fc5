"""The words for an engine of wmtop, and those that all targets share. Pure."""

from collections.abc import Sequence
from datetime import tzinfo

from ...engine.snapshot import Snapshot
from ...engine.text import formatting as f
from ...engine.text.formatting import name
from ...engine.verdict.history import HistoryPoint
from ...engine.watermarks.settings import Settings
from .barrel import holding
from .lists import ALL_CLOSED, ALL_IDLE, NO_CHANNEL, NO_OPEN_WINDOW, NO_RECORD
from .operators import Stage, stages_of_run
from .preview import IdlePreview, LatenessPreview, Preview, untunable
from .progress import Cells, Chart, charts
from .spans import Part, Span, part
from .windows import short_staircase
from .wording import ahead_elsewhere, cause, held_for, is_close, window


class SnapshotWords:
    """The words for a snapshot that do not depend on the kind of target."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def untunable(self) -> str | None:
        """Why there is no lateness to change; None: there is. Only some strategies have one."""
        settings = self._snapshot.settings
        return None if settings.tunable else untunable(settings.strategy)

    def no_steps(self) -> str:
        """None: a lateness can still be typed."""
        return "No what-if is known here: type a lateness with ="

    def charts(self, points: Sequence[HistoryPoint], cells: Cells) -> list[Chart]:
        """Rows, results, batches, backlog and state."""
        return charts(self._snapshot, points, cells)


ONE_CLOCK_FOLLOWS = "no channel holds back the watermark: Spark's one clock follows the fastest channel"


class OwnRunWords(SnapshotWords):
    """The words for a run whose records are all counted; a `Presenter`."""

    can_apply = True
    how_to_type = "like 45m · Enter applies · Esc drops"

    def state_override(self) -> tuple[str, str | None] | None:
        """None: the engine itself reports its state."""
        return None

    def tuning(self, preview: Preview | None, recent_late: float | None) -> list[Part]:
        """The settings in force, what they cost, and what the preview would give."""
        snapshot = self._snapshot
        settings, totals = snapshot.settings, snapshot.totals
        open_idle = isinstance(preview, IdlePreview)
        lateness: list[Span] = [(" lateness ", "dim"), (_lateness(settings), "strong")]
        idle: list[Span] = [("idle after ", "dim"), (f.setting(settings.idle_after_ms), "strong")]
        if isinstance(preview, LatenessPreview):
            lateness.append((f" ▸ {f.setting(preview.lateness_ms)}?", "preview"))
        elif isinstance(preview, IdlePreview):
            idle.append((f" ▸ {f.setting(preview.idle_after_ms)}?", "preview"))
        parts = [
            part(*lateness, rank=5 if open_idle else 0),
            part(*idle, rank=0 if open_idle else 4),
            part(("window ", "dim"), (window(settings), "strong"), rank=6),
        ]
        if settings.allowed_lateness_ms:
            parts.append(part(("allowed ", "dim"), (f.setting(settings.allowed_lateness_ms), "strong"), rank=7))
        parts.append(part(("late ", "dim"), (f.share_of(totals.late, totals.records), "strong"), rank=1))
        parts.append(part((f" ({f.count(totals.late)})", "dim"), rank=3, gap=""))
        if recent_late is not None and not snapshot.ended:
            parts.append(part((", now ", "dim"), (f.share(recent_late), "strong"), rank=2, gap=""))
        parts += _drift(snapshot)
        return parts

    def holder(self, zone: tzinfo | None) -> list[Part]:
        """Which channel holds back the watermark, how long and why; else why none does."""
        snapshot = self._snapshot
        if snapshot.ended:
            return []
        return held_back_by(snapshot) or [part((f" {self._no_holder()}", "dim"))]

    def stages(self, zone: tzinfo | None) -> list[Stage]:
        """Clock, source, generators, the operator that combines the channels, windows."""
        return stages_of_run(self._snapshot, zone)

    def empty_barrel(self) -> str:
        """Before the first record."""
        source = self._snapshot.source
        what = f" from {f.cut(f.clean(source.description), 60)}" if source else ""
        if self._snapshot.ended:
            return f"the stream ended without a record\n{what.strip()}"
        return f"{f.NO_DATA}\nwaiting for the first record{what}"

    def no_channels(self) -> str:
        """As `empty_barrel`."""
        return NO_CHANNEL

    def no_windows(self) -> str:
        """Before the first record, or after the last."""
        return ALL_CLOSED if self._snapshot.ended else NO_OPEN_WINDOW

    def no_holders(self) -> str:
        """Under Spark's rule no channel holds the watermark back."""
        return ONE_CLOCK_FOLLOWS if self._snapshot.one_clock else "no channel has held back the watermark yet"

    def no_lateness(self) -> str:
        """Before the first record, or with a strategy that has no lateness."""
        return self.untunable() or NO_RECORD

    def no_idle_ladder(self) -> str:
        """Before the first record, or under Spark's rule."""
        return (
            "Spark's one clock has no idle timeout: it follows the fastest channel"
            if self._snapshot.one_clock
            else NO_RECORD
        )

    def no_records(self) -> str:
        """No record came, or none is in the sample."""
        return "no record is in the sample yet" if self._snapshot.channels else NO_RECORD

    def not_judged(self) -> str | None:
        """None: everything can be judged."""
        return None

    def _no_holder(self) -> str:
        if self._snapshot.one_clock:
            return ONE_CLOCK_FOLLOWS
        if not self._snapshot.channels:
            return "waiting for the first record"
        if self._snapshot.level.idle:
            return ALL_IDLE
        if all(view.state == "never_seen" for view in self._snapshot.channels):
            return "no channel has had data yet"
        return "no channel holds back the watermark"


def held_back_by(snapshot: Snapshot) -> list[Part]:
    """The channel that holds back the watermark, how long and why; empty if no channel does."""
    holder, behind_ms = snapshot.level.holder, snapshot.level.behind_fastest_ms
    if holder is None or holding(snapshot) is None:
        return []
    if behind_ms is not None and is_close(snapshot):
        slowest: list[Span] = [(" slowest ", "dim"), (name(holder.channel), "strong")]
        return [part(*slowest, (f": {f.duration(behind_ms)} behind the fastest", "text"))]
    if ahead_elsewhere(snapshot):
        return [part((f" {cause(snapshot)}", "text"))]
    since = held_for(snapshot)
    return [
        part((" held back by ", "dim"), (name(holder.channel), "holder"), (since, "holder"), (": ", "dim")),
        part((cause(snapshot), "text"), gap=""),
        *short_staircase(snapshot),
    ]


def _lateness(settings: Settings) -> str:
    if settings.lateness_ms is None or settings.strategy == "monotonous":
        return f"none ({settings.strategy})"
    text = f.setting(settings.lateness_ms)
    return text if settings.strategy == "bounded" else f"{text} ({settings.strategy})"


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
