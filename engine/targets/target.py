"""What a target is: the protocol of its kinds, its options, and how it is followed: poll, picture, judge, yield."""

import os
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from msgspec import UNSET, Struct
from msgspec.structs import replace

from ..feed.messages import Change, Header
from ..snapshot import Other, Snapshot, SourceView, TargetPart
from ..system import clock
from ..system.errors import UsageError
from ..text.job_lines import line_in_job
from ..verdict.evidence import Picture
from ..verdict.history import HistoryPoint
from ..verdict.target_history import RecordedPast, TargetHistory
from ..watermarks.settings import Settings
from .clock import set_note


class Pace:
    """How often a target is polled, and until when it is followed; belongs to one thread, except `stop`."""

    def __init__(self, every_s: float = 0.0, for_s: float | None = None) -> None:
        """Poll every `every_s` seconds, or less often if the target asks for it, for `for_s` (None: until `stop`)."""
        self._every_s = every_s
        self.sample_s = every_s
        """How often (s) it is polled, as far as known."""
        self._began = time.monotonic()
        self.limit(for_s)
        self._stopping = threading.Event()
        self._at_stop: Callable[[], object] = lambda: None

    def limit(self, for_s: float | None) -> None:
        """Follow for `for_s` from the beginning (None: until `stop`)."""
        self._until = None if for_s is None else self._began + for_s

    def wait(self, every_s: float) -> bool:
        """Wait until the next poll of a target that wants one every `every_s`; False if there is none."""
        every_s = self.sample_s = max(self._every_s, every_s)
        if self._until is None:
            return not self._stopping.wait(every_s)
        if time.monotonic() + every_s >= self._until:
            self._stopping.set()
        else:
            time.sleep(every_s)
        return not self._stopping.is_set()

    @property
    def left_s(self) -> float | None:
        """Seconds until the target is no longer followed; None: no limit."""
        return None if self._until is None else max(self._until - time.monotonic(), 0.0)

    @property
    def is_over(self) -> bool:
        """Whether the time is over, or `stop` was called."""
        return self._stopping.is_set() or self.left_s == 0

    def stop(self) -> None:
        """Follow no longer; from any thread."""
        self._stopping.set()
        self._at_stop()

    def at_stop(self, call: Callable[[], object]) -> None:
        """Call it at `stop`, on that thread; at once if `stop` was called."""
        self._at_stop = call
        if self._stopping.is_set():
            call()


Message = Header | Snapshot
LogProgress = Callable[[str], AbstractContextManager[Callable[[int], object]]]
"""Shows, under a label, how a long log is read; gets the number of bytes still to be read."""
Facts = TypeVar("Facts")

NOT_KNOWN = Settings(
    strategy="source", lateness_ms=None, idle_after_ms=None, future_guard_ms=None, emit_every_ms=0, window=None
)
"""Settings of a target that computes its own watermarks by rules that are not visible."""


class NotReadyError(UsageError):
    """What the address leads to starts: it may be ready in some seconds."""


class NothingThereError(LookupError):
    """An address leads to nothing: the caller says which ones are near."""


class Polled(Protocol[Facts]):
    """What is asked of each target besides its picture: `poll` fetches facts, on a thread of its own."""

    step: str = "connecting"
    """What `open` does, as a step of the start."""

    @property
    def every_s(self) -> float:
        """Seconds until the next poll."""
        return 1.0

    @property
    def settings(self) -> Settings:
        """The settings known before the first poll."""
        return NOT_KNOWN

    @property
    def empty(self) -> TargetPart:
        """Its part of a snapshot while nothing is known of it."""
        return Other(self.describe().kind)

    @property
    def past_version(self) -> int:
        """Another number once the times of the recorded past were corrected: what was judged by them is forgotten."""
        return 0

    def describe(self) -> SourceView:
        """The source as a screen shows it."""
        ...

    def open(self) -> None:
        """Prepare for polls; UsageError for a target that cannot be read. May be called again after `close`."""

    def poll(self) -> Facts:
        """The present facts; temporary trouble is among them."""
        ...

    def look(self) -> Facts:
        """The facts for a single answer: a target that needs several polls for one takes them here."""
        return self.poll()

    def past(self, facts: Facts, now_ms: int) -> RecordedPast:
        """The recorded past before `now_ms` (epoch ms), called after the first `picture`; empty: nothing."""
        return RecordedPast()

    def close(self) -> None:
        """Stop polling."""


class Target(Polled[Facts], Protocol[Facts]):
    """What another program runs, by a plug-in: `picture` makes the snapshot from the facts.

    A class that inherits from it needs `describe`, `poll` and `picture` only. What is not known from here is None in
    the snapshot, whose `settings` and `origin` say what is known.
    """

    def picture(self, name: str, facts: Facts, now_ms: int) -> Snapshot:
        """The snapshot of the facts at `now_ms` (epoch ms)."""
        ...


class JudgedTarget(Polled[Facts], Protocol[Facts]):
    """What another program runs, of a kind of ours: it hands over with each snapshot what a verdict on it needs."""

    def picture(self, name: str, facts: Facts, now_ms: int) -> Picture:
        """The snapshot of the facts at `now_ms` (epoch ms), and the evidence of that moment."""
        ...


class TargetOptions(Struct, frozen=True, kw_only=True):
    """The options of `wmtop attach` that choose what is read and how; None: not given. Durations in ms, -1: off."""

    operator: str | None = None
    ca_file: Path | None = None
    client_cert: Path | None = None
    auth_file: Path | None = None
    group: str | None = None
    lateness: int | None = None
    idle_after: int | None = None
    window: int | None = None
    grace: int | None = None
    time: str | None = None
    kafka_config: Path | None = None
    state_reader: str | None = None
    bootstrap: str | None = None
    query: str | None = None
    spark_reader: Callable[[Path], Any] | None = None
    """Makes the reader of a checkpoint's state for `state_reader` "spark"; like the next one no user's option."""
    log_progress: LogProgress | None = None
    """Given: the event log of an application that has ended opens as a `FinishedLog`."""

    def over(self, others: "TargetOptions") -> "TargetOptions":
        """These options, and those of `others` that are not given here."""
        given = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}
        return TargetOptions(**{**{name: getattr(others, name) for name in OPTIONS}, **given})

    def refuse(self, names: tuple[str, ...], where: str) -> None:
        """UsageError for an option among `names` that is given: it has no effect `where`."""
        for name in names:
            if getattr(self, name) is not None:
                raise UsageError(f"--{name.replace('_', '-')} has no effect {where}; leave it out")

    def only(self, names: tuple[str, ...], where: str, joined: str = "") -> None:
        """UsageError for a given option that is not among `names`, or that only reads the cluster of `bootstrap`, where
        a `joined` target has none.
        """
        self.refuse(tuple(name for name in OPTIONS if name not in names), where)
        if joined and self.bootstrap is None:
            self.refuse(("time", "kafka_config"), f"{joined} without --bootstrap")


NO_OPTIONS = TargetOptions()
OPTIONS = TargetOptions.__struct_fields__[:-2]
"""The names of the options, in the order in which they are refused."""


class OpenedTarget(Protocol):
    """What an address leads to: a target of another program, a running engine, a recording."""

    @property
    def name(self) -> str:
        """A name derived from the address."""
        ...

    def follow(self, name: str, pace: Pace) -> Generator[Message]:
        """Its snapshots, with their verdicts, under that name; an engine's and a recording's header comes first.

        UsageError, RunError or OSError if it cannot be read.
        """
        ...


class Kind(Struct, frozen=True):
    """A kind of target: one entry in `open.KINDS`, or an entry point `wmtop.targets` whose name is its scheme."""

    name: str
    """The word for it in the fleet."""
    has: Callable[[str], bool]
    """Whether an address is of this kind, as the address alone shows."""
    open: Callable[[str, TargetOptions], OpenedTarget]
    """Opens an address of this kind; UsageError if there is no such target."""
    reads: tuple[str, ...] = OPTIONS
    """The options that have an effect."""
    where: str = ""
    """The words for where all others have none: `for flink://`."""
    joined: str = ""
    """The same for a target whose Kafka cluster the user may name by `bootstrap`, else its event times are not read."""


class Looks:
    """When a target was looked at (ms): notices a pause that is much longer than usual."""

    MIN_GAP_MS = 10_000
    """Shorter pauses between two looks are never a gap."""

    def __init__(self) -> None:
        self._last_ms: int | None = None
        self._pauses: tuple[int, int] = (0, 0)
        """The last two: one alone is not usual."""

    def is_gap(self, at_ms: int, every_s: float) -> bool:
        """Whether the pause until `at_ms` is a gap, where a look is due every `every_s` seconds."""
        limit_ms = max(self.MIN_GAP_MS, 3_000 * every_s, 3 * min(self._pauses))
        return self._last_ms is not None and at_ms - self._last_ms > limit_ms

    def note(self, at_ms: int, every_s: float) -> int:
        """Note a look; returns the length (ms) of the gap before it, 0: none."""
        pause_ms = 0 if self._last_ms is None else at_ms - self._last_ms
        gap_ms = pause_ms if self.is_gap(at_ms, every_s) else 0
        self._pauses = (self._pauses[1], pause_ms)
        self._last_ms = at_ms
        return gap_ms


class Follower(Generic[Facts]):
    """Makes a target's snapshots under a name, each with its verdict, the recorded past included."""

    def __init__(self, target: JudgedTarget[Facts], name: str, verdict_after_ms: int | None = None) -> None:
        self._target = target
        self._name = name
        self._verdict_after_ms = verdict_after_ms
        self._history: TargetHistory | None = None
        self._looks = Looks()
        self._answered_ms: int | None = None
        self._past_version = 0
        self.last: Snapshot | None = None

    def follow(self, pace: Pace) -> Generator[Snapshot]:
        """Open the target, a snapshot for each poll, one at least, close the target."""
        try:
            self._target.open()
            while True:
                facts = self._target.poll()
                yield self.snapshot(facts, every_s=pace.sample_s)
                if not pace.wait(self._target.every_s):
                    return
        finally:
            self._target.close()

    def snapshot(self, facts: Facts, answered_ms: int | None = None, *, every_s: float = 0.0) -> Snapshot:
        """The snapshot of a poll's facts as they are now.

        `answered_ms`: when the poll ended (`clock`, epoch ms; None: just now); `every_s`: how often it is polled, if
        more seldom than the target asks for.
        """
        now_ms = clock.now_ms()
        every_s = max(every_s, self._target.every_s)
        answered_ms = now_ms if answered_ms is None else answered_ms
        after_gap = answered_ms != self._answered_ms and self._looks.note(answered_ms, every_s) > 0
        self._answered_ms = answered_ms
        seen = self._target.picture(self._name, facts, now_ms)
        shown = replace(seen.snapshot, notes=[*set_note(clock.set_by_ms(), now_ms), *seen.snapshot.notes])
        seen = replace(seen, snapshot=shown)
        if self._looks.is_gap(now_ms, every_s) and shown.state in ("live", "partial"):
            seen = seen.as_stale()  # its last poll hangs
        if self._history is None or self._past_version != self._target.past_version:
            self._past_version = self._target.past_version
            self._history = TargetHistory(self._verdict_after_ms)
            self._history.remember(self._target.past(facts, now_ms), shown.settings)
        self.last = self._history.judge(seen, after_gap=after_gap)
        return self.last


class AttachedTarget(Struct, frozen=True):
    """A target of another program, and a name for the run that follows it; an `OpenedTarget`."""

    target: JudgedTarget[Any]
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
