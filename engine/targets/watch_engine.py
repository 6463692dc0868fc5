"""A small engine process without Spark: follows an existing query, topic or job, and sends the usual stream."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic

from msgspec import UNSET, Struct

from ..feed.host import Host, Subject
from ..feed.messages import Change, Reply
from ..feed.recording_writer import Bounds
from ..feed.run_directory import Claim
from ..snapshot import Snapshot
from ..system import clock
from ..system.files import existing
from .target import Facts, Follower, Target, change_in_job

NOT_FROM_HERE = "it cannot be changed from here"
NO_IDLE_TIMEOUT = "Spark's clock has no idle timeout"

BEAT_S = 0.1
"""Longest delay (s) until a change is published."""
SNAPSHOT_EVERY_S = 1.0
HANGS_AFTER_S = 0.5


class WatchOptions(Struct, frozen=True, kw_only=True):
    """Options of an engine that only watches."""

    record: Path | None = None
    record_bounds: Bounds = Bounds()
    verdict_after_ms: int | None = None
    """The horizon of the verdict."""
    on_alert: list[str] | None = None
    """The command (argument vector) that each alert runs."""
    force: bool = False
    """Replace `record` if it exists."""
    once: bool = False
    stop_on_eof: bool = False


class WatchEngine(Generic[Facts]):
    """One run; `say` gets lines for the user, `on_snapshot` each snapshot and whether it is the last."""

    def __init__(
        self,
        claim: Claim,
        target: Target[Facts],
        options: WatchOptions,
        say: Callable[[str], None],
        on_snapshot: Callable[[Snapshot, bool], None],
    ) -> None:
        self._target = target
        self._options = options
        self._follower = Follower(target, claim.run.name, options.verdict_after_ms)
        self._facts: Facts | None = None
        self._answered_ms = 0
        """When the last poll ended."""
        self._failure: Exception | None = None
        self._news = threading.Event()
        self._poller: threading.Thread | None = None
        self._host = Host(
            claim,
            Subject(target.settings, target.empty, target.describe, list),
            on_change=self._refuse,
            on_snapshot=on_snapshot,
            say=say,
        )

    def run(self) -> int:
        """Watch until a stop or a signal, or once; returns the exit code. The caller prints UsageError and RunError."""
        try:
            options = self._options
            self._host.begin(stop_on_eof=options.stop_on_eof, on_alert=options.on_alert)
            if options.record is not None:
                self._host.record(options.record, options.record_bounds, existing(options.record, force=options.force))
            with self._host.step(self._target.step):
                self._target.open()
            self._host.started()
            if options.once:
                self._host.publish(self._follower.snapshot(self._target.look()), last=True)
            else:
                self._host.take_signals()
                self._follow()
            return self._host.exit_code
        except Exception as error:
            self._host.fail(error)
            raise
        finally:
            if not self._hangs():
                self._target.close()
            self._host.close()

    def _follow(self) -> None:
        """Publish changes at once, otherwise the age once a second."""
        self._poller = threading.Thread(target=self._poll, name="wmtop-target", daemon=True)
        self._poller.start()
        due = 0.0
        while not self._host.stopping.wait(BEAT_S):
            if self._failure is not None:
                raise self._failure
            now = time.monotonic()
            if self._facts is not None and (self._news.is_set() or now >= due):
                due = now + SNAPSHOT_EVERY_S
                self._news.clear()
                self._host.publish(self._follower.snapshot(self._facts, self._answered_ms))
        if self._facts is not None:
            self._host.publish(self._follower.snapshot(self._facts, self._answered_ms), last=True)

    def _poll(self) -> None:
        stopping = self._host.stopping
        while not stopping.is_set():
            try:
                facts = self._target.poll()
                self._answered_ms = clock.now_ms()
            except Exception as error:
                self._failure = error
                return
            if facts != self._facts:
                self._facts = facts
                self._news.set()
            stopping.wait(self._target.every_s)

    def _hangs(self) -> bool:
        """Whether a poll hangs in a file system or a broker; the engine does not wait for it."""
        if self._poller is not None:
            self._host.stopping.set()
            self._poller.join(HANGS_AFTER_S)
            return self._poller.is_alive()
        return False

    def _refuse(self, change: Change) -> Reply:
        """An existing query cannot be changed from here: what to do instead, in one line."""
        line = change_in_job(change, self._follower.last)
        if line is None and self._target.settings.strategy == "spark":
            line = NO_IDLE_TIMEOUT if change.lateness_ms is UNSET else "change withWatermark in its job"
        instead = line or "attach again with another --lateness or --idle-after"
        return Reply(id=change.id, ok=False, text=f"{NOT_FROM_HERE}: {instead}")
