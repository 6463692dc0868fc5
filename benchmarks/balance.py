"""Balanced reading (`--max-drift`) of a backlog that is skewed: what stays open, what is late, and how long it takes.

Two partitions of the same number of records and the same 100 h of event time. In the first half partition 0 has ten
times as many records a minute of event time as partition 1, in the second half it is the other way round: read at the
same rate, 1 runs ahead by almost half of it. (Partitions that differ by the same factor all along need no balance: a
batch takes of each in proportion to what it has unread.) kafka-python reads; figures are taken after every batch.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from wmtop.engine.kafka.client_settings import KafkaConfig
from wmtop.engine.run.durable_state import StateDirectory
from wmtop.engine.run.query import Run
from wmtop.engine.run.sources.kafka import Kafka
from wmtop.engine.run.sources.kafka_columns import KafkaColumns
from wmtop.engine.system.json_values import JsonPath
from wmtop.engine.verdict.monitor_snapshot import snapshot_of
from wmtop.engine.watermarks.monitor import Monitor, to_save
from wmtop.engine.watermarks.settings import Settings, Tumbling

from .kafka import cluster, fill

TOPIC, RECORDS, HALF_MS, SKEW = "skewed", 40_000, 50 * 3_600_000, 10
START_MS, MEAN_DELAY_MS, DRIFT_MS = 1_700_006_400_000, 120_000, 2 * 3_600_000
SETTINGS = Settings(lateness_ms=300_000, window=Tumbling(600_000))
SIDES = {
    "unbalanced": {},
    "unbalanced, `--batch-records 1250`": {"batch_records": 1_250},
    "`--max-drift 2h`": {"max_drift_ms": DRIFT_MS},
    "`--max-drift 2h --batch-records 1250`": {"max_drift_ms": DRIFT_MS, "batch_records": 1_250},
}


class Peaks(Struct):
    """The greatest of each figure after any batch."""

    batches: int = 0
    open_windows: int = 0
    state_bytes: int = 0
    drift_ms: int = 0
    late: int = 0

    def note(self, monitor: Monitor) -> None:
        """Note that a batch was applied."""
        snapshot = snapshot_of(monitor, name="balance", state="live", wall_ms=0)
        reached = [channel.max_event_ms or START_MS for channel in monitor.channels]
        self.batches += 1
        self.open_windows = max(self.open_windows, snapshot.windows.open_count or 0)
        self.state_bytes = max(self.state_bytes, len(msgspec.json.encode(to_save(monitor))))
        self.drift_ms = max(self.drift_ms, max(reached) - min(reached))
        self.late = max(self.late, snapshot.totals.late or 0)


def skewed(spark: SparkSession) -> DataFrame:
    """Partition 0 has `SKEW` of `SKEW` + 1 of its records in the first half, partition 1 as many in the second."""
    rows = spark.range(0, RECORDS, numPartitions=2).selectExpr(
        "id", "spark_partition_id() as partition", f"pmod(id, {RECORDS // 2}) / {RECORDS // 2} as done"
    )
    rows = rows.selectExpr("*", f"if(partition = 0, {SKEW}, 1) / {SKEW + 1} as first_half")
    event_time = f"if(done < first_half, done / first_half, 1 + (done - first_half) / (1 - first_half)) * {HALF_MS}"
    delay = f"ln(1 - rand(3)) * {MEAN_DELAY_MS}"
    return rows.selectExpr("id", "partition", f"{START_MS}L + cast({event_time} + {delay} as bigint) as ts")


def read(spark: SparkSession, bootstrap: str, options: dict[str, int]) -> tuple[Peaks, float]:
    """Read the whole backlog; returns the greatest figures, and the seconds from the query's start to its end."""
    columns, peaks = KafkaColumns(time=JsonPath(("ts",))), Peaks()
    with tempfile.TemporaryDirectory() as path:
        state = StateDirectory(Path(path))
        state.lock()
        reading: dict[str, Any] = {"reader": "python", "once": True, **options}
        source = Kafka(KafkaConfig(bootstrap), [TOPIC], columns, directory=Path(path, "source"), **reading)
        source.check()
        run = Run(source, SETTINGS, state, None, lambda: peaks.note(run.monitor))
        source.prepare(lambda text: None)
        run.load(spark)
        began = time.perf_counter()
        run.start()
        query: Any = run._query
        query.awaitTermination()
        seconds = time.perf_counter() - began
        assert run.monitor.rows == RECORDS
        run.stop()
        source.close()
        state.unlock()
        return peaks, seconds


def main() -> None:
    """Print the table."""
    print("| reading | batches | open windows | state, JSON | furthest apart | late | time |\n" + "| --- " * 7 + "|")
    with cluster() as (bootstrap, spark):
        fill(bootstrap, TOPIC, 2, skewed(spark))
        read(spark, bootstrap, {})  # Spark and its workers warm up
        for name, options in SIDES.items():
            peaks, seconds = read(spark, bootstrap, options)
            print(
                f"| {name} | {peaks.batches} | {peaks.open_windows} | {peaks.state_bytes / 1000:.0f} kB "
                f"| {peaks.drift_ms / 3_600_000:.1f} h | {peaks.late:,} | {seconds:.1f} s |",
                flush=True,
            )


if __name__ == "__main__":
    main()
