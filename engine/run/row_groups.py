"""Groups records given as Spark's rows, in one pass of native expressions: by channel, pane and lateness bucket; and
says which of them are late.

Strategies for which order matters (`smoothed`, a user's own) also get each channel's records in order.
"""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# (pyarrow is only partly typed.)

import math
import os
import pickle
import sys
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ..system.errors import UsageError
from ..watermarks.generators import CustomGenerator, load_factory, new_generator
from ..watermarks.monitor import Monitor
from ..watermarks.observation import BatchObservation, Sequence
from ..watermarks.settings import Session, Settings, Sliding, Tumbling
from ..watermarks.times import MAX
from ..watermarks.window_operator import LateRecords
from .column_groups import short_name
from .groups import (
    BEFORE_ALL_MS,
    FLAGS,
    MAX_NAME,
    NO_BUCKET,
    Levels,
    keys_of,
    late_until,
    limits_of,
    observation_of,
    starts_every,
)
from .sources.base import ARRIVAL, CHANNEL, MARKER, OFFSET, PART, TIME, WATERMARK
from .tasks import apply_in_arrow

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


ORDERED = frozenset({"smoothed", "custom"})
"""The strategies for which the order of a channel's records matters."""
SHORT_NAME_SQL = (
    f"if(octet_length({CHANNEL}) <= {MAX_NAME} or length({CHANNEL}) <= {MAX_NAME}, {CHANNEL},"
    f" concat(left({CHANNEL}, {MAX_NAME}), '~', left(sha2({CHANNEL}, 256), 8)))"
)
"""Cuts long names; the cheap byte length comes first, since counting characters is expensive."""
LATE_CHANNEL, LATE_TIME, LATE_WATERMARK, LATE_WINDOW_END, LATE_BY = ADDED = (
    "wmtop_channel",
    "wmtop_time_ms",
    "wmtop_watermark_ms",
    "wmtop_window_end_ms",
    "wmtop_late_by_ms",
)
"""Columns added to a late record's own (all bigint ms except the channel): the watermark that dropped it (as shown:
plus 1 under Spark's rule; null after the end of stream), the end of its last window (null in a gap between windows),
and the watermark minus that window's greatest timestamp (in a gap: minus the record's own).
"""
_PACKED = "packed"


def check_custom(factory: str) -> None:
    """Make one generator and check that it has both entry points and can be pickled; UsageError otherwise."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # where a user's own module is
    try:
        generator = load_factory(factory)()
        pickle.loads(pickle.dumps(generator))
    except Exception as error:
        raise UsageError(
            f"--strategy {factory}: {type(error).__name__}: {error}; it must return a picklable object"
        ) from None
    for method in ("on_event", "on_periodic_emit"):
        if not callable(getattr(generator, method, None)):
            raise UsageError(f"--strategy {factory}: its result has no method {method}(…); see docs/run.md")


def ship_custom(spark: "SparkSession", factory: str) -> None:
    """Send the factory's module to the workers if it is in the current directory, where they do not look."""
    file = sys.modules[factory.partition(":")[0]].__file__
    if file is not None and Path(file).parent == Path.cwd():
        spark.sparkContext.addPyFile(file)


def sequences_of(batch: "DataFrame", monitor: Monitor) -> list[Sequence]:
    """One `Sequence` for each channel with records that reach its generator (`smoothed`, `custom`)."""
    # Without offsets, the order is that in which Spark reads.
    usable = batch.where(f"{TIME} is not null and not is_future").selectExpr(
        CHANNEL, f"coalesce({OFFSET}, monotonically_increasing_id()) as position", TIME
    )
    return _last_timestamps(usable, monitor) if monitor.settings.strategy == "smoothed" else _replayed(usable, monitor)


def _last_timestamps(usable: "DataFrame", monitor: Monitor) -> list[Sequence]:
    """The last N timestamps of each channel, as native expressions: Spark keeps only the top N while it sorts."""
    from pyspark.sql import functions as F

    ranked = usable.selectExpr(
        "*", f"row_number() over (partition by {CHANNEL} order by position desc) as number"
    ).where(f"number <= {monitor.settings.smooth}")
    last = ranked.groupBy(CHANNEL).agg(
        F.expr(f"transform(sort_array(collect_list(struct(position, {TIME}))), pair -> pair.{TIME}) as timestamps")
    )
    return [Sequence(row[CHANNEL], timestamps=row["timestamps"]) for row in last.toArrow().to_pylist()]


def _replayed(usable: "DataFrame", monitor: Monitor) -> list[Sequence]:
    """The sequences of a user's generator, which needs every record: it runs where the records are, over Arrow, a
    channel per call.
    """
    fresh = new_generator(monitor.settings)
    assert isinstance(fresh, CustomGenerator)
    states = {
        name: generator.state
        for name, generator in monitor.generators().items()
        if isinstance(generator, CustomGenerator)
    }
    runner, schema = _runner(states, fresh.state), f"{CHANNEL} string, state binary, emitted_ms bigint"
    rows = apply_in_arrow(usable, CHANNEL, runner, schema)
    return [
        Sequence(row[CHANNEL], state=row["state"], emitted_ms=row["emitted_ms"]) for row in rows.toArrow().to_pylist()
    ]


def _runner(states: dict[str, bytes], fresh: bytes) -> Any:
    def run(records: "pa.Table") -> "pa.Table":
        import pyarrow as pa

        channel = records[CHANNEL][0].as_py()
        generator = pickle.loads(states.get(channel, fresh))
        emitted: int | None = None
        in_order: list[int] = records.sort_by("position")[TIME].to_pylist()  # pyright: ignore
        for timestamp in in_order:
            try:
                sent = generator.on_event(timestamp)
            except Exception as error:  # a message alone may be one word; workers may be without our modules
                text = " ".join(f"{type(error).__name__}: {error}".split())
                raise RuntimeError(f"the strategy's on_event raised {text}") from error
            if sent is not None and (emitted is None or sent > emitted):
                emitted = sent
        return pa.table(
            {CHANNEL: [channel], "state": [pickle.dumps(generator)], "emitted_ms": [emitted]},
            schema=pa.schema([(CHANNEL, pa.string()), ("state", pa.binary()), ("emitted_ms", pa.int64())]),
        )

    return run


class Aggregation:
    """The expressions of one run; only `Levels` change from batch to batch.

    `channel_of_part`: the name of a part's channel, if channels are the source's parts; `part_name`: a part's name.
    """

    def __init__(
        self,
        settings: Settings,
        edges: list[int],
        columns: list[str],
        channel_of_part: Callable[[int], str] | None = None,
        part_name: Callable[[int], str] | None = None,
    ) -> None:
        self._settings = settings
        self._edges = edges
        self._replay = ARRIVAL in columns
        self._channel_of_part = channel_of_part
        self._part_name = part_name or str
        self._others = [name for name in columns if name != CHANNEL]
        self._parts = PART in columns and channel_of_part is None
        self._shape = keys_of(settings, edges)
        self._packs = math.prod(self._shape.sizes.values()) <= starts_every(settings)[0]

    def observe(self, batch: "DataFrame", number: int, levels: Levels, monitor: Monitor) -> BatchObservation:
        """Run the one action of a batch (order-dependent strategies: a second one over the cached batch)."""
        ordered = self._settings.strategy in ORDERED
        if ordered:
            batch = batch.persist()
        try:
            table = self.table(batch, levels)
            sequences = sequences_of(self._measured(batch, levels), monitor) if ordered else []
        finally:
            if ordered:
                batch.unpersist()
        return observation_of(table, number, levels, sequences, self._part_name)

    def grouped(self, batch: "DataFrame", levels: Levels) -> "DataFrame":
        """The groups of a batch as Spark computes them, with packed keys; lazy."""
        keys, aggregates = self._parsed
        channel = CHANNEL if self._channel_of_part is None else PART
        names = [_PACKED] if self._packs else ["start", *self._shape.sizes]
        return self._measured(batch, levels).select("*", *keys).groupBy(channel, *names).agg(*aggregates)

    def table(self, batch: "DataFrame", levels: Levels) -> Any:
        """The groups of a batch, in the columns of `groups`."""
        table: Any = self.grouped(batch, levels).toArrow()
        if self._packs:
            table = self._with_keys(table)
        if self._channel_of_part is None:
            return table
        parts = table[PART].combine_chunks().dictionary_encode()
        names = [short_name(self._channel_of_part(part)) for part in parts.dictionary.to_pylist()]
        channels = pa.DictionaryArray.from_arrays(parts.indices, pa.array(names, pa.string()))
        return table.set_column(table.schema.get_field_index(PART), CHANNEL, channels)

    def _measured(self, batch: "DataFrame", levels: Levels) -> "DataFrame":
        return batch.selectExpr(*self._others, f"{SHORT_NAME_SQL} as {CHANNEL}", *self._measures_sql(levels))

    def _with_keys(self, table: Any) -> Any:
        """The table with the keys that `_PACKED` holds."""
        every, offset = starts_every(self._settings)
        packed = table[_PACKED].combine_chunks()
        malformed = packed.is_null().to_numpy(zero_copy_only=False)
        values = packed.fill_null(offset).to_numpy()
        numbers = np.mod(values - offset, every)
        table = table.drop_columns(_PACKED)
        table = table.append_column("start", pa.array(values - numbers, pa.int64(), mask=malformed))
        for name, size in reversed(self._shape.sizes.items()):
            numbers, key = np.divmod(numbers, size)
            table = table.append_column(name, pa.array(key == 1 if name in FLAGS else key + NO_BUCKET))
        return table

    @cached_property
    def _parsed(self) -> "tuple[list[Column], list[Column]]":
        """The constant expressions for the keys and the aggregates, parsed once: the tree of buckets is long."""
        from pyspark.sql import functions as F

        keys = self._keys_sql()
        if self._packs:
            # The start plus one number for all other keys, which is less than the distance between two starts.
            number = "0L"
            for name, size in self._shape.sizes.items():
                value = f"if({name}, 1L, 0L)" if name in FLAGS else f"({name} - {NO_BUCKET})"
                number = f"({number} * {size}L + {value})"
            keys[_PACKED] = f"start + {number}"
        return [F.expr(sql).alias(name) for name, sql in keys.items()], [F.expr(sql) for sql in self._aggregate_sql()]

    def _measures_sql(self, levels: Levels) -> list[str]:
        """Per record: its pane's start, its distances, and whether the future guard keeps it from the generator."""
        window = self._settings.spec
        guard = self._settings.future_guard_ms
        limits = limits_of(self._settings, levels)
        values = [limits.level, limits.w0, limits.late_from, limits.gap, levels.latest_ms or 0]
        array = "array(" + ", ".join(f"{max(value, BEFORE_ALL_MS)}L" for value in values) + ")"
        level, w0, late_from, gap_limit, now = (
            f"element_at({array}, cast({TIME} & 0L as int) + {index})" for index in range(1, 6)
        )
        arrived = ARRIVAL if self._replay else now
        return [
            f"{start_sql(window)} as start",
            f"coalesce({TIME} <= {level}, false) as is_behind",
            f"{w0} - {TIME} as distance",
            f"{late_from} - {TIME} as late_distance",
            f"{TIME} <= {gap_limit} as is_late_in_gap",
            "false as is_future" if guard is None else f"coalesce({TIME} - {arrived} > {guard}L, false) as is_future",
        ]

    def _keys_sql(self) -> dict[str, str]:
        """The keys besides channel and start, and the measured flags."""
        shape = self._shape
        late = self._bucket_sql("late_distance")
        head = "is_late_in_gap" if self._settings.late_alone else f"{TIME} - start < {shape.head_ms}L"
        keys = {
            "head": f"coalesce({head}, false)",
            "behind_bucket": self._bucket_sql("distance"),
            "late_bucket": f"if({TIME} - start < {shape.head_ms}L, {NO_BUCKET}, {late})" if shape.gaps else late,
        }
        return {name: sql for name, sql in keys.items() if name in shape.sizes}

    def _bucket_sql(self, distance: str) -> str:
        """The left-closed bucket of a distance as a balanced tree of comparisons: exact, and native."""
        if not self._edges:
            return str(NO_BUCKET)
        return f"if({distance} >= 0L, {_tree_sql(distance, self._edges, 0, len(self._edges))}, {NO_BUCKET})"

    def _aggregate_sql(self) -> list[str]:
        settings = self._settings
        odd = f"is_future or {TIME} is null"
        # Longs only: an aggregate over a struct would make Spark sort the batch instead of hashing it.
        aggregates = [
            "count(1) as records",
            f"max({TIME}) as max_event_ms",
            f"max(if({odd}, {OFFSET}, null)) as last_offset",
        ]
        if self._parts:
            aggregates.append(f"max_by({PART}, {OFFSET}) filter (where {odd}) as last_part")
        if self._shape.gaps:
            aggregates.append("sum(if(is_late_in_gap and not head, 1, 0)) as late_in_gap")
        if settings.future_guard_ms is not None:
            aggregates.append(f"max_by({TIME}, coalesce({OFFSET}, 0L)) filter (where is_future) as future_ms")
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


def late_rows(batch: "DataFrame", settings: Settings, late: LateRecords) -> "DataFrame":
    """The late records of a batch, with `ADDED` besides the columns of `batch`."""
    from pyspark.sql import functions as F

    level = shown = _constant(late.level)
    if settings.strategy == "spark":
        shown = f"{level} + 1L"
    if late.level == MAX:  # never shown as a number
        level = shown = "cast(null as bigint)"
    rows = batch.withColumn(CHANNEL, F.expr(SHORT_NAME_SQL)).selectExpr("*", f"{start_sql(settings.spec)} as _start")
    in_windows = _late_in_sessions if isinstance(settings.spec, Session) else _late_in_windows
    return in_windows(rows, settings, late).selectExpr(
        *batch.columns,
        f"{CHANNEL} as {LATE_CHANNEL}",
        f"{TIME} as {LATE_TIME}",
        f"{shown} as {LATE_WATERMARK}",
        f"_end as {LATE_WINDOW_END}",
        f"try_subtract({level}, coalesce(_end - 1L, {TIME})) as {LATE_BY}",
    )


def _late_in_windows(rows: "DataFrame", settings: Settings, late: LateRecords) -> "DataFrame":
    """The rows whose last window is gone, with its end (`_end`); `_start` is the start of their pane."""
    window = settings.spec
    assert not isinstance(window, Session)
    end = f"_start + {window.size_ms}L"
    if window.slide_ms > window.size_ms:
        end = f"if({TIME} < {end}, {end}, null)"
    limit = late_until(settings, late.level)
    return rows.selectExpr("*", f"{end} as _end").where(f"coalesce(_end - 1L, {TIME}) <= {_constant(limit)}")


def _late_in_sessions(rows: "DataFrame", settings: Settings, late: LateRecords) -> "DataFrame":
    """The same of sessions."""
    sessions = late.sessions or {}
    cells = pa.table(
        {"_start": pa.array(list(sessions), pa.int64()), "_end": pa.array(list(sessions.values()), pa.int64())}
    )
    created = rows.sparkSession.createDataFrame(cells)  # pyright: ignore[reportArgumentType, reportCallIssue]
    rows = rows.join(created.hint("broadcast"), "_start")  # pyright: ignore[reportUnknownMemberType]
    return rows.where(f"{TIME} <= {_constant(late_until(settings, late.level))}") if settings.late_alone else rows


def _constant(value: int) -> str:
    """A number that Spark reads from data at run time instead of compiling it into the code."""
    return f"element_at(array({value}L), cast({TIME} & 0L as int) + 1)"


def start_sql(window: Tumbling | Sliding | Session) -> str:
    if isinstance(window, Session):
        return f"{TIME} - pmod({TIME}, {window.gap_ms}L)"
    return f"{TIME} - pmod({TIME} - {window.offset_ms}L, {window.slide_ms}L)"


def _tree_sql(distance: str, edges: list[int], first: int, last: int) -> str:
    if last - first == 1:
        return str(first)
    middle = (first + last) // 2
    below, above = _tree_sql(distance, edges, first, middle), _tree_sql(distance, edges, middle, last)
    return f"if({distance} < {edges[middle]}L, {below}, {above})"
