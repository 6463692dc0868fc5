"""Certificates and keys of a client: PEM texts, files and Java's key stores (PKCS #12, JKS) as PEM for both readers."""

import os
import re
import secrets
import ssl
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates
from cryptography.x509 import Certificate, load_pem_x509_certificates

from ..system.errors import UsageError
from ..system.files import PrivateDirectory
from ..system.java import find_java

_STORE, _KEY, _OURS = "WMTOP_STORE_PASSWORD", "WMTOP_KEY_PASSWORD", "WMTOP_OWN_PASSWORD"
_KEY_ENTRY = re.compile(r"^(?P<alias>.+?), .*PrivateKeyEntry", re.MULTILINE)
_JAVA_ONLY = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
"""The first bytes of JKS and JCEKS stores."""
_BAD = (ValueError, TypeError, UnsupportedAlgorithm)
_PEM = b"-----BEGIN "
Identity = tuple[list[Certificate], PrivateKeyTypes]
"""A certificate with its chain, and its key."""


def _certificates_in(store: Path, kind: str | None, password: str | None) -> list[Certificate]:
    """The trusted certificates of a store; `kind` None: JKS or PKCS #12, by the first bytes."""
    if _is_java_only(store, kind):
        listing = ["-list", "-rfc", *_opening(store, kind, password)]
        certificates = _certificates(_keytool("ssl.truststore", store, listing, {_STORE: password}).encode())
    else:
        certificates = _all_certificates(_opened("ssl.truststore", store, password))
    if not certificates:
        hint = "" if password else "; set ssl.truststore.password"
        raise UsageError(f"ssl.truststore.location: {store} has no certificate{hint}")
    return certificates


def _identity_in(store: Path, kind: str | None, password: str | None, key_password: str | None) -> Identity:
    """The first entry of a store with a key."""
    if password is None:
        raise UsageError(f"ssl.keystore.password is missing; {store} needs it")
    # Only Java's stores have a separate password for a key.
    if _is_java_only(store, kind) or key_password not in (None, password):
        content = _converted(store, kind, password, key_password or password)
    else:
        content = _opened("ssl.keystore", store, password)
    if content.key is None or content.cert is None:
        raise UsageError(f"ssl.keystore.location: {store} has no entry with a key")
    return _chain(content.cert.certificate, _all_certificates(content)), content.key


def _certificates(pem: bytes) -> list[Certificate]:
    """The certificates in a PEM text, among anything else; empty if there is none, or one cannot be read."""
    try:
        return load_pem_x509_certificates(pem)
    except ValueError:
        return []


def _is_java_only(store: Path, kind: str | None) -> bool:
    """Whether only Java can read the store."""
    try:
        with store.open("rb") as file:
            return file.read(4) in _JAVA_ONLY or (kind or "PKCS12").upper() not in ("PKCS12", "JKS")
    except OSError as error:
        raise UsageError(f"cannot read {store}: {error.strerror or 'not a file'}") from None


def _opened(name: str, store: Path, password: str | None) -> PKCS12KeyAndCertificates:
    try:
        return pkcs12.load_pkcs12(store.read_bytes(), None if password is None else password.encode())
    except _BAD as error:
        raise _does_not_open(name, store, str(error)) from None


def _converted(store: Path, kind: str | None, password: str, key_password: str) -> PKCS12KeyAndCertificates:
    """The first entry with a key, copied by keytool into a PKCS #12 store of its own."""
    environment = {_STORE: password, _KEY: key_password, _OURS: secrets.token_hex(16)}
    listed = _keytool("ssl.keystore", store, ["-list", *_opening(store, kind, password)], environment)
    entry = _KEY_ENTRY.search(listed)
    if entry is None:
        raise UsageError(f"ssl.keystore.location: {store} has no entry with a key")
    with PrivateDirectory("wmtop-keys-") as directory:
        copy = directory / "store.p12"
        _keytool("ssl.keystore", store, _copying(store, kind, entry["alias"], copy), environment)
        return _opened("ssl.keystore", copy, environment[_OURS])


def _all_certificates(content: PKCS12KeyAndCertificates) -> list[Certificate]:
    own = [] if content.cert is None else [content.cert]
    return [entry.certificate for entry in [*own, *content.additional_certs]]


def _chain(own: Certificate, others: list[Certificate]) -> list[Certificate]:
    """The certificate and the chain of its issuers, as far as it is in the store."""
    chain = [own]
    while (issuer := _issuer(chain[-1], others)) is not None and issuer not in chain:
        chain.append(issuer)
    return chain


def _issuer(certificate: Certificate, others: list[Certificate]) -> Certificate | None:
    for other in others:
        try:
            certificate.verify_directly_issued_by(other)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return other
    return None


def _pem(certificates: Iterable[Certificate]) -> str:
    return "".join(certificate.public_bytes(Encoding.PEM).decode() for certificate in certificates)


def _opening(store: Path, kind: str | None, password: str | None) -> list[str]:
    options = ["-keystore", str(store)]
    options += ["-storetype", kind] if kind else []
    return options + (["-storepass:env", _STORE] if password else [])


def _copying(store: Path, kind: str | None, alias: str, copy: Path) -> list[str]:
    options = ["-importkeystore", "-noprompt", "-srckeystore", str(store), "-srcstorepass:env", _STORE]
    options += ["-srcstoretype", kind] if kind else []
    options += ["-srcalias", alias, "-srckeypass:env", _KEY]
    options += ["-destkeystore", str(copy), "-deststoretype", "PKCS12"]
    return [*options, "-deststorepass:env", _OURS, "-destkeypass:env", _OURS]


def _keytool(name: str, store: Path, options: list[str], environment: Mapping[str, str | None]) -> str:
    keytool = find_java().home / "bin" / "keytool"
    variables = {variable: value for variable, value in environment.items() if value is not None}
    done = subprocess.run(
        [str(keytool), "-J-Duser.language=en", *options],
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        reason = lines[0].removeprefix("keytool error: ").rpartition("Exception: ")[2] if lines else "no reason given"
        raise _does_not_open(name, store, reason)
    return done.stdout


def _does_not_open(name: str, store: Path, reason: str) -> UsageError:
    return UsageError(
        f"{name}.location: cannot open {store}: {reason}; check {name}.password and {name}.type", code="not_opened"
    )


def tls_context(value: Callable[[str], str | None]) -> ssl.SSLContext:
    """The SSL context for Python's connections, by the `value` of each property that `tls_properties` gives (None: not
    given; without authorities the system's are trusted); UsageError for unusable certificates and keys.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = value("ssl.endpoint.identification.algorithm") != ""
    authorities, file = value("ssl.truststore.certificates"), value("ssl.truststore.location")
    if authorities is None and file is None:
        context.load_default_certs()
    else:
        try:
            context.load_verify_locations(cafile=file, cadata=authorities)
        except OSError as error:  # SSLError is one
            name = "ssl.truststore.location" if authorities is None else "ssl.truststore.certificates"
            raise UsageError(f"{name}: cannot read a certificate: {_reason(error)}") from None
    chain, key = value("ssl.keystore.certificate.chain"), value("ssl.keystore.key")
    if chain is not None and key is not None:
        _identify(context, chain, key)
    return context


def tls_properties(settings: Mapping[str, str]) -> dict[str, str]:
    """The TLS properties of Java's client, with certificates and keys as PEM; UsageError for unusable ones.

    Keys are PKCS #8 without a password, the only form that Kafka's Java client reads on every Java version.
    """
    check = settings.get("ssl.endpoint.identification.algorithm", "https").lower()
    if check not in ("https", "", "none"):
        raise UsageError("ssl.endpoint.identification.algorithm must be https, or empty to skip the host name check")
    return {
        "ssl.endpoint.identification.algorithm": "https" if check == "https" else "",
        **_trusted(settings),
        **_identity(settings),
    }


def _identify(context: ssl.SSLContext, chain: str, key: str) -> None:
    """Load certificate and key from a private, temporary file: Python reads them only from files."""
    with PrivateDirectory("wmtop-keys-") as directory:
        file = directory / "identity.pem"
        file.write_text(chain + key)
        try:
            context.load_cert_chain(file, password="")  # None would ask the terminal
        except ssl.SSLError as error:
            is_mismatch = error.reason == "KEY_VALUES_MISMATCH"
            what = "and its key do not match" if is_mismatch else f"or key cannot be used: {_reason(error)}"
            raise UsageError(f"the client's certificate {what}; check ssl.keystore.* in --kafka-config") from None


def _trusted(settings: Mapping[str, str]) -> dict[str, str]:
    if (text := settings.get("ssl.truststore.certificates")) is not None:
        certificates = _certificates(text.encode())
        if not certificates:
            raise UsageError("ssl.truststore.certificates has no PEM certificate")
        return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _pem(certificates)}
    if (location := settings.get("ssl.truststore.location")) is None:
        return {}
    path = Path(location).absolute()
    if _PEM in _read("ssl.truststore.location", path):
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(path)}
    store = settings.get("ssl.truststore.type"), settings.get("ssl.truststore.password")
    return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _pem(_certificates_in(path, *store))}


def _identity(settings: Mapping[str, str]) -> dict[str, str]:
    """The client's certificate and key, if it has one."""
    texts = [settings[name] for name in ("ssl.keystore.certificate.chain", "ssl.keystore.key") if name in settings]
    pem = [text.encode() for text in texts]
    locations = ("ssl.certificate.location", "ssl.key.location")
    pem += [_read(name, Path(settings[name])) for name in locations if name in settings]
    location, password = settings.get("ssl.keystore.location"), settings.get("ssl.key.password")
    if not pem and location is not None and _PEM in (data := _read("ssl.keystore.location", Path(location))):
        pem = [data]
    if pem:
        chain, key = _identity_of(b"\n".join(pem), password)
    elif location is not None:
        store = settings.get("ssl.keystore.type"), settings.get("ssl.keystore.password")
        chain, key = _identity_in(Path(location), *store, password)
    else:
        return {}
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": _pem(chain),
        "ssl.keystore.key": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
    }


def _identity_of(pem: bytes, password: str | None) -> Identity:
    """The certificate, its chain and its key in a PEM text; in a properties file its lines may be joined."""
    for what, mark in (("key", b"PRIVATE KEY-----"), ("certificate", b"CERTIFICATE-----")):
        if mark not in pem:
            raise UsageError(
                f"the client's {what} is missing; give both with ssl.keystore.location, "
                "or with ssl.certificate.location and ssl.key.location (PEM)"
            )
    chain, is_encrypted = _certificates(pem), b"ENCRYPTED" in pem
    if not chain:
        raise UsageError("cannot read the client's certificate; check ssl.keystore.* in --kafka-config")
    try:
        return chain, load_pem_private_key(pem, (password or "").encode() if is_encrypted else None)
    except _BAD:
        if not is_encrypted:
            raise UsageError("cannot read the client's key; check ssl.keystore.* in --kafka-config") from None
        advice = "set" if password is None else "check"
        raise UsageError(f"cannot decrypt the client's key; {advice} ssl.key.password") from None


def _read(name: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{name}: cannot read {path}: {error.strerror or 'not a file'}") from None


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "not PEM").replace("_", " ").lower()
    return error.strerror or os.strerror(error.errno or 0)
