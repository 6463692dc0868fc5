"""Recording never holds up the one who records; what fails is said once, in one line."""

import errno
import os
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from wmtop.engine.feed import recording_writer
from wmtop.engine.feed.messages import Header
from wmtop.engine.feed.recording_reader import RecordingReader
from wmtop.engine.feed.recording_writer import QUEUED, BackgroundWriter, RecordingWriter
from wmtop.engine.snapshot import Snapshot
from wmtop.engine.system.errors import RunError

from ..refusals import refused

MakeSnapshot = Callable[..., Snapshot]


class SlowWriter(RecordingWriter):
    """A writer whose disk answers only when `gate` is set."""

    gate: threading.Event

    def append(self, snapshot: Snapshot) -> None:
        assert threading.current_thread() is not threading.main_thread(), "the caller would wait for the disk"
        self.gate.wait(30)
        super().append(snapshot)


@pytest.fixture
def slow(tmp_path: Path, header: Header) -> Iterator[SlowWriter]:
    writer = SlowWriter(tmp_path / "a.rec", header)
    writer.gate = threading.Event()
    yield writer
    writer.gate.set()


def test_all_is_written_in_order_by_another_thread(slow: SlowWriter, snapshot: MakeSnapshot) -> None:
    writer = BackgroundWriter(slow)
    for number in range(20):  # would never end if it waited for the disk
        writer.append(snapshot(number))
    slow.gate.set()
    writer.close()
    assert writer.skipped == 0
    with RecordingReader(slow.path) as reader:
        assert not reader.truncated
        assert list(reader) == [snapshot(number) for number in range(20)]


def test_what_does_not_fit_into_the_queue_is_counted(slow: SlowWriter, snapshot: MakeSnapshot) -> None:
    writer = BackgroundWriter(slow)
    count = QUEUED + 10
    for number in range(count):
        writer.append(snapshot(number))
    assert 9 <= writer.skipped <= 10  # one may be in the writer's hands already
    slow.gate.set()
    writer.close()
    with RecordingReader(slow.path) as reader:
        assert [one.batch for one in reader] == list(range(count - writer.skipped))


def test_a_disk_that_does_not_answer_is_not_waited_for(
    slow: SlowWriter, snapshot: MakeSnapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording_writer, "CLOSED_WITHIN_S", 0.05)
    writer = BackgroundWriter(slow)
    writer.append(snapshot(1))
    with refused(RunError, "disk_hangs", "a.rec"):
        writer.close()


def test_a_full_disk_is_raised_once_and_names_the_file(tmp_path: Path, header: Header, snapshot: MakeSnapshot) -> None:
    path = tmp_path / "a.rec"
    writer = BackgroundWriter(RecordingWriter(path, header))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 10, limits[1]))
        writer.append(snapshot(1))
        writer._thread.join(30)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    with refused(RunError, "stopped", path, os.strerror(errno.EFBIG)):
        writer.append(snapshot(2))
    writer.append(snapshot(3))
    writer.close()
    with RecordingReader(path) as reader:
        assert len(reader) == 0


def test_a_recording_that_cannot_begin_leaves_no_file(tmp_path: Path, header: Header) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
        with refused(RunError, "stopped", tmp_path / "a.rec", os.strerror(errno.EFBIG)):
            RecordingWriter(tmp_path / "a.rec", header)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []
    RecordingWriter(tmp_path / "a.rec", header).close()  # nothing is in the way
