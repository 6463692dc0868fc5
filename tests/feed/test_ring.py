"""A recording is a ring: what is beyond its bounds goes, the oldest first; killed at any moment it stays readable."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from wmtop.engine.feed.messages import Header
from wmtop.engine.feed.recording_reader import RecordingReader
from wmtop.engine.feed.recording_writer import GROUP, TRUNCATED, UNBOUNDED, Bounds, RecordingWriter, first_kept
from wmtop.engine.snapshot import Snapshot
from wmtop.engine.system.errors import RunError, UsageError

from ..refusals import refused

MakeSnapshot = Callable[..., Snapshot]
SECOND, HOUR = 1_000, 3_600_000


class Group(Struct):
    """As much of a group as counts here."""

    offset: int
    last_wall_ms: int | None


def groups(*places: tuple[int, int | None]) -> list[Group]:
    return [Group(offset, wall) for offset, wall in places]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "flights.rec"


def settle(writer: RecordingWriter) -> None:
    """Wait until what is to be dropped has been."""
    if writer._shortening is not None:
        writer._shortening.join()


def record(path: Path, header: Header, snapshots: list[Snapshot], bounds: Bounds) -> None:
    with RecordingWriter(path, header, bounds, existing="continue") as writer:
        for snapshot in snapshots:
            writer.append(snapshot)
            settle(writer)


@pytest.mark.parametrize(
    ("places", "end", "bounds", "kept"),
    [
        ([(100, 0), (300, 1), (500, 2), (700, 3)], 800, Bounds(800, None), 0),
        ([(100, 0), (300, 1), (500, 2), (700, 3)], 900, Bounds(800, None), 1),  # 600 bytes are within 7/8 of 800
        ([(100, 0), (300, 1), (500, 2), (700, 3)], 1100, Bounds(800, None), 2),
        ([(100, 0), (300, 1)], 9000, Bounds(800, None), 1),  # never all
        ([(100, 0)], 9000, Bounds(800, 10), 0),
        ([(100, 0), (300, 80), (500, 160)], 900, Bounds(None, 160), 0),
        ([(100, 0), (300, 80), (500, 161)], 900, Bounds(None, 160), 1),
        ([(100, 0), (300, 10), (500, 161)], 900, Bounds(None, 160), 2),
        ([(100, 0), (300, 10), (500, 161)], 900, Bounds(800, 160), 2),  # whichever drops more
        ([(100, 0), (300, 10), (500, 9999)], 900, UNBOUNDED, 0),
        ([(100, 500), (300, 10), (500, 20)], 900, Bounds(None, 160), 0),  # a clock that was set back
        ([(100, None), (300, 10), (500, None)], 900, Bounds(None, 1), 0),
    ],
)
def test_what_goes(places: list[tuple[int, int | None]], end: int, bounds: Bounds, kept: int) -> None:
    assert first_kept(groups(*places), end, bounds) == kept


def test_the_oldest_snapshots_go_and_the_rest_is_as_it_was(path: Path, header: Header, snapshot: MakeSnapshot) -> None:
    written = [snapshot(number) for number in range(20 * GROUP + 5)]
    record(path, header, written, Bounds(None, 8 * GROUP * SECOND))
    with RecordingReader(path) as reader:
        assert not reader.truncated
        left = list(reader)
        assert reader.header == header
        assert 7 * GROUP <= len(left) <= 9 * GROUP + 5
        assert left == written[-len(left) :]
        assert [point.now_ms for point in reader.points] == [one.now_ms for one in left]
        for number in (0, GROUP, len(left) - 1):
            assert reader.at(number) == left[number]
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_the_size_is_bounded(path: Path, header: Header, snapshot: MakeSnapshot) -> None:
    written = [snapshot(number, channels=20) for number in range(12 * GROUP)]
    record(path, header, written, UNBOUNDED)
    whole = path.stat().st_size
    path.unlink()
    record(path, header, written, Bounds(whole // 3, None))
    assert path.stat().st_size < whole / 2
    with RecordingReader(path) as reader:
        left = list(reader)
    assert left == written[-len(left) :]
    assert len(left) > GROUP


def test_what_is_written_while_it_is_shortened_is_not_lost(path: Path, header: Header, snapshot: MakeSnapshot) -> None:
    written = [snapshot(number) for number in range(40 * GROUP)]
    with RecordingWriter(path, header, Bounds(None, 5 * GROUP * SECOND)) as writer:
        for one in written:  # it never waits for the copies
            writer.append(one)
    with RecordingReader(path) as reader:
        assert not reader.truncated
        left = list(reader)
    assert left == written[-len(left) :]
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_continued_recording_is_shortened_too(path: Path, header: Header, snapshot: MakeSnapshot) -> None:
    written = [snapshot(number) for number in range(12 * GROUP)]
    record(path, header, written[: 8 * GROUP + 7], UNBOUNDED)
    record(path, header, written[8 * GROUP + 7 :], Bounds(None, 4 * GROUP * SECOND))
    with RecordingReader(path) as reader:
        left = list(reader)
    assert left == written[-len(left) :]
    assert len(left) < 6 * GROUP


def test_it_can_be_continued_after_it_was_shortened(path: Path, header: Header, snapshot: MakeSnapshot) -> None:
    written = [snapshot(number) for number in range(7 * GROUP)]
    bounds = Bounds(None, 3 * GROUP * SECOND)
    record(path, header, written[: 6 * GROUP + 3], bounds)
    record(path, header, written[6 * GROUP + 3 :], bounds)
    with RecordingReader(path) as reader:
        left = list(reader)
    assert left == written[-len(left) :]
    assert len(left) <= 5 * GROUP


def test_an_open_reader_keeps_what_it_opened(path: Path, header: Header, snapshot: MakeSnapshot) -> None:
    written = [snapshot(number) for number in range(6 * GROUP)]
    with RecordingWriter(path, header, Bounds(None, 2 * GROUP * SECOND)) as writer:
        for one in written[:GROUP]:
            writer.append(one)
        with RecordingReader(path) as reader:
            for one in written[GROUP:]:
                writer.append(one)
            settle(writer)
            assert list(reader) == written[:GROUP]


def test_another_writer_is_kept_out_after_it_was_shortened(path: Path, header: Header, snapshot: MakeSnapshot) -> None:
    with RecordingWriter(path, header, Bounds(None, GROUP * SECOND)) as writer:
        for number in range(4 * GROUP):
            writer.append(snapshot(number))
            settle(writer)
        with refused(UsageError, "in_use", path):
            RecordingWriter(path, header, existing="continue")


def test_what_cannot_be_dropped_ends_the_recording_in_one_line(
    path: Path, header: Header, snapshot: MakeSnapshot
) -> None:
    """A directory in the copy's place stands for one that cannot be written."""
    with RecordingWriter(path, header, Bounds(None, GROUP * SECOND)) as writer:
        path.with_name("flights.rec.shorter").mkdir()
        for number in range(3 * GROUP):
            writer.append(snapshot(number))
        settle(writer)
        with refused(RunError, "stopped", path):
            writer.append(snapshot(3 * GROUP))
    with RecordingReader(path) as reader:
        assert len(list(reader)) >= 2 * GROUP


def test_killed_while_it_is_shortened_it_is_readable_and_goes_on(path: Path, header: Header) -> None:
    """The writer kills itself in the middle of the copy: nothing that was appended is missing."""
    code = f"""
import os, signal
from pathlib import Path
from wmtop.engine.watermarks.settings import Settings
from wmtop.engine.snapshot import Snapshot
from wmtop.engine.feed.messages import Header
from wmtop.engine.feed import recording_writer as module
from wmtop.engine.feed.recording_writer import Bounds
header = Header(name="a", pid=1, started_ms=0, settings=Settings())
writer = module.RecordingWriter(Path({str(path)!r}), header, Bounds(None, 200_000))
copied = module._write_all
def die_in_the_copy(file, data):
    copied(file, data[: len(data) // 2])
    if file.name != writer._file.name:
        os.kill(os.getpid(), signal.SIGKILL)
    copied(file, data[len(data) // 2 :])
for number in range(10_000):
    if number == 150:
        module._write_all = die_in_the_copy
        module.CHUNK = 100
    one = Snapshot(name="a", state="live", batch=number, now_ms=1, wall_ms=1000 * number, settings=Settings())
    writer.append(one)
    print(number, flush=True)
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    last = int(done.stdout.split()[-1])
    assert path.with_name("flights.rec.shorter").exists()
    with RecordingReader(path) as reader:
        assert [one.batch for one in reader][: last + 1] == list(range(last + 1))
    RecordingWriter(path, header, existing="continue").close()
    assert os.listdir(path.parent) == [path.name]


def test_a_recording_that_is_truncated_while_it_is_copied_ends_in_one_line(
    path: Path, header: Header, snapshot: MakeSnapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bytes never come: the copy gives up, and does not wait for them."""
    copy = RecordingWriter._copy

    def truncated(writer: RecordingWriter, *arguments: Any) -> None:
        os.truncate(path, 10)
        copy(writer, *arguments)

    with RecordingWriter(path, header, Bounds(None, GROUP * SECOND)) as writer:
        for number in range(2 * GROUP + 1):
            writer.append(snapshot(number))
        monkeypatch.setattr(RecordingWriter, "_copy", truncated)
        for number in range(2 * GROUP + 1, 3 * GROUP):
            writer.append(snapshot(number))
        assert writer._shortening is not None
        writer._shortening.join(20)
        assert not writer._shortening.is_alive()
        with refused(RunError, "stopped", path, TRUNCATED):
            writer.append(snapshot(3 * GROUP))
