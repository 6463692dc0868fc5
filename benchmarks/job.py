"""A job to attach to: orders of six shops, three of which come late, counted by ten seconds, until stdin ends."""

import sys

from pyspark.sql import functions as F
from wmtop.engine import publish, tap
from wmtop.engine.run.session import build_session, stop_session

SHOPS = ("Oslo", "Lima", "Rome", "Bern", "Kyiv", "Baku")
LATE_S = (2, 8, 20, 36, 48, 84)


def main(directory: str) -> None:
    """Run it, with its checkpoint in `directory`."""
    session = build_session(master="local[2]", app_name="orders by shop")
    publish(session)
    rows = session.readStream.format("rate").option("rowsPerSecond", 120).load()
    number = (F.col("value") % len(SHOPS)).cast("int")
    shop = F.array(*map(F.lit, SHOPS))[number].alias("shop")
    late_ms = (F.array(*map(F.lit, LATE_S))[number] * 1000 + F.rand(7) * 5000).cast("long")
    orders = rows.select(F.timestamp_millis(F.unix_millis("timestamp") - late_ms).alias("ts"), shop)
    orders = tap(orders, "ts", channel="shop", bucket_ms=1000).withWatermark("ts", "30 seconds")
    counts = orders.groupBy(F.window("ts", "10 seconds"), "shop").count()
    writer = counts.writeStream.format("noop").queryName("orders").option("checkpointLocation", directory)
    query = writer.trigger(processingTime="1 second").start()
    sys.stdin.read()
    query.stop()
    stop_session(session)


if __name__ == "__main__":
    main(sys.argv[1])
