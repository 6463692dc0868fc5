"""Certificates and keys of a Kafka client: from PEM texts, files and Java's key stores to PEM for both readers."""

import os
import re
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from ...errors import UsageError
from .key_store import certificates_in, key_in, plain_key

_BLOCK = re.compile(r"-----BEGIN (?P<kind>[A-Z0-9 ]+)-----(?P<body>.*?)-----END (?P=kind)-----", re.DOTALL)
_LINE = re.compile(r".{1,64}")
_PEM = b"-----BEGIN "


class TlsMaterial(Struct, frozen=True, kw_only=True):
    """PEM texts and what to verify; `authorities` and `authorities_file` None: the system's authorities."""

    authorities: str | None
    authorities_file: str | None
    chain: str | None
    key: str | None
    """PKCS #8 without a password, the only form that Kafka's Java client reads on every Java version."""
    checks_name: bool

    def __repr__(self) -> str:
        return "TlsMaterial()"


def tls_context(material: TlsMaterial) -> ssl.SSLContext:
    """The SSL context for Python's connections; UsageError for unusable certificates and keys."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = material.checks_name
    if material.authorities is None and material.authorities_file is None:
        context.load_default_certs()
    else:
        _trust(context, material)
    if material.chain is not None and material.key is not None:
        _identify(context, material.chain, material.key)
    return context


def tls_properties(given: Mapping[str, str]) -> dict[str, str]:
    """The TLS properties of Java's client, with certificates and keys as PEM; UsageError for unusable ones."""
    check = given.get("ssl.endpoint.identification.algorithm", "https").lower()
    if check not in ("https", "", "none"):
        raise UsageError("ssl.endpoint.identification.algorithm must be https, or empty to skip the host name check")
    return {
        "ssl.endpoint.identification.algorithm": "https" if check == "https" else "",
        **_trusted(given),
        **_identity(given),
    }


def _trust(context: ssl.SSLContext, material: TlsMaterial) -> None:
    name = "ssl.truststore.location" if material.authorities is None else "ssl.truststore.certificates"
    try:
        context.load_verify_locations(cafile=material.authorities_file, cadata=material.authorities)
    except OSError as error:  # SSLError is one
        raise UsageError(f"{name}: cannot read a certificate: {_reason(error)}") from None


def _identify(context: ssl.SSLContext, chain: str, key: str) -> None:
    """Load certificate and key from a private, temporary file: Python reads them only from files."""
    with tempfile.NamedTemporaryFile("w", prefix="wmtop-", suffix=".pem") as file:  # mode 0600
        file.write(chain + key)
        file.flush()
        try:
            context.load_cert_chain(file.name, password="")  # None would ask the terminal
        except ssl.SSLError as error:
            raise UsageError(_why_unusable(error)) from None


def _why_unusable(error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the client's certificate and its key do not match; check ssl.keystore.* in --kafka-config"
    return f"the client's certificate or key cannot be read: {_reason(error)}; check ssl.keystore.* in --kafka-config"


def _why_closed(key: str, password: str | None) -> str:
    if "ENCRYPTED" in key:
        return f"cannot decrypt the client's key; {'set' if password is None else 'check'} ssl.key.password"
    return "cannot read the client's key; check ssl.keystore.* in --kafka-config"


def _trusted(given: Mapping[str, str]) -> dict[str, str]:
    if (text := given.get("ssl.truststore.certificates")) is not None:
        certificates = _blocks(text, "CERTIFICATE")
        if not certificates:
            raise UsageError("ssl.truststore.certificates has no PEM certificate")
        return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": certificates}
    if (location := given.get("ssl.truststore.location")) is None:
        return {}
    path = Path(location).absolute()
    if _PEM in _read("ssl.truststore.location", path):
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(path)}
    store = given.get("ssl.truststore.type"), given.get("ssl.truststore.password")
    certificates = _blocks(certificates_in(path, *store), "CERTIFICATE")
    return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": certificates}


def _identity(given: Mapping[str, str]) -> dict[str, str]:
    """The client's certificate and key, if it has one."""
    pem, password = _identity_pem(given), given.get("ssl.key.password")
    if pem is None:
        return {}
    chain, key = _blocks(pem, "CERTIFICATE"), _blocks(pem, "PRIVATE KEY")
    if not chain or not key:
        missing = "certificate" if key else "key"
        raise UsageError(
            f"the client's {missing} is missing; give both with ssl.keystore.location, "
            "or with ssl.certificate.location and ssl.key.location (PEM)"
        )
    try:
        key = plain_key(key, password)
    except ValueError:
        raise UsageError(_why_closed(key, password)) from None
    return {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": chain, "ssl.keystore.key": key}


def _identity_pem(given: Mapping[str, str]) -> str | None:
    texts = [given[name] for name in ("ssl.keystore.certificate.chain", "ssl.keystore.key") if name in given]
    locations = ("ssl.certificate.location", "ssl.key.location")
    texts += [_text(_read(name, Path(given[name]))) for name in locations if name in given]
    if texts:
        return "\n".join(texts)
    if (location := given.get("ssl.keystore.location")) is None:
        return None
    path = Path(location)
    data = _read("ssl.keystore.location", path)
    if _PEM in data:
        return _text(data)
    kind, password = given.get("ssl.keystore.type"), given.get("ssl.keystore.password")
    return key_in(path, kind, password, given.get("ssl.key.password"))


def _read(name: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{name}: cannot read {path}: {error.strerror or 'not a file'}") from None


def _text(data: bytes) -> str:
    return data.decode("ascii", errors="replace")


def _blocks(text: str, kind: str) -> str:
    """The PEM blocks of a kind, in lines, without the text around them; empty if there are none.

    In properties files the lines of a PEM text are often joined, which Java accepts and OpenSSL does not.
    """
    return "".join(_in_lines(found) for found in _BLOCK.finditer(text) if found["kind"].endswith(kind))


def _in_lines(block: re.Match[str]) -> str:
    if ":" in block["body"]:  # headers, as in keys encrypted in the old format
        return block[0] + "\n"
    body = "\n".join(_LINE.findall("".join(block["body"].split())))
    return f"-----BEGIN {block['kind']}-----\n{body}\n-----END {block['kind']}-----\n"


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "not PEM").replace("_", " ").lower()
    return error.strerror or os.strerror(error.errno or 0)
