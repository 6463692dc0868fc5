"""Checkpoints to attach to, made without Spark."""

import json
import os
from pathlib import Path


def checkpoint(path: Path, last: int) -> Path:
    """A checkpoint whose last committed batch is `last`, in Spark's format."""
    for log in ("offsets", "commits"):
        (path / log).mkdir(parents=True)
    (path / "metadata").write_text('{"id":"5d0b3a8e-7b5e-4f6e-9a57-0d3b0f6f2a11"}')
    for batch in range(last - 1, last + 1):
        next_ms = 1_360_000_000_001 + batch
        at = {"batchWatermarkMs": 1_360_000_000_000 + batch, "batchTimestampMs": 1_360_000_100_000 + batch}
        conf = {"conf": {"spark.sql.shuffle.partitions": "1"}}
        (path / "offsets" / str(batch)).write_text("\n".join(["v1", json.dumps(at | conf), "-"]))
        (path / "commits" / str(batch)).write_text(f'v1\n{{"nextBatchWatermarkMs":{next_ms}}}')
    return path


def history(path: Path, *, now_ms: int, batches: int, every_ms: int, moves: int = 1, took_ms: int = 500) -> Path:
    """A checkpoint whose batches began every `every_ms`, each moving the watermark by `moves` times that."""
    for log in ("offsets", "commits"):
        (path / log).mkdir(parents=True)
    (path / "metadata").write_text('{"id":"5d0b3a8e-7b5e-4f6e-9a57-0d3b0f6f2a11"}')
    for batch in range(batches):
        begun, level = now_ms - every_ms * (batches - batch), now_ms - 3_600_000 + moves * every_ms * batch
        at = {"batchWatermarkMs": level, "batchTimestampMs": begun, "conf": {"spark.sql.shuffle.partitions": "1"}}
        (path / "offsets" / str(batch)).write_text("\n".join(["v1", json.dumps(at), "-"]))
        commit = path / "commits" / str(batch)
        commit.write_text(f'v1\n{{"nextBatchWatermarkMs":{level + moves * every_ms}}}')
        os.utime(commit, ns=((begun + took_ms) * 10**6,) * 2)
    return path
