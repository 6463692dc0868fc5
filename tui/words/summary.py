"""A snapshot as text: an incident as Markdown, the summary of a run in a few lines. Pure."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC

import msgspec
from msgspec import Struct

from ...engine.doctor import Finding, diagnose, explain
from ...engine.snapshot import Snapshot
from ...engine.snapshot.recommendation import recommendation
from ...engine.text import formatting as f
from ...engine.text.codes import recommended_words
from ...engine.verdict.alerts import Event
from ...engine.verdict.history import HistoryPoint
from .check import KINDS_OF_FACTS, check_input, facts_of
from .fact_values import Value, shown
from .history import ALERTED, event_words
from .kinds import presenter_of
from .late_records import late_cells, standing_out, value_facts
from .spans import Part, lay, text_of
from .staircase import steps
from .verdict import age_words, usually, verdict_line
from .watermark import late_drops, of_its_kind

PICTURE, RECORDING, SNAPSHOT, TEXT = "main.svg", "last-minutes.rec", "snapshot.json", "incident.md"
"""The files of an incident."""
MAX_CHANNELS, MAX_WINDOWS, MAX_EVENTS = 30, 15, 100
_GAP = re.compile(r"\s{2,}")
_MARKUP = re.compile(r"([\\`*_{}\[\]<>|#~])")


class Clip(Struct, frozen=True):
    """The recording beside the text: its snapshots, and the wall clock (epoch ms) of the first and last."""

    snapshots: int
    first_ms: int | None
    last_ms: int | None


class Case(Struct, frozen=True, kw_only=True):
    """The input of the text."""

    snapshot: Snapshot
    past: Sequence[HistoryPoint]
    events: Sequence[Event]
    clip: Clip
    versions: Sequence[tuple[str, str]]
    written_ms: int
    lost: str | None = None
    """Why there is nothing newer."""
    redacted: bool = False
    recorded: bool = False
    """Whether it is about a moment in a recording, not a running target."""

    @property
    def findings(self) -> Sequence[Finding]:
        """The doctor's findings, the worst first."""
        return diagnose(self.snapshot, self.past, lost=self.lost)


def markdown(case: Case) -> str:
    """The whole text."""
    parts = [
        _head(case),
        _verdict(case),
        _findings(case),
        _blockers(case.snapshot),
        _hops(case.snapshot),
        _timeline(case),
        _evidence(case),
        _channels(case.snapshot),
        _late_values(case.snapshot),
        _windows(case.snapshot),
        _settings(case.snapshot),
        _table("Versions", ("part", "version"), case.versions),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(case: Case) -> str:
    snapshot, clip = case.snapshot, case.clip
    taken = f.UNKNOWN if snapshot.wall_ms is None else _at(snapshot.wall_ms)
    clock = "" if snapshot.now_ms is None else f", processing time {_at(snapshot.now_ms)}"
    covered = ""
    if clip.first_ms is not None and clip.last_ms is not None:
        length = f.duration(clip.last_ms - clip.first_ms)
        covered = f" from {_at(clip.first_ms)} to {_at(clip.last_ms)} ({length})"
    lines = [
        f"# Incident: {_text(snapshot.name)}",
        "",
        f"Snapshot taken at {taken}{clock}. Report written at {_at(case.written_ms)}.",
        *(["Names of channels, files and columns are redacted."] if case.redacted else []),
        "",
        f"![The main screen]({PICTURE})",
        "",
        f"- [{RECORDING}]({RECORDING}): {f.counted(clip.snapshots, 'snapshot')}{covered}; "
        f"`wmtop replay {RECORDING}` shows them",
    ]
    if not case.recorded:  # what is known about the time before a recording that was made for this report
        first_ms = min((point.wall_ms for point in case.past), default=None)
        earlier = first_ms is not None and clip.first_ms is not None and first_ms < clip.first_ms
        known = f"; the timeline below begins at {_at(first_ms or 0)}" if earlier else ""
        lines.append(
            f"- what came before was not watched{known}. A run with `--record FILE` keeps all of it: "
            "`wmtop report FILE --at TIME`"
        )
    return "\n".join([*lines, f"- [{SNAPSHOT}]({SNAPSHOT}): this snapshot as JSON"])


def _at(ms: int) -> str:
    return f.stamp(ms, UTC)


def _verdict(case: Case) -> str:
    snapshot, verdict = case.snapshot, case.snapshot.verdict
    words, time = presenter_of(snapshot), of_its_kind(snapshot, "the watermark")
    watermark, holder = _line(words.watermark(UTC)), _line(words.holder(UTC))
    lines = ["## Verdict", "", f"**{_text(verdict_line(snapshot, case.findings, lost=case.lost, zone=UTC))}**", ""]
    if verdict.since_ms is not None:
        lines.append(f"- since {_at(verdict.since_ms)} (processing time)")
    if (age := age_words(verdict)) is not None:
        lines.append(f"- {time} last advanced {age} ago{'' if (usual := usually(verdict)) is None else f', {usual}'}")
    if verdict.patience_ms is not None:
        lines.append(f"- a stall takes more than {f.duration(verdict.patience_ms)}")
    lines += [f"- {_text(watermark)}", *([f"- {_text(holder)}"] if holder else [])]
    if case.lost is not None:
        lines.append(f"- {_text(case.lost)}")
    if snapshot.error is not None:
        lines.append(f"- error: {_text(f.first_line(snapshot.error))}")
    return "\n".join(lines)


def _line(parts: Sequence[Part]) -> str:
    """A line of the screen as text."""
    return _GAP.sub(" · ", text_of(lay(parts, 1_000)))


def _findings(case: Case) -> str:
    lines = ["## Findings"]
    findings = case.findings
    for finding in findings:
        said = explain(finding, case.snapshot, UTC)
        lines += ["", f"### {said.severity}: {_text(said.title)}", "", f"{_text(said.impact)}", ""]
        lines += [f"- cause: {_text(said.cause)}", *(f"- evidence: {_text(line)}" for line in said.evidence)]
        lines += [f"- fix: {_text(fix)}" for fix in said.fixes]
    if not findings:
        lines += ["", "None, as far as can be judged from here."]
        if limits := presenter_of(case.snapshot).no("judgement"):
            lines.append(_text(limits))
    return "\n".join(lines)


def _blockers(snapshot: Snapshot) -> str:
    rows = [(facts.who, facts.why, f.signed(facts.step.gain_ms), facts.frees) for facts in steps(snapshot)]
    return _table("Blockers", ("channel", "why", "gain when freed down to here", "what frees it"), rows)


def _hops(snapshot: Snapshot) -> str:
    lines = presenter_of(snapshot).listing(UTC)
    return "\n".join(["## Hops", "", *(f"    {line}" for line in lines)]) if lines else ""


def _timeline(case: Case) -> str:
    rows: list[tuple[str, ...]] = []
    for event in case.events[-MAX_EVENTS:]:
        words = event_words(event)
        at_ms = event.wall_ms if event.now_ms is None else event.now_ms
        rows.append((_at(at_ms), ALERTED * event.alert, words.what, words.detail))
    if not rows:
        return "## Timeline\n\nNo events in what was seen."
    left = len(case.events) - len(rows)
    more = f"{left:,} earlier events are left out." if left > 0 else ""
    return _table("Timeline", ("processing time", "alert", "event", ""), rows, more)


def _evidence(case: Case) -> str:
    snapshot, past = case.snapshot, case.past
    facts = facts_of(check_input(snapshot, past, case.lost))
    rows = [(name, _fact(name, value)) for name, value in facts.items()]
    totals = snapshot.totals
    rows += [
        ("records", f.count(totals.records)),
        (presenter_of(snapshot).late_name, late_drops(snapshot)),
        ("malformed records", f.count(totals.malformed)),
        *([("malformed, e.g.", f.malformed(example))] if (example := snapshot.malformed_example) else []),
        ("future timestamps", f.count(totals.future)),
        ("recommended lateness", ": ".join(recommended_words(recommendation(snapshot)))),
        ("history seen", f.duration(past[-1].wall_ms - past[0].wall_ms) if past else "none"),
    ]
    return _table("Evidence", ("fact", "value"), rows)


def _fact(name: str, value: Value) -> str:
    kind = KINDS_OF_FACTS.get(name, "ratio")
    if value is None:
        return "not known"
    return f"{value:g}" if kind == "ratio" and not isinstance(value, str) else shown(value, kind)


def _channels(snapshot: Snapshot) -> str:
    behind = sorted(snapshot.channels, key=lambda view: (view.watermark_ms is None, view.watermark_ms or 0))
    counts_late = snapshot.target.counts_late
    rows = [
        (
            f.label(view.channel),
            view.state.replace("_", " "),
            f.UNKNOWN if view.watermark_ms is None else _at(view.watermark_ms),
            f.duration(view.quiet_ms),
            f.count(view.records),
            f.count(view.late if counts_late else None),
            f.count(view.backlog),
        )
        for view in behind[:MAX_CHANNELS]
    ]
    heads = ("channel", "state", snapshot.target.time_name, "no data for", "records", "late", "backlog")
    left = len(behind) - len(rows)
    more = f"{SNAPSHOT} has {f.counted(left, 'more channel')}." if left > 0 else ""
    return _table("Channels, most behind first", heads, rows, more)


def _late_values(snapshot: Snapshot) -> str:
    rows = [
        (column.column, *late_cells(facts))
        for column in snapshot.own.explain or ()
        for facts in standing_out(value_facts(column))
        if facts.value.late
    ]
    return _table("Late records by value", ("column", "value", "late", "all", "lift (95 % interval)"), rows)


def _windows(snapshot: Snapshot) -> str:
    windows = snapshot.windows
    rows = [
        (
            f"{_at(window.start_ms)} to {_at(window.end_ms)}",
            f.count(window.records),
            f.duration(None if window.short_ms is None else max(window.short_ms, 0)),
            ", ".join(map(f.label, (window.blockers or [])[:5])) or f.label(window.waits_for or f.UNKNOWN),
        )
        for window in windows.open[:MAX_WINDOWS]
    ]
    left = (windows.open_count or len(windows.open)) - len(rows)
    more = f"{left:,} more are open." if left > 0 else ""
    return _table("Open windows", ("window", "records", "event time missing", "waits for"), rows, more)


def _settings(snapshot: Snapshot) -> str:
    rows = [("source", f"{snapshot.source.kind}: {snapshot.source.description}")] if snapshot.source else []
    if not snapshot.target.reports_settings:  # a Flink job's are in the job, not in the REST API
        rows += [(name, f.ELSEWHERE) for name in ("lateness", "idle after", "allowed lateness", "window")]
    else:
        rows += _flat(msgspec.to_builtins(snapshot.settings))
    return _table("Settings", ("setting", "value"), rows)


def _flat(values: dict[str, object], above: str = "") -> list[tuple[str, str]]:
    """Settings as rows; durations as on the command line."""
    out: list[tuple[str, str]] = []
    for name, value in values.items():
        whole = f"{above}{name.removesuffix('_ms').replace('_', ' ')}"
        if isinstance(value, dict):
            out += _flat({str(key): item for key, item in value.items()}, f"{whole} ")  # pyright: ignore
        elif name.endswith("_ms"):
            out.append((whole, f.setting(value if isinstance(value, int) else None)))
        else:
            out.append((whole, "–" if value is None else str(value)))
    return out


def _table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]], more: str = "") -> str:
    """A section with a table and a line on what is left out; nothing without rows."""
    lines = ["| " + " | ".join(_text(cell) for cell in row) + " |" for row in rows]
    if not lines:
        return ""
    heading = [f"## {title}", "", f"| {' | '.join(heads)} |", "|" + " --- |" * len(heads)]
    return "\n".join([*heading, *lines, *(["", more] if more else [])])


def _text(text: str) -> str:
    """Text from outside, escaped so that no Markdown reader takes it for markup."""
    return _MARKUP.sub(r"\\\1", f.clean(text))


def judged_line(snapshot: Snapshot) -> str:
    """The verdict, with what is wrong, in a line."""
    return verdict_line(snapshot, diagnose(snapshot, ()))


def summary(snapshot: Snapshot) -> str:
    """Totals, watermark, windows and recommended lateness of a run; of an attached query what is known."""
    return "\n".join(presenter_of(snapshot).summary(judged_line(snapshot)))
