"""Security settings of a client: a properties file and the environment, under Java's names, logins in Java's form."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

import javaproperties

from ..system.errors import UsageError

_TOKEN = re.compile(
    r"""\s*(?:(?P<quoted>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<word>[\w$.-]+)|(?P<sign>[=;]))""", re.DOTALL
)
_ESCAPED = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def parse_login(text: str) -> tuple[str, str]:
    """User name and password; ValueError, without the secrets, if the text is not a login with both."""
    match _tokens(text):
        case [module, _, *options, ";"] if options[1::3] == ["="] * (len(options) // 3) and len(options) % 3 == 0:
            pass
        case _:
            raise ValueError("""is not '…LoginModule required username="…" password="…";'""")
    if not module.endswith(tuple(name.rpartition(".")[2] for name in _MODULES.values())):
        raise ValueError("has an unsupported login module; use PlainLoginModule or ScramLoginModule")
    found = {options[at]: options[at + 2] for at in range(0, len(options), 3)}
    if found.get("tokenauth", "").lower() == "true":
        raise ValueError("asks for a delegation token, which is not supported")
    for name in ("username", "password"):
        if not found.get(name):
            raise ValueError(f"has no {name}")
    return found["username"], found["password"]


def format_login(mechanism: str, user: str, password: str) -> str:
    """The login for a mechanism."""
    module = _MODULES[mechanism.partition("-")[0]]
    return f"{module} required username={_quoted(user)} password={_quoted(password)};"


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    at, text = 0, text.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            return []
        quoted = found["quoted"]
        tokens.append(found[0].strip() if quoted is None else _ESCAPED.sub(_unescaped, quoted[1:-1]))
        at = found.end()
    return tokens


def _unescaped(found: re.Match[str]) -> str:
    escape = found[1]
    return chr(int(escape, 8)) if escape[0] in "01234567" else _LETTERS.get(escape, escape)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r") + '"'


SECURITY = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.jaas.config",
    "sasl.username",
    "sasl.password",
    "ssl.truststore.location",
    "ssl.truststore.type",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
    "ssl.keystore.location",
    "ssl.keystore.type",
    "ssl.keystore.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.key.location",
    "ssl.key.pem",
)

_JAVA_NAMES = {
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
}
_ALTERNATIVES = (
    {"ssl.truststore.location", "ssl.truststore.certificates"},
    {
        "ssl.keystore.location",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.certificate.location",
        "ssl.key.location",
    },
)
"""Sets of alternatives: if the file sets one of a set, the environment's are ignored."""
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
    given = _in_java_names(_read(file), str(file))
    if "security.protocol" not in environment | given and any(name.startswith(("sasl.", "ssl.")) for name in given):
        raise UsageError(f"{file} has no security.protocol; add security.protocol=SASL_SSL, SSL or SASL_PLAINTEXT")
    superseded = {name for places in _ALTERNATIVES if places & given.keys() for name in places}
    return {name: value for name, value in environment.items() if name not in superseded} | given


def _read(file: Path) -> dict[str, str]:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise UsageError(
            f"--kafka-config: cannot read {file}: {error.strerror or 'not a file'}", code="unreadable"
        ) from None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("latin-1")  # as Java reads it
    try:
        found = javaproperties.loads(text)
    except ValueError:
        found = {"": ""}
    if "\0" in text or not all(_NAME.fullmatch(name) for name in found):
        raise UsageError(f"--kafka-config: {file} is not a client properties file; expected NAME=VALUE")
    return found


def _in_java_names(given: Mapping[str, str], where: str) -> dict[str, str]:
    """The properties under Java's names, without empty values and those that wmtop sets itself."""
    named = {_JAVA_NAMES.get(name, name): value.strip() for name, value in given.items() if name not in _OURS}
    _refuse(named, where)
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
