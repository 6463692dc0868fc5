"""Windows that Spark itself reads: what could not be read is not known, and never none."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from wmtop.engine.run.state_reader import SparkWindows, read_windows
from wmtop.engine.targets.spark.operators import windows_of


def test_state_that_could_not_be_read_is_not_known() -> None:
    gone: Any = None  # a session that is no more
    found = SparkWindows(Path("checkpoint"))._operator(gone, 0, 7)
    shown = windows_of([found], None, None, 5, "no_state")
    assert (shown.open_count, shown.unknown) == (None, "spark_unreadable")


STORE = "spark.sql.streaming.stateStore."
PROVIDERS = "org.apache.spark.sql.execution.streaming.state."


@pytest.mark.parametrize(
    ("provider", "version"),
    [("HDFSBackedStateStoreProvider", "1"), ("RocksDBStateStoreProvider", "1"), ("RocksDBStateStoreProvider", "2")],
)
def test_state_is_read_in_the_format_of_its_checkpoint(
    spark: "SparkSession", tmp_path: Path, provider: str, version: str
) -> None:
    from pyspark.sql import functions as F

    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows.json").write_text('{"t": 5}\n{"t": 12}\n{"t": 17}\n')
    rows = spark.readStream.schema("t long").json(str(tmp_path / "in")).withColumn("ts", F.timestamp_seconds("t"))
    counts = rows.withWatermark("ts", "1 minute").groupBy(F.window("ts", "10 seconds")).count()
    settings = {f"{STORE}providerClass": PROVIDERS + provider, f"{STORE}checkpointFormatVersion": version}
    before = {key: spark.conf.get(key) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        query = counts.writeStream.format("noop").option("checkpointLocation", f"{tmp_path}/cp").start()
        query.processAllAvailable()
        query.stop()
        spark.conf.set(f"{STORE}checkpointFormatVersion", "1" if version == "2" else "2")
        found = read_windows(spark, tmp_path / "cp", 0, 0)
    finally:
        for key, value in before.items():
            spark.conf.set(key, str(value))
    assert [(one.start_ms, one.end_ms, one.records) for one in found.windows] == [(0, 10_000, 1), (10_000, 20_000, 2)]


if TYPE_CHECKING:
    from pyspark.sql import SparkSession
