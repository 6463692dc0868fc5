"""Cuts the log of a partition, as a leader that was not in sync or a broker that lost its last segments does."""

import struct
from pathlib import Path

from wmtop.engine.kafka.local_broker import LocalBroker

FIRST_SEGMENT = "00000000000000000000.log"


def cut(broker: LocalBroker, topic: str, offset: int, partition: int = 0) -> None:
    """Stop the broker, cut what the partition's log has from that offset on, and start the broker again."""
    broker.stop()
    data = broker._data  # pyright: ignore[reportPrivateUsage]
    log = data / f"{topic}-{partition}"
    shorten(log / FIRST_SEGMENT, offset)
    for pattern in ("*.index", "*.timeindex", "*.snapshot"):  # the broker makes them again
        for file in log.glob(pattern):
            file.unlink()
    (data / ".kafka_cleanshutdown").unlink(missing_ok=True)
    broker.start()


def shorten(segment: Path, offset: int) -> None:
    """Leave the record batches before that offset, at which one must begin."""
    content, at = segment.read_bytes(), 0
    while at < len(content):
        base, length = struct.unpack(">qi", content[at : at + 12])
        if base >= offset:
            break
        at += 12 + length
    assert base == offset, f"no batch begins at {offset}"
    segment.write_bytes(content[:at])
