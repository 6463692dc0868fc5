"""One pass of native expressions over a micro-batch: groups by channel, pane and lateness bucket.

The levels change from batch to batch, so they are read from a constant array at an index that cannot be folded: the
array is data, and Spark's generated code stays the same (a literal would make it compile again for every batch).

No key is null but the start of malformed rows: Spark's fast hash map takes only groups whose keys are all there.
"""

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ..core.monitor import Monitor
from ..core.observation import BatchObservation, Group, Sequence
from ..core.settings import Session, Settings, Sliding, Tumbling
from ..core.snapshot import Offender
from ..core.times import FIRST_USABLE_MS, MAX
from .sequences import sequences_of
from .sources.base import ARRIVAL, CHANNEL, MARKER, OFFSET, PART, TIME, WATERMARK

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

BEFORE_ALL_MS = FIRST_USABLE_MS - 1
"""Means "no watermark": before every usable event time, and safe from overflow in Spark's arithmetic."""

LONGEST_NAME = 256
"""Longer channel names are cut to so many characters, `~` and 8 digits of their SHA-256."""
_SHORT_NAME_SQL = (
    f"if(length({CHANNEL}) <= {LONGEST_NAME}, {CHANNEL},"
    f" concat(left({CHANNEL}, {LONGEST_NAME}), '~', left(sha2({CHANNEL}, 256), 8)))"
)

NO_BUCKET = -1
"""Of a record that is ahead."""


class Levels(Struct, frozen=True):
    """What a batch starts with: the watermark and W0 (ms), and its processing time where the source is live."""

    level: int
    w0: int
    now_ms: int | None


class Aggregation:
    """The expressions of one run; only `Levels` change from batch to batch."""

    def __init__(self, settings: Settings, edges: list[int], columns: list[str]) -> None:
        self._settings = settings
        self._edges = edges
        self._replay = ARRIVAL in columns
        self._parts = PART in columns
        window = settings.spec
        self._gaps = not isinstance(window, Session) and window.slide_ms > window.size_ms
        self._keys = self._keys_sql()
        self._grouping: tuple[list[Column], list[Column]] | None = None

    def observe(self, batch: "DataFrame", number: int, levels: Levels, monitor: Monitor) -> BatchObservation:
        """Run the one action of a batch (order-dependent strategies: a second one over the cached batch)."""
        ordered = self._settings.strategy in ("smoothed", "custom")
        if ordered:
            batch = batch.persist()
        try:
            measured = self._measured(batch, levels)
            table = self._grouped(measured).toArrow()
            sequences = sequences_of(measured, monitor) if ordered else []
        finally:
            if ordered:
                batch.unpersist()
        return _observation(number, levels, _Columns(table), sequences)

    def warm_up(self, batch: "DataFrame") -> None:
        """Let Spark compile all this before the first batch has to wait for it; `batch` is any rows of the columns."""
        self.grouped(batch, Levels(BEFORE_ALL_MS, BEFORE_ALL_MS, 0)).toArrow()

    def grouped(self, batch: "DataFrame", levels: Levels) -> "DataFrame":
        """The groups of a batch, not yet computed."""
        return self._grouped(self._measured(batch, levels))

    def _measured(self, batch: "DataFrame", levels: Levels) -> "DataFrame":
        from pyspark.sql import functions as F

        return batch.withColumn(CHANNEL, F.expr(_SHORT_NAME_SQL)).selectExpr("*", *self._measures_sql(levels))

    def _grouped(self, measured: "DataFrame") -> "DataFrame":
        keys, aggregates = self._grouping = self._grouping or self._parsed()
        return measured.select("*", *keys).groupBy(CHANNEL, "start", *self._keys).agg(*aggregates)

    def _parsed(self) -> "tuple[list[Column], list[Column]]":
        """The expressions that stay the same, parsed once: the tree of buckets is long."""
        from pyspark.sql import functions as F

        keys = [F.expr(sql).alias(name) for name, sql in self._keys.items()]
        return keys, [F.expr(sql) for sql in self._aggregate_sql()]

    def _measures_sql(self, levels: Levels) -> list[str]:
        """Per record: its pane's start, its distances, and whether the guard keeps it from the generator."""
        window = self._settings.spec
        guard = self._settings.future_guard_ms
        # At MAX every record in a gap is late: `ts + allowed_lateness` saturates there.
        gap_level = MAX if levels.level == MAX else levels.level - self._settings.allowed_lateness_ms
        values = [levels.level, levels.w0, self._late_from(levels), gap_level]
        array = "array(" + ", ".join(f"{max(value, BEFORE_ALL_MS)}L" for value in [*values, levels.now_ms or 0]) + ")"
        level, w0, late_from, gap_limit, now = (
            f"element_at({array}, cast({TIME} & 0L as int) + {index})" for index in range(1, 6)
        )
        arrived = ARRIVAL if self._replay else now
        return [
            f"{_start_sql(window)} as start",
            f"{TIME} <= {level} as is_behind",
            f"{w0} - {TIME} as distance",
            f"{late_from} - {TIME} as late_distance",
            f"{TIME} <= {gap_limit} as is_late_in_gap",
            "false as is_future" if guard is None else f"coalesce({TIME} - {arrived} > {guard}L, false) as is_future",
        ]

    def _late_from(self, levels: Levels) -> int:
        """Minus a timestamp it is `W0 - (own end - 1) - allowed_lateness` of a record in a session or gap."""
        window = self._settings.spec
        own = window.gap_ms - 1 if isinstance(window, Session) else 0
        return levels.w0 - own - self._settings.allowed_lateness_ms

    def _keys_sql(self) -> dict[str, str]:
        """What a group's records share beside channel and start."""
        window = self._settings.spec
        keys: dict[str, str] = {}
        if not isinstance(window, Session) and window.size_ms % window.slide_ms:
            keys["head"] = f"coalesce({TIME} - start < {window.size_ms % window.slide_ms}L, false)"
        if self._edges:
            keys["behind_bucket"] = self._bucket_sql("distance")
            if isinstance(window, Session):
                keys["late_bucket"] = self._bucket_sql("late_distance")
            elif self._gaps:
                keys["late_bucket"] = f"if({keys['head']}, {NO_BUCKET}, {self._bucket_sql('late_distance')})"
        return keys

    def _bucket_sql(self, distance: str) -> str:
        """The left-closed bucket of a distance as a balanced tree of comparisons: exact, and native."""
        return f"if({distance} >= 0L, {_tree_sql(distance, self._edges, 0, len(self._edges))}, {NO_BUCKET})"

    def _aggregate_sql(self) -> list[str]:
        settings = self._settings
        guarded = settings.future_guard_ms is not None
        aggregates = [
            "count(1) as records",
            "sum(if(is_behind, 1, 0)) as behind",
            f"max(if(is_future, null, {TIME})) as max_event_ms" if guarded else f"max({TIME}) as max_event_ms",
            f"max(if({TIME} is null, {OFFSET}, null)) as malformed_offset",
        ]
        if self._parts:
            aggregates.append(f"max_by({PART}, {OFFSET}) filter (where {TIME} is null) as malformed_part")
        if self._gaps:
            aggregates.append("sum(if(is_late_in_gap and not head, 1, 0)) as late_in_gap")
        if guarded:
            aggregates.append("sum(if(is_future, 1, 0)) as future")
            # Longs only: an aggregate over a struct would make Spark sort the batch instead of hashing it.
            aggregates.append(f"max(if(is_future, {OFFSET}, null)) as future_offset")
            aggregates.append(f"max_by({TIME}, coalesce({OFFSET}, 0L)) filter (where is_future) as future_ms")
            if self._parts:
                aggregates.append(f"max_by({PART}, {OFFSET}) filter (where is_future) as future_part")
        if isinstance(settings.spec, Session):
            aggregates += [f"min({TIME}) as min_ms", f"max({TIME}) as max_ms"]
        if self._replay:
            aggregates.append(f"max({ARRIVAL}) as arrival")
        if settings.strategy == "punctuated":
            aggregates.append(f"max(if({MARKER} and not is_future, {TIME} - 1L, null)) as emitted_ms")
        if settings.strategy == "source":
            usable = f"not is_future and {TIME} is not null"
            aggregates.append(f"max(if({usable}, {WATERMARK}, null)) as emitted_ms")
        return aggregates


class _Columns:
    """The groups as Python lists, a column each; a column that was not asked for repeats `default`."""

    def __init__(self, table: "pa.Table") -> None:
        self.rows = table.num_rows
        self._lists: dict[str, list[Any]] = {name: table[name].to_pylist() for name in table.column_names}

    def get(self, name: str, default: Any = None) -> list[Any]:
        return self._lists.get(name) or [default] * self.rows

    def buckets(self, name: str) -> list[int | None]:
        return [None if bucket == NO_BUCKET else bucket for bucket in self.get(name)]

    def last(self, offset: str) -> int | None:
        """The row with the greatest value in a column of offsets; any row where a source has none."""
        known = [(value, row) for row, value in enumerate(self.get(offset)) if value is not None]
        return max(known)[1] if known else None


def _observation(number: int, levels: Levels, columns: _Columns, sequences: list[Sequence]) -> BatchObservation:
    arrivals = [arrival for arrival in columns.get("arrival") if arrival is not None]
    return BatchObservation(
        batch=number,
        now_ms=levels.now_ms if levels.now_ms is not None else max(arrivals, default=None),
        groups=list(
            map(
                Group,
                columns.get(CHANNEL),
                columns.get("start"),
                columns.get("head", False),
                columns.get("records"),
                columns.get("future", 0),
                [behind or 0 for behind in columns.get("behind")],
                columns.get("late_in_gap", 0),
                columns.get("min_ms", 0),
                columns.get("max_ms", 0),
                columns.get("max_event_ms"),
                columns.get("emitted_ms"),
                columns.buckets("behind_bucket"),
                columns.buckets("late_bucket"),
            )
        ),
        sequences=sequences,
        last_future=_last_future(columns),
        last_malformed=_last_malformed(columns),
    )


def levels_of(monitor: Monitor, now_ms: int | None) -> Levels:
    """What the next batch starts with."""
    return Levels(monitor.level, monitor.w0, now_ms)


def _start_sql(window: Tumbling | Sliding | Session) -> str:
    if isinstance(window, Session):
        return f"{TIME} - pmod({TIME}, {window.gap_ms}L)"
    return f"{TIME} - pmod({TIME} - {window.offset_ms}L, {window.slide_ms}L)"


def _tree_sql(distance: str, edges: list[int], first: int, last: int) -> str:
    if last - first == 1:
        return str(first)
    middle = (first + last) // 2
    below, above = _tree_sql(distance, edges, first, middle), _tree_sql(distance, edges, middle, last)
    return f"if({distance} < {edges[middle]}L, {below}, {above})"


def _last_future(columns: _Columns) -> Offender | None:
    rows = [row for row, future in enumerate(columns.get("future", 0)) if future]
    if not rows:
        return None
    row = columns.last("future_offset")
    row = rows[-1] if row is None else row
    part = _text(columns.get("future_part")[row])
    return Offender(columns.get(CHANNEL)[row], columns.get("future_offset")[row], columns.get("future_ms")[row], part)


def _last_malformed(columns: _Columns) -> Offender | None:
    rows = [row for row, start in enumerate(columns.get("start")) if start is None]
    if not rows:
        return None
    row = columns.last("malformed_offset")
    row = rows[-1] if row is None else row
    part = _text(columns.get("malformed_part")[row])
    return Offender(columns.get(CHANNEL)[row], columns.get("malformed_offset")[row], None, part)


def _text(part: int | None) -> str | None:
    return None if part is None else str(part)
