"""Every note has words, also with arguments that are missing or from a hostile name."""

import re
from typing import get_args

import pytest
from msgspec.structs import replace
from wmtop.engine.snapshot import STATE_SCHEMA, Note, NoteCode, SourceView
from wmtop.engine.watermarks.observation import MalformedRecord
from wmtop.tui.words.kinds import presenter_of
from wmtop.tui.words.notes import note_text
from wmtop.tui.words.spans import lay, text_of
from wmtop.tui.words.state import recent_note
from wmtop.tui.words.summary import summary

from .. import attached, canned

NOW = 1_700_000_000_000


@pytest.mark.parametrize("code", get_args(NoteCode))
def test_every_code_has_one_line_of_words(code: NoteCode) -> None:
    names = ("topic", "why", "near", "tap", "columns", "partition", "records", "unread", "batch")
    for args in ({}, dict.fromkeys(names, "a\x1b[31m\nb"), dict.fromkeys(names, 3)):
        words = note_text(Note(0, code, args))
        assert words
        assert "\n" not in words
        assert "\x1b" not in words


def test_the_arguments_are_said() -> None:
    gone = note_text(Note(0, "topic_gone", {"topic": "orders", "unread": 1_200}))
    assert "orders" in gone
    assert "1,200" in gone
    assert "0" not in note_text(Note(0, "topic_gone", {"topic": "orders", "unread": 0}))


def test_a_partition_of_which_nothing_was_read_is_not_called_empty() -> None:
    one = note_text(Note(0, "partitions_unseen", {"partitions": 1, "partition": 2}))
    assert one.startswith("Partition 2 has no records: ")
    unread = note_text(Note(0, "partitions_unseen", {"partitions": 1, "partition": 2, "records": 60, "unread": 47}))
    assert unread.startswith("Partition 2 has 60 records, but no usable event time so far, 47 unread: ")
    assert unread.endswith("the watermark here does not")
    every = note_text(Note(0, "partitions_unseen", {"partitions": 3, "partition": 0, "records": 60, "all": 1}))
    assert every.endswith("a job without an idle timeout waits for one")
    left_out = note_text(Note(0, "partitions_uncommitted", {"partitions": 3, "partition": 2, "records": 1_200}))
    assert left_out.startswith("3 partitions have 1,200 records, but no commit of the group: ")


def test_channels_that_share_one_are_counted() -> None:
    args: dict[str, str | int | None] = {
        "into": "other",
        "channels": 1_200,
        "at_least": 0,
        "records": 34_567,
        "limit": 10_000,
    }
    words = note_text(Note(0, "channels_folded", args))
    assert {"1,200", "other", "34,567", "10000"} <= set(re.findall(r"[\w,]+", words))
    assert "≥ 1,200 channels" in note_text(Note(0, "channels_folded", args | {"at_least": 1}))


@pytest.mark.parametrize("code", get_args(NoteCode))
def test_one_is_not_said_in_the_plural(code: NoteCode) -> None:
    ones: dict[str, str | int | None] = dict.fromkeys(("partitions", "records", "unread", "channels"), 1)
    assert not re.search(r"\b1 (unread )?\w+s\b", note_text(Note(0, code, ones | {"source": "kafka"})))


def test_a_note_that_stays_is_shown_once_the_newer_one_is_old() -> None:
    """Channels that share one are noted in each snapshot, first; what happens to the source is newer."""
    gone = Note(NOW, "topic_gone", {"topic": "orders"})
    for later_ms, shown in ((0, "topic_gone"), (3_600_000, "channels_folded")):
        folded = Note(NOW + later_ms, "channels_folded", {"channels": 3})
        snapshot = replace(canned.live(), wall_ms=NOW + later_ms, notes=[folded, gone])
        assert recent_note(snapshot) == note_text({"topic_gone": gone, "channels_folded": folded}[shown])
    assert note_text(folded) in summary(snapshot)
    assert note_text(folded) not in summary(canned.live())


def test_the_summary_says_as_what_times_were_read_and_shows_what_was_none() -> None:
    source = SourceView("replay", "a.csv", time_column="ts", time_unit="epoch s, ISO 8601 (recognised)")
    example = MalformedRecord("UA", "row 8 of a.csv", "ts", "never", "no_time")
    lines = summary(replace(canned.live(), source=source, malformed_example=example)).splitlines()
    assert lines[1] == "event time ts: epoch s, ISO 8601 (recognised)"
    assert 'malformed, e.g. UA, row 8 of a.csv: ts "never" is not a time' in lines
    assert not any("e.g." in line for line in summary(canned.live()).splitlines())


def test_the_summary_says_that_a_delay_is_that_of_the_first_start() -> None:
    said = " as first started"
    assert said in summary(replace(attached.query(), origin={"lateness": STATE_SCHEMA}))
    assert said not in summary(replace(attached.query(), origin={"lateness": "plan"}))
    both = replace(attached.two_nodes(), origin={"lateness": STATE_SCHEMA})
    assert summary(both).count(said) == 2
    assert f"delays 30s, 1m{said}" in text_of(lay(presenter_of(both).tuning(None, None), 200))
    assert said not in summary(replace(both, origin={"lateness": "plan"}))


def test_an_old_note_does_not_come_back_a_day_later() -> None:
    gone = Note(NOW, "topic_gone", {"topic": "orders"})
    for days, shown in ((0, True), (1, False), (2, False)):
        snapshot = replace(canned.live(), wall_ms=NOW + days * 24 * 3_600_000 + 1_000, notes=[gone])
        assert (recent_note(snapshot) is not None) == shown
