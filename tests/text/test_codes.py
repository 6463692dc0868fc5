"""Why nothing is known of the windows: every code has words, also with arguments that are missing or hostile."""

from typing import get_args

import pytest
from wmtop.engine.snapshot import Note, WindowsUnknownCode
from wmtop.engine.text.codes import unknown_text
from wmtop.tui.words.notes import note_text


@pytest.mark.parametrize("code", get_args(WindowsUnknownCode))
def test_every_code_has_one_line_of_words(code: WindowsUnknownCode) -> None:
    names = ("why", "name", "kind", "limit", "seconds", "operator")
    for args in ({}, dict.fromkeys(names, "a\x1b[31m\nb"), dict.fromkeys(names, 3)):
        words = unknown_text(code, args)
        assert words
        assert words != code
        assert words.isprintable()
        assert note_text(Note(0, "windows_unknown", {**args, "code": code})) == words


def test_of_several_operators_it_says_which() -> None:
    words = unknown_text("state_store", {"name": "RocksDB", "operator": 2})
    assert words is not None
    assert words.startswith("operator 2: ")
    assert "RocksDB" in words


def test_timers_are_counted_where_they_were_read() -> None:
    read = unknown_text("no_windows", {"kind": "transform_with_state", "timers": 1_800, "first_ms": 5_000})
    assert read is not None
    assert "1,800 timers set, the first for 1970-01-01 00:00:05 UTC" in read
    none = unknown_text("no_windows", {"kind": "transform_with_state", "timers": 0, "first_ms": None})
    assert "first" not in (none or "0 timers, and no first one")
    assert "1,800" not in (unknown_text("no_windows", {"kind": "transform_with_state"}) or "")


def test_nothing_is_said_where_all_is_known() -> None:
    assert unknown_text(None, {}) is None
