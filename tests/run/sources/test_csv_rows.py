"""CSV row by row: a quote that never closes costs its own line, and blocks of any size give the same rows."""

import io
import random
from typing import Any

import pytest
from wmtop.engine.run.sources import csv_rows
from wmtop.engine.run.sources.csv_rows import MAX_QUOTED_LINES, CsvRows, columns_at
from wmtop.engine.run.sources.row_chunks import MAX_ROW_BYTES, ReadableContent, rows_of

A_MIB = 1 << 20


def read(text: bytes, block: int = 8 * A_MIB, delimiter: str = ",") -> tuple[list[tuple[Any, ...]], dict[int, str]]:
    """The rows (columns a, b, c), and why the first row of each chunk that is broken is."""
    content = ReadableContent(io.BytesIO(text), (OSError,))
    reader = CsvRows(io.BufferedReader(content, 64), delimiter, block, content)
    rows: list[tuple[Any, ...]] = []
    broken: dict[int, str] = {}
    for chunk in reader.chunks(columns_at(reader.header(), ["a", "b", "c"])):
        if chunk.broken is not None:
            broken[len(rows) + chunk.broken[0]] = chunk.broken[1].why
        assert rows_of(chunk) == len(chunk["a"])
        rows += zip(*(chunk[name].to_pylist() for name in "abc"), strict=True)
    return rows, broken


NOTHING = (None, None, None)


@pytest.mark.parametrize(
    ("text", "rows", "broken"),
    [
        (b'1,"x\ny",3\n4,5,6\n', [("1", "x\ny", "3"), ("4", "5", "6")], {}),
        (b'1,"x\r\n\r\n""y"", z",3\r\n4,5,6', [("1", 'x\r\n\r\n"y", z', "3"), ("4", "5", "6")], {}),
        (b'1,"x,3\n4,5,6\n7,8,9\n', [NOTHING, ("4", "5", "6"), ("7", "8", "9")], {0: "open_quote"}),
        (b'1,2,3\n4,5,"6\n', [("1", "2", "3"), NOTHING], {1: "open_quote"}),
        (b'1,2,3\n4,5,"6', [("1", "2", "3"), NOTHING], {1: "open_quote"}),
        (b'1,"x,3\n"4","5","6"\n', [NOTHING, ("4", "5", "6")], {0: "open_quote"}),
        (b'1,"x,3\n4,5 inch",6,7\n', [NOTHING, ("4", '5 inch"', "6")], {0: "open_quote"}),
        (b'1,x"y,3\n4,5",6\n', [("1", 'x"y', "3"), ("4", '5"', "6")], {}),
        (b'1,"x" y,3\n4,5,6\n', [("1", "x y", "3"), ("4", "5", "6")], {}),
        (b"1\n1,2,3,4\n\n1,2,3\n", [("1", None, None), ("1", "2", "3"), ("1", "2", "3")], {}),
        (b"1,\xff,3\r4,\0,6\r", [("1", "\ufffd", "3"), ("4", "\0", "6")], {}),
        (b'1,"",3\n"",,""\n', [("1", None, "3"), NOTHING], {}),
    ],
)
def test_a_quote_that_does_not_close_costs_its_own_line(
    text: bytes, rows: list[tuple[Any, ...]], broken: dict[int, str]
) -> None:
    for mark in (b"", b"\xef\xbb\xbf"):
        assert read(mark + b"a,b,c\n" + text) == (rows, broken)


@pytest.mark.parametrize("closes_after", [None, MAX_QUOTED_LINES + 1, 50_000])
def test_a_stray_quote_swallows_no_rows(closes_after: int | None) -> None:
    rows = [f"{number},x,y" for number in range(50_051)]
    rows[7] = '7,"x,y'
    if closes_after is not None:
        rows[7 + closes_after - 1] = f'{7 + closes_after - 1},x",y'
    got, broken = read(b"a,b,c\n" + "\n".join(rows).encode() + b"\n")
    assert len(got) == len(rows)
    assert [row[0] for row in got] == [None if number == 7 else str(number) for number in range(50_051)]
    assert broken == {7: "open_quote"}


def test_the_longest_quoted_field_is_one_field() -> None:
    lines = b"\n".join([b"x"] * MAX_QUOTED_LINES)
    for text in (lines, b"x" * (A_MIB - 100) + b"\ny"):
        rows, broken = read(b'a,b,c\n1,"' + text + b'",3\n4,5,6\n')
        assert (rows, broken) == ([("1", text.decode(), "3"), ("4", "5", "6")], {})
    rows, broken = read(b'a,b,c\n1,"' + lines + b'\nx",3\n4,5,6\n')
    assert len(rows) == MAX_QUOTED_LINES + 2
    assert broken == {0: "open_quote"}
    rows, broken = read(b'a,b,c\n1,"' + b"x" * A_MIB + b'\ny",3\n4,5,6\n')
    assert [row[0] for row in rows] == [None, 'y"', "4"]


def test_a_field_over_128_kb_beside_a_ragged_row_is_a_field() -> None:
    rows, broken = read(b"a,b,c\n1\n2," + b"x" * (1 << 18) + b",3\n")
    assert [(row[0], len(row[1] or "")) for row in rows] == [("1", 0), ("2", 1 << 18)]
    assert not broken


@pytest.mark.parametrize("quote", [b"", b'"'])
def test_a_line_that_is_too_long_is_one_row(quote: bytes) -> None:
    text = b"a,b,c\n1,2,3\n4," + quote + b"x" * (MAX_ROW_BYTES + 10 * A_MIB) + quote + b",6\n7,8,9\n"
    for block in (A_MIB, 8 * A_MIB, 64 * A_MIB):
        assert read(text, block) == ([("1", "2", "3"), NOTHING, ("7", "8", "9")], {1: "too_long"})


def test_a_header_whose_quote_does_not_close_is_its_own_line() -> None:
    assert read(b'b,"x,a\n1,2,3\n')[0] == [("3", "1", None)]
    assert read(b'"a","b\nb",c\n1,2,3\n')[0] == [("1", None, "3")]
    assert read(b"") == ([], {})


def test_blocks_of_any_size_give_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_rows, "MAX_QUOTED_LINES", 4)
    monkeypatch.setattr(csv_rows, "MAX_QUOTED_BYTES", 24)
    chance = random.Random(5)
    pieces = [
        b'"',
        b'""',
        b",",
        b"\n",
        b"\r\n",
        b"\r",
        b"1",
        b"ab",
        b'"x",',
        b',"y\nz"',
        b"1,2,3\n",
        b"\xc3\xa9",
        b"\xff",
    ]
    seen: set[str] = set()
    for _ in range(1_500):
        text = b"a,b,c\n" + b"".join(chance.choices(pieces, k=chance.randint(0, 40)))
        rows, broken = read(text)
        seen |= set(broken.values())
        for block in (1, 2, 7, 30):
            assert read(text, block)[0] == rows, (text, block)
    assert seen == {"open_quote"}
