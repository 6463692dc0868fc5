"""The Spark job of `wmtop demo --chain`: delays per carrier, from the topic of flights to the topic of delays.

Each partition of the flights is an input with a watermark of its own, and Spark's is their minimum: an airport without
data holds back the query. Commands on its standard input restart the query: `trigger 30 seconds`, `delay 5 hours`.
"""

import queue
import sys
from functools import partial, reduce
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from ..system.child import obey

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

STARTED = "the query has started"
_SCHEMA = "scheduled TIMESTAMP, departed TIMESTAMP, carrier STRING"
_WINDOW = "10 minutes"
_END = "end"


class SparkJob(Struct, frozen=True, kw_only=True):
    """What the job reads and writes, and how."""

    name: str
    bootstrap: str
    reads: str
    partitions: int
    writes: str
    checkpoint: str
    jars: list[str]
    trigger: str
    delay: str


def spark_command(job: SparkJob) -> list[str]:
    """The command that runs the job as a process."""
    return [sys.executable, "-P", "-m", __name__, msgspec.json.encode(job).decode()]


def _flights(spark: "SparkSession", job: SparkJob, delay: str, partition: int) -> "DataFrame":
    from pyspark.sql import functions as F

    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", job.bootstrap)
        .option("assign", msgspec.json.encode({job.reads: [partition]}).decode())
        .option("startingOffsets", "earliest")
        .load()
    )
    flight = F.from_json(F.col("value").cast("string"), _SCHEMA)
    return records.select(flight.alias("flight")).select("flight.*").withWatermark("scheduled", delay)


def _delays(flights: "DataFrame") -> "DataFrame":
    """The delays of each carrier in each window, as JSON; `time` is the last ms of the window."""
    from pyspark.sql import functions as F

    late_s = F.unix_seconds("departed") - F.unix_seconds("scheduled")
    windows = flights.groupBy(F.window("scheduled", _WINDOW), "carrier")
    delays = windows.agg(F.count("*").alias("flights"), F.round(F.avg(late_s) / 60, 1).alias("delay_minutes"))
    time = (F.unix_millis("window.end") - 1).alias("time")
    return delays.select(
        F.col("carrier").alias("key"), F.to_json(F.struct(time, "carrier", "flights", "delay_minutes")).alias("value")
    )


def _start(spark: "SparkSession", job: SparkJob, trigger: str, delay: str) -> "StreamingQuery":
    flights = map(partial(_flights, spark, job, delay), range(job.partitions))
    return (
        _delays(reduce(lambda one, other: one.union(other), flights))
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", job.bootstrap)
        .option("topic", job.writes)
        .option("checkpointLocation", job.checkpoint)
        .queryName(job.name)
        .trigger(processingTime=trigger)
        .start()
    )


def main() -> None:
    """Run the query until the standard input ends; restart it when a command says so.

    At the end it is stopped: else its last report would look like that of a job that died.
    """
    from ..targets.job import publish
    from .session import build_session

    job = msgspec.json.decode(sys.argv[1], type=SparkJob)
    commands: queue.Queue[str] = queue.Queue()
    obey(commands.put, partial(commands.put, _END))
    # The console of a demo needs no more than two cores.
    spark = build_session(master="local[2]", app_name=job.name, jars=job.jars, log=None)
    publish(spark)
    settings = {"trigger": job.trigger, "delay": job.delay}
    while True:
        query = _start(spark, job, **settings)
        print(STARTED, flush=True)
        what, _, value = commands.get().partition(" ")
        query.stop()
        if what == _END:
            spark.stop()  # passes on that the query has ended
            return
        settings[what] = value


if __name__ == "__main__":
    main()
