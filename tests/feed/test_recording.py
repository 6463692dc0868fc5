import errno
import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import zstandard
from wmtop.engine.feed import recording_reader
from wmtop.engine.feed import recording_writer as writing
from wmtop.engine.feed.messages import STREAM_VERSION, Header, decode_from_engine
from wmtop.engine.feed.recording_reader import RecordingReader
from wmtop.engine.feed.recording_writer import ADVICE, GROUP, TRUNCATED, RecordingWriter
from wmtop.engine.snapshot import Snapshot
from wmtop.engine.system.errors import RunError, UsageError
from wmtop.engine.verdict.history import history_point

from ..refusals import refused

MakeSnapshot = Callable[..., Snapshot]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "flights.wmtop"


def record(path: Path, header: Header, snapshots: list[Snapshot]) -> None:
    with RecordingWriter(path, header, existing="continue") as writer:
        for snapshot in snapshots:
            writer.append(snapshot)


def abandon(path: Path, header: Header, snapshots: list[Snapshot]) -> None:
    """A writer that is killed: no frame is finished, nothing is closed."""
    writer = RecordingWriter(path, header, existing="continue")
    for snapshot in snapshots:
        writer.append(snapshot)
    writer._file.close()


def open_or_none(path: Path) -> RecordingReader | None:
    try:
        return RecordingReader(path)
    except UsageError:
        return None


def test_what_was_written_is_read(path: Path, header: Header, snapshot: MakeSnapshot) -> None:
    written = [snapshot(number) for number in range(2 * GROUP + 7)]
    record(path, header, written)
    with RecordingReader(path) as reader:
        assert reader.header == header
        assert not reader.truncated
        assert len(reader) == len(written)
        assert list(reader) == written
        assert [info.count for info in reader.index] == [GROUP, GROUP, 7]
        assert reader.snapshots(1) == written[GROUP : 2 * GROUP]
        assert [reader.at(number) for number in (0, 59, 60, 126)] == [written[n] for n in (0, 59, 60, 126)]
        for outside in (-1, len(written)):
            with pytest.raises(IndexError):
                reader.at(outside)


def test_the_index_has_times_holders_and_counts(path: Path, header: Header, snapshot: MakeSnapshot) -> None:
    written = [snapshot(0, now_ms=None), *(snapshot(number) for number in range(GROUP))]
    record(path, header, written)
    with RecordingReader(path) as reader:
        assert reader.points == [None, *(history_point(one) for one in written[1:])]
        info, last = reader.index
    assert (info.points[26].now_ms, info.points[26].holder, info.points[26].late) == (written[26].now_ms, "F1", 25)
    assert [point.records for point in last.points] == [5900]


def test_the_lines_are_those_of_the_stream(path: Path, header: Header, snapshot: MakeSnapshot) -> None:
    """Any zstd tool reads it: summaries and index are skipped."""
    written = [snapshot(number) for number in range(GROUP + 3)]
    record(path, header, written)
    reader = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(path.read_bytes()), read_across_frames=True)
    assert [decode_from_engine(line) for line in reader.read().splitlines()] == [header, *written]


def test_an_empty_recording(path: Path, header: Header) -> None:
    record(path, header, [])
    with RecordingReader(path) as reader:
        assert (reader.header, len(reader), list(reader), reader.index) == (header, 0, [], [])
        assert reader.seek(0) == 0
        assert not reader.truncated


def test_seek(path: Path, header: Header, snapshot: MakeSnapshot) -> None:
    """Processing time need not be known at first, nor move with each snapshot."""
    starting = [snapshot(0, now_ms=None, state="starting") for _ in range(GROUP + 2)]
    running = [snapshot(number // 2) for number in range(2 * GROUP)]
    written = starting + running
    record(path, header, written)
    start = running[0].now_ms
    assert start is not None
    with RecordingReader(path) as reader:
        assert reader.points[: GROUP + 2] == [None] * (GROUP + 2)
        for time in range(start - 1500, start + 1000 * GROUP + 1500, 500):
            found = [i for i, one in enumerate(written) if one.now_ms is not None and one.now_ms <= time]
            assert reader.seek(time) == (found[-1] if found else 0)
            assert reader.at(reader.seek(time)) == written[reader.seek(time)]


@pytest.mark.parametrize("closed", [True, False])
def test_cut_at_every_byte_a_prefix_is_left(
    path: Path, header: Header, snapshot: MakeSnapshot, monkeypatch: pytest.MonkeyPatch, closed: bool
) -> None:
    monkeypatch.setattr(writing, "GROUP", 2)
    written = [snapshot(number, channels=1) for number in range(3)]
    (record if closed else abandon)(path, header, written)
    whole = path.read_bytes()
    readable: list[int] = []
    for size in range(len(whole) if closed else len(whole) + 1):
        path.write_bytes(whole[:size])
        if (reader := open_or_none(path)) is None:
            assert not readable
            continue
        with reader:
            assert reader.truncated
            assert reader.header == header
            left = list(reader)
        assert left == written[: len(left)]
        readable.append(len(left))
    assert readable == sorted(readable)
    assert set(readable) == {0, 1, 2, 3}
    assert len(readable) > len(whole) / 2


def test_an_abandoned_recording_loses_nothing(path: Path, header: Header, snapshot: MakeSnapshot) -> None:
    written = [snapshot(number) for number in range(GROUP + 5)]
    abandon(path, header, written)
    with RecordingReader(path) as reader:
        assert reader.truncated
        assert list(reader) == written
        assert [info.count for info in reader.index] == [GROUP, 5]
        assert reader.points == [history_point(one) for one in written]


def test_the_index_made_by_walking_is_the_one_written(path: Path, header: Header, snapshot: MakeSnapshot) -> None:
    record(path, header, [snapshot(number) for number in range(3 * GROUP)])
    with RecordingReader(path) as reader:
        index, end = reader.index, reader.end
    os.truncate(path, end)
    with RecordingReader(path) as reader:
        assert reader.truncated
        assert reader.index == index


def test_a_recording_is_continued(path: Path, header: Header, snapshot: MakeSnapshot) -> None:
    written = [snapshot(number) for number in range(2 * GROUP + 9)]
    record(path, header, written[:5])
    abandon(path, header, written[5:70])
    abandon(path, header, [])
    record(path, header, written[70:])
    with RecordingReader(path) as reader:
        assert not reader.truncated
        assert list(reader) == written
        assert [info.count for info in reader.index] == [5, 60, 5, 59]


def test_cut_at_any_byte_it_can_be_continued(
    path: Path, header: Header, snapshot: MakeSnapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "GROUP", 2)
    record(path, header, [snapshot(number, channels=1) for number in range(2)])
    record(path, header, [snapshot(2, channels=1)])
    whole = path.read_bytes()
    more = [snapshot(number, channels=1) for number in range(3, 6)]
    continued = 0
    for size in [*range(0, len(whole), 5), len(whole)]:
        path.write_bytes(whole[:size])
        if (reader := open_or_none(path)) is None:
            continue
        with reader:
            left = list(reader)
        for finish in (abandon, record):
            path.write_bytes(whole[:size])
            finish(path, header, more)
            with RecordingReader(path) as reader:
                assert list(reader) == left + more
                assert reader.truncated == (finish is abandon)
        continued += 1
    assert continued > 50


def test_a_later_run_over_the_same_time_is_found_first(path: Path, header: Header, snapshot: MakeSnapshot) -> None:
    runs = [snapshot(number) for number in range(10)]
    record(path, header, runs)
    record(path, header, runs)
    with RecordingReader(path) as reader:
        assert runs[4].now_ms is not None
        assert reader.seek(runs[4].now_ms) == 14


def test_large_snapshots_make_smaller_groups(
    path: Path, header: Header, snapshot: MakeSnapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "GROUP_BYTES", 1_000_000)
    written = [snapshot(number, channels=2000) for number in range(7)]
    record(path, header, written)
    with RecordingReader(path) as reader:
        assert [info.count for info in reader.index] == [2, 2, 2, 1]
        assert list(reader) == written


def test_ten_thousand_channels(path: Path, header: Header, snapshot: MakeSnapshot) -> None:
    written = [snapshot(number, channels=10_000) for number in range(3)]
    abandon(path, header, written)
    with RecordingReader(path) as reader:
        assert list(reader) == written


def test_an_engine_that_is_killed_loses_nothing_it_has_appended(path: Path) -> None:
    code = f"""
import os, signal
from pathlib import Path
from wmtop.engine.watermarks.settings import Settings
from wmtop.engine.snapshot import Snapshot
from wmtop.engine.feed.messages import Header
from wmtop.engine.feed.recording_writer import RecordingWriter
writer = RecordingWriter(Path({str(path)!r}), Header(name="a", pid=1, started_ms=0, settings=Settings()))
for number in range(100):
    writer.append(Snapshot(name="a", state="live", batch=number, settings=Settings()))
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    with RecordingReader(path) as reader:
        assert reader.truncated
        assert [one.batch for one in reader] == list(range(100))


def test_a_recording_is_readable_while_it_is_written(path: Path, header: Header, snapshot: MakeSnapshot) -> None:
    with RecordingWriter(path, header, existing="continue") as writer:
        for number in range(GROUP + 2):
            writer.append(snapshot(number))
            with RecordingReader(path) as reader:
                assert len(reader) == number + 1
                assert reader.at(number) == snapshot(number)


def test_two_engines_do_not_write_one_file(path: Path, header: Header) -> None:
    with RecordingWriter(path, header, existing="continue"), refused(UsageError, "in_use", path):
        RecordingWriter(path, header, existing="continue")
    RecordingWriter(path, header, existing="continue").close()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"x",
        b"hello, this is a text and no recording\n",
        b"PAR1" + bytes(100),
        zstandard.compress(b"a text"),
        zstandard.compress(b'{"kind":"reply","id":1,"ok":true}\n'),
        zstandard.compress(b'{"kind":"header","format":"other","name":"","pid":1,"started_ms":0,"settings":{}}\n'),
        b"\x28\xb5\x2f\xfd" + b"\xff" * 50,
        b"\x50\x2a\x4d\x18\x02\x00\x00\x00{}",
    ],
)
def test_what_is_no_recording_is_one_line(path: Path, header: Header, content: bytes) -> None:
    path.write_bytes(content)
    with refused(UsageError, "no_recording", path):
        RecordingReader(path)
    if content:
        with refused(UsageError, "no_recording", path):
            RecordingWriter(path, header, existing="continue")
        assert path.read_bytes() == content


def test_what_cannot_be_opened_is_one_line(tmp_path: Path, header: Header) -> None:
    with refused(UsageError, "unreadable", tmp_path / "missing", os.strerror(errno.ENOENT)):
        RecordingReader(tmp_path / "missing")
    with refused(UsageError, "no_file"):
        RecordingReader(tmp_path)
    with refused(UsageError, "unwritable", tmp_path / "missing" / "a", os.strerror(errno.ENOENT)):
        RecordingWriter(tmp_path / "missing" / "a", header)
    with refused(UsageError, "no_file"):
        RecordingWriter(tmp_path, header, existing="continue")
    os.mkfifo(tmp_path / "pipe")
    with refused(UsageError, "no_file"):
        RecordingReader(tmp_path / "pipe")
    with refused(UsageError, "no_file"):
        RecordingWriter(tmp_path / "pipe", header, existing="continue")


def test_a_full_disk_is_one_line_and_the_rest_stays_readable(
    path: Path, header: Header, snapshot: MakeSnapshot
) -> None:
    code = f"""
import resource, signal
from pathlib import Path
from wmtop.engine.watermarks.settings import Settings
from wmtop.engine.snapshot import Snapshot
from wmtop.engine.system.errors import RunError
from wmtop.engine.feed.messages import Header
from wmtop.engine.feed.recording_writer import RecordingWriter
writer = RecordingWriter(Path({str(path)!r}), Header(name="a", pid=1, started_ms=0, settings=Settings()))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
number = 0
try:
    while True:
        writer.append(Snapshot(name="a", state="live", batch=number, settings=Settings(), error="x" * number))
        number += 1
except RunError as error:
    print(number, error)
writer.append(Snapshot(name="a", state="live", settings=Settings()))
writer.close()
"""
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    number, line = said.split(" ", 1)
    assert str(path) in line
    assert os.strerror(errno.EFBIG) in line
    assert line.rstrip().endswith(ADVICE[errno.EFBIG])
    with RecordingReader(path) as reader:
        assert reader.truncated
        assert [one.batch for one in reader] == list(range(int(number)))


def test_damage_inside_never_crashes(path: Path, header: Header, snapshot: MakeSnapshot) -> None:
    """Whatever byte is changed: it is read, or it is one line that says what is wrong."""
    record(path, header, [snapshot(number, channels=1) for number in range(2)])
    whole = path.read_bytes()
    damaged = 0
    lines: list[str] = []
    for position in range(len(whole)):
        for flip in (0x01, 0xFF):
            path.write_bytes(whole[:position] + bytes([whole[position] ^ flip]) + whole[position + 1 :])
            try:
                with RecordingReader(path) as reader:
                    list(reader)
                    reader.seek(header.started_ms)
            except (UsageError, RunError) as error:
                lines += str(error).splitlines()
                damaged += 1
    assert len(lines) == damaged > len(whole) / 2


def test_a_frame_that_unpacks_without_end_is_damage(path: Path, header: Header, snapshot: MakeSnapshot) -> None:
    abandon(path, header, [snapshot(1)])
    with path.open("ab") as file:
        file.write(recording_reader.LAST_BLOCK + zstandard.compress(bytes(recording_reader.FRAME_LIMIT + 1)))
    with refused(RunError, "damaged", path):
        RecordingReader(path)


def test_an_existing_file_is_refused_or_replaced(path: Path, header: Header, snapshot: MakeSnapshot) -> None:
    record(path, header, [snapshot(1)])
    before = path.read_bytes()
    with refused(UsageError, "exists", path):
        RecordingWriter(path, header)
    assert path.read_bytes() == before
    with RecordingWriter(path, header, existing="replace") as writer:
        writer.append(snapshot(2))
    with RecordingReader(path) as reader:
        assert list(reader) == [snapshot(2)]


@pytest.mark.parametrize("version", [0, STREAM_VERSION - 1, STREAM_VERSION + 1, 99])
def test_a_recording_of_another_version_is_refused_in_one_line(path: Path, header: Header, version: int) -> None:
    """Whatever else it holds: nothing of it is read, and nothing is written to it."""
    other = {"kind": "header", "format": "wmtop", "version": version, "name": [1]}
    path.write_bytes(zstandard.compress(msgspec.json.encode(other) + b"\n"))
    before = path.read_bytes()
    with refused(UsageError, "version", path, version, STREAM_VERSION):
        RecordingReader(path)
    with refused(UsageError, "version", path, version, STREAM_VERSION):
        RecordingWriter(path, header, existing="continue")
    assert path.read_bytes() == before


def test_a_recording_that_another_program_truncates_ends_in_one_line(
    path: Path, header: Header, snapshot: MakeSnapshot
) -> None:
    with RecordingWriter(path, header) as writer:
        writer.append(snapshot(1))
        os.truncate(path, path.stat().st_size - 10)
        with refused(RunError, "stopped", path, TRUNCATED):
            writer.append(snapshot(2))
        writer.append(snapshot(3))


def test_frames_are_not_followed_beyond_the_end_of_a_file_that_was_truncated(
    path: Path, header: Header, snapshot: MakeSnapshot
) -> None:
    """The size is as it was before: the walk ends where the bytes do, and not a block header later each time."""
    abandon(path, header, [snapshot(number) for number in range(5)])
    reads = 0

    class Counted(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            nonlocal reads
            reads += 1
            return super().read(size)

    whole = path.read_bytes()
    frames_found = list(recording_reader.walk(Counted(whole[:-20]), 10**9))
    assert not frames_found[-1].whole
    assert reads < 50
