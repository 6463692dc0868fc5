"""Follows a target of another program: poll, picture, judge, yield."""

import os
import time
from collections.abc import Generator, Sequence
from typing import Any, Generic

from msgspec import UNSET, Struct
from msgspec.structs import replace

from ..feed.messages import Change, Header
from ..snapshot import Snapshot
from ..verdict.history import HistoryPoint
from ..verdict.job_line import line_in_job
from ..verdict.judge import SnapshotJudge
from .target import Facts, Pace, Target


class Follower(Generic[Facts]):
    """Makes a target's snapshots under a name, each with its verdict over `horizon_ms`, the recorded past included."""

    def __init__(self, target: Target[Facts], name: str, horizon_ms: int | None = None) -> None:
        self._target = target
        self._name = name
        self._judge = SnapshotJudge(horizon_ms)
        self.last: Snapshot | None = None

    def follow(self, pace: Pace) -> Generator[Snapshot]:
        """Open the target, a snapshot for each poll, one at least, close the target."""
        try:
            self._target.open()
            while True:
                yield self.snapshot(self._target.poll())
                if not pace.wait(self._target.every_s):
                    return
        finally:
            self._target.close()

    def snapshot(self, facts: Facts) -> Snapshot:
        """The snapshot of a poll's facts as they are now."""
        now_ms = time.time_ns() // 1_000_000
        seen = self._target.picture(self._name, facts, now_ms)
        if self.last is None:
            self._judge.remember(self._target.past(facts, now_ms))
        self.last = replace(seen, verdict=self._judge.verdict(seen))
        return self.last


class AttachedTarget(Struct, frozen=True):
    """A target of another program, and a name for the run that follows it; an `OpenedTarget`."""

    target: Target[Any]
    name: str

    def follow(self, name: str, pace: Pace) -> Generator[Snapshot]:
        """A snapshot for each poll."""
        yield from Follower(self.target, name).follow(pace)


def header_of(snapshot: Snapshot, started_ms: int | None, history: Sequence[HistoryPoint] = ()) -> Header:
    """The header of a stream of snapshots that this process makes."""
    return Header(
        name=snapshot.name,
        pid=os.getpid(),
        started_ms=started_ms or 0,
        source=snapshot.source,
        settings=snapshot.settings,
        history=list(history),
    )


def change_in_job(change: Change, last: Snapshot | None) -> str | None:
    """The line in the target's own job that makes a change which cannot be made from here; None: not known."""
    idle = change.lateness_ms is UNSET
    wanted = change.idle_after_ms if idle else change.lateness_ms
    if last is None or wanted is UNSET:
        return None
    line = line_in_job(last, wanted, idle=idle)
    return None if line is None else f"change its job to {line}"
