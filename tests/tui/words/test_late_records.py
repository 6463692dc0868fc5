"""The lines that fetch a late record, run as a shell and DuckDB would read them; which records are asked for."""

import shlex

from msgspec.structs import replace
from wmtop.engine.snapshot import LateRecord, SourceView
from wmtop.tui.words.late_records import About, columns, fetch, late_records, listed, no_records

from ..canned import live

FILE = LateRecord(17, "UA", 5_000, 9_000, 6_000, 3_001)
KAFKA = LateRecord(17, "t-3", 5_000, 9_000, 6_000, 3_001, "t", 3, 42)


def test_a_record_from_kafka_is_fetched_by_its_offset() -> None:
    snapshot = live(source=SourceView("kafka", "t", bootstrap="a:9092,b:9092"), late_output="/late")
    line = (
        "kafka-console-consumer --bootstrap-server a:9092,b:9092 --topic t --partition 3 --offset 42 --max-messages 1"
    )
    assert fetch(snapshot, KAFKA).line == line
    unknown = fetch(live(source=None), KAFKA)
    assert "--bootstrap-server BOOTSTRAP --topic" in unknown.line
    assert "BOOTSTRAP" in unknown.note
    odd = live(source=SourceView("kafka", "t", bootstrap="a; rm -r /"))
    assert shlex.split(fetch(odd, KAFKA).line)[2] == "a; rm -r /"


def test_another_record_is_fetched_from_its_batch() -> None:
    snapshot = live(late_output="/o'clock")
    where = "select * from read_parquet('/o''clock/batch=17/*.parquet') where "
    assert fetch(snapshot, FILE).line == where + "wmtop_channel = 'UA' and wmtop_time_ms = 5000"
    quoted = replace(FILE, channel="U'A")
    assert fetch(snapshot, quoted).line == where + "wmtop_channel = 'U''A' and wmtop_time_ms = 5000"
    obeyed = replace(FILE, channel="U\n.shell A")
    assert fetch(snapshot, obeyed).line == where + "wmtop_time_ms = 5000"


def test_records_of_a_channel_of_a_window_and_all() -> None:
    early, other = replace(FILE, time_ms=999), replace(FILE, channel="B6", time_ms=1_999)
    snapshot = live(late_output="/late", late_sample=[FILE, early, other])
    assert late_records(snapshot, About()) == [FILE, early, other]
    assert late_records(snapshot, About("UA")) == [FILE, early]
    assert late_records(snapshot, About(start_ms=1_000, end_ms=2_000)) == [other]
    of_channel = next(view.late for view in snapshot.channels if view.channel == "UA")
    assert listed(snapshot, About()) == f"3 listed of {snapshot.totals.late:,} late"
    assert listed(snapshot, About("UA")) == f"2 listed of {of_channel} late"
    assert listed(snapshot, About(start_ms=1_000, end_ms=2_000)) == "1 listed"
    [_, line] = no_records(snapshot, About("WN"), None)
    assert line == "select * from read_parquet('/late/*/*.parquet') where wmtop_channel = 'WN'"


def test_each_reason_for_no_records_is_its_own() -> None:
    reasons = [
        no_records(snapshot, About(), None)
        for snapshot in (
            live(),
            live(origin={"level": "checkpoint"}),
            live(late_output="s3a://b/late"),
            live(late_output="/late", late_sample=[]),
        )
    ]
    assert len({tuple(reason) for reason in reasons}) == len(reasons)
    assert ["--late-output" in " ".join(reason) for reason in reasons] == [True, True, False, False]


def test_times_of_old_data_read_by_a_live_run_are_times_of_day() -> None:
    """The date alone, which all of them have, tells one record from another no more than their channel does."""
    snapshot = live(late_output="/late")
    level_ms = snapshot.level.watermark_ms
    assert level_ms is not None
    old = replace(snapshot, now_ms=level_ms + 13 * 366 * 86_400_000)
    record = replace(FILE, time_ms=level_ms - 61_000)
    then, now = (columns(each, None)[0].text(("", record)) for each in (old, snapshot))
    assert then == now
    assert ":" in then
