"""The doctor: what is wrong, ranked by what it costs, each with its evidence and the change that mends it."""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize

from ...engine.core.doctor import RULES
from ...engine.core.snapshot import Snapshot
from .. import formatting as f
from ..diagnosis import HARMS, Diagnosis, diagnoses
from ..recent import Recent
from ..widgets.line import Run, clip
from ..widgets.lines import Key
from ..widgets.report import Report, Section
from ..widgets.sheet import Item, Sheet
from ..wording import cause, name
from .detail import DetailScreen, Help, Host

LOOKED_FOR = (
    "a silent channel that holds the level, a last window that cannot close",
    "idleness that comes and goes, records late because their channel was idle",
    "skew between channels, channels that the fastest one leaves behind",
    "times in the future, in another unit, in another time zone, or not of the event; rows without a time",
    "lateness too small or larger than needed, rows dropped by the watermark",
    "batches that are slow or do not keep up, or never end; state that grows",
)
_BADGE = 8
_BESIDE = 96
"""From this width on a finding is one line."""
_TITLE = 46
_WATCHED = f.MINUTE
"""Some rules want to have seen so much."""


class DoctorScreen(DetailScreen):
    """The findings, and below them the selected one in full."""

    NAME = "Doctor"
    ABOUT = Help(
        keys=(
            ("↑ ↓", "select a finding"),
            ("Enter", "its evidence alone, on the whole screen; Esc: the list again"),
            ("v", "preview the setting that mends it; Enter then applies it"),
        ),
        reading="The worst comes first: STOPS, results do not come at all; LOSES, records are not counted; DELAYS, "
        "results come later than they must; COSTS, memory or work for nothing. Each finding says by which numbers it "
        "goes, and what would mend it. A rule speaks only when it is sure: a young stream, or one of which little is "
        "known from here, has fewer findings.\n",
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "evidence", "the evidence alone"),
        Binding("v", "preview", "preview what mends it"),
    ]

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._found: list[Diagnosis] = []
        self._alone = False

    def body(self) -> ComposeResult:
        yield Sheet(id="findings")
        yield Report(id="evidence")

    def show(self, snapshot: Snapshot) -> None:
        self._found = diagnoses(snapshot, self.seen.recent.until(snapshot), self.zone)
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

    def heading(self, snapshot: Snapshot) -> Sequence[Run]:
        count = len(self._found)
        return [(f"  {count} finding{'s' * (count != 1)}" if count else "  nothing found", "dim")]

    def keys(self, snapshot: Snapshot) -> Sequence[Key]:
        chosen = self._chosen
        if chosen is None:
            return ()
        try_it = [] if chosen.wish is None else [Key("v", f"preview {chosen.wish.words()}", "preview", 1)]
        if self.preview is not None:
            return try_it
        return [Key("Enter", "the list" if self._alone else "evidence", "evidence", 2), *try_it]

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self.repaint)

    def on_sheet_moved(self, event: Sheet.Moved) -> None:
        self._explain()
        self.repaint()

    def action_evidence(self) -> None:
        """The evidence alone, or with the list."""
        self._set_alone(not self._alone and self._chosen is not None)

    def action_back(self) -> None:
        """From the evidence to the list, from the list to where it was opened."""
        if self._alone:
            self._set_alone(False)
        else:
            super().action_back()

    def action_preview(self) -> None:
        """Preview the setting that mends it."""
        chosen = self._chosen
        if chosen is None or chosen.wish is None:
            self.notify("no setting mends this one", timeout=4)
        else:
            self.host.want(chosen.wish)

    @property
    def _chosen(self) -> Diagnosis | None:
        """The finding that the cursor is on."""
        key = self.query_one(Sheet).cursor if self.is_mounted else None
        return next((found for found in self._found if found.key == key), None)

    def _set_alone(self, alone: bool) -> None:
        self._alone = alone
        self.query_one(Report if alone else Sheet).focus()
        self.repaint()

    def _explain(self) -> None:
        chosen = self._chosen
        seen = self.seen
        report = self.query_one(Report)
        if chosen is None:
            report.show(_nothing(seen.snapshot, seen.recent))
        else:
            report.show([*([_head_section(chosen)] if self._alone else []), *_sections(chosen)])


def _item(found: Diagnosis, wide: bool) -> Item:
    if wide:
        return Item((partial(_line, found),), found.key)
    return Item((partial(_head, found), partial(_cost, found)), found.key)


def _badge(found: Diagnosis) -> Run:
    word, ink = HARMS[found.harm]
    return f" {f.pad(word, _BADGE - 1)}", ink


def _line(found: Diagnosis, width: int) -> list[Run]:
    title = min(max(_TITLE, width // 2 - _BADGE), 60)
    return clip([_badge(found), (f.pad(found.title, title) + "  ", "strong"), (found.cost, "text")], width)


def _head(found: Diagnosis, width: int) -> list[Run]:
    return clip([_badge(found), (found.title, "strong")], width)


def _cost(found: Diagnosis, width: int) -> list[Run]:
    return clip([(" " * _BADGE, "dim"), (found.cost, "text")], width)


def _head_section(found: Diagnosis) -> Section:
    word, ink = HARMS[found.harm]
    return Section(found.title, [f"{word} {found.cost}"], ink=ink)


def _sections(found: Diagnosis) -> list[Section]:
    return [
        Section("What mends it", found.remedy, "▸ "),
        Section("Evidence", found.evidence, "· "),
        Section("Why", [found.cause]),
    ]


def _nothing(snapshot: Snapshot, recent: Recent) -> list[Section]:
    """What is said where there is nothing to say."""
    if snapshot.state in ("starting", "failed"):
        words = "waits for the first batch" if snapshot.state == "starting" else "does not look at what has failed"
        return [Section("", [f"The doctor {words}."])]
    points = recent.until(snapshot)
    watched_ms = points[-1].wall_ms - points[0].wall_ms if points else 0
    young = f"It has been watched for {f.duration(watched_ms)} only: rules that go by time wait for a minute or two."
    told = [young] if watched_ms < _WATCHED else []
    if snapshot.level.holder is not None:
        held = f"{name(snapshot.level.holder.channel)} holds the level: {cause(snapshot)}."
        told.append(f"{held} What other settings would give: l, and i for the idle timeout.")
    if snapshot.origin is not None:
        told.append("Of a query that others run, what is not known from here is not judged.")
    return [
        Section("Nothing is wrong, as far as can be seen", [f"None of {len(RULES)} rules has anything to say.", *told]),
        Section("What is looked for", LOOKED_FOR, "· ", ink="dim"),
    ]
