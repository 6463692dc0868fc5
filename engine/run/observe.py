"""What is observed of a run: groups, late records and values of `--explain` of a batch; channels; Spark's progress.

The values come from Arrow columns that tasks read, or from rows; both ways yield `Values`, which `merged` adds up.
"""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# (pyarrow is only partly typed.)

import json
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import asdict, replace

from ..snapshot import Folded, Note, SparkProgress
from ..system import clock
from ..system.errors import UsageError
from ..watermarks.channels import Unread
from ..watermarks.explain import LONGEST, MAX_VALUES, Count, Explain, Values, merged
from ..watermarks.monitor import Monitor
from ..watermarks.observation import BatchObservation
from ..watermarks.settings import Session, Settings
from ..watermarks.window_operator import Firing, LateRecords, late_records
from .column_groups import Read, Work, groups_of_shares, longs, tables_of
from .groups import BEFORE_ALL_MS, Flags, Levels, Longs, late_until, observation_of, starts_every
from .late_output import LateOutput
from .row_groups import ORDERED, Aggregation
from .sources.base import EXPLAIN, EXPLAINED, NO_CHANNEL, TIME, Batch, Source, canonical_columns
from .tasks import map_in_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class RunProgress:
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

    def view(self, source: Source, rates: dict[str, float]) -> SparkProgress:
        """What a screen shows; if Spark does not count the records, their rates are those of the channels."""
        report = self.report
        phases: dict[str, int] = {name: int(ms) for name, ms in report.get("durationMs", {}).items()}
        view = SparkProgress(
            input_rows_per_second=report.get("inputRowsPerSecond"),
            processed_rows_per_second=report.get("processedRowsPerSecond"),
            batch_ms=phases.pop("triggerExecution", None),
            phases_ms=phases,
        )
        if source.counted_by_spark:
            return view
        arriving = sum(rates.values()) if rates else None
        rows = None if source.progress is None else self._rows.get(report.get("batchId", -1))
        done = rows * 1_000 / view.batch_ms if rows is not None and view.batch_ms else None
        return replace(view, input_rows_per_second=arriving, processed_rows_per_second=done)


class RunNotes:
    """The notes of a run and its source; `on_note` gets each as it comes."""

    def __init__(self, source: Source, max_channels: int, on_note: Callable[[Note], None]) -> None:
        self._notes = source.notes
        self._max_channels = max_channels
        self._on_note = on_note
        self._folded: Folded | None = None
        self._notes.subscribe(on_note)

    def now(self) -> list[Note]:
        """The present notes, the newest last; first, with the present time, that channels share one."""
        notes = self._notes.notes()
        return notes if self._folded is None else [self._folded_note(self._folded), *notes]

    def see(self, monitor: Monitor, kind: str) -> None:
        """Note that channels share one, and once that the whole stream of a source of that kind was one batch."""
        before, self._folded = self._folded, monitor.folded.view()
        if self._folded is not None and before is None:
            self._on_note(self._folded_note(self._folded))
        one_batch = monitor.ended and monitor.batch == 0 and monitor.rows > 1 and monitor.settings.strategy != "none"
        if one_batch and all(note.code != "one_batch" for note in self._notes.notes()):
            self._notes.add("one_batch", source=kind)

    def _folded_note(self, folded: Folded) -> Note:
        args = asdict(folded) | {"at_least": int(folded.at_least), "limit": self._max_channels}
        return Note(clock.now_ms(), "channels_folded", args)


class SourceChannels:
    """Channels that appear and leave, that are quiet or only unread, and the reading position of each."""

    def __init__(self, source: Source, monitor: Monitor) -> None:
        self._source = source
        self._monitor = monitor
        self._timers_ms: int | None = None
        """Until when (processing time) channels were checked for being quiet or only unread."""

    def begin(self, now: int) -> None:
        """Begin at processing time `now` (ms), when the query starts."""
        self._timers_ms = now
        self.register(now)

    def register(self, now: int) -> None:
        """Register channels that the source knows before their first record."""
        if self._source.progress is not None:
            self._monitor.add_channels(self._source.progress.channels(), now)

    def keep_timers(self, now: int, unread: Unread | None) -> None:
        """Stop the idle timers of channels with unread records: such a channel is slow, not quiet."""
        since, self._timers_ms = self._timers_ms, now
        if unread is not None and since is not None and now > since:
            self._monitor.exclude(now - since, now, unread.not_quiet())

    def retire(self, now: int | None, progress: RunProgress) -> list[Firing]:
        """Remove or finish channels that are gone or read to their end; returns what the watermark made windows do."""
        known = self._source.progress
        if known is None:
            return []
        firings = self._monitor.remove_channels(known.gone_channels(), now)
        if not self._monitor.ended:
            firings += self._monitor.finish_channels(known.finished_channels(progress.latest_offsets()), now)
        return firings

    def balance(self) -> None:
        """Pass a balancing source the event time of each channel that is not idle."""
        if self._source.balance is not None:
            self._source.balance(self._monitor.progress_of_active())


class Observer:
    """The query's frame, and the observation of each of its batches.

    Tasks read columns if the source supports it and the strategy does not depend on the order of records; a batch that
    only Spark's own reader can read is processed as rows.
    """

    def __init__(self, spark: "SparkSession", source: Source, monitor: Monitor, output: LateOutput | None) -> None:
        """Load the source. Meanwhile, and until `warmed_up`, Spark prepares for the first batch."""
        self._monitor = monitor
        self._output = output
        self._settings, self._edges = settings, edges = monitor.settings, monitor.edges
        self._malformed_of = source.malformed_of
        parts = source.part_name is not None or source.channel_of_part is not None
        columns = canonical_columns(settings, replay=source.clock is not None, parts=parts)
        self._aggregation = Aggregation(settings, edges, list(columns), source.channel_of_part, source.part_name)
        self.by_columns = settings.strategy not in ORDERED and source.has_columns(spark)
        """Whether tasks read the records, which they can do again, and not Spark as rows."""
        self._warming: threading.Thread | None = None
        if not self.by_columns:  # any rows let Spark compile all expressions before the first batch
            rows = spark.range(2).selectExpr(*[f"cast(id as {kind}) as {name}" for name, kind in columns.items()])
            any_rows = (rows, Levels(BEFORE_ALL_MS, BEFORE_ALL_MS, 0))
            self._warming = threading.Thread(target=self._aggregation.table, args=any_rows, name="wmtop-warm-up")
            self._warming.start()
        self._reader = source.load(spark, as_columns=self.by_columns)
        self.frame = self._reader.frame

    def observe(self, batch: Batch, number: int, levels: Levels) -> BatchObservation:
        """The observation of the next batch; its late records are written before anything is applied."""
        self.warmed_up()
        with self._read_once(batch) as once:
            return self._with_late(once, self._with_example(once, self._grouped(once, number, levels)), levels)

    def warmed_up(self) -> None:
        """Wait for the warm-up, which does the same work as the first batch."""
        warming, self._warming = self._warming, None
        if warming is not None:
            warming.join()

    @contextmanager
    def _read_once(self, batch: Batch) -> Generator[Batch]:
        """The batch, with its rows if it is read as such: cached by Spark while they are read several times."""
        if self.by_columns:
            yield batch
            return
        rows = self._reader.rows(batch)
        if self._monitor.explain is None:
            yield batch._replace(frame=rows)
            return
        cached = rows.persist()
        try:
            yield batch._replace(frame=cached)
        finally:
            cached.unpersist()

    def _grouped(self, batch: Batch, number: int, levels: Levels) -> BatchObservation:
        read, shares = self._reader.read, self._reader.shares(batch)
        if read is None or not shares:  # no records, or only Spark knows where the batch begins
            return self._aggregation.observe(self._rows(batch), number, levels, self._monitor)
        work = Work(read, self._settings, self._edges, levels)
        return observation_of(groups_of_shares(batch.frame.sparkSession, shares, work), number, levels, [])

    def _with_example(self, batch: Batch, observation: BatchObservation) -> BatchObservation:
        """With one of the batch's malformed records, if none is known yet."""
        last = observation.last_malformed
        if last is None or self._monitor.malformed_example is not None:
            return observation
        return replace(observation, malformed_example=self._malformed_of(batch, last))

    def _with_late(self, batch: Batch, observation: BatchObservation, levels: Levels) -> BatchObservation:
        """Write the batch's late records, and add the values that explain them."""
        explain = self._monitor.explain
        if self._output is None and explain is None:
            return observation
        assert self._monitor.operator is not None  # a run of our own has windows
        late = late_records(self._monitor.operator.windows, observation.groups, levels.level)
        if self._output is not None:
            rows = self._rows(batch) if late.records else batch.frame
            self._output.write(rows, observation.batch, late)
        if explain is None:
            return observation
        values = self._values(batch, Explaining(self._settings, late, len(explain.columns)))
        return replace(observation, values=values, late=late.records)

    def _values(self, batch: Batch, work: "Explaining") -> list[Values]:
        """The counts of the batch's values, from the columns that tasks read, else from its rows."""
        read, shares = self._reader.read, self._reader.shares(batch)
        if read is not None and shares:
            tasks = batch.frame.sparkSession.sparkContext.parallelize(shares, len(shares))
            return merged(tasks.mapPartitions(partial(_values_of_shares, read, work)).collect(), work.columns)
        columns = [f"{EXPLAINED}[{number}] as {EXPLAIN}{number}" for number in range(work.columns)]
        rows = self._rows(batch).selectExpr(TIME, *columns)
        reports = map_in_arrow(rows, partial(_values_of_rows, work), "report binary").collect()
        return merged([msgspec.json.decode(row["report"], type=list[Values]) for row in reports], work.columns)

    def _rows(self, batch: Batch) -> "DataFrame":
        """The records of a batch as rows."""
        return self._reader.rows(batch) if self.by_columns else batch.frame


def explained_from(monitor: Monitor, columns: tuple[str, ...], *, resumed: bool) -> Explain | None:
    """The counts of a run's `--explain`; UsageError if a resumed run was started with other columns."""
    before = () if monitor.explain is None else tuple(monitor.explain.columns)
    if resumed and before != columns:
        raise UsageError(
            f"--explain: this run was started with {','.join(before) or 'none'}, not {','.join(columns) or 'none'}; "
            "give the same columns, or another --state-dir"
        )
    return monitor.explain if resumed else Explain.of(columns) if columns else None


class Explaining(Struct, frozen=True):
    """The input of every task: what makes a record late, and the number of columns."""

    settings: Settings
    late: LateRecords
    columns: int


def _values_of_shares(read: Read, work: Explaining, shares: Iterable[list[Any]]) -> Iterator[list[Values]]:
    for share in shares:
        yield from (values_of(rows, work) for rows in tables_of(share, read))


def _values_of_rows(work: Explaining, batches: Iterator[Any]) -> Iterator[Any]:
    parts = list(batches)
    if parts:
        report = msgspec.json.encode(values_of(pa.Table.from_batches(parts), work))
        yield pa.RecordBatch.from_pydict({"report": [report]})


def values_of(rows: "pa.Table", work: Explaining) -> list[Values]:
    """The counts of each column in a table with the time, and each column's values (text, null: no value) under its
    number; of a column the values with most late records, then most records.
    """
    if rows[TIME].null_count:
        rows = rows.filter(rows[TIME].is_valid())
    late = pa.array(_late(longs(rows[TIME]), work.settings, work.late))
    return [_column(rows[f"{EXPLAIN}{number}"], late) for number in range(work.columns)]


def _column(values: Any, late: Any) -> Values:
    each: Any = pa.table({"value": values, "late": late, "records": pa.repeat(1, len(late))}).unify_dictionaries()
    sums = _sums(each.combine_chunks())
    names: Any = pc.utf8_slice_codeunits(sums["value"].cast(pa.string()), 0, LONGEST)
    sums = _sums(sums.set_column(0, "value", names.fill_null(NO_CHANNEL)))  # cut values may coincide
    sums = sums.sort_by([("late", "descending"), ("records", "descending"), ("value", "ascending")])
    counts = {row["value"]: Count(row["late"], row["records"]) for row in sums.slice(0, MAX_VALUES).to_pylist()}
    return Values(counts, pc.max(sums["records"].slice(MAX_VALUES)).as_py() or 0)


def _sums(rows: Any) -> Any:
    sums = rows.group_by("value", use_threads=False).aggregate([("late", "sum"), ("records", "sum")])
    return sums.select(["value", "late_sum", "records_sum"]).rename_columns(["value", "late", "records"])


def _late(times: Longs, settings: Settings, late: LateRecords) -> Flags:
    """Which records with these event times (ms) are dropped: `late_rows` for columns."""
    if not late.records:
        return np.zeros(len(times), np.bool_)
    window = settings.spec
    every, offset = starts_every(settings)
    starts = (times - offset) // every * every + offset
    limit = late_until(settings, late.level)
    if isinstance(window, Session):
        dropped = np.isin(starts, np.array(list(late.sessions or ()), np.int64))
        return dropped & (times <= limit) if settings.late_alone else dropped
    last = starts + window.size_ms - 1
    if window.slide_ms > window.size_ms:
        last = np.where(times <= last, last, times)
    return last <= limit
