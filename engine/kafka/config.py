"""How to reach a cluster: the bootstrap address and Kafka's client settings, for both readers."""

import logging
import os
import re
from typing import Any

from msgspec import Struct

from ..errors import UsageError
from .security.jaas import parse_login
from .security.tls import TlsMaterial, tls_context

TIMING = frozenset(
    {
        "metadata.max.age.ms",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.timeout.ms",
        "retry.backoff.ms",
    }
)
"""Numeric settings with the same name in kafka-python."""

_REFERENCE = re.compile(r"\$\{env:(\w+)\}")
_FROM_ENVIRONMENT = {
    "kafka.config.providers": "env",
    "kafka.config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
}

# At its lower log levels kafka-python writes requests, passwords included; its warnings come back as errors anyway.
logging.getLogger("kafka").setLevel(logging.WARNING)
logging.getLogger("kafka").addHandler(logging.NullHandler())

FETCH_WAIT_MS = 10
"""How long (ms) the broker may wait for new records before it answers a fetch. At a partition's end a client already
asks for more, and waits for that answer before it asks for another partition's records or for a partition's end: half a
second with Kafka's default.
"""


class KafkaConfig(Struct, frozen=True):
    """A bootstrap address and client properties by their Java names, without secrets.

    A secret is replaced by `reference(variable)` and is in that variable of this process's environment: Spark's JVM and
    workers inherit it, and plans, logs and checkpoints show no secret.
    """

    bootstrap: str
    properties: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"KafkaConfig({self.bootstrap!r}, {sorted(self.properties)})"

    @property
    def protocol(self) -> str:
        """`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`."""
        return self.properties.get("security.protocol", "PLAINTEXT")

    @property
    def servers(self) -> list[str]:
        """The bootstrap addresses: host and port."""
        return self.bootstrap.split(",")

    def value(self, name: str) -> str | None:
        """A property, with a secret's actual value; UsageError if its variable is missing in this process."""
        text = self.properties.get(name)
        found = None if text is None else _REFERENCE.fullmatch(text)
        if found is None:
            return text
        try:
            return os.environ[found.group(1)]
        except KeyError:
            raise UsageError(
                f"{name} of the Kafka cluster is not in the environment: on a cluster set {found.group(1)} for "
                "Spark's executors"
            ) from None

    def login(self) -> tuple[str, str]:
        """User name and password."""
        return parse_login(self.value("sasl.jaas.config") or "")

    def tls(self) -> TlsMaterial:
        """The trusted certificates and the client's own."""
        return TlsMaterial(
            authorities=self.value("ssl.truststore.certificates"),
            authorities_file=self.value("ssl.truststore.location"),
            chain=self.value("ssl.keystore.certificate.chain"),
            key=self.value("ssl.keystore.key"),
            checks_name=self.value("ssl.endpoint.identification.algorithm") != "",
        )

    def for_python(self) -> dict[str, Any]:
        """Arguments for kafka-python's clients."""
        arguments: dict[str, Any] = {"bootstrap_servers": self.servers}
        arguments |= {name.replace(".", "_"): int(self.properties[name]) for name in TIMING & self.properties.keys()}
        if self.protocol != "PLAINTEXT":
            arguments["security_protocol"] = self.protocol
        if self.protocol.startswith("SASL"):
            user, password = self.login()
            arguments["sasl_mechanism"] = self.value("sasl.mechanism")
            arguments["sasl_plain_username"] = user
            arguments["sasl_plain_password"] = _Hidden(password)
        if self.protocol.endswith("SSL"):
            arguments["ssl_context"] = tls_context(self.tls())
        return arguments

    def for_connector(self) -> dict[str, str]:
        """Options for Spark's Kafka connector."""
        options = {"kafka.bootstrap.servers": self.bootstrap}
        options |= {f"kafka.{name}": value for name, value in self.properties.items()}
        if any(_REFERENCE.fullmatch(value) for value in self.properties.values()):
            options |= _FROM_ENVIRONMENT
        return options


def reference(variable: str) -> str:
    """The reference of a property to an environment variable, in the form of Kafka's own clients."""
    return f"${{env:{variable}}}"


class _Hidden(str):
    """A text that is not shown when a client's arguments are printed."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'…'"
