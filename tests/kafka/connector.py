"""Spark's Kafka connector for tests: it is not in the PySpark wheel, and users give it with `--jars`."""

from pathlib import Path

from wmtop.engine.system.java import fetched_jars

ARTIFACTS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.12.1",
)


def connector_jars() -> list[Path]:
    """The four jars, fetched through Maven where they are not in the user's cache. Their own dependencies are left out:
    PySpark has them, and Spark's parent POM names a repository of its own.
    """
    doing, instead = "fetching Spark's Kafka connector", "leave these tests out"
    jars = fetched_jars(
        "spark-kafka-4.2.0", ARTIFACTS, doing, print, what="Spark's connector", instead=instead, alone=True
    )
    return sorted(jars.glob("*.jar"))
