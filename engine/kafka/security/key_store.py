"""Java's key stores and encrypted keys as PEM: PKCS #12 by `cryptography`, JKS by the JDK's keytool.

keytool gets passwords by environment, never as arguments, which other users of the machine can see.
"""

import os
import re
import secrets
import subprocess
import tempfile
from collections.abc import Mapping
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
from cryptography.x509 import Certificate

from ...errors import UsageError
from ...java import find_java

_STORE, _KEY, _OURS = "WMTOP_STORE_PASSWORD", "WMTOP_KEY_PASSWORD", "WMTOP_OWN_PASSWORD"
_KEY_ENTRY = re.compile(r"^(?P<alias>.+?), .*PrivateKeyEntry", re.MULTILINE)
_JAVA_ONLY = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
"""The first bytes of JKS and JCEKS stores."""
_BAD_STORE = (ValueError, TypeError, UnsupportedAlgorithm)


def certificates_in(store: Path, kind: str | None, password: str | None) -> str:
    """The trusted certificates of a store, as PEM; `kind` None: JKS or PKCS #12, by the first bytes."""
    if _is_java_only(store, kind):
        listing = ["-list", "-rfc", *_opening(store, kind, password)]
        found = _keytool("ssl.truststore", store, listing, {_STORE: password})
    else:
        found = "".join(map(_certificate_pem, _certificates(_opened("ssl.truststore", store, password))))
    if "-----BEGIN" not in found:
        hint = "" if password else "; set ssl.truststore.password"
        raise UsageError(f"ssl.truststore.location: {store} has no certificate{hint}")
    return found


def key_in(store: Path, kind: str | None, password: str | None, key_password: str | None) -> str:
    """Certificate, its chain and its key of the first entry with a key, as PEM, not encrypted."""
    if password is None:
        raise UsageError(f"ssl.keystore.password is missing; {store} needs it")
    # Only Java's stores have a separate password for a key.
    if _is_java_only(store, kind) or key_password not in (None, password):
        content = _converted(store, kind, password, key_password or password)
    else:
        content = _opened("ssl.keystore", store, password)
    if content.key is None or content.cert is None:
        raise UsageError(f"ssl.keystore.location: {store} has no entry with a key")
    chain = _chain(content.cert.certificate, _certificates(content))
    return "".join(map(_certificate_pem, chain)) + _key_pem(content.key)


def plain_key(key: str, password: str | None) -> str:
    """A PEM key as PKCS #8 without a password; ValueError if the password is wrong or it is not a key."""
    data = key.encode()
    encrypted = "ENCRYPTED" in key
    try:
        opened = load_pem_private_key(data, (password or "").encode() if encrypted else None)
    except (TypeError, UnsupportedAlgorithm) as error:
        raise ValueError(str(error)) from None
    return opened.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


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
    except _BAD_STORE as error:
        raise _does_not_open(name, store, str(error)) from None


def _converted(store: Path, kind: str | None, password: str, key_password: str) -> PKCS12KeyAndCertificates:
    """The first entry with a key, copied by keytool into a PKCS #12 store of its own."""
    environment = {_STORE: password, _KEY: key_password, _OURS: secrets.token_hex(16)}
    listed = _keytool("ssl.keystore", store, ["-list", *_opening(store, kind, password)], environment)
    entry = _KEY_ENTRY.search(listed)
    if entry is None:
        raise UsageError(f"ssl.keystore.location: {store} has no entry with a key")
    with tempfile.TemporaryDirectory(prefix="wmtop-") as directory:  # mode 0700
        copy = Path(directory, "store.p12")
        _keytool("ssl.keystore", store, _copying(store, kind, entry["alias"], copy), environment)
        return _opened("ssl.keystore", copy, environment[_OURS])


def _certificates(content: PKCS12KeyAndCertificates) -> list[Certificate]:
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


def _certificate_pem(certificate: Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def _key_pem(key: PrivateKeyTypes) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


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
    given = {variable: value for variable, value in environment.items() if value is not None}
    done = subprocess.run(
        [str(keytool), "-J-Duser.language=en", *options],
        env={**os.environ, **given},
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
