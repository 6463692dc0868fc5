"""How far staging is, as one line: rows, rows a second, and the time that is left."""

import time
from collections.abc import Callable, Sequence

from .table_files import TableFile

_SURE_S = 1.0
"""Time (s) after which the time left is reported: the first chunks take longer."""


class StagingProgress:
    """Reports after each chunk: by bytes of the files that are done, and by rows within a Parquet file."""

    def __init__(
        self, files: Sequence[TableFile], report: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._report = report
        self._clock = clock
        self._sizes = [file.file.size for file in files]
        self._began_s = clock()
        self._done = 0
        """Bytes of the files before the current one."""
        self._size = self._in_file = 0
        self._rows_of_file: int | None = None
        self.rows = 0

    def begin(self, number: int, file: TableFile) -> None:
        """The file `number` (from 0) is read next."""
        self._done, self._size, self._in_file = sum(self._sizes[:number]), self._sizes[number], 0
        self._rows_of_file = file.rows

    def add(self, rows: int) -> None:
        """Count rows of the file that have been read, and report."""
        self.rows += rows
        self._in_file += rows
        self._report(self._line())

    def _line(self) -> str:
        took_s = self._clock() - self._began_s
        share = self._share()
        line = f"{self.rows:,} rows read"
        if took_s < _SURE_S:
            return line
        line += f", {self.rows / took_s:,.0f}/s"
        return line if not share else f"{line}, {share:.0%}, {took_s * (1 - share) / share:.0f} s left"

    def _share(self) -> float:
        inside = 0.0 if not self._rows_of_file else self._size * self._in_file / self._rows_of_file
        return (self._done + inside) / max(sum(self._sizes), 1)
