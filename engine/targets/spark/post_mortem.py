"""A finished event log as a recording: a snapshot for each batch that it reports, and one for each end."""

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from msgspec.structs import replace

from ...feed.messages import Header
from ...feed.recording_writer import RecordingWriter
from ...snapshot import Snapshot, SourceView
from ...system.errors import UsageError
from ...verdict.verdict import SnapshotJudge
from .checkpoint import CheckpointFacts, CheckpointTap, is_checkpoint
from .event_log import EventLogTap
from .events import QueryEvent, QueryProgress, QueryTerminated
from .facts import Application, QueryFacts, QueryRun, Report
from .open_windows import OpenWindows, OpenWindowsTap
from .operators import window_spec_of
from .query_snapshot import settings_of_query, snapshot_of_query
from .reports import checkpoint_of, choose, name_in, siblings_of, sure_of

SILENT_MS = 3_600_000
"""Time (ms) without a line after which a log counts as finished: an idle query writes every ten seconds."""


def is_finished(facts: Application, now_ms: int) -> bool:
    """Whether its application has ended, or has written nothing for so long (by `now_ms`, epoch ms) that it must have
    died.
    """
    if facts.alive is False:
        return True
    return facts.written_ms is not None and now_ms - facts.written_ms > SILENT_MS


def look(path: Path, step: Callable[[int], object]) -> Application:
    """All facts in the log; `step` gets the number of bytes still to be read."""
    with closing(EventLogTap(path)) as tap:
        return tap.poll_all(step)


def record(
    path: Path,
    facts: Application,
    out: Path,
    wanted: str | None,
    name: str | None,
    step: Callable[[int], object],
    *,
    force: bool = False,
) -> int:
    """Write the history of the `wanted` query to `out`, under `name` or its own name; returns the number of snapshots.

    `facts` is the result of `look`. UsageError if there is no such query.
    """
    sure_of(facts.queries, wanted)
    meant = choose(facts.queries, wanted, None)
    if meant is None:
        raise UsageError(f"{path} has no streaming query")
    name = name or name_in(facts, wanted) or path.name
    source = SourceView(kind="event log", description=str(path.absolute()))
    recorder = _RunRecorder(name, source, facts, meant.id)
    header = Header(
        name=name, pid=os.getpid(), started_ms=facts.started_ms or 0, source=source, settings=settings_of_query()
    )
    with RecordingWriter(out, header, existing="replace" if force else "refuse") as writer:
        tap = EventLogTap(path, lambda event: recorder.take(event, tap, writer))
        try:
            tap.poll_all(step)
        finally:
            tap.close()
        recorder.end(writer)
        return recorder.count


class _RunRecorder:
    """The snapshots of one query, in order."""

    def __init__(self, name: str, source: SourceView, facts: Application, query_id: str) -> None:
        self.count = 0
        self._name = name
        self._source = source
        self._whole = facts
        self._id = query_id
        self._last: QueryRun | None = None
        self._before: Snapshot | None = None
        self._judge = SnapshotJudge()

    def take(self, event: QueryEvent, tap: EventLogTap, writer: RecordingWriter) -> None:
        """Write a snapshot after a batch of the query, and after its end."""
        if isinstance(event, QueryProgress):
            ours, run_id = event.progress.id == self._id, event.progress.run_id
        elif isinstance(event, QueryTerminated):
            ours, run_id = event.id == self._id, event.run_id
        else:
            return
        if ours:
            self._last = next(run for run in tap.queries() if run.run_id == run_id)
            self._write(self._last, writer, alive=True)

    def end(self, writer: RecordingWriter) -> None:
        """Write the last state: how the query or its application ended, and what its state then held."""
        if self._last is None:
            return
        checkpoint, windows = _state_of(self._last, self._whole.queries)
        if not self._last.ended or checkpoint is not None:
            self._write(self._last, writer, alive=self._last.ended, checkpoint=checkpoint, windows=windows)

    def _write(
        self,
        run: QueryRun,
        writer: RecordingWriter,
        *,
        alive: bool,
        checkpoint: CheckpointFacts | None = None,
        windows: tuple[OpenWindows, ...] | None = None,
    ) -> None:
        report = Report(
            tap="event log",
            run=run,
            alive=alive,
            trouble=None,
            siblings=siblings_of(self._whole.queries, run) if run.ended or not alive else None,
            heard_ms=self._whole.written_ms,
        )
        now_ms = run.last_event_ms or (self._before.now_ms if self._before else None) or self._whole.started_ms or 0
        self._before = snapshot_of_query(
            QueryFacts(report=report, checkpoint=checkpoint, windows=windows, window=window_spec_of(windows or (), {})),
            name=self._name,
            source=self._source,
            now_ms=now_ms,
            before=self._before,
        )
        writer.append(replace(self._before, verdict=self._judge.verdict(self._before)))
        self.count += 1


def _state_of(run: QueryRun, runs: Sequence[QueryRun]) -> tuple[CheckpointFacts | None, tuple[OpenWindows, ...] | None]:
    """The state in the checkpoint that the log names, if it is still as the run left it: a run that fails in its first
    batch leaves the state of the run before.
    """
    place = checkpoint_of(runs, run)
    if place is None or not is_checkpoint(Path(place)):
        return None, None
    facts = CheckpointTap(Path(place)).poll()
    done = [other.progress.batch for other in runs if other.id == run.id and other.progress is not None]
    if facts.query_id != run.id or facts.committed != max(done, default=None):
        return None, None
    return facts, OpenWindowsTap(Path(place)).poll(facts)
