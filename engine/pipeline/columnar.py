"""The columnar way to process a batch: Spark schedules, and tasks read Arrow columns themselves and group the records.

No row passes through the JVM. The batch's watermarks are sent with the tasks, so a repeated task gives the same groups.
"""

import gc
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec import Struct

from ..core.settings import Settings
from .column_groups import column_groups
from .groups import Levels
from .sources.parquet_rows import NotReadableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROWS = 1 << 20
"""Records grouped at once; small files are combined until they have as many."""


class Work(Struct, frozen=True):
    """The input of every task of a batch."""

    read: Callable[[Any], "Iterator[pa.Table]"]
    settings: Settings
    edges: list[int]
    levels: Levels


def groups_of_shares(spark: "SparkSession", shares: list[list[Any]], work: Work) -> "pa.Table | None":
    """The groups of a batch, one task per share; several rows may have the same key.

    None if Spark's own reader must read the batch.
    """
    answers = spark.sparkContext.parallelize(shares, len(shares)).mapPartitions(_task(work)).collect()
    tables = [pa.ipc.open_stream(answer).read_all() for answer in answers if answer is not None]
    if len(tables) < len(answers):
        return None
    return pa.concat_tables([table for table in tables if table.num_rows] or tables[:1])


def _task(work: Work) -> Callable[[Iterable[list[Any]]], Iterator[bytes | None]]:
    def run(shares: Iterable[list[Any]]) -> Iterator[bytes | None]:
        _spare_modules()
        for share in shares:
            yield groups_of_share(share, work)

    return run


def _spare_modules() -> None:
    """Keep what a worker has imported from the garbage collector, which Spark runs after each task: 15 ms of CPU."""
    if not gc.get_freeze_count():
        gc.freeze()


def groups_of_share(share: list[Any], work: Work) -> bytes | None:
    """The groups as an Arrow stream; None if Spark's own reader must read the share."""
    try:
        groups = [column_groups(rows, work.settings, work.edges, work.levels) for rows in tables_of(share, work.read)]
    except NotReadableError:
        return None
    sink = pa.BufferOutputStream()
    table = pa.concat_tables(groups).unify_dictionaries()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def tables_of(share: list[Any], read: Callable[[Any], "Iterator[pa.Table]"]) -> "Iterator[pa.Table]":
    """The rows of all parts of a share, in tables of about `_ROWS`."""
    waiting: list[pa.Table] = []
    rows = 0
    for part in share:
        for table in read(part):
            waiting.append(table)
            rows += table.num_rows
            if rows >= _ROWS:
                yield pa.concat_tables(waiting)
                waiting, rows = [], 0
    if waiting:
        yield pa.concat_tables(waiting)
