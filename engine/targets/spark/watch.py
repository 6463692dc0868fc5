"""An attached Spark query as a target: its checkpoint and state files, and its own reports.

A finished event log becomes a recording: a snapshot for each batch that it reports, and one for each end.
"""

import logging
import os
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from ...feed.messages import Header
from ...feed.recording_writer import RecordingWriter
from ...snapshot import Snapshot, SourceView, SparkQuery, WindowsUnknown
from ...system import clock
from ...system.errors import UsageError
from ...verdict.verdict import RecordedPast, SnapshotJudge
from ...watermarks.settings import Settings
from ..clock import offset_note
from ..target import Target
from .checkpoint import MAX_CLOCK_SKEW_MS, CheckpointFacts, CheckpointTap, RecordedBatch, check, is_checkpoint
from .clock import DriverClock, past_in_our_time
from .event_log import EventLogTap
from .facts import Application, BatchProgress, QueryEvent, QueryFacts, QueryProgress, QueryRun, QueryTerminated
from .files import AnyPath, RemoteError, UnreadableError, VanishedError, names
from .inputs import offsets_of
from .open_windows import OpenWindows, OpenWindowsTap
from .operators import WindowShape, window_spec_of
from .plan import PlanFacts
from .query_snapshot import settings_of_query, snapshot_of_query
from .reports import JobReports, RemoteFiles, Reports, choose, name_in, report_of, sure_of

if TYPE_CHECKING:  # load the Kafka client only if there is a broker, Arrow only if there is a store
    from ..topic.broker import BrokerTap

_log = logging.getLogger("wmtop.store")
_log.addHandler(logging.NullHandler())
OUT_OF_REACH_S = 5.0
"""Time (s) that a store may fail before its query is called stale."""


class WindowsTap(Protocol):
    """Reads the open windows in a checkpoint's state."""

    def poll(self, facts: CheckpointFacts) -> tuple[OpenWindows, ...]:
        """The windows of every operator, after the last committed batch in `facts`."""
        ...

    def close(self) -> None:
        """Read no more."""
        ...


class QueryWatch(Target[QueryFacts]):
    """A `Watched` query, found by its checkpoint or its `reports`: either leads to the other.

    `windows` makes what reads its open windows (None: they are not read); `broker` is asked for the event times of what
    it reads from Kafka. One of `checkpoint` and `reports` is given; `remote` is the store that they come from, if so.
    """

    def __init__(
        self,
        source: SourceView,
        *,
        checkpoint: AnyPath | None = None,
        reports: Reports | None = None,
        windows: Callable[[Any], WindowsTap] | None = OpenWindowsTap,
        broker: "BrokerTap | None" = None,
        remote: RemoteFiles | None = None,
    ) -> None:
        self.step = f"reading the {source.kind}"
        self._source = source
        self._path = checkpoint
        self._checkpoint: CheckpointTap | None = None
        self._reports: Reports = reports or JobReports()
        self._read_windows = windows
        self._windows: WindowsTap | None = None
        self._broker = broker
        self._remote = remote
        self._failing_since: float | None = None
        self._trouble: str | None = None
        self._last_windows: tuple[OpenWindows, ...] = ()
        self._shapes: dict[int, WindowShape] = {}
        self._last = CheckpointFacts()
        self._clock = DriverClock()
        self._shown_ms = 0
        """The time (ours) of the last picture; its facts and it are in the driver's time."""
        self._shown = QueryFacts()
        self._before: Snapshot | None = None

    @property
    def past_version(self) -> int:
        """How often the offset of the driver's clock was found to be another one than was taken for the past."""
        return self._clock.corrections

    @property
    def every_s(self) -> float:
        """Seconds between polls: a store is queried only as often as the query's batches make sense."""
        return 0.25 if self._remote is None else self._remote.every_s

    @property
    def settings(self) -> Settings:
        """Spark's rules, known before the first poll."""
        return settings_of_query()

    @property
    def empty(self) -> SparkQuery:
        """Its part of a snapshot while nothing is known of it."""
        return SparkQuery()

    def describe(self) -> SourceView:
        """What was attached to."""
        return self._source

    def open(self) -> None:
        """UsageError if nothing can be read, or the broker lacks the query's topics."""
        if self._path is not None:
            if isinstance(self._path, Path):
                check(self._path)
            self._read_checkpoint_at(self._path)
        self._reports.open()
        if self._broker is not None:
            facts = self._poll_both()
            self._broker.open(offsets_of(facts), _time_in_records(facts.plan))
            self._source = replace(self._source, cluster=self._broker.cluster)

    def poll(self) -> QueryFacts:
        """The present facts; if something has vanished since, its last facts with the trouble."""
        if self._remote is not None:
            try:
                self._remote.refresh()
                self._trouble = None
            except RemoteError as error:
                self._failed(error)
        facts = self._poll_both()
        if self._trouble is None:
            self._failing_since = None
            self._see_clock(facts)
        windows = self._poll_windows(facts.checkpoint)
        topics = None if self._broker is None else self._broker.poll(offsets_of(facts), _time_in_records(facts.plan))
        return replace(facts, windows=windows, window=window_spec_of(windows or (), self._shapes), topics=topics)

    def picture(self, name: str, facts: QueryFacts, now_ms: int) -> Snapshot:
        """The facts of one poll as they are at `now_ms` (epoch ms); nothing ages in a copy that was fetched before."""
        as_of_ms = None if self._remote is None or self._trouble is not None else self._remote.as_of_ms
        offset = self._clock.offset
        at_ms = now_ms if as_of_ms is None else max(min(now_ms, as_of_ms), self._shown_ms)
        self._shown_ms = at_ms
        self._shown = facts = self._clock.in_its_time(facts, clock.set_by_ms())
        self._before = snapshot_of_query(
            facts, name=name, source=self._source, now_ms=at_ms + offset.ms, before=self._before
        )
        shown = self._clock.in_our_time(self._before, now_ms)
        return replace(shown, notes=[*offset_note(offset, now_ms, "driver"), *shown.notes])

    def past(self, facts: QueryFacts, now_ms: int) -> RecordedPast:
        """The recorded past from its checkpoint, else its event log; call it after `picture`."""
        offset = self._clock.offset
        shown = self._clock.since_set(self._shown)
        past = past_of(shown, self._before and self._before.level.watermark_ms, now_ms + offset.ms)
        return past_in_our_time(past, offset)

    def close(self) -> None:
        """Close the connection to the broker."""
        self._reports.close()
        if self._windows is not None:
            self._windows.close()
        if self._broker is not None:
            self._broker.close()
        if self._remote is not None:
            self._remote.close()

    def _poll_both(self) -> QueryFacts:
        """The facts of checkpoint and reports; either is searched for if the other names it."""
        checkpoint = self._poll_checkpoint()
        report = self._reports.poll(checkpoint and checkpoint.query_id)
        if report is not None and self._trouble is not None:
            report = replace(report, trouble=self._trouble, out_of_reach=self._is_out_of_reach)
        run = report.run if report is not None and self._path is None else None
        if checkpoint is not None and run is not None and checkpoint.query_id not in (None, run.id):
            self._checkpoint = self._windows = checkpoint = None  # it was started again with another one
            self._last, self._last_windows, self._shapes = CheckpointFacts(), (), {}
        named = report.checkpoint if report is not None and not report.is_elsewhere else None
        place = None if named is None or not is_checkpoint(Path(named)) else Path(named)
        if place is not None and isinstance(self._path, Path):
            with suppress(OSError):  # it is gone
                report = report if self._path.samefile(place) else None  # of the query of which this is a copy
        elif checkpoint is None and place is not None:
            self._read_checkpoint_at(place)
            checkpoint = self._poll_checkpoint()
        return QueryFacts(checkpoint=checkpoint, report=report)

    def _see_clock(self, facts: QueryFacts) -> None:
        as_of_ms = None if self._remote is None else self._remote.as_of_ms
        file_times = [] if self._checkpoint is None else self._checkpoint.file_times
        now_ms = clock.now_ms() if as_of_ms is None else as_of_ms
        self._clock.see_facts(facts, file_times, now_ms, clock.set_by_ms())

    def _poll_windows(self, checkpoint: CheckpointFacts | None) -> tuple[OpenWindows, ...] | None:
        if self._windows is None or checkpoint is None:
            return None
        try:
            self._last_windows = self._windows.poll(checkpoint)
        except RemoteError as error:
            reason = WindowsUnknown("unreadable", {"why": str(error)})
            last = self._last_windows or (OpenWindows(operator=0),)
            self._last_windows = tuple(replace(operator, reason=reason) for operator in last)
        return self._last_windows

    def _failed(self, error: RemoteError) -> None:
        self._trouble = str(error)
        if self._failing_since is None:
            _log.warning("%s", error)
            self._failing_since = time.monotonic()

    @property
    def _is_out_of_reach(self) -> bool:
        return self._failing_since is not None and time.monotonic() - self._failing_since >= OUT_OF_REACH_S

    def _read_checkpoint_at(self, path: AnyPath) -> None:
        self._checkpoint = CheckpointTap(path)
        self._windows = None if self._read_windows is None else self._read_windows(path)

    def _poll_checkpoint(self) -> CheckpointFacts | None:
        if self._checkpoint is None:
            return None
        if self._trouble is None:
            try:
                checkpoint = self._checkpoint.poll()
                if checkpoint.batch is None and self._last.batch is not None:
                    return self._last_before(checkpoint, self._checkpoint.path)
                self._last = checkpoint
                return checkpoint
            except RemoteError as error:
                self._failed(error)
        return replace(self._last, trouble=self._trouble, out_of_reach=self._is_out_of_reach)

    def _last_before(self, checkpoint: CheckpointFacts, path: AnyPath) -> CheckpointFacts:
        """The last facts of a checkpoint that is empty or gone."""
        place = path.absolute() if isinstance(path, Path) else path
        try:
            names(place)
        except VanishedError:
            return replace(self._last, trouble=f"{place} is gone: this is what was last there", out_of_reach=True)
        except UnreadableError as error:
            return replace(self._last, trouble=str(error))
        none = f"{place} has no batch any more: this is what was last there"
        return replace(self._last, trouble=checkpoint.trouble or none)


def _time_in_records(plan: PlanFacts | None) -> str | None:
    """The place of event time in Kafka's records by the plan; None if the plan does not show it, or shows several."""
    places = {node.record_time for node in plan.nodes} if plan is not None else set[str | None]()
    return places.pop() if len(places) == 1 else None


SILENT_MS = 3_600_000
"""Time (ms) without a line after which a log counts as finished: an idle query writes every ten seconds."""


def is_finished(facts: Application, now_ms: int) -> bool:
    """Whether its application has ended, or has written nothing for so long (by `now_ms`) that it must have died."""
    is_silent = facts.written_ms is not None and now_ms - facts.written_ms > SILENT_MS
    return facts.alive is False or is_silent


def record(
    path: Path,
    facts: Application,
    out: Path,
    wanted: str | None,
    name: str | None,
    step: Callable[[int], object],
    *,
    force: bool = False,
    uri: str | None = None,
) -> int:
    """Write the history of the `wanted` query to `out`, under `name` or its own name; returns the number of snapshots.

    `facts` is all that is in the log; `uri` is the log's own place, if `path` is a copy: a checkpoint that it names is
    then on another machine. UsageError if there is no such query.
    """
    sure_of(facts.queries, wanted)
    meant = choose(facts.queries, wanted, None)
    if meant is None:
        raise UsageError(f"{uri or path} has no streaming query")
    source = SourceView(kind="event log", description=uri or str(path.absolute()))
    header = Header(
        name=name or name_in(facts, wanted) or path.name,
        pid=os.getpid(),
        started_ms=facts.started_ms or 0,
        source=source,
        settings=settings_of_query(),
    )
    with RecordingWriter(out, header, existing="replace" if force else "refuse") as writer:
        recorder = _RunRecorder(header.name, source, facts, writer, is_here=uri is None)

        def take(event: QueryEvent) -> None:
            """Write a snapshot after a batch of the query, and after its end."""
            ended = event.progress if isinstance(event, QueryProgress) else event
            if isinstance(ended, BatchProgress | QueryTerminated) and ended.id == meant.id:
                recorder.write(next(run for run in tap.queries() if run.run_id == ended.run_id), alive=True)

        with closing(EventLogTap(path, take)) as tap:
            tap.poll_all(step)
        recorder.end()
        return recorder.count


_NO_STATE = QueryFacts()


class _RunRecorder:
    """The snapshots of one query, in order."""

    def __init__(
        self, name: str, source: SourceView, whole: Application, writer: RecordingWriter, *, is_here: bool
    ) -> None:
        self.count = 0
        self._is_here = is_here
        self._name = name
        self._source = source
        self._whole = whole
        self._writer = writer
        self._last: QueryRun | None = None
        self._before: Snapshot | None = None
        self._judge = SnapshotJudge()

    def write(self, run: QueryRun, *, alive: bool, state: QueryFacts = _NO_STATE) -> None:
        """Write a snapshot of a run, with what its checkpoint holds."""
        self._last = run
        report = report_of("event log", self._whole, run)
        siblings = report.siblings if run.ended or not alive else None
        report = replace(report, alive=alive, trouble=None, siblings=siblings, is_elsewhere=not self._is_here)
        self._before = snapshot_of_query(
            replace(state, report=report),
            name=self._name,
            source=self._source,
            now_ms=run.last_event_ms or (self._before and self._before.now_ms) or self._whole.started_ms or 0,
            before=self._before,
        )
        self._writer.append(self._judge.judge(self._before))
        self.count += 1

    def end(self) -> None:
        """Write the last state: how the query or its application ended, and what its state then held."""
        if self._last is None:
            return
        state = _state_of(self._last, self._whole) if self._is_here else _NO_STATE
        if not self._last.ended or state != _NO_STATE:
            self.write(self._last, alive=self._last.ended, state=state)


def _state_of(run: QueryRun, application: Application) -> QueryFacts:
    """The state in the checkpoint that the log names, unless a later run, also one that fails at once, changed it."""
    place = report_of("event log", application, run).checkpoint
    if place is None or not is_checkpoint(Path(place)):
        return _NO_STATE
    facts = CheckpointTap(Path(place)).poll()
    done = [other.progress.batch for other in application.queries if other.id == run.id and other.progress is not None]
    if facts.query_id != run.id or facts.committed != max(done, default=None):
        return _NO_STATE
    windows = OpenWindowsTap(Path(place)).poll(facts)
    return QueryFacts(checkpoint=facts, windows=windows, window=window_spec_of(windows, {}))


def past_of(facts: QueryFacts, level_ms: int | None, now_ms: int) -> RecordedPast:
    """The recorded past of a query with the watermark `level_ms` at `now_ms`, by its checkpoint, else by its reports.

    It ends at a time that is not recorded: it is never guessed.
    """
    batches, checkpoint = facts.history, facts.begun
    gaps = [place for place, (before, after) in enumerate(pairwise(batches), 1) if after.batch != before.batch + 1]
    is_done = checkpoint is None or checkpoint.committed == checkpoint.batch
    past = _past(batches[gaps[-1] :] if gaps else batches, level_ms if is_done else None, now_ms, is_done=is_done)
    is_reported = facts.report is not None and facts.report.run is not None
    return past if is_reported else RecordedPast(past.levels, _without_stop(past.batches))


def _past(batches: Sequence[RecordedBatch], level_ms: int | None, now_ms: int, *, is_done: bool) -> RecordedPast:
    """The past of these batches: the watermark changes as a batch ends; `level_ms` is that after the last one."""
    if not batches:
        return RecordedPast()
    levels: list[tuple[int, int | None]] = [(batches[0].begin_ms, batches[0].watermark_ms)]
    begun = [(batches[0].batch, batches[0].begin_ms)]
    for before, after in pairwise(batches):
        if after.begin_ms < before.begin_ms:  # the clock was set
            levels, begun = [], []
            continue
        if after.watermark_ms != before.watermark_ms:
            if (end_ms := _end_ms(before, after.begin_ms)) is None:
                levels, begun = [], []
            else:
                levels.append((end_ms, after.watermark_ms))
        levels.append((after.begin_ms, after.watermark_ms))
        begun.append((after.batch, after.begin_ms))
    last = batches[-1]
    if is_done and level_ms != last.watermark_ms:
        end_ms = _end_ms(last, now_ms)
        if end_ms is None:
            return RecordedPast()
        levels.append((end_ms, level_ms))
    return RecordedPast(tuple(levels), tuple(begun))


def _without_stop(begun: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The batches with those before the longest gap moved up to twice the second longest (ms): a checkpoint alone does
    not show whether the query ran in between.
    """
    gaps = sorted((after[1] - before[1], place) for place, (before, after) in enumerate(pairwise(begun), 1))
    longest_ms, place = gaps[-1] if gaps else (0, 0)
    excess_ms = max(0, longest_ms - (2 * gaps[-2][0] if len(gaps) > 1 else 20 * 60_000))
    return (*((number, at_ms + excess_ms) for number, at_ms in begun[:place]), *begun[place:])


def _end_ms(batch: RecordedBatch, next_ms: int) -> int | None:
    """When the batch ended, between its own beginning and `next_ms`; None: not recorded, or contradictory."""
    end_ms = batch.end_ms
    if end_ms is None or not batch.begin_ms - MAX_CLOCK_SKEW_MS <= end_ms <= next_ms + MAX_CLOCK_SKEW_MS:
        return None
    return max(batch.begin_ms, min(end_ms, next_ms))
