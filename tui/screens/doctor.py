"""The doctor: the findings, the worst first, each with its cause, its evidence and what to do."""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.events import Resize

from ...engine.doctor import RULES, Diagnosis, Severity, diagnose, explain
from ...engine.snapshot import Snapshot
from ...engine.text import formatting as f
from ...engine.text.formatting import name
from ..widgets.bindings import bindings
from ..widgets.rows import Item, Sheet
from ..widgets.text import Section, SectionedText
from ..words.keys import LINKS, Hint, hint
from ..words.late_records import About
from ..words.lists import NO_FIX, TableRecords
from ..words.presenter import presenter_of
from ..words.recent import Recent
from ..words.spans import Span, clip
from .detail import DetailScreen
from .host import Help, ScreenHost, app_of
from .late_records import LateRecordsScreen, WhoIsLateScreen

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
"""The word and the ink for each severity."""
_BADGE = 10
_BESIDE = 96
"""Width from which a finding is one line."""
_TITLE = 52
_RECHECK_S = 2.0


class DoctorScreen(DetailScreen):
    """The findings, and below them the selected one in full."""

    NAME = PLACE = "Doctor"
    ABOUT = Help(
        reading="The worst comes first. CRITICAL: results stop, or are wrong. WARNING: results suffer, or soon will. "
        "INFO: worth knowing. Each finding shows its cause, the numbers it rests on, and what to do. Without a verdict "
        "there is no all-clear: then the doctor says that it cannot tell yet.\n"
    )
    BINDINGS: ClassVar[list[BindingType]] = bindings("Doctor")

    def __init__(self, host: ScreenHost) -> None:
        super().__init__(host)
        self._found: list[Diagnosis] = []
        self._found_for: tuple[Snapshot, tuple[object, ...]] | None = None
        self._alone = False

    def body(self) -> ComposeResult:
        yield Sheet(id="findings")
        yield SectionedText(id="evidence")

    def on_mount(self) -> None:
        super().on_mount()
        self.set_interval(_RECHECK_S, self._recheck)

    def _recheck(self) -> None:
        """Check for an engine that sends nothing, which no snapshot can show."""
        if self.host.seen.silent_ms is not None and self.app.screen is self:  # pyright: ignore[reportUnknownMemberType]
            self.take(self.host.seen)

    def show(self, snapshot: Snapshot) -> None:
        seen = self.seen
        past = seen.recent.until(snapshot)
        silent_s = None if seen.silent_ms is None else seen.silent_ms // 1_000
        asked, known = (seen.lost, self.zone, silent_s), self._found_for
        if known is None or known[0] is not snapshot or known[1] != asked:
            self._found_for = snapshot, asked  # not for every key: with ten thousand channels it takes a while
            findings = diagnose(snapshot, past, lost=seen.lost, silent_ms=seen.silent_ms)
            self._found = [explain(finding, snapshot, self.zone) for finding in findings]
        sheet = self.query_one(Sheet)
        wide = self.size.width >= _BESIDE
        sheet.show([_item(found, wide) for found in self._found])
        sheet.display = bool(self._found) and not self._alone
        sheet.styles.height = min(len(self._found) * (1 if wide else 2), max(self.size.height // 3, 2)) + 1
        self._explain()

    @property
    def crumb(self) -> str:
        chosen = self._chosen
        return f"{self.NAME} › {chosen.title}" if self._alone and chosen else self.NAME

    def heading(self, snapshot: Snapshot) -> Sequence[Span]:
        count = len(self._found)
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

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self.repaint)

    def on_sheet_moved(self, event: Sheet.Moved) -> None:
        self._explain()
        self.repaint()

    def records(self) -> TableRecords:
        return TableRecords("findings", self._found)

    def name_of(self, key: str) -> str:
        return next((found.title for found in self._found if found.code == key), key)

    def action_follow(self) -> None:
        """Open the screen that shows the finding."""
        chosen = self._chosen
        if chosen is None:
            return
        if chosen.channel is not None and self._has_page(chosen.channel):
            self.host.open_channel(chosen.channel)
        elif WhoIsLateScreen.NAME in chosen.screens:
            app_of(self).push_screen(WhoIsLateScreen(self.host))
        elif (screen := _screen_of(chosen)) is not None:
            self.host.action_detail(screen)

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
        app_of(self).push_screen(LateRecordsScreen(self.host, About(channel)))

    def action_preview(self) -> None:
        """Preview the setting that fixes it."""
        chosen = self._chosen
        if chosen is None or chosen.proposed is None:
            self.notify(NO_FIX, timeout=4)
        else:
            self.host.want(chosen.proposed)

    @property
    def _chosen(self) -> Diagnosis | None:
        """The finding under the cursor."""
        key = self.query_one(Sheet).cursor if self.is_mounted else None
        return next((found for found in self._found if found.code == key), None)

    def _has_page(self, channel: str) -> bool:
        return any(view.channel == channel for view in self.seen.snapshot.channels)

    def _where(self, found: Diagnosis) -> str | None:
        """The target of Enter."""
        if found.channel is not None and self._has_page(found.channel):
            return f"channel {name(found.channel)}"
        return _screen_of(found)

    def _set_alone(self, alone: bool) -> None:
        self._alone = alone
        self.query_one(SectionedText if alone else Sheet).focus()
        self.repaint()

    def _explain(self) -> None:
        chosen = self._chosen
        report = self.query_one(SectionedText)
        if chosen is None:
            hidden = bool(self._found) and self.filtered
            report.show([] if hidden else _no_findings(self.seen.snapshot, self.seen.recent))
        else:
            head = [_head_section(chosen)] if self._alone else []
            report.show([*head, *_sections(chosen, self._where(chosen))])


def _screen_of(found: Diagnosis) -> str | None:
    """The first existing one of its screens."""
    known = {WhoIsLateScreen.NAME, *(link.name for link in LINKS)}
    return next((screen for screen in found.screens if screen in known), None)


def _item(found: Diagnosis, wide: bool) -> Item:
    if wide:
        return Item((partial(_line, found),), found.code)
    return Item((partial(_head, found), partial(_impact, found)), found.code)


def _badge(found: Diagnosis) -> Span:
    word, ink = SEVERITIES[found.severity]
    return f" {f.pad(word, _BADGE - 1)}", ink


def _line(found: Diagnosis, width: int) -> list[Span]:
    title = min(max(_TITLE, width // 2 - _BADGE), 64)
    return clip([_badge(found), (f.pad(found.title, title) + "  ", "strong"), (found.impact, "text")], width)


def _head(found: Diagnosis, width: int) -> list[Span]:
    return clip([_badge(found), (found.title, "strong")], width)


def _impact(found: Diagnosis, width: int) -> list[Span]:
    return clip([(" " * _BADGE, "dim"), (found.impact, "text")], width)


def _head_section(found: Diagnosis) -> Section:
    word, ink = SEVERITIES[found.severity]
    return Section(found.title, [f"{word}: {found.impact}"], ink=ink)


def _sections(found: Diagnosis, where: str | None) -> list[Section]:
    shown = [] if where is None else [f"Enter opens {where if found.channel else f'the {where} screen'}"]
    return [
        Section("Fix", found.fixes, "▸ "),
        Section("Cause", [found.cause]),
        Section("Evidence", [*found.evidence, *shown], "· "),
    ]


def _no_findings(snapshot: Snapshot, recent: Recent) -> list[Section]:
    """The text without a finding: that event time was judged, and what was checked."""
    points = recent.until(snapshot)
    watched_ms = points[-1].wall_ms - points[0].wall_ms if points else 0
    known = ["The stream has ended."] if snapshot.ended else [f"Watched for {f.duration(watched_ms)}."]
    if snapshot.level.holder is not None and snapshot.level.behind_fastest_ms:
        behind = f.duration(snapshot.level.behind_fastest_ms)
        known.append(f"{name(snapshot.level.holder.channel)} sets the watermark, {behind} behind the fastest channel.")
    if (limits := presenter_of(snapshot).not_judged()) is not None:
        known.append(limits)
    return [
        Section("No findings", [f"None of {len(RULES)} rules found anything.", *known]),
        Section("Checked", CHECKED, "· ", ink="dim"),
    ]
