"""Watches many targets in one process, with a thread each: a slow, hanging or dead target delays no other."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import closing

from msgspec import Struct
from msgspec.structs import replace

from ..feed.messages import Header
from ..snapshot import Snapshot
from ..system.errors import RunError, UsageError, first_line, unexpected
from ..verdict.history import HistoryPoint, history_point, remember
from . import READER_THREAD
from .target import Message, OpenedTarget, Pace

_log = logging.getLogger("wmtop.fleet")
_log.addHandler(logging.NullHandler())
RETRY_S, MAX_RETRY_S = 2.0, 60.0
"""Seconds until a lost target is tried again: the first time, and at most."""
DISCOVER_S = 2.0
ENGINE_SILENT_MS, SILENT_MS = 3_000, 10_000
"""Time (ms) without a snapshot after which the verdict of an engine, of a polled target is not known: an engine sends
one a second, a poll may take some seconds.
"""

Take = Callable[[Message], None]


class WatchTarget(Struct, frozen=True):
    """A target: its name, and a function that opens it, on the target's own thread since it may be slow or fail."""

    name: str
    open: Callable[[], OpenedTarget]
    kind: str = ""
    """The kind of target, as far as its address shows it."""


class TargetStatus(Struct, frozen=True):
    """The state of a target: the last snapshot, when it came (monotonic s), and why there is no newer one."""

    name: str
    kind: str
    snapshot: Snapshot | None = None
    heard_s: float | None = None
    lost: str | None = None
    silent_after_ms: int = SILENT_MS
    """How old the last snapshot may become until the target is not known to be fine."""

    @property
    def has_ended(self) -> bool:
        """Whether the last snapshot is known to be its last."""
        return self.snapshot is not None and (self.snapshot.ended or self.snapshot.state in ("ended", "failed"))


class TargetWatch:
    """One target, read again and again, each time every `every_s`; `clock` gives monotonic seconds."""

    def __init__(self, target: WatchTarget, every_s: float = 1.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._target = target
        self._every_s = every_s
        self._clock = clock
        self.status = TargetStatus(target.name, target.kind)
        """The present state; only its thread sets it, as the header."""
        self.header: Header | None = None
        """The engine's header; None: not an engine, or none yet."""
        self._lock = threading.Lock()  # guards everything below
        self._points: deque[HistoryPoint] = deque()
        self._pace: Pace | None = None
        self._listeners: list[Take] = []
        self._stopping = threading.Event()
        self._over = False
        """Whether its stream ended or its engine was killed and cannot be found again; for its thread only."""
        self._due = threading.Event()
        """Set to read at once: a lost target is no longer waited for."""
        self._thread = threading.Thread(target=self._run, name=f"{READER_THREAD}{target.name}", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching; returns at once, even if the target hangs."""
        self._stopping.set()
        self.retry_now()
        with self._lock:
            pace = self._pace
        if pace is not None:
            pace.stop()

    def retry_now(self) -> None:
        """Open the target again at once if it is lost and its next try is due later."""
        self._due.set()

    @property
    def points(self) -> list[HistoryPoint]:
        """The history of the last minutes, the oldest first."""
        with self._lock:
            return list(self._points)

    def listen(self, take: Take) -> Callable[[], None]:
        """Pass messages to `take`, on the target's thread, the last snapshot first; returns a function that ends it."""
        with self._lock:
            self._listeners.append(take)
            last = self.status.snapshot
        if last is not None:
            take(last)

        def end() -> None:
            with self._lock:
                if take in self._listeners:
                    self._listeners.remove(take)

        return end

    def _run(self) -> None:
        wait_s = RETRY_S
        while not self._stopping.is_set():
            before = self.status.heard_s
            reason = self._follow()
            heard = self.status.heard_s != before
            self._lose(reason)
            wait_s = RETRY_S if heard else min(wait_s * 2, MAX_RETRY_S)
            self._due.wait(wait_s)
            self._due.clear()

    def _follow(self) -> str | None:
        """Follow the target until it ends; returns why it ended, None for a stream that ended normally."""
        over, self._over = self._over, False
        try:
            opened, pace = self._target.open(), Pace(self._every_s)
            with self._lock:
                self._pace = pace
            if not self._stopping.is_set():
                with closing(opened.follow(self._target.name, pace)) as messages:
                    for message in messages:
                        self._take(message)
        except UsageError as error:
            # Why a run was over says more than that it cannot be found any more; any other reason may be out of date.
            reason = self.status.lost if over else None
            self._over = reason is not None
            return reason or first_line(error)
        except RunError as error:
            self._over = self.status.snapshot is not None and error.code == "engine_killed"
            return first_line(error)
        except OSError as error:
            return f"it cannot be read: {error.strerror or first_line(error)}"
        except Exception as error:  # noqa: BLE001 - one broken target must not end the watching of it, or look fine
            return unexpected(error)
        finally:
            with self._lock:
                self._pace = None
        self._over = self.status.snapshot is not None
        return None

    def _take(self, message: Message) -> None:
        with self._lock:
            if isinstance(message, Header):
                self.header = message
                self._points.clear()
                for point in message.history:
                    remember(self._points, point)
            else:
                # An engine has sent a header; a target whose polls are expensive is polled seldom.
                sample_s = 0.0 if self._pace is None else self._pace.sample_s
                silent_ms = ENGINE_SILENT_MS if self.header is not None else max(SILENT_MS, int(2_000 * sample_s))
                name, kind = self.status.name, self.status.kind
                self.status = TargetStatus(name, kind, message, self._clock(), silent_after_ms=silent_ms)
                if (point := history_point(message)) is not None:
                    remember(self._points, point)
            listeners = list(self._listeners)
        for listener in listeners:
            listener(message)

    def _lose(self, reason: str | None) -> None:
        _log.info("%s is lost: %s", self._target.name, reason or "its stream ended")
        if reason is None:
            reason = "ended" if self.status.has_ended else "the engine stopped"
        self.status = replace(self.status, lost=reason)


class Watcher:
    """All targets returned by `discover`, which is called again every few seconds; a target that vanishes stays.

    Targets of other programs are polled every `every_s` seconds.
    """

    def __init__(
        self,
        discover: Callable[[], Iterable[WatchTarget]],
        every_s: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._discover = discover
        self._every_s = every_s
        self._clock = clock
        self._lock = threading.Lock()
        self._watches: dict[str, TargetWatch] = {}
        self._stopping = threading.Event()
        self.trouble: str | None = None
        """Why new targets cannot be found at present."""

    def start(self) -> None:
        """Find the targets once (errors of `discover` are raised), then keep finding and watching."""
        self._adopt(self._discover())
        threading.Thread(target=self._keep_discovering, name="wmtop-discover", daemon=True).start()

    def stop(self) -> None:
        """Stop watching; returns at once."""
        self._stopping.set()
        for watch in self.watches():
            watch.stop()

    def wait(self, is_seen: Callable[[TargetWatch], bool], for_s: float) -> None:
        """Wait until every target is lost or `is_seen`, at most `for_s` seconds."""
        until = time.monotonic() + for_s
        while time.monotonic() < until and not all(
            watch.status.lost is not None or is_seen(watch) for watch in self.watches()
        ):
            time.sleep(0.05)

    def watches(self) -> list[TargetWatch]:
        """All targets found so far, in the order in which they were found."""
        with self._lock:
            return list(self._watches.values())

    def watch(self, name: str) -> TargetWatch | None:
        """The target with that name."""
        with self._lock:
            return self._watches.get(name)

    def _keep_discovering(self) -> None:
        while not self._stopping.wait(DISCOVER_S):
            try:
                self._adopt(self._discover())
                self.trouble = None
            except Exception as error:  # noqa: BLE001 - targets that are added later must still be found
                known = isinstance(error, (UsageError, RunError, OSError))
                self.trouble = first_line(error) if known else unexpected(error)

    def _adopt(self, targets: Iterable[WatchTarget]) -> None:
        for target in targets:
            with self._lock:
                if target.name in self._watches or self._stopping.is_set():
                    continue
                self._watches[target.name] = watch = TargetWatch(target, self._every_s, self._clock)
            watch.start()
