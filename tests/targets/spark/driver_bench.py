"""A checkpoint whose driver, and a watch of it, live in virtual time, each with a clock of its own."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from wmtop.engine.snapshot import Snapshot, SourceView
from wmtop.engine.system import clock
from wmtop.engine.targets.spark.watch import QueryWatch
from wmtop.engine.targets.target import Follower

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
NOW = 1_700_000_000_000
EVERY_MS = 5 * SECOND


class Bench:
    """A machine with a driver on it, or beside it, whose clock is `skew_ms` ahead, and a watch of its checkpoint."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch, skew_ms: int) -> None:
        self.path = path
        self.skew_ms = skew_ms
        self.now_ms = NOW
        """The time in truth."""
        self.set_by_ms = 0
        self.batch = 0
        for directory in ("offsets", "commits"):
            (path / directory).mkdir(parents=True)
        self._write("metadata", '{"id":"11111111-2222-3333-4444-555555555555"}')
        monkeypatch.setattr(clock, "now_ms", lambda: self.now_ms)
        monkeypatch.setattr(clock, "set_by_ms", lambda: self.set_by_ms)
        self._watch = QueryWatch(SourceView("checkpoint", str(path)), checkpoint=path, windows=None)
        self._follower: Follower[object] | None = None

    def _write(self, name: str, text: str) -> None:
        path = self.path / name
        path.write_text(text)
        written_s = (self.now_ms + self.set_by_ms) / 1_000
        os.utime(path, (written_s, written_s))

    def put(self) -> None:
        """One more batch, which moves the watermark."""
        stamp, watermark = self.now_ms + self.skew_ms, self.now_ms - MINUTE
        facts = json.dumps({"batchWatermarkMs": watermark - EVERY_MS, "batchTimestampMs": stamp, "conf": {}})
        self._write(f"offsets/{self.batch}", f'v1\n{facts}\n{{"logOffset":{self.batch}}}')
        self._write(f"commits/{self.batch}", f'v1\n{{"nextBatchWatermarkMs":{watermark}}}')
        self.batch += 1

    def pass_time(self, ms: int, *, alive: bool, look: Callable[[Snapshot], object] | None = None) -> None:
        """Let time pass, with a batch every 5 s while it is alive, and a look each second."""
        for _ in range(ms // SECOND):
            self.now_ms += SECOND
            if alive and self.now_ms % EVERY_MS == 0:
                self.put()
            if look is not None:
                look(self.look())

    def look(self) -> Snapshot:
        if self._follower is None:
            self._watch.open()
            self._follower = Follower(self._watch, "q")
        return self._follower.snapshot(self._watch.poll())
