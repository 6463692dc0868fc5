"""How to reach a cluster: the bootstrap address and Kafka's own client settings, for both readers."""

from typing import Any

from msgspec import Struct


class KafkaConfig(Struct, frozen=True):
    """A bootstrap address and client properties by their Java names; its text never shows a secret."""

    bootstrap: str
    properties: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"KafkaConfig({self.bootstrap!r}, {sorted(self.properties)})"

    def for_python(self) -> dict[str, Any]:
        """The arguments of kafka-python's clients."""
        return {"bootstrap_servers": self.bootstrap.split(",")}

    def for_connector(self) -> dict[str, str]:
        """The options of Spark's Kafka connector."""
        return {"kafka.bootstrap.servers": self.bootstrap}
