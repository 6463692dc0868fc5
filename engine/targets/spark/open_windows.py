"""The windows and sessions that a query's aggregations hold open, from the files of the HDFS-backed state store.

Anything unreadable is named, never guessed: other state stores, other operators, unknown formats.
"""

import heapq
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import repeat
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ...snapshot import OperatorKind, WindowsUnknown, WindowsUnknownCode
from ...system.errors import one_line
from .checkpoint import SCHEMA_LIMIT, STATE_PROVIDER, CheckpointFacts
from .files import (
    AT_ONCE,
    SESSION_WINDOW,
    TIME_WINDOW,
    AnyPath,
    StateSchema,
    UnreadableError,
    VanishedError,
    decode_file,
    decode_operator,
    decode_schema,
    delay_of,
    names,
    nested,
    numbers,
)
from .state_files import Layout, PartitionWindows, TooManyKeysError, Window, word_at

MAX_KEYS = 1_000_000
"""Keys of one operator, at most: about 250 MB of memory."""
MAX_WINDOWS = 500
MAX_STORED_PARTITIONS = 32
"""Partitions of all operators in a store, at most; each costs two requests per batch."""
MAX_STORED_BYTES = 64 * 1024 * 1024
"""Bytes of an operator's state that are fetched from a store at the start, at most."""

_PROVIDER = "HDFSBackedStateStoreProvider"
_ENCODING = "spark.sql.streaming.stateStore.encodingFormat"
_CHECKSUM = "spark.sql.streaming.stateStore.rowChecksum.enabled"
OPERATOR_KINDS: dict[str, OperatorKind] = {
    "stateStoreSave": "aggregation",
    "StatefulStreamlineAggregate": "aggregation",
    "sessionWindowStateStoreSaveExec": "session",
    "symmetricHashJoin": "join",
    "dedupe": "dedup",
    "dedupeWithinWatermark": "dedup_within_watermark",
    "globalLimit": "limit",
    "applyInPandasWithState": "map_groups_with_state",
    "flatMapGroupsWithState": "map_groups_with_state",
    "transformWithStateExec": "transform_with_state",
    "transformWithStateInPandasExec": "transform_with_state",
    "transformWithStateInPySparkExec": "transform_with_state",
}
"""Spark's names for its stateful operators in `_metadata/metadata` and in progress reports."""
NO_WINDOWS: frozenset[OperatorKind] = frozenset(
    ("join", "dedup", "dedup_within_watermark", "limit", "map_groups_with_state", "transform_with_state")
)
"""Operators whose state has no known windows."""
_MAX_OPERATORS = 100
_MAX_PARTITIONS = 10_000


class StoredWindow(Struct, frozen=True):
    """A window that the state holds (ms); it covers `[start_ms, end_ms)`."""

    start_ms: int
    end_ms: int
    keys: int
    """The number of its rows in the state."""
    records: int | None
    """The query's own `count` (the greatest one; counts of a column skip nulls); None without one."""


class OpenWindows(Struct, frozen=True, kw_only=True):
    """The windows of one stateful operator after a committed batch, those that close first come first."""

    operator: int
    batch: int | None = None
    """The batch after which this was the state; older than the last commit if newer state was not readable."""
    windows: tuple[StoredWindow, ...] = ()
    """At most `MAX_WINDOWS` of them."""
    open: int = 0
    """How many windows there are."""
    keys: int = 0
    """How many rows the state has."""
    kind: OperatorKind | None = None
    """The kind of operator; None: not recorded (Spark before 4.0)."""
    evicts: bool | None = None
    """Whether its rows have a watermark, so that they can be removed; None: not known, as where its kind is not."""
    reason: WindowsUnknown | None = None
    """Why the windows, or newer ones, are not known."""


class NotReadError(UnreadableError):
    """The windows of an operator cannot be read, for a reason that has a code."""

    def __init__(self, code: WindowsUnknownCode, **args: str | int | None) -> None:
        super().__init__(code)
        self.reason = WindowsUnknown(code, args)


def reason_of(error: UnreadableError) -> WindowsUnknown:
    """The reason of an error: its code, or the file's trouble."""
    return (
        error.reason if isinstance(error, NotReadError) else WindowsUnknown("unreadable", {"why": one_line(str(error))})
    )


class OpenWindowsTap:
    """Follows the state of every stateful operator of one checkpoint; a poll reads the deltas of new batches only."""

    def __init__(self, path: AnyPath, *, max_keys: int = MAX_KEYS) -> None:
        self._state = path / "state"
        self._max_keys = max_keys
        self._query_id: str | None = None
        self._operators: dict[int, _OperatorTap] = {}

    def poll(self, facts: CheckpointFacts) -> tuple[OpenWindows, ...]:
        """The open windows after the last committed batch in `facts`, by operator."""
        if facts.query_id not in (None, self._query_id):  # another query now writes to this directory
            self._operators.clear()
            self._query_id = facts.query_id
        try:
            operators = sorted(numbers(self._state))[:_MAX_OPERATORS]
        except VanishedError as error:
            return tuple(operator.vanished(error) for operator in self._operators.values())
        except UnreadableError as error:
            return (OpenWindows(operator=0, reason=reason_of(error)),)
        for number in set(operators) - self._operators.keys():
            self._operators[number] = _OperatorTap(self._state / str(number), number, self._max_keys)
        taps = [self._operators[number] for number in operators]
        if not isinstance(self._state, Path):
            partitions = (facts.shuffle_partitions or 0) * sum(tap.has_windows for tap in taps)
            for tap in taps:
                tap.stored_partitions = partitions
        return tuple(tap.poll(facts) for tap in taps)

    def close(self) -> None:
        """Nothing to close."""


class _OperatorTap:
    """One operator: the layout of its rows, its partitions, and its last windows."""

    def __init__(self, directory: AnyPath, number: int, max_keys: int) -> None:
        self.stored_partitions = 0
        """The partitions of all operators, if they are in a store."""
        self._directory = directory
        self._number = number
        self._max_keys = max_keys
        self._layout: Layout | None = None
        self._partitions: list[PartitionWindows] = []
        self._seen: OpenWindows | None = None
        self._answer: tuple[int, OpenWindows] | None = None
        self._given_up: WindowsUnknown | None = None
        """Why the state is not read again: there is too much of it."""
        self._kind: OperatorKind | None = None
        self._evicts: bool | None = None

    def poll(self, facts: CheckpointFacts) -> OpenWindows:
        batch = facts.committed
        if self._answer is not None and self._answer[0] == batch:
            return self._answer[1]
        try:
            if batch is None:
                is_unreadable = facts.in_flight is None and facts.batch is not None
                raise NotReadError("commits_unreadable" if is_unreadable else "no_batch")
            if self._given_up is not None:
                return self._nothing(self._given_up)
            layout = self._layout_of(facts)
            partitions = facts.shuffle_partitions
            if partitions is None or not 0 < partitions <= _MAX_PARTITIONS:
                raise NotReadError("partitions_unknown")
        except UnreadableError as error:
            return self._nothing(reason_of(error))
        # A failure is kept too: damaged files are not read again before there are newer ones.
        self._answer = batch, self._read(batch, partitions, layout)
        return self._answer[1]

    @property
    def has_windows(self) -> bool:
        """Whether its state has windows, as far as its kind shows."""
        try:
            self._kind = self._kind or self._ask_kind()
        except UnreadableError:
            return True
        return self._kind not in NO_WINDOWS

    def vanished(self, error: VanishedError) -> OpenWindows:
        """The last windows; its state has been removed."""
        reason = WindowsUnknown("vanished", {"why": one_line(str(error))})
        return replace(self._seen, reason=reason) if self._seen else self._nothing(reason)

    def _read(self, batch: int, partitions: int, layout: Layout) -> OpenWindows:
        try:
            self._load(batch + 1, partitions, layout)
            self._seen = self._look(batch, layout)
        except VanishedError as error:
            return self.vanished(error)
        except TooManyKeysError:
            self._partitions = []
            self._given_up = self._given_up or WindowsUnknown("too_many_keys", {"limit": self._max_keys})
            return self._nothing(self._given_up)
        except UnreadableError as error:
            return self._nothing(reason_of(error))
        return self._seen

    def _layout_of(self, facts: CheckpointFacts) -> Layout:
        """The layout of the rows; UnreadableError if they are not rows of windows in files."""
        self._kind = self._kind or self._ask_kind()
        if self._kind in NO_WINDOWS:
            raise NotReadError("no_windows", kind=self._kind)
        _check_settings(facts)
        if self.stored_partitions > MAX_STORED_PARTITIONS:
            raise NotReadError("remote_state", partitions=self.stored_partitions, limit=MAX_STORED_PARTITIONS)
        schema = _schema_of(self._directory)
        self._evicts = _carries_watermark(schema) or (None if self._kind is None else False)
        layout = layout_of(schema, checksummed=facts.conf.get(_CHECKSUM) == "true")
        self._evicts = bool(self._evicts)  # rows with a window are those of an aggregation
        if layout != self._layout:
            self._partitions = []
        self._layout = layout
        return layout

    def _ask_kind(self) -> OperatorKind | None:
        """The kind of operator; before Spark 4.0 it is not recorded: only a join's stores have names of their own."""
        try:
            if "v2" in names(self._directory / "_metadata"):
                return "transform_with_state"
            name = decode_file(self._directory / "_metadata" / "metadata", decode_operator, SCHEMA_LIMIT)
        except VanishedError:
            with suppress(UnreadableError):
                if any(name.endswith("-keyToNumValues") for name in names(self._directory / "0")):
                    return "join"
            return None
        return OPERATOR_KINDS.get(name, "other")

    def _load(self, version: int, partitions: int, layout: Layout) -> None:
        if len(self._partitions) != partitions:
            directories = (self._directory / str(number) for number in range(partitions))
            self._partitions = [PartitionWindows(path, layout, self._max_keys) for path in directories]
        size = sum(partition.bytes_to_load(version) for partition in self._partitions)
        if size > MAX_STORED_BYTES:
            self._given_up = WindowsUnknown("remote_state_size", {"bytes": size, "limit": MAX_STORED_BYTES})
            raise TooManyKeysError
        keys = 0
        with ThreadPoolExecutor(AT_ONCE) as pool:
            ways = self._partitions, repeat(version)
            is_local = isinstance(self._directory, Path)
            for loaded in map(PartitionWindows.load, *ways) if is_local else pool.map(PartitionWindows.load, *ways):
                keys += loaded
                if keys > self._max_keys:
                    raise TooManyKeysError

    def _look(self, batch: int, layout: Layout) -> OpenWindows:
        rows = self._sessions() if layout.session else self._time_windows()
        return OpenWindows(
            operator=self._number,
            batch=batch,
            windows=tuple(
                StoredWindow(start // 1000, end // 1000, keys=keys, records=records if layout.counts_at else None)
                for end, start, keys, records in heapq.nsmallest(MAX_WINDOWS, rows)
            ),
            open=len(rows),
            keys=sum(partition.keys for partition in self._partitions),
            kind="session" if layout.session else self._kind or "aggregation",
            evicts=self._evicts,
        )

    def _time_windows(self) -> list[tuple[int, int, int, int]]:
        """End, start, keys and records of each window; its keys are spread over the partitions."""
        keys: Counter[Window] = Counter()
        records: Counter[Window] = Counter()
        for partition in self._partitions:
            for window, counts in partition.windows.items():
                keys[window] += len(counts)
                records[window] += sum(counts.values())
        return [(end, start, keys[start, end], records[start, end]) for start, end in keys]

    def _sessions(self) -> list[tuple[int, int, int, int]]:
        """The same of each session: two keys may have sessions with the same begin and end."""
        return [
            (end, start, 1, records)
            for partition in self._partitions
            for (start, end), counts in partition.windows.items()
            for records in counts.values()
        ]

    def _nothing(self, reason: WindowsUnknown) -> OpenWindows:
        return OpenWindows(operator=self._number, reason=reason, kind=self._kind, evicts=self._evicts)


def _check_settings(facts: CheckpointFacts) -> None:
    if not facts.conf:
        raise NotReadError("settings_unreadable")
    provider = facts.conf.get(STATE_PROVIDER, "unknown").rpartition(".")[2]
    if provider != _PROVIDER:
        raise NotReadError("state_store", name=one_line(provider, 60).removesuffix("StateStoreProvider"))
    encoding = facts.conf.get(_ENCODING, "unsaferow")
    if encoding != "unsaferow":
        raise NotReadError("state_encoding", name=one_line(encoding, 20))


def carries_watermark(operator: Path) -> bool | None:
    """Whether the rows in an operator's state directory have a watermark; None: not visible."""
    try:
        return _carries_watermark(_schema_of(operator))
    except UnreadableError:
        return None


def _schema_of(operator: AnyPath) -> StateSchema:
    return decode_file(operator / "0" / "_metadata" / "schema", decode_schema, SCHEMA_LIMIT)


def _carries_watermark(schema: StateSchema) -> bool:
    return any(delay_of(field) is not None for field in (*schema.key.fields, *schema.value.fields))


def layout_of(schema: StateSchema, *, checksummed: bool) -> Layout:
    """The places in the rows; UnreadableError if they have no time window."""
    key, value = schema.key.fields, schema.value.fields
    sessions = [index for index, field in enumerate(value) if SESSION_WINDOW in field.metadata]
    at = sessions or [index for index, field in enumerate(key) if TIME_WINDOW in field.metadata]
    row = value if sessions else key
    if len(at) != 1:
        raise NotReadError("several_time_windows" if at else "no_time_window")
    window = nested(row[at[0]])
    if window is None or [field.type for field in window.fields] not in (["timestamp"] * 2, ["timestamp_ntz"] * 2):
        raise NotReadError("time_window_form")
    # A session and its key precede the aggregates; so does the key in the old format of aggregations.
    has_key = bool(sessions) or [field.name for field in value[: len(key)]] == [field.name for field in key]
    counts = [
        word_at(len(value), index)
        for index, field in enumerate(value)
        if field.name == "count" and field.type == "long" and not (has_key and index < len(key))
    ]
    return Layout(
        window_at=word_at(len(row), at[0]), counts_at=tuple(counts), checksummed=checksummed, session=bool(sessions)
    )
