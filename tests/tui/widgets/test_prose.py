"""Wrapped sentences."""

from wmtop.tui.widgets.lines import wrap_spans
from wmtop.tui.words.spans import cells


def text(*runs: tuple[str, str], width: int) -> list[str]:
    return ["".join(part for part, _ in line) for line in wrap_spans(list(runs), width)]


def test_prose_breaks_at_spaces() -> None:
    assert text(("one two three four", "text"), width=9) == ["one two", "three", "four"]
    assert text(("one two", "text"), width=7) == ["one two"]


def test_prose_word_of_two_styles_stays_whole() -> None:
    assert text(("waits for ", "text"), ("F9", "holder"), (", which is quiet", "text"), width=12) == [
        "waits for", "F9, which is", "quiet",
    ]  # fmt: skip


def test_prose_long_word_is_cut() -> None:
    assert text(("a verylongword b", "text"), width=6) == ["a", "veryl…", "b"]


def test_prose_empty_is_one_line() -> None:
    assert wrap_spans([], 10) == [[]]
    assert all(cells(line) <= 4 for line in wrap_spans([("漢字漢字 漢字", "text")], 4))
