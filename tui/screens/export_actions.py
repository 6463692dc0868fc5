"""Copies and saves: names and rows to the clipboard, tables, pictures and recordings to files."""

import itertools
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from heapq import nsmallest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace
from textual.command import Hit, Hits, Provider
from textual.screen import Screen

from ...engine.feed.messages import Header
from ...engine.feed.recording_writer import BackgroundWriter, RecordingWriter
from ...engine.snapshot import Snapshot
from ...engine.system.errors import RunError
from ...engine.text.formatting import clean, cut
from ..words.lists import Chosen, as_csv, as_json, recorded
from .base_app import BaseApp, Result
from .host import HasRows

_FONT_FACE = re.compile(r"\s*@font-face\s*\{[^}]*\}")


def self_contained(svg: str) -> str:
    """Textual's picture without its web fonts: with a font name and the viewer's monospace font as fallback."""
    return _FONT_FACE.sub("", svg)


class Recording:
    """A recording in progress: its file, and the thread that writes it."""

    def __init__(self, path: Path, writer: BackgroundWriter) -> None:
        self.path = path
        self._writer = writer

    def add(self, snapshot: Snapshot) -> None:
        """Add a snapshot, without waiting for the disk; RunError, once, if the recording has failed."""
        self._writer.append(snapshot)

    def finish(self) -> str:
        """Write waiting snapshots and close the file, which may take a while; returns a line for the user, or
        RunError.
        """
        self._writer.close()
        missing = (
            f" ({self._writer.skipped:,} snapshots skipped: the disk was too slow)" if self._writer.skipped else ""
        )
        return recorded(self.path, missing)


class Recorder:
    """One recording at a time; `path` is its file while there is one."""

    def __init__(self) -> None:
        self._recording: Recording | None = None

    @property
    def path(self) -> Path | None:
        """The file of the recording in progress."""
        return None if self._recording is None else self._recording.path

    def start(self, header: Header, snapshot: Snapshot, directory: Path, now: datetime) -> Path:
        """Start a new file in `directory` with `snapshot`; UsageError or RunError in one line."""
        path = _free(directory, f"wmtop-{file_name(header.name)}-{now:%Y%m%d-%H%M%S}")
        self._recording = Recording(path, BackgroundWriter(RecordingWriter(path, replace(header, history=[]))))
        self.add(snapshot)
        return path

    def add(self, snapshot: Snapshot) -> None:
        """Add a snapshot, if there is a recording; RunError ends it. As in an engine's recording, the start is left
        out.
        """
        if self._recording is not None and snapshot.state != "starting":
            try:
                self._recording.add(snapshot)
            except RunError:
                self._recording = None
                raise

    def take(self) -> Recording:
        """Take the recording in progress, which the caller must finish: a new one may start in the meantime."""
        assert self._recording is not None
        recording, self._recording = self._recording, None
        return recording


def save_new(directory: Path, name: str, suffix: str, text: str) -> Path:
    """Write `text` to the first of `name-1`, `name-2`, … that does not exist yet; OSError with its file name."""
    for number in itertools.count(1):
        path = directory / f"{name}-{number}{suffix}"
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            continue
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from error
        return path
    raise AssertionError("there is always a free number")


def file_name(name: str) -> str:
    """A name from outside in the form of a file name."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:60] or "screen"


def _free(directory: Path, name: str) -> Path:
    """A file that does not exist yet."""
    names = [f"{name}.rec", *(f"{name}-{number}.rec" for number in range(2, 100))]
    return directory / next((free for free in names if not (directory / free).exists()), names[-1])


if TYPE_CHECKING:  # imported by the first search: the first paint needs neither
    from .main import MainScreen

_MOST = 50
_WHOLE = 1_000.0
"""The score of a channel whose whole name was typed: above all commands that have the same letters."""


class ChannelCommands(Provider):
    """Offers the page of each channel whose name contains what was typed, also as `Channel NAME`; at most `_MOST`."""

    async def search(self, query: str) -> Hits:
        main, wanted = self._main, query.casefold()
        if main is None or not wanted:
            return
        names = (view.channel for view in main.seen.snapshot.channels)
        parts = (wanted, wanted.removeprefix("channel "))  # as the label has it
        found = [name for name in names if any(part in name.casefold() for part in parts)]
        matcher = self.matcher(query)
        for name in nsmallest(_MOST, found, key=len):  # the fewer other letters, the nearer
            whole = name.casefold() in parts
            yield Hit(
                _WHOLE if whole else matcher.match(_label(name)),
                _label(name).replace("[", "\\["),
                lambda name=name: main.open_channel(name),
                text=_label(name),
                help="Its page",
            )

    @property
    def _main(self) -> "MainScreen | None":
        """The main screen that the palette was opened over, or below that screen."""
        from .detail import DetailScreen
        from .main import MainScreen

        stack: list[Screen[Any]] = self.app.screen_stack  # pyright: ignore[reportUnknownMemberType]
        over = isinstance(self.screen, MainScreen | DetailScreen)
        return next((screen for screen in stack if over and isinstance(screen, MainScreen)), None)


def _label(name: str) -> str:
    """What the palette shows of a channel."""
    return f"Channel {clean(name)}"


_SHOWN = 60
"""Cells of a copied text that its notice shows, at most."""


class ExportActions(BaseApp[Result]):
    """Copies and saves what the screen on top shows."""

    _engine_name = ""

    @property
    def _giving(self) -> HasRows | None:
        """The screen on top, if it has something to copy or to save."""
        return self.screen if isinstance(self.screen, HasRows) else None

    def action_copy_name(self) -> None:
        """Copy the name of the selected row."""
        self._copy(lambda chosen: chosen.name)

    def action_copy_row(self) -> None:
        """Copy the selected row."""
        self._copy(lambda chosen: chosen.row)

    def _copy(self, part: Callable[[Chosen], str]) -> None:
        """Copy through the terminal (OSC 52) and confirm it; the terminal does not report whether it allows that."""
        chosen = None if self._giving is None else self._giving.chosen()
        if chosen is None:
            self.notify("Nothing is selected here", markup=False, timeout=4)
            return
        text = part(chosen)
        self.copy_to_clipboard(text)
        self.notify(f"Copied (if the terminal allows it): {cut(text.splitlines()[0], _SHOWN)}", markup=False, timeout=4)

    def action_save_csv(self) -> None:
        """Save the screen's table as CSV in wmtop's start directory, and name the file."""
        self._save_table(as_csv, ".csv")

    def action_save_json(self) -> None:
        """The same as JSON."""
        self._save_table(as_json, ".json")

    def _save_table(self, written: Callable[[Sequence[Struct]], str], suffix: str) -> None:
        table = None if self._giving is None else self._giving.records()
        if table is None or not table.rows:
            self.notify("This screen has no rows to save", markup=False, timeout=4)
            return
        from .detail import DetailScreen

        all_rows = isinstance(self.screen, DetailScreen) and self.screen.filtered
        name = f"wmtop-{file_name(self._engine_name)}-{table.name}"
        self._save(name, suffix, written(table.rows), " (including rows hidden by the filter)" * all_rows)

    def action_save_svg(self) -> None:
        """Save a picture of the screen in wmtop's start directory, and name the file."""
        self._save(f"wmtop-{file_name(self._engine_name)}", ".svg", self_contained(self.export_screenshot()))

    def _save(self, name: str, suffix: str, text: str, note: str = "") -> None:
        try:
            path = save_new(Path.cwd(), name, suffix, text)
        except OSError as error:
            self.notify(f"not saved: {error.filename}: {error.strerror}", severity="error", markup=False)
        else:
            self.notify(f"saved {path}{note}", markup=False)
