"""Lines of parts, and repainting no more than what differs."""

from textual.geometry import Region
from wmtop.tui.widgets.canvas import differ
from wmtop.tui.words.spans import cells, clip, lay, part

PARTS = [
    part(("name", "strong")),
    part(("batch 214", "text"), rank=2),
    part(("0.31 s", "text"), rank=3, gap=" · "),
    part(("14:32", "text"), rank=1, right=True),
]


def said(width: int) -> str:
    runs = lay(PARTS, width)
    assert cells(runs) <= width
    return "".join(text for text, _ in runs)


def test_text_line_without_room_drops_the_least_important_part() -> None:
    assert said(40) == "name   batch 214 · 0.31 s          14:32"
    assert said(25) == "name   batch 214    14:32"
    assert said(12) == "name   14:32"
    assert said(6) == "name  "
    assert said(3) == "na…"


def test_text_line_too_long_is_cut() -> None:
    assert "".join(text for text, _ in clip([("漢字", "a"), ("abc", "b")], 5)) == "漢字…"


def test_canvas_repaints_only_changed_cells() -> None:
    old = [("LEVEL ", "title"), ("13:47", "level"), ("  behind", "dim")]
    assert differ(old, old, 3, 40) is None
    assert differ(old, [old[0], ("13:48", "level"), old[2]], 3, 40) == Region(6, 3, 5, 1)
    assert differ(old, [old[0], ("13:48:00", "level"), old[2]], 3, 40) == Region(6, 3, 34, 1)
    assert differ(old, [("LEVEL ", "bad"), *old[1:]], 0, 40) == Region(0, 0, 6, 1)
    assert differ([], old, 1, 40) == Region(0, 1, 40, 1)
