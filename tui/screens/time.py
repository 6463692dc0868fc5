"""Time: processing time across, event time up; the records, the level as a step line, and the ends of the windows."""

from collections.abc import Sequence
from typing import ClassVar

from msgspec.structs import replace
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from ...engine.core.snapshot import Snapshot
from .. import formatting as f
from ..preview import LatenessPreview
from ..time_plot import DIAGONAL, GRID, LATE, LEVEL, PREVIEW, Data, Look, data_of, grid_is_drawn, moved, zoomed
from ..widgets.line import Run
from ..widgets.lines import Key
from ..widgets.time_canvas import TimeCanvas
from ..wording import name
from .detail import DetailScreen, Help, Host, app_of

_ROOMY = 110
_STEP = 0.25
"""The share of the picture that an arrow moves."""


class TimeScreen(DetailScreen):
    """The picture; it follows the clock until it is moved."""

    NAME = "Time"
    ABOUT = Help(
        keys=(
            ("z Z", "zoom in or out (also PgUp, PgDn)"),
            ("← → ↑ ↓", "move; End: follow the clock again, Home: all that is kept"),
            ("Tab", "the records of the next channel alone (shift+Tab: the one before); a: of all"),
        ),
        reading="To the right the clock goes on, upwards event time does. ╱ is where both are the same: a record that "
        "is seen at once lies on it, one that comes late lies below. ─ is the level: it stands, and steps up. ┈ are "
        "the ends of windows: where the level crosses one, the window closes. ⠶ records on time, × late: the level "
        "had passed the end of their window when they came. A record may lie below the level and be on time, as long "
        "as its window is open.\n"
        "Records are a sample (the latest of each group of a batch, of those at most 2,000), late ones more often than "
        "the rest: the picture shows when and how, the counts on top say how many. ╌ is where the level would have "
        "been with the previewed lateness.\n",
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("z,pageup", "zoom(1)", "zoom in"),
        Binding("Z,pagedown", "zoom(-1)", "zoom out"),
        Binding("left", "move(-1, 0)", "back in time"),
        Binding("right", "move(1, 0)", "on in time"),
        Binding("up", "move(0, 1)", "later event times"),
        Binding("down", "move(0, -1)", "earlier event times"),
        Binding("end", "follow", "follow the clock"),
        Binding("home", "all", "all that is kept"),
        Binding("tab", "channel(1)", "the next channel"),
        Binding("shift+tab", "channel(-1)", "the channel before"),
        Binding("a", "channels", "all channels"),
    ]

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._look = Look()
        self._data: Data | None = None

    def body(self) -> ComposeResult:
        yield TimeCanvas(plain=app_of(self).no_color, id="time")

    def show(self, snapshot: Snapshot) -> None:
        recent, preview = self.seen.recent, self.preview
        lateness = preview.lateness_ms if isinstance(preview, LatenessPreview) else None
        self._data = data_of(snapshot, recent.until(snapshot), recent.sample, self._look.channel, lateness)
        self.query_one(TimeCanvas).show(self._data, self._look, self.zone, self._missing(snapshot))

    def heading(self, snapshot: Snapshot) -> Sequence[Run]:
        channel = self._look.channel
        who = "all channels" if channel is None else name(channel)
        out: list[Run] = [("  ", "dim"), (who, "strong" if channel is None else "selected")]
        if self._data is not None and self._data.points and self.size.width >= _ROOMY and not self._look.back_ms:
            late = sum(point.late for point in self._data.points)
            told = f", {late:,} late" if snapshot.origin is None else f", late: {f.ELSEWHERE}"
            out.append((f"  a sample of {len(self._data.points):,} records{told}", "dim"))
        if self._look.back_ms and self._data is not None:
            out.append((f"  {f.duration(self._look.back_ms)} ago", "stale"))
        return out

    def legend(self, snapshot: Snapshot) -> Sequence[Run]:
        known = snapshot.origin is None  # whether records were late
        signs: list[Run] = [("⠶", "on-time"), (" on time  " if known else " record  ", "dim")]
        signs += [(LATE, "bad"), (" late  ", "dim")] if known else []
        signs += [(LEVEL, "level"), (" level  ", "dim"), (self._diagonal, "dim"), (" now", "dim")]
        frame = self.query_one(TimeCanvas).frame
        roomy = self.size.width >= _ROOMY - 10
        if roomy and self._data is not None and frame is not None and grid_is_drawn(self._data, frame):
            signs += [("  ", "dim"), (GRID, "dim"), (" window ends", "dim")]
        if isinstance(self.preview, LatenessPreview):
            signs += [("  ", "dim"), (PREVIEW, "preview"), (" previewed", "dim")]
        return signs

    @property
    def _diagonal(self) -> str:
        return DIAGONAL if app_of(self).no_color else "⠢"

    def keys(self, snapshot: Snapshot) -> Sequence[Key]:
        out = [Key("z/Z", "zoom", "zoom(1)", 2), Key("←→↑↓", "move", "move(-1, 0)", 3)]
        if self._look.back_ms or self._look.up_ms or self._look.zoom:
            out.append(Key("End", "follow", "follow", 1))
        if snapshot.channels:
            out.append(Key("Tab", "channel", "channel(1)", 3))
        if self._look.channel is not None:
            out.append(Key("a", "all", "channels", 1))
        return out

    def action_zoom(self, by: int) -> None:
        """Zoom in or out."""
        frame = self.query_one(TimeCanvas).frame
        if frame is not None:
            self._look_at(zoomed(self._look, frame, by))

    def action_move(self, right: int, up: int) -> None:
        """Move the picture."""
        frame = self.query_one(TimeCanvas).frame
        if frame is not None:
            self._look_at(moved(self._look, frame, _STEP * right, _STEP * up))

    def action_follow(self) -> None:
        """As at first: the newest, and as far as it follows the clock."""
        self._look_at(Look(channel=self._look.channel))

    def action_all(self) -> None:
        """Zoom out until everything is in."""
        look, canvas = replace(self._look, back_ms=0, up_ms=0), self.query_one(TimeCanvas)
        while canvas.frame is not None and self._data is not None:
            before = canvas.frame
            oldest = min((now for now, _ in self._data.line[:1]), default=before.x_low)
            if before.x_low <= oldest:
                break
            look = zoomed(look, before, -1)
            self._look_at(look)
            if canvas.frame == before:
                break

    def action_channel(self, by: int) -> None:
        """The records of the next channel, in the order of the names."""
        names = sorted(view.channel for view in self.seen.snapshot.channels)
        if not names:
            return
        here = self._look.channel
        if here in names:
            place = (names.index(here) + by) % len(names)
        else:
            chosen = self.seen.view.selected
            place = names.index(chosen) if chosen in names else 0 if by > 0 else len(names) - 1
        self._look_at(replace(self._look, channel=names[place]))

    def action_channels(self) -> None:
        """The records of all channels."""
        self._look_at(replace(self._look, channel=None))

    def _look_at(self, look: Look) -> None:
        self._look = look
        self.repaint()

    def _missing(self, snapshot: Snapshot) -> str:
        """Why there is nothing, or no record, to be seen."""
        if self._data is None:
            return "no data yet"
        if self._data.points:
            return ""
        if self._look.channel is not None:
            return f"no record of {name(self._look.channel)} is in the sample"
        if snapshot.origin is not None:
            return f"records: {f.ELSEWHERE}"
        return "no record has come yet" if not snapshot.channels else "no record is in the sample yet"
