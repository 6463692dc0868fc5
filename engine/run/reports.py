"""What a run reports besides its watermarks: Spark's progress of the query, and the notes of the run."""

import json
import time
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from ..snapshot import Folded, Note, SparkProgress
from .sources.base import Source, SourceNotes


class QueryProgress:
    """Spark's report of a query's last batch, with what Spark does not know of the last two batches."""

    def __init__(self) -> None:
        self.report: dict[str, Any] = {}
        """A `StreamingQueryProgress` as its JSON, without waits; empty before the first."""
        self._waits_ms: dict[int, int] = {}
        """How long batches waited for their rows, which Spark counts as their time."""
        self._rows: dict[int, int] = {}

    def note_wait(self, batch: int, waited_ms: int) -> None:
        """Note how long a batch has waited for its rows."""
        self._waits_ms = {batch - 1: self._waits_ms.get(batch - 1, 0), batch: waited_ms}

    def note_rows(self, batch: int, rows: int) -> None:
        """Note how many rows a batch had."""
        self._rows = {batch - 1: self._rows.get(batch - 1, 0), batch: rows}

    def take(self, report: str | None) -> None:
        """Take Spark's newest report (JSON); None: there is none."""
        new: dict[str, Any] = {} if report is None else json.loads(report)
        waited = self._waits_ms.get(new.get("batchId", -1), 0)
        durations = new.get("durationMs", {})
        for name in durations.keys() & {"addBatch", "triggerExecution"}:
            durations[name] = max(0, durations[name] - waited)
        self.report = new

    def latest_offsets(self) -> list[str]:
        """The ends of the query's sources, as JSON."""
        return [json.dumps(source["latestOffset"]) for source in self.report.get("sources", ())]

    def view(self, source: Source, rates: dict[str, float], watermark_ms: int | None) -> SparkProgress:
        """What a screen shows; if Spark does not count the records, their rates are those of the channels."""
        report = self.report
        phases: dict[str, int] = {name: int(ms) for name, ms in report.get("durationMs", {}).items()}
        view = SparkProgress(
            input_rows_per_second=report.get("inputRowsPerSecond"),
            processed_rows_per_second=report.get("processedRowsPerSecond"),
            batch_ms=phases.pop("triggerExecution", None),
            phases_ms=phases,
            watermark_ms=watermark_ms,
        )
        if source.counted_by_spark:
            return view
        done = None if source.progress is None else self._processed_per_second(report)
        arriving = sum(rates.values()) if rates else None
        return replace(view, input_rows_per_second=arriving, processed_rows_per_second=done)

    def _processed_per_second(self, report: dict[str, Any]) -> float | None:
        """The rate of the report's batch; None: its rows are not known."""
        rows = self._rows.get(report.get("batchId", -1))
        took_ms = report.get("durationMs", {}).get("triggerExecution", 0)
        return rows * 1_000 / took_ms if rows is not None and took_ms else None


class RunNotes:
    """The notes of a run and its source; `on_note` gets each as it comes."""

    def __init__(self, source: Source, max_channels: int, on_note: Callable[[Note], None]) -> None:
        self._notes = source.notes or SourceNotes()
        self._max_channels = max_channels
        self._on_note = on_note
        self._folded: Folded | None = None
        self._notes.subscribe(on_note)

    def now(self) -> list[Note]:
        """The present notes, the newest last."""
        notes = self._notes.notes()
        # First, so that events of the source are shown before it.
        return notes if self._folded is None else [self._folded_note(self._folded), *notes]

    def see_one_batch(self, kind: str) -> None:
        """Note, once, that the whole stream of a source of that kind was one batch."""
        if all(note.code != "one_batch" for note in self._notes.notes()):
            self._notes.add("one_batch", source=kind)

    def see_folded(self, folded: Folded | None) -> None:
        """Note that channels share one; the first time it is passed on."""
        before, self._folded = self._folded, folded
        if folded is not None and before is None:
            self._on_note(self._folded_note(folded))

    def _folded_note(self, folded: Folded) -> Note:
        """A note with the present time: it is valid for the whole run."""
        args: dict[str, str | int | None] = {
            "into": folded.into,
            "channels": folded.channels,
            "at_least": int(folded.at_least),
            "records": folded.records,
            "limit": self._max_channels,
        }
        return Note(time.time_ns() // 1_000_000, "channels_folded", args)
