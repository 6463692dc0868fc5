"""What an engine prints: it holds no engine back, a reader that reads loses nothing; how far a replay has been read."""

import os
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from wmtop.engine.snapshot import Snapshot, SourceView
from wmtop.tui.cli.output import LineWriter, ProgressLine, SnapshotPrinter
from wmtop.tui.words.progress import share_read

from tests.snapshots import replace

from ..canned import live

WITHIN_S = 30.0
CLEAR = "\r\x1b[K"
LINES = [f"{number:06d} {'x' * 1000}\n".encode() for number in range(2_000)]


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        with suppress(OSError):
            os.close(end)


def read_all(descriptor: int) -> bytes:
    return b"".join(iter(lambda: os.read(descriptor, 65536), b""))


def test_a_reader_that_reads_gets_every_line(pipe: tuple[int, int]) -> None:
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(read_all(pipe[0])))
    reader.start()
    writer = LineWriter(pipe[1])
    for line in LINES:
        writer.write(line)
    assert writer.flush(WITHIN_S)
    os.close(pipe[1])
    reader.join()
    assert got == [b"".join(LINES)]
    assert writer.dropped == 0


def test_a_reader_that_has_stopped_delays_no_other_and_misses_the_oldest(pipe: tuple[int, int]) -> None:
    writer = LineWriter(pipe[1], limit_bytes=100_000)
    for line in LINES:
        writer.write(line)  # returns, however full the pipe is
    assert not writer.flush(0.05)
    assert writer.dropped > 1_000
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(read_all(pipe[0])))
    reader.start()  # it reads again
    assert writer.flush(WITHIN_S)
    os.close(pipe[1])
    reader.join()
    lines = got[0].splitlines(keepends=True)
    assert len(lines) == len(LINES) - writer.dropped
    assert lines[-90:] == LINES[-90:]
    assert set(lines) <= set(LINES)  # none is cut


def test_one_line_that_is_longer_than_all_that_may_wait_is_written(pipe: tuple[int, int]) -> None:
    writer = LineWriter(pipe[1], limit_bytes=10)
    line = b"x" * 1_000 + b"\n"
    writer.write(line)
    assert writer.flush(WITHIN_S)
    assert os.read(pipe[0], 2_000) == line


def test_no_reader_is_left(pipe: tuple[int, int]) -> None:
    failed = threading.Event()
    errors: list[OSError] = []

    def on_error(error: OSError) -> None:
        errors.append(error)
        failed.set()

    writer = LineWriter(pipe[1], on_error=on_error)
    os.close(pipe[0])
    writer.write(b"line\n")
    assert failed.wait(WITHIN_S)
    writer.write(b"line\n")
    assert not writer.flush(WITHIN_S)
    assert [type(error) for error in errors] == [BrokenPipeError]


def test_a_descriptor_that_does_not_block_is_waited_for(pipe: tuple[int, int]) -> None:
    os.set_blocking(pipe[1], False)
    writer = LineWriter(pipe[1])
    for line in LINES[:500]:
        writer.write(line)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(read_all(pipe[0])))
    reader.start()
    assert writer.flush(WITHIN_S)
    os.close(pipe[1])
    reader.join()
    assert got == [b"".join(LINES[:500])]


def at(rows_read: int | None, *, rows: int | None = 8_000_000) -> Snapshot:
    return replace(live(), source=SourceView(kind="replay", description="d", rows=rows, rows_read=rows_read))


class Lines:
    """A progress line on a clock of the test's own, and what it has written."""

    def __init__(self, *, terminal: bool) -> None:
        self.now = 100.0
        self.written: list[str] = []
        self.line = ProgressLine(lambda b: self.written.append(b.decode()), terminal=terminal, clock=lambda: self.now)

    def after(self, seconds: float, rows_read: int | None) -> list[str]:
        self.now += seconds
        del self.written[:]
        self.line.show(at(rows_read), False)
        return list(self.written)


def test_a_terminal_has_one_line_that_is_drawn_again() -> None:
    lines = Lines(terminal=True)
    assert lines.after(0, 0) == [f"{CLEAR}░░░░░░░░░░░░░░░░░░░░ 0 % · 0 of 8,000,000 rows"]
    assert lines.after(0.1, 500_000) == []
    assert lines.after(1.9, 2_000_000) == [
        f"{CLEAR}█████░░░░░░░░░░░░░░░ 25.0 % · 2,000,000 of 8,000,000 rows · 1.0M rows/s · 6s left"
    ]
    lines.line.above(b"wmtop: a note\n")
    assert lines.written[1:] == [CLEAR, "wmtop: a note\n"]
    assert len(lines.after(1, 3_000_000)) == 1
    del lines.written[:]
    lines.line.show(at(8_000_000), True)
    assert lines.written == [CLEAR]


def test_a_log_has_a_line_now_and_then_and_none_for_a_short_run() -> None:
    lines = Lines(terminal=False)
    assert lines.after(0, 0) == lines.after(9, 3_000_000) == []
    assert lines.after(2, 4_000_000) == ["wmtop: 50.0 % · 4,000,000 of 8,000,000 rows · 363,636 rows/s · 11s left\n"]
    lines.line.show(at(8_000_000), True)
    assert len(lines.written) == 1


def test_a_source_without_an_end_has_no_progress() -> None:
    lines = Lines(terminal=True)
    lines.line.show(at(5, rows=None), False)
    assert lines.after(5, None) == []


def test_only_a_terminal_has_progress_beside_json() -> None:
    errors = LineWriter(2)

    def shown(*, json: bool, once: bool, terminal: bool) -> bool:
        return SnapshotPrinter(json=json, once=once).show_progress(errors, terminal=terminal) != errors.write

    assert shown(json=False, once=True, terminal=False)
    assert shown(json=True, once=True, terminal=True)
    assert not shown(json=True, once=True, terminal=False)
    assert not shown(json=False, once=False, terminal=True)


def test_the_screen_shows_what_is_left_where_nothing_paces_the_replay() -> None:
    snapshot = at(2_000_000)
    unpaced = replace(snapshot, spark=replace(snapshot.spark, input_rows_per_second=1e6))
    assert share_read(unpaced) == "25.0 % read, 6s left"
    assert snapshot.source is not None
    assert share_read(replace(unpaced, source=replace(snapshot.source, speed=60.0))) == "25.0 % read"
    assert share_read(replace(unpaced, state="stale")) == "25.0 % read"
    assert share_read(at(None)) is None
