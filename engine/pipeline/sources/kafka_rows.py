"""Kafka records read by tasks as Arrow columns, not through Spark: the partitions, and their records' timestamps.

It runs in Spark's workers, and imports little.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (pyarrow is only partly typed.)

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from msgspec import Struct

from ...kafka.offsets import Positions, TopicPartition, parse_offsets
from .base import CHANNEL, OFFSET, TIME
from .capabilities import Batch
from .kafka_stream import OffsetRange, ReaderOptions, ranges_of, read_range
from .shares import divided

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class ChannelRange(NamedTuple):
    """A range of offsets, and the channel that its partition is."""

    offsets: OffsetRange
    channel: str


class KafkaRows(Struct, frozen=True):
    """Reads ranges in the canonical columns; pickled to the tasks."""

    options: ReaderOptions

    def __call__(self, wanted: ChannelRange) -> "Iterator[pa.Table]":
        """The records of the range as tables, at least one."""
        nothing = np.zeros(0, np.int64)
        yield _table(wanted.channel, nothing, nothing)
        for records in read_range(self.options, wanted.offsets):
            yield _table(wanted.channel, records.offsets, records.timestamps)


def _table(channel: str, offsets: Any, timestamps: Any) -> "pa.Table":
    return pa.table(
        {
            CHANNEL: pa.DictionaryArray.from_arrays(np.zeros(len(offsets), np.int32), pa.array([channel])),
            TIME: pa.array(timestamps, pa.int64(), mask=timestamps < 0),
            OFFSET: pa.array(offsets, pa.int64()),
        }
    )


class KafkaRanges(Struct, frozen=True):
    """A `ColumnReader` of topics whose channels are partitions: Spark plans offsets, tasks read between them."""

    frame: Any
    read: KafkaRows
    first: Positions
    """Where the run starts."""
    channel_of: Callable[[TopicPartition], str]
    rows_of: "Callable[[DataFrame], DataFrame]"
    """The frame in the canonical columns."""
    explained: None = None

    def shares(self, batch: Batch) -> list[list[ChannelRange]]:
        """The batch's ranges, divided among as many tasks as there are cores."""
        if batch.begins is None:
            return []  # Spark knows
        tasks = self.read.options.tasks
        ranges = ranges_of(self._positions(batch.begins), self._positions(batch.ends), tasks)
        named = [ChannelRange(part, self.channel_of(TopicPartition(part.topic, part.partition))) for part in ranges]
        return divided(named, tasks, lambda part: part.offsets.end - part.offsets.start)

    def rows(self, batch: Batch) -> "DataFrame":
        """The batch's records as Spark reads them."""
        return self.rows_of(batch.frame)

    def _positions(self, offsets: list[str]) -> Positions:
        return next((found for text in offsets if (found := parse_offsets(text)) is not None), self.first)
