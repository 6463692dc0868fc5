"""A program that records snapshots one by one and prints the number of each that the recording has."""

import sys
import time
from pathlib import Path

from msgspec.structs import replace
from wmtop.engine.feed import recording_writer
from wmtop.engine.feed.messages import Header
from wmtop.engine.feed.recording_reader import RecordingReader
from wmtop.engine.feed.recording_writer import Bounds, RecordingWriter
from wmtop.engine.snapshot import Snapshot

TIMES = 4
"""How often the source's snapshots are recorded, one after the other, with numbers of their own."""


def snapshots_of(path: Path) -> tuple[Header, list[Snapshot]]:
    """What is to be recorded: the batch of each is its number."""
    with RecordingReader(path) as reader:
        snapshots = list(reader) * TIMES
        return reader.header, [replace(snapshot, batch=number) for number, snapshot in enumerate(snapshots)]


def main() -> None:
    """`SOURCE TARGET FIRST BYTES`: record from number FIRST on, within BYTES (0: unbounded)."""
    source, target, first, size = sys.argv[1:]
    recording_writer.GROUP = 5
    header, snapshots = snapshots_of(Path(source))
    with RecordingWriter(Path(target), header, Bounds(int(size) or None, None), existing="continue") as writer:
        print("opened", flush=True)
        for number in range(int(first), len(snapshots)):
            writer.append(snapshots[number])
            print(number, flush=True)
            time.sleep(0.002)


if __name__ == "__main__":
    main()
