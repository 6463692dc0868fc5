"""A run's snapshot as a few lines of text."""

from ...engine.doctor import diagnose
from ...engine.snapshot import Chain, Snapshot
from ...engine.snapshot.recommendation import recommendation
from ...engine.text import formatting as f
from ...engine.text.codes import recommended_line
from ..words.chain import text_lines
from ..words.clocks import clock_lines
from ..words.fleet import held_back_by
from ..words.notes import note_text
from ..words.presenter import in_flight, presenter_of, whole_identity
from ..words.spans import lay
from ..words.targets import barrel_parts, position
from ..words.verdict import verdict_line
from ..words.watermark import (
    cause,
    kind_words,
    late_drops,
    moved,
    no_watermark,
    node_lines,
    output_words,
    sibling_lines,
    window,
)


def judged_line(snapshot: Snapshot) -> str:
    """The verdict, with what is wrong, in a line."""
    findings = diagnose(snapshot, ())
    return verdict_line(snapshot, findings, headline=findings[0].title if findings else None)


def summary(snapshot: Snapshot) -> str:
    """Totals, watermark, windows and recommended lateness of a run; of an attached query what is known."""
    if snapshot.is_attached:
        return "\n".join(_attached(snapshot))
    totals, level, windows, held = snapshot.totals, snapshot.level, snapshot.windows, held_back_by(snapshot)
    watermark = f.NO_DATA if level.watermark_ms is None else f.stamp(level.watermark_ms, None)
    lines = [
        f"{f.clean(snapshot.name)}: {snapshot.state}, {f.counted(totals.records, 'record')}, "
        f"{f.counted(len(snapshot.channels), 'channel')}",
        judged_line(snapshot),
        f"watermark {watermark}" + ("" if held is None else f", held back by {f.clean(held)}"),
        f"late {f.share_of(totals.late, totals.records)} ({f.count(totals.late)}), "
        f"behind the watermark {f.count(totals.behind_watermark)}, in no window {f.count(totals.no_window)}, "
        f"malformed {f.count(totals.malformed)}, future timestamps {f.count(totals.future)}",
        *([] if snapshot.malformed_example is None else [f"malformed, e.g. {f.malformed(snapshot.malformed_example)}"]),
        f"windows: {f.count(windows.fired)} fired, {f.count(windows.open_count)} open, "
        f"{f.count(windows.late_firings)} late firings",
    ]
    source = snapshot.source
    if source is not None and source.time_unit is not None:
        lines.insert(1, f"event time {f.clean(source.time_column or '')}: {f.clean(source.time_unit)}")
    notes = [note_text(note) for note in snapshot.notes if note.code in ("channels_folded", "one_batch")]
    return "\n".join([*lines, *notes, recommended_line(recommendation(snapshot))])


def _attached(snapshot: Snapshot) -> list[str]:
    level, settings, windows = snapshot.level, snapshot.settings, snapshot.windows
    batch = "" if snapshot.batch is None else f", batch {f.count(snapshot.batch)}"
    running = in_flight(snapshot)
    lines = [f"{f.clean(snapshot.name)}: {snapshot.state}{batch}{'' if running is None else f' {running}'}"]
    lines += [judged_line(snapshot), whole_identity(snapshot)]
    if snapshot.error is not None:
        lines.append(f"error: {f.clean(snapshot.error)}")
    lines += [f"  {note_text(note)}" for note in snapshot.notes]
    if isinstance(snapshot.target, Chain):
        return [*lines[:2], *text_lines(snapshot.target, None)]
    watermark = no_watermark(snapshot) if level.watermark_ms is None else f.stamp(level.watermark_ms, None)
    behind = "" if level.behind_clock_ms is None else f", {f.behind_clock(level.behind_clock_ms)}"
    ago = "" if (ago := moved(snapshot)) is None else f", moved {ago}"
    if not kind_words(snapshot).has_watermark:
        settings_line = "".join(text for text, _ in lay(presenter_of(snapshot).tuning(None, None), 1_000)).strip()
        return [*lines, settings_line, *clock_lines(snapshot)]
    lines.append(f"watermark {watermark}{behind}{ago}")
    if level.holder is not None:
        lines.append(f"held back by {f.clean(level.holder.channel)}: {cause(snapshot)}")
    if snapshot.barrel is not None:
        parts = barrel_parts(snapshot.barrel, level_ms=level.watermark_ms, zone=None)
        lines.append("".join(text for text, _ in lay(parts, 1_000)).strip())
    if snapshot.spark.dropped_at_least is not None or kind_words(snapshot).reports_drops:
        lines.append(f"dropped as late: {late_drops(snapshot)}")
    delay = f.ELSEWHERE if settings.lateness_ms is None else f.setting(settings.lateness_ms)
    opened = "" if windows.open_count is None else f", {f.count(windows.open_count)} open"
    size = f"size {f.ELSEWHERE}" if settings.window is None and windows.open_count else window(settings)
    lines.append(f"lateness {delay}, windows {size}{opened}")
    lines += [recommended_line(recommendation(snapshot))] if snapshot.whatif else []
    lines += [] if (emits := output_words(snapshot)) is None else [emits]
    lines += node_lines(snapshot)
    return [*lines, *map(position, snapshot.sources or []), *sibling_lines(snapshot)]
