"""`--at TIME` of a recording."""

from pathlib import Path

from ...engine.errors import UsageError
from ...engine.feed.recording import RecordingReader
from ..present.formatting import stamp


def number_at(reader: RecordingReader, path: Path, at_ms: int) -> int:
    """The number of the snapshot at that moment; UsageError where the recording starts later."""
    first = next((point for point in reader.points if point is not None), None)
    if first is None or at_ms < first.now_ms:
        start = (
            "its snapshots have no times" if first is None else f"the recording starts at {stamp(first.now_ms, None)}"
        )
        raise UsageError(f"--at {stamp(at_ms, None)}: {path} has no snapshot that early; {start}")
    return reader.seek(at_ms)
