"""Lines of parts, and repainting no more than what differs."""

from textual.geometry import Region
from wmtop.tui.widgets.canvas import differ
from wmtop.tui.words.spans import cells, clip, clip_clauses, clip_words, fitted, lay, part

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


def test_what_does_not_fit_is_shortened_before_it_is_dropped() -> None:
    parts = [
        part(("needs an advance", "text"), short=(("too early", "text"),)),
        part(("fix: idle timeout", "text"), rank=1, short=(("idle timeout", "text"),)),
    ]
    lines = {width: "".join(text for text, _ in lay(parts, width)) for width in (36, 35, 30, 18, 9)}
    assert lines == {
        36: "needs an advance   fix: idle timeout",
        35: "needs an advance   idle timeout    ",
        30: "needs an advance              ",
        18: "needs an advance  ",
        9: "too early",
    }


def test_a_line_that_is_cut_ends_after_a_whole_word() -> None:
    runs = [(" main ", "dim"), ("› Lateness", "strong"), ("  all channels", "dim")]
    assert "".join(text for text, _ in clip_words(runs, 30)) == " main › Lateness  all channels"
    assert "".join(text for text, _ in clip_words(runs, 29)) == " main › Lateness  all …"
    assert "".join(text for text, _ in clip_words(runs, 3)) == " m…"
    assert fitted("held back by F9: no data for 26m, no backlog", 30) == "held back by F9"
    title = "orders-73, orders-23, orders-61 and 122 more hold back the watermark"
    assert fitted(title, 48) == "orders-73, orders-23, orders-61 and 122 more …", (
        "a clause that says little is not enough"
    )
    assert fitted("saved /home/anna/incidents/wmtop-flights-1.svg", 30) == "saved …/wmtop-flights-1.svg"
    heading = [(" › Lateness", "strong"), ("  all channels · since the start, 6,840 records", "dim")]
    assert "".join(text for text, _ in clip_clauses(heading, 52)) == " › Lateness  all channels · since the start"


def test_text_line_too_long_is_cut() -> None:
    assert "".join(text for text, _ in clip([("漢字", "a"), ("abc", "b")], 5)) == "漢字…"


def test_canvas_repaints_only_changed_cells() -> None:
    old = [("LEVEL ", "title"), ("13:47", "level"), ("  behind", "dim")]
    assert differ(old, old, 3, 40) is None
    assert differ(old, [old[0], ("13:48", "level"), old[2]], 3, 40) == Region(6, 3, 5, 1)
    assert differ(old, [old[0], ("13:48:00", "level"), old[2]], 3, 40) == Region(6, 3, 34, 1)
    assert differ(old, [("LEVEL ", "bad"), *old[1:]], 0, 40) == Region(0, 0, 6, 1)
    assert differ([], old, 1, 40) == Region(0, 1, 40, 1)


def test_what_is_in_parentheses_goes_before_what_is_said() -> None:
    killed = "engine 'orders' (process 4711) was killed or crashed (out of memory?); see its log /var/log/orders.log"
    assert fitted(killed, 80) == "engine 'orders' was killed or crashed; see its log /var/log/orders.log"
    assert fitted(killed, 40) == "engine 'orders' was killed or crashed"
    assert fitted("The JVM (process 4711) has not answered for 12s", 35) == "The JVM has not answered for 12s"


def test_a_line_of_one_text_ends_with_a_clause() -> None:
    text = "No new batch: the query is idle or has stopped; a checkpoint does not show which"
    assert lay([part((text, "stale"))], 60) == [("No new batch: the query is idle or has stopped", "stale")]


def test_a_line_without_its_first_part_begins_where_it_would_with_it() -> None:
    line = [part((" lateness 30m", "text"), rank=2), part(("idle after 2h", "text"))]
    assert "".join(text for text, _ in lay(line, 20)) == " idle after 2h      "
