"""The targets of a command: which there are, and reading one once, or at a moment of a recording."""

from collections.abc import Callable, Generator, Iterable
from contextlib import closing, contextmanager
from datetime import UTC, tzinfo
from pathlib import Path

from msgspec import Struct

from ...engine.feed import run_directory
from ...engine.feed.messages import Header
from ...engine.feed.recording_reader import RecordingReader
from ...engine.snapshot import Snapshot
from ...engine.system.errors import RunError, UsageError, first_line
from ...engine.targets.own import (
    Recording,
    RunningEngine,
    check_address,
    is_path,
    is_recording,
    is_remote,
    local_path,
    own_run,
    running_engine,
)
from ...engine.targets.target import NO_OPTIONS, OpenedTarget, Pace, TargetOptions
from ...engine.text.formatting import MINUTE, clean, parse_moment, stamp
from ..words.check import CheckInput, check_input
from ..words.kinds import presenter_of
from ..words.recent import Recent
from .config import appearance, config
from .options import target_options
from .process import inform, launched

ANSWERS_WITHIN_MS = 30_000
"""How long a target is read where more time adds nothing to a verdict."""
MAX_FOR_MS = 5 * MINUTE
SAMPLE_S = 1.0
"""How often (s) an engine sends a snapshot."""


class Member(Struct, frozen=True):
    """A target: its name, its address for `wmtop attach`, and its options."""

    name: str
    target: str
    options: TargetOptions = NO_OPTIONS
    forgiving: bool = False
    """If it cannot be read, it is lost instead of wrong input: it did exist."""
    fail_if: str | None = None
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] | None = None
    """Topics, as configured; None: not said."""
    made: OpenedTarget | None = None
    """What is already open and has no address."""


def member_of(name: str) -> Member:
    """A target as given by a user: a configured name, a running engine or published query, or an address."""
    found = config().targets.get(name)
    if found is None:
        from ...engine.targets.open import address_of

        address = check_address(name)
        return Member(name, address if is_path(name) else address_of(address, runs=launched() is None))
    options = target_options(**found.options)
    return Member(name, found.attach, options, True, found.fail_if, found.reads, found.writes)


def recording_path(member: Member) -> Path:
    """The path that a recording is read from; UsageError for what is not a path."""
    address = member.target
    if is_path(address) and not is_remote(address):
        return local_path(address)
    if running_engine(address) is not None:
        raise UsageError(f"{clean(member.name)} is a running engine, not a recording; 'wmtop attach' shows it")
    from ...engine.targets.open import nothing_there

    raise UsageError(nothing_there(address))


def existing(member: Member) -> Member:
    """The member; UsageError for a name or a local path that leads to no target, unless it is configured."""
    address = member.target
    if member.forgiving or is_remote(address) or own_run(address) is not None:
        return member
    from ...engine.targets.open import nothing_there
    from ...engine.targets.spark.checkpoint import check
    from ...engine.targets.spark.event_log import is_log
    from ...engine.targets.spark.reports import list_published

    path = local_path(address)
    if not (path.exists() if is_path(address) else any(address in job.names for job in list_published())):
        raise UsageError(nothing_there(address))
    if is_path(address) and not is_log(path):
        check(path)
    return member


def free_name(member: Member) -> str | None:
    """The name for a run that follows a configured target: the target's, unless a run has it."""
    is_free = member.forgiving and all(run.name != member.name for run in run_directory.list_runs())
    return member.name if is_free else None


def members() -> list[Member]:
    """All configured, running or published targets, each once."""
    found = [member_of(name) for name in config().targets]
    taken = {member.target for member in found} | {member.name for member in found}
    running = [Member(run.name, run.name, forgiving=True) for run in run_directory.list_runs() if run.name not in taken]
    taken.update(member.name for member in running)
    return [*found, *running, *_published(taken)]


def some_members(names: Iterable[str], *, every: bool) -> list[Member]:
    """The named targets, and with `every` all; UsageError if `--all` finds none."""
    found = {name: member_of(name) for name in names}
    if every:
        for member in members():
            found.setdefault(member.name, member)
        if not found:
            raise UsageError(
                "--all: no engine is running, no target is configured and no query is published; name a TARGET"
            )
    return list(found.values())


def _published(taken: set[str]) -> list[Member]:
    """Published queries that run, failed, or whose job died less than a day ago; each once, so without those that a
    job that runs publishes again, and without those whose checkpoint is configured.
    """
    from ...engine.targets.spark.reports import list_published

    jobs = sorted(list_published(), key=lambda job: not job.publication.alive)
    running = {query.id for job in jobs if job.publication.alive for query in job.publication.queries}
    out: dict[str, Member] = {}
    for job in jobs:
        for query in job.publication.queries:
            if query.ended and query.error is None:
                continue
            name = query.name or job.name
            checkpoint = None if query.plan is None else query.plan.checkpoint
            if name in taken or checkpoint in taken:
                continue
            if not job.publication.alive and (name in out or query.id in running):
                continue
            if name in out:
                name = f"{job.name}/{name}"
            out[name] = Member(name, job.name, target_options(query=query.name or query.id), forgiving=True)
    return list(out.values())


@contextmanager
def recording_at(path: Path, at: str | None) -> Generator[tuple[RecordingReader, int]]:
    """The recording and the number of its snapshot at a time (None: its last one); UsageError if there is none."""
    with RecordingReader(path) as reader:
        if not len(reader):
            raise UsageError(f"{path} has no snapshots")
        yield reader, number_at(reader, path, at)


def number_at(reader: RecordingReader, path: Path, at: str | None) -> int:
    """The number of the snapshot at that moment; UsageError where the recording starts later.

    A line on standard error says so where it ends earlier: its last snapshot may be out of date by then.
    """
    if at is None:
        return len(reader) - 1
    zone = shown_zone()
    if reader.span_ms is None:
        raise UsageError(f"--at {clean(at)}: the snapshots of {path} have no times")
    first, last = reader.span_ms
    at_ms = moment_in(reader, at)
    if at_ms < first:
        start = f"the recording starts at {stamp(first, zone)}"
        raise UsageError(f"--at {stamp(at_ms, zone)}: {path} has no snapshot that early; {start}")
    number = reader.seek(at_ms)
    if at_ms > last and not reader.at(number).ended:
        end = f"the recording ends at {stamp(last, zone)}; this is its last snapshot"
        inform(f"--at {stamp(at_ms, zone)}: {end}")
    return number


def moment_in(reader: RecordingReader, at: str) -> int:
    """The typed time (epoch ms) in a recording: `+10m` from its start, `-10m` and `14:30` from its end."""
    first, last = reader.span_ms or (0, 0)
    return parse_moment(at, first if at.startswith("+") else last, shown_zone(), (first, last))


def shown_zone() -> tzinfo | None:
    """The zone in which a time is typed, as on the screen."""
    return None if appearance().zone == "local" else UTC


def what_was_read(opened: OpenedTarget, snapshot: Snapshot, reader: RecordingReader | None = None) -> str:
    """What a name led to, in a few words: `recording, ends 2013-02-08 14:02:00 UTC`."""
    if reader is not None:
        if reader.span_ms is None or snapshot.now_ms is None:
            return "recording"
        moment = "" if snapshot.now_ms == reader.span_ms[1] else f" at {stamp(snapshot.now_ms, shown_zone())}"
        return f"recording{moment}, ends {stamp(reader.span_ms[1], shown_zone())}"
    if isinstance(opened, RunningEngine):
        return "running engine"
    return presenter_of(snapshot).kind_name()


class Look(Struct):
    """What was read of a target so far."""

    recent: Recent
    header: Header | None = None
    seen: list[Snapshot] = []
    lost: str | None = None
    read: str = ""
    """What was read: `running engine`."""
    for_ms: int = ANSWERS_WITHIN_MS
    """How long to continue, as far as known."""

    @property
    def snapshot(self) -> Snapshot:
        """The newest one; there must be one."""
        return self.seen[-1]

    def given(self) -> CheckInput:
        """For facts and findings."""
        return check_input(self.snapshot, self.recent.until(self.snapshot), self.lost)


def look_at(
    member: Member,
    is_decided: Callable[[Look], bool],
    for_ms: int | None,
    at: str | None,
    options: TargetOptions,
    greet: Callable[[Header], object] = lambda header: None,
) -> Look:
    """Read the target until more time would not change the answer, or `for_ms` are over (None: as long as a verdict
    takes); at least one snapshot.

    `at` is the typed moment of a recording; `options` win over the member's own.
    """
    if at is not None and not is_recording(member.target):
        raise UsageError(f"--at is for a recording, and {clean(member.target)} is not one")
    from ...engine.targets.open import open_target

    opened = member.made or open_target(member.target, options, member.options, say=inform)
    if isinstance(opened, Recording):
        with recording_at(opened.path, at) as (reader, number):
            points = [point for point in reader.points[: number + 1] if point is not None]
            last = reader.at(number)
            return Look(Recent(points), seen=[last], read=what_was_read(opened, last, reader))
    look = follow(opened, "check", is_decided, for_ms, greet=greet)
    if not look.seen:
        raise RunError(look.lost or f"the engine {opened.name} sent no snapshot within {look.for_ms / 1_000:g} s")
    look.read = what_was_read(opened, look.snapshot)
    return look


def follow(
    opened: OpenedTarget,
    name: str,
    is_decided: Callable[[Look], bool],
    for_ms: int | None,
    *,
    gone: str = "the engine stopped while it was checked",
    all_seen: bool = False,
    greet: Callable[[Header], object] = lambda header: None,
) -> Look:
    """What was read, also if that is nothing: until it is decided, the target is lost, or `for_ms` are over; None: as
    long as a verdict takes.

    `gone` are the words for an engine that stops; `greet` is called once it is connected. Only the newest snapshot is
    kept; with `all_seen` all.
    """
    look = Look(Recent(), for_ms=ANSWERS_WITHIN_MS if for_ms is None else for_ms)
    pace = Pace(for_s=look.for_ms / 1_000)
    try:
        with closing(opened.follow(name, pace)) as messages:
            for message in messages:
                if isinstance(message, Header):
                    look.header, look.recent = message, Recent(message.history)
                    greet(message)
                    continue
                look.seen = [*(look.seen if all_seen else ()), message]
                look.recent.add(message)
                if for_ms is None:
                    look.for_ms = _verdict_within_ms(message, max(pace.sample_s, SAMPLE_S))
                    pace.limit(look.for_ms / 1_000)
                if is_decided(look):
                    return look
        if not pace.is_over:
            look.lost = gone
    except (RunError, OSError) as error:
        look.lost = first_line(error)
    return look


def _verdict_within_ms(snapshot: Snapshot, sample_s: float) -> int:
    """How long to read a target for its verdict: patience and two samples while too little was observed."""
    verdict = snapshot.verdict
    if verdict.reason.code != "too_short" or verdict.patience_ms is None:
        return ANSWERS_WITHIN_MS
    return min(max(verdict.patience_ms + round(2_000 * sample_s), ANSWERS_WITHIN_MS), MAX_FOR_MS)
