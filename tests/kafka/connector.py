"""Spark's Kafka connector for tests: it is not in the PySpark wheel, and users give it with `--jars`."""

from pathlib import Path

from wmtop.engine.kafka.local.jars import fetched_jars

ARTIFACTS = {
    "spark-sql-kafka-0-10_2.13": ("org.apache.spark", "4.2.0"),
    "spark-token-provider-kafka-0-10_2.13": ("org.apache.spark", "4.0.0"),
    "kafka-clients": ("org.apache.kafka", "3.9.2"),
    "commons-pool2": ("org.apache.commons", "2.12.1"),
}
"""Their own dependencies are left out: PySpark has them, and Spark's parent POM names a repository of its own."""
_ONE = (
    "<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"
)


def connector_jars() -> list[Path]:
    """The four jars, fetched through Maven where they are not in the user's cache."""
    needed = "".join(_ONE.format(group=g, artifact=a, version=v) for a, (g, v) in ARTIFACTS.items())
    pom = (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>wmtop</groupId>'
        "<artifactId>connector</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{needed}</dependencies></project>"
    )
    return sorted(fetched_jars("spark-kafka-4.2.0", pom, "fetching Spark's Kafka connector", print).glob("*.jar"))
