"""Reads a query's checkpoint directory at every poll: its last batch, its watermark, its sources."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ...system.errors import UsageError, enumerated, one_line
from ..clock import offset_by_files
from .files import (
    SESSION_WINDOW,
    TIME_WINDOW,
    AnyPath,
    BatchOffsets,
    Cached,
    SourceOffsets,
    StateSchema,
    T,
    UnreadableError,
    VanishedError,
    decode_commit,
    decode_offsets,
    decode_query_id,
    decode_schema,
    delay_of,
    names,
    numbers,
    read_bytes,
    written_ms,
)

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
STATE_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
WATERMARK_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"

LOG_LIMIT = 16 * 1024 * 1024
"""Longest offset or commit file (bytes) that is read: a hundred thousand Kafka partitions take 2 MB."""
SCHEMA_LIMIT = 4 * 1024 * 1024
_METADATA_LIMIT = 64 * 1024
_MAX_STORES = 64
_MAX_CHILDREN = 200
MAX_CLOCK_SKEW_MS = 1_000
"""How far (ms) a file's time may be outside the batch that wrote it: clocks differ, and file systems round."""
MIN_HISTORY = 16
"""Batches looked back, at least."""
MAX_HISTORY = 120
"""Batches looked back, at most."""
HISTORY_MS = 90_000
"""The time (ms) that a verdict needs: with short batches more of them are looked back, to cover it."""
_PARTS = ("commits", "metadata", "offsets", "sources", "state")


class RecordedBatch(Struct, frozen=True, array_like=True):
    """A recorded batch: when it began, and the watermark in force in it (ms)."""

    batch: int
    begin_ms: int
    """When its input was fixed, or its trigger started."""
    watermark_ms: int | None
    end_ms: int | None = None
    """When it ended or, by the file system, its commit was written; None: it runs, or that is not known."""
    inputs: tuple[int, ...] = ()
    """In a checkpoint, a number for each source's offsets: another one means other offsets."""


class WatermarkDelay(Struct, frozen=True):
    """A delay (ms) in the state: that of the query's *first* start, whatever it is now."""

    delay_ms: int
    column: str
    """The column with the delay; for a window the window's, since the event-time column is not recorded."""
    windowed: bool
    operator: int


class CheckpointFacts(Struct, frozen=True, kw_only=True):
    """The checkpoint's present facts; None: not in it, or not readable (times ms)."""

    query_id: str | None = None
    batch: int | None = None
    """The last batch that has begun."""
    in_flight: bool | None = None
    """The last batch has not been committed: it runs, or runs again, or the query died in it."""
    committed: int | None = None
    """The last batch that has been committed."""
    batch_timestamp_ms: int | None = None
    """When the input of `batch` was fixed; a batch that is run again keeps the old time."""
    watermark_ms: int | None = None
    """The watermark in force in `batch`; None: there is none, or it has not moved since the start."""
    next_watermark_ms: int | None = None
    """The watermark of the next batch; None while `batch` is in flight."""
    conf: dict[str, str] = {}
    """The Spark settings that the query has kept since its first batch."""
    sources: tuple[SourceOffsets, ...] = ()
    """The sources at the end of `batch`."""
    rows_per_second: float | None = None
    """The rate between the inputs of the last two batches, if all sources are Kafka's; others count anything."""
    delays: tuple[WatermarkDelay, ...] = ()
    history: tuple[RecordedBatch, ...] = ()
    """The last recorded batches, the newest last; those before a gap are left out."""
    continuous: bool = False
    """Its batches are epochs of continuous processing, which has no watermark; times are those of the files."""
    trouble: str | None = None
    """One line on what could not be read."""
    newer_format: str | None = None
    """A version of the offset log newer than the known ones: the facts may be incomplete."""
    out_of_reach: bool = False
    """The store of the checkpoint does not answer: these are the facts of its last answer."""

    @property
    def shuffle_partitions(self) -> int | None:
        """The number of partitions of the state."""
        number = self.conf.get(SHUFFLE_PARTITIONS, "")
        return int(number) if re.fullmatch(r"[0-9]{1,9}", number) else None


class CheckpointTap:
    """Reads the checkpoint of one query; each poll lists two directories and opens only what is new."""

    def __init__(self, path: AnyPath) -> None:
        self.path = path
        self._query_id = Cached(decode_query_id, _METADATA_LIMIT)
        self._offsets = Cached(decode_offsets, LOG_LIMIT)
        self._commits = Cached(decode_commit, LOG_LIMIT)
        self._schemas = Cached(decode_schema, SCHEMA_LIMIT, keep=_MAX_STORES)
        self._delays: tuple[WatermarkDelay, ...] = ()
        self._delays_of: tuple[str | None, int | None] | None = None
        self._marks: dict[int, RecordedBatch] = {}
        self._marks_of: str | None = None
        self._written_ms: dict[int, int] = {}

    @property
    def file_times(self) -> list[tuple[int, int]]:
        """When the last batches began, and the times of the files that say so (epoch ms), by the clock of the file
        system; empty in a store.
        """
        return [(mark.begin_ms, at_ms) for mark in self._marks.values() if (at_ms := self._written_ms.get(mark.batch))]

    def poll(self) -> CheckpointFacts:
        """The present facts; never raises because of the directory's content."""
        troubles: list[str] = []
        query_id = self._read(self._query_id.get, self.path / "metadata", troubles)
        begun = self._read(_batches, self.path / "offsets", troubles)
        # Listed after the offsets, so that no committed batch appears to be in flight.
        commits = self._read(_batches, self.path / "commits", troubles)
        committed = max(commits or (), default=None)
        batch = max((*(begun or ()), *(commits or ())), default=None)
        if batch is None:
            return CheckpointFacts(query_id=query_id, trouble=_join(troubles))
        offsets = self._read(self._offsets.get, self.path / "offsets" / str(batch), troubles)
        place = self.path / "commits" / str(batch)
        commit = None if committed != batch else self._read(self._commits.get, place, troubles)
        if self._delays_of != (query_id, committed):
            self._delays = self._find_delays(troubles)
            self._delays_of = None if troubles else (query_id, committed)
        return CheckpointFacts(
            query_id=query_id,
            batch=batch,
            in_flight=None if commits is None else committed != batch,
            committed=committed,
            batch_timestamp_ms=self._begun_ms(batch, offsets) if offsets else None,
            continuous=offsets is not None and offsets.timestamp_ms is None,
            watermark_ms=offsets.watermark_ms if offsets else None,
            next_watermark_ms=commit,
            conf=offsets.conf if offsets else {},
            sources=offsets.sources if offsets else (),
            rows_per_second=self._rows_per_second(offsets, batch) if offsets else None,
            delays=self._delays,
            history=self._history(query_id, batch, committed),
            newer_format=offsets.newer_format if offsets else None,
            trouble=_join(troubles),
        )

    def _rows_per_second(self, now: BatchOffsets, batch: int) -> float | None:
        """The growth per second of the offsets that this batch and the one before have."""
        try:
            before = self._offsets.get(self.path / "offsets" / str(batch - 1))
        except UnreadableError:
            return None
        if now.timestamp_ms is None or before.timestamp_ms is None:
            return None
        known = {source.source: source.offsets or {} for source in before.sources}
        grown: list[int] = []
        for source in now.sources:
            earlier = known.get(source.source, {})
            offsets = source.offsets or {}
            grown_here = [offset - earlier[name] for name, offset in offsets.items() if name in earlier]
            if source.kind != "kafka" or min(grown_here, default=-1) < 0:
                return None
            grown += grown_here
        took_ms = now.timestamp_ms - before.timestamp_ms
        return sum(grown) * 1000 / took_ms if grown and took_ms > 0 else None

    def _history(self, query_id: str | None, batch: int, committed: int | None) -> tuple[RecordedBatch, ...]:
        """The last batches, each read once."""
        if query_id != self._marks_of or batch < max(self._marks, default=batch):
            self._marks = {}
            self._marks_of = query_id
        marks = self._last_marks(batch)
        self._marks = {mark.batch: mark for mark in reversed(marks)}
        ahead_ms = offset_by_files(self.file_times) or 0
        for mark in marks:
            if mark.end_ms is None and committed is not None and mark.batch <= committed:
                self._marks[mark.batch] = replace(mark, end_ms=self._end_ms(mark, ahead_ms))
        self._written_ms = {number: at_ms for number, at_ms in self._written_ms.items() if number in self._marks}
        return tuple(self._marks.values())

    def _last_marks(self, batch: int) -> list[RecordedBatch]:
        """The batches up to `batch` without a gap, the newest first."""
        marks: list[RecordedBatch] = []
        for number in range(batch, max(batch - MAX_HISTORY, -1), -1):
            try:
                mark = self._marks.get(number) or self._mark(number, batch)
            except UnreadableError:
                break
            marks.append(mark)
            if len(marks) >= MIN_HISTORY and marks[0].begin_ms - mark.begin_ms >= HISTORY_MS:
                break
        return marks

    def _mark(self, number: int, batch: int) -> RecordedBatch:
        path = self.path / "offsets" / str(number)
        # Only the last two are needed again: others must not evict them.
        offsets = self._offsets.get(path) if number >= batch - 1 else decode_offsets(read_bytes(path, LOG_LIMIT))
        begun_ms = self._begun_ms(number, offsets)
        if begun_ms is None:
            raise VanishedError(f"{path} has gone")
        if isinstance(path, Path) and (at_ms := written_ms(path)) is not None:
            self._written_ms[number] = at_ms
        return RecordedBatch(number, begun_ms, offsets.watermark_ms, inputs=offsets.inputs)

    def _end_ms(self, mark: RecordedBatch, ahead_ms: int) -> int | None:
        """When the batch was committed, by its file's time, unless that is a copy's: then `metadata` is newer, too.

        `ahead_ms`: how far the query's clock is ahead of that of its files.
        """
        created_ms = written_ms(self.path / "metadata")
        is_copy = created_ms is not None and created_ms > mark.begin_ms - ahead_ms + MAX_CLOCK_SKEW_MS
        return None if is_copy else written_ms(self.path / "commits" / str(mark.batch))

    def _begun_ms(self, number: int, offsets: BatchOffsets) -> int | None:
        return offsets.timestamp_ms or written_ms(self.path / "offsets" / str(number))

    def _find_delays(self, troubles: list[str]) -> tuple[WatermarkDelay, ...]:
        delays: dict[WatermarkDelay, None] = {}
        for operator, path in _schema_files(self.path / "state"):
            try:
                delays |= dict.fromkeys(_delays(self._schemas.get(path), operator))
            except VanishedError:
                continue
            except UnreadableError as error:
                troubles.append(str(error))
        return tuple(delays)

    @staticmethod
    def _read(read: Callable[[AnyPath], T], path: AnyPath, troubles: list[str]) -> T | None:
        try:
            return read(path)
        except UnreadableError as error:
            troubles.append(str(error))
            return None


def _batches(log: AnyPath) -> list[int]:
    """The batches in a log: none while it does not exist."""
    try:
        return numbers(log)
    except VanishedError:
        return []


def check(path: Path) -> None:
    """UsageError for a file or directory that is not a query's checkpoint, with what it is instead."""
    if path.is_file():
        raise UsageError(f"{path} is a file: give the query's checkpoint directory", code="file")
    try:
        names(path)
        if is_checkpoint(path):
            with suppress(VanishedError):  # a query that has not begun has no batches
                names(path / "offsets")
            return
    except UnreadableError as error:
        raise UsageError(str(error), code="unreadable") from None
    if path.absolute().name in _PARTS and is_checkpoint(path.absolute().parent):
        raise UsageError(f"{path} is a part of a checkpoint: give {path.absolute().parent}", code="part")
    children = _children(path)
    near = [child for child in children if is_checkpoint(child)]
    near = near or [deeper for child in children for deeper in _children(child) if is_checkpoint(deeper)]
    if len(near) == 1:
        raise UsageError(f"{path} is not a checkpoint directory: did you mean {near[0]}?", code="near")
    if near:
        named = enumerated([f"{place.relative_to(path)} ({_progress(place)})" for place in near])
        raise UsageError(f"{path} holds {len(near)} checkpoints, give one of them: {named}", code="near")
    raise UsageError(
        f"{path} is not a checkpoint directory: it has no offsets/; give the query's checkpointLocation, "
        "and start the query if it has never run",
        code="no_offsets",
    )


def _progress(path: Path) -> str:
    """A query's progress, in a few words."""
    facts = CheckpointTap(path).poll()
    if facts.batch is None:
        return "no batch yet"
    return f"batch {facts.batch} {'has not ended' if facts.in_flight else 'committed'}"


def _children(directory: Path) -> list[Path]:
    try:
        return [directory / name for name in sorted(names(directory))[:_MAX_CHILDREN]]
    except UnreadableError:
        return []


def is_checkpoint(path: Path) -> bool:
    """Whether it is a checkpoint: a query writes `metadata` first, then `offsets`."""
    try:
        if (path / "offsets").is_dir():
            return True
        decode_query_id(read_bytes(path / "metadata", _METADATA_LIMIT))
    except (OSError, UnreadableError):
        return False
    return True


def _schema_files(state: AnyPath) -> Iterator[tuple[int, AnyPath]]:
    """The schema of every store of every operator; all partitions share the first one's."""
    left = _MAX_STORES
    try:
        operators = sorted(numbers(state))
    except UnreadableError:
        return
    for operator in operators:
        partition = state / str(operator) / "0"
        try:
            stores = sorted(name for name in names(partition) if "." not in name)
        except UnreadableError:
            continue
        for name in stores[:left]:
            metadata = partition / name if name == "_metadata" else partition / name / "_metadata"
            yield operator, metadata / "schema"
        left -= min(left, len(stores))


def _delays(schema: StateSchema, operator: int) -> Iterator[WatermarkDelay]:
    for field in (*schema.key.fields, *schema.value.fields):
        delay = delay_of(field)
        if delay is not None:
            is_window = TIME_WINDOW in field.metadata or SESSION_WINDOW in field.metadata
            yield WatermarkDelay(delay, one_line(field.name), is_window, operator)


def _join(troubles: list[str]) -> str | None:
    more = f" (and {len(troubles) - 1} more)" if len(troubles) > 1 else ""
    return f"{troubles[0]}{more}" if troubles else None
