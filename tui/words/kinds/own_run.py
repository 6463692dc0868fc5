"""The words for a run of an engine of wmtop, whose records are all counted. Pure."""

from collections.abc import Sequence
from datetime import tzinfo

from msgspec.structs import replace

from ....engine.snapshot import Snapshot
from ....engine.snapshot.recommendation import recommendation
from ....engine.text import formatting as f
from ....engine.text.codes import recommended_line
from ....engine.verdict.blame import held_back_by, holding_view
from ....engine.verdict.history import HistoryPoint
from ..channel_columns import (
    AHEAD,
    BACKLOG,
    IDLE_CHANGES,
    LATE,
    LATE_COUNT,
    NO_DATA,
    RATE,
    RECORDS,
    STATE,
    WATERMARK,
    ChannelColumn,
)
from ..notes import note_text
from ..operators import Stage, stages_of_run
from ..preview import IdlePreview, Preview
from ..progress import Cells, Chart, charts
from ..spans import Part, Span, part
from ..texts import ALL_CLOSED, NO_CHANNEL, NO_OPEN_WINDOW, NO_RECORD
from ..watermark import window
from .presenter import ONE_CLOCK_FOLLOWS, Presenter, What

NO_REPLAY_BACKLOG = "none: a replay has no backlog"
_COUNTED_COLUMNS = (
    WATERMARK,
    AHEAD,
    RATE,
    LATE,
    RECORDS,
    LATE_COUNT,
    replace(BACKLOG, rank=7),
    NO_DATA,
    IDLE_CHANGES,
    STATE,
)
_FIRST_QUEUED = {"backlog": 3, "late": 4, "rate/s": 5, "no data": 6, "records": 7}
"""Ranks of columns for backlogged sources: whether the backlog grows is the first question."""
_QUEUED_COLUMNS = tuple(
    replace(column, rank=_FIRST_QUEUED.get(column.title, column.rank)) for column in _COUNTED_COLUMNS
)


class OwnRunWords(Presenter):
    """A run of an engine of wmtop, whose records are all counted."""

    how_to_type = "like 45m · Enter applies · Esc drops"
    late_name = "late records"
    not_explained = "Start the engine with --explain COL,… (up to ten columns) to see which values late records have"

    def state_override(self) -> None:
        """None: the engine itself reports its state."""

    def tuning(self, preview: Preview | None, recent_late: float | None) -> list[Part]:
        snapshot = self._snapshot
        settings = snapshot.settings
        totals = snapshot.totals
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
        return stages_of_run(self._snapshot, zone, self.cause())

    @property
    def channel_columns(self) -> Sequence[ChannelColumn]:
        return _QUEUED_COLUMNS if self._is_queued else _COUNTED_COLUMNS

    def charts(self, points: Sequence[HistoryPoint], cells: Cells) -> list[Chart]:
        source = self._snapshot.source
        is_replay = source is not None and source.kind == "replay"
        return charts(self._snapshot, points, cells, NO_REPLAY_BACKLOG if is_replay else f.ELSEWHERE)

    def fleet_kind(self) -> str | None:
        return None if self._snapshot.source is None else "run"

    def identity(self) -> None:
        """None: its name says it."""

    def no_advice(self, name: str, address: str, *, recorded: bool) -> list[str]:
        if not self._snapshot.totals.records:
            return [f"{name}: no records yet{'' if recorded else '; try again later'}"]
        return [
            f"{name}: no what-if: the strategy {self._snapshot.settings.strategy} has no lateness. "
            "Run the same input with --strategy bounded"
        ]

    def end(self) -> str:
        """A run of our own fires all that is open."""
        return "the stream has ended, all windows closed"

    def end_sentence(self) -> str:
        return "The stream has ended"

    def summary(self, judged: str) -> list[str]:
        """Totals, watermark, windows and recommended lateness."""
        snapshot = self._snapshot
        totals = snapshot.totals
        level = snapshot.level
        windows = snapshot.windows
        held = held_back_by(snapshot)
        example = snapshot.malformed_example
        watermark = f.NO_DATA if level.watermark_ms is None else f.stamp(level.watermark_ms, None)
        lines = [
            f"{f.clean(snapshot.name)}: {snapshot.state}, {f.counted(totals.records, 'record')}, "
            f"{f.counted(len(snapshot.channels), 'channel')}",
            judged,
            f"watermark {watermark}" + ("" if held is None else f", held back by {f.clean(held)}"),
            f"late {f.share_of(totals.late, totals.records)} ({f.count(totals.late)}), "
            f"behind the watermark {f.count(totals.behind_watermark)}, in no window {f.count(totals.no_window)}, "
            f"malformed {f.count(totals.malformed)}, future timestamps {f.count(totals.future)}",
            *([] if example is None else [f"malformed, e.g. {f.malformed(example)}"]),
            f"windows: {f.count(windows.fired)} fired, {f.count(windows.open_count)} open, "
            f"{f.count(windows.late_firings)} late firings",
        ]
        source = snapshot.source
        if source is not None and source.time_unit is not None:
            lines.insert(1, f"event time {f.clean(source.time_column or '')}: {f.clean(source.time_unit)}")
        notes = [note_text(note) for note in snapshot.notes if note.code in ("channels_folded", "one_batch")]
        return [*lines, *notes, recommended_line(recommendation(snapshot))]

    @property
    def _is_queued(self) -> bool:
        """Whether records wait in its source, so that whether the backlog grows is the first question."""
        return self._snapshot.source is not None and self._snapshot.source.kind == "kafka"

    def _all_read(self) -> bool:
        view = holding_view(self._snapshot)
        # What a replay has not read yet has not arrived yet.
        return (view is not None and view.backlog == 0) if self._is_queued else True

    def _none(self) -> dict[What, str]:
        snapshot = self._snapshot
        source = self._snapshot.source
        start = f" from {f.cut(f.clean(source.description), 60)}" if source else ""
        barrel = f"{f.NO_DATA}\nwaiting for the first record{start}"
        one_clock = "Spark's one clock has no idle timeout: it follows the fastest channel"
        return {
            **super()._none(),
            "barrel": f"the stream ended without a record\n{start.strip()}" if snapshot.ended else barrel,
            "channels": NO_CHANNEL,
            "inputs": NO_CHANNEL,
            "windows": ALL_CLOSED if snapshot.ended else NO_OPEN_WINDOW,
            "holders": ONE_CLOCK_FOLLOWS if snapshot.one_clock else "no channel has held back the watermark yet",
            "lateness": self.untunable() or NO_RECORD,
            "idle timeouts": one_clock if snapshot.one_clock else NO_RECORD,
            "records": "no record is in the sample yet" if snapshot.channels else NO_RECORD,
            "late records": "This run does not keep its late records.\nStart a run with --late-output DIR: it writes "
            "them to DIR as Parquet, and lists the last here.",
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
