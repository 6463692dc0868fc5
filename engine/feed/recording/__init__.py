"""Recordings: the stream in a seekable file that survives the death of its writer.

The file is a sequence of zstd frames, so `zstd -dc` gives the stream's lines:

    header | snapshots | summary | snapshots | summary | … | index

The header and each group of about 60 snapshots is a zstd frame of its own; summaries (a point of history for each
snapshot of the group) and the index (all summaries) are skippable frames. After every snapshot the compressor is
flushed into the file: killed at any moment, the writer loses at most the snapshot it was writing. A file without an
index was not closed: the reader finds the frames by their block headers and reads the complete part of the last one.

A recording is a ring in one file: beyond its bounds (2 GiB and 24 h by default) the oldest eighth is dropped. A thread
copies the rest unchanged to `FILE.shorter` while recording continues; the copy then replaces the recording by a rename.
Killed at any moment, the recording is complete under its own name, and an open reader keeps the file it opened. While
the copy runs, it needs as much disk space as the recording.
"""

from .groups import FrameInfo
from .reader import RecordingReader
from .ring import UNBOUNDED, Bounds
from .writer import RecordingWriter

__all__ = ["UNBOUNDED", "Bounds", "FrameInfo", "RecordingReader", "RecordingWriter"]
