"""A recording at `--at TIME`, or at its end."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ...engine.feed.recording_reader import RecordingReader
from ...engine.system.errors import UsageError
from ...engine.text.formatting import stamp


@contextmanager
def recording_at(path: Path, at_ms: int | None) -> Generator[tuple[RecordingReader, int]]:
    """The recording and the number of its snapshot at a time (None: its last one); UsageError if there is none."""
    with RecordingReader(path) as reader:
        if not len(reader):
            raise UsageError(f"{path} has no snapshots")
        yield reader, len(reader) - 1 if at_ms is None else number_at(reader, path, at_ms)


def number_at(reader: RecordingReader, path: Path, at_ms: int) -> int:
    """The number of the snapshot at that moment; UsageError where the recording starts later.

    A line on standard error says so where it ends earlier: its last snapshot may be out of date by then.
    """
    first = next((point for point in reader.points if point is not None), None)
    if first is None or at_ms < first.now_ms:
        start = (
            "its snapshots have no times" if first is None else f"the recording starts at {stamp(first.now_ms, None)}"
        )
        raise UsageError(f"--at {stamp(at_ms, None)}: {path} has no snapshot that early; {start}")
    number = reader.seek(at_ms)
    last = max(point.now_ms for point in reader.points if point is not None)
    if at_ms > last and not reader.at(number).ended:
        end = f"the recording ends at {stamp(last, None)}; this is its last snapshot"
        print(f"wmtop: --at {stamp(at_ms, None)}: {end}", file=sys.stderr)
    return number
