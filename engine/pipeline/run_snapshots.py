"""Makes the snapshots of a run from the monitor's facts and those of its source and of Spark."""

import time

from msgspec.structs import replace

from ..core.counts import RateMeter
from ..core.judgement.verdict import verdict_of
from ..core.monitor import Monitor
from ..core.snapshot import Note, Snapshot
from ..core.unread import Unread
from ..core.view import snapshot_of
from .progress import processed_per_second, progress_of
from .query import Run
from .run_notes import RunNotes
from .sources.base import Source


class RunSnapshots:
    """Makes the snapshots of the run `name`."""

    def __init__(self, name: str, source: Source, notes: RunNotes) -> None:
        self._name = name
        self._source = source
        self._notes = notes
        self._rates = RateMeter()

    def take(self, run: Run, monitor: Monitor) -> Snapshot:
        """The snapshot of this moment; the monitor is locked."""
        source, late, ended = self._source, run.late_output, monitor.ended
        unread = None if ended else self._unread()
        silent = unread is not None and unread.records is None
        verdict = run.verdict(unread)
        self._notes.see_folded(monitor.folded.view())
        if ended and monitor.batch == 0 and monitor.rows > 1 and monitor.settings.strategy != "none":
            self._notes.see_one_batch(source.describe().kind)
        records = {name: counts.records for name, counts in monitor.counts.items()}
        rates = self._rates.rates(time.monotonic(), records)
        follows_spark = monitor.settings.strategy == "spark"
        spark = progress_of(run.progress, monitor.shown(monitor.level) if follows_spark else None)
        if not source.counted_by_spark:
            done = None if source.backlog is None else processed_per_second(run.progress, run.rows_of)
            spark = replace(
                spark, input_rows_per_second=sum(rates.values()) if rates else None, processed_rows_per_second=done
            )
        return snapshot_of(
            monitor,
            name=self._name,
            state="ended" if ended else "stale" if silent else "live",
            wall_ms=time.time_ns() // 1_000_000,
            now_ms=monitor.now_ms if ended else run.now_ms(),
            source=replace(source.describe(), rows=source.rows_in_all, rows_read=monitor.rows),
            spark=spark,
            rates=rates,
            unread=unread,
            notes=self._notes.now(),
            points=monitor.take_points(),
            verdict=verdict,
            late_output=None if late is None else late.where,
            late_sample=None if late is None else late.sample,
        )

    def as_of_now(self, snapshot: Snapshot, hung: list[Note]) -> Snapshot:
        """A snapshot that may be old (a batch is running), updated with what the source reports now.

        `hung` are the notes on a JVM that does not answer.
        """
        unread = self._unread()
        stale = unread is not None and unread.records is None
        if stale or hung:
            snapshot = replace(snapshot, state="stale")
        notes = [*self._notes.now(), *hung]
        return replace(snapshot, verdict=verdict_of(snapshot), wall_ms=time.time_ns() // 1_000_000, notes=notes)

    def _unread(self) -> Unread | None:
        backlog = self._source.backlog
        return None if backlog is None else backlog.unread()
