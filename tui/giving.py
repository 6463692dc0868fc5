"""Copies and saves: names and rows to the clipboard, tables and pictures to files."""

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from .base_app import BaseApp, Result
from .present.formatting import cut
from .present.table import Chosen, as_csv, as_json
from .recorder import file_name, save_new
from .screens.host import HasRows
from .svg import self_contained

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
        from .screens.detail import DetailScreen

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
