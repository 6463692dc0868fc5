"""The windows that a query's aggregations hold open, from the files of the HDFS-backed state store.

What cannot be read so is named, never guessed: other state stores, other operators, unknown formats.
"""

import heapq
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from .checkpoint import SCHEMA_LIMIT, CheckpointFacts
from .files import Cached, UnreadableError, VanishedError, numbers, one_line
from .state_files import Layout, PartitionWindows, TooManyKeysError, Window
from .state_schema import (
    SESSION_WINDOW,
    TIME_WINDOW,
    Operator,
    RowType,
    StateSchema,
    decode_operator,
    decode_schema,
    nested,
)
from .unsafe_row import TextReader, text_reader, word_at

MAX_KEYS = 1_000_000
"""Of one operator: some 250 MB here."""
MAX_WINDOWS = 500
TOP_KEYS = 10

_PROVIDER = "HDFSBackedStateStoreProvider"
_ENCODING = "spark.sql.streaming.stateStore.encodingFormat"
_CHECKSUM = "spark.sql.streaming.stateStore.rowChecksum.enabled"
_AGGREGATION = "stateStoreSave"
_OTHERS = {
    "symmetricHashJoin": "a stream-stream join",
    "sessionWindowStateStoreSaveExec": "session windows",
    "dedupe": "dropDuplicates",
    "dedupeWithinWatermark": "dropDuplicatesWithinWatermark",
}
_MOST_OPERATORS = 100
_MOST_PARTITIONS = 10_000


class KeyCount(Struct, frozen=True, gc=False):
    """A key of a window, by its columns (None: SQL's null), and the records counted for it."""

    key: tuple[str | None, ...]
    records: int


class OpenWindow(Struct, frozen=True):
    """A window that the state holds (ms); it covers `[start_ms, end_ms)`."""

    start_ms: int
    end_ms: int
    keys: int
    """How many rows the state has for it."""
    records: int | None
    """What the query's own `count` says (the greatest one; counts of a column skip its nulls); None without one."""
    top: tuple[KeyCount, ...] = ()
    """The keys with most records, in falling order; none where there is no count or no other key column."""


class OpenWindows(Struct, frozen=True, kw_only=True):
    """The windows of one stateful operator after a committed batch, those that close first in front."""

    operator: int
    batch: int | None = None
    """The batch after which it was so; older than the last commit when newer state could not be got at."""
    key_columns: tuple[str, ...] = ()
    """The columns of the keys in `top`; expressions have no names of their own."""
    windows: tuple[OpenWindow, ...] = ()
    """At most `MAX_WINDOWS` of them."""
    open: int = 0
    """How many windows there are."""
    keys: int = 0
    """How many rows the state has."""
    reason: str | None = None
    """One line on why nothing is known, or nothing newer than what stands here."""


class OpenWindowsTap:
    """Follows the state of every stateful operator of one checkpoint; a poll reads the deltas of new batches only."""

    def __init__(self, path: Path, *, max_keys: int = MAX_KEYS, top: int = TOP_KEYS) -> None:
        self._state = path / "state"
        self._max_keys = max_keys
        self._top = top
        self._query_id: str | None = None
        self._operators: dict[int, _OperatorTap] = {}

    def poll(self, facts: CheckpointFacts) -> tuple[OpenWindows, ...]:
        """The open windows after the batch that `facts` says is the last committed one, by operator."""
        if facts.query_id not in (None, self._query_id):  # another query now writes to this directory
            self._operators.clear()
            self._query_id = facts.query_id
        try:
            operators = sorted(numbers(self._state))[:_MOST_OPERATORS]
        except UnreadableError:
            return ()
        return tuple(self._operator(number).poll(facts) for number in operators)

    def close(self) -> None:
        """Nothing is held open."""

    def _operator(self, number: int) -> "_OperatorTap":
        if number not in self._operators:
            self._operators[number] = _OperatorTap(self._state / str(number), number, self._max_keys, self._top)
        return self._operators[number]


class _OperatorTap:
    """One operator: what its rows look like, its partitions, and what was last seen."""

    def __init__(self, directory: Path, number: int, max_keys: int, top: int) -> None:
        self._directory = directory
        self._number = number
        self._max_keys = max_keys
        self._top = top
        self._about = Cached(decode_operator, SCHEMA_LIMIT)
        self._schema = Cached(decode_schema, SCHEMA_LIMIT)
        self._rows: _Rows | None = None
        self._partitions: list[PartitionWindows] = []
        self._seen: OpenWindows | None = None
        self._answer: tuple[int, OpenWindows] | None = None
        self._too_many = False

    def poll(self, facts: CheckpointFacts) -> OpenWindows:
        batch = facts.committed
        if self._answer is not None and self._answer[0] == batch:
            return self._answer[1]
        try:
            if batch is None:
                raise UnreadableError("no batch has been committed yet")
            rows, partitions = self._rows_of(facts), _partitions(facts)
        except UnreadableError as error:
            return self._nothing(str(error))
        # A failure is kept too: damaged files are not read again before there are newer ones.
        self._answer = batch, self._read(batch, partitions, rows)
        return self._answer[1]

    def _read(self, batch: int, partitions: int, rows: "_Rows") -> OpenWindows:
        try:
            self._load(batch + 1, partitions, rows)
            self._seen = self._look(batch, rows)
        except VanishedError as error:
            reason = f"{error}: was it purged just now?"
            return replace(self._seen, reason=one_line(reason)) if self._seen else self._nothing(reason)
        except TooManyKeysError:
            self._too_many = True
            self._partitions = []
            return self._nothing(_too_many(self._max_keys))
        except UnreadableError as error:
            return self._nothing(str(error))
        return self._seen

    def _rows_of(self, facts: CheckpointFacts) -> "_Rows":
        """What the rows look like; UnreadableError where they are not those of a windowed aggregation in files."""
        if self._too_many:
            raise UnreadableError(_too_many(self._max_keys))
        _check_settings(facts)
        try:
            _check_operator(self._about.get(self._directory / "_metadata" / "metadata"))
        except VanishedError:
            raise UnreadableError("the operator does not say what it is: it has no _metadata/metadata") from None
        schema = self._schema.get(self._directory / "0" / "_metadata" / "schema")
        rows = _rows(schema, checksummed=facts.conf.get(_CHECKSUM) == "true")
        if self._rows is None or rows.layout != self._rows.layout:
            self._partitions = []
        self._rows = rows
        return rows

    def _load(self, version: int, partitions: int, rows: "_Rows") -> None:
        if len(self._partitions) != partitions:
            directories = (self._directory / str(number) for number in range(partitions))
            self._partitions = [PartitionWindows(path, rows.layout, self._max_keys) for path in directories]
        keys = 0
        for partition in self._partitions:
            partition.load(version)
            keys += partition.keys
            if keys > self._max_keys:
                raise TooManyKeysError

    def _look(self, batch: int, rows: "_Rows") -> OpenWindows:
        windows = {window for partition in self._partitions for window in partition.windows}
        first = heapq.nsmallest(MAX_WINDOWS, windows, key=lambda window: (window[1], window[0]))
        return OpenWindows(
            operator=self._number,
            batch=batch,
            key_columns=tuple(column.name for column in rows.columns),
            windows=tuple(self._window(window, rows) for window in first),
            open=len(windows),
            keys=sum(partition.keys for partition in self._partitions),
        )

    def _window(self, window: Window, rows: "_Rows") -> OpenWindow:
        parts = [part for partition in self._partitions if (part := partition.windows.get(window))]
        counted = bool(rows.layout.counts_at)
        start, end = window
        return OpenWindow(
            start_ms=start // 1000,
            end_ms=end // 1000,
            keys=sum(map(len, parts)),
            records=sum(sum(part.values()) for part in parts) if counted else None,
            top=tuple(rows.top(parts, self._top)) if counted else (),
        )

    def _nothing(self, reason: str) -> OpenWindows:
        return OpenWindows(operator=self._number, reason=one_line(reason))


class _Column(NamedTuple):
    name: str
    text: TextReader


class _Rows(Struct, frozen=True):
    """The rows of a windowed aggregation: where window and counts are, and the other key columns."""

    layout: Layout
    columns: tuple[_Column, ...]

    def top(self, parts: list[dict[bytes, int]], most: int) -> Iterator[KeyCount]:
        """The keys with most records of a window; they are spread over the partitions, none is in two."""
        if not self.columns:
            return
        # Of equal counts the same ones, whatever the order of the files.
        best = [heapq.nlargest(most, part.items(), key=lambda item: (item[1], item[0])) for part in parts]
        merged = heapq.merge(*best, key=lambda item: (item[1], item[0]), reverse=True)
        for key, records in islice(merged, most):
            yield KeyCount(tuple(column.text.read(key) for column in self.columns), records)


def _check_settings(facts: CheckpointFacts) -> None:
    if not facts.conf:
        raise UnreadableError("the query's settings could not be read")
    if facts.state_provider != _PROVIDER:
        name = one_line(facts.state_provider or "unknown", 60).removesuffix("StateStoreProvider")
        raise UnreadableError(f"the state store is {name}: only Spark itself can read it")
    encoding = facts.conf.get(_ENCODING, "unsaferow")
    if encoding != "unsaferow":
        raise UnreadableError(f"the state is encoded as {one_line(encoding, 20)}: only unsaferow is read")


def _check_operator(about: Operator) -> None:
    name = about.operator_info.operator_name
    if name != _AGGREGATION:
        raise UnreadableError(f"{_OTHERS.get(name, one_line(name, 40))}: only windowed aggregations are read")


def _partitions(facts: CheckpointFacts) -> int:
    partitions = facts.shuffle_partitions
    if partitions is None or not 0 < partitions <= _MOST_PARTITIONS:
        raise UnreadableError("over how many partitions the state is spread is not known")
    return partitions


def _rows(schema: StateSchema, *, checksummed: bool) -> _Rows:
    fields = schema.key.fields
    if any(SESSION_WINDOW in field.metadata for field in fields):
        raise UnreadableError("session windows: only windowed aggregations are read")
    windows = [index for index, field in enumerate(fields) if TIME_WINDOW in field.metadata]
    if len(windows) != 1:
        raise UnreadableError("the aggregation is not by a time window")
    window = nested(fields[windows[0]])
    if window is None or [field.type for field in window.fields] not in (["timestamp"] * 2, ["timestamp_ntz"] * 2):
        raise UnreadableError("its time window is of an unknown form")
    layout = Layout(word_at(len(fields), windows[0]), tuple(_counts_at(schema.key, schema.value)), checksummed)
    return _Rows(layout, tuple(_other_columns(schema.key, windows[0])))


def _counts_at(key: RowType, value: RowType) -> Iterator[int]:
    """Where the aggregates named `count` are; in the old format of aggregations the key stands before them."""
    width = len(key.fields)
    names_of_key = [field.name for field in key.fields]
    has_key = [field.name for field in value.fields[:width]] == names_of_key
    for index, field in enumerate(value.fields):
        if field.name == "count" and field.type == "long" and not (has_key and index < width):
            yield word_at(len(value.fields), index)


def _other_columns(key: RowType, window: int) -> Iterator[_Column]:
    for index, field in enumerate(key.fields):
        if index != window:
            yield _Column(one_line(field.name, 60), text_reader(key, index))


def _too_many(limit: int) -> str:
    return f"more than {limit:,} keys in the state: they are not read"
