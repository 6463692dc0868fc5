"""The condition of a target in a line: typed in a new one, from the notes in one of 0.1."""

import json
from typing import get_args

import pytest
from msgspec.structs import replace
from wmtop.engine.feed.messages import decode_from_engine, encode_line
from wmtop.engine.feed.old_lines import condition_of_notes
from wmtop.engine.snapshot import (
    NOTHING_KNOWN,
    Condition,
    EngineState,
    LostDirectory,
    Note,
    NoteCode,
    Snapshot,
    SparkQuery,
    Uncommitted,
)
from wmtop.engine.watermarks.settings import Settings

NOW = 1_700_000_000_000
SEEN = Snapshot(
    name="q", state="live", now_ms=NOW, wall_ms=NOW, settings=Settings(strategy="spark"), target=SparkQuery(),
    origin={"batch": "checkpoint"},
)  # fmt: skip
_WORDS_ONLY = {
    "topic_missing", "topic_gone", "topic_recreated", "partition_added", "cluster_silent", "cluster_answers",
    "records_expired", "log_cut", "read_failed", "time_not_found", "file_unread", "file_changed", "directory_back",
    "max_drift_ignored", "start_stuck", "channels_folded", "alert_failed", "clock_set", "clock_offset", "not_started",
    "stopped", "no_batch", "newer_format", "time_needed", "channels_sampled", "nodes_without_tap", "windows_unknown",
    "driver_only", "driver_no_watermark", "no_watermark", "watermark_pinned", "watermark_unmoved", "watermark_frozen",
    "slowest_clock", "sibling_failed", "partitions_unseen",
}  # fmt: skip
"""Notes of which nothing follows."""


def as_written_by_0_1(snapshot: Snapshot) -> bytes:
    """The line without what came later."""
    line = json.loads(encode_line(snapshot))
    return json.dumps({key: value for key, value in line.items() if key not in ("target_kind", "condition")}).encode()


@pytest.mark.parametrize(
    ("note", "condition"),
    [
        (Note(NOW, "query_idle"), Condition(idle=True)),
        (Note(NOW, "pause_unknown", {"silent_ms": 7, "alive": 1}),
         Condition(pause="unknown", silent_ms=7, alive=True, settled=True)),
        (Note(NOW, "pause_unknown"), Condition(pause="unknown", settled=True)),
        (Note(NOW, "clock_ahead"), Condition(clock_ahead=True)),
        (Note(NOW, "waits_for_trigger", {"trigger_ms": 9, "silent_ms": 7}), Condition(pause="trigger", silent_ms=7)),
        (Note(NOW, "no_batch_ended", {"silent_ms": 7, "alive": 1}),
         Condition(pause="first_batch", silent_ms=7, alive=True)),
        (Note(NOW, "continuous"), Condition(continuous=True, settled=True)),
        (Note(NOW, "query_silent", {"alive": None}), Condition(standstill="silent")),
        (Note(NOW, "windows_untimed", {"operator": "w"}), Condition(no_guide=True)),
        (Note(NOW, "ended_early", {"subtask": "a", "more": 0}), Condition(no_guide=True)),
        (Note(NOW, "broker_silent", {"why": "timeout"}), Condition(source_silent="timeout")),
        (Note(NOW, "unreadable", {"why": "denied"}), Condition(unreadable="denied")),
        (Note(NOW, "jvm_silent", {"silent_ms": 11, "pid": 1}), Condition(jvm_silent_ms=11)),
        (Note(NOW, "engine_stopping"), Condition(stopping=True)),
        (Note(NOW, "snapshot_too_long", {"channels": 9, "bytes": 1}), Condition(channels_left_out=9)),
        (Note(NOW, "one_batch", {"source": "files"}), Condition(one_batch=True)),
        (Note(NOW, "no_member", {"unread": 3}), Condition(no_member=True)),
        (Note(NOW, "partitions_uncommitted", {"partitions": 2, "partition": 0, "records": 9}),
         Condition(uncommitted=Uncommitted(2, 0, 9))),
        (Note(NOW, "directory_lost", {"directory": "/in", "why": "gone"}),
         Condition(directory_lost=LostDirectory("/in", "gone", NOW))),
    ],
)  # fmt: skip
def test_the_notes_of_an_old_line_say_what_its_condition_is(note: Note, condition: Condition) -> None:
    old = decode_from_engine(as_written_by_0_1(replace(SEEN, notes=[note])))
    assert isinstance(old, Snapshot)
    assert old.condition == condition
    new = decode_from_engine(encode_line(replace(SEEN, notes=[note])))
    assert isinstance(new, Snapshot)
    assert new.condition == NOTHING_KNOWN, "in a new line a note is words"


@pytest.mark.parametrize(("state", "settled"), [("stale", True), ("live", False), ("partial", False)])
@pytest.mark.parametrize("code", ["no_new_batch", "batch_unfinished", "query_silent", "application_gone"])
def test_a_query_at_a_standstill_is_settled_once_it_is_stale(code: NoteCode, state: EngineState, settled: bool) -> None:
    found = condition_of_notes(state, [Note(NOW, "sibling_failed"), Note(NOW, code, {"silent_ms": 5})])
    assert (found.standstill is not None, found.settled) == (True, settled)
    assert found.silent_ms == (5 if code == "application_gone" else None)


def test_every_code_has_a_meaning_or_is_words_only() -> None:
    """A new code that something follows from belongs into the condition, not into a note."""
    of_condition = {
        code
        for code in get_args(NoteCode)
        if condition_of_notes("live", [Note(NOW, code, {"silent_ms": 1, "channels": 1})]) != NOTHING_KNOWN
    }
    assert of_condition | _WORDS_ONLY == set(get_args(NoteCode))
    assert of_condition.isdisjoint(_WORDS_ONLY)


def test_a_directory_that_is_back_is_not_lost() -> None:
    lost = Note(NOW, "directory_lost", {"directory": "/in", "why": "gone"})
    assert condition_of_notes("live", [lost, Note(NOW, "directory_back")]) == NOTHING_KNOWN


def test_a_condition_is_in_the_line_only_where_something_is_known() -> None:
    assert b'"condition"' not in encode_line(SEEN)
    paused = replace(SEEN, condition=Condition(pause="trigger", silent_ms=7))
    line = encode_line(paused)
    assert b'"condition":{"pause":"trigger","silent_ms":7}' in line
    assert decode_from_engine(line) == paused
