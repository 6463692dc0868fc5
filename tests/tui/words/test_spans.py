"""Tables in columns: whole columns go before anything is cut inside a cell."""

import re

import pytest
from wmtop.tui.words.spans import Column, Span, cells, laid, row_line, sized, titles_line

ROWS = [
    ("orders-eu-central-1", "13:47:59", "1,204", "never: needs data"),
    ("a", "02-08 13:47", "7", "at the next emit"),
]


def bar(row: tuple[str, ...], room: int) -> list[Span]:
    return [("▇" * room, "text")]


COLUMNS = sized(
    (
        Column[tuple[str, ...]]("name", lambda row: row[0]),
        Column("time", lambda row: row[1], rank=1),
        Column("rows", lambda row: row[2], rank=3, right=True),
        Column("", lambda row: "", rank=4, cells=6, most=24, draw=bar),
        Column("closes", lambda row: row[3], rank=2),
    ),
    ROWS,
)


def line(row: tuple[str, ...], width: int) -> str:
    return "".join(text for text, _ in row_line(laid(COLUMNS, width), row))


@pytest.mark.parametrize("width", range(20, 120))
def test_a_cell_is_shown_whole_or_not_at_all(width: int) -> None:
    for row in ROWS:
        text = line(row, width)
        assert len(text) <= width
        assert "…" not in text
        shown = re.split("  +", text.strip())
        assert shown[0] == row[0]
        assert {cell for cell in shown if set(cell) != {"▇"}} <= {*row}
    assert cells(titles_line(laid(COLUMNS, width))) == len(line(ROWS[0], width))


def test_the_least_important_goes_first_and_a_bar_takes_the_room() -> None:
    assert "▇" * 24 in line(ROWS[0], 120)
    assert "▇" * 6 in line(ROWS[0], 71)
    shown = [[cell in line(ROWS[0], width) for cell in ROWS[0][1:]] for width in (66, 58, 40, 20)]
    assert shown == [[True, True, True], [True, False, True], [True, False, False], [False, False, False]]


def test_without_room_even_for_the_name_its_middle_is_cut() -> None:
    assert line(ROWS[0], 12) == " orde…tral-1"
