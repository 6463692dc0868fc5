"""The jars of a Kafka broker."""

from collections.abc import Callable
from pathlib import Path

from ...maven import fetched_jars

KAFKA_VERSION = "4.1.0"
# Kafka logs through slf4j and has no logger of its own: the simple one needs no configuration file.
_ARTIFACTS = (f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}", "org.slf4j:slf4j-simple:1.7.36")


def kafka_jars(report: Callable[[str], None] = lambda text: None) -> Path:
    """The directory of a broker's jars, fetched (45 MB) if they are missing; errors as in `fetched_jars`."""
    return fetched_jars(
        f"kafka-{KAFKA_VERSION}",
        _ARTIFACTS,
        f"fetching Kafka {KAFKA_VERSION} (45 MB, once)",
        report,
        what="a local Kafka broker",
        instead="give a running broker: wmtop run kafka BOOTSTRAP TOPIC",
    )
