"""How to reach a cluster: the bootstrap address and Kafka's client settings, as both readers understand them."""

import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from ..system.errors import UsageError
from .certificates import TlsMaterial, tls_context, tls_properties
from .security import SECURITY, format_login, parse_login, read_properties, variable_of

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


PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

_OPEN = TIMING | {
    "security.protocol",
    "sasl.mechanism",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.certificates",
    "ssl.keystore.type",
    "ssl.keystore.certificate.chain",
    "ssl.endpoint.identification.algorithm",
}
"""Properties that are not secrets; all other properties are treated as secrets."""


def kafka_config(bootstrap: str, file: Path | None = None) -> KafkaConfig:
    """The settings for the cluster at `bootstrap`, with the security settings of a properties file and the environment.

    Puts secrets into this process's environment, as `WMTOP_KAFKA_…`. UsageError for a missing or wrong setting.
    """
    given = read_properties(file)
    protocol = _one_of("security.protocol", given.get("security.protocol", "PLAINTEXT"), PROTOCOLS)
    properties = {name: value for name, value in given.items() if name not in SECURITY}
    if protocol != "PLAINTEXT":
        properties["security.protocol"] = protocol
    if protocol.startswith("SASL"):
        properties |= _login_properties(given)
    if protocol.endswith("SSL"):
        properties |= tls_properties(given)
    _check_timing(properties)
    config = KafkaConfig(bootstrap, {name: _hidden(name, value) for name, value in properties.items()})
    config.for_python()  # reports an unusable certificate
    return config


def _login_properties(given: Mapping[str, str]) -> dict[str, str]:
    if "sasl.mechanism" not in given:
        raise UsageError(f"sasl.mechanism is missing; set it to {_listed(MECHANISMS)}")
    mechanism = _one_of("sasl.mechanism", given["sasl.mechanism"], MECHANISMS)
    for name in ("sasl.username", "sasl.password"):
        if name not in given:
            raise UsageError(
                f"{name} is missing; set it in --kafka-config, or as {variable_of(name)} (or all in sasl.jaas.config)"
            )
    login = format_login(mechanism, given["sasl.username"], given["sasl.password"])
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": login}


def _one_of(name: str, value: str, known: tuple[str, ...]) -> str:
    if value.upper() not in known:
        raise UsageError(f"{name} '{value[:30]}' is not supported; use {_listed(known)}")
    return value.upper()


def _listed(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _check_timing(properties: Mapping[str, str]) -> None:
    for name in TIMING & properties.keys():
        value = properties[name]
        if not (value.isascii() and value.isdigit()):
            raise UsageError(f"{name} must be a number of ms, e.g. {name}=30000")
        if name == "request.timeout.ms" and not 500 < int(value) < 540_000:  # kafka-python's limits
            raise UsageError(f"{name} must be more than 500 ms and less than 540000 ms")


def _hidden(name: str, value: str) -> str:
    if name in _OPEN:
        return value
    variable = f"WMTOP_{variable_of(name)}"
    os.environ[variable] = value
    if not value.isascii() and os.environ.get("LC_ALL") in ("C", "POSIX"):
        os.environ["LC_ALL"] = "C.UTF-8"  # Python then writes variables as UTF-8, and Java would read them as ASCII
    return reference(variable)
