"""Makes a `KafkaConfig` that both readers understand from the security settings."""

import os
from collections.abc import Mapping
from pathlib import Path

from ...errors import UsageError
from ..config import TIMING, KafkaConfig, reference
from .client_properties import SECURITY, read_properties, variable_of
from .jaas import format_login
from .tls import tls_properties

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
