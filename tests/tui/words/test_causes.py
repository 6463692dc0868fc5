"""Words for each cause, for windows, for notes and for states."""

from datetime import UTC, datetime
from typing import get_args

import pytest
from wmtop.engine.snapshot import Cause, Holder, Level, Note, Snapshot
from wmtop.engine.text.codes import CAUSES
from wmtop.engine.text.formatting import DAY
from wmtop.engine.watermarks.settings import Session, Settings, Sliding
from wmtop.tui.words.kinds import presenter_of
from wmtop.tui.words.notes import note_text
from wmtop.tui.words.state import recent_note
from wmtop.tui.words.watermark import window

from tests.snapshots import replace

from ..canned import MINUTE, NOW, SETTINGS, channel, live

NUMBERS = {"quiet": "26m", "backlog": "1,204", "behind": "43m", "future_elsewhere": "43m"}


@pytest.mark.parametrize("why", get_args(Cause))
def test_each_cause_has_words_with_its_numbers(why: Cause) -> None:
    snapshot = live()
    views = [replace(view, backlog=1_204) if view.channel == "F9" else view for view in snapshot.channels]
    level = replace(snapshot.level, holder=Holder("F9", NOW - 26 * MINUTE, why))
    assert NUMBERS.get(why, " ") in presenter_of(replace(snapshot, channels=views, level=level)).cause()
    assert why in CAUSES


def test_sparks_own_clock_has_no_holder() -> None:
    snapshot = live(settings=replace(SETTINGS, strategy="spark"), level=Level(watermark_ms=NOW))
    assert "follows the fastest channel" in said(snapshot)


def said(snapshot: Snapshot) -> str:
    return "".join(text for part in presenter_of(snapshot).holder(UTC) for text, _ in part.spans)


def test_windows_in_words() -> None:
    assert window(SETTINGS) == "1h"
    assert window(Settings(window=Sliding(60 * MINUTE, 15 * MINUTE))) == "1h every 15m"
    assert window(Settings(window=Session(30 * MINUTE))) == "session 30m"


def test_what_happened_to_the_source_is_shown_for_some_minutes() -> None:
    note = Note(int(datetime(2013, 2, 8, 14, 32, tzinfo=UTC).timestamp() * 1_000), "topic_gone", {"topic": "orders"})
    moment = replace(live(), notes=[note], wall_ms=note.wall_ms + 2 * MINUTE)
    assert recent_note(moment) == note_text(note)
    for later_ms in (6 * MINUTE, DAY, DAY + 2 * MINUTE, 7 * DAY + MINUTE):
        assert recent_note(replace(moment, wall_ms=note.wall_ms + later_ms)) is None, later_ms
    assert recent_note(replace(moment, notes=[])) is None


def test_a_backlog_counts_its_records() -> None:
    snapshot = live([channel("F9", 0, backlog=1), channel("YV", MINUTE)])
    snapshot = replace(snapshot, level=replace(snapshot.level, holder=Holder("F9", NOW, "backlog")))
    assert presenter_of(snapshot).cause().startswith("backlog of 1 record")
    assert "records" not in presenter_of(snapshot).cause()
