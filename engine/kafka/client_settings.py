"""How to reach a cluster: the bootstrap address and Kafka's client settings, as both readers understand them.

The settings come from a properties file and the environment, under Java's names; logins are in Java's form.
"""

import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import javaproperties
from msgspec import Struct

from ..system.errors import UsageError, keep_secret
from ..system.files import read_small
from .certificates import tls_context, tls_properties

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
_VALUE = r"""(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[\w$.-]+)"""
_LOGIN = re.compile(
    rf"\s*(?P<module>{_VALUE})\s+[\w$.-]+(?P<options>(?:\s*[\w$.-]+\s*=\s*{_VALUE})*)\s*;\s*", re.DOTALL
)
_OPTION = re.compile(rf"(?P<name>[\w$.-]+)\s*=\s*(?P<value>{_VALUE})", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_LETTERS = {"n": "\n", "r": "\r", "t": "\t"}
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_JAVA_NAMES = {
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
}
_ALTERNATIVES = (
    ("ssl.truststore.location", "ssl.truststore.certificates"),
    (
        "ssl.keystore.location",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.certificate.location",
        "ssl.key.location",
    ),
)
"""Alternatives: if the file sets one of them, the environment's are ignored."""
SECURITY = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.jaas.config",
    "sasl.username",
    "sasl.password",
    "ssl.truststore.type",
    "ssl.truststore.password",
    "ssl.keystore.type",
    "ssl.keystore.password",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
    *_ALTERNATIVES[0],
    *_ALTERNATIVES[1],
    *_JAVA_NAMES,
)
_OURS = {
    "bootstrap.servers",
    "metadata.broker.list",
    "group.id",
    "group.instance.id",
    "auto.offset.reset",
    "enable.auto.commit",
    "auto.commit.interval.ms",
    "isolation.level",
    "key.deserializer",
    "value.deserializer",
    "key.serializer",
    "value.serializer",
    "interceptor.classes",
}
"""Properties that wmtop sets itself: it joins no group and reads committed records."""
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_NO_PORT = re.compile(r":(?![0-9]{1,5}(?:,|$))([^:,\]]*)(?:,|$)")

_ANSWERS_WITHIN_MS = "20000"
_WAITS = ("kafka.request.timeout.ms", "kafka.default.api.timeout.ms", "kafkaConsumer.pollTimeoutMs")
"""How long (ms) Spark's connector waits for a partition: by default up to two minutes for one that was deleted."""


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
        match = None if text is None else _REFERENCE.fullmatch(text)
        if match is None:
            return text
        try:
            return os.environ[match.group(1)]
        except KeyError:
            raise UsageError(
                f"{name} of the Kafka cluster is not in the environment: on a cluster set {match.group(1)} for "
                "Spark's executors"
            ) from None

    def login(self) -> tuple[str, str]:
        """User name and password."""
        return parse_login(self.value("sasl.jaas.config") or "")

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
            arguments["ssl_context"] = tls_context(self.value)
        return arguments

    def for_connector(self) -> dict[str, str]:
        """Options for Spark's Kafka connector."""
        options = {"kafka.bootstrap.servers": self.bootstrap}
        options |= {f"kafka.{name}": value for name, value in self.properties.items()}
        options |= dict.fromkeys(_WAITS, self.properties.get("request.timeout.ms", _ANSWERS_WITHIN_MS))
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


def kafka_config(bootstrap: str, file: Path | None = None) -> KafkaConfig:
    """The settings for the cluster at `bootstrap`, with the security settings of a properties file and the environment.

    Puts secrets into this process's environment, as `WMTOP_KAFKA_…`. UsageError for a missing or wrong setting.
    """
    if "@" in bootstrap:
        raise UsageError(
            "a login in an address shows in process lists; set KAFKA_SASL_USERNAME, …_PASSWORD or --kafka-config",
            code="login",
        )
    if no_port := _NO_PORT.search(bootstrap):
        raise UsageError(f"{bootstrap}: '{no_port[1]}' is not a port; give HOST:PORT, e.g. localhost:9092", code="port")
    settings = read_properties(file)
    keep_secret(*(value for name, value in settings.items() if name.endswith(("password", ".key"))))
    protocol = _one_of("security.protocol", settings.get("security.protocol", "PLAINTEXT"), PROTOCOLS)
    properties = {name: value for name, value in settings.items() if name not in SECURITY}
    if protocol != "PLAINTEXT":
        properties["security.protocol"] = protocol
    if protocol.startswith("SASL"):
        properties |= _login_properties(settings)
    if protocol.endswith("SSL"):
        properties |= tls_properties(settings)
    _check_timing(properties)
    config = KafkaConfig(bootstrap, {name: _hidden(name, value) for name, value in properties.items()})
    config.for_python()  # reports an unusable certificate
    return config


def _login_properties(settings: Mapping[str, str]) -> dict[str, str]:
    if "sasl.mechanism" not in settings:
        raise UsageError(f"sasl.mechanism is missing; set it to {_listed(MECHANISMS)}")
    mechanism = _one_of("sasl.mechanism", settings["sasl.mechanism"], MECHANISMS)
    for name in ("sasl.username", "sasl.password"):
        if name not in settings:
            raise UsageError(
                f"{name} is missing; set it in --kafka-config, or as {variable_of(name)} (or all in sasl.jaas.config)"
            )
    login = format_login(mechanism, settings["sasl.username"], settings["sasl.password"])
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
        if not re.fullmatch("[0-9]{1,18}", value):
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


def parse_login(text: str) -> tuple[str, str]:
    """User name and password; ValueError, without the secrets, if the text is not a login with both."""
    login = _LOGIN.fullmatch(text)
    if login is None:
        raise ValueError("""is not '…LoginModule required username="…" password="…";'""")
    if not _plain(login["module"]).endswith(tuple(name.rpartition(".")[2] for name in _MODULES.values())):
        raise ValueError("has an unsupported login module; use PlainLoginModule or ScramLoginModule")
    fields = {option["name"]: _plain(option["value"]) for option in _OPTION.finditer(login["options"])}
    if fields.get("tokenauth", "").lower() == "true":
        raise ValueError("asks for a delegation token, which is not supported")
    for name in ("username", "password"):
        if not fields.get(name):
            raise ValueError(f"has no {name}")
    return fields["username"], fields["password"]


def format_login(mechanism: str, user: str, password: str) -> str:
    """The login for a mechanism."""
    module = _MODULES[mechanism.partition("-")[0]]
    return f"{module} required username={_quoted(user)} password={_quoted(password)};"


def _plain(value: str) -> str:
    """A value of a login without its quotes and escapes."""
    if value[0] not in "\"'":
        return value
    return _ESCAPED.sub(lambda match: _LETTERS.get(match[1], match[1]), value[1:-1])


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r") + '"'


def variable_of(name: str) -> str:
    """The environment variable of a property."""
    return "KAFKA_" + re.sub(r"[^A-Z0-9]", "_", name.upper())


def read_properties(file: Path | None) -> dict[str, str]:
    """The given properties under Java's names; user name and password as `sasl.username` and `sasl.password`.

    UsageError, without any value in it, for a file that cannot be read or is not a properties file.
    """
    if file is None and variable_of("security.protocol") not in os.environ:
        return {}
    named = {name: os.environ[variable_of(name)] for name in SECURITY if variable_of(name) in os.environ}
    environment = _in_java_names(named, "the environment")
    if file is None:
        return environment
    in_file = _in_java_names(_read(file), str(file))
    if "security.protocol" not in environment | in_file and any(name.startswith(("sasl.", "ssl.")) for name in in_file):
        raise UsageError(f"{file} has no security.protocol; add security.protocol=SASL_SSL, SSL or SASL_PLAINTEXT")
    superseded = {name for places in _ALTERNATIVES if in_file.keys() & set(places) for name in places}
    return {name: value for name, value in environment.items() if name not in superseded} | in_file


def _read(file: Path) -> dict[str, str]:
    try:
        data = read_small(file)
    except OSError as error:
        raise UsageError(
            f"--kafka-config: cannot read {file}: {error.strerror or 'not a file'}", code="unreadable"
        ) from None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("latin-1")  # as Java reads it
    try:
        properties = javaproperties.loads(text)
    except ValueError:
        properties = {"": ""}
    if "\0" in text or not all(_NAME.fullmatch(name) for name in properties):
        raise UsageError(f"--kafka-config: {file} is not a client properties file; expected NAME=VALUE")
    return properties


def _in_java_names(properties: Mapping[str, str], where: str) -> dict[str, str]:
    """The properties under Java's names, without empty values and those that wmtop sets itself."""
    named = {_JAVA_NAMES.get(name, name): value.strip() for name, value in properties.items() if name not in _OURS}
    _refuse(named, where)
    for name, value in named.items():
        if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
            raise UsageError(
                f"{name} in {where} has a character that is not text (NUL, or half of a pair)", code="text"
            )
    login = named.pop("sasl.jaas.config", "")
    if login and named.get("sasl.mechanism", "PLAIN").upper().startswith(("PLAIN", "SCRAM")):
        try:
            named["sasl.username"], named["sasl.password"] = parse_login(login)
        except ValueError as error:
            raise UsageError(f"sasl.jaas.config in {where} {error}") from None
    return {name: value for name, value in named.items() if value or name == "ssl.endpoint.identification.algorithm"}


def _refuse(named: Mapping[str, str], where: str) -> None:
    """UsageError for a property that only one of the two readers supports."""
    if "config.providers" in named:
        raise UsageError(
            f"config.providers in {where} is not supported; set secrets in the environment, e.g. KAFKA_SASL_PASSWORD"
        )
    if named.get("enable.ssl.certificate.verification", "true").lower() == "false":
        raise UsageError(
            f"enable.ssl.certificate.verification=false in {where} is not supported; "
            "give the broker's authority with ssl.ca.location"
        )
