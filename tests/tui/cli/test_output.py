"""What an engine prints holds nobody back, and a reader that reads loses nothing."""

import os
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from wmtop.tui.cli.output import LineWriter

WITHIN_S = 30.0
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
