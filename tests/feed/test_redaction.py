"""A copy without names: nothing from outside is left in it, and nothing else is changed."""

import os
from collections.abc import Callable
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
import zstandard
from wmtop.engine.feed.messages import Header, decode_from_engine, encode_line
from wmtop.engine.feed.recording_reader import RecordingReader
from wmtop.engine.feed.recording_writer import RecordingWriter
from wmtop.engine.feed.redaction import REDACTED, Redaction, redact
from wmtop.engine.snapshot import (
    ChannelView,
    Holder,
    InstanceView,
    LateRecord,
    Note,
    OpenWindow,
    OwnRun,
    Snapshot,
    SourceView,
    SparkProgress,
    SparkQuery,
    TargetPart,
    WhatIfIdle,
    Windows,
)
from wmtop.engine.snapshot.kinds.flink_job import FlinkJob, FlinkVertex
from wmtop.engine.system.errors import UsageError
from wmtop.engine.watermarks.settings import Settings, Tumbling

from tests.snapshots import replace

from ..refusals import refused

MakeSnapshot = Callable[..., Snapshot]
SECRET = "secret"


def filled(hint: Any, name: str = "") -> Any:
    """A value of a type in which every field is set, and every text that is free to be anything is a secret."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint is str:
        return f"{SECRET} {name}"
    if origin is Literal:
        return parts[0]
    if origin in (Union, UnionType):
        return filled(next(part for part in parts if part not in (NoneType, msgspec.UnsetType)), name)
    if origin is list:
        return [filled(parts[0], name)]
    if origin is tuple:
        return tuple(filled(part, name) for part in parts if part is not ...)
    if origin is dict:
        return {filled(parts[0], name): filled(parts[1], name)}
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        hints = get_type_hints(hint)
        return hint(**{field: filled(hints[field], field) for field in hint.__struct_fields__})
    return hint(1)


@pytest.mark.parametrize("kind", get_args(TargetPart))
def test_no_text_from_outside_is_left_whatever_fields_a_snapshot_has(kind: type[TargetPart]) -> None:
    """Fields that are added later are redacted without anybody thinking of it."""
    snapshot: Snapshot = replace(filled(Snapshot), target=filled(kind))
    source = replace(snapshot.source, kind="kafka", reader="connector")
    instances = [replace(view, channel="#0") for view in snapshot.instances or ()]
    phases = {"addBatch": 7} if kind in (OwnRun, SparkQuery) else {}
    if isinstance(snapshot.target, OwnRun | SparkQuery):
        spark = replace(snapshot.spark, phases_ms=phases)
        snapshot = replace(snapshot, target=replace(snapshot.target, spark=spark))
    origin = None if kind is OwnRun else {"level": "checkpoint"}
    settings = replace(snapshot.settings, strategy="spark" if kind is SparkQuery else "bounded")
    more = {"origin": origin, "settings": settings, "instances": instances, "target": snapshot.target}
    snapshot = replace(snapshot, source=source, **more)
    notes = [Note(1, "topic_gone", {"topic": f"{SECRET} topic", "unread": 7})]
    snapshot = replace(snapshot, notes=notes, target=snapshot.target)
    line = encode_line(snapshot)
    assert line.count(SECRET.encode()) > 15
    redaction = Redaction()
    redacted = encode_line(redaction.snapshot(snapshot))
    assert SECRET.encode() not in redacted
    read = decode_from_engine(redacted)
    assert isinstance(read, Snapshot)
    assert (read.source.kind, read.source.reader, read.spark.phases_ms) == ("kafka", "connector", phases)
    assert (read.channels[0].channel, read.last_future.channel, read.instances[0].channel) == ("c001", "c001", "#0")
    assert read.notes == [Note(1, "topic_gone", {"topic": REDACTED, "unread": 7})]
    header = replace(filled(Header), format="wmtop", source=source)
    assert SECRET.encode() not in encode_line(redaction.header(header))


def test_a_channel_has_one_name_everywhere_and_the_numbers_stay(snapshot: MakeSnapshot) -> None:
    one = snapshot(1, channels=3, name="orders", error="no such topic orders")
    one = replace(
        one,
        windows=Windows(open=[OpenWindow(0, 1, 2, "F2", 3)], open_count=1),
        whatif_idle=[WhatIfIdle(1, 2, "F1", 3, 4), WhatIfIdle(None, None, None, 0, 0)],
        settings=Settings(strategy="punctuated", lateness_ms=None, marker="kind = 'x'", window=Tumbling(60_000)),
        source=SourceView("files", "/home/me/orders", rows=5, time_column="ordered_at"),
        spark=SparkProgress(batch_ms=3, phases_ms={"addBatch": 2}),
        late_output="/home/me/late",
        late_sample=[LateRecord(4, "F1", 1, 2, 3, 4, "orders", 5, 6)],
    )
    redaction = Redaction()
    redacted = redaction.snapshot(one)
    assert [view.channel for view in redacted.channels] == ["c001", "c002", "c003"]
    assert redacted.level == replace(one.level, holder=replace(one.level.holder, channel="c001"))
    assert redacted.windows.open == [OpenWindow(0, 1, 2, "c003", 3)]
    assert [row.holder for row in redacted.whatif_idle or ()] == ["c002", None]
    assert redacted.own.late_sample == [LateRecord(4, "c002", 1, 2, 3, 4, REDACTED, 5, 6)]
    assert redacted.own.late_output == REDACTED
    assert (redacted.name, redacted.error, redacted.settings.marker) == (REDACTED, REDACTED, REDACTED)
    assert redacted.settings.window == Tumbling(60_000)
    assert redacted.source == SourceView("files", REDACTED, rows=5, time_column=REDACTED)
    assert redacted.spark == one.spark
    assert redacted.totals == one.totals
    assert redacted.channels[2] == replace(one.channels[2], channel="c003")
    later = replace(one, channels=[ChannelView("new", None, None, "active"), *reversed(one.channels)])
    assert [view.channel for view in redaction.snapshot(later).channels] == ["c004", "c003", "c002", "c001"]
    assert redaction.channels == 4


def test_a_source_instance_that_holds_keeps_its_number(snapshot: MakeSnapshot) -> None:
    one = snapshot(1, instances=[InstanceView(i, f"#{i}", 5, "active", 2) for i in range(2)])
    one = replace(one, level=replace(one.level, holder=Holder("#1", 5, "quiet", 1)))
    redacted = Redaction().snapshot(one)
    assert redacted.level.holder == Holder("#1", 5, "quiet", 1)
    assert [view.channel for view in redacted.instances or ()] == ["#0", "#1"]


def test_the_graph_of_a_flink_job_stays_and_its_names_do_not(snapshot: MakeSnapshot) -> None:
    source, window = "a" * 32, "b" * 32
    vertices = [
        FlinkVertex(source, "Source: orders", 1, "RUNNING", []), FlinkVertex(window, "Window", 1, "RUNNING", [source]),
    ]  # fmt: skip
    job = FlinkJob("c" * 32, "orders", "RUNNING", window, vertices, held_in=source, delays={"F1": 30})
    instances = [InstanceView(i, f"Source: orders #{i}", 5, "active", 2) for i in range(2)]
    redacted = Redaction().snapshot(replace(snapshot(1, channels=2, instances=instances), flink=job))
    assert [(one.id, one.inputs, one.status) for one in redacted.job.vertices] == [
        (source, [], "RUNNING"), (window, [source], "RUNNING"),
    ]  # fmt: skip
    assert (redacted.job.operator, redacted.job.held_in, redacted.job.delays) == (window, source, {"c002": 30})
    assert b"orders" not in encode_line(redacted)


def test_the_copy_of_a_recording(tmp_path: Path, header: Header, snapshot: MakeSnapshot) -> None:
    written = [snapshot(number, log="/var/log/x") for number in range(150)]
    with RecordingWriter(tmp_path / "a.rec", header) as writer:
        for one in written:
            writer.append(one)
    reported: list[int] = []
    with RecordingReader(tmp_path / "a.rec") as reader:
        assert redact(reader, tmp_path / "b.rec", reported.append) == 3
    assert reported == list(range(1, 151))
    with RecordingReader(tmp_path / "b.rec") as copy:
        assert copy.header == replace(header, name=REDACTED, id=REDACTED)
        assert [one.now_ms for one in copy] == [one.now_ms for one in written]
        assert [point.holder for point in copy.points] == [f"c00{1 + number // 25 % 2}" for number in range(150)]
    data = (tmp_path / "b.rec").read_bytes()
    text = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()
    assert text.count(b"c001") >= 150
    assert not [word for word in (b"F0", b"flights", b"/var/log") if word in text]


def test_it_writes_over_nothing(tmp_path: Path, header: Header, snapshot: MakeSnapshot) -> None:
    with RecordingWriter(tmp_path / "a.rec", header) as writer:
        writer.append(snapshot(1))
    before = (tmp_path / "a.rec").read_bytes()
    with RecordingReader(tmp_path / "a.rec") as reader:
        with refused(UsageError, "exists", "a.rec"):
            redact(reader, tmp_path / "a.rec", lambda done: None)
        with refused(UsageError, "unwritable", tmp_path / "none" / "b.rec"):
            redact(reader, tmp_path / "none" / "b.rec", lambda done: None)
    assert (tmp_path / "a.rec").read_bytes() == before


def test_a_copy_is_whole_or_not_there(tmp_path: Path, header: Header, snapshot: MakeSnapshot) -> None:
    with RecordingWriter(tmp_path / "a.rec", header) as writer:
        writer.append(snapshot(1))
        writer.append(snapshot(2))
    copy = tmp_path / "b.rec"

    def interrupt(done: int) -> None:
        assert not copy.exists()
        if done == 2:
            raise KeyboardInterrupt

    with RecordingReader(tmp_path / "a.rec") as reader:
        with pytest.raises(KeyboardInterrupt):
            redact(reader, copy, interrupt)
        assert os.listdir(tmp_path) == ["a.rec"]
        (tmp_path / "b.rec.part").write_bytes(b"left by one that was killed")
        redact(reader, copy, lambda done: None)
    assert sorted(os.listdir(tmp_path)) == ["a.rec", "b.rec"]
    with RecordingReader(copy) as reader:
        assert (len(reader), reader.truncated) == (2, False)
