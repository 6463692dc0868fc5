"""The rows of CSV (RFC 4180): Arrow reads blocks of lines, and a block in which it finds other rows is read row by row.

A quote that opens a field and does not close it costs the row of its line, not the lines behind it:

    1,"abc,5        the quote is literal, and the row malformed
    2,"d            a field of two lines, which ends with a quote and a comma or a line end
    ef",6
"""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# (pyarrow is only partly typed.)

import codecs
import csv
import io
import re
from collections.abc import Iterator, Sequence
from typing import IO, Any, NamedTuple

import pyarrow as pa
import pyarrow.csv as pa_csv

from .row_chunks import MAX_ROW_BYTES, Broken, Chunk, ReadableContent, broken_rows, broken_text, first_broken

MAX_QUOTED_LINES = 1_000
MAX_QUOTED_BYTES = 1 << 20
"""A quoted field with line ends has at most so many lines and bytes."""

_LINE_END = re.compile(rb"\r\n|\n|\r")
_LINE_ENDS = (b"\n", b"\r")
_WAIT = -1
"""In place of the end of a row: it depends on text that has not been read."""
_STRAY = -2
"""In place of the end of a row: a quote is not closed as it must be."""

csv.field_size_limit(2 * MAX_ROW_BYTES)


class Row(NamedTuple):
    """Where a row of CSV lies in the text; `broken`: why it has no fields."""

    start: int
    end: int
    broken: Broken | None = None


class CsvRows:
    """The rows of a text that is read block by block."""

    def __init__(self, source: IO[bytes], delimiter: str, block: int, content: ReadableContent) -> None:
        """`block`: bytes that are read at once."""
        self._source = source
        self._delimiter = delimiter
        self._block = block
        self._content = content
        self._text = b""
        self._ended = False
        self._width: int | None = None
        """The number of fields of the header; None before it."""
        self._plain_row = _plain_row(delimiter)

    def header(self) -> list[str]:
        """The fields of the first row; none if there is none. It is called first, and once."""
        rows: list[Row] = []
        header = b""
        self._fill()
        self._text = self._text.removeprefix(codecs.BOM_UTF8)
        while not rows and (self._text or self._fill()):
            rows, end = self._rows(most=1)
            if rows:
                header = self._text[rows[0].start : rows[0].end]
            self._text = self._text[end:]
            if not rows:
                self._fill()
        quoting = csv.QUOTE_NONE if rows and rows[0].broken else csv.QUOTE_MINIMAL
        fields = next(csv.reader([_text(header)], delimiter=self._delimiter, quoting=quoting), [])
        self._width = len(fields)
        return fields

    def chunks(self, at: dict[str, int | None]) -> Iterator[Chunk]:
        """The rows below the header; `at`: the number of each column (None: the text has none)."""
        while self._text or self._fill():
            end = self._end_of_lines()
            if not end and len(self._text) > MAX_ROW_BYTES:
                yield broken_rows(list(at), 1, self._skip_line())
                continue
            chunk = self._one_row_a_line(self._text[:end], at)
            if chunk is None:
                rows, end = self._rows()
                chunk = self._of_rows(rows, end, at) if rows else None
            self._text = self._text[end:]
            if chunk is not None:
                yield chunk
            elif not end:
                self._fill()

    def _fill(self) -> bool:
        """Read the next block; whether there is text."""
        data = b"" if self._ended else self._source.read(self._block)
        self._text += data
        if not data and not self._ended:
            self._ended = True
            if self._content.error is not None:  # a part of a line is left out: a part of a number is another number
                self._text = self._text[: self._end_of_lines(whole=True)]
        return bool(self._text)

    def _end_of_lines(self, *, whole: bool = False) -> int:
        """The end of the last whole line; at the end of the text, unless only `whole` lines count, of the text."""
        if self._ended and not whole:
            return len(self._text)
        end = self._text.rfind(b"\n") + 1
        return end or self._text.rfind(b"\r", 0, -1) + 1  # an \r at the end may be half of a line end

    def _one_row_a_line(self, lines: bytes, at: dict[str, int | None]) -> Chunk | None:
        """The rows of whole lines; None unless each line is a row of its own."""
        if not 0 < len(lines) <= MAX_ROW_BYTES:
            return None
        chunk = self._by_arrow(lines, _count_lines(lines), at)
        return None if chunk is None or self._is_open_at_end_of(lines) else chunk

    def _by_arrow(self, text: bytes, rows: int, at: dict[str, int | None]) -> Chunk | None:
        """The rows of a text; None unless Arrow finds as many, each with as many fields as the header."""
        names = [str(number) for number in range(self._width or 0)]
        wanted = [str(number) for number in at.values() if number is not None] or names[:1]
        try:
            table = pa_csv.read_csv(
                io.BytesIO(text),
                read_options=pa_csv.ReadOptions(column_names=names, block_size=len(text) + 1, use_threads=False),
                parse_options=pa_csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
                convert_options=pa_csv.ConvertOptions(
                    include_columns=list(dict.fromkeys(wanted)),
                    column_types=dict.fromkeys(wanted, pa.string()),
                    null_values=[""],
                    strings_can_be_null=True,
                ),
            )
        except pa.ArrowInvalid:
            return None
        if table.num_rows != rows:
            return None
        nothing = pa.nulls(rows, pa.string())
        return Chunk({name: nothing if i is None else _array(table[str(i)]) for name, i in at.items()})

    def _is_open_at_end_of(self, lines: bytes) -> bool:
        """Whether the last of some lines, with which the text begins, opens a quote that it does not close."""
        end = len(lines.rstrip(b"\r\n"))
        start = max(lines.rfind(b"\n", 0, end), lines.rfind(b"\r", 0, end)) + 1
        return self._row_end(start, len(lines), len(lines)) != len(lines)

    def _of_rows(self, rows: list[Row], end: int, at: dict[str, int | None]) -> Chunk:
        """The values of rows that end before `end`: if none is broken by Arrow, else one by one."""
        if not any(row.broken for row in rows):
            chunk = self._by_arrow(self._text[:end], len(rows), at)
            if chunk is not None:
                return chunk
        return _chunk([row.broken or self._fields(row.start, row.end) for row in rows], at)

    def _has_fields_of_header(self, start: int, row_end: int, line_end: int) -> bool:
        """Whether a row of several lines has; two stray quotes with rows between them rarely leave as many."""
        return row_end == line_end or self._width in (None, len(self._fields(start, row_end)))

    def _fields(self, start: int, end: int) -> list[str]:
        return next(csv.reader([_text(self._text[start:end])], delimiter=self._delimiter), [])

    def _rows(self, most: int | None = None) -> tuple[list[Row], int]:
        """The rows (at most `most`, blank lines are none) of the whole lines, and where the next one begins."""
        rows: list[Row] = []
        at = 0
        end = self._end_of_lines()
        while at < end and (most is None or len(rows) < most):
            row = self._row(at, end)
            if row is None:
                break
            at = row.end
            if row.broken is not None or self._text[row.start : row.start + 1] not in _LINE_ENDS:
                rows.append(row)
        return rows, at

    def _row(self, start: int, end: int) -> Row | None:
        """The row that begins at `start`, in the lines before `end`; None: more text is needed."""
        line_end = _after_line(self._text, start, end)
        if line_end - start > MAX_ROW_BYTES:
            return Row(start, line_end, Broken("too_long", broken_text(self._text[start : start + MAX_ROW_BYTES])))
        plain = self._plain_row.match(self._text, start, min(end, start + MAX_QUOTED_LINES))
        row_end = self._row_end(start, line_end, end) if plain is None else plain.end()
        if row_end == _WAIT:
            return None
        if row_end == _STRAY or not self._has_fields_of_header(start, row_end, line_end):
            return Row(start, line_end, Broken("open_quote", broken_text(self._text[start:line_end])))
        return Row(start, row_end)

    def _row_end(self, start: int, line_end: int, end: int) -> int:
        """The end of the row that begins at `start`, whose first line ends at `line_end`; or `_WAIT`, or `_STRAY`."""
        text = self._text
        delimiter = self._delimiter.encode()
        if text.find(b'"', start, line_end) < 0:
            return line_end
        at = start
        while True:
            if text[at : at + 1] == b'"':
                close = self._closing(at + 1, max(line_end, at + MAX_QUOTED_BYTES), end)
                if close < 0:
                    return close
                if close >= line_end:
                    lines = len(_LINE_END.findall(text, at, close)) + 1
                    if text[close + 1 : close + 2] not in (delimiter, b"\n", b"\r", b"") or lines > MAX_QUOTED_LINES:
                        return _STRAY
                    line_end = _after_line(text, close + 1, end)
                at = close + 1
            at = text.find(delimiter, at, line_end) + 1
            if not at:
                return line_end

    def _closing(self, at: int, limit: int, end: int) -> int:
        """The quote before `limit` that closes a field whose text begins at `at`: the first one that is not doubled."""
        text = self._text
        while (quote := text.find(b'"', at, limit)) >= 0:
            if text[quote + 1 : quote + 2] != b'"':
                return quote if quote < end else _WAIT
            at = quote + 2
        return _STRAY if self._ended or len(text) >= limit else _WAIT

    def _skip_line(self) -> Broken:
        """Drop the line that the text begins with, which is too long, without holding it."""
        broken = Broken("too_long", broken_text(self._text[:MAX_ROW_BYTES]))
        while (line_end := _LINE_END.search(self._text)) is None and not self._ended:
            self._text = b""
            self._fill()
        self._text = b"" if line_end is None else self._text[line_end.end() :]
        return broken


def _plain_row(delimiter: str) -> re.Pattern[bytes]:
    """A row whose every field is quoted as RFC 4180 has it, or begins with another character than a quote."""
    other = f"[^{re.escape(delimiter)}\r\n]"
    field = rf'(?:"[^"]*+(?:""[^"]*+)*+"|(?!"){other}*+)'
    return re.compile(rf"{field}(?:{re.escape(delimiter)}{field})*+(?:\r\n|\n|\r)".encode())


def _chunk(rows: Sequence[list[str] | Broken], at: dict[str, int | None]) -> Chunk:
    broken = first_broken(rows)
    fields: list[list[str]] = [[] if isinstance(row, Broken) else row for row in rows]
    values = {
        name: [None] * len(rows) if i is None else [(row[i] or None) if i < len(row) else None for row in fields]
        for name, i in at.items()
    }
    return Chunk({name: pa.array(column, pa.string()) for name, column in values.items()}, broken)


def columns_at(header: Sequence[str], columns: Sequence[str]) -> dict[str, int | None]:
    """The number of each column in the header; None: it has none."""
    return {name: header.index(name) if name in header else None for name in columns}


def _text(row: bytes) -> str:
    """A row without its line end, as text."""
    return row.rstrip(b"\r\n").decode(errors="replace")


def _after_line(text: bytes, start: int, end: int) -> int:
    found = _LINE_END.search(text, start, end)
    return end if found is None else found.end()


def _count_lines(text: bytes) -> int:
    """The lines, blank ones included."""
    ends = text.count(b"\n")
    if carriage_returns := text.count(b"\r"):
        ends += carriage_returns - text.count(b"\r\n")
    return ends + (not text.endswith((b"\n", b"\r")))


def _array(column: Any) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays([*column.chunks, pa.array([], pa.string())])
