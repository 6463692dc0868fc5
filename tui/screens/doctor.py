"""The doctor: the findings, the worst first, each with its cause, its evidence and what to do."""

from collections.abc import Sequence

from textual.app import ComposeResult

from ...engine.doctor import RULES, Diagnosis, Severity, explain
from ...engine.snapshot import Snapshot
from ...engine.text import formatting as f
from ...engine.text.formatting import name
from ...engine.verdict.blame import channel_named
from ..widgets.rows import Draw, Item, Section, SectionedText, Sheet
from ..words.keys import Hint, hint
from ..words.kinds import presenter_of
from ..words.late_records import About
from ..words.recent import Recent
from ..words.spans import Span, fitted
from ..words.texts import NO_FIX, TableRecords
from .base_app import app_of
from .target_screen import FURTHER, DetailScreen

CHECKED = (
    "The engine, the query and the source: failed, stale, not started, without records",
    "The watermark: channels without data or lagging, no data, channels that realign, a raised lateness",
    "Idleness: channels that turn idle again and again, or return too late",
    "Event times: in the future, in another unit or time zone, not event times at all; rows without one",
    "Lateness: too small, larger than needed, a burst; rows that Spark drops, a delay of 0",
    "Batches and state: slow, falling behind, never ending; state that keeps growing",
    "Flink jobs: restarts, late records, sources and operators without a watermark",
)
SEVERITIES: dict[Severity, tuple[str, str]] = {
    "critical": ("CRITICAL", "bad"),
    "warning": ("WARNING", "stale"),
    "info": ("INFO", "dim"),
}
"""The word and the style for each severity."""
_BADGE = 10
_BESIDE = 96
"""Width from which a finding is one line."""
_TITLE = 52
_RECHECK_S = 2.0


class DoctorScreen(DetailScreen):
    """The findings, and below them the selected one in full."""

    NAME = "Doctor"
    READING = (
        "The worst comes first. CRITICAL: results stop, or are wrong. WARNING: results suffer, or soon will. "
        "INFO: worth knowing. Each finding shows its cause, the numbers it rests on, and what to do. Without a verdict "
        "there is no all-clear: then the doctor says that it cannot tell yet.\n"
    )

    _findings: Sequence[Diagnosis] = ()
    _alone = False

    def body(self) -> ComposeResult:
        yield Sheet(id="findings")
        yield SectionedText(id="evidence")

    def on_mount(self) -> None:
        self.set_interval(_RECHECK_S, self._recheck)

    def _recheck(self) -> None:
        """Check for an engine that sends nothing, which no snapshot can show."""
        if self.shown.silent_ms is not None and app_of(self).screen is self:
            self.shown.diagnose()
            self.paint()

    def update(self, snapshot: Snapshot) -> None:
        self._findings = [explain(finding, snapshot, self.zone) for finding in self.shown.findings]

    def show(self, snapshot: Snapshot) -> None:
        sheet, findings = self.sheet, self._findings
        wide = self.size.width >= _BESIDE
        sheet.show([_item(finding, wide) for finding in findings])
        sheet.display = bool(findings) and not self._alone
        sheet.styles.height = min(len(findings) * (1 if wide else 2), max(self.size.height // 3, 2)) + 1
        self._explain()

    @property
    def crumb(self) -> str:
        chosen = self._chosen
        return f"{self.NAME} › {chosen.title}" if self._alone and chosen else self.NAME

    def heading(self, snapshot: Snapshot) -> Sequence[Span]:
        count = len(self._findings)
        return [(f"  {f.counted(count, 'finding')}" if count else "  no findings", "dim")]

    def keys(self, snapshot: Snapshot) -> Sequence[Hint]:
        chosen = self._chosen
        if chosen is None:
            return ()
        try_it = [] if chosen.proposed is None else [hint("fix", f"preview {chosen.proposed.words()}")]
        if self.preview is not None:
            return try_it
        where = self._where(chosen)
        follow = [] if where is None else [hint("finding-follow", where.lower() if chosen.channel is None else where)]
        late = [hint("late-records")] if "Lateness" in chosen.screens else []
        return [*follow, *try_it, *late, hint("evidence", "the list" if self._alone else None)]

    def moved(self) -> None:
        self.repaint()

    def records(self) -> TableRecords:
        return TableRecords("findings", self._findings)

    def action_follow(self) -> None:
        """Open the screen that shows the finding."""
        chosen = self._chosen
        if chosen is None:
            return
        if (known := channel_named(self.snapshot, chosen.channel)) is not None:
            self.open_channel(known.channel)
        elif (screen := _screen_of(chosen)) is not None:
            self.open_further(screen)

    def action_evidence(self) -> None:
        """Show the finding alone, or with the list."""
        self._set_alone(not self._alone and self._chosen is not None)

    def leave(self) -> None:
        """From the finding to the list, from the list to where it was opened."""
        if self._alone:
            self._set_alone(False)
        else:
            super().leave()

    def action_late_records(self) -> None:
        """Open the last late records."""
        chosen = self._chosen
        channel = None if chosen is None or "Lateness" not in chosen.screens else chosen.channel
        self.open_late_records(About(channel))

    def action_preview(self) -> None:
        """Preview the setting that fixes it."""
        chosen = self._chosen
        if chosen is None or chosen.proposed is None:
            self.notify(NO_FIX, timeout=4)
        else:
            self.want(chosen.proposed)

    @property
    def _chosen(self) -> Diagnosis | None:
        """The finding under the cursor."""
        key = self.sheet.cursor if self.is_mounted else None
        return next((finding for finding in self._findings if finding.code == key), None)

    def _where(self, finding: Diagnosis) -> str | None:
        """The target of Enter."""
        known = channel_named(self.snapshot, finding.channel)
        return _screen_of(finding) if known is None else f"channel {name(known.channel)}"

    def _set_alone(self, alone: bool) -> None:
        self._alone = alone
        self.query_one(SectionedText if alone else Sheet).focus()
        self.repaint()

    def _explain(self) -> None:
        chosen = self._chosen
        report = self.query_one(SectionedText)
        if chosen is None:
            hidden = bool(self._findings) and self.pattern is not None
            report.show([] if hidden else _no_findings(self.snapshot, self.recent))
        else:
            word, style = SEVERITIES[chosen.severity]
            head = [Section(chosen.title, [f"{word}: {chosen.impact}"], style=style)] if self._alone else []
            report.show([*head, *_sections(chosen, self._where(chosen))])


def _screen_of(finding: Diagnosis) -> str | None:
    """The first existing one of its screens."""
    return next((screen for screen in finding.screens if screen in FURTHER), None)


def _item(finding: Diagnosis, wide: bool) -> Item:
    word, style = SEVERITIES[finding.severity]
    badge: Span = (f" {f.pad(word, _BADGE - 1)}", style)
    impact: Span = (finding.impact, "text")

    def line(width: int) -> list[Span]:
        room = min(max(_TITLE, width // 2 - _BADGE), 64)
        return [badge, (f.pad(fitted(finding.title, room), room) + "  ", "strong"), impact]

    def head(width: int) -> list[Span]:
        return [badge, (fitted(finding.title, width - _BADGE), "strong")]

    lines: tuple[Draw, ...] = (line,) if wide else (head, lambda _: [(" " * _BADGE, "dim"), impact])
    return Item(lines, finding.code, name=finding.title)


def _sections(finding: Diagnosis, where: str | None) -> list[Section]:
    shown = [] if where is None else [f"Enter opens {where if finding.channel else f'the {where} screen'}"]
    return [
        Section("Fix", finding.fixes, "▸ "),
        Section("Cause", [finding.cause]),
        Section("Evidence", [*finding.evidence, *shown], "· "),
    ]


def _no_findings(snapshot: Snapshot, recent: Recent) -> list[Section]:
    """The text without a finding: that event time was judged, and what was checked."""
    points = recent.until(snapshot)
    watched_ms = points[-1].wall_ms - points[0].wall_ms if points else 0
    known = ["The stream has ended."] if snapshot.ended else [f"Watched for {f.duration(watched_ms)}."]
    if snapshot.level.holder is not None and snapshot.level.behind_fastest_ms:
        behind = f.duration(snapshot.level.behind_fastest_ms)
        known.append(f"{name(snapshot.level.holder.channel)} sets the watermark, {behind} behind the fastest channel.")
    if limits := presenter_of(snapshot).no("judgement"):
        known.append(limits)
    return [
        Section("No findings", [f"None of {len(RULES)} rules found anything.", *known]),
        Section("Checked", CHECKED, "· ", style="dim"),
    ]
