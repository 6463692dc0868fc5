"""A run's snapshot as a few lines of text."""

from ...engine.doctor import diagnose, explain
from ...engine.snapshot import Snapshot
from ...engine.snapshot.recommendation import recommendation
from ...engine.text.codes import recommended_line
from ...engine.text.formatting import (
    ELSEWHERE,
    NO_DATA,
    behind_clock,
    clean,
    count,
    counted,
    malformed,
    setting,
    share_of,
    stamp,
)
from ..words.notes import note_text
from ..words.presenter import in_flight, whole_identity
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


def summary(snapshot: Snapshot) -> str:
    """Totals, watermark, windows and recommended lateness of a run; of an attached query what is known."""
    if snapshot.is_attached:
        return "\n".join(_attached(snapshot))
    totals, level, windows = snapshot.totals, snapshot.level, snapshot.windows
    watermark = NO_DATA if level.watermark_ms is None else stamp(level.watermark_ms, None)
    lines = [
        f"{clean(snapshot.name)}: {snapshot.state}, {counted(totals.records, 'record')}, "
        f"{counted(len(snapshot.channels), 'channel')}",
        verdict_line(snapshot),
        f"watermark {watermark}" + (f", held back by {clean(level.holder.channel)}" if level.holder else ""),
        f"late {share_of(totals.late, totals.records)} ({count(totals.late)}), "
        f"behind the watermark {count(totals.behind_watermark)}, in no window {count(totals.no_window)}, "
        f"malformed {count(totals.malformed)}, future timestamps {count(totals.future)}",
        *([] if snapshot.malformed_example is None else [f"malformed, e.g. {malformed(snapshot.malformed_example)}"]),
        f"windows: {count(windows.fired)} fired, {count(windows.open_count)} open, "
        f"{count(windows.late_firings)} late firings",
    ]
    source = snapshot.source
    if source is not None and source.time_unit is not None:
        lines.insert(1, f"event time {clean(source.time_column or '')}: {clean(source.time_unit)}")
    notes = [note_text(note) for note in snapshot.notes if note.code in ("channels_folded", "one_batch")]
    return "\n".join([*lines, *notes, recommended_line(recommendation(snapshot))])


def _attached(snapshot: Snapshot) -> list[str]:
    level, settings, windows = snapshot.level, snapshot.settings, snapshot.windows
    batch = "" if snapshot.batch is None else f", batch {count(snapshot.batch)}"
    running = in_flight(snapshot)
    lines = [f"{clean(snapshot.name)}: {snapshot.state}{batch}{'' if running is None else f' {running}'}"]
    findings = diagnose(snapshot, ())
    headline = explain(findings[0], snapshot, None).title if findings else None
    lines += [verdict_line(snapshot, findings, headline=headline), whole_identity(snapshot)]
    if snapshot.error is not None:
        lines.append(f"error: {clean(snapshot.error)}")
    lines += [f"  {note_text(note)}" for note in snapshot.notes]
    watermark = no_watermark(snapshot) if level.watermark_ms is None else stamp(level.watermark_ms, None)
    behind = "" if level.behind_clock_ms is None else f", {behind_clock(level.behind_clock_ms)}"
    ago = "" if (ago := moved(snapshot)) is None else f", moved {ago}"
    lines.append(f"watermark {watermark}{behind}{ago}")
    if level.holder is not None:
        lines.append(f"held back by {clean(level.holder.channel)}: {cause(snapshot)}")
    if snapshot.barrel is not None:
        parts = barrel_parts(snapshot.barrel, level_ms=level.watermark_ms, zone=None)
        lines.append("".join(text for text, _ in lay(parts, 1_000)).strip())
    if snapshot.spark.dropped_at_least is not None or kind_words(snapshot).reports_drops:
        lines.append(f"dropped as late: {late_drops(snapshot)}")
    delay = ELSEWHERE if settings.lateness_ms is None else setting(settings.lateness_ms)
    opened = "" if windows.open_count is None else f", {count(windows.open_count)} open"
    size = f"size {ELSEWHERE}" if settings.window is None and windows.open_count else window(settings)
    lines.append(f"lateness {delay}, windows {size}{opened}")
    lines += [recommended_line(recommendation(snapshot))] if snapshot.whatif else []
    lines += [] if (emits := output_words(snapshot)) is None else [emits]
    lines += node_lines(snapshot)
    return [*lines, *map(position, snapshot.sources or []), *sibling_lines(snapshot)]
